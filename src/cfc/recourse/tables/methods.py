"""Table ``methods``: coverage, validity, robustness and distance of each method (Table 6)."""

import pandas as pd

from cfc.recourse.results import METRICS, Results, method_title
from cfc.recourse.tables.base import dataset_title, finished, mean_sd
from cfc.tables.base import TableResult

TITLE = "Methods on each data set (companion paper, Table 6)"
EXTRAS = ("n_changed", "plausibility")
HEADS = {
    "coverage_pct": "coverage %",
    "base_validity_pct": "base validity %",
    "empirical_robustness_pct": "robustness %",
    "end_to_end_robustness_pct": "end to end %",
    "scaled_l1_distance": "distance",
    "n_changed": "features changed",
    "plausibility": "distance to accepted rows",
}


def build(results: Results) -> TableResult:
    """Return the table; data: one row a data set, method and metric, mean and sd over bases."""
    keys = ["dataset", "method"]
    parts = [
        results.spread(results.by_base, keys, metric).assign(metric=metric)
        for metric in (*METRICS, *EXTRAS)
    ]
    data = pd.concat(parts, ignore_index=True)[["dataset", "method", "metric", "mean", "sd"]]
    n_bases = results.by_base.groupby(keys, sort=False).size().rename("n_bases").reset_index()
    data = data.merge(n_bases, on=keys)
    at = data.set_index([*keys, "metric"])
    displays = []
    for dataset in results.datasets:
        lines = []
        for method in results.methods:
            line = [method_title(method)]
            for metric in HEADS:
                row = at.loc[(dataset, method, metric)]
                digits = 1 if metric.endswith("pct") or metric == "n_changed" else 3
                line.append(mean_sd(row["mean"], row["sd"], digits))
            lines.append(line)
        shown = pd.DataFrame(lines, columns=["method", *HEADS.values()])
        displays.append((dataset_title(results, dataset), shown))
    counts = results.candidates["status"].value_counts()
    said = ", ".join(f"{int(n)} {status}" for status, n in sorted(counts.items()))
    notes = [
        "Mean ± sample standard deviation over base models. Robustness is the share of changed "
        "models that still accept a candidate, over candidates the base model accepts; families "
        "weigh equally. End to end is coverage × base validity × robustness within a base model.",
        "Distance to accepted rows: mean scaled L1 distance of a candidate to its nearest training "
        "rows the base model accepts (`neighbours` of them), a measure of plausibility.",
        f"Status of all {int(counts.sum())} answers (requests × methods): {said}. A failure is no "
        "candidate, never the unchanged request.",
    ]
    notes += [
        f"{dataset_title(results, dataset)}: the median absolute deviation of {', '.join(fields)} "
        "is 0 in these training rows, so distance counts in standard deviations there. Another "
        "split can change that, and all distances with it."
        for dataset, fields in results.without_mad.items()
        if fields
    ]
    return finished(results, "methods", TITLE, data, displays, notes)
