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
from cfc.predictor import CountedPredictor, Predict, cases_per_chunk
from cfc.scores import CLIP, margin_of, predicted_label
from cfc.seeding import uniforms

OPERATORS = ("mask", "dropout", "noise", "swap")
_MILLIONTHS = 1_000_000


@dataclass(frozen=True)
class StressSettings:
    """Operators, severities and number of draws.

    Attributes:
        severities: operator -> severities, each in (0, 1] for mask, dropout and swap
            (probability of replacement) and above 0 for noise (in train standard deviations).
        draws: operator -> number of draws H at each severity, at least 1.

    Raises:
        ConfigError: unknown operators or illegal values, all at once.
    """

    severities: Mapping[str, tuple[float, ...]]
    draws: Mapping[str, int]

    def __post_init__(self):
        problems = ProblemList()
        for name in {**self.severities, **self.draws}:
            if name not in OPERATORS:
                problems.append(f"stress operator {name!r} is unknown; {nearest(name, OPERATORS)}")
        if set(self.severities) != set(self.draws):
            problems.append("severities and draws must name the same operators")
        for name, grid in self.severities.items():
            most = np.inf if name == "noise" else 1.0
            if not grid or any(not 0 < s <= most for s in grid) or len(set(grid)) != len(grid):
                problems.append(f"severities of {name}: {list(grid)} must be distinct, in (0, 1]")
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

    Args:
        X: rows [n, d], float32.
        groups: partition of the coordinates.
        baseline: x̄ [d].
        predict: float32 rows [r, d] -> probabilities [r, C].
        settings: operators, severities, draws.
        seed: root seed of the unit.
        case_ids: stable whole numbers in [0, 2**32), [n].
        noise_scale: train standard deviation of numeric coordinates, 0 elsewhere, [d].
        donors: training rows to swap from [m, d], float32.
        clip: lower bound of a probability.
        chunk_bytes: size of the largest state matrix (default 64 MiB).
        progress: called with (operator-severity cells done, cells in all).

    Raises:
        CfcError: shapes do not fit; no donor row for ``swap``.
    """
    X = np.ascontiguousarray(X, dtype=np.float32)
    baseline = np.ascontiguousarray(baseline, dtype=np.float32)
    if X.shape[1] != groups.n_coordinates or baseline.shape != (X.shape[1],):
        raise CfcError(f"rows {X.shape}, baseline {baseline.shape} and groups do not fit together")
    if "swap" in settings.severities and not len(donors):
        raise CfcError("the swap operator needs at least one training row to take values from")
    model = CountedPredictor(predict)
    limit = {"chunk_bytes": chunk_bytes} if chunk_bytes else {}
    n = len(X)
    predicted = np.empty(n, dtype=np.int16)
    margin = np.empty(n)
    step = cases_per_chunk(1, X.shape[1], **limit)
    for start in range(0, n, step):
        part = slice(start, start + step)
        proba = model(X[part])
        predicted[part] = predicted_label(proba)
        margin[part] = margin_of(proba, predicted[part], clip)
    draw = _Draw(groups, baseline, np.asarray(noise_scale, np.float32), donors, seed)
    margins, labels = {}, {}
    cells = sum(map(len, settings.severities.values()))
    done = 0
    for operator, grid in settings.severities.items():
        draws = settings.draws[operator]
        margins[operator] = np.empty((n, len(grid), draws), dtype=np.float32)
        labels[operator] = np.empty((n, len(grid), draws), dtype=np.int16)
        step = cases_per_chunk(draws, X.shape[1], **limit)
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
        """Return stressed rows, float32 [n, H, d]."""
        return getattr(self, f"_{operator}")(X, severity, draws, self._stream(operator, case_ids))

    def _stream(self, operator, case_ids):
        def numbers(severity, draws, count):
            stream = round(severity * _MILLIONTHS)
            return uniforms(self.seed, operator, case_ids, stream, np.arange(draws), count)

        return numbers

    def _mask(self, X, severity, draws, numbers):
        hit = numbers(severity, draws, len(self.groups)) < severity
        return np.where(hit[:, :, self.groups.of_coordinate], self.baseline, X[:, None, :])

    def _dropout(self, X, severity, draws, numbers):
        hit = numbers(severity, draws, X.shape[1]) < severity
        return np.where(hit, self.baseline, X[:, None, :])

    def _noise(self, X, severity, draws, numbers):
        states = np.repeat(X[:, None, :], draws, axis=1)
        numeric = np.flatnonzero(self.noise_scale)
        shift = 2.0 * numbers(severity, draws, len(numeric)) - 1.0
        states[:, :, numeric] += np.float32(severity) * self.noise_scale[numeric] * shift
        return states

    def _swap(self, X, severity, draws, numbers):
        u = numbers(severity, draws, 1 + len(self.groups))
        donor = (u[:, :, 0].astype(np.float64) * len(self.donors)).astype(np.intp)
        hit = u[:, :, 1:] < severity
        return np.where(hit[:, :, self.groups.of_coordinate], self.donors[donor], X[:, None, :])
