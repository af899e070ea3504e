"""Table ``seconds``: measured generation time of a request (Table 5, our machine)."""

import numpy as np
import pandas as pd

from cfc.recourse.results import Results, method_title
from cfc.recourse.tables.base import dataset_title, finished
from cfc.tables.base import TableResult, number

TITLE = "Time a request, measured here (companion paper, Table 5)"
POOLED = "pooled"
LIMIT = 30.0  # the published run stopped APΔS here


def build(results: Results) -> TableResult:
    """Return the table.

    Data: one row a data set (and ``pooled``), method and ``mode``: ``run`` is what the benchmark
    spent (a batch's time divided by its size), ``alone`` single requests of batched methods.
    ``with_setup`` adds a base model's one-off work to its first request. Data are in seconds.
    """
    rows = []
    records = results.method_json("timings")
    for method in results.methods:
        own = [r for r in records if r["method"] == method]
        for name, part in [*((r["dataset"], [r]) for r in own), (POOLED, own)]:
            setup = float(sum(sum(r["setup_seconds"]) for r in part))
            for mode, key in (("run", "seconds"), ("alone", "alone_seconds")):
                values = np.array([v for r in part for v in r[key]])
                if len(values):
                    rows.append({"dataset": name, "method": method, "mode": mode, **_of(values)})
                    rows[-1]["with_setup"] = (values.sum() + setup) / len(values)
    data = pd.DataFrame(rows)
    displays = []
    for name in (POOLED, *results.datasets):
        lines = []
        for row in data[data["dataset"] == name].to_dict("records"):
            mode = " (single requests)" if row["mode"] == "alone" else ""
            lines.append(
                [
                    method_title(row["method"]) + mode,
                    *[
                        number(1000 * row[k], 2)
                        for k in ("mean", "sd", "median", "p90", "with_setup")
                    ],
                    str(row["n_requests"]),
                    str(row["n_over_limit"]),
                ]
            )
        columns = ["method, ms", "mean", "sd", "median", "90th percentile", "mean with set-up"]
        columns += ["requests", "over 30 s"]
        title = "All data sets" if name == POOLED else dataset_title(results, name)
        displays.append((title, pd.DataFrame(lines, columns=columns)))
    notes = [
        "Milliseconds of wall-clock time on the machine of this run, with whatever else it was "
        "doing; the only recourse table that differs between equal runs. Training, tuning and a "
        "base model's one-off work (radius, thresholds, certified rows) are left out except in the "
        "column with set-up. No method has a clock of its own."
    ]
    return finished(results, "seconds", TITLE, data, displays, notes)


def _of(values: np.ndarray) -> dict[str, float]:
    return {
        "mean": values.mean(),
        "sd": values.std(ddof=1) if len(values) > 1 else np.nan,
        "median": np.median(values),
        "p90": np.percentile(values, 90),
        "n_requests": len(values),
        "n_over_limit": int((values > LIMIT).sum()),
    }
