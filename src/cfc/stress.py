"""Held-out stress: the label channel (paper, Appendix J, K and Q.1).

Its draws come from counter-based streams keyed by (seed, operator, case, severity, draw) that the
certificate never touches, so a case's outcome does not depend on batch, order or which other cases
are stressed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfc.errors import CfcError, ConfigError, ProblemList, nearest
from cfc.groups import Groups
from cfc.operators import MILLIONTHS, STRESSES, Context
from cfc.predictor import CountedPredictor, Predict, cases_per_chunk
from cfc.scores import CLIP, margin_of, predicted_label
from cfc.seeding import uniforms

OPERATORS = ("mask", "dropout", "noise", "swap")


@dataclass(frozen=True)
class StressSettings:
    """Operators, severities and number of draws.

    >>> settings = StressSettings({"swap": (0.1, 0.3), "noise": (0.5,)}, {"swap": 100, "noise": 20})
    >>> settings.rows_per_case
    220
    >>> StressSettings({"sawp": (0.1,)}, {"sawp": 100})
    Traceback (most recent call last):
        ...
    cfc.errors.ConfigError: stress settings: 1 problem
      - stress operator 'sawp' is unknown; nearest known: swap

    Attributes:
        severities: operator -> severities, each in (0, 1] for mask, dropout and swap
            (probability of replacement) and above 0 for noise (in train standard deviations) and
            for operators registered with `cfc.stress_operator`.
        draws: operator -> number of draws H at each severity, at least 1.

    Raises:
        ConfigError: unknown operators or illegal values, all at once.
    """

    severities: Mapping[str, tuple[float, ...]]
    draws: Mapping[str, int]

    def __post_init__(self):
        problems = ProblemList()
        known = (*OPERATORS, *STRESSES)
        for name in {**self.severities, **self.draws}:
            if name not in known:
                problems.append(f"stress operator {name!r} is unknown; {nearest(name, known)}")
        if set(self.severities) != set(self.draws):
            problems.append("severities and draws must name the same operators")
        for name, grid in self.severities.items():
            most = 1.0 if name in ("mask", "dropout", "swap") else np.inf
            if not grid or any(not 0 < s <= most for s in grid) or len(set(grid)) != len(grid):
                interval = "in (0, 1]" if most == 1.0 else "above 0"
                problems.append(f"severities of {name}: {list(grid)} must be distinct, {interval}")
        problems += [
            f"draws of {name}: {h!r} is not a whole number of at least 1"
            for name, h in self.draws.items()
            if not isinstance(h, int) or h < 1
        ]
        problems.raise_if_any(ConfigError, "stress settings")

    @classmethod
    def from_mapping(cls, operators: Mapping[str, Mapping[str, Any]]) -> "StressSettings":
        """Build from ``{operator: {severities: [...], draws: H}}``."""
        return cls(
            {name: tuple(v["severities"]) for name, v in operators.items()},
            {name: v["draws"] for name, v in operators.items()},
        )

    @property
    def rows_per_case(self) -> int:
        """Forward rows of one case."""
        return sum(len(grid) * self.draws[name] for name, grid in self.severities.items())


@dataclass(frozen=True)
class StressResult:
    """Outcome of every draw, in the order of the settings.

    Attributes:
        predicted: class before stress, int16 [n].
        margin: margin before stress, float64 [n].
        margins: operator -> margin of the original class, float32 [n, severities, H].
        labels: operator -> predicted class, int16 [n, severities, H].
        model_seconds: time spent inside the model.
        rows: forward rows made.
    """

    predicted: np.ndarray
    margin: np.ndarray
    margins: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]
    model_seconds: float
    rows: int


def stress_cases(
    X: np.ndarray,
    groups: Groups,
    baseline: np.ndarray,
    predict: Predict,
    settings: StressSettings,
    *,
    seed: int,
    case_ids: np.ndarray,
    noise_scale: np.ndarray,
    donors: np.ndarray,
    clip: float = CLIP,
    dtype: str | np.dtype = "float32",
    chunk_bytes: int | None = None,
    progress=None,
) -> StressResult:
    """Stress every row of X.

    - ``mask``: each group replaced by x̄ with probability s.
    - ``dropout``: each coordinate replaced by x̄ with probability s.
    - ``noise``: uniform on [−s, s) train standard deviations added to numeric coordinates; a
      one-hot level is not a quantity and stays.
    - ``swap``: each group replaced, with probability s, by the same group's values of one random
      donor row; the only operator that does not share x̄ with the certificate.

    >>> import numpy as np
    >>> from cfc import Groups, StressSettings, stress_cases
    >>> def predict(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 0]))
    ...     return np.column_stack([1 - p, p])
    >>> groups = Groups(["first", "second"], [[0], [1]], n_coordinates=2)
    >>> outcome = stress_cases(
    ...     np.array([[1.0, 0.0]]),
    ...     groups,
    ...     np.array([-0.5, 0.0]),
    ...     predict,
    ...     StressSettings({"mask": (0.3, 1.0)}, {"mask": 1000}),
    ...     seed=0,
    ...     case_ids=np.array([7]),
    ...     noise_scale=np.zeros(2),
    ...     donors=np.empty((0, 2)),
    ... )
    >>> flips = outcome.labels["mask"] != outcome.predicted[:, None, None]
    >>> flips.mean(axis=2).round(1)  # the share of draws in which the first group is masked
    array([[0.3, 1. ]])

    Args:
        X: rows [n, d]; taken as ``dtype`` in C order.
        groups: partition of the coordinates.
        baseline: x̄ [d].
        predict: rows [r, d] of ``dtype`` -> probabilities [r, C].
        settings: operators, severities, draws.
        seed: root seed of the unit.
        case_ids: stable whole numbers in [0, 2**32), [n].
        noise_scale: train standard deviation of numeric coordinates, 0 elsewhere, [d].
        donors: training rows to swap from [m, d].
        clip: lower bound of a probability.
        dtype: ``float32`` or ``float64``, in which states are made and the model is asked.
        chunk_bytes: size of the largest state matrix (default 64 MiB).
        progress: called with (operator-severity cells done, cells in all).

    Raises:
        CfcError: shapes do not fit; no donor row for ``swap``.
    """
    X = np.ascontiguousarray(X, dtype=dtype)
    baseline = np.ascontiguousarray(baseline, dtype=dtype)
    donors = np.asarray(donors, dtype=dtype)
    if X.shape[1] != groups.n_coordinates or baseline.shape != (X.shape[1],):
        raise CfcError(f"rows {X.shape}, baseline {baseline.shape} and groups do not fit together")
    if "swap" in settings.severities and not len(donors):
        raise CfcError("the swap operator needs at least one training row to take values from")
    model = CountedPredictor(predict)
    n = len(X)
    predicted = np.empty(n, dtype=np.int16)
    margin = np.empty(n)
    step = cases_per_chunk(1, X.shape[1], chunk_bytes, X.itemsize)
    for start in range(0, n, step):
        part = slice(start, start + step)
        proba = model(X[part])
        predicted[part] = predicted_label(proba)
        margin[part] = margin_of(proba, predicted[part], clip)
    draw = _Draw(groups, baseline, np.asarray(noise_scale, dtype), donors, seed)
    margins, labels = {}, {}
    cells = sum(map(len, settings.severities.values()))
    done = 0
    for operator, grid in settings.severities.items():
        draws = settings.draws[operator]
        margins[operator] = np.empty((n, len(grid), draws), dtype=np.float32)
        labels[operator] = np.empty((n, len(grid), draws), dtype=np.int16)
        step = cases_per_chunk(draws, X.shape[1], chunk_bytes, X.itemsize)
        for level, severity in enumerate(grid):
            for start in range(0, n, step):
                part = slice(start, start + step)
                states = draw(operator, X[part], case_ids[part], severity, draws)
                proba = model(states.reshape(-1, X.shape[1]))
                own = np.repeat(predicted[part], draws)
                shape = states.shape[:2]
                margins[operator][part, level] = margin_of(proba, own, clip).reshape(shape)
                labels[operator][part, level] = predicted_label(proba).reshape(shape)
            done += 1
            if progress:
                progress(done, cells)
    return StressResult(predicted, margin, margins, labels, model.seconds, model.rows)


@dataclass(frozen=True)
class _Draw:
    groups: Groups
    baseline: np.ndarray
    noise_scale: np.ndarray
    donors: np.ndarray
    seed: int

    def __call__(self, operator, X, case_ids, severity, draws) -> np.ndarray:
        """Return stressed rows [n, H, d], in the dtype of X."""
        if operator in STRESSES:
            context = Context(self.groups, self.baseline, None, self.donors, self.noise_scale)
            return STRESSES[operator].states(
                X, severity, context, seed=self.seed, case_ids=case_ids, draws=draws
            )
        return getattr(self, f"_{operator}")(X, severity, draws, self._stream(operator, case_ids))

    def _stream(self, operator, case_ids):
        def numbers(severity, draws, count):
            stream = round(severity * MILLIONTHS)
            return uniforms(self.seed, operator, case_ids, stream, np.arange(draws), count)

        return numbers

    def _mask(self, X, severity, draws, numbers):
        hit = numbers(severity, draws, len(self.groups)) < severity
        return np.where(self.groups.spread(hit, False), self.baseline, X[:, None, :])

    def _dropout(self, X, severity, draws, numbers):
        hit = numbers(severity, draws, X.shape[1]) < severity
        hit[:, :, self.groups.fixed] = False
        return np.where(hit, self.baseline, X[:, None, :])

    def _noise(self, X, severity, draws, numbers):
        states = np.repeat(X[:, None, :], draws, axis=1)
        numeric = np.setdiff1d(np.flatnonzero(self.noise_scale), self.groups.fixed)
        shift = 2.0 * numbers(severity, draws, len(numeric)) - 1.0
        states[:, :, numeric] += X.dtype.type(severity) * self.noise_scale[numeric] * shift
        return states

    def _swap(self, X, severity, draws, numbers):
        u = numbers(severity, draws, 1 + len(self.groups))
        donor = (u[:, :, 0].astype(np.float64) * len(self.donors)).astype(np.intp)
        hit = u[:, :, 1:] < severity
        return np.where(self.groups.spread(hit, False), self.donors[donor], X[:, None, :])
