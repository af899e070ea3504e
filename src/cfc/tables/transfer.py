"""Table ``transfer``: AUROC under stress with values no score was built on."""

from dataclasses import replace

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
from cfc.tables.brittle_auroc import auroc_grid, ranking_notes, rates_grid
from cfc.tables.exposure import PAIRS
from cfc.tables.paired import (
    absent_notes,
    comparison_display,
    comparison_notes,
    comparisons,
    defined_pairs,
    joined_data,
)
from cfc.transfer import OPERATORS

TITLE = "Brittle-case AUROC under stress with values no score was built on"


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table from the metric files of the transfer stage.

    Data: metrics auroc, auroc_within_class and base_rate at every level, the label rules being
    the transfer operators; and the rows of `cfc.tables.paired.comparisons`.
    """
    settings = replace(settings, label_rules=OPERATORS)
    units = Units(rows, expected)
    ranking = select_ranking(units, ["auroc", "auroc_within_class"], settings)
    rates = units.select("brittle", ["base_rate"], label_rule=OPERATORS)
    levels = pd.concat([aggregate(ranking), aggregate(rates)], ignore_index=True)
    gains = comparisons(ranking, defined_pairs(units, PAIRS), settings)
    displays = [
        (f"AUROC under `{rule}`", auroc_grid(levels, units, rule)) for rule in settings.label_rules
    ]
    displays.append(("Base rate of brittle cases", rates_grid(levels, units, settings)))
    if len(gains):
        displays.append(("Gain of one score over another", comparison_display(gains, units)))
    notes = units.notes() + absent_notes(units, ("exposure", "exposed_fds"), "exposure")
    for rule in settings.label_rules:
        one = pick(ranking, label_rule=rule, score="fds", sign="risk", metric="auroc")
        notes += undefined_notes(one, f"Label `{rule}`")
    notes += comparison_notes(gains, settings)
    notes += [
        "Labels: half of all draws flip the prediction, or they take half the margin on average, "
        "at some severity. `median` and `mode`: groups take the train median or their most usual "
        "value; `gaussian`: normal noise on numeric coordinates; `near_swap`: groups take the "
        "values of one of the nearest training rows, from the half of train no score looks at. "
        "Where the protocol's baseline is itself the median or the mode, that column is no "
        "transfer.",
        *ranking_notes(settings),
    ]
    return units.result("transfer", TITLE, context, joined_data(levels, gains), displays, notes)
