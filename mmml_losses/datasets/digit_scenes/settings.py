"""Settings of the digit scenes, such as their number, class frequencies and noise."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from numbers import Integral, Real

from ...utils.arguments import check_ratio

CLASSES = tuple('0123456789')
SPLITS = ('train', 'test')


@dataclass(frozen=True)
class SceneSettings:
    """All settings that pixels and labels depend on; equal settings give equal scenes on every machine.

    Scene i depends on the seed, but not on ``num_train`` and ``num_test``: a longer dataset begins with the shorter.

    Args:
        num_train: Number of training scenes.
        num_test: Number of test scenes.
        image_size: Height and width of a scene in pixels.
        class_frequencies: Probability that a scene contains the digit, for each of the 10 digits.
        co_occurrence: Triples ``(first, second, correlation)``: two digits, and Pearson's correlation between their
            presence in a scene. Digits that no pairs link are independent. The pairs must not form a cycle, so that
            every frequency and every correlation holds exactly.
        repeat_probability: Probability that a digit in the scene appears twice.
        digit_size: Smallest and largest height of a digit's image in pixels, before the rotation.
        rotation: Largest rotation to either side in degrees.
        contrast: Lowest and highest opacity of the ink, in (0, 1].
        max_overlap: Largest overlap of two boxes, as a fraction of the smaller box; may be exceeded in full scenes.
        background: Darkest and lightest grey level (0 to 255) of the background.
        noise: Standard deviation of the pixel noise in grey levels.
        clutter: Largest number of digit fragments in a scene, which carry no label.
        seed: Seed of all random numbers.
    """

    num_train: int = 6000
    num_test: int = 3000
    image_size: int = 64
    class_frequencies: Sequence[float] = (0.50, 0.40, 0.32, 0.25, 0.20, 0.16, 0.13, 0.10, 0.08, 0.06)
    co_occurrence: Sequence[tuple[int, int, float]] = ((3, 7, 0.35), (1, 4, 0.3), (2, 5, 0.2), (0, 8, -0.2))
    repeat_probability: float = 0.15
    digit_size: tuple[int, int] = (12, 26)
    rotation: int = 20
    contrast: tuple[float, float] = (0.35, 1.0)
    max_overlap: float = 0.2
    background: tuple[int, int] = (10, 90)
    noise: int = 12
    clutter: int = 3
    seed: int = 0

    def __post_init__(self):
        for name in ('class_frequencies', 'digit_size', 'contrast', 'background'):
            object.__setattr__(self, name, _as_tuple(name, getattr(self, name)))
        pairs = _as_tuple('co_occurrence', self.co_occurrence)
        object.__setattr__(self, 'co_occurrence', tuple(_as_tuple('co_occurrence', pair) for pair in pairs))

        _check_integers(self, image_size=(12, 4096), num_train=(1, 999999), num_test=(1, 999999), rotation=(0, 180))
        _check_integers(self, noise=(0, 255), clutter=(0, 100), seed=(0, 2**32 - 1))
        for name in ('repeat_probability', 'max_overlap'):
            check_ratio(name, getattr(self, name))
        # Two thirds leave space for a digit that is turned by 45 degrees.
        _check_range('digit_size', self.digit_size, Integral, 8, self.image_size * 2 // 3)
        _check_range('background', self.background, Integral, 0, 255)
        _check_range('contrast', self.contrast, Real, 0.01, 1)
        frequencies = self.class_frequencies
        if len(frequencies) != len(CLASSES) or not all(isinstance(f, Real) and 0 < f < 1 for f in frequencies):
            raise ValueError(f'class_frequencies must be {len(CLASSES)} numbers in (0, 1), got {frequencies}')
        _check_pairs(self.co_occurrence, frequencies)

    def as_dict(self) -> dict:
        """Return the settings as a dict in JSON's types (lists, not tuples), as in the annotation files."""
        return json.loads(json.dumps(asdict(self), default=lambda number: number.item()))


def joint_probability(first: float, second: float, correlation: float) -> float:
    """Return the probability that two events with the given probabilities and Pearson correlation happen together."""
    return first * second + correlation * math.sqrt(first * (1 - first) * second * (1 - second))


def _as_tuple(name: str, value) -> tuple:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f'{name} must be a sequence, got {value!r}')
    return tuple(value)


def _check_integers(settings: SceneSettings, **limits: tuple[int, int]) -> None:
    for name, (low, high) in limits.items():
        value = getattr(settings, name)
        is_integer = isinstance(value, Integral) and not isinstance(value, bool)
        if not is_integer or not low <= value <= high:
            raise ValueError(f'{name} must be an integer in [{low}, {high}], got {value!r}')


def _check_range(name: str, value: tuple, kind: type, low: float, high: float) -> None:
    if len(value) != 2 or not all(isinstance(end, kind) for end in value) or not low <= value[0] <= value[1] <= high:
        kind_name = 'integers' if kind is Integral else 'numbers'
        raise ValueError(f'{name} must be two ascending {kind_name} in [{low}, {high}], got {value}')


def _check_pairs(pairs: tuple, frequencies: tuple) -> None:
    trees = {digit: {digit} for digit in range(len(CLASSES))}
    for pair in pairs:
        if len(pair) != 3 or not all(isinstance(d, Integral) and d in trees for d in pair[:2]):
            raise ValueError(f'co_occurrence must be triples (digit, digit, correlation), got {pair}')
        first, second, correlation = pair
        if second in trees[first]:
            raise ValueError(f'co_occurrence must not pair a digit with itself or form a cycle, got {pair} in {pairs}')
        merged = trees[first] | trees[second]
        trees.update(dict.fromkeys(merged, merged))
        p, q = frequencies[first], frequencies[second]
        spread = math.sqrt(p * (1 - p) * q * (1 - q))
        low, high = (max(0, p + q - 1) - p * q) / spread, (min(p, q) - p * q) / spread
        if not isinstance(correlation, Real) or not low <= correlation <= high:
            raise ValueError(
                f'co_occurrence of {first} and {second} must be in [{low:.3f}, {high:.3f}] '
                f'with the class_frequencies {p} and {q}, got {correlation}'
            )
