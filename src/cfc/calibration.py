"""Temperatures fitted on validation (paper, section 3.3, eq. 12-13 and 37, Algorithm 10).

Everything that is chosen (T₀, the range of FDS, η) is chosen on validation rows. A temperature
above zero cannot change which class is largest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cfc.errors import DataError
from cfc.scores import CLIP, pseudo_logits

T_MIN, T_MAX = 0.02, 50.0  # a search range; a fit that ends at its edge says so
_AT_EDGE = 1e-3


def tempered(proba: np.ndarray, temperature, clip: float = CLIP) -> np.ndarray:
    """Return softmax(z̃ / T), float64 [n, C], with z̃ the pseudo-logits (eq. 13).

    Args:
        proba: probabilities [n, C].
        temperature: T > 0, a number or [n].
        clip: lower bound of a probability, as in the certificates.

    Raises:
        DataError: a temperature is not above zero.
    """
    temperature = np.asarray(temperature, dtype=np.float64)
    if not (temperature > 0).all():
        raise DataError("a temperature must be above zero")
    z = pseudo_logits(proba, clip) / temperature[..., None]
    z -= z.max(axis=1, keepdims=True)
    p = np.exp(z)
    return p / p.sum(axis=1, keepdims=True)


def mean_nll(proba: np.ndarray, label: np.ndarray, temperature, clip: float = CLIP) -> float:
    """Return the mean negative log-likelihood of tempered probabilities, natural log, >= 0.

    Computed from the logits, so that a tempered probability near zero is not clipped a second time.

    Args:
        proba: probabilities [n, C].
        label: true classes [n].
        temperature: T > 0, a number or [n].
        clip: lower bound of a probability before tempering.
    """
    z = pseudo_logits(proba, clip) / np.asarray(temperature, dtype=np.float64)[..., None]
    top = z.max(axis=1)
    log_sum = top + np.log(np.exp(z - top[:, None]).sum(axis=1))
    return float((log_sum - z[np.arange(len(z)), np.asarray(label, dtype=np.intp)]).mean())


@dataclass(frozen=True)
class GlobalTemperature:
    """T₀, and whether the search ended at an edge of its range (no finite optimum inside)."""

    value: float
    at_edge: bool


def fit_temperature(proba: np.ndarray, label: np.ndarray, clip: float = CLIP) -> GlobalTemperature:
    """Return the T₀ that minimises validation NLL, in [0.02, 50].

    The NLL is convex in 1/T, so a bounded search over log T finds the minimum.

    Args:
        proba: probabilities of validation rows [n, C].
        label: their true classes [n].
        clip: lower bound of a probability.

    Raises:
        DataError: there is no validation row.
    """
    from scipy.optimize import minimize_scalar

    if not len(label):
        raise DataError("a temperature cannot be fitted without a validation row")
    low, high = np.log(T_MIN), np.log(T_MAX)
    found = minimize_scalar(
        lambda t: mean_nll(proba, label, np.exp(t), clip),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-6},
    )
    at_edge = min(found.x - low, high - found.x) < _AT_EDGE
    return GlobalTemperature(float(np.exp(found.x)), bool(at_edge))


@dataclass(frozen=True)
class Range:
    """Range of FDS on validation, for min-max normalisation."""

    low: float
    high: float

    @classmethod
    def of(cls, fds: np.ndarray) -> "Range":
        """Return the range of the values [n], n >= 1."""
        return cls(float(np.min(fds)), float(np.max(fds)))

    def normalise(self, fds: np.ndarray) -> np.ndarray:
        """Return (FDS − low) / (high − low) cut to [0, 1]; all 0 when the range is a point."""
        width = self.high - self.low
        if width <= 0:
            return np.zeros(len(fds))
        return np.clip((np.asarray(fds, dtype=np.float64) - self.low) / width, 0.0, 1.0)


def choose_eta(
    proba: np.ndarray,
    label: np.ndarray,
    normalised: np.ndarray,
    t0: float,
    etas: Sequence[float],
    clip: float = CLIP,
) -> tuple[float, list[float]]:
    """Return the η with the lowest validation NLL, and the NLL of each; ties: the smallest η.

    Args:
        proba, label: validation cases [n, C] and [n].
        normalised: Norm(FDS) of these cases [n].
        t0: global temperature.
        etas: candidates, each at least 0.
        clip: lower bound of a probability.
    """
    values = [mean_nll(proba, label, t0 + eta * normalised, clip) for eta in etas]
    best = min(range(len(etas)), key=lambda i: (values[i], etas[i]))
    return float(etas[best]), values


def most_fragile(normalised: np.ndarray, u: np.ndarray, case_ids: np.ndarray, share: float):
    """Return the top share of cases by normalised FDS, bool [n]; no label enters.

    Ties (values cut to 1) are broken by u, of which FDS is an increasing function, then by case.

    Args:
        normalised: Norm(FDS) [n].
        u: the score before 1 − exp(−u) [n].
        case_ids: whole numbers [n].
        share: in (0, 1]; the number of cases is rounded, at least 1.
    """
    n = len(normalised)
    chosen = np.zeros(n, dtype=bool)
    if n:
        order = np.lexsort((case_ids, -np.asarray(u), -np.asarray(normalised)))
        chosen[order[: max(1, round(share * n))]] = True
    return chosen


def labels_changed(proba: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Tell where the predicted class is no longer one of the largest, bool [n].

    Args:
        proba: corrected probabilities [n, C].
        predicted: class predicted before the correction [n].
    """
    rows = np.arange(len(proba))
    return proba[rows, np.asarray(predicted, dtype=np.intp)] < proba.max(axis=1, initial=0.0)
