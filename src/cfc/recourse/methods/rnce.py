"""RNCE: the nearest training row that stays accepted under any small change of the parameters.

Following Jiang et al., exact without a commercial solver.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cfc.errors import ModelError
from cfc.recourse.methods.base import Method, Param
from cfc.recourse.methods.kdtree import nearest_of
from cfc.recourse.nets import Net

_CORNER_ROUNDS = 5


class RNCE(Method):
    """The nearest training row whose worst logit over an interval of networks is above 0.

    Every weight and bias may move by the radius on its own. The worst case is that of the interval
    network: first-layer values range freely in their intervals, and all second-layer units see the
    same first-layer vector. It bounds every network in the interval from below, for inputs of
    either sign.
    """

    name, title = "rnce", "RNCE"
    is_batched = True
    PARAMS: ClassVar[dict[str, Param]] = {
        "radius": Param(0.005, "largest change of a weight or bias", low=0.0),
    }

    def prepare(self) -> None:
        """Find the certified training rows of this base model."""
        rows = self.problem.favourable
        self.found = certify_rows(self.problem.net, rows, self.params["radius"])
        self.rows = rows[self.found.certified]

    def generate(self, X: np.ndarray, row_ids: np.ndarray) -> np.ndarray:
        """Return the nearest certified row of each request, NaN when no row is certified."""
        return nearest_of(X, self.rows)

    def facts(self) -> dict[str, float]:
        """Return how many rows each stage decided."""
        found = self.found
        return {
            "rnce_favourable_rows": float(len(found.certified)),
            "rnce_by_intervals": float(found.by_intervals),
            "rnce_by_solver": float(found.by_solver),
            "rnce_certified_rows": float(found.certified.sum()),
        }


@dataclass(frozen=True)
class Certified:
    """Which rows are certified, and by what.

    Attributes:
        certified: bool [n].
        by_intervals: rows that plain interval propagation certified.
        by_solver: rows a mixed-integer program had to decide.
    """

    certified: np.ndarray
    by_intervals: int
    by_solver: int


def certify_rows(net: Net, X: np.ndarray, radius: float) -> Certified:
    """Tell which rows keep a logit above 0 for every network within the radius.

    Three stages, each exact in what it decides: interval propagation certifies, a point of the box
    with a logit of at most 0 refuses, a mixed-integer program decides the rest.

    Args:
        net: a network with two hidden layers.
        X: rows [n, p] in float32.
        radius: largest change of a weight or bias, >= 0.

    Raises:
        ModelError: the network does not have two hidden layers.
    """
    box = IntervalNet(net, radius)
    low, high = box.first_layer(X)
    certified = box.interval_bound(low, high) > 0
    by_intervals, by_solver = int(certified.sum()), 0
    open_rows = np.flatnonzero(~certified)
    attacked = box.attack(low[open_rows], high[open_rows])
    for i in open_rows[attacked > 0]:
        by_solver += 1
        certified[i] = box.worst_logit(low[i], high[i]) > 0
    return Certified(certified, by_intervals, by_solver)


class IntervalNet:
    """All networks whose parameters lie within a radius of one network with two hidden layers.

    Args:
        net: the centre.
        radius: δ >= 0 for every weight and bias.

    Raises:
        ModelError: the network does not have two hidden layers.
    """

    def __init__(self, net: Net, radius: float):
        if len(net.hidden) != 2:
            raise ModelError(
                f"RNCE's certificate is for two hidden layers; this network has {len(net.hidden)}"
            )
        (self.w1, w2, w3), (self.b1, b2, b3) = net.doubles()
        self.radius = radius
        # on non-negative first-layer values the extreme second layers are these two
        self.w2_low, self.b2_low = w2 - radius, b2 - radius
        self.w2_high, self.b2_high = w2 + radius, b2 + radius
        self.a, self.b3 = w3[0] - radius, float(b3[0]) - radius

    def first_layer(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper first-layer values [n, h1] of rows [n, p]."""
        X = np.asarray(X, dtype=np.float64)
        u = X @ self.w1.T + self.b1
        reach = self.radius * (np.abs(X).sum(axis=1, keepdims=True) + 1)
        return np.maximum(u - reach, 0), np.maximum(u + reach, 0)

    def interval_bound(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return a lower bound [n] of the worst logit by interval propagation."""
        least = _extreme(self.w2_low, low, high) + self.b2_low
        most = _extreme(self.w2_high, high, low) + self.b2_high
        v2 = np.where(self.a > 0, np.maximum(least, 0), np.maximum(most, 0))
        return v2 @ self.a + self.b3

    def logit_at(self, v1: np.ndarray) -> np.ndarray:
        """Return the worst logit [n] at given first-layer values [n, h1]."""
        return self._second(v1)[1] @ self.a + self.b3

    def _second(self, v1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u2 = np.where(
            self.a > 0, v1 @ self.w2_low.T + self.b2_low, v1 @ self.w2_high.T + self.b2_high
        )
        return u2, np.maximum(u2, 0)

    def attack(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the lowest logit [n] met at corners the gradient points to; an upper bound."""
        v1 = (low + high) / 2
        best = np.full(len(low), np.inf)
        weight = np.where((self.a > 0)[:, None], self.w2_low, self.w2_high)
        for _ in range(_CORNER_ROUNDS):
            u2, _ = self._second(v1)
            slope = (self.a * (u2 > 0)) @ weight
            v1 = np.where(slope > 0, low, high)
            best = np.minimum(best, self.logit_at(v1))
        return best

    def worst_logit(self, low: np.ndarray, high: np.ndarray) -> float:
        """Return the smallest logit over first-layer values in [low, high], both [h1].

        A mixed-integer program (HiGHS in SciPy). Units that pull the logit up follow from
        v2 >= 0 and v2 >= u2 alone; those that pull it down need a binary where their sign is open.
        Returns −inf when the solver does not reach an optimum, so that nothing unproved counts.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        h1, h2 = len(low), len(self.a)
        u2_low = (_extreme(self.w2_high, low, high) + self.b2_high).ravel()
        u2_high = (_extreme(self.w2_high, high, low) + self.b2_high).ravel()
        down = self.a <= 0
        is_open = down & (u2_low < 0) & (u2_high > 0)
        binaries = np.flatnonzero(is_open)
        n = h1 + h2 + len(binaries)
        rows, lower, upper = [], [], []

        def add(row, lo, hi):
            rows.append(row)
            lower.append(lo)
            upper.append(hi)

        v2_most = np.full(h2, np.inf)
        for k in range(h2):
            row = np.zeros(n)
            row[h1 + k] = 1
            if not down[k]:
                row[:h1] = -self.w2_low[k]
                add(row, self.b2_low[k], np.inf)
                continue
            if u2_high[k] <= 0:
                v2_most[k] = 0
                continue
            row[:h1] = -self.w2_high[k]
            if not is_open[k]:
                add(row, self.b2_high[k], self.b2_high[k])
                continue
            switch = h1 + h2 + int(np.searchsorted(binaries, k))
            # on: v2 <= u2; off: v2 <= 0
            row[switch] = -u2_low[k]
            add(row, -np.inf, self.b2_high[k] - u2_low[k])
            off = np.zeros(n)
            off[h1 + k], off[switch] = 1, -u2_high[k]
            add(off, -np.inf, 0)
        cost = np.concatenate([np.zeros(h1), self.a, np.zeros(len(binaries))])
        found = milp(
            cost,
            integrality=np.concatenate([np.zeros(h1 + h2), np.ones(len(binaries))]),
            bounds=Bounds(
                np.concatenate([low, np.zeros(h2 + len(binaries))]),
                np.concatenate([high, v2_most, np.ones(len(binaries))]),
            ),
            constraints=LinearConstraint(np.array(rows), lower, upper) if rows else None,
        )
        if found.status != 0:
            return -np.inf
        proved = found.fun if found.mip_dual_bound is None else found.mip_dual_bound
        return min(float(found.fun), float(proved)) + self.b3


def _extreme(weight: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return Σ w·v with v from ``first`` where w > 0, else from ``second``; [n, out]."""
    return first @ np.maximum(weight, 0).T + second @ np.minimum(weight, 0).T
