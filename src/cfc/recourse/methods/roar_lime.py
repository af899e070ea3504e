"""ROAR on a LIME surrogate: recourse for the worst of all linear models near a local one."""

from typing import ClassVar

import numpy as np

from cfc.recourse.methods.base import Method, Param, Problem, no_candidate
from cfc.recourse.methods.wachter import Adam
from cfc.recourse.nets import sigmoid, softplus

_DIGITS = 4


class RoarLime(Method):
    """Robust recourse (Upadhyay et al.) on a local logistic surrogate.

    The candidate minimises the loss under the worst coefficients within a box, plus a distance. It
    answers to the surrogate, so the base network need not accept it.
    """

    name, title = "roar_lime", "ROAR-LIME"
    is_batched = True
    PARAMS: ClassVar[dict[str, Param]] = {
        "lam": Param(0.01, "weight of the distance", low=0.0),
        "delta": Param(0.1, "largest change of a coefficient and of the intercept", low=0.0),
        "lr": Param(0.001, "step size of Adam", low=1e-7),
        "tolerance": Param(1e-4, "change of the loss that ends the search", low=0.0),
        "max_steps": Param(20_000, "most steps", low=1),
        "samples": Param(20_000, "rows the surrogate is fitted on", low=10),
        "width": Param(0.75, "width of the kernel, times the root of the number of features", 1e-6),
    }
    GRID: ClassVar[dict[str, tuple]] = {
        "lam": (0.0005, 0.001, 0.005, *(round(0.01 + 0.05 * k, 2) for k in range(22)))
    }

    def generate(self, X: np.ndarray, row_ids: np.ndarray) -> np.ndarray:
        """Return where the search of each request ends; NaN when all its samples agree."""
        out = no_candidate(*X.shape)
        fits = [self._surrogate(x, int(r)) for x, r in zip(X, row_ids, strict=True)]
        found = [i for i, fit in enumerate(fits) if fit is not None]
        if found:
            weight = np.array([fits[i][0] for i in found])
            bias = np.array([fits[i][1] for i in found])
            out[found] = self._descend(X[found].astype(np.float64), weight, bias)
        return out

    def _surrogate(self, x: np.ndarray, row_id: int) -> tuple[np.ndarray, float] | None:
        # the same noise and fit serve every λ of the grid
        key = ("roar_lime", row_id, self.params["samples"], self.params["width"])
        if key not in self.problem.cache:
            self.problem.cache[key] = surrogate(
                x, row_id, self.problem, self.params["samples"], self.params["width"]
            )
        return self.problem.cache[key]

    def _descend(self, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        delta, lam = self.params["delta"], self.params["lam"]
        z, out = x.copy(), x.copy()
        going, last = np.arange(len(x)), np.full(len(x), np.inf)
        steps = Adam(self.params["lr"])
        for _ in range(self.params["max_steps"] + 1):
            worst = worst_logit(z, weight[going], bias[going], delta)
            away = z - x[going]
            loss = softplus(-worst) + lam * np.abs(away).sum(axis=1)
            rest = ~(np.abs(last - loss) <= self.params["tolerance"])
            out[going] = z
            if not rest.all():
                going, z, worst, away, loss = (v[rest] for v in (going, z, worst, away, loss))
                if steps.first is not None:
                    steps.keep(rest)
            if not len(going):
                break
            last = loss
            slope = -sigmoid(-worst)[:, None] * (weight[going] - delta * np.sign(z))
            z = steps.step(z, slope + lam * np.sign(away))
        return out


def worst_logit(z: np.ndarray, weight: np.ndarray, bias: np.ndarray, delta: float) -> np.ndarray:
    """Return the smallest logit [n] when coefficients and intercept move by at most δ each.

    Args:
        z: points [n, p].
        weight: coefficients [n, p].
        bias: intercepts [n].
        delta: δ >= 0.
    """
    return (weight * z).sum(axis=1) - delta * np.abs(z).sum(axis=1) + bias - delta


def surrogate(
    x: np.ndarray, row_id: int, problem: Problem, samples: int, width: float
) -> tuple[np.ndarray, float] | None:
    """Return coefficients [p] and intercept of a logistic model fitted around a request.

    Rows are drawn around the training mean, not around the request, as LIME does; only their
    weights are local. They are labelled by the base network. Numbers are rounded to four decimals,
    as LIME prints them.

    Args:
        x: request [p].
        row_id: its number, which names the stream of the rows.
        problem: base network and data.
        samples: rows drawn; the first is the request itself.
        width: kernel width over √p.

    Returns:
        None when all rows have one label, or the fit is not finite.
    """
    from sklearn.linear_model import LogisticRegression

    train = problem.X_train.astype(np.float64)
    mean, sd = train.mean(axis=0), train.std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    p = len(x)
    rows = problem.rng(row_id=row_id).standard_normal((samples, p)) * sd + mean
    rows[0] = x
    labels = problem.net.accepts(rows)
    if labels.all() or not labels.any():
        return None
    square = (((rows - x) / sd) ** 2).sum(axis=1)
    weights = np.sqrt(np.exp(-square / (width**2 * p)))
    model = LogisticRegression(C=1.0, max_iter=1000, solver="newton-cholesky", tol=1e-6)
    model.fit(rows, labels, sample_weight=weights)
    weight = np.round(model.coef_[0], _DIGITS)
    bias = float(np.round(model.intercept_[0], _DIGITS))
    return (weight, bias) if np.isfinite([*weight, bias]).all() else None
