"""Table ``capture_curve``: mean capture against the review budget, for the figure."""

from dataclasses import replace

import numpy as np
import pandas as pd

from cfc.evaluate import EvaluationSettings, curve_metric
from cfc.tables.base import (
    TableContext,
    TableResult,
    Unit,
    Units,
    aggregate,
    number,
    pick,
    score_signs,
    score_title,
    scores_in,
    select_ranking,
    undefined_notes,
)
from cfc.tables.brittle_auroc import ranking_notes

TITLE = "Capture of brittle cases against the review budget"
SHOWN = (0.05, 0.10, 0.20, 0.50)
CEILING = "ceiling"


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table.

    Data: label_rule, score (or ``ceiling``, with an empty sign), sign, budget, capture (mean
    over units, then data sets), n_defined, n_undefined.
    """
    units = Units(rows, expected)
    budgets = {curve_metric(q): q for q in settings.curve_budgets}
    # One rule at a time: the unit rows of all budgets and rules at once are many.
    curves = [
        pick(aggregate(select_ranking(units, list(budgets), only)), level="aggregate")
        for only in (replace(settings, label_rules=(rule,)) for rule in settings.label_rules)
    ]
    rates = units.select("brittle", ["base_rate"], label_rule=settings.label_rules)
    one = select_ranking(units, ["aurc"], settings)
    one = pick(one, score="fds", sign="risk")
    data = pd.concat([*curves, *_ceilings(rates, one, settings)], ignore_index=True)
    data["budget"] = data["metric"].map(budgets)
    data = data.rename(columns={"value": "capture"})
    data = data[["label_rule", "score", "sign", "budget", "capture", "n_defined", "n_undefined"]]
    displays = [
        (f"Label rule `{rule}`", _display(pick(data, label_rule=rule), units))
        for rule in settings.label_rules
    ]
    notes = units.notes()
    for rule in settings.label_rules:
        notes += undefined_notes(pick(one, label_rule=rule), f"Label rule `{rule}`")
    notes += ranking_notes(settings)
    notes.append("Ceiling: the mean over the same units of min(1, budget / base rate).")
    return units.result("capture_curve", TITLE, context, data, displays, notes)


def _ceilings(rates: pd.DataFrame, one: pd.DataFrame, settings: EvaluationSettings):
    """Yield the aggregated ceiling at every budget, over the units the curves are defined on."""
    keys = ["label_rule", "dataset", "model", "seed"]
    defined = one.set_index(keys)["value"].notna()
    kept = defined.reindex(pd.MultiIndex.from_frame(rates[keys])).to_numpy()
    rate = rates["value"].where(kept)
    for q in settings.curve_budgets:
        share = pd.Series(np.minimum(1.0, q / rate), index=rates.index)
        rows = rates.assign(value=share, score=CEILING, metric=curve_metric(q))
        yield pick(aggregate(rows), level="aggregate")


def _display(own: pd.DataFrame, units: Units) -> pd.DataFrame:
    lines = []
    for score, sign in [*score_signs(scores_in(units)), (CEILING, "")]:
        curve = pick(own, score=score, sign=sign)
        title = CEILING if score == CEILING else score_title(score, sign)
        cells = [_at(curve, q) for q in SHOWN]
        lines.append([title, *[number(value) for value in cells]])
    return pd.DataFrame(lines, columns=["score", *[f"{q * 100:g} %" for q in SHOWN]])


def _at(curve: pd.DataFrame, budget: float) -> float:
    curve = curve.sort_values("budget")
    return float(np.interp(budget, curve["budget"], curve["capture"]))
