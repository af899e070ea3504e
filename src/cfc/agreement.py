"""How well two rankings or two labellings of the same cases agree, and what that allows a score.

A label made from random draws is itself random. Let π_i be the chance that a fresh set of draws
calls case i brittle, p its mean over cases, and Y, Y' two labels from disjoint draws. Given i they
are independent, so Cov(Y, Y') = Var(π) and Cohen's kappa of the two is κ = Var(π) / (p (1 − p)).

No score that does not see the draws can rank Y better than π does. With X, X' the π of two random
cases, the AUROC of that best score, ties counting one half, is
A = (E[X (1 − X') 1(X > X')] + ½ E[X (1 − X') 1(X = X')]) / (p (1 − p)). The event split by
X > X' and X < X' sums to E[X (1 − X')] = p (1 − p), and its two parts differ by E|X − X'| / 2, so

    A = ½ + E|X − X'| / (4 p (1 − p)).

κ fixes Var(π) alone, hence two forms. E|X − X'| = 4 Cov(X, F(X)) with F the mid-rank of X in
(0, 1), whose variance is at most 1/12; so E|X − X'| <= 2 sd(π) / √3, and A is at most
½ + sqrt(κ / (12 p (1 − p))) whatever the distribution (`auroc_bound`). And if π is Beta distributed
with mean p and variance κ p (1 − p), A has a closed form (`auroc_ceiling_beta`).
"""

import math

import numpy as np

from cfc.errors import DataError


def cohen_kappa(first: np.ndarray, second: np.ndarray) -> float:
    """Return Cohen's kappa of two labellings: agreement beyond chance.

    Args:
        first, second: bool [n].

    Returns:
        a value in [−1, 1]; ``nan`` without cases, or where chance agreement is already complete
        (both labellings constant and equal).

    Raises:
        DataError: the lengths differ.
    """
    first, second = _pair(first, second, bool)
    if not len(first):
        return float("nan")
    observed = float((first == second).mean())
    p, q = float(first.mean()), float(second.mean())
    chance = p * q + (1 - p) * (1 - q)
    return (observed - chance) / (1 - chance) if chance < 1 else float("nan")


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Return Spearman's rank correlation, from mid-ranks.

    Args:
        first, second: float [n], no NaN.

    Returns:
        a value in [−1, 1]; ``nan`` for fewer than 2 cases or where a side is constant.

    Raises:
        DataError: the lengths differ.
    """
    first, second = _pair(first, second, np.float64)
    if len(first) < 2:
        return float("nan")
    a, b = _centred_ranks(first), _centred_ranks(second)
    size = math.sqrt(float((a * a).sum()) * float((b * b).sum()))
    return float((a * b).sum()) / size if size else float("nan")


def auroc_bound(kappa: float, base_rate: float) -> float:
    """Return the distribution-free upper bound of any score's AUROC on a label.

    ½ + sqrt(κ / (12 p (1 − p))), at most 1; a κ below 0 counts as 0. See the module's text.

    Args:
        kappa: agreement of two labels from disjoint draws.
        base_rate: p, share of brittle cases.

    Returns:
        a value in [½, 1]; ``nan`` where κ is, or where p is 0 or 1.
    """
    if not 0 < base_rate < 1 or math.isnan(kappa):
        return float("nan")
    return min(1.0, 0.5 + math.sqrt(max(kappa, 0.0) / (12 * base_rate * (1 - base_rate))))


def auroc_ceiling_beta(kappa: float, base_rate: float) -> float:
    """Return the AUROC of the best possible score if the brittle chance π is Beta distributed.

    With a + b = (1 − κ) / κ and a = p (a + b), E|X − X'| of two Beta(a, b) variables is
    4 B(2a, 2b) / ((a + b) B(a, b)²), B being the Beta function. See the module's text.

    Args:
        kappa: agreement of two labels from disjoint draws.
        base_rate: p, share of brittle cases.

    Returns:
        a value in [½, 1]: ½ at κ <= 0, 1 at κ = 1; ``nan`` where κ is, or where p is 0 or 1.
    """
    from scipy.special import betaln

    if not 0 < base_rate < 1 or math.isnan(kappa):
        return float("nan")
    if kappa <= 0 or kappa >= 1:
        return 0.5 if kappa <= 0 else 1.0
    total = (1 - kappa) / kappa
    a, b = base_rate * total, (1 - base_rate) * total
    difference = 4 / total * math.exp(betaln(2 * a, 2 * b) - 2 * betaln(a, b))
    return min(1.0, 0.5 + difference / (4 * base_rate * (1 - base_rate)))


def _pair(first, second, dtype) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.asarray(first, dtype=dtype), np.asarray(second, dtype=dtype)
    if first.ndim != 1 or first.shape != second.shape:
        raise DataError(
            f"arrays of shapes {first.shape} and {second.shape}: both must be one-dimensional and "
            "of one length"
        )
    return first, second


def _centred_ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse] - (len(values) + 1) / 2
