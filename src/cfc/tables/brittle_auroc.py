"""Table ``brittle_auroc``: brittle-case AUROC per data set and score (paper, Table 2a)."""

import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import (
    TableContext,
    TableResult,
    Unit,
    Units,
    aggregate,
    defined_text,
    number,
    pick,
    score_signs,
    score_title,
    scores_in,
    select_ranking,
    undefined_notes,
)

TITLE = "Brittle-case AUROC per data set and ranking score"


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table; metrics auroc, auroc_within_class and base_rate at every level."""
    units = Units(rows, expected)
    ranking = select_ranking(units, ["auroc", "auroc_within_class"], settings)
    rates = units.select("brittle", ["base_rate"], label_rule=settings.label_rules)
    data = pd.concat([aggregate(ranking), aggregate(rates)], ignore_index=True)
    displays = []
    for rule in settings.label_rules:
        displays.append((f"AUROC, label rule `{rule}`", auroc_grid(data, units, rule)))
    displays.append(("Base rate of brittle cases", rates_grid(data, units, settings)))
    notes = units.notes()
    for rule in settings.label_rules:
        one = pick(ranking, label_rule=rule, score="fds", sign="risk", metric="auroc")
        notes += undefined_notes(one, f"Label rule `{rule}`")
    notes += ranking_notes(settings)
    notes.append(
        "Within class: the AUROC computed among cases of one predicted class, weighted by cases; "
        "what is lost against the plain AUROC is what the predicted class alone tells."
    )
    return units.result("brittle_auroc", TITLE, context, data, displays, notes)


def ranking_notes(settings: EvaluationSettings) -> list[str]:
    """Return what holds for every ranking table."""
    return [
        "A label made by few draws is noisy: how well two sets of draws agree, and the AUROC that "
        "no score can pass because of it, is in table `label_reliability`.",
        "A score that exists for a sample of cases (group-SHAP) is measured on that sample; table "
        "`attribution` compares scores on the same cases.",
        f"Cases: audited test cases with confidence at or above {settings.tau_p:g}. A unit needs "
        f"at least {settings.min_positive} brittle and {settings.min_negative} other cases; an "
        "undefined unit is counted, never replaced by a value. Means are over the defined units "
        "of a data set, then over data sets with at least one.",
        "Risk sign: less confidence is ranked as more fragile. Paper sign: more confidence is, "
        "as the paper's printed values need. For two classes the confidence scores order cases "
        "alike, so their values are equal, or x and 1 − x, up to rounding.",
    ]


def auroc_grid(data: pd.DataFrame, units: Units, rule: str) -> pd.DataFrame:
    """Return the readable AUROC of every score and data set under one label rule."""
    at = pick(data, label_rule=rule)
    rows = []
    for score, sign in score_signs(scores_in(units)):
        own = pick(at, score=score, sign=sign)
        auroc = pick(own, metric="auroc")
        by_dataset = pick(auroc, level="dataset").set_index("dataset")["value"]
        top = pick(auroc, level="aggregate").iloc[0]
        within = pick(own, metric="auroc_within_class", level="aggregate").iloc[0]
        rows.append(
            [
                score_title(score, sign),
                *[number(by_dataset.get(d)) for d in units.datasets],
                number(top["value"]),
                defined_text(top["n_defined"], top["n_undefined"]),
                number(within["value"]),
                defined_text(within["n_defined"], within["n_undefined"]),
            ]
        )
    columns = ["score", *units.datasets, "mean", "units", "within class", "units (within)"]
    return pd.DataFrame(rows, columns=columns)


def rates_grid(data: pd.DataFrame, units: Units, settings: EvaluationSettings) -> pd.DataFrame:
    """Return the readable base rates of every label rule and data set."""
    at = pick(data, metric="base_rate")
    rows = []
    for rule in settings.label_rules:
        own = pick(at, label_rule=rule)
        by_dataset = pick(own, level="dataset").set_index("dataset")["value"]
        top = pick(own, level="aggregate").iloc[0]
        rows.append(
            [
                rule,
                *[number(by_dataset.get(d)) for d in units.datasets],
                number(top["value"]),
                defined_text(top["n_defined"], top["n_undefined"]),
            ]
        )
    return pd.DataFrame(rows, columns=["label rule", *units.datasets, "mean", "units"])
