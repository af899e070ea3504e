"""Growing spheres (Laugel et al.): random points in shells of growing radius around a centre."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Shells:
    """How shells are sampled.

    Attributes:
        samples: points a shell.
        order: norm of the radius, 1 or 2.
        step: thickness of a shell.
        most: shells before giving up.
        low, high: bounds [p] points are clipped to, or None.
    """

    samples: int
    order: int
    step: float = 0.1
    most: int = 200
    low: np.ndarray | None = None
    high: np.ndarray | None = None


def growing_sphere(
    centre: np.ndarray,
    passes: Callable[[np.ndarray], np.ndarray],
    shells: Shells,
    rng: np.random.Generator,
) -> np.ndarray | None:
    """Return the passing point nearest to the centre in the first shell that has one.

    Args:
        centre: [p].
        passes: float32 points [n, p] -> bool [n].
        shells: how to sample.
        rng: source of directions and radii.

    Returns:
        float32 [p], or None after the last shell. Nearest is by squared L2 or by L1 distance,
        after clipping; ties go to the point drawn first.
    """
    centre = np.asarray(centre, dtype=np.float32)
    for number in range(shells.most):
        points = rng.standard_normal((shells.samples, len(centre)), dtype=np.float32)
        size = np.abs(points).sum(axis=1) if shells.order == 1 else np.sqrt((points**2).sum(axis=1))
        radius = shells.step * (number + rng.random(shells.samples, dtype=np.float32))
        # a direction of length 0 has probability 0, but float32 can draw it
        points *= (radius / np.maximum(size, np.finfo(np.float32).tiny))[:, None]
        points += centre
        if shells.low is not None:
            np.clip(points, shells.low, shells.high, out=points)
        found = np.flatnonzero(passes(points))
        if len(found):
            away = points[found] - centre
            away = np.abs(away).sum(axis=1) if shells.order == 1 else (away**2).sum(axis=1)
            return points[found[int(away.argmin())]]
    return None
