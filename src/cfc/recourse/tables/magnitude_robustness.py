"""Table ``magnitude_robustness``: does the size of a change say how much recourse it breaks? (ours)

The companion paper describes changes by how many labels they move and does not claim that this
explains robustness. Here the two stand side by side, model by model.
"""

import pandas as pd

from cfc.recourse.results import PERCENT, Results, family_title, method_title, spearman
from cfc.recourse.tables.base import dataset_title, finished, mean_sd
from cfc.tables.base import UNDEFINED, TableResult, number

TITLE = "Size of a change and the recourse it breaks (ours)"
KINDS = {"all": "over all changed models", "within": "within families"}
_MODEL = ["dataset", "family", "base", "number"]


def build(results: Results) -> TableResult:
    """Return the table.

    Data, by ``kind``: ``family``: one row a data set, method and family with ``disagreement_pct``
    (labels its models move on test rows) and robustness, both means over base models. ``all`` and
    ``within``: one row a data set and method with the rank correlation (Spearman) of a changed
    model's disagreement with the share of candidates it accepts, over a base model's changed models
    or within each family and then averaged; mean and sample deviation over base models.
    """
    models = results.models[results.models["n_valid"] > 0].merge(
        results.bank[[*_MODEL, "disagreement"]], on=_MODEL, how="left"
    )
    models = models.assign(
        share=PERCENT * models["n_accepted"] / models["n_valid"],
        disagreement_pct=PERCENT * models["disagreement"],
    )
    keys = ["dataset", "method"]
    of_base = [*keys, "base"]
    per_base = models.groupby([*keys, "family", "base"], sort=False)[["disagreement_pct", "share"]]
    families = per_base.mean().groupby(level=[*keys, "family"], sort=False).mean().reset_index()
    parts = [families.rename(columns={"share": "mean"}).assign(kind="family")]
    within = models.groupby([*of_base, "family"], sort=False)[["disagreement", "share"]]
    found = {
        "all": _rank_correlation(models.groupby(of_base, sort=False)[["disagreement", "share"]]),
        "within": _rank_correlation(within).groupby(level=of_base, sort=False).mean(),
    }
    for kind, values in found.items():
        frame = values.rename("rho").reset_index()
        parts.append(results.spread(frame, keys, "rho").assign(kind=kind, family=""))
    data = pd.concat(parts, ignore_index=True)
    columns = ["kind", *keys, "family", "disagreement_pct", "mean", "sd", "n_bases"]
    data = data[columns]
    displays = [
        (
            f"Rank correlation of labels moved and candidates accepted, {text}",
            _rho(results, data, k),
        )
        for k, text in KINDS.items()
    ]
    displays += [(dataset_title(results, d), _families(results, data, d)) for d in results.datasets]
    notes = [
        "Negative: changed models that move more labels accept fewer candidates. Mean ± sd over "
        "base models (how many of them); undefined where every changed model accepts the same "
        "share. Within families: mean over the families where it is defined.",
        "Labels moved: test rows that get another label than from the base model, mean over the "
        "family's models. Families are in the order of what they move.",
    ]
    return finished(results, "magnitude_robustness", TITLE, data, displays, notes)


def _rank_correlation(grouped) -> pd.Series:
    return grouped.apply(lambda own: spearman(own["disagreement"], own["share"]))


def _rho(results: Results, data: pd.DataFrame, kind: str) -> pd.DataFrame:
    at = data[data["kind"] == kind].set_index(["method", "dataset"])
    lines = []
    for method in results.methods:
        line = [method_title(method)]
        for dataset in results.datasets:
            key = (method, dataset)
            line.append(_value(at.loc[key]) if key in at.index else UNDEFINED)
        lines.append(line)
    heads = [dataset_title(results, d) for d in results.datasets]
    return pd.DataFrame(lines, columns=["method", *heads])


def _value(row: pd.Series) -> str:
    text = mean_sd(row["mean"], row["sd"], 2)
    return text if text == UNDEFINED else f"{text} ({int(row['n_bases'])})"


def _families(results: Results, data: pd.DataFrame, dataset: str) -> pd.DataFrame:
    own = data[(data["kind"] == "family") & (data["dataset"] == dataset)]
    moved = own.groupby("family")["disagreement_pct"].mean().sort_values(kind="stable")
    wide = own.pivot(index="family", columns="method", values="mean")
    wide = wide.reindex(index=moved.index, columns=list(results.methods))
    lines = [
        [family_title(f), number(moved[f], 2), *[number(v, 1) for v in wide.loc[f]]]
        for f in moved.index
    ]
    heads = [method_title(m) for m in results.methods]
    return pd.DataFrame(lines, columns=["family", "labels moved %", *heads])
