"""Table ``baseline_sensitivity``: FDS when another vector replaces groups (paper, Table 15)."""

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
    undefined_notes,
)
from cfc.tables.variants import (
    INTERVAL_NOTE,
    case_note,
    difference_cells,
    held_names,
    one,
    spearman_data,
    strongest_row,
    variant_data,
)
from cfc.variants import DEFAULT, IN_USE, VARIANT_SCORES

TITLE = "Sensitivity to the baseline vector"


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table; score ``in_use/<baseline>``: the grouping in use, another baseline."""
    units = Units(rows, expected)
    held = held_names(units, "variant", [DEFAULT])
    names = [name for name in held if name.startswith(f"{IN_USE}/")] or [DEFAULT]
    data, unit_rows = grid_data(units, settings, names)
    displays = [
        (f"Label rule `{rule}`", grid_display(data, names, rule, "baseline"))
        for rule in settings.label_rules
    ]
    notes = units.notes()
    for rule in settings.label_rules:
        own = pick(unit_rows, label_rule=rule, score=DEFAULT, metric="auroc_fds")
        notes += undefined_notes(own, f"Label rule `{rule}`")
    notes += [
        case_note(settings),
        GAIN_NOTE,
        INTERVAL_NOTE,
        ONE_STEP_NOTE,
        "zero differs from mean_off only through rounding of the standardised values.",
    ]
    return units.result("baseline_sensitivity", TITLE, context, data, displays, notes)


GAIN_NOTE = (
    "Best confidence: the strongest confidence score in the risk sign, over the same cases; it "
    "depends on no baseline and no grouping. Gain: FDS minus that score, paired by unit."
)
ONE_STEP_NOTE = "RCMA and one-step sum, (max δ + Σδ⁺)/|m|: AUROC of these scores in the same cell."


def grid_data(units: Units, settings: EvaluationSettings, names: list[str]):
    """Return the data and the unit rows of cells of the grid, with the default beside them."""
    every = list(dict.fromkeys([DEFAULT, *names]))
    data, unit_rows = variant_data(
        units,
        settings,
        every,
        family="variant",
        metrics=[f"auroc_{score}" for score in VARIANT_SCORES],
        reference=DEFAULT,
    )
    return pd.concat([data, spearman_data(units, every)], ignore_index=True), unit_rows


def grid_display(data: pd.DataFrame, names: list[str], rule: str, what: str) -> pd.DataFrame:
    """Return the readable table of some cells under one label rule."""
    strongest = strongest_row(data, rule)
    best = number(strongest[1]["value"]) if strongest else number(None)
    lines = []
    for name in names:
        fds = one(data, label_rule=rule, score=name, metric="auroc_fds")
        rest = [
            number(one(data, label_rule=rule, score=name, metric=f"auroc_{score}")["value"])
            for score in ("rcma", "one_step_sum")
        ]
        rho = one(data, score=name, metric="spearman_fds")
        lines.append(
            [
                name.removeprefix(f"{IN_USE}/").replace("/", " × "),
                number(fds["value"]),
                best,
                *difference_cells(data, rule, name, "gain_vs_confidence"),
                difference_cells(data, rule, name, "difference")[0],
                *rest,
                number(rho["value"]),
                number(rho["low"]),
                defined_text(fds["n_defined"], fds["n_undefined"]),
            ]
        )
    columns = [
        what,
        "AUROC (FDS)",
        "best confidence",
        "gain",
        "95 % interval",
        "− default",
        "RCMA",
        "one-step sum",
        "Spearman",
        "lowest",
        "units",
    ]
    return pd.DataFrame(lines, columns=columns)
