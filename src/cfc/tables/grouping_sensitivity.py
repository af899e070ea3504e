"""Table ``grouping_sensitivity``: FDS over groupings x baselines (paper, Algorithm 11)."""

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import TableContext, TableResult, Unit, Units, pick, undefined_notes
from cfc.tables.baseline_sensitivity import (
    GAIN_NOTE,
    ONE_STEP_NOTE,
    grid_data,
    grid_display,
)
from cfc.tables.variants import INTERVAL_NOTE, case_note, held_names
from cfc.variants import DEFAULT, IN_USE, is_cell

TITLE = "Sensitivity to the grouping and the baseline vector"


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table; score ``<grouping>/<baseline>``."""
    units = Units(rows, expected)
    held = held_names(units, "variant", [DEFAULT])
    cells = [name for name in held if is_cell(name) and not name.startswith(f"{IN_USE}/")]
    names = cells or [DEFAULT]
    data, unit_rows = grid_data(units, settings, names)
    displays = [
        (f"Label rule `{rule}`", grid_display(data, names, rule, "grouping × baseline"))
        for rule in settings.label_rules
    ]
    notes = units.notes()
    for rule in settings.label_rules:
        own = pick(unit_rows, label_rule=rule, metric="auroc_fds")
        for grouping in dict.fromkeys(name.partition("/")[0] for name in names):
            first = next(name for name in names if name.partition("/")[0] == grouping)
            notes += undefined_notes(
                pick(own, score=first), f"Label rule `{rule}`, grouping `{grouping}`"
            )
    notes += [
        case_note(settings),
        GAIN_NOTE,
        INTERVAL_NOTE,
        ONE_STEP_NOTE,
        "redundancy_merged joins fields with |Spearman| or bias-corrected Cramér's V of at least "
        "0.8 on train; where none are, it equals raw_origin.",
    ]
    return units.result("grouping_sensitivity", TITLE, context, data, displays, notes)
