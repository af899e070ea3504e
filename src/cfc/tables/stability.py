"""Table ``stability``: FDS under other depths, orders, operators, grids, weights (Table 11)."""

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
    strongest_cells,
    variant_data,
)
from cfc.variants import DEFAULT, VARIANT_SCORES, is_cell

TITLE = "Stability of the ranking under other declared protocols"


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table; metrics auroc_<score>, difference (of FDS to default), spearman_fds."""
    units = Units(rows, expected)
    held = held_names(units, "variant", [DEFAULT])
    names = [name for name in held if not is_cell(name)]
    data, unit_rows = variant_data(
        units,
        settings,
        names,
        family="variant",
        metrics=[f"auroc_{score}" for score in VARIANT_SCORES],
        reference=DEFAULT,
    )
    data = pd.concat([data, spearman_data(units, names)], ignore_index=True)
    displays = [
        (f"Label rule `{rule}`", _display(data, names, rule)) for rule in settings.label_rules
    ]
    notes = units.notes()
    for rule in settings.label_rules:
        own = pick(unit_rows, label_rule=rule, score=DEFAULT, metric="auroc_fds")
        notes += undefined_notes(own, f"Label rule `{rule}`")
    notes += [
        case_note(settings),
        INTERVAL_NOTE,
        "`tempered`: all probabilities after global temperature scaling, T fitted on validation "
        "predictions. It divides every margin by T and changes no label, so k*, λ* and, but for "
        "the 1e-8 of its denominator, RCMA stay: the ranking can hardly move. (Which cases count "
        "as confident would change with T; here they are kept.)",
    ]
    return units.result("stability", TITLE, context, data, displays, notes)


def _display(data: pd.DataFrame, names, rule: str) -> pd.DataFrame:
    columns = [
        "variant",
        "AUROC (FDS)",
        "− default",
        "95 % interval",
        "AUROC (RCMA)",
        "Spearman",
        "lowest",
        "units",
    ]
    lines = []
    for name in names:
        fds = one(data, label_rule=rule, score=name, metric="auroc_fds")
        rcma = one(data, label_rule=rule, score=name, metric="auroc_rcma")
        rho = one(data, score=name, metric="spearman_fds")
        lines.append(
            [
                name.replace("_", " "),
                number(fds["value"]),
                *difference_cells(data, rule, name, "difference"),
                number(rcma["value"]),
                number(rho["value"]),
                number(rho["low"]),
                defined_text(fds["n_defined"], fds["n_undefined"]),
            ]
        )
    lines.append(strongest_cells(data, rule, len(columns)))
    return pd.DataFrame(lines, columns=columns)
