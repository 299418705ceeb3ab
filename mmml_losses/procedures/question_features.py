"""Write features of the questions and images of VQA v2 for :class:`mmml_losses.datasets.FeatureDataset`."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

from ..datasets import VQASoftAnswers
from ..engine.resuming import Plain
from ..utils.errors import UsageError
from ..utils.files import FeatureFile
from .extract_features import FeatureParts

TextEncoder = Callable[[Sequence[str]], np.ndarray]


def load_text_encoder(name: str, device: str = 'cpu') -> TextEncoder:
    """Return a function from a list of n texts to features (n, D).

    Args:
        name: Folder of a model of Hugging Face's transformers, whose last hidden states are averaged over the tokens of
            a text; or ``module:function``, a function of one's own.
        device: Where the model of a folder runs.
    """
    if Path(name).expanduser().is_dir():
        return _transformer(str(Path(name).expanduser()), device)
    module, _, function = name.partition(':')
    if not function:
        raise UsageError(f'--encoder must be a folder of a transformers model, or module:function, got {name!r}')
    try:
        return getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UsageError(f'--encoder {name!r} cannot be imported: {error}') from None


def _transformer(folder: str, device: str) -> TextEncoder:
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise UsageError(f"--encoder {folder} needs transformers: pip install 'mmml_losses[text]'") from None
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True).to(device).eval()

    @torch.inference_mode()
    def encode(texts: Sequence[str]) -> np.ndarray:
        tokens = tokenizer(list(texts), padding=True, truncation=True, return_tensors='pt').to(device)
        states, mask = model(**tokens).last_hidden_state, tokens['attention_mask'].unsqueeze(-1)
        return ((states * mask).sum(dim=1) / mask.sum(dim=1)).float().cpu().numpy()

    return encode


def image_rows(file: str, questions: VQASoftAnswers) -> tuple[np.ndarray, np.ndarray]:
    """Return (features (M, D) of the images in ``file``, row of the image of each question, (N,)).

    ``file`` is written by ``tools/extract_features.py``; images are found by their file names in its arrays of ids.
    """
    arrays = FeatureFile(Path(file))
    splits = [name.removesuffix('_ids') for name in arrays.names if name.endswith('_ids')]
    wanted = [Path(questions.get_data_info(idx)['img_path']).name for idx in range(len(questions))]
    for split in splits:
        ids = [Path(str(name)).name for name in arrays.array(f'{split}_ids').values.tolist()]
        row_of = {name: row for row, name in enumerate(ids)}
        if wanted[0] not in row_of:
            continue
        missing = [name for name in wanted if name not in row_of]
        if missing:
            raise UsageError(f'--images {file}: {split}_ids lacks {missing[0]}, which questions are about')
        return arrays.array(f'{split}_features').values, np.array([row_of[name] for name in wanted])
    raise UsageError(f'--images {file} must have the images of the questions, such as {wanted[0]}, in an array of ids')


def write_question_features(
    out: Path,
    splits: Mapping[str, VQASoftAnswers],
    images: str,
    encode: TextEncoder,
    settings: Mapping[str, Plain],
    batch_size: int = 256,
) -> None:
    """Write features (question, then image), labels and question ids of ``splits`` to ``out``, an ``.npz`` file.

    An interrupted call with the same ``settings`` goes on. Labels are float16 where they are soft, or else int8.
    """
    parts = FeatureParts(out, settings, 'float16')
    arrays = {}
    for name, questions in splits.items():
        features, rows = image_rows(images, questions)
        for start in range(parts.count(name), len(questions), batch_size):
            places = range(start, min(start + batch_size, len(questions)))
            texts = np.asarray(encode([questions.get_data_info(idx)['question'] for idx in places]))
            if texts.ndim != 2 or len(texts) != len(places):
                raise UsageError(
                    f'--encoder must give an array ({len(places)}, D) for {len(places)} texts, '
                    f'got the shape {texts.shape}'
                )
            parts.add(name, np.concatenate([texts, features[rows[places]]], axis=1))
        ids = questions.question_ids()
        kind = np.int8 if questions.score_rule == 'any' else np.float16
        arrays[name] = dict(labels=questions.soft_labels(ids).astype(kind), ids=ids)
    classes = np.array(next(iter(splits.values())).CLASSES, dtype=str)
    parts.join(arrays, classes=classes)
