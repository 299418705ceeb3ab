"""Formulas of the papers in plain torch, without anything of the package: slow, for logits of moderate size.

Each takes logits v (N, C), labels y (N, C; -1 is unknown) and all settings by name. Autograd differentiates it.
"""

import math

import torch

# Terms, the costs of a label, by their default settings.


def bce_positive(v):
    return -v.sigmoid().log()


def bce_negative(v):
    return -(1 - v.sigmoid()).log()


def focal_positive(v, gamma=2.0):
    return (1 - v.sigmoid()) ** gamma * bce_positive(v)


def focal_negative(v, gamma=2.0):
    return v.sigmoid() ** gamma * bce_negative(v)


def focal_margin_positive(v, margin=1.0, gamma=2.0):
    return focal_positive(v - margin, gamma)


def hill_negative(v, lamb=1.5):
    p = v.sigmoid()
    return (lamb - p) * p**2


def spa_positive(v, scale=1.0, slope=1.0, shift=0.0):
    return -(slope * (v - shift)).sigmoid().log() / scale


def spa_negative(v, scale=5.0, slope=3.0, shift=1.0):
    return -(1 - (slope * (v - shift)).sigmoid()).log() / scale


def mix(y, positive, negative):
    return torch.where(y < 0, 0, y * positive + (1 - y) * negative)


# Pointwise losses.


def bce(v, y):
    return mix(y, bce_positive(v), bce_negative(v))


def label_smoothing(v, y, epsilon, reading='code'):
    moved = epsilon if reading == 'code' else epsilon / 2
    label = y * (1 - moved) + (1 - y) * moved
    return torch.where(y < 0, 0, label * bce_positive(v) + (1 - label) * bce_negative(v))


def wan(v, y, negative_weight=None):
    weight = 1 / (v.size(1) - 1) if negative_weight is None else negative_weight
    return mix(y, bce_positive(v), weight * bce_negative(v))


def focal(v, y, gamma_positive, gamma_negative, alpha=None, detach_weight=False):
    p = v.sigmoid()
    weights = (1 - p) ** gamma_positive, p**gamma_negative
    positive, negative = (weight.detach() for weight in weights) if detach_weight else weights
    of_positive, of_negative = (1, 1) if alpha is None else (alpha, 1 - alpha)
    return mix(y, -of_positive * positive * p.log(), -of_negative * negative * (1 - p).log())


def asl(v, y, gamma_positive, gamma_negative, margin, detach_weight=False):
    p = v.sigmoid()
    shifted = (p - margin).clamp(min=0)
    weights = (1 - p) ** gamma_positive, shifted**gamma_negative
    positive, negative = (weight.detach() for weight in weights) if detach_weight else weights
    return mix(y, -positive * p.log(), -negative * (1 - shifted).log())


def focal_margin(v, y, margin, gamma):
    return mix(y, focal_margin_positive(v, margin, gamma), focal_negative(v, gamma))


def mse_negative(v, y):
    return mix(y, bce_positive(v), v.sigmoid() ** 2)


def hill(v, y, lamb, margin, gamma):
    return mix(y, focal_margin_positive(v, margin, gamma), hill_negative(v, lamb))


def spa(v, y, positive_scale, positive_slope, positive_shift, negative_scale, negative_slope, negative_shift):
    positive = spa_positive(v, positive_scale, positive_slope, positive_shift)
    return mix(y, positive, spa_negative(v, negative_scale, negative_slope, negative_shift))


def las(v, y, gamma_positive, gamma_negative, negative_leverage=None, expected_positives=1.0):
    leverage = 1 / (v.size(1) - expected_positives) if negative_leverage is None else negative_leverage
    return mix(y, focal_positive(v, gamma_positive), leverage * focal_negative(v, gamma_negative))


def pair(v, y, positive, negative):
    return mix(y, positive(v), negative(v))


def em(v, y, alpha):
    p = v.sigmoid()
    return mix(y, -p.log(), alpha * (p * p.log() + (1 - p) * (1 - p).log()))


def em_apl(v, y, pseudo_negatives, alpha, beta):
    p = v.sigmoid()
    pseudo = -beta * (pseudo_negatives * p.log() + (1 - pseudo_negatives) * (1 - p).log())
    return torch.where((y == 0) & (pseudo_negatives >= 0), pseudo, em(v, y, alpha))


def splc(v, y, positive, negative, threshold, margin=0.0, probabilities=None):
    """``margin`` is that of the positive term, if corrected labels do not have it."""
    p = v.sigmoid() if probabilities is None else probabilities
    corrected = (y == 0) & (p > threshold)
    return torch.where(corrected, positive(v + margin), pair(v, y, positive, negative))


def lasd(v, y, positive_leverage, negative_leverage, threshold, gamma_positive, gamma_negative):
    positive, negative = focal_positive(v, gamma_positive), focal_negative(v, gamma_negative)
    unobserved = torch.where(v.sigmoid() > threshold, positive_leverage * positive, negative_leverage * negative)
    return mix(y, positive, unobserved)


# Losses weighted by class frequencies.


def weighted_bce(v, y, class_frequencies, num_samples, smoothing, positive, negative):
    n = v.new_tensor(class_frequencies)
    weight = n**-smoothing / (n**-smoothing).mean()
    return mix(y, weight * (num_samples - n) / n * positive(v), weight * negative(v))


def reweighted_bce(v, y, class_frequencies, num_samples, positive, negative, mode='inverse_sqrt'):
    ratio = num_samples / v.new_tensor(class_frequencies)
    return (ratio if mode == 'inverse' else ratio**0.5) * mix(y, positive(v), negative(v))


def cb_focal(v, y, class_frequencies, beta, gamma, mode='by_class', balance=2.0):
    n = v.new_tensor(class_frequencies).expand_as(v)
    if mode == 'min_n':
        n = torch.where(y == 1, n, math.inf).amin(dim=1, keepdim=True)
    weight = (1 - beta) / (1 - beta**n)
    return balance * weight * mix(y, focal_positive(v, gamma), focal_negative(v, gamma))


def db(v, y, class_frequencies, num_samples, alpha, beta, mu, negative_scale, kappa, positive=None, negative=None):
    positive, negative = positive or bce_positive, negative or bce_negative
    n = v.new_tensor(class_frequencies)
    ratio = (1 / n) / torch.where(y == 1, 1 / n, 0).sum(dim=1, keepdim=True)
    weight = alpha + (beta * (ratio - mu)).sigmoid()
    biased = v - kappa / negative_scale * (num_samples / n - 1).log()
    return weight * mix(y, positive(biased), negative(negative_scale * biased) / negative_scale)


def db_focal(v, y, gamma, balance, **settings):
    terms = dict(positive=lambda x: focal_positive(x, gamma), negative=lambda x: focal_negative(x, gamma))
    return balance * db(v, y, **settings, **terms)


def ldam(v, y, class_frequencies, max_margin, scale):
    n = v.new_tensor(class_frequencies)
    margin = max_margin * (n / n.min()) ** -0.25
    return mix(y, bce_positive(scale * (v - margin)), bce_negative(scale * v))


# Set-wise losses, as the sum over the sets.


def sets_of(v, y, way, bucket_size=None):
    """Return the logits of the positives and of the negatives of each set."""
    buckets = list(zip(v.split(bucket_size or len(v)), y.split(bucket_size or len(v)), strict=True))
    rows = list(zip(v, y, strict=True)) if way in ('sample', 'both') else []
    columns = [each for x, z in buckets for each in zip(x.T, z.T, strict=True)] if way in ('class', 'both') else []
    joint = buckets if way == 'joint' else []
    return [(x[z == 1], x[z == 0]) for x, z in (*rows, *columns, *joint)]


def differences(positives, negatives):
    return negatives.unsqueeze(0) - positives.unsqueeze(1)


def lsep(v, y, way='sample', gamma=1.0, logit_bias=0.0, bucket_size=None):
    totals = [(gamma * differences(*each)).exp().sum() for each in sets_of(v, y, way, bucket_size)]
    return sum((math.exp(logit_bias) * total).log1p() for total in totals)


def multi_similarity(
    v, y, way='sample', positive_temperature=1.0, negative_temperature=1.0, logit_bias=0.0, bucket_size=None
):
    total, factor = 0, math.exp(logit_bias)
    for positives, negatives in sets_of(v, y, way, bucket_size):
        of_positives = (-positives / positive_temperature).exp().sum() ** positive_temperature
        of_negatives = (negatives / negative_temperature).exp().sum() ** negative_temperature
        total = total + (factor * of_positives).log1p() + (factor * of_negatives).log1p()
    return total


def two_way(v, y, way, positive_temperature, negative_temperature, logit_bias=0.0, bucket_size=None):
    total = 0
    for positives, negatives in sets_of(v, y, way, bucket_size):
        of_positives = (-positives / positive_temperature).exp().sum() ** positive_temperature
        of_negatives = (negatives / negative_temperature).exp().sum() ** negative_temperature
        total = total + (math.exp(logit_bias) * of_positives * of_negatives).log1p()
    return total


def softmax(v, y, way='sample', temperature=1.0, logit_bias=0.0, bucket_size=None):
    total = 0
    for positives, negatives in sets_of(v, y, way, bucket_size):
        if len(positives):
            scores = torch.cat([positives / temperature, negatives / temperature + logit_bias])
            total = total - (positives / temperature - scores.exp().sum().log()).mean()
    return total


def circle(v, y, way='sample', gamma=80.0, margin=0.4, similarity='sigmoid', bucket_size=None):
    total = 0
    for positives, negatives in sets_of(v.sigmoid() if similarity == 'sigmoid' else v, y, way, bucket_size):
        of_positives = (1 + margin - positives).clamp(min=0).detach() * (positives - (1 - margin))
        of_negatives = (negatives + margin).clamp(min=0).detach() * (negatives - margin)
        total = total + (gamma * differences(of_positives, of_negatives)).exp().sum().log1p()
    return total


def dr(
    v, y, way='class', pair_scale=5.0, constraint_scale=7.0, constraint='negative', logit_bias=0.0, bucket_size=None
):
    total = 0
    for positives, negatives in sets_of(v, y, way, bucket_size):
        inside = math.exp(logit_bias) * (pair_scale * differences(positives, negatives)).exp().sum()
        if constraint in ('negative', 'both'):
            inside = inside + (constraint_scale * negatives).exp().sum()
        if constraint in ('positive', 'both'):
            inside = inside + (-constraint_scale * positives).exp().sum()
        total = total + inside.log1p()
    return total


# Regularisers, and the losses that contain one.


def label_pairs(v, y):
    total = 0
    for row, (positives, negatives) in zip(y, sets_of(v, y, 'sample'), strict=True):
        known = (row >= 0).sum()
        total = total + 2 / (known * (known - 1)) * bce_positive(-differences(positives, negatives)).sum()
    return total


def expected_positives(p, y, k):
    samples, known = (y >= 0).any(dim=1).sum(), (y >= 0).sum()
    return ((p[y >= 0].sum() / samples - k) / (known / samples)) ** 2


def epr(v, y, k, regularizer_weight):
    costs = mix(y, bce_positive(v), torch.zeros_like(v))
    return costs.sum() / (y >= 0).sum() + regularizer_weight * expected_positives(v.sigmoid(), y, k)


def role(v, y, estimated_logits, k, regularizer_weight):
    halves = 0
    for own, given in ((v, estimated_logits), (estimated_logits, v)):
        p, q = own.sigmoid(), given.sigmoid().detach()
        costs = mix(y, bce_positive(own), torch.zeros_like(v))
        costs = costs - torch.where(y < 0, 0, q * p.log() + (1 - q) * (1 - p).log())
        halves = halves + costs.sum() / (y >= 0).sum() + regularizer_weight * expected_positives(p, y, k)
    return halves / 2


def consistency(views, y):
    first, second, third = views
    squares = (first - second) ** 2 + (first - third) ** 2 + (second - third) ** 2
    return squares[y >= 0].sum()


# Large losses.


def large(costs, y, share):
    """Mark the ceil(share of the known labels) unobserved labels of largest cost."""
    places = sorted(((y == 0).nonzero()).tolist(), key=lambda place: -costs[tuple(place)].item())
    marked = torch.zeros_like(y, dtype=torch.bool)
    for place in places[: math.ceil((y >= 0).sum().item() * share - 1e-6)]:
        marked[tuple(place)] = True
    return marked


def rejection(v, y, clean_rate, positive, negative):
    return torch.where(large(negative(v), y, 1 - clean_rate), 0, pair(v, y, positive, negative))


def correction(v, y, clean_rate, positive, negative):
    return torch.where(large(negative(v), y, 1 - clean_rate), positive(v), pair(v, y, positive, negative))
