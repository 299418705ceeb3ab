"""ML-GCN: the graph from the training labels, the classifiers from the graph, and where both are kept."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from mmpretrain.registry import MODELS
from mmpretrain.structures import DataSample

from mmml_losses.hosts.checkpoints import check_checkpoint
from mmml_losses.losses import SPALoss
from mmml_losses.models import ml_gcn
from mmml_losses.models.ml_gcn import conditional_probabilities, label_graph
from tests.helpers.training import assert_resumes

LABELS = torch.tensor(
    [[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0]], dtype=torch.int8
)


def build(labels=LABELS, **changes):
    torch.manual_seed(0)
    settings = dict(type='mmml_losses.GCNHead', num_classes=4, in_channels=8, hidden_channels=6)
    head = MODELS.build({**settings, **changes})
    if labels is not None:
        head.fc.see_training_labels(labels, torch.arange(len(labels)))
    return head


def feats(rows=3):
    return (torch.randn(rows, 8, generator=torch.Generator().manual_seed(1)),)


def samples(*labels):
    return [DataSample().set_gt_label(label) for label in labels]


def naive_graph(labels, threshold, neighbour_weight):
    """Compute the paper's shares, threshold, re-weighting and normalisation, label by label."""
    labels = labels.tolist()
    classes = len(labels[0])
    graph = np.zeros((classes, classes))
    for i in range(classes):
        neighbours = []
        for j in range(classes):
            known = [row for row in labels if row[i] == 1 and row[j] >= 0]
            share = sum(row[j] for row in known) / len(known) if known else 0
            if j != i and share >= threshold:
                neighbours.append(j)
        for j in neighbours:
            graph[i, j] = neighbour_weight / len(neighbours)
        graph[i, i] = 1 - neighbour_weight
    degree = np.diag(graph.sum(axis=1) ** -0.5)
    return degree @ graph @ degree


@pytest.mark.parametrize(('threshold', 'neighbour_weight'), [(0.4, 0.2), (0.7, 0.5), (1.0, 0.0)])
def test_the_graph_is_the_papers(threshold, neighbour_weight):
    generator = torch.Generator().manual_seed(0)
    draws = torch.rand(60, 9, generator=generator)
    labels = (draws < 0.4).to(torch.int8).masked_fill(draws > 0.8, -1)
    labels[:, 8] = 0  # a class that never comes
    found = label_graph(conditional_probabilities(labels), threshold, neighbour_weight)
    np.testing.assert_allclose(found.numpy(), naive_graph(labels, threshold, neighbour_weight), rtol=1e-12)


def test_shares_are_of_the_samples_that_know_the_label():
    labels = torch.tensor([[1, 1], [1, -1], [1, 0], [0, 1]])
    assert conditional_probabilities(labels).tolist() == [[1, 0.5], [0.5, 1]]


def test_soft_labels_count_by_their_share():
    assert conditional_probabilities(torch.tensor([[1.0, 0.25], [1.0, 0.75]]))[0].tolist() == [1, 0.5]


def test_labels_are_counted_in_blocks(monkeypatch):
    expected = conditional_probabilities(LABELS)
    monkeypatch.setattr(ml_gcn, 'BLOCK_ROWS', 4)
    assert torch.equal(conditional_probabilities(LABELS), expected)


def test_an_identity_plus_scaled_neighbours_is_the_same_graph():
    """Check the other formula of the re-weighting: neighbours of p / (1 - p) and 1 on the diagonal."""
    neighbours = (conditional_probabilities(LABELS) >= 0.4).double().fill_diagonal_(0)
    graph = torch.eye(4).double() + 0.25 * neighbours / neighbours.sum(dim=1, keepdim=True).clamp(min=1)
    degree = graph.sum(dim=1).rsqrt().diag()
    torch.testing.assert_close(label_graph(conditional_probabilities(LABELS), 0.4, 0.2), degree @ graph @ degree)


def test_logits_are_products_of_features_with_classifiers(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    np.save(tmp_path / 'vectors.npy', vectors)
    head = build(word_vectors=str(tmp_path / 'vectors.npy'))
    graph = naive_graph(LABELS, 0.4, 0.2)
    hidden = graph @ vectors @ head.fc.first.detach().numpy()
    hidden = np.where(hidden > 0, hidden, 0.2 * hidden)
    classifiers = graph @ hidden @ head.fc.second.detach().numpy()
    np.testing.assert_allclose(head(feats()).detach(), feats()[0].numpy() @ classifiers.T, rtol=1e-4, atol=1e-6)


def test_without_word_vectors_classes_are_one_hot():
    assert torch.equal(build().fc.word_vectors, torch.eye(4))


def test_words_are_found_by_class_names(tmp_path):
    (tmp_path / 'glove.txt').write_text('cat 1 0\ndog 0 1\nhot 2 2\nsofa 3 3\n')
    head = build(word_vectors=tmp_path / 'glove.txt', class_names=['sofa', 'hot dog', 'dog', 'cat'])
    assert head.fc.word_vectors.tolist() == [[3, 3], [1, 1.5], [0, 1], [1, 0]]
    with pytest.raises(ValueError, match="got none for 'bed' of class 'bed'"):
        build(word_vectors=tmp_path / 'glove.txt', class_names=['bed', 'hot dog', 'dog', 'cat'])


def test_words_that_were_not_looked_up_are_an_error(tmp_path):
    (tmp_path / 'glove.txt').write_text('cat 1 0\ndog 0 1\nhot 2 2\nsofa 3 3\n')
    head = build(word_vectors=tmp_path / 'glove.txt')
    with pytest.raises(ValueError, match=r'does not know the word vectors .*TrainingSetHook.*see_class_names\(names\)'):
        head(feats())
    head.fc.see_class_names(['sofa', 'hot dog', 'dog', 'cat'])
    assert head(feats()).any()
    tested = build(labels=None, word_vectors=tmp_path / 'glove.txt')
    tested.load_state_dict(head.state_dict())  # a checkpoint has them
    assert torch.equal(tested(feats()), head(feats()))


def test_the_loss_is_the_heads_and_reaches_every_parameter():
    head = build(loss=dict(type='mmml_losses.SPALoss'))
    loss = head.loss(feats(), samples([0, 3], [], [1]))['loss']
    target = torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    torch.testing.assert_close(loss, SPALoss()(head(feats()), target))
    loss.backward()
    assert {name for name, _ in head.named_parameters()} == {'fc.first', 'fc.second'}
    assert all(parameter.grad.any() for parameter in head.parameters())


def test_half_precision_stays_near():
    head = build()
    with torch.autocast('cpu', dtype=torch.bfloat16):
        loss = head.loss(feats(), samples([0], [1], [2]))['loss']
    torch.testing.assert_close(loss, head.loss(feats(), samples([0], [1], [2]))['loss'], rtol=0.02, atol=0)
    assert build().half()((feats()[0].half(),)).isfinite().all()


def test_the_graph_must_be_known():
    head = build(labels=None)
    with pytest.raises(ValueError, match=r'GCNHead does not know which labels occur together: .*TrainingSetHook'):
        head(feats())


def test_a_checkpoint_brings_the_graph_and_the_word_vectors():
    trained, other = build(), build(labels=None)
    other.load_state_dict(trained.state_dict())
    assert torch.equal(other(feats()), trained(feats()))
    assert other.fc.wants_training_labels  # the checkpoint may be of another training set


@pytest.fixture
def logged(monkeypatch):
    messages = []
    monkeypatch.setattr(ml_gcn, 'print_log', lambda message, logger, level: messages.append((level, message)))
    return messages


def test_the_training_set_replaces_the_graph_of_a_checkpoint_with_a_warning(logged):
    other_labels = torch.eye(4)
    head, late = build(labels=other_labels), build(labels=None)
    same, different = build(labels=other_labels).state_dict(), build().state_dict()
    late.load_state_dict(different)
    logged.clear()
    head.load_state_dict(same)
    assert not logged
    head.load_state_dict(different)
    late.fc.see_training_labels(other_labels, torch.arange(4))
    assert torch.equal(head.fc.adjacency, torch.eye(4))
    assert torch.equal(late.fc.adjacency, torch.eye(4))
    warning = 'The label graph of the training set is used; the checkpoint was trained with another one.'
    assert [message for _, message in logged].count(warning) == 2


def test_the_log_has_the_number_of_joined_labels(logged):
    build()  # 0 and 2 come with 1, and 1 with either
    build(labels=torch.eye(4))
    assert logged[0] == (logging.INFO, 'The label graph has 4 edges between 4 classes')
    assert logged[1][0] == logging.WARNING
    assert logged[1][1].startswith('The label graph has 0 edges between 4 classes: no label comes with another one')


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        (dict(threshold=0.0), r'threshold must be in \(0, 1\], got 0.0'),
        (dict(neighbour_weight=1.0), r'neighbour_weight must be in \[0, 1\), got 1.0'),
        (dict(labels=torch.zeros(3, 5)), r'labels must be of shape \(M, 4\), got \(3, 5\)'),
    ],
)
def test_bad_arguments_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        build(**changes)


@pytest.fixture
def gcn_run(small_run):
    def make() -> Config:
        cfg = small_run('bce_digits.py', max_epochs=2)
        cfg.train_dataloader.dataset.indices = 32
        cfg.model.head.update(type='mmml_losses.GCNHead', hidden_channels=32, threshold=0.3)
        return cfg

    return make


def test_a_runner_trains_resumes_and_tests_without_the_training_set(gcn_run):
    runner = assert_resumes(gcn_run)
    dataset = runner.train_dataloader.dataset
    labels = torch.zeros(32, 10)
    for index in range(32):
        labels[index, dataset.get_data_info(index)['gt_label']] = 1
    checkpoint = Path(runner.work_dir, 'epoch_2.pth')
    stored = check_checkpoint(checkpoint)['state_dict']['head.fc.adjacency']
    np.testing.assert_allclose(stored.numpy(), naive_graph(labels, 0.3, 0.2), rtol=1e-5)
    cfg = gcn_run()
    for name in ('train_cfg', 'train_dataloader', 'optim_wrapper', 'param_scheduler'):
        cfg[name] = None
    cfg.load_from, cfg.experiment_name = str(checkpoint), 'tested'
    tester = Runner.from_cfg(cfg)
    assert tester.test()['multi-label/mAP@class'] > 0
    assert torch.equal(tester.model.head.fc.adjacency, stored)
