"""Table ``tuning``: the whole grid of the tuned methods on validation rows, and the winners."""

import pandas as pd

from cfc.recourse.results import Results, method_title
from cfc.recourse.tables.base import dataset_title, finished
from cfc.tables.base import TableResult, number

TITLE = "Tuning grids and winners"
_COLUMNS = ["dataset", "method", "params", "n_valid", "n_requests", "distance", "is_winner"]


def build(results: Results) -> TableResult:
    """Return the table; data: one row a data set, method and setting, in grid order."""
    rows = []
    for item in results.method_json("facts"):
        for record in item["tuning"]:
            text = ", ".join(f"{k} {v:g}" for k, v in record["params"].items())
            rows.append(
                {
                    "dataset": item["dataset"],
                    "method": item["method"],
                    "params": text,
                    "n_valid": record["valid"],
                    "n_requests": record["requests"],
                    "distance": record["distance"],
                    "is_winner": record["is_winner"],
                }
            )
    data = pd.DataFrame(rows, columns=_COLUMNS)
    data["distance"] = data["distance"].astype("float64")
    lines = []
    for (dataset, method), own in data.groupby(["dataset", "method"], sort=False):
        won = own[own["is_winner"].astype(bool)].iloc[0]
        even = own[own["n_valid"] == won["n_valid"]]
        lines.append(
            [
                f"{dataset_title(results, dataset)}, {method_title(method)}",
                won["params"],
                f"{won['n_valid']} of {won['n_requests']}",
                number(won["distance"]),
                f"{len(even)} of {len(own)}",
            ]
        )
    columns = ["data set, method", "winner", "valid", "distance", "settings as valid"]
    notes = [
        "Refused validation rows of the first base model; the winner is used for every base model. "
        "Ranked by base validity, then distance, then order in the grid. With 16 to 25 rows one "
        "flipped row can change the winner."
    ]
    shown = [("Winners", pd.DataFrame(lines, columns=columns))]
    return finished(results, "tuning", TITLE, data, shown, notes)
