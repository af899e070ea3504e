"""Table ``data_and_bases``: rows, parts, requests and accuracy of the base models (Table 3)."""

import pandas as pd

from cfc.recourse.results import Results
from cfc.recourse.tables.base import dataset_title, finished
from cfc.tables.base import TableResult, number

TITLE = "Data sets and base models (companion paper, Table 3)"


def build(results: Results) -> TableResult:
    """Return the table; data: one row a data set."""
    rows = []
    for dataset in results.datasets:
        facts = results.data_facts[dataset]
        own = results.bases[results.bases["dataset"] == dataset]
        accuracy = own["balanced_accuracy"]
        rows.append(
            {
                "dataset": dataset,
                "n": facts["rows"],
                "n_read": facts["rows_read"],
                "p": facts["features"],
                "favourable_share": facts["favourable_share"],
                **{k: facts[k] for k in ("n_train", "n_update", "n_validation", "n_test")},
                "n_factuals_total": int(own["n_requests"].sum()),
                "n_factuals_min": int(own["n_requests"].min()),
                "n_factuals_max": int(own["n_requests"].max()),
                "test_balanced_accuracy_min": accuracy.min(),
                "test_balanced_accuracy_mean": accuracy.mean(),
                "test_balanced_accuracy_max": accuracy.max(),
                "n_bases": len(own),
            }
        )
    data = pd.DataFrame(rows)
    shown = pd.DataFrame(
        [
            [
                dataset_title(results, r["dataset"]),
                f"{r['n']:,}",
                str(r["p"]),
                "/".join(str(r[f"n_{k}"]) for k in ("train", "update", "validation", "test")),
                f"{r['n_factuals_total']:,} ({r['n_factuals_min']} to {r['n_factuals_max']})",
                "/".join(number(r[f"test_balanced_accuracy_{k}"]) for k in ("min", "mean", "max")),
            ]
            for r in rows
        ],
        columns=[
            "data set",
            "rows",
            "features",
            "train/update/validation/test",
            "requests (per base model)",
            "balanced accuracy, min/mean/max",
        ],
    )
    notes = [
        "Requests are test rows a base model refuses: all of them, or a fixed sample.",
        "Identical rows of wine quality can lie in train and in test; zeros that mean missing in "
        "Pima are kept as numbers.",
    ]
    return finished(results, "data_and_bases", TITLE, data, [("Data sets", shown)], notes)
