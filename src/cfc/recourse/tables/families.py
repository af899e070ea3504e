"""Table ``families``: robustness of each method under each family of change (Figure 1)."""

from collections.abc import Sequence

import pandas as pd

from cfc.recourse.results import PERCENT, Results, family_title, method_title
from cfc.recourse.tables.base import dataset_title, finished, mean_sd
from cfc.tables.base import TableResult, number

TITLE = "Robustness under each family of change (companion paper, Figure 1)"


def build(results: Results) -> TableResult:
    """Return the table.

    Data: one row a data set, method and family: mean and sd over base models, ``pooled`` over all
    candidates and models (what Figure 1 prints), ``worst_model`` the mean over base models of the
    changed model that accepts least.
    """
    keys = ["dataset", "method", "family"]
    data = results.spread(results.by_family, keys, "robustness_pct")
    pooled = PERCENT * results.survival.groupby(keys, sort=False)["share"].mean()
    models = results.models[results.models["n_valid"] > 0]
    share = PERCENT * models["n_accepted"] / models["n_valid"]
    worst = share.groupby([models[k] for k in (*keys, "base")], sort=False).min()
    worst = worst.groupby(level=keys, sort=False).mean()
    data = data.merge(pooled.rename("pooled").reset_index(), on=keys, how="left")
    data = data.merge(worst.rename("worst_model").reset_index(), on=keys, how="left")
    displays = []
    at = data.set_index(keys)
    for dataset in results.datasets:
        lines = [
            [
                method_title(method),
                *[_cell(at, (dataset, method, family)) for family in results.families],
            ]
            for method in results.methods
        ]
        columns = ["method", *[family_title(f) for f in results.families]]
        displays.append((dataset_title(results, dataset), pd.DataFrame(lines, columns=columns)))
    ranks = _ranks(results, data)
    displays.append(("Agreement of families on the order of methods (Spearman)", ranks))
    notes = [
        "Percent of changed models that accept a candidate, mean ± sd over base models. "
        "Agreement: rank correlation of the methods' robustness, mean over data sets."
    ]
    return finished(results, "families", TITLE, data, displays, notes)


def _cell(at: pd.DataFrame, key: tuple[str, str, str]) -> str:
    return mean_sd(at.loc[key, "mean"], at.loc[key, "sd"]) if key in at.index else "—"


def agreement(cells: pd.DataFrame, families: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return how far families agree on the order of methods: data set -> rank correlations.

    Args:
        cells: robustness in column ``mean``, one row a dataset, method and family.
        families: the order of rows and columns.
    """
    return {
        str(dataset): own.pivot(index="method", columns="family", values="mean")
        .reindex(columns=list(families))
        .corr(method="spearman")
        for dataset, own in cells.groupby("dataset", sort=False)
    }


def _ranks(results: Results, data: pd.DataFrame) -> pd.DataFrame:
    found = agreement(data, results.families)
    mean = sum(found.values()) / len(found)
    lines = [
        [family_title(f), *[number(mean.loc[f, g], 2) for g in results.families]]
        for f in results.families
    ]
    return pd.DataFrame(lines, columns=["family", *[family_title(f) for f in results.families]])
