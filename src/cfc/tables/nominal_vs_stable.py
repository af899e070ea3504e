"""Table ``nominal_vs_stable``: the best family by AUROC against the most stable (Table 5)."""

import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import UNDEFINED, TableContext, TableResult, Unit, Units, number, pick
from cfc.tables.predictive import cell_means

TITLE = "Best nominal family against lowest-RCMA family"


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table: per data set and role (nominal, stable) the family and both its values.

    Data columns: dataset, role, model, auroc, auroc_sd, rcma, rcma_sd, n_defined.
    """
    units = Units(rows, expected)
    data = choose_families(units)
    displays = [("Means over seeds (± sd)", _display(data, units.datasets))]
    picked = data[data["model"] != ""]
    same = picked.groupby("dataset")["model"].agg(lambda m: len(m) == 2 and m.nunique() == 1)
    notes = units.notes()
    notes += [
        "Nominal: the family with the highest mean test AUROC over seeds; stable: the family with "
        "the lowest mean RCMA over seeds. Ties go to the family listed first in the run.",
        f"The two are the same family on {int(same.sum())} of {len(units.datasets)} data sets.",
    ]
    return units.result("nominal_vs_stable", TITLE, context, data, displays, notes)


def choose_families(units: Units) -> pd.DataFrame:
    """Return the chosen family per data set and role; an undefined choice has an empty model."""
    cells = pd.concat(
        [
            cell_means(units.select("predictive", ["auroc"])),
            cell_means(units.select("certificate", ["mean_rcma"])),
        ]
    )
    rows = []
    for dataset in units.datasets:
        auroc = pick(cells, dataset=dataset, metric="auroc").set_index("model")
        rcma = pick(cells, dataset=dataset, metric="mean_rcma").set_index("model")
        nominal = auroc["value"].idxmax() if auroc["value"].notna().any() else ""
        stable = rcma["value"].idxmin() if rcma["value"].notna().any() else ""
        for role, model in (("nominal", nominal), ("stable", stable)):
            rows.append(
                {
                    "dataset": dataset,
                    "role": role,
                    "model": model,
                    "auroc": auroc["value"].get(model),
                    "auroc_sd": auroc["sd"].get(model),
                    "rcma": rcma["value"].get(model),
                    "rcma_sd": rcma["sd"].get(model),
                    "n_defined": int(rcma["n_defined"].get(model, 0)),
                }
            )
    data = pd.DataFrame(rows)
    values = ["auroc", "auroc_sd", "rcma", "rcma_sd"]
    return data.astype(dict.fromkeys(values, "float64"))


def _display(data: pd.DataFrame, datasets: list[str]) -> pd.DataFrame:
    rows = []
    for dataset in datasets:
        line = [dataset]
        for role in ("nominal", "stable"):
            row = pick(data, dataset=dataset, role=role).iloc[0]
            line += [
                row["model"] or UNDEFINED,
                _with_sd(row["auroc"], row["auroc_sd"]),
                _with_sd(row["rcma"], row["rcma_sd"]),
            ]
        rows.append(line)
    columns = ["data set"]
    for role in ("nominal", "stable"):
        columns += [f"{role} family", f"AUROC ({role})", f"RCMA ({role})"]
    return pd.DataFrame(rows, columns=columns)


def _with_sd(value: float, sd: float) -> str:
    return number(value) if pd.isna(sd) else f"{number(value)} ± {number(sd)}"
