"""Which non-certificate score is the strongest, and what a score gains over it, unit by unit."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from cfc.bootstrap import bootstrap_means, grouped_mean
from cfc.evaluate import EvaluationSettings
from cfc.tables.base import UNIT_KEYS, confidence_names

SCHEMES = ("units", "stratified", "clustered")
_TIE = 1e-12


@dataclass(frozen=True)
class RuleMatrix:
    """AUROC of one label rule: units as rows, (score, sign) as columns, ``nan`` where undefined."""

    values: pd.DataFrame
    datasets: np.ndarray

    def aggregate(self, column: tuple[str, str]) -> float:
        """Return the mean over data sets of the mean over the defined units."""
        own = self.values[column].to_numpy()
        kept = ~np.isnan(own)
        return grouped_mean(own[kept], self.datasets[kept]) if kept.any() else float("nan")

    def strongest(self, sign: str) -> tuple[str, str] | None:
        """Return the confidence score with the highest aggregate in a sign, None if undefined.

        Scores equal up to rounding count as tied, and the first declared wins, so that the name
        does not hang on the last digit.
        """
        names = [n for n in confidence_names([s for s, _ in self.values]) if (n, sign) in self]
        means = {name: self.aggregate((name, sign)) for name in dict.fromkeys(names)}
        means = {name: value for name, value in means.items() if not np.isnan(value)}
        if not means:
            return None
        best = max(means.values())
        return next(name for name, value in means.items() if value >= best - _TIE), sign

    def best_per_unit(self, sign: str) -> pd.Series:
        """Return, for each unit, the highest AUROC any confidence score of a sign reaches there."""
        names = confidence_names(list(dict.fromkeys(s for s, _ in self.values)))
        columns = [(name, sign) for name in names if (name, sign) in self]
        return self.values[columns].max(axis=1)

    def __contains__(self, column: tuple[str, str]) -> bool:
        return column in self.values.columns


def rule_matrix(ranking: pd.DataFrame, rule: str) -> RuleMatrix:
    """Return the AUROC matrix of one label rule from the unit rows of a ranking table."""
    rows = ranking[(ranking["label_rule"] == rule) & (ranking["metric"] == "auroc")]
    columns = list(dict.fromkeys(zip(rows["score"], rows["sign"], strict=True)))
    units = rows[UNIT_KEYS].drop_duplicates()
    index = pd.MultiIndex.from_frame(units)
    values = rows.pivot(index=UNIT_KEYS, columns=["score", "sign"], values="value")
    values = values.reindex(index)[columns].astype("float64")
    return RuleMatrix(values, units["dataset"].to_numpy().astype(str))


def gains(matrix: RuleMatrix, against: tuple[str, str] | None) -> pd.DataFrame:
    """Return each column minus the reference column, unit by unit (all ``nan`` without one)."""
    if against is None:
        return matrix.values * np.nan
    return matrix.values.sub(matrix.values[against], axis=0)


def intervals(
    values: pd.DataFrame, datasets: np.ndarray, settings: EvaluationSettings
) -> dict[tuple, dict[str, tuple[float, float, float]]]:
    """Return, per column and scheme, (aggregate, low, high) over the defined units.

    Columns defined on the same units share their resamples.
    """
    out: dict[tuple, dict] = {}
    defined = values.notna().to_numpy()
    patterns: dict[bytes, list[int]] = {}
    for j in range(values.shape[1]):
        patterns.setdefault(defined[:, j].tobytes(), []).append(j)
    for columns in patterns.values():
        kept = defined[:, columns[0]]
        block = values.to_numpy()[kept][:, columns]
        for scheme in SCHEMES:
            found = bootstrap_means(
                block,
                datasets[kept],
                scheme=scheme,
                resamples=settings.n_bootstrap,
                seed=settings.bootstrap_seed,
            )
            for j, one in zip(columns, found, strict=True):
                name = values.columns[j]
                out.setdefault(name, {})[scheme] = (one.value, one.low, one.high)
    return out
