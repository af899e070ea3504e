"""Table ``seed_variance``: spread over units and win rate of each score (paper, Table 12)."""

import numpy as np
import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import (
    TableContext,
    TableResult,
    Unit,
    Units,
    defined_text,
    number,
    pick,
    score_title,
    select_ranking,
    undefined_notes,
)
from cfc.tables.brittle_auroc import ranking_notes
from cfc.tables.comparison import RuleMatrix, rule_matrix

TITLE = "Brittle-case AUROC over units: mean, spread and win rate"


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table.

    Data: one row per label rule, score and sign with mean (the aggregate), sd_units, sd_seeds,
    minimum, maximum, win_rate (against the strongest risk-signed confidence score, chosen once),
    win_rate_unit_best (against the best risk-signed confidence score of each unit),
    win_rate_paper (against the strongest paper-signed one), n_defined, n_undefined.
    """
    units = Units(rows, expected)
    ranking = select_ranking(units, ["auroc"], settings)
    data = pd.concat(
        [_rule_data(rule_matrix(ranking, rule), rule) for rule in settings.label_rules],
        ignore_index=True,
    )
    displays = [
        (f"Label rule `{rule}`", _display(pick(data, label_rule=rule)))
        for rule in settings.label_rules
    ]
    notes = units.notes()
    for rule in settings.label_rules:
        one = pick(ranking, label_rule=rule, score="fds", sign="risk")
        notes += undefined_notes(one, f"Label rule `{rule}`")
    notes += ranking_notes(settings)
    notes.append(
        "Mean: over units within data sets, then over data sets. Sd over units: all defined units. "
        "Sd over seeds: pooled within data set × family, so it is what a seed alone moves. Win "
        "rate: the share of defined units in which the score's AUROC is strictly above that of "
        "the strongest confidence score; 'best of unit' lets the confidence score be chosen anew "
        "in every unit."
    )
    return units.result("seed_variance", TITLE, context, data, displays, notes)


def _rule_data(matrix: RuleMatrix, rule: str) -> pd.DataFrame:
    strongest = {sign: matrix.strongest(sign) for sign in ("risk", "paper")}
    unit_best = matrix.best_per_unit("risk")
    rows = []
    for score, sign in matrix.values.columns:
        own = matrix.values[score, sign]
        rows.append(
            {
                "label_rule": rule,
                "score": score,
                "sign": sign,
                "mean": matrix.aggregate((score, sign)),
                "sd_units": own.std(),
                "sd_seeds": _pooled_sd(own),
                "minimum": own.min(),
                "maximum": own.max(),
                "win_rate": _win_rate(own, matrix, strongest["risk"]),
                "win_rate_unit_best": _wins(own, unit_best),
                "win_rate_paper": _win_rate(own, matrix, strongest["paper"]),
                "n_defined": int(own.notna().sum()),
                "n_undefined": int(own.isna().sum()),
            }
        )
    return pd.DataFrame(rows)


def _win_rate(own: pd.Series, matrix: RuleMatrix, against: tuple[str, str] | None) -> float:
    if against is None or own.name == against:
        return np.nan
    return _wins(own, matrix.values[against])


def _wins(own: pd.Series, other: pd.Series) -> float:
    gain = (own - other).dropna()
    return float((gain > 0).mean()) if len(gain) else np.nan


def _pooled_sd(own: pd.Series) -> float:
    """Return the root of the pooled variance over seeds within data set × family."""
    cells = own.dropna().groupby(level=["dataset", "model"])
    freedom = (cells.size() - 1).sum()
    if freedom <= 0:
        return np.nan
    squares = cells.apply(lambda x: ((x - x.mean()) ** 2).sum()).sum()
    return float(np.sqrt(squares / freedom))


def _display(own: pd.DataFrame) -> pd.DataFrame:
    lines = [
        [
            score_title(row.score, row.sign),
            number(row.mean),
            number(row.sd_units),
            number(row.sd_seeds),
            f"{number(row.minimum)} to {number(row.maximum)}",
            number(row.win_rate),
            number(row.win_rate_unit_best),
            number(row.win_rate_paper),
            defined_text(row.n_defined, row.n_undefined),
        ]
        for row in own.itertuples(index=False)
    ]
    columns = [
        "score",
        "mean",
        "sd over units",
        "sd over seeds",
        "range",
        "win rate (risk sign)",
        "win rate (best of unit)",
        "win rate (paper sign)",
        "units",
    ]
    return pd.DataFrame(lines, columns=columns)
