"""Bootstrap over units: how far a mean over trained models could move with other units.

The statistic is the aggregate the tables print: the mean of the units within a data set, then the
mean over data sets. Differences are formed within a unit first, so two scores are compared on the
same resample (paired). Three resampling schemes are offered, because units of one data set share
its test cases and are not independent:

- ``units``: units with replacement, regardless of data set (the paper's interval);
- ``stratified``: units with replacement within each data set (the data sets are fixed);
- ``clustered``: whole data sets with replacement (what another choice of data sets would do).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cfc.errors import DataError
from cfc.seeding import generator

Scheme = Literal["units", "stratified", "clustered"]
RESAMPLES = 10_000
LEVEL = 0.95
_CHUNK = 2_000


@dataclass(frozen=True)
class Interval:
    """A statistic and its percentile interval; all three ``nan`` when there is no unit."""

    value: float
    low: float
    high: float


def grouped_mean(values: np.ndarray, groups: Sequence | None = None) -> float:
    """Return the mean over groups of the means within groups.

    Args:
        values: float [n] without NaN.
        groups: n labels (the data sets); None gives the plain mean.

    Returns:
        the mean; ``nan`` for no values.
    """
    values, codes, count = _inputs(values, groups)
    if not len(values):
        return float("nan")
    sums = np.bincount(codes, weights=values, minlength=count)
    return float((sums / np.bincount(codes, minlength=count)).mean())


def bootstrap_mean(
    values: np.ndarray,
    groups: Sequence | None = None,
    *,
    scheme: Scheme = "units",
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> Interval:
    """Return `grouped_mean` with its percentile bootstrap interval.

    For a paired comparison pass the differences of the two scores in each unit.

    Args:
        values: float [n], one a unit, without NaN.
        groups: n labels, the data set of each unit; None makes one group of all.
        scheme: what is resampled, see the module's text. A resample under ``units`` that holds
            no unit of some data set averages over the data sets it does hold.
        resamples: number of resamples.
        seed: root seed; equal inputs and seed give equal intervals.
        level: coverage in (0, 1).

    Raises:
        DataError: a value is NaN, lengths differ, or the scheme is unknown.
    """
    values = np.asarray(values, dtype=np.float64)
    return bootstrap_means(
        values[:, None],
        groups,
        scheme=scheme,
        resamples=resamples,
        seed=seed,
        level=level,
    )[0]


def bootstrap_means(
    values: np.ndarray,
    groups: Sequence | None = None,
    *,
    scheme: Scheme = "units",
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
) -> list[Interval]:
    """Return `bootstrap_mean` of every column of ``values`` [n, m], on the same resamples."""
    values, codes, count = _inputs(values, groups)
    if not len(values):
        return [Interval(float("nan"), float("nan"), float("nan"))] * values.shape[1]
    rng = generator(seed, f"bootstrap:{scheme}")
    means = np.concatenate(
        [
            _resampled_means(values, codes, count, scheme, size, rng)
            for size in _chunk_sizes(resamples)
        ]
    )
    tail = (1 - level) / 2
    lows, highs = np.quantile(means, [tail, 1 - tail], axis=0)
    return [
        Interval(grouped_mean(column, codes), float(low), float(high))
        for column, low, high in zip(values.T, lows, highs, strict=True)
    ]


def paired_bootstrap(
    first: np.ndarray, second: np.ndarray, groups: Sequence | None = None, **options
) -> Interval:
    """Return the aggregate of ``first - second`` with its interval; see `bootstrap_mean`.

    Args:
        first, second: float [n], the two scores of the same units in the same order.
    """
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if first.shape != second.shape:
        raise DataError(f"paired values of shapes {first.shape} and {second.shape}")
    return bootstrap_mean(first - second, groups, **options)


def _resampled_means(
    values: np.ndarray,
    codes: np.ndarray,
    count: int,
    scheme: Scheme,
    resamples: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return [resamples, m] grouped means; a resample is held as counts of units or of groups."""
    members = [np.flatnonzero(codes == c) for c in range(count)]
    if scheme == "clustered":
        means = np.stack([values[member].mean(axis=0) for member in members])
        return means[rng.integers(count, size=(resamples, count))].mean(axis=1)
    if scheme == "units":
        times = _counts(len(values), resamples, rng)
        parts = [times[:, member] for member in members]
    elif scheme == "stratified":
        parts = [_counts(len(member), resamples, rng) for member in members]
    else:
        raise DataError(f"unknown bootstrap scheme {scheme!r}: units, stratified or clustered")
    total = np.zeros((resamples, values.shape[1]))
    present = np.zeros(resamples)
    for part, member in zip(parts, members, strict=True):
        size = part.sum(axis=1)
        # einsum, not a matrix product: its order of summation does not follow the thread count.
        sums = np.einsum("bi,im->bm", part, values[member])
        total += sums / np.maximum(size, 1)[:, None]
        present += size > 0
    return total / present[:, None]


def _counts(n: int, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Return how often each of ``n`` units occurs in each resample of size ``n``."""
    return rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.float64)


def _chunk_sizes(resamples: int) -> list[int]:
    full, rest = divmod(resamples, _CHUNK)
    return [_CHUNK] * full + [rest] * (rest > 0)


def _inputs(values: np.ndarray, groups: Sequence | None) -> tuple[np.ndarray, np.ndarray, int]:
    values = np.asarray(values, dtype=np.float64)
    if np.isnan(values).any():
        raise DataError("bootstrap values must be free of NaN: leave undefined units out first")
    if groups is None:
        return values, np.zeros(len(values), dtype=np.int64), 1
    names, codes = np.unique(np.asarray(groups), return_inverse=True)
    if len(codes) != len(values):
        raise DataError(f"{len(values)} values but {len(codes)} group labels")
    return values, codes, len(names)
