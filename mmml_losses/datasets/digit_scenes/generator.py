"""Draw digit scenes in integer arithmetic, so that the pixels are the same on every machine.

Random numbers come from :class:`numpy.random.RandomState`, whose stream NumPy guarantees. All integers have 64 bits,
because the stream depends on their width. Floating point is used only for probabilities, by operations that IEEE 754
rounds exactly, and for sines and cosines, which are rounded to integers at once.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState

from .settings import CLASSES, SPLITS, SceneSettings, joint_probability

# Fixed point: sine and cosine count in 1 / ONE, coordinates between two pixels in 1 / STEP.
ONE = 1 << 14
STEP_BITS = 8
STEP = 1 << STEP_BITS
# Digit images are 8 x 8 with grey levels up to 16; interpolation continues a margin of paper around them.
DIGIT_SIDE, DIGIT_LEVELS, MARGIN = 8, 16, 1
# Interpolated strokes are wide and soft: grey levels below the threshold are paper, and the slope makes edges firm.
INK_THRESHOLD, INK_SLOPE = 60, 2
TRAIN_SHARE = 2 / 3
PLACES_TRIED = 40
TEXTURE_CELLS = 4


@dataclass(frozen=True)
class Placed:
    """A digit in a scene: class, index ``source`` of its scikit-learn image, and box in pixels, upper left (x, y)."""

    digit: int
    source: int
    x: int
    y: int
    width: int
    height: int


class SceneGenerator:
    """Generator of the scenes of a split, ``'train'`` or ``'test'``; a scene does not depend on those made before."""

    def __init__(self, settings: SceneSettings, split: str):
        self.settings = settings
        self.images, targets = load_digit_images()
        self.sources = split_sources(targets, settings.seed)[split]
        self.pool = np.concatenate(self.sources)
        self._split_number = SPLITS.index(split)
        self._label_plan = plan_labels(settings)
        # One object, seeded for every scene: a new one would take ten times longer.
        self._rng = RandomState()

    def scene(self, number: int) -> tuple[np.ndarray, list[Placed]]:
        """Return the pixels (image_size, image_size), uint8, and the digits, in painting order, of scene ``number``."""
        rng = self._rng
        rng.seed([self.settings.seed, self._split_number, number])
        digits = self._draw_digits(rng)
        canvas = self._draw_background(rng)
        placed: list[Placed] = []
        for digit in digits:
            source = int(self.sources[digit][draw_integer(rng, 0, len(self.sources[digit]) - 1)])
            ink = self._draw_ink(rng, self.images[source])
            x, y = self._choose_place(rng, ink.shape, placed)
            self._paint(rng, canvas, ink, x, y)
            placed.append(Placed(digit, source, x, y, width=ink.shape[1], height=ink.shape[0]))
        self._add_clutter(rng, canvas)
        self._add_noise(rng, canvas)
        return np.clip(canvas, 0, 255).astype(np.uint8), placed

    def _draw_digits(self, rng: RandomState) -> list[int]:
        """Return random digits for a scene, in the order of painting; a digit may be in the list twice."""
        present = [False] * len(CLASSES)
        for digit, parent, chances in self._label_plan:
            present[digit] = rng.random_sample() < chances[present[parent]]
        digits = []
        for digit in np.flatnonzero(present).tolist():
            twice = rng.random_sample() < self.settings.repeat_probability
            digits += [digit] * (2 if twice else 1)
        return [digits[i] for i in rng.permutation(len(digits))]

    def _draw_background(self, rng: RandomState) -> np.ndarray:
        """Return a smooth random texture in grey levels, (image_size, image_size) int64."""
        low, high = self.settings.background
        size = self.settings.image_size
        levels = rng.randint(low, high + 1, size=(TEXTURE_CELLS + 1,) * 2, dtype=np.int64)
        position = np.arange(size) * (TEXTURE_CELLS * STEP) // size
        return interpolate(levels, position[:, None], position[None, :])

    def _draw_ink(self, rng: RandomState, image: np.ndarray) -> np.ndarray:
        size = draw_integer(rng, *self.settings.digit_size)
        degrees = draw_integer(rng, -self.settings.rotation, self.settings.rotation)
        return render(image, size, degrees)

    def _choose_place(self, rng: RandomState, shape: tuple[int, int], placed: list[Placed]) -> tuple[int, int]:
        """Return upper left (x, y): the first of 40 random places within ``max_overlap``, or the least overlapping."""
        height, width = shape
        x = rng.randint(0, self.settings.image_size - width + 1, size=PLACES_TRIED, dtype=np.int64)
        y = rng.randint(0, self.settings.image_size - height + 1, size=PLACES_TRIED, dtype=np.int64)
        overlap = np.zeros(PLACES_TRIED, dtype=np.int64)
        for other in placed:
            shared_width = np.minimum(x + width, other.x + other.width) - np.maximum(x, other.x)
            shared_height = np.minimum(y + height, other.y + other.height) - np.maximum(y, other.y)
            shared = np.maximum(shared_width, 0) * np.maximum(shared_height, 0)
            overlap = np.maximum(overlap, shared * 1000 // min(width * height, other.width * other.height))
        allowed = overlap <= round(1000 * self.settings.max_overlap)
        best = int(np.argmax(allowed) if allowed.any() else np.argmin(overlap))
        return int(x[best]), int(y[best])

    def _paint(self, rng: RandomState, canvas: np.ndarray, ink: np.ndarray, x: int, y: int) -> None:
        """Paint ``ink``, (height, width) of 0 to 255, on ``canvas`` in place, corner at (x, y), with random opacity."""
        low, high = (round(1000 * contrast) for contrast in self.settings.contrast)
        contrast = draw_integer(rng, low, high)
        area = canvas[y : y + ink.shape[0], x : x + ink.shape[1]]
        area += (255 - area) * ink * contrast // (255 * 1000)

    def _add_clutter(self, rng: RandomState, canvas: np.ndarray) -> None:
        """Paint fragments of digit images of the same split on ``canvas``, in place, as distractors without a label."""
        for _ in range(draw_integer(rng, 0, self.settings.clutter)):
            image = self.images[self.pool[draw_integer(rng, 0, len(self.pool) - 1)]]
            ink = self._draw_ink(rng, cut_fragment(rng, image))
            x, y = self._choose_place(rng, ink.shape, [])
            self._paint(rng, canvas, ink, x, y)

    def _add_noise(self, rng: RandomState, canvas: np.ndarray) -> None:
        # The sum of three uniform integers from -n to n is close to normal, with a standard deviation of n.
        noise = self.settings.noise
        canvas += rng.randint(-noise, noise + 1, size=(3, *canvas.shape), dtype=np.int64).sum(axis=0)


def load_digit_images() -> tuple[np.ndarray, np.ndarray]:
    """Load scikit-learn's digits as (images (1797, 10, 10) of 0 to 255 with a margin of 1 pixel, classes (1797,))."""
    # Imported here because other datasets do not need scikit-learn.
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = digits.images.astype(np.int64) * 255 // DIGIT_LEVELS
    return np.pad(images, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN))), digits.target.astype(np.int64)


def split_sources(targets: np.ndarray, seed: int) -> dict[str, list[np.ndarray]]:
    """Split images of digits ``targets`` at random, 2/3 to 'train'; return {split: [indices of 0s, ..., of 9s]}."""
    sources: dict[str, list[np.ndarray]] = {split: [] for split in SPLITS}
    rng = RandomState([seed, len(SPLITS)])
    for digit in range(len(CLASSES)):
        numbers = np.flatnonzero(targets == digit)
        numbers = numbers[rng.permutation(len(numbers))]
        cut = int(len(numbers) * TRAIN_SHARE)
        sources['train'].append(numbers[:cut])
        sources['test'].append(numbers[cut:])
    return sources


def plan_labels(settings: SceneSettings) -> list[tuple[int, int, tuple[float, float]]]:
    """Return a list of ``(digit, parent, (P(digit | parent absent), P(digit | parent present)))``, parents first.

    The pairs of ``co_occurrence`` form trees. The lowest digit of a tree comes first and is its own parent, with two
    equal probabilities. Every other digit appears with a probability that depends on its parent alone.
    """
    frequencies = settings.class_frequencies
    plan: list[tuple[int, int, tuple[float, float]]] = []
    drawn: set[int] = set()
    for root in range(len(CLASSES)):
        if root in drawn:
            continue
        drawn.add(root)
        # A root has no parent: both chances are its frequency.
        plan.append((root, root, (frequencies[root],) * 2))
        branch = [root]
        for parent in branch:
            for first, second, correlation in settings.co_occurrence:
                digit = second if first == parent else first
                if parent not in (first, second) or digit in drawn:
                    continue
                p, q = frequencies[parent], frequencies[digit]
                both = joint_probability(p, q, correlation)
                plan.append((digit, parent, ((q - both) / (1 - p), both / p)))
                drawn.add(digit)
                branch.append(digit)
    return plan


def render(image: np.ndarray, size: int, degrees: int) -> np.ndarray:
    """Scale a digit image to ``size`` x ``size``, turn it clockwise; return ink (h, w), 0 to 255, without margins."""
    cos, sin = (round(turn(math.radians(degrees)) * ONE) for turn in (math.cos, math.sin))
    side = -(-size * (abs(cos) + abs(sin)) // ONE)
    # Centres of the pixels in half pixels from the middle, and their positions in the digit image.
    centre = 2 * np.arange(side, dtype=np.int64) + 1 - side
    x, y = centre[None, :], centre[:, None]
    scale, middle = DIGIT_SIDE * STEP, (len(image) - 1) * STEP // 2
    column = (cos * x + sin * y) * scale // (2 * size * ONE) + middle
    row = (cos * y - sin * x) * scale // (2 * size * ONE) + middle
    ink = np.clip((interpolate(image, row, column) - INK_THRESHOLD) * INK_SLOPE, 0, 255)
    rows, columns = (np.flatnonzero(ink.any(axis=axis)) for axis in (1, 0))
    return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] if len(rows) else ink[:1, :1]


def interpolate(grid: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Interpolate ``grid`` bilinearly at ``row``, ``column``: integers, STEP to a cell, clipped to the grid."""
    row = np.clip(row, 0, STEP * (grid.shape[0] - 1) - 1)
    column = np.clip(column, 0, STEP * (grid.shape[1] - 1) - 1)
    top, left, down, right = row >> STEP_BITS, column >> STEP_BITS, row % STEP, column % STEP
    upper = grid[top, left] * (STEP - right) + grid[top, left + 1] * right
    lower = grid[top + 1, left] * (STEP - right) + grid[top + 1, left + 1] * right
    return (upper * (STEP - down) + lower * down) >> 2 * STEP_BITS


def cut_fragment(rng: RandomState, image: np.ndarray) -> np.ndarray:
    """Return a copy of a digit image with only a random half of its rows or columns; the rest is paper (0)."""
    half = DIGIT_SIDE // 2
    start = MARGIN + draw_integer(rng, 0, half)
    kept = np.zeros_like(image)
    if draw_integer(rng, 0, 1):
        kept[start : start + half] = image[start : start + half]
    else:
        kept[:, start : start + half] = image[:, start : start + half]
    return kept


def draw_integer(rng: RandomState, low: int, high: int) -> int:
    """Draw a random integer from low to high, both included."""
    return int(rng.randint(low, high + 1, dtype=np.int64))
