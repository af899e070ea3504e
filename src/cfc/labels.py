"""Brittle labels: rules over the outcomes of the held-out stress (paper, Appendix K, eq. 28-30)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfc.errors import ConfigError, ProblemList, nearest
from cfc.scores import relative_collapse

KINDS = ("any_draw", "mean")


@dataclass(frozen=True)
class LabelRule:
    """One way of turning stress outcomes into "brittle" or not.

    Attributes:
        kind: ``any_draw``: some draw of some cell flips, or collapses where ``collapse`` is set;
            ``mean``: some cell flips in at least half of its draws, or its mean κ reaches the
            threshold.
        cells: operator -> severities looked at.
        draws: number of draws looked at, from the first; None = all.
        collapse: whether κ >= τ_κ counts besides a flip.
    """

    kind: str
    cells: Mapping[str, Sequence[float]]
    draws: int | None = None
    collapse: bool = True

    @classmethod
    def from_mapping(cls, name: str, values: Mapping[str, Any]) -> "LabelRule":
        """Build from a mapping; raise ConfigError naming unknown keys and values."""
        known = ("kind", "cells", "draws", "collapse")
        problems = ProblemList(
            f"{key!r} is unknown; {nearest(key, known)}" for key in values if key not in known
        )
        if values.get("kind") not in KINDS:
            problems.append(f"kind: {values.get('kind')!r} is unknown; one of {', '.join(KINDS)}")
        if not values.get("cells"):
            problems.append("cells: name at least one operator with its severities")
        problems.raise_if_any(ConfigError, f"label rule {name!r}")
        return cls(**values)


def brittle(
    rule: LabelRule,
    *,
    confidence: np.ndarray,
    predicted: np.ndarray,
    margin: np.ndarray,
    severities: Mapping[str, Sequence[float]],
    margins: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
    tau_p: float = 0.90,
    tau_kappa: float = 0.50,
    tau_flip: float = 0.50,
) -> np.ndarray:
    """Return the label of each case, bool [n]: confident (p̂ >= τ_p) and failing under the rule.

    Args:
        rule: what counts as failing.
        confidence: p̂ [n].
        predicted: class before stress [n].
        margin: margin before stress [n].
        severities: operator -> severities in the order of the arrays' second axis.
        margins: operator -> margins of the original class [n, severities, H].
        labels: operator -> predicted classes [n, severities, H].
        tau_p: threshold of confidence.
        tau_kappa: threshold of the normalised margin collapse κ.
        tau_flip: share of flips that counts under ``mean``.

    Raises:
        ConfigError: the rule looks at an operator, severity or draw that was not run.
    """
    failing = np.zeros(len(confidence), dtype=bool)
    for operator, grid in rule.cells.items():
        for severity in grid:
            level = _level(operator, severity, severities)
            available = margins[operator].shape[2]
            if rule.draws is not None and rule.draws > available:
                raise ConfigError(
                    f"a label rule looks at {rule.draws} draws of {operator}, "
                    f"but only {available} are made"
                )
            stressed = margins[operator][:, level, : rule.draws]
            flips = labels[operator][:, level, : rule.draws] != predicted[:, None]
            kappa = relative_collapse(margin[:, None], stressed.astype(np.float64))
            if rule.kind == "any_draw":
                failing |= (flips | (rule.collapse & (kappa >= tau_kappa))).any(axis=1)
            else:
                failing |= flips.mean(axis=1) >= tau_flip
                failing |= rule.collapse & (kappa.mean(axis=1) >= tau_kappa)
    return failing & (confidence >= tau_p)


def _level(operator, severity, severities) -> int:
    if operator not in severities:
        raise ConfigError(
            f"a label rule looks at the stress operator {operator!r}, which is not run; "
            f"{nearest(operator, severities)}"
        )
    for level, value in enumerate(severities[operator]):
        if abs(value - severity) < 1e-9:
            return level
    raise ConfigError(
        f"a label rule looks at {operator} at severity {severity}, but it runs at "
        f"{', '.join(map(str, severities[operator]))}"
    )
