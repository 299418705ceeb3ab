"""Prediction of labels for image files and folders."""

from pathlib import Path

import numpy as np
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmpretrain.apis import ImageClassificationInferencer
from mmpretrain.structures import DataSample

from ..hosts.checkpoints import check_checkpoint
from ..hosts.loss_places import warn_of_other_loss

IMAGE_SUFFIXES = ('.bmp', '.jpeg', '.jpg', '.png', '.tif', '.tiff', '.webp')


class MultiLabelInferencer(ImageClassificationInferencer):
    """Callable that predicts the labels of images by a trained multi-label classifier.

    MMPretrain's inferencer returns one label per image. This one returns every label that the head predicts, the most
    probable first. It never runs the config text inside a checkpoint.

    Args:
        config: Config of the model, or the path of its file.
        checkpoint: Path of a checkpoint with the trained weights.
        device: Device to run on, the CPU by default.
        classes: Class names; by default the names in the checkpoint. Without any, labels are class indices.

    Example:
        >>> inferencer = MultiLabelInferencer('configs/spa_lpr_digits.py', 'work_dirs/spa_lpr_digits/epoch_12.pth')
        >>> inferencer('data/digit_scenes/test', batch_size=64)
        [{'img_path': 'data/digit_scenes/test/000001.png', 'labels': ['3', '7'], 'probabilities': [0.97, 0.62], ...}]
    """

    def __init__(
        self,
        config: str | Path | Config,
        checkpoint: str | Path,
        device: str | None = None,
        classes: list[str] | None = None,
    ):
        if not isinstance(config, Config):
            config = Config.fromfile(config)
        warn_of_other_loss(check_checkpoint(checkpoint), config)
        # A Runner of another project may have left its scope, but the pipeline's names are MMPretrain's.
        with DefaultScope.overwrite_default_scope('mmpretrain'):
            super().__init__(config, pretrained=str(checkpoint), device=device, classes=classes)
        num_classes = getattr(self.model.head, 'num_classes', None)
        if self.classes and num_classes and len(self.classes) != num_classes:
            raise ValueError(f'classes must be {num_classes} names, got {len(self.classes)}')

    def __call__(
        self, inputs: str | Path | np.ndarray | list, return_datasamples: bool = False, batch_size: int = 1, **kwargs
    ) -> list[dict] | list[DataSample]:
        """Predict the labels of images.

        Args:
            inputs: An image file, a folder (not its subfolders), an array (H, W, 3) in BGR, or a list of such inputs.
            return_datasamples: Whether to return a list of MMPretrain's ``DataSample`` instead of dicts.
            batch_size: Number of images per forward pass.
            **kwargs: ``show_dir`` and the other drawing arguments of MMPretrain's inferencer.

        Returns:
            A list with a dict per image: ``img_path`` (None for an array); ``labels``, a list of the predicted class
            names, or indices if no names are known, most probable first; ``probabilities``, a list for these
            labels; and ``scores``, an array (C,) of the probabilities of all classes.
        """
        images = self._inputs_to_list(inputs)
        results = super().__call__(images, return_datasamples, batch_size, **kwargs)
        if not return_datasamples:
            for image, result in zip(images, results, strict=True):
                result['img_path'] = image if isinstance(image, str) else None
        return results

    def _inputs_to_list(self, inputs) -> list:
        if isinstance(inputs, (list, tuple)):
            return [image for item in inputs for image in self._inputs_to_list(item)]
        if isinstance(inputs, np.ndarray):
            return [inputs]
        path = Path(inputs)
        if path.is_file():
            return [str(path)]
        if not path.is_dir():
            raise FileNotFoundError(f'inputs must be an image file or a folder, and {path} is neither')
        images = sorted(str(file) for file in path.iterdir() if file.suffix.lower() in IMAGE_SUFFIXES)
        if not images:
            raise FileNotFoundError(f'inputs must hold images ({", ".join(IMAGE_SUFFIXES)}), {path} has none')
        return images

    def postprocess(
        self, preds: list[DataSample], visualization: list | None, return_datasamples: bool = False
    ) -> list[dict] | list[DataSample]:
        return preds if return_datasamples else [self._describe(sample) for sample in preds]

    def _describe(self, sample: DataSample) -> dict:
        scores = sample.pred_score.float().cpu().numpy()
        labels = sample.pred_label.cpu().numpy()
        labels = labels[np.argsort(-scores[labels], kind='stable')]
        return {
            'labels': [self.classes[label] if self.classes else int(label) for label in labels],
            'probabilities': scores[labels].tolist(),
            'scores': scores,
        }
