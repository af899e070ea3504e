"""Table ``apas_certification``: how often APΔS' fresh sample confirms its candidate."""

import pandas as pd

from cfc.artifacts import read_table
from cfc.recourse.generate import COVERED
from cfc.recourse.results import PERCENT, Results
from cfc.recourse.tables.base import dataset_title, finished, mean_sd
from cfc.tables.base import TableResult

TITLE = "Certification of APΔS candidates (companion paper, section 4.4)"
METHOD = "apas"
_COLUMNS = ["dataset", "base", "certified_pct", "n_requests", "n_returned", "n_certified"]


def build(results: Results) -> TableResult:
    """Return the table; data: one row a data set and base model."""
    import json

    rows = []
    if METHOD in results.methods:
        for dataset in results.datasets:
            path = results.folder / f"candidates/{dataset}/{METHOD}.parquet"
            table = read_table(path, ["base", "status", "remark"])
            frame = table.select(["base", "status"]).to_pandas()
            frame["certified"] = [
                bool(r and json.loads(r).get("certified"))
                for r in table.column("remark").to_pylist()
            ]
            for base, own in frame.groupby("base"):
                rows.append(
                    {
                        "dataset": dataset,
                        "base": int(base),
                        "certified_pct": PERCENT * own["certified"].mean(),
                        "n_requests": len(own),
                        "n_returned": int(own["status"].isin(COVERED).sum()),
                        "n_certified": int(own["certified"].sum()),
                    }
                )
    data = pd.DataFrame(rows, columns=_COLUMNS)
    lines = []
    for dataset, own in data.groupby("dataset", sort=False):
        lines.append(
            [
                dataset_title(results, dataset),
                mean_sd(own["certified_pct"].mean(), own["certified_pct"].std()),
                str(own["n_requests"].sum()),
                str(own["n_returned"].sum()),
                str((own["n_returned"] - own["n_certified"]).sum()),
            ]
        )
    columns = ["data set", "certified % of requests", "requests", "returned", "returned, refused"]
    notes = [
        "A candidate all sampled networks accept is checked by a fresh sample of the same size; "
        "certified means that the fresh sample accepts it too. Mean ± sd over base models.",
        "The certificate speaks of uniform parameter noise within the calibrated radius only. The "
        "minimum-cost counterfactuals come from a local search without a proof of optimality.",
    ]
    if not rows:
        notes.insert(0, "This run does not include the method apas.")
    shown = [("Data sets", pd.DataFrame(lines, columns=columns))]
    return finished(results, "apas_certification", TITLE, data, shown, notes)
