"""Table ``dependence``: what is left of a score once the confidence is known (ours)."""

import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.ranking import in_order
from cfc.stages.dependence import CONFIDENCE_ALONE, FAMILY, METRICS
from cfc.tables.base import (
    UNIT_KEYS,
    TableContext,
    TableResult,
    Unit,
    Units,
    aggregate,
    confidence_names,
    defined_text,
    interval,
    number,
    pick,
    score_title,
    undefined_notes,
)
from cfc.tables.brittle_auroc import ranking_notes
from cfc.tables.comparison import intervals

TITLE = "What a score adds once the confidence is known"
_TITLES = {
    "auroc_within_confidence": "within confidence strata",
    "partial_rank_correlation": "partial rank correlation",
    "auroc_with_confidence": "ranker: confidence + score",
    "auroc_gain": "gain over confidence alone",
}


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table from the metric files of the dependence stage.

    Data: every level of each metric per label rule and score, the aggregates with the 95 %
    bootstrap interval over units (``low``, ``high``); ``auroc_confidence_alone`` has one value a
    unit, and its score names the confidence score used.
    """
    units = Units(rows, expected)
    held = units.frame.loc[units.frame["family"] == FAMILY, "score"].unique()
    scores = [s for s in in_order([s for s in held if s]) if s not in confidence_names(list(held))]
    own = units.select(
        FAMILY, METRICS, label_rule=settings.label_rules, score=scores or [""], sign=["risk"]
    )
    alone = _alone(units, settings)
    data = pd.concat([aggregate(own), aggregate(alone)], ignore_index=True)
    data = _with_intervals(data, settings)
    displays = [
        (f"Label rule `{rule}`: means over units, then data sets", _scores(data, rule, scores))
        for rule in settings.label_rules
    ]
    displays += [
        (f"Label rule `{rule}`: CFC-FDS per data set", _datasets(data, rule, units))
        for rule in settings.label_rules
    ]
    notes = units.notes()
    for rule in settings.label_rules:
        one = pick(own, label_rule=rule, score="fds", metric="auroc_gain")
        notes += undefined_notes(one, f"Label rule `{rule}`") if len(one) else []
    notes += [
        "Within confidence strata: AUROC among cases of about equal confidence (strata with equal "
        "numbers of cases), weighted by cases; 0.5 means that the score says nothing which "
        "confidence does not. Partial rank correlation: of score and label with the ranks of the "
        "margin held fixed; 0 means the same.",
        "Ranker: held-out AUROC, mean over folds, of a logistic regression on the ranks of the "
        "unit's best risk-signed confidence score, alone and with the score. It learns the sign "
        "of the confidence too, so it can beat either reading of it.",
        ranking_notes(settings)[0],
    ]
    return units.result("dependence", TITLE, context, data, displays, notes)


def _alone(units: Units, settings: EvaluationSettings) -> pd.DataFrame:
    """Return one row a unit and rule of the confidence alone, whichever score it used."""
    frame = units.frame[
        (units.frame["family"] == FAMILY) & (units.frame["metric"] == CONFIDENCE_ALONE)
    ]
    renamed = Units(frame.assign(score="", sign=""), units.expected)
    renamed.missing = units.missing
    return renamed.select(FAMILY, [CONFIDENCE_ALONE], label_rule=settings.label_rules)


def _with_intervals(data: pd.DataFrame, settings: EvaluationSettings) -> pd.DataFrame:
    keys = ["label_rule", "score", "metric"]
    unit = pick(data, level="unit")
    wide = unit.pivot(index=UNIT_KEYS, columns=keys, values="value").astype("float64")
    found = intervals(wide, wide.index.get_level_values("dataset").to_numpy(), settings)
    bounds = [
        {**dict(zip(keys, key, strict=True)), "low": one["units"][1], "high": one["units"][2]}
        for key, one in found.items()
    ]
    bounds = pd.DataFrame(bounds).assign(level="aggregate")
    return data.merge(bounds, how="left", on=["level", *keys])


def _scores(data: pd.DataFrame, rule: str, scores: list[str]) -> pd.DataFrame:
    top = pick(data, level="aggregate", label_rule=rule)
    alone = pick(top, metric=CONFIDENCE_ALONE).iloc[0]
    lines = [
        [
            "confidence alone",
            *["—"] * 4,
            number(alone["value"]),
            "—",
            "—",
            defined_text(alone["n_defined"], alone["n_undefined"]),
        ]
    ]
    for score in scores:
        at = pick(top, score=score).set_index("metric")
        cells = []
        for metric in METRICS:
            row = at.loc[metric]
            signed = metric in ("auroc_gain", "partial_rank_correlation")
            cells.append(number(row["value"], signed=signed))
            if metric != "auroc_with_confidence":
                cells.append(interval(row["low"], row["high"], signed=signed))
        gain = at.loc["auroc_gain"]
        lines.append(
            [score_title(score), *cells, defined_text(gain["n_defined"], gain["n_undefined"])]
        )
    columns = ["score"]
    for metric in METRICS:
        columns.append(_TITLES[metric])
        if metric != "auroc_with_confidence":
            columns.append("95 % interval")
    return pd.DataFrame(lines, columns=[*columns, "units"])


def _datasets(data: pd.DataFrame, rule: str, units: Units) -> pd.DataFrame:
    at = pick(data, level="dataset", label_rule=rule, score="fds")
    alone = pick(data, level="dataset", label_rule=rule, metric=CONFIDENCE_ALONE)
    alone = alone.set_index("dataset")["value"]
    lines = []
    for dataset in units.datasets:
        own = pick(at, dataset=dataset).set_index("metric")
        cells = [
            number(own["value"].get(m), signed=m in ("auroc_gain", "partial_rank_correlation"))
            for m in METRICS
        ]
        gain = own.loc["auroc_gain"] if "auroc_gain" in own.index else None
        counts = "—" if gain is None else defined_text(gain["n_defined"], gain["n_undefined"])
        lines.append([dataset, *cells[:2], number(alone.get(dataset)), *cells[2:], counts])
    titles = [_TITLES[m] for m in METRICS]
    columns = ["data set", *titles[:2], "ranker: confidence alone", *titles[2:], "units"]
    return pd.DataFrame(lines, columns=columns)
