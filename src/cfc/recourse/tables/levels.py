"""Table ``levels``: robustness at each strength of a change (ours)."""

import pandas as pd

from cfc.recourse.results import PERCENT, Results, family_title, method_title
from cfc.recourse.tables.base import dataset_title, finished
from cfc.tables.base import UNDEFINED, TableResult, number

TITLE = "Robustness at each strength of change (ours)"
_FEW = 5  # a family with more levels than this has one a model: no strength to order


def build(results: Results) -> TableResult:
    """Return the table; data: one row a data set, method, family and level."""
    models = results.models.merge(
        results.bank[["dataset", "family", "base", "number", "level", "disagreement"]],
        on=["dataset", "family", "base", "number"],
        how="left",
    )
    models = models[models["n_valid"] > 0]
    models = models.assign(share=PERCENT * models["n_accepted"] / models["n_valid"])
    per_family = models.groupby("family")["level"].nunique()
    leveled = [f for f in results.families if 1 < per_family.get(f, 0) <= _FEW]
    models = models[models["family"].isin(leveled)]
    keys = ["dataset", "method", "family", "level"]
    by_base = models.groupby([*keys, "base"], sort=False)[["share", "disagreement"]].mean()
    data = results.spread(by_base.reset_index(), keys, "share")
    moved = by_base.groupby(level=keys, sort=False)["disagreement"].mean()
    data = data.merge((PERCENT * moved).rename("disagreement_pct").reset_index(), on=keys)
    displays = []
    for dataset in results.datasets:
        own = data[data["dataset"] == dataset]
        at = own.set_index(["method", "family", "level"])
        moved = own.groupby(["family", "level"])["disagreement_pct"].mean()
        lines = [
            [
                f"{family_title(family)} {level}",
                number(moved[family, level], 2),
                *[_cell(at, (method, family, level)) for method in results.methods],
            ]
            for family, level in dict.fromkeys(zip(own["family"], own["level"], strict=True))
        ]
        columns = ["change", "labels moved %", *[method_title(m) for m in results.methods]]
        displays.append((dataset_title(results, dataset), pd.DataFrame(lines, columns=columns)))
    notes = [
        "Percent of the level's changed models that accept a candidate, mean over base models. "
        "Labels moved: test rows to which such a model gives another label than its base model."
    ]
    return finished(results, "levels", TITLE, data, displays, notes)


def _cell(at: pd.DataFrame, key: tuple[str, str, str]) -> str:
    return number(at.loc[key, "mean"], 1) if key in at.index else UNDEFINED
