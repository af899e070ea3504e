"""Table ``brittle_aggregate``: aggregate AUROC and gain over confidence (paper, Table 2b)."""

import numpy as np
import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import (
    METRIC_KEYS,
    UNDEFINED,
    UNIT_KEYS,
    TableContext,
    TableResult,
    Unit,
    Units,
    defined_text,
    interval,
    number,
    pick,
    score_title,
    select_ranking,
    undefined_notes,
)
from cfc.tables.brittle_auroc import ranking_notes
from cfc.tables.comparison import SCHEMES, gains, intervals, rule_matrix

TITLE = "Aggregate brittle-case AUROC and gain over the strongest non-certificate score"
KEYS = [*UNIT_KEYS, *METRIC_KEYS]
COMPARISONS = ("auroc", "gain_vs_risk", "gain_vs_paper")


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table.

    Data, level ``aggregate``: one row per label rule, score, sign and metric (``auroc``;
    ``gain_vs_risk`` and ``gain_vs_paper``, the difference to the strongest confidence score of
    that sign) with value, low and high of each bootstrap scheme (``units_low`` ...), reference,
    share_not_improving, n_defined, n_undefined. Level ``unit``: the AUROC of each unit, or the
    reason why it has none.
    """
    units = Units(rows, expected)
    ranking = select_ranking(units, ["auroc"], settings)
    parts = [_rule_data(ranking, rule, settings) for rule in settings.label_rules]
    top = pd.concat(parts, ignore_index=True).assign(level="aggregate")
    unit_rows = ranking[[*KEYS, "value", "reason"]].assign(level="unit")
    data = pd.concat([top, unit_rows], ignore_index=True)
    data = data[["level", *[c for c in data.columns if c != "level"]]]
    displays: list = []
    notes = units.notes()
    for rule in settings.label_rules:
        own = pick(top, label_rule=rule)
        displays += [
            (f"Label rule `{rule}`: AUROC and gain in the risk sign", _main(own)),
            (f"Label rule `{rule}`: other intervals, gain in the paper's sign", _other(own)),
        ]
        one = pick(ranking, label_rule=rule, score="fds", sign="risk")
        notes += undefined_notes(one, f"Label rule `{rule}`")
        notes.append(f"Label rule `{rule}`: strongest non-certificate score: {_references(own)}.")
    notes += ranking_notes(settings)
    notes += [
        "The strongest non-certificate score is the confidence score with the highest aggregate "
        "AUROC on these very units, chosen apart for each label rule and sign. Not improving: the "
        "share of units in which the gain is zero or negative; it is not a p-value.",
        f"Intervals: percentile bootstrap, 95 %, {settings.n_bootstrap} resamples, of the mean "
        "over data sets of the mean over units; gains are paired within units. Over units as in "
        "the paper; stratified resamples within data sets; clustered resamples whole data sets. "
        "Units of one data set share its cases, so the first two are too narrow as a statement "
        "about other data sets.",
    ]
    return units.result("brittle_aggregate", TITLE, context, data, displays, notes)


def _rule_data(ranking: pd.DataFrame, rule: str, settings: EvaluationSettings) -> pd.DataFrame:
    matrix = rule_matrix(ranking, rule)
    reference = {sign: matrix.strongest(sign) for sign in ("risk", "paper")}
    rows = []
    for metric in COMPARISONS:
        sign = metric.rpartition("_")[2]
        against = reference.get(sign)
        values = matrix.values if metric == "auroc" else gains(matrix, against)
        found = intervals(values, matrix.datasets, settings)
        for score, own_sign in values.columns:
            own = values[score, own_sign]
            row = {
                "label_rule": rule,
                "score": score,
                "sign": own_sign,
                "metric": metric,
                "value": found[score, own_sign]["units"][0],
            }
            for scheme in SCHEMES:
                _, row[f"{scheme}_low"], row[f"{scheme}_high"] = found[score, own_sign][scheme]
            is_gain = metric != "auroc" and own.notna().any()
            row["reference"] = against[0] if metric != "auroc" and against else ""
            row["share_not_improving"] = float((own.dropna() <= 0).mean()) if is_gain else np.nan
            row["n_defined"] = int(own.notna().sum())
            row["n_undefined"] = int(own.isna().sum())
            rows.append(row)
    return pd.DataFrame(rows)


def _main(own: pd.DataFrame) -> pd.DataFrame:
    lines = []
    for auroc in pick(own, metric="auroc").itertuples(index=False):
        gain = pick(own, metric="gain_vs_risk", score=auroc.score, sign=auroc.sign).iloc[0]
        is_reference = auroc.sign == "risk" and gain["reference"] == auroc.score
        lines.append(
            [
                score_title(auroc.score, auroc.sign),
                number(auroc.value),
                interval(auroc.units_low, auroc.units_high),
                *_gain_cells(gain, "units", is_reference),
                defined_text(auroc.n_defined, auroc.n_undefined),
            ]
        )
    columns = ["score", "AUROC", "95 % interval", "gain", "95 % interval of the gain"]
    return pd.DataFrame(lines, columns=[*columns, "not improving", "units"])


def _other(own: pd.DataFrame) -> pd.DataFrame:
    lines = []
    for auroc in pick(own, metric="auroc").itertuples(index=False):
        keys = {"score": auroc.score, "sign": auroc.sign}
        risk = pick(own, metric="gain_vs_risk", **keys).iloc[0]
        paper = pick(own, metric="gain_vs_paper", **keys).iloc[0]
        reference = auroc.sign == "paper" and paper["reference"] == auroc.score
        lines.append(
            [
                score_title(auroc.score, auroc.sign),
                interval(auroc.stratified_low, auroc.stratified_high),
                interval(auroc.clustered_low, auroc.clustered_high),
                interval(risk["stratified_low"], risk["stratified_high"], signed=True),
                interval(risk["clustered_low"], risk["clustered_high"], signed=True),
                *_gain_cells(paper, "units", reference),
            ]
        )
    columns = [
        "score",
        "AUROC, stratified",
        "AUROC, clustered",
        "gain (risk), stratified",
        "gain (risk), clustered",
        "gain (paper sign)",
        "95 % interval (paper sign)",
        "not improving (paper sign)",
    ]
    return pd.DataFrame(lines, columns=columns)


def _gain_cells(gain: pd.Series, scheme: str, is_reference: bool) -> list[str]:
    if is_reference:
        return ["reference", UNDEFINED, UNDEFINED]
    return [
        number(gain["value"], signed=True),
        interval(gain[f"{scheme}_low"], gain[f"{scheme}_high"], signed=True),
        number(gain["share_not_improving"]),
    ]


def _references(own: pd.DataFrame) -> str:
    parts = []
    for sign in ("risk", "paper"):
        name = pick(own, metric=f"gain_vs_{sign}")["reference"].iloc[0]
        if not name:
            parts.append(f"none defined in the {sign} sign")
            continue
        value = pick(own, metric="auroc", score=name, sign=sign)["value"].iloc[0]
        parts.append(f"{score_title(name, sign)} ({number(value)})")
    return "; ".join(parts)
