"""RobX: move a counterfactual towards training rows that are stable under Gaussian noise.

After Dutta et al. Stability is the mean minus the standard deviation of the probability over
noisy copies of a point.
"""

from typing import ClassVar

import numpy as np

from cfc.recourse.methods.base import Answer, Method, Param, nearest_rows, no_candidate
from cfc.recourse.methods.spheres import Shells, growing_sphere
from cfc.recourse.nets import sigmoid

_PARAMS = {
    "quantile": Param(0.5, "quantile of accepted rows' stability a candidate must pass", 0.0, 1.0),
    "floor": Param(0.5, "least threshold of stability", low=0.0, high=1.0),
    "samples": Param(1000, "noisy copies of a point", low=2),
    "noise": Param(0.1, "standard deviation of the noise in each feature", low=0.0),
    "anchors": Param(10, "stable rows a start point moves to", low=1),
    "shrink": Param(0.9, "share of the way left after a round", low=0.0, high=0.9999),
    "rounds": Param(800, "most rounds", low=1),
    "start_samples": Param(1000, "points a shell for the start point", low=1),
    "start_shells": Param(800, "most shells for the start point", low=1),
    "step": Param(0.1, "thickness of a shell", low=1e-6),
}


class RobX(Method):
    """Shared by the two settings: growing spheres to a start point, then rounds towards anchors.

    The noise is drawn once a base model and used for every point (common random numbers): its
    product with the first layer is a constant, so a test costs the upper layers only.
    """

    PARAMS: ClassVar[dict[str, Param]] = _PARAMS

    def prepare(self) -> None:
        """Draw the noise, score the accepted training rows and set the threshold."""
        problem, p = self.problem, self.params
        noise = problem.rng("robx_noise").standard_normal(
            (p["samples"], problem.data.n_features), dtype=np.float32
        )
        self.shift = np.float32(p["noise"]) * noise @ problem.net.weights[0].T
        rows = problem.favourable
        scores = self.stability(rows)
        low = float(np.quantile(scores, p["quantile"])) if len(rows) else np.inf
        self.threshold = max(p["floor"], low)
        self.stable = rows[scores > self.threshold]

    def stability(self, points: np.ndarray) -> np.ndarray:
        """Return mean − standard deviation of the probability under noise [n] at points [n, p]."""
        net = self.problem.net
        base = np.asarray(points, dtype=np.float32) @ net.weights[0].T + net.biases[0]
        out = np.empty(len(base))
        for start in range(0, len(base), 16):
            h = np.maximum(base[start : start + 16, None, :] + self.shift, 0)
            h = h.reshape(-1, h.shape[-1])
            for w, b in zip(net.weights[1:-1], net.biases[1:-1], strict=True):
                h = h @ w.T
                h += b
                np.maximum(h, 0, out=h)
            logits = h @ net.weights[-1][0] + net.biases[-1][0]
            proba = sigmoid(logits).reshape(-1, len(self.shift)).astype(np.float64)
            out[start : start + len(proba)] = proba.mean(axis=1) - proba.std(axis=1)
        return out

    def generate(self, X: np.ndarray, row_ids: np.ndarray) -> Answer:
        """Return the first moving copy whose stability passes; NaN without a start or an anchor."""
        out, remarks = no_candidate(*X.shape), []
        for i, (x, row_id) in enumerate(zip(X, row_ids, strict=True)):
            point, remark = self._one(x, int(row_id))
            remarks.append(remark)
            if point is not None:
                out[i] = point
        return Answer(out, remarks)

    def _one(self, x: np.ndarray, row_id: int) -> tuple[np.ndarray | None, dict]:
        start = self._start(x, row_id)
        if start is None:
            return None, {"why": "no start point"}
        if self.stability(start[None])[0] > self.threshold:
            return start, {"rounds": 0}
        if not len(self.stable):
            return None, {"why": "no stable row"}
        near = nearest_rows(start, self.stable, order=1)[: self.params["anchors"]]
        anchors = self.stable[near]
        keep = np.float32(self.params["shrink"])
        copies = np.repeat(start[None], len(anchors), axis=0)
        for number in range(1, self.params["rounds"] + 1):
            copies = keep * copies + (1 - keep) * anchors
            passed = np.flatnonzero(self.stability(copies) > self.threshold)
            if len(passed):
                return copies[passed[0]], {"rounds": number, "anchor": int(passed[0])}
        return None, {"why": "no copy passed"}

    def _start(self, x: np.ndarray, row_id: int) -> np.ndarray | None:
        data = self.problem.data
        shells = Shells(
            samples=self.params["start_samples"],
            order=1,
            step=self.params["step"],
            most=self.params["start_shells"],
            low=data.low.astype(np.float32),
            high=data.high.astype(np.float32),
        )
        # both settings use this stream, so they start from the same point
        rng = self.problem.rng(row_id=row_id)
        return growing_sphere(x, self.problem.net.accepts, shells, rng)

    def facts(self) -> dict[str, float]:
        """Return the threshold and the number of rows above it."""
        return {
            "robx_threshold": float(self.threshold),
            "robx_stable_rows": float(len(self.stable)),
        }


class RobXBalanced(RobX):
    """RobX with the median stability of accepted rows as threshold."""

    name, title = "robx_balanced", "RobX balanced"


class RobXRobustFirst(RobX):
    """RobX with the 90 % quantile as threshold."""

    name, title = "robx_robust_first", "RobX robust-first"
    PARAMS: ClassVar[dict[str, Param]] = _PARAMS | {
        "quantile": Param(0.9, _PARAMS["quantile"].doc, low=0.0, high=1.0)
    }
