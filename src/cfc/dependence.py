"""How much of a score's ranking is left once the confidence is known (ours)."""

import numpy as np

from cfc.metrics import auroc
from cfc.seeding import generator

RIDGE = 1e-3  # of the logistic ranker, per case: keeps separable folds finite
_STEPS = 50


def mid_ranks(values: np.ndarray) -> np.ndarray:
    """Return ascending ranks 1..n, ties sharing their mean, float64 [n]."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def strata(values: np.ndarray, count: int) -> np.ndarray:
    """Return the stratum 0..count−1 of each value, int64 [n]: equal numbers, ties together.

    A case's stratum is that of its mid-rank, so equal values never fall apart; with many ties
    strata differ in size or stay empty.
    """
    n = len(values)
    if not n:
        return np.empty(0, dtype=np.int64)
    return np.minimum(((mid_ranks(values) - 0.5) * count / n).astype(np.int64), count - 1)


def partial_rank_correlation(x: np.ndarray, y: np.ndarray, given: np.ndarray) -> float:
    """Return the Spearman correlation of x and y with the ranks of ``given`` held fixed.

    (r_xy − r_xz r_yz) / sqrt((1 − r_xz²)(1 − r_yz²)) on mid-ranks.

    Args:
        x, y, given: float or bool [n].

    Returns:
        a value in [−1, 1]; ``nan`` when one of them is constant or fixed by ``given``.
    """
    a, b, z = (mid_ranks(np.asarray(v, dtype=np.float64)) for v in (x, y, given))
    if min(len(np.unique(v)) for v in (a, b, z)) < 2:
        return float("nan")
    xy, xz, yz = (float(np.corrcoef(p, q)[0, 1]) for p, q in ((a, b), (a, z), (b, z)))
    rest = (1 - xz**2) * (1 - yz**2)
    if rest <= 1e-12:
        return float("nan")
    return float(np.clip((xy - xz * yz) / np.sqrt(rest), -1.0, 1.0))


def fit_logistic(X: np.ndarray, y: np.ndarray, ridge: float = RIDGE) -> np.ndarray:
    """Return (intercept, weights) of a ridge logistic regression, by Newton's method.

    Minimises the sum of log-losses + n · ridge / 2 · |weights|²; the intercept is free.

    Args:
        X: float [n, d], columns of similar scale.
        y: bool [n], both values present.
    """
    n, d = X.shape
    design = np.column_stack([np.ones(n), X])
    penalty = np.full(d + 1, n * ridge)
    penalty[0] = 0.0
    beta = np.zeros(d + 1)
    beta[0] = np.log(y.mean() / (1 - y.mean()))
    for _ in range(_STEPS):
        p = 1 / (1 + np.exp(-np.clip(design @ beta, -30, 30)))
        gradient = design.T @ (p - y) + penalty * beta
        hessian = (design * (p * (1 - p))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(hessian + 1e-9 * np.eye(d + 1), gradient)
        size = np.abs(step).max()
        beta -= step * min(1.0, 5.0 / size) if size else 0.0
        if size < 1e-8:
            break
    return beta


def cross_validated_auroc(
    features: list[np.ndarray], label: np.ndarray, *, folds: int, seed: int
) -> float:
    """Return the mean over folds of the held-out AUROC of a logistic ranker.

    Features enter as ranks scaled to [−1, 1]. Folds are stratified, seeded, and the same for every
    set of features, so that two rankers are compared on the same cases.

    Args:
        features: float [n] each.
        label: bool [n] with at least two cases of each kind.
        folds: number of folds; cut to the smaller number of cases of a kind.
        seed: root seed.
    """
    label = np.asarray(label, dtype=bool)
    n = len(label)
    X = np.column_stack([2 * (mid_ranks(f) - 0.5) / n - 1 for f in features])
    count = int(min(folds, label.sum(), n - label.sum()))
    fold = np.empty(n, dtype=np.int64)
    rng = generator(seed, "dependence folds")
    for kind in (False, True):
        members = rng.permutation(np.flatnonzero(label == kind))
        fold[members] = np.arange(len(members)) % count
    values = []
    for k in range(count):
        held = fold == k
        beta = fit_logistic(X[~held], label[~held])
        values.append(auroc(X[held] @ beta[1:], label[held]))
    return float(np.mean(values))
