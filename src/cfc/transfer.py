"""Transfer stress: outcomes under values no score was built on.

The main label channel shares its baseline with the certificate in three of four operators, and its
swaps come from the same marginal distribution as exposure's grids. Here neither holds: groups take
the train median or the most usual value, numbers move by normal noise, or a group is taken from a
row that is near the case. The numbers come from streams of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfc.errors import CfcError, ConfigError, ProblemList, nearest
from cfc.groups import Groups
from cfc.predictor import CountedPredictor, Predict, cases_per_chunk
from cfc.scores import CLIP, margin_of, predicted_label, relative_collapse
from cfc.seeding import uniforms

OPERATORS = ("median", "mode", "gaussian", "near_swap")
NEIGHBOURS = 10
_MILLIONTHS = 1_000_000
# half of the smallest step of a uniform: keeps the normal quantile finite and symmetric
_HALF_STEP = 2.0**-25


@dataclass(frozen=True)
class TransferSettings:
    """Operators, severities and draws.

    Attributes:
        severities: operator -> severities; in (0, 1] for median, mode and near_swap (probability
            that a group is replaced), above 0 for gaussian (in train standard deviations).
        draws: operator -> draws at each severity, at least 1.
        neighbours: training rows ``near_swap`` chooses from, at least 1.

    Raises:
        ConfigError: unknown operators or illegal values, all at once.
    """

    severities: Mapping[str, tuple[float, ...]]
    draws: Mapping[str, int]
    neighbours: int = NEIGHBOURS

    def __post_init__(self):
        problems = ProblemList()
        for name in {**self.severities, **self.draws}:
            if name not in OPERATORS:
                problems.append(f"operator {name!r} is unknown; {nearest(name, OPERATORS)}")
        if set(self.severities) != set(self.draws):
            problems.append("severities and draws must name the same operators")
        for name, grid in self.severities.items():
            most = np.inf if name == "gaussian" else 1.0
            if not grid or any(not 0 < s <= most for s in grid) or len(set(grid)) != len(grid):
                problems.append(f"severities of {name}: {list(grid)} must be distinct, in (0, 1]")
        counts = {**self.draws, "neighbours": self.neighbours}
        problems += [
            f"{name}: {h!r} is not a whole number of at least 1"
            for name, h in counts.items()
            if not isinstance(h, int) or h < 1
        ]
        problems.raise_if_any(ConfigError, "transfer settings")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> "TransferSettings":
        """Build from ``{operator: {severities: [...], draws: H}, ..., neighbours: k}``."""
        operators = {name: v for name, v in values.items() if name != "neighbours"}
        return cls(
            # a severity of 1.0 arrives as the whole number 1
            {name: tuple(map(float, v["severities"])) for name, v in operators.items()},
            {name: v["draws"] for name, v in operators.items()},
            values.get("neighbours", NEIGHBOURS),
        )

    @property
    def rows_per_case(self) -> int:
        """Forward rows of one case: each cell asks for the case itself again."""
        return sum(len(grid) * (1 + self.draws[name]) for name, grid in self.severities.items())


@dataclass(frozen=True)
class TransferOutcome:
    """Means over the draws, all a label by the mean rule needs.

    Attributes:
        flip_share: operator -> share of draws that change the label, float64 [n, severities].
        mean_kappa: operator -> mean normalised collapse κ, float64 [n, severities].
        rows: forward rows made.
        model_seconds: time spent inside the model.
    """

    flip_share: dict[str, np.ndarray]
    mean_kappa: dict[str, np.ndarray]
    rows: int
    model_seconds: float


def near_rows(X: np.ndarray, donors: np.ndarray, neighbours: int = NEIGHBOURS) -> np.ndarray:
    """Return the numbers of the nearest donor rows of each row, int64 [n, k], nearest first.

    Euclidean distance in the transformed space; k = min(neighbours, number of donors).

    Args:
        X: rows [n, d].
        donors: training rows [m, d], m >= 1.
        neighbours: rows wanted.

    Raises:
        CfcError: there is no donor row.
    """
    if not len(donors):
        raise CfcError("near_swap needs at least one training row to take values from")
    k = min(neighbours, len(donors))
    if not len(X):
        return np.empty((0, k), dtype=np.int64)
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=k, algorithm="brute", n_jobs=1)
    search.fit(donors.astype(np.float64))
    return search.kneighbors(X.astype(np.float64), return_distance=False)


def transfer_cases(
    X: np.ndarray,
    groups: Groups,
    baselines: Mapping[str, np.ndarray],
    predict: Predict,
    settings: TransferSettings,
    *,
    seed: int,
    case_ids: np.ndarray,
    noise_scale: np.ndarray,
    donors: np.ndarray,
    clip: float = CLIP,
    chunk_bytes: int | None = None,
    progress=None,
) -> TransferOutcome:
    """Stress every row of X with values no score was built on.

    - ``median``, ``mode``: each group replaced, with probability s, by the baseline of that name
      (`cfc.baselines.baseline_vectors`).
    - ``gaussian``: normal noise of s train standard deviations on numeric coordinates.
    - ``near_swap``: each group replaced, with probability s, by the same group's values of one of
      the nearest donor rows, one row a draw.

    Args:
        X: rows [n, d], float32.
        groups: partition of the coordinates.
        baselines: holds ``median`` and ``mode`` where those operators run, each [d].
        predict: float32 rows [r, d] -> probabilities [r, C].
        settings: operators, severities, draws.
        seed: root seed of the unit.
        case_ids: stable whole numbers in [0, 2**32), [n].
        noise_scale: train standard deviation of numeric coordinates, 0 elsewhere, [d].
        donors: training rows to swap from [m, d], float32; not those a score looked at.
        clip: lower bound of a probability.
        chunk_bytes: size of the largest state matrix (default 64 MiB).
        progress: called with (operator-severity cells done, cells in all).

    Raises:
        CfcError: shapes do not fit, or there is no donor row.
    """
    X = np.ascontiguousarray(X, dtype=np.float32)
    if X.ndim != 2 or X.shape[1] != groups.n_coordinates:
        raise CfcError(f"rows {X.shape} and groups of {groups.n_coordinates} do not fit together")
    model = CountedPredictor(predict)
    n, d = X.shape
    near = None
    if "near_swap" in settings.severities:
        near = near_rows(X, donors, settings.neighbours)
    draw = _Draw(groups, baselines, np.asarray(noise_scale, np.float32), donors, near, seed)
    flips = {name: np.empty((n, len(grid))) for name, grid in settings.severities.items()}
    kappas = {name: np.empty((n, len(grid))) for name, grid in settings.severities.items()}
    cells, done = sum(map(len, settings.severities.values())), 0
    for operator, grid in settings.severities.items():
        draws = settings.draws[operator]
        step = cases_per_chunk(1 + draws, d, chunk_bytes)
        for level, severity in enumerate(grid):
            for start in range(0, n, step):
                part = np.arange(start, min(start + step, n))
                states = np.empty((len(part), 1 + draws, d), dtype=np.float32)
                states[:, 0] = X[part]
                states[:, 1:] = draw(operator, X, part, case_ids[part], severity, draws)
                proba = model(states.reshape(-1, d))
                labels = predicted_label(proba).reshape(len(part), 1 + draws)
                own = np.repeat(labels[:, 0], 1 + draws)
                margins = margin_of(proba, own, clip).reshape(labels.shape)
                flips[operator][part, level] = (labels[:, 1:] != labels[:, :1]).mean(axis=1)
                kappa = relative_collapse(margins[:, :1], margins[:, 1:])
                kappas[operator][part, level] = kappa.mean(axis=1)
            done += 1
            if progress:
                progress(done, cells)
    return TransferOutcome(flips, kappas, model.rows, model.seconds)


@dataclass(frozen=True)
class _Draw:
    groups: Groups
    baselines: Mapping[str, np.ndarray]
    noise_scale: np.ndarray
    donors: np.ndarray
    near: np.ndarray | None
    seed: int

    def __call__(self, operator, X, part, case_ids, severity, draws) -> np.ndarray:
        """Return stressed rows of the cases in ``part``, float32 [n, H, d]."""

        def numbers(count):
            stream = round(severity * _MILLIONTHS)
            name = f"transfer {operator}"
            return uniforms(self.seed, name, case_ids, stream, np.arange(draws), count)

        if operator == "gaussian":
            return self._gaussian(X[part], numbers, severity, draws)
        if operator == "near_swap":
            u = numbers(1 + len(self.groups))
            choice = (u[:, :, 0].astype(np.float64) * self.near.shape[1]).astype(np.intp)
            values = self.donors[np.take_along_axis(self.near[part], choice, axis=1)]
            hit = u[:, :, 1:] < severity
        else:
            hit = numbers(len(self.groups)) < severity
            values = np.asarray(self.baselines[operator], dtype=np.float32)
        return np.where(hit[:, :, self.groups.of_coordinate], values, X[part][:, None, :])

    def _gaussian(self, X, numbers, severity, draws):
        from scipy.special import ndtri

        states = np.repeat(X[:, None, :], draws, axis=1)
        numeric = np.flatnonzero(self.noise_scale)
        normal = ndtri(numbers(len(numeric)).astype(np.float64) + _HALF_STEP)
        shift = severity * self.noise_scale[numeric] * normal
        states[:, :, numeric] += shift.astype(np.float32)
        return states


def mean_rule(
    flip_share: np.ndarray,
    mean_kappa: np.ndarray,
    confidence: np.ndarray,
    *,
    tau_p: float,
    tau_kappa: float,
    tau_flip: float,
) -> np.ndarray:
    """Return the label of each case, bool [n]: the ``mean`` rule of `cfc.labels` from its means.

    Args:
        flip_share: share of flips in each cell, [n, cells].
        mean_kappa: mean κ in each cell, [n, cells].
        confidence: p̂ [n].
        tau_p, tau_kappa, tau_flip: thresholds.
    """
    failing = ((flip_share >= tau_flip) | (mean_kappa >= tau_kappa)).any(axis=1)
    return failing & (confidence >= tau_p)
