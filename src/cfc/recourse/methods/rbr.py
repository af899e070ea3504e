"""RBR: robust Bayesian recourse (Nguyen et al.), batched over requests.

A boundary point is found towards accepted training rows; a sample around it, labelled by the base
network, stands for the local distribution of both classes; the candidate moves to where the worst
favourable and the best adverse likelihood within a Gaussian ambiguity set differ most.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cfc.recourse.methods.base import Method, Param, Problem, nearest_rows, no_candidate

_STEP = 1 / np.sqrt(1000.0)
_TOLERANCE = 1e-10
_PATIENCE = 10
_GRID = 100


class RBR(Method):
    """Robust Bayesian recourse with the middle setting of the published sweep.

    The L1 ball around the request is met within a few outer steps, so the candidate is close to
    the boundary point moved by the slack; it can end on the adverse side.
    """

    name, title = "rbr", "RBR"
    is_batched = True
    PARAMS: ClassVar[dict[str, Param]] = {
        "neighbours": Param(1000, "accepted training rows looked at", low=1),
        "samples": Param(200, "points of the local sample", low=2),
        "reach": Param(0.2, "radius of the sample over the training rows' diameter", low=0.0),
        "slack": Param(0.2, "L1 distance allowed beyond the boundary point", low=0.0),
        "sigma": Param(1.0, "bandwidth", low=1e-6),
        "epsilon": Param(0.5, "radius of both ambiguity sets", low=0.0),
        "outer_steps": Param(500, "most outer steps", low=1),
        "inner_steps": Param(1000, "most inner steps", low=1),
    }

    def prepare(self) -> None:
        """Measure the training rows' diameter."""
        self.radius = self.params["reach"] * diameter(self.problem.X_train)

    def generate(self, X: np.ndarray, row_ids: np.ndarray) -> np.ndarray:
        """Return the candidate of each request, NaN when no row is accepted."""
        out = no_candidate(*X.shape)
        if not len(self.problem.favourable):
            return out
        starts = [boundary_point(x, self.problem, self.params["neighbours"]) for x in X]
        z0 = np.array([s for s, _ in starts])
        limit = np.array([d for _, d in starts]) + self.params["slack"]
        samples = np.stack([self._sample(z, int(r)) for z, r in zip(z0, row_ids, strict=True)])
        n, k, p = samples.shape
        labels = self.problem.net.accepts(samples.reshape(n * k, p)).reshape(n, k)
        return self._descend(X.astype(np.float64), z0, limit, samples, labels)

    def _sample(self, centre: np.ndarray, row_id: int) -> np.ndarray:
        """Return points [samples, p] uniform in the Euclidean ball around a boundary point."""
        rng = self.problem.rng(row_id=row_id)
        k, p = self.params["samples"], len(centre)
        points = rng.standard_normal((k, p))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        return centre + points * (self.radius * rng.random((k, 1)) ** (1 / p))

    def _descend(self, X, z, limit, samples, labels) -> np.ndarray:
        sigma, epsilon = self.params["sigma"], self.params["epsilon"]
        inner = Inner(X.shape[1], sigma, epsilon, self.params["inner_steps"])
        out = z.copy()
        best = np.full(len(z), np.inf)
        misses = np.zeros(len(z), dtype=int)
        going = np.arange(len(z))
        for _ in range(self.params["outer_steps"]):
            value, slope = objective(z, samples[going], labels[going], inner)
            better = value < best[going] - _TOLERANCE
            misses[going] = np.where(better, 0, misses[going] + 1)
            best[going] = np.minimum(best[going], value)
            inside = np.abs(z - X[going]).sum(axis=1) < limit[going]
            moved = project_l1(z - _STEP * slope, X[going], limit[going])
            fine = np.isfinite(moved).all(axis=1) & np.isfinite(value)
            go_on = inside & fine & (misses[going] < _PATIENCE)
            going, z = going[go_on], moved[go_on]
            out[going] = z
            if not len(going):
                break
        return out


def diameter(X: np.ndarray) -> float:
    """Return the largest Euclidean distance between two rows of X [n, p]."""
    X = np.asarray(X, dtype=np.float64)
    square = (X**2).sum(axis=1)
    most = 0.0
    for start in range(0, len(X), 512):
        part = X[start : start + 512]
        most = max(most, float((square[start : start + 512, None] + square - 2 * part @ X.T).max()))
    return float(np.sqrt(most))


def boundary_point(x: np.ndarray, problem: Problem, neighbours: int) -> tuple[np.ndarray, float]:
    """Return the nearest accepted point on a grid of segments, and its L1 distance.

    Segments run from the request x to its nearest (L1) accepted training rows, with 100 equally
    spaced points each; the first accepted point of a segment is its crossing.

    Args:
        x: request [p].
        problem: base network and accepted rows, at least one.
        neighbours: segments looked at.
    """
    rows = problem.favourable[nearest_rows(x, problem.favourable, order=1)[:neighbours]]
    start, rows = x.astype(np.float64), rows.astype(np.float64)
    length = np.abs(rows - start).sum(axis=1)
    share = np.linspace(0, 1, _GRID)
    best, place = np.inf, (0, _GRID - 1)
    # a segment's points beyond the best crossing so far cannot win, so they are not asked
    for first, last in ((0, 1), (1, 10), (10, 100), (100, len(rows))):
        part = np.arange(first, min(last, len(rows)))
        near = share[None, :] * length[part, None] < best
        owner, step = np.nonzero(near)
        if not len(owner):
            continue
        points = (1 - share[step])[:, None] * start + share[step][:, None] * rows[part[owner]]
        accepted = np.flatnonzero(problem.net.accepts(points))
        if len(accepted):
            away = share[step[accepted]] * length[part[owner[accepted]]]
            won = accepted[int(away.argmin())]
            best = float(away.min())
            place = (int(part[owner[won]]), int(step[won]))
    row, step = place
    return (1 - share[step]) * start + share[step] * rows[row], share[step] * length[row]


@dataclass(frozen=True)
class Inner:
    """The inner problems: the extreme likelihood of a sample within its ambiguity set.

    Attributes:
        p: number of features, at least 2.
        sigma: bandwidth σ.
        epsilon: radius ε of the ambiguity set.
        steps: most projected-gradient steps.
    """

    p: int
    sigma: float
    epsilon: float
    steps: int

    def adverse(self, c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return ln(σ+b) + (c−a)²/(2(σ+b)²) + (p−1) ln σ."""
        width = self.sigma + b
        constant = (self.p - 1) * np.log(self.sigma)
        return np.log(width) + (c - a) ** 2 / (2 * width**2) + constant

    def favourable(self, c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return −ln(σ+b) − (c+√p a)²/(2(σ+b)²) − (p−1) ln(σ+φ)."""
        width = self.sigma + b
        far = c + np.sqrt(self.p) * a
        rest = np.log(self.sigma + self._phi(a, b))
        return -np.log(width) - far**2 / (2 * width**2) - (self.p - 1) * rest

    def _phi(self, a, b):
        left = 1e-6 + self.epsilon**2 - self.p * a**2 - b**2
        return np.sqrt(np.maximum(left, 0) / (self.p - 1))

    def solve(self, c: np.ndarray, used: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the minimisers a, b >= 0 [n, k] of ``adverse`` or ``favourable``.

        Projected gradient from (0, 0); the steps of a request stop once the sum over its samples
        failed ten times in a row to fall by more than 1e-10. The step is fixed, so far samples can
        end beside their optimum.

        Args:
            c: distances [n, k].
            used: bool [n, k], the samples that count; others stay at 0.
            kind: ``adverse`` or ``favourable``.
        """
        value = self.adverse if kind == "adverse" else self.favourable
        slope = self._adverse_slope if kind == "adverse" else self._favourable_slope
        reach = self.epsilon / (1 if kind == "adverse" else np.sqrt(self.p))
        a_out, b_out = np.zeros_like(c), np.zeros_like(c)
        going = np.flatnonzero(used.any(axis=1))
        a, b, c, used = a_out[going], b_out[going], c[going], used[going]
        best = np.where(used, value(c, a, b), 0).sum(axis=1)
        misses = np.zeros(len(going), dtype=int)
        for _ in range(self.steps):
            if not len(going):
                break
            da, db = slope(c, a, b)
            a = np.maximum(a - _STEP * da, 0)
            b = np.maximum(b - _STEP * db, 0)
            shrink = np.minimum(1, reach / np.maximum(np.sqrt(a**2 + b**2), 1e-300))
            a, b = a * shrink * used, b * shrink * used
            now = np.where(used, value(c, a, b), 0).sum(axis=1)
            better = now < best - _TOLERANCE
            misses = np.where(better, 0, misses + 1)
            best = np.where(better, now, best)
            a_out[going], b_out[going] = a, b
            rest = misses < _PATIENCE
            if not rest.all():
                a, b, c, used = a[rest], b[rest], c[rest], used[rest]
                going, best, misses = going[rest], best[rest], misses[rest]
        return a_out, b_out

    def _adverse_slope(self, c, a, b):
        width = self.sigma + b
        far = (c - a) / width**2
        return -far, 1 / width - far * (c - a) / width

    def _favourable_slope(self, c, a, b):
        width, phi = self.sigma + b, self._phi(a, b)
        root = np.sqrt(self.p)
        far = (c + root * a) / width**2
        inner = 1 / ((self.sigma + phi) * np.maximum(phi, 1e-12))
        return (
            -root * far + self.p * a * inner,
            -1 / width + far * (c + root * a) / width + b * inner,
        )


def objective(
    z: np.ndarray, samples: np.ndarray, labels: np.ndarray, inner: Inner
) -> tuple[np.ndarray, np.ndarray]:
    """Return J(z) [n] and its gradient [n, p] with the inner variables held.

    J is the log of the best adverse minus that of the worst favourable likelihood. A class without
    samples drops out.

    Args:
        z: points [n, p].
        samples: local samples [n, k, p].
        labels: bool [n, k], True = favourable.
        inner: the ambiguity sets.
    """
    away = z[:, None, :] - samples
    c = np.sqrt((away**2).sum(axis=2))
    value, slope = np.zeros(len(z)), np.zeros_like(z)
    for kind, used in (("adverse", ~labels), ("favourable", labels)):
        a, b = inner.solve(c, used, kind)
        width = (inner.sigma + b) ** 2
        if kind == "adverse":
            score, by_c, sign = -inner.adverse(c, a, b), -(c - a) / width, 1
        else:
            far = c + np.sqrt(inner.p) * a
            score, by_c, sign = inner.favourable(c, a, b), -far / width, -1
        score = np.where(used, score, -np.inf)
        top = score.max(axis=1, keepdims=True)
        has = np.isfinite(top[:, 0])
        share = np.exp(score - np.where(np.isfinite(top), top, 0))
        total = share.sum(axis=1)
        value += np.where(has, sign * (top[:, 0] + np.log(np.maximum(total, 1e-300))), 0)
        share = np.where(has[:, None], share / np.maximum(total, 1e-300)[:, None], 0)
        pull = sign * share * by_c / np.maximum(c, 1e-300)
        slope += np.einsum("nk,nkp->np", pull, away)
    return value, slope


def project_l1(z: np.ndarray, centre: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Return the Euclidean projection of points [n, p] to L1 balls of radius [n]."""
    away = z - centre
    size = np.abs(away)
    ordered = -np.sort(-size, axis=1)
    excess = np.cumsum(ordered, axis=1) - radius[:, None]
    rank = np.arange(1, z.shape[1] + 1)
    kept = (ordered - excess / rank > 0).sum(axis=1)
    rows = np.arange(len(z))
    cut = excess[rows, np.maximum(kept, 1) - 1] / np.maximum(kept, 1)
    inside = size.sum(axis=1) <= radius
    shrunk = np.sign(away) * np.maximum(size - cut[:, None], 0)
    return np.where(inside[:, None], z, centre + shrunk)
