"""Table ``predictive``: how good each family is, and how fragile (paper, Table 1)."""

import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import (
    MISSING_FILE,
    UNDEFINED,
    TableContext,
    TableResult,
    Unit,
    Units,
    aggregate,
    mark_best,
    number,
    pick,
    undefined_notes,
)

TITLE = "Predictive quality and mean RCMA per data set and family"
# metric: (metric group, printed name, larger is better, decimals)
METRICS = {
    "auroc": ("predictive", "Test AUROC", True, 3),
    "mean_rcma": ("certificate", "Mean RCMA", False, 3),
    "median_rcma": ("certificate", "Median RCMA", False, 3),
    "accuracy": ("predictive", "Accuracy", True, 3),
    "macro_f1": ("predictive", "Macro-F1", True, 3),
    "average_precision": ("predictive", "Average precision", True, 3),
    "nll": ("predictive", "Negative log-likelihood", False, 3),
    "ece": ("predictive", "Expected calibration error, 15 bins", False, 3),
    "brier": ("predictive", "Brier score", False, 3),
    "mean_flip_budget": ("certificate", "Mean flip budget", True, 2),
    "mean_fds": ("certificate", "Mean FDS", False, 3),
    "share_flip_budget_1": ("certificate", "Share of cases with flip budget 1", False, 3),
    "share_saturated": ("certificate", "Share of saturated cases", False, 3),
}


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table; levels unit, dataset, cell (data set × family), family and aggregate.

    See `cfc.tables.base.Units` for ``rows`` and ``expected``.
    """
    units = Units(rows, expected)
    unit_rows = pd.concat(
        [units.select(group, [metric]) for metric, (group, *_) in METRICS.items()],
        ignore_index=True,
    )
    cells = cell_means(unit_rows)
    families = (
        cells.groupby(["model", "metric"], sort=False)
        .agg(
            value=("value", "mean"),
            n_datasets=("value", "count"),
            n_defined=("n_defined", "sum"),
            n_undefined=("n_undefined", "sum"),
        )
        .reset_index()
        .assign(level="family")
    )
    data = pd.concat([aggregate(unit_rows), cells, families], ignore_index=True)
    data[["label_rule", "score", "sign"]] = ""
    displays = [
        (_caption(name, better), _grid(cells, families, units, metric, better, digits))
        for metric, (_, name, better, digits) in METRICS.items()
    ]
    notes = units.notes()
    for metric, (_, name, _, _) in METRICS.items():
        wanted = pick(unit_rows, metric=metric)
        wanted = wanted[wanted["reason"] != MISSING_FILE]
        if wanted["value"].isna().any():
            notes += undefined_notes(wanted, name)
    notes += [
        "Cells: mean ± standard deviation over seeds (a seed sets both the split and the model); "
        "the last row is the mean over data sets, and says so where a family is undefined on some. "
        "Best in bold, second underlined.",
        "AUROC and average precision: of class 1 for two classes, one-vs-rest macro mean for "
        "more. Brier: mean of (p₁ − y)² for two classes, summed over classes for more.",
        "RCMA, flip budget and FDS: over a uniform sample of the test split. RCMA divides by "
        "|m(x)|, so a few cases next to the decision boundary can carry the mean; the median is "
        "beside it.",
    ]
    return units.result("predictive", TITLE, context, data, displays, notes)


def cell_means(unit_rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean and sd over seeds per data set × family × metric, as level ``cell``."""
    out = (
        unit_rows.groupby(["dataset", "model", "metric"], sort=False)["value"]
        .agg(value="mean", sd="std", n_defined="count", total="size")
        .reset_index()
    )
    out["n_undefined"] = out.pop("total") - out["n_defined"]
    return out.assign(level="cell")


def _caption(name: str, larger_is_better: bool) -> str:
    return f"{name} ({'higher' if larger_is_better else 'lower'} is better)"


def _grid(cells, families, units: Units, metric: str, better: bool, digits: int) -> pd.DataFrame:
    rows = []
    for dataset in units.datasets:
        at = pick(cells, dataset=dataset, metric=metric).set_index("model")
        values = [at["value"].get(model) for model in units.models]
        texts = [_cell(at, model, digits) for model in units.models]
        rows.append([dataset, *mark_best(values, texts, larger_is_better=better)])
    at = pick(families, metric=metric).set_index("model")
    rows.append(["mean", *_mean_row(at, units, better, digits)])
    return pd.DataFrame(rows, columns=["data set", *units.models])


def _mean_row(at: pd.DataFrame, units: Units, better: bool, digits: int) -> list[str]:
    """Return the means over data sets; one over fewer of them says so and is not compared."""
    total = len(units.datasets)
    values, texts = [], []
    for model in units.models:
        value, count = at["value"].get(model), at["n_datasets"].get(model, 0)
        partly = 0 < count < total
        values.append(None if partly else value)
        texts.append(number(value, digits) + (f" ({count} of {total})" if partly else ""))
    return mark_best(values, texts, larger_is_better=better)


def _cell(at: pd.DataFrame, model: str, digits: int) -> str:
    if model not in at.index or not at.loc[model, "n_defined"]:
        return UNDEFINED
    value, sd = at.loc[model, ["value", "sd"]]
    text = number(value, digits)
    return text if pd.isna(sd) else f"{text} ± {number(sd, digits)}"
