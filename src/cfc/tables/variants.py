"""What the tables of variants share: AUROC, its difference to a reference, rank correlation."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.ranking import SCORES
from cfc.tables.base import (
    METRIC_KEYS,
    Units,
    aggregate,
    defined_text,
    interval,
    number,
    pick,
)
from cfc.tables.comparison import gains, intervals, rule_matrix
from cfc.variants import DEFAULT

CONFIDENCE = tuple(info.name for info in SCORES if info.kind == "confidence")
# rows of single units are kept for these alone: the others' would be many
_UNIT_METRICS = ("auroc", "auroc_fds", "spearman_fds")


def held_names(units: Units, family: str, fallback: Sequence[str]) -> list[str]:
    """Return the variants the units hold, in the order they were declared.

    Args:
        units: the units of the run.
        family: metric group.
        fallback: what to show when no unit holds any.
    """
    frame = units.frame
    own = frame[(frame["family"] == family) & (frame["sign"] == "") & (frame["score"] != "")]
    return list(own["score"].unique()) or list(fallback)


def variant_data(
    units: Units,
    settings: EvaluationSettings,
    names: Sequence[str],
    *,
    family: str,
    metrics: Sequence[str],
    reference: str,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the long data of a table of variants, and its unit rows.

    Args:
        units: the units of the run.
        settings: label rules and the bootstrap.
        names: variants, in the order shown.
        family: metric group.
        metrics: AUROC metrics of a variant; differences are made of the first.
        reference: variant the others are compared with.

    Returns:
        `cfc.tables.base.aggregate` of every metric with the columns low, high and reference; the
        metric ``difference`` (variant minus reference, paired by unit, percentile 95 % interval
        over units) and ``gain_vs_confidence`` (variant minus the strongest confidence score in
        the risk sign) at level aggregate; the unit rows behind them.
    """
    rules = settings.label_rules
    rows = units.select(family, metrics, label_rule=rules, score=names)
    confidence = units.select(family, ["auroc"], label_rule=rules, score=CONFIDENCE, sign=["risk"])
    data = aggregate(pd.concat([rows, confidence], ignore_index=True))
    kept = (data["level"] != "unit") | data["metric"].isin(_UNIT_METRICS)
    parts = [data[kept].assign(reference="")]
    first = rows[rows["metric"] == metrics[0]].assign(metric="auroc")
    both = pd.concat([first, confidence], ignore_index=True)
    for rule in rules:
        matrix = rule_matrix(both, rule)
        strongest = matrix.strongest("risk")
        columns = [(name, "") for name in names]
        for metric, against in (
            ("difference", (reference, "")),
            ("gain_vs_confidence", strongest),
        ):
            differences = gains(matrix, against)[columns]
            found = intervals(differences, matrix.datasets, settings)
            parts.append(_difference_rows(found, differences, rule, metric, against))
    out = pd.concat(parts, ignore_index=True)
    out["reference"] = out["reference"].fillna("")
    for name in ("dataset", "model", "reason", *METRIC_KEYS):
        out[name] = out[name].astype(object).where(out[name].notna(), "")
    return out, rows


def _difference_rows(found, differences, rule, metric, against) -> pd.DataFrame:
    lines = []
    for (name, _), schemes in found.items():
        value, low, high = schemes["units"]
        held = differences[name, ""]
        lines.append(
            {
                "level": "aggregate",
                "label_rule": rule,
                "score": name,
                "metric": metric,
                "value": value,
                "low": low,
                "high": high,
                "n_defined": int(held.notna().sum()),
                "n_undefined": int(held.isna().sum()),
                "reference": against[0] if against else "",
            }
        )
    return pd.DataFrame(lines)


def spearman_data(units: Units, names: Sequence[str]) -> pd.DataFrame:
    """Return the rank correlation of each variant's FDS with the default's, at every level.

    ``value`` is the mean; ``low`` and ``high`` are the lowest and highest unit.
    """
    rows = units.select("variant", ["spearman_fds"], score=names)
    data = aggregate(rows)
    spread = rows.groupby("score", sort=False)["value"].agg(["min", "max"])
    top = (data["level"] == "aggregate").to_numpy()
    for column, name in (("low", "min"), ("high", "max")):
        data[column] = np.where(top, data["score"].map(spread[name]), np.nan)
    return data.assign(reference=DEFAULT)


def one(data: pd.DataFrame, **keys) -> pd.Series:
    """Return the aggregate row of a variant and metric."""
    return pick(data, level="aggregate", **keys).iloc[0]


def difference_cells(data: pd.DataFrame, rule: str, name: str, metric: str) -> list[str]:
    """Return a difference and its interval as texts."""
    row = one(data, label_rule=rule, score=name, metric=metric)
    return [number(row["value"], signed=True), interval(row["low"], row["high"], signed=True)]


def strongest_row(data: pd.DataFrame, rule: str) -> tuple[str, pd.Series] | None:
    """Return (name, aggregate row) of the strongest confidence score in the risk sign."""
    name = one(data, label_rule=rule, metric="gain_vs_confidence")["reference"]
    if not name:
        return None
    return name, one(data, label_rule=rule, score=name, sign="risk", metric="auroc")


def strongest_cells(data: pd.DataFrame, rule: str, width: int) -> list[str]:
    """Return a display line of the strongest confidence score, filled up to ``width`` cells."""
    found = strongest_row(data, rule)
    if found is None:
        return ["strongest confidence, risk sign", *["—"] * (width - 1)]
    name, row = found
    title = next(info.title for info in SCORES if info.name == name)
    cells = [f"{title}, risk sign", number(row["value"])]
    counts = defined_text(row["n_defined"], row["n_undefined"])
    return [*cells, *[""] * (width - len(cells) - 1), counts]


def case_note(settings: EvaluationSettings) -> str:
    """Return which cases and labels the tables of variants are over."""
    return (
        "Cases: a seeded sample of a unit's audited test cases with confidence at or above "
        f"{settings.tau_p:g}, the same for every variant. Model and cases stay; the brittle labels "
        "stay those of the held-out stress under the protocol in use, as in the paper, so a "
        "variant with another baseline loses the x̄ it shared with mask and dropout. A unit needs "
        f"at least {settings.min_positive} brittle and {settings.min_negative} other cases."
    )


INTERVAL_NOTE = (
    "Differences are paired by unit; interval: percentile 95 %, bootstrap over units. Spearman: "
    "rank correlation of FDS with that of the protocol in use, mean over units, then data sets; "
    "lowest: the unit where it is lowest."
)
