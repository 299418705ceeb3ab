"""ML-GCN: a head that computes the classifier of each label by a graph network over labels that occur together."""

import logging
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from mmengine.logging import print_log
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from ..registry import MODELS
from .heads import MultiLabelHead
from .word_vectors import load_word_vectors, width_of_words

# Rows of labels that are counted at once: all labels of Open Images would not fit into memory as floats.
BLOCK_ROWS = 1 << 14


@MODELS.register_module()
class GCNHead(MultiLabelHead):
    """Head of ML-GCN (Chen et al., 2019), whose linear classifiers are computed by a graph network over the labels.

    The nodes of the graph are the labels, given as word vectors of their names. Edges lead from a label to labels that
    often occur with it in the training set. ``mmml_losses.TrainingSetHook`` passes the training labels to the head. Two
    graph convolutions turn the word vectors into one weight vector per label, the label's classifier. The logit of a
    label is the dot product of its classifier and the image features. Checkpoints contain the graph, so that a test
    needs no training set. The graph of a new training set replaces it, with a warning if they differ.

    The authors max-pool the feature maps of the last stage; here the neck ``mmml_losses.GlobalMaxPooling`` does so.

    Args:
        num_classes: Number of labels.
        in_channels: Number of image features from the last stage.
        word_vectors: File that :func:`mmml_losses.models.word_vectors.load_word_vectors` reads; None: one-hot vectors.
        class_names: Class names, or a text file with one per line, to be looked up in a file with a vector per word. By
            default the names in the training set, which ``mmml_losses.TrainingSetHook`` passes to the head.
        hidden_channels: Length of the label vectors between the two graph convolutions.
        threshold: The paper's tau: an edge goes from i to j if this fraction of the images with i, or more, has j.
        neighbour_weight: The paper's p: total weight of the neighbours of a label; its own weight is 1 - p.
        **kwargs: ``loss``, ``thr``, ``topk`` and ``init_cfg`` of :class:`MultiLabelHead`.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        word_vectors: str | Path | None = None,
        class_names: Sequence[str] | str | Path | None = None,
        hidden_channels: int = 1024,
        threshold: float = 0.4,
        neighbour_weight: float = 0.2,
        **kwargs,
    ):
        waiting, width = None, None
        if word_vectors is not None and class_names is None:
            width = width_of_words(word_vectors)
        if width is not None:
            waiting, vectors = word_vectors, torch.zeros(num_classes, width)
        elif word_vectors is None:
            vectors = torch.eye(num_classes)
        else:
            vectors = load_word_vectors(word_vectors, num_classes, class_names)
        classifier = GraphClassifier(vectors, hidden_channels, in_channels, threshold, neighbour_weight, waiting)
        super().__init__(num_classes, classifier=classifier, **kwargs)


class GraphClassifier(nn.Module):
    """Module of :class:`GCNHead` that computes a weight vector per label, and logits as products with image features.

    Args:
        word_vectors: A vector for the name of each label, (C, D), the input of the graph convolutions.
        hidden_channels: Length of the label vectors between the two graph convolutions.
        in_channels: Number of image features, and so the length of each weight vector.
        threshold: Smallest fraction of the training images with label i that also has j, for an edge from i to j.
        neighbour_weight: Total weight of the neighbours of a label in the graph; its own weight is 1 minus this.
        word_file: File with a vector per word, which replaces ``word_vectors`` when the class names are known.
    """

    adjacency: Tensor

    word_vectors: Tensor

    def __init__(
        self,
        word_vectors: Tensor,
        hidden_channels: int,
        in_channels: int,
        threshold: float,
        neighbour_weight: float,
        word_file: str | Path | None = None,
    ):
        super().__init__()
        if not 0 < threshold <= 1:
            raise ValueError(f'threshold must be in (0, 1], got {threshold}')
        if not 0 <= neighbour_weight < 1:
            raise ValueError(f'neighbour_weight must be in [0, 1), got {neighbour_weight}')
        self.threshold = threshold
        self.neighbour_weight = neighbour_weight
        self.in_features = in_channels
        self.word_file = word_file
        classes, width = word_vectors.shape
        self.register_buffer('word_vectors', word_vectors)
        self.register_buffer('adjacency', torch.zeros(classes, classes))  # zeros until it is known
        self.counted = False  # whether the graph is of the training set and not of a checkpoint
        self.first = _graph_weight(width, hidden_channels)
        self.second = _graph_weight(hidden_channels, in_channels)

    @property
    def wants_training_labels(self) -> bool:
        """Return True until the graph is computed from the training set, even if a checkpoint has given one."""
        return not self.counted

    def see_class_names(self, names: Sequence[str]) -> None:
        """Look the class names of the training set up in ``word_file``, if there is one."""
        if self.word_file is not None:
            self.word_vectors.copy_(load_word_vectors(self.word_file, len(self.word_vectors), names))
            print_log(f'Word vectors of {len(names)} class names are from {self.word_file}', logger='current')

    def see_training_labels(self, labels: Tensor, sample_idx: Tensor) -> None:
        """Compute the graph from the labels of the training set.

        Args:
            labels: Labels of M images, (M, C): 1 positive, 0 negative, -1 unknown, or soft, which counts as a fraction.
            sample_idx: Indices of the images in the dataset, (M,); not used.
        """
        classes = len(self.adjacency)
        if labels.dim() != 2 or labels.size(1) != classes:
            raise ValueError(f'labels must be of shape (M, {classes}), got {tuple(labels.shape)}')
        graph = label_graph(conditional_probabilities(labels), self.threshold, self.neighbour_weight)
        before, self.adjacency = self.adjacency, graph.to(self.adjacency)
        self.counted = True
        joined = int((graph > 0).sum()) - classes
        print_log(
            f'The label graph has {joined:,} edges between {classes:,} classes'
            + ('' if joined else ': no label comes with another one often enough, and each learns alone'),
            logger='current',
            level=logging.INFO if joined else logging.WARNING,
        )
        self._warn_if_other(before)

    def classifiers(self) -> Tensor:
        """Return a weight vector for each label, (C, ``in_channels``).

        Raise a ValueError if the graph, or the word vectors of a ``word_file``, are not known.
        """
        if not self.adjacency.any():
            raise ValueError(
                "GCNHead does not know which labels occur together: add dict(type='mmml_losses.TrainingSetHook') to "
                'custom_hooks, load a checkpoint, or call see_training_labels(labels, sample_idx) of its fc, and with '
                'a file of word vectors see_class_names(names)'
            )
        if self.word_file is not None and not self.word_vectors.any():
            raise ValueError(
                f'GCNHead does not know the word vectors of its classes from {str(self.word_file)!r}: set class_names, '
                "add dict(type='mmml_losses.TrainingSetHook') to custom_hooks, load a checkpoint, or call "
                'see_class_names(names) of its fc'
            )
        hidden = leaky_relu(self.adjacency @ (self.word_vectors @ self.first), negative_slope=0.2)
        return self.adjacency @ (hidden @ self.second)

    def forward(self, features: Tensor) -> Tensor:
        """Return logits (N, C) of image features (N, ``in_channels``)."""
        return features @ self.classifiers().T

    def _warn_if_other(self, adjacency: Tensor) -> None:
        if adjacency.any() and not torch.allclose(adjacency.to(self.adjacency), self.adjacency):
            print_log(
                'The label graph of the training set is used; the checkpoint was trained with another one.',
                logger='current',
                level=logging.WARNING,
            )

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args, **kwargs) -> None:
        own, key = self.adjacency.clone(), f'{prefix}adjacency'
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        if self.counted and key in state_dict and state_dict[key].shape == own.shape:
            self.adjacency = own
            self._warn_if_other(state_dict[key])


def conditional_probabilities(labels: Tensor) -> Tensor:
    """Return the fraction of the samples with label i that also have label j, at row i and column j: (C, C) float64.

    Args:
        labels: Labels of M samples, (M, C): 1 positive, 0 negative, -1 unknown, or soft, which counts as a fraction.
            Samples with i or j unknown are left out of the fraction. If no sample is left, it is 0.
    """
    classes = labels.size(1)
    together, known = (torch.zeros(classes, classes, dtype=torch.float64) for _ in range(2))
    for block in labels.cpu().split(BLOCK_ROWS):
        positive = block.clamp(min=0).float()
        together += positive.T @ positive
        known += positive.T @ (block >= 0).float()
    return together / torch.where(known > 0, known, 1)


def label_graph(probabilities: Tensor, threshold: float, neighbour_weight: float) -> Tensor:
    r"""Return :math:`\hat A`, the normalised weights of the edges between labels, (C, C).

    Label j is a neighbour of i if :math:`B_{ij} = [P(j|i) \ge \tau]` is 1 (Chen et al., re-weighted as in their Eq. 8):

    .. math::
        A_{ij} = p\,B_{ij} \Big/ \sum_{k \ne i} B_{ik}\quad (i \ne j),\qquad A_{ii} = 1 - p,\qquad
        \hat A = D^{-1/2} A D^{-1/2}

    :math:`D` is the diagonal matrix of the row sums of :math:`A`. If i has no neighbours, :math:`A_{ij}` is 0. To scale
    :math:`A` leaves :math:`\hat A` unchanged: an identity plus neighbours of weight :math:`p / (1 - p)` is the same.

    Args:
        probabilities: :math:`P(j|i)` at row i and column j, (C, C). The diagonal is ignored.
        threshold: :math:`\tau`, smallest probability of an edge.
        neighbour_weight: :math:`p`, total weight of the neighbours of a label.
    """
    neighbours = (probabilities >= threshold).to(probabilities.dtype).fill_diagonal_(0)
    shares = neighbours / neighbours.sum(dim=1, keepdim=True).clamp(min=1)
    graph = neighbour_weight * shares
    graph.diagonal().fill_(1 - neighbour_weight)
    scale = graph.sum(dim=1).rsqrt()
    return scale.unsqueeze(1) * graph * scale


def _graph_weight(in_channels: int, out_channels: int) -> nn.Parameter:
    bound = 1 / math.sqrt(out_channels)
    return nn.Parameter(torch.empty(in_channels, out_channels).uniform_(-bound, bound))
