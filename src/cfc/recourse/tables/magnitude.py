"""Table ``magnitude``: how far changed models are from their base model in output (Table 4)."""

import json

import pandas as pd

from cfc.recourse.results import Results, family_title
from cfc.recourse.tables.base import dataset_title, finished, mean_sd
from cfc.tables.base import TableResult

TITLE = "Magnitude of the model changes (companion paper, Table 4)"
MEASURES = {"hard_disagreement_pct": "disagreement", "probability_mae": "probability_mae"}
MACRO = "macro_average"


def build(results: Results) -> TableResult:
    """Return the table.

    Data: one row a data set (and ``macro_average``), family and measure: mean and sample standard
    deviation over all changed models of the data set; the macro average is the plain mean of the
    data sets' means and of their deviations. ``n_distinct`` counts different networks.
    """
    rows = []
    bank = results.bank.merge(results.bases[["dataset", "base", "init_seed"]], how="left")
    for family in results.families:
        for measure, column in MEASURES.items():
            factor = 100 if measure.endswith("pct") else 1
            for dataset in results.datasets:
                own = bank[(bank["dataset"] == dataset) & (bank["family"] == family)]
                values = factor * own[column]
                rows.append(
                    {
                        "dataset": dataset,
                        "family": family,
                        "metric": measure,
                        "mean": values.mean(),
                        "sd": values.std(),
                        "balanced_accuracy": own["balanced_accuracy"].mean(),
                        "n_models": len(own),
                        "n_distinct": _distinct(own),
                    }
                )
    data = pd.DataFrame(rows)
    macro = data.groupby(["family", "metric"], sort=False)[
        ["mean", "sd", "balanced_accuracy"]
    ].mean()
    macro = macro.reset_index().assign(dataset=MACRO)
    data = pd.concat([data, macro], ignore_index=True)[list(data.columns)]
    displays = [
        ("Share of test rows with another label, %", _shown(results, data, 0, 2)),
        ("Mean absolute difference of the probability", _shown(results, data, 1, 3)),
    ]
    distinct = data[data["metric"] == "hard_disagreement_pct"]
    alike = distinct[(distinct["n_distinct"] < distinct["n_models"]).fillna(False)]
    notes = ["No changed model is left out for its accuracy, which is only recorded."]
    for row in alike.itertuples(index=False):
        notes.append(
            f"{dataset_title(results, row.dataset)}, {family_title(row.family)}: "
            f"{int(row.n_models)} changed models are {int(row.n_distinct)} different networks."
        )
    return finished(results, "magnitude", TITLE, data, displays, notes)


def _distinct(own: pd.DataFrame) -> int:
    """Return the number of different networks among changed models, by how they were made.

    Two are the same when first weights, strength, shape and every recorded seed agree, whichever
    base model asked. Parameters are no guide: the same training ends in other last digits beside
    other networks. Without a recorded seed the replicate tells variants apart.
    """
    made = set()
    for row in own.to_dict("records"):
        seeds = json.loads(row["seeds"])
        init = seeds.pop("init", row["init_seed"])
        drawn = json.dumps(seeds, sort_keys=True) if row["seeds"] != "{}" else row["replicate"]
        made.add((init, row["level"], row["hidden"], drawn))
    return len(made)


def _shown(results: Results, data: pd.DataFrame, which: int, digits: int) -> pd.DataFrame:
    own = data[data["metric"] == list(MEASURES)[which]]
    lines = []
    for family in results.families:
        line = [family_title(family)]
        for dataset in (*results.datasets, MACRO):
            row = own[(own["family"] == family) & (own["dataset"] == dataset)].iloc[0]
            line.append(mean_sd(row["mean"], row["sd"], digits))
        lines.append(line)
    names = [dataset_title(results, d) for d in results.datasets]
    return pd.DataFrame(lines, columns=["family", *names, "mean of data sets"])
