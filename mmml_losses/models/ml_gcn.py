"""ML-GCN: a head whose classifiers come from a graph network over the labels that occur together."""

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
from .word_vectors import load_word_vectors

# Rows of labels that are counted at once: all labels of Open Images would not fit into memory as floats.
BLOCK_ROWS = 1 << 14


@MODELS.register_module()
class GCNHead(MultiLabelHead):
    """ML-GCN (Chen et al., 2019): a head that computes the classifier of each label by a graph network over the labels.

    The nodes of the graph are the labels, with word vectors of their names. An edge joins a label to those that often
    occur with it in the training set, whose labels ``mmml_losses.TrainingSetHook`` passes to the head. Two graph
    convolutions turn the word vectors into one weight vector for each label, its classifier. The logit of a label is
    the product of its classifier with the image features. The checkpoint has the graph, so that a test needs no
    training set. The graph of a new training set replaces the graph of a checkpoint, with a warning if they differ.

    The authors pool the maps of the last stage by their maximum; here the neck does so
    (``mmml_losses.GlobalMaxPooling``).

    Args:
        num_classes: Number of labels.
        in_channels: Width of the features of the last stage.
        word_vectors: A file with vectors for the names, see
            :func:`mmml_losses.models.word_vectors.load_word_vectors`. None for a one-hot vector for each class.
        class_names: Names of the classes, or a text file with one in each line; needed if the file has words.
        hidden_channels: Width of the label vectors between the two graph convolutions.
        threshold: The paper's tau: there is an edge from label i to label j if the share of j among the training
            images with i is at least this.
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
        if word_vectors is None:
            vectors = torch.eye(num_classes)
        else:
            vectors = load_word_vectors(word_vectors, num_classes, class_names)
        classifier = GraphClassifier(vectors, hidden_channels, in_channels, threshold, neighbour_weight)
        super().__init__(num_classes, classifier=classifier, **kwargs)


class GraphClassifier(nn.Module):
    """Module of :class:`GCNHead` that computes the logits: products of image features with a classifier of each label.

    Args:
        word_vectors: (C, D), a vector for the name of each of the C labels, from which its classifier is computed.
        hidden_channels: Width of the label vectors between the two graph convolutions.
        in_channels: Width of the image features, and so of the classifiers.
        threshold: Smallest share of j among the training images with i for an edge of the graph from label i to j.
        neighbour_weight: Total weight of the neighbours of a label in the graph; its own weight is 1 minus this.
    """

    adjacency: Tensor

    def __init__(
        self, word_vectors: Tensor, hidden_channels: int, in_channels: int, threshold: float, neighbour_weight: float
    ):
        super().__init__()
        if not 0 < threshold <= 1:
            raise ValueError(f'threshold must be in (0, 1], got {threshold}')
        if not 0 <= neighbour_weight < 1:
            raise ValueError(f'neighbour_weight must be in [0, 1), got {neighbour_weight}')
        self.threshold = threshold
        self.neighbour_weight = neighbour_weight
        self.in_features = in_channels
        classes, width = word_vectors.shape
        self.register_buffer('word_vectors', word_vectors)
        self.register_buffer('adjacency', torch.zeros(classes, classes))  # zeros until it is known
        self.counted = False  # whether the graph is of the training set and not of a checkpoint
        self.first = _graph_weight(width, hidden_channels)
        self.second = _graph_weight(hidden_channels, in_channels)

    @property
    def wants_training_labels(self) -> bool:
        """Return whether the graph was not yet computed from the training set; a checkpoint's graph does not count."""
        return not self.counted

    def see_training_labels(self, labels: Tensor, sample_idx: Tensor) -> None:
        """Compute the graph from the labels of the training set.

        Args:
            labels: (M, C), with 1 positive, 0 negative, -1 unknown, or soft, which counts as a fraction.
            sample_idx: (M,); not used.
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
        """Compute the classifiers, a weight vector for each label: (C, ``in_channels``)."""
        if not self.adjacency.any():
            raise ValueError(
                "GCNHead does not know which labels occur together: add dict(type='mmml_losses.TrainingSetHook') to "
                'custom_hooks, load a checkpoint, or call see_training_labels(labels, sample_idx) of its fc'
            )
        hidden = leaky_relu(self.adjacency @ (self.word_vectors @ self.first), negative_slope=0.2)
        return self.adjacency @ (hidden @ self.second)

    def forward(self, features: Tensor) -> Tensor:
        """Compute logits (N, C) from features (N, ``in_channels``)."""
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
    """Compute the share of samples with label j among the samples with label i, (C, C) float64.

    Args:
        labels: (M, C) with 1 positive, 0 negative, -1 unknown, or soft. Samples in which j is unknown do not count; if
            no sample is left, the share is 0.
    """
    classes = labels.size(1)
    together, known = (torch.zeros(classes, classes, dtype=torch.float64) for _ in range(2))
    for block in labels.cpu().split(BLOCK_ROWS):
        positive = block.clamp(min=0).float()
        together += positive.T @ positive
        known += positive.T @ (block >= 0).float()
    return together / torch.where(known > 0, known, 1)


def label_graph(probabilities: Tensor, threshold: float, neighbour_weight: float) -> Tensor:
    r"""Compute the normalised weights of the edges between the labels, (C, C).

    With the neighbours :math:`B_{ij} = [P(j|i) \ge \tau]` of a label (Chen et al., re-weighted as in their Eq. 8),

    .. math::
        A_{ij} = p\,B_{ij} \Big/ \sum_{k \ne i} B_{ik}\quad (i \ne j),\qquad A_{ii} = 1 - p,\qquad
        \hat A = D^{-1/2} A D^{-1/2}

    where :math:`D` has the sums of the rows of :math:`A`. Dividing :math:`A` by :math:`1 - p` does not change
    :math:`\hat A`: neighbours of weight :math:`p / (1 - p)` plus an identity give the same graph.

    Args:
        probabilities: :math:`P(j|i)`, (C, C). The diagonal does not matter.
        threshold: :math:`\tau`.
        neighbour_weight: :math:`p`.
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
