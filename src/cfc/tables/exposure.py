"""Table ``exposure``: what occurring values add to one baseline (protocol, section 13)."""

import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import (
    TableContext,
    TableResult,
    Unit,
    Units,
    aggregate,
    pick,
    select_ranking,
    undefined_notes,
)
from cfc.tables.brittle_auroc import ranking_notes
from cfc.tables.paired import (
    absent_notes,
    comparison_display,
    comparison_notes,
    comparisons,
    defined_pairs,
    joined_data,
)

TITLE = "Value exposure against FDS and the one-step sum"
PAIRS = (
    ("exposed_fds", "fds"),
    ("exposed_fds", "one_step_sum"),
    ("exposed_fds", "exposure"),
    ("exposure", "fds"),
    ("exposure", "one_step_sum"),
    ("one_step_sum", "fds"),
)


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table.

    Data: AUROC and AUROC within class of every score at every level, and the rows of
    `cfc.tables.paired.comparisons` for `PAIRS`.
    """
    units = Units(rows, expected)
    ranking = select_ranking(units, ["auroc"], settings)
    within = select_ranking(units, ["auroc_within_class"], settings)
    pairs = defined_pairs(units, PAIRS)
    gains = comparisons(ranking, pairs, settings)
    inside = comparisons(within.assign(metric="auroc"), pairs, settings)
    notes = units.notes() + absent_notes(units, ("exposure", "exposed_fds"), "exposure")
    for rule in settings.label_rules:
        one = pick(ranking, label_rule=rule, score="exposed_fds", sign="risk")
        if len(one):
            notes += undefined_notes(one, f"Label rule `{rule}`")
    notes += comparison_notes(gains, settings)
    notes += [
        "Exposure X: each group takes values of training rows, and X adds up, over groups, the "
        "mean relative loss of margin and the share of values that change the label. Exposed FDS: "
        "S = u + X, u being what FDS is a function of. Grid values come from the half of train "
        "that the `swap` stress does not draw from.",
        *ranking_notes(settings),
    ]
    displays = [
        ("AUROC: gain of one score over another, paired within units", gains),
        ("AUROC within predicted class: the same gains", inside),
    ]
    displays = [(caption, comparison_display(own, units)) for caption, own in displays]
    data = joined_data(
        aggregate(pd.concat([ranking, within], ignore_index=True)),
        gains,
        inside.assign(metric="gain_within_class"),
    )
    return units.result("exposure", TITLE, context, data, displays, notes)
