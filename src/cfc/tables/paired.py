"""One score against another, unit by unit: where it wins and where it loses."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import (
    METRIC_KEYS,
    UNIT_KEYS,
    Units,
    defined_text,
    interval,
    number,
    pick,
    score_title,
    scores_in,
)
from cfc.tables.comparison import SCHEMES, intervals, rule_matrix

Pair = tuple[str, str]
GAIN = "gain"
VERDICTS = ("wins", "loses", "no difference shown", "too few units", "undefined")
# a bootstrap over fewer units says next to nothing
FEW_UNITS = 5


def comparisons(
    ranking: pd.DataFrame, pairs: Sequence[Pair], settings: EvaluationSettings
) -> pd.DataFrame:
    """Return the gain in AUROC of one score over another under every label rule.

    Args:
        ranking: unit rows of a ranking table, metric ``auroc``.
        pairs: (score, against), all without a sign of their own.
        settings: label rules and bootstrap.

    Returns:
        level (unit, dataset, aggregate), `UNIT_KEYS`, label_rule, score, against, metric
        ``gain``, value, low and high of each bootstrap scheme (aggregate only), share_won (ties
        count half), n_defined, n_undefined, verdict (aggregate only; of the interval over units).
    """
    parts = []
    for rule in settings.label_rules:
        matrix = rule_matrix(ranking, rule)
        gain = pd.DataFrame(
            {
                pair: matrix.values[pair[0], "risk"] - matrix.values[pair[1], "risk"]
                for pair in pairs
                if (pair[0], "risk") in matrix and (pair[1], "risk") in matrix
            }
        )
        if gain.empty:
            continue
        found = intervals(gain, matrix.datasets, settings)
        for column in gain.columns:
            keys = {"label_rule": rule, "score": column[0], "against": column[1], "metric": GAIN}
            parts.append(_levels(gain[column], found[column]).assign(**keys))
    if not parts:
        return pd.DataFrame(columns=["level", *UNIT_KEYS, "label_rule", "score", "against"])
    return pd.concat(parts, ignore_index=True)


def _levels(own: pd.Series, found: dict) -> pd.DataFrame:
    units = own.rename("value").reset_index().assign(level="unit")
    units["n_defined"] = units["value"].notna().astype(int)
    units["n_undefined"] = units["value"].isna().astype(int)
    rows = []
    for dataset, values in own.groupby(level="dataset", sort=False):
        rows.append({"level": "dataset", "dataset": dataset, **_counts(values)})
        rows[-1]["value"] = values.mean()
    top = {"level": "aggregate", **_counts(own), "value": found["units"][0]}
    for scheme in SCHEMES:
        _, top[f"{scheme}_low"], top[f"{scheme}_high"] = found[scheme]
    top["verdict"] = verdict(top["units_low"], top["units_high"], top["n_defined"])
    return pd.concat([units, pd.DataFrame([*rows, top])], ignore_index=True)


def _counts(values: pd.Series) -> dict:
    held = values.dropna()
    won = (held > 0).mean() + (held == 0).mean() / 2 if len(held) else np.nan
    return {
        "share_won": won,
        "n_defined": len(held),
        "n_undefined": int(values.isna().sum()),
    }


def verdict(low: float, high: float, n_units: int) -> str:
    """Return what an interval of a gain over so many units says, one of `VERDICTS`."""
    if pd.isna(low) or pd.isna(high):
        return "undefined"
    if n_units < FEW_UNITS:
        return "too few units"
    if low > 0:
        return "wins"
    return "loses" if high < 0 else "no difference shown"


def comparison_display(gains: pd.DataFrame, units: Units) -> pd.DataFrame:
    """Return the readable form: one line a label rule and pair, one column a data set."""
    lines = []
    for top in pick(gains, level="aggregate").itertuples(index=False):
        own = pick(gains, label_rule=top.label_rule, score=top.score, against=top.against)
        at = pick(own, level="dataset").set_index("dataset")["value"]
        lines.append(
            [
                top.label_rule,
                f"{score_title(top.score)} − {score_title(top.against)}",
                *[number(at.get(d), signed=True) for d in units.datasets],
                number(top.value, signed=True),
                interval(top.units_low, top.units_high, signed=True),
                interval(top.clustered_low, top.clustered_high, signed=True),
                number(top.share_won, 2),
                defined_text(top.n_defined, top.n_undefined),
                top.verdict,
            ]
        )
    columns = ["label rule", "gain in AUROC", *units.datasets, "mean", "95 % interval"]
    columns += ["95 %, clustered", "units won", "units", "reading"]
    return pd.DataFrame(lines, columns=columns)


def comparison_notes(gains: pd.DataFrame, settings: EvaluationSettings) -> list[str]:
    """Return one sentence a pair that says under which label rules it wins and loses."""
    notes = []
    top = pick(gains, level="aggregate")
    for (score, against), own in top.groupby(["score", "against"], sort=False):
        said = [
            f"{reading} under {', '.join(f'`{r}`' for r in rules)}"
            for reading in VERDICTS
            if len(rules := own.loc[own["verdict"] == reading, "label_rule"])
        ]
        notes.append(f"{score_title(score)} against {score_title(against)}: {'; '.join(said)}.")
    if notes:
        notes.append(
            "Wins, loses: the 95 % interval of the paired gain over units lies above, below 0 "
            f"(percentile bootstrap, {settings.n_bootstrap} resamples; gains are formed within a "
            f"unit); with fewer than {FEW_UNITS} units nothing is read. The clustered interval "
            "resamples whole data sets and is the one to read as a statement about other data "
            "sets. Units won: ties count half."
        )
    return notes


def absent_notes(units: Units, wanted: Sequence[str], analysis: str) -> list[str]:
    """Return a sentence when scores are absent because their analysis was not run."""
    held = set(units.frame["score"])
    gone = [score_title(name) for name in wanted if name not in held]
    if not gone:
        return []
    return [f"Not in this run: {', '.join(gone)} (analysis `{analysis}`)."]


def defined_pairs(units: Units, pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs both scores of which occur in the run."""
    held = set(scores_in(units))
    return [pair for pair in pairs if set(pair) <= held]


def joined_data(*parts: pd.DataFrame) -> pd.DataFrame:
    """Return ranking rows and gains as one long table, text columns empty rather than null."""
    data = pd.concat([part for part in parts if len(part)], ignore_index=True)
    for name in ("dataset", "model", *METRIC_KEYS, "against", "verdict"):
        if name in data:
            data[name] = data[name].astype(object).where(data[name].notna(), "")
    return data
