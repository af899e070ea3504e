"""APΔS: the cheapest counterfactual that every one of many sampled nearby networks accepts.

After Marzari et al. Minimum-cost counterfactuals for growing margins come from a local search over
the activation patterns of the network, one linear program a pattern (HiGHS in SciPy); the sample
size makes "all accept" a statement with a confidence.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cfc.errors import ModelError
from cfc.recourse.methods.base import Answer, Method, Param, Problem, nearest_rows, no_candidate
from cfc.recourse.nets import Net

SLACK = 1e-4  # above the margin, so that float32 rounding cannot undo it
_PATH_STEP = 0.02
_PATH_STEPS = 20_000
_PATH_PATIENCE = 100
_TIGHT = 1e-6
_GAIN = 1e-9
_FLIPS = 30


def sample_size(confidence: float, share: float) -> int:
    """Return how many accepting networks show acceptance by a share at a confidence.

    If less than ``share`` of all networks accepted, n independent ones would all accept with
    probability below share^n; n is the least whole number with share^n <= 1 − confidence.

    Args:
        confidence: in (0, 1).
        share: in (0, 1).
    """
    return math.ceil(math.log(1 - confidence) / math.log(share))


class APAS(Method):
    """Minimum-cost counterfactuals for growing margins until all sampled networks accept.

    The radius of the parameter noise is calibrated on a base model: the largest parameter change
    one pass over a bootstrap of the update pool makes, over ten passes. A fresh sample checks each
    candidate afterwards; it says whether the request is certified and changes nothing. There is no
    clock: a request ends with a candidate, or without one after the last margin.
    """

    name, title = "apas", "APΔS"
    PARAMS: ClassVar[dict[str, Param]] = {
        "confidence": Param(0.999, "confidence of the statement", low=0.5, high=0.999999),
        "share": Param(0.995, "share of networks that accept", low=0.5, high=0.999999),
        "networks": Param(0, "sampled networks; 0: as many as the two above need", low=0),
        "copies": Param(10, "passes of the calibration", low=1),
        "lr": Param(0.001, "step size of the calibration", low=1e-8),
        "batch": Param(8, "rows a step of the calibration", low=1),
        "first_margin": Param(0.01, "first logit margin", low=0.0),
        "margin_step": Param(0.2, "how much the margin grows", low=1e-3),
        "last_margin": Param(20.0, "largest margin tried", low=0.0),
    }

    def prepare(self) -> None:
        """Calibrate the radius and draw the search sample."""
        problem, p = self.problem, self.params
        self.radius = calibrated_radius(problem, p["copies"], p["lr"], p["batch"])
        self.networks = p["networks"] or sample_size(p["confidence"], p["share"])
        draw = problem.seeds.rng("apas_search", problem.base)
        self.cloud = Cloud(problem.net, self.radius, self.networks, draw)

    def generate(self, X: np.ndarray, row_ids: np.ndarray) -> Answer:
        """Return the first candidate the whole sample accepts, with its later check."""
        out, remarks = no_candidate(*X.shape), []
        for i, (x, row_id) in enumerate(zip(X, row_ids, strict=True)):
            point, margin = self._search(x)
            remark = {"certified": False}
            if point is not None:
                out[i] = point
                draw = self.problem.seeds.rng(
                    "apas_check", self.problem.base, replicate=int(row_id)
                )
                fresh = Cloud(self.problem.net, self.radius, self.networks, draw)
                remark = {"certified": fresh.accepts(point), "margin": round(margin, 6)}
            remarks.append(remark)
        return Answer(out, remarks)

    def _search(self, x: np.ndarray) -> tuple[np.ndarray | None, float]:
        net, data = self.problem.net, self.problem.data
        solver = LocalSolver(net, x, data.low, data.high)
        margin, last = self.params["first_margin"], None
        while margin <= self.params["last_margin"] + 1e-9:
            starts = [solver.path_to(margin + 2 * SLACK)]
            if last is None:
                starts += segment_points(x, self.problem, margin + 1e-3)
            else:
                starts.append(last)
            found = solver.solve(margin, [s for s in starts if s is not None])
            if found is None:
                # every start that fails at this margin fails at all larger ones
                return None, margin
            last = found
            point = found.astype(np.float32)
            if net.accepts(point[None])[0] and self.cloud.accepts(point):
                return point, margin
            margin += self.params["margin_step"]
        return None, margin

    def facts(self) -> dict[str, float]:
        """Return the calibrated radius and the sample size."""
        return {"apas_radius": self.radius, "apas_networks": float(self.networks)}


def calibrated_radius(problem: Problem, copies: int, lr: float, batch: int) -> float:
    """Return the largest parameter change of one pass over bootstraps of the update pool."""
    from cfc.recourse.training import one_pass

    data = problem.data
    n = len(data.y["update"])
    rows = np.stack(
        [
            problem.seeds.rng("apas_calibration", problem.base, replicate=r).integers(0, n, n)
            for r in range(copies)
        ]
    )
    moved = one_pass(problem.net, data.X["update"], data.y["update"], rows, lr=lr, batch=batch)
    return float(moved.max())


class Cloud:
    """Networks around one network, every parameter moved by uniform noise in (−radius, radius).

    Args:
        net: the centre.
        radius: of the noise, >= 0.
        size: number of networks.
        rng: source of the noise.
    """

    def __init__(self, net: Net, radius: float, size: int, rng: np.random.Generator):
        flat = net.flat()
        noise = rng.random((size, len(flat)), dtype=np.float32)
        noise *= np.float32(2 * radius)
        noise += flat - np.float32(radius)
        self.weights, self.biases, start = [], [], 0
        for w, b in zip(net.weights, net.biases, strict=True):
            self.weights.append(noise[:, start : start + w.size].reshape(size, *w.shape))
            start += w.size
            self.biases.append(noise[:, start : start + b.size])
            start += b.size
        self._refused = np.empty(0, dtype=int)

    def __len__(self) -> int:
        return len(self.biases[0])

    def logits(self, x: np.ndarray, members=slice(None)) -> np.ndarray:
        """Return the logits of one point [p] under the chosen networks, float32."""
        h = self.weights[0][members] @ np.asarray(x, dtype=np.float32) + self.biases[0][members]
        for w, b in zip(self.weights[1:], self.biases[1:], strict=True):
            h = np.einsum("nij,nj->ni", w[members], np.maximum(h, 0)) + b[members]
        return h[:, 0]

    def accepts(self, x: np.ndarray) -> bool:
        """Tell whether every network accepts one point [p]."""
        # networks that refused before are asked first; the answer does not depend on the order
        if len(self._refused) and (self.logits(x, self._refused) < 0).any():
            return False
        logits = self.logits(x)
        worst = int(logits.argmin())
        if logits[worst] >= 0:
            return True
        self._refused = np.union1d(self._refused, [worst])
        return False


def segment_points(x: np.ndarray, problem: Problem, logit: float) -> list[np.ndarray]:
    """Return first points with at least a logit on the segments to three accepted rows.

    The rows are the three nearest (L1) training rows whose own logit is above 0.3.
    """
    net = problem.net
    rows = problem.favourable
    rows = rows[net.logits(rows) > 0.3] if len(rows) else rows
    found = []
    share = np.linspace(0, 1, 101)[:, None]
    for place in nearest_rows(x, rows, order=1)[:3]:
        line = (1 - share) * x.astype(np.float64) + share * rows[place]
        passed = np.flatnonzero(net.logits(line) >= logit)
        if len(passed):
            found.append(line[passed[0]])
    return found


@dataclass(frozen=True)
class _Solution:
    """Optimum of one region: point, cost, and the multipliers of its rows."""

    z: np.ndarray
    cost: float
    pattern: tuple[np.ndarray, np.ndarray]
    slack: np.ndarray
    dual: np.ndarray


class LocalSolver:
    """Minimises ‖z − x‖₁ subject to a logit and a box, by a local search over ReLU patterns.

    Inside one activation pattern the network is affine, so the optimum is a linear program. From
    there a neighbouring pattern is tried for every unit whose sign constraint is tight. Linear
    programming duality tells which flips cannot help: if the multipliers still show the point to be
    optimal on the other side, no program is solved. The result is a local optimum without a proof
    of global optimality.

    Args:
        net: two hidden layers.
        x: request [p].
        low, high: bounds [p] of the candidate; the request may lie outside.

    Raises:
        ModelError: the network does not have two hidden layers.
    """

    def __init__(self, net: Net, x: np.ndarray, low: np.ndarray, high: np.ndarray):
        if len(net.hidden) != 2:
            raise ModelError(
                f"the APΔS solver takes two hidden layers; this network has {len(net.hidden)}"
            )
        (self.w1, self.w2, w3), (self.b1, self.b2, b3) = net.doubles()
        self.w3, self.b3 = w3[0], float(b3[0])
        self.x = x.astype(np.float64)
        up = np.stack([np.maximum(low - self.x, 0), np.maximum(high - self.x, 0)], axis=1)
        down = np.stack([np.maximum(self.x - high, 0), np.maximum(self.x - low, 0)], axis=1)
        self.bounds = np.concatenate([up, down])
        self.low, self.high = low, high
        self._path = np.clip(self.x, low, high)
        self._path_logit = self.logit(self._path)
        self._stuck = False

    def _units(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u1 = self.w1 @ z + self.b1
        return u1, self.w2 @ np.maximum(u1, 0) + self.b2

    def logit(self, z: np.ndarray) -> float:
        """Return the logit at one point [p], float64."""
        return float(self.w3 @ np.maximum(self._units(z)[1], 0) + self.b3)

    def pattern(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which units of both layers are on at one point, bool."""
        u1, u2 = self._units(z)
        return u1 > 0, u2 > 0

    def path_to(self, logit: float) -> np.ndarray | None:
        """Return the point where the greedy path first reaches a logit; None if it never does.

        The path moves the coordinate with the steepest slope that still has room, by 0.02. It is
        kept, so that a higher logit goes on from where the last one ended. At a kink it can step
        back and forth without rising; after 100 such steps it has ended.
        """
        z, best, fails = self._path, self._path_logit, 0
        for _ in range(_PATH_STEPS):
            if self._path_logit >= logit or self._stuck:
                break
            u1 = self.w1 @ z + self.b1
            u2 = self.w2 @ np.maximum(u1, 0) + self.b2
            slope = ((self.w3 * (u2 > 0)) @ self.w2 * (u1 > 0)) @ self.w1
            room = np.where(slope > 0, self.high - z, z - self.low)
            force = np.where(room > 1e-12, np.abs(slope), 0)
            j = int(force.argmax())
            if force[j] <= 0:
                self._stuck = True
                break
            z = z.copy()
            z[j] += np.sign(slope[j]) * min(_PATH_STEP, room[j])
            self._path, self._path_logit = z, self.logit(z)
            fails = 0 if self._path_logit > best else fails + 1
            best = max(best, self._path_logit)
            self._stuck = fails >= _PATH_PATIENCE
        return self._path if self._path_logit >= logit else None

    def region(self, pattern: tuple[np.ndarray, np.ndarray], margin: float) -> _Solution | None:
        """Return the cheapest point of one activation pattern, None where there is none."""
        from scipy.optimize import linprog

        on1, on2 = pattern
        g2 = (self.w2 * on1) @ self.w1
        c2 = (self.w2 * on1) @ self.b1 + self.b2
        live = self.w3 * on2
        rows = np.vstack(
            [
                np.where(on1, 1.0, -1.0)[:, None] * self.w1,
                np.where(on2, 1.0, -1.0)[:, None] * g2,
                live @ g2,
            ]
        )
        least = np.concatenate(
            [
                -np.where(on1, 1.0, -1.0) * self.b1,
                -np.where(on2, 1.0, -1.0) * c2,
                [margin + SLACK - live @ c2 - self.b3],
            ]
        )
        least -= rows @ self.x
        found = linprog(
            np.ones(2 * len(self.x)),
            A_ub=np.hstack([-rows, rows]),
            b_ub=-least,
            bounds=self.bounds,
            method="highs-ds",
            options={"presolve": False},
        )
        if found.status != 0:
            return None
        p = len(self.x)
        z = np.clip(self.x + found.x[:p] - found.x[p:], self.low, self.high)
        return _Solution(
            z, float(found.fun), pattern, found.ineqlin.residual, -found.ineqlin.marginals
        )

    def flips(self, at: _Solution) -> list[np.ndarray]:
        """Return the tight units whose flip could lower the cost, one a time, then all together.

        Units are numbered through both layers. With ν the multiplier of a unit's sign constraint
        and μ that of the logit, the point stays optimal on the other side when

        - first layer:  −ν − (Σ_k ν_k s_k W2_kj + μ Σ_k w3_k a_k W2_kj) >= 0,
        - second layer: −ν − μ w3_k >= 0,

        where s is ±1 for units on and off, a is 1 and 0.
        """
        h1 = len(self.b1)
        on2 = at.pattern[1]
        nu1, nu2, mu = at.dual[:h1], at.dual[h1:-1], at.dual[-1]
        sign2 = np.where(on2, 1.0, -1.0)
        other = np.concatenate(
            [
                -nu1 - (nu2 * sign2 + mu * self.w3 * on2) @ self.w2,
                -nu2 - mu * self.w3,
            ]
        )
        tight = at.slack[:-1] <= _TIGHT
        useful = np.flatnonzero(tight & (other < -_GAIN))
        steps = [np.array([i]) for i in useful]
        if tight.sum() > 1:
            steps.append(np.flatnonzero(tight))
        return steps

    def solve(self, margin: float, starts: list[np.ndarray]) -> np.ndarray | None:
        """Return the cheapest point found from any start, None where no start's region has one.

        Args:
            margin: the logit wanted, less a slack of 1e-4.
            starts: points [p] whose activation patterns the search begins in.
        """
        best: _Solution | None = None
        seen: dict[bytes, _Solution | None] = {}

        def region(pattern):
            key = np.packbits(np.concatenate(pattern)).tobytes()
            if key not in seen:
                seen[key] = self.region(pattern, margin)
            return seen[key]

        for start in starts:
            at = region(self.pattern(start))
            for _ in range(_FLIPS):
                better = None if at is None else self._step(at, region)
                if better is None:
                    break
                at = better
            if at is not None and (best is None or at.cost < best.cost - _GAIN):
                best = at
        return None if best is None else best.z

    def _step(self, at: _Solution, region) -> _Solution | None:
        h1 = len(self.b1)
        for units in self.flips(at):
            pattern = np.concatenate(at.pattern)
            pattern[units] = ~pattern[units]
            found = region((pattern[:h1], pattern[h1:]))
            if found is not None and found.cost < at.cost - _GAIN:
                return found
        return None
