"""Table ``natural``: AUROC under observed field unavailability (paper, Table 9)."""

from dataclasses import replace

import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.stages.natural import NOT_ELIGIBLE, RULES
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
from cfc.tables.brittle_auroc import ranking_notes

TITLE = "Brittle-case AUROC under observed field unavailability"


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table from the metric files of the natural stage.

    Data: metrics auroc, auroc_within_class and base_rate at the levels unit, dataset and
    aggregate, for the label rules ``literal`` and ``expected`` over observed events. Data sets
    without an event stay in the rows, each unit with that reason.
    """
    settings = replace(settings, label_rules=RULES)
    units = Units(rows, expected)
    ranking = select_ranking(units, ["auroc", "auroc_within_class"], settings)
    rates = units.select("brittle", ["base_rate"], label_rule=RULES)
    data = pd.concat([aggregate(ranking), aggregate(rates)], ignore_index=True)
    out = not_eligible(rates)
    shown = [d for d in units.datasets if d not in out]
    displays = [(f"AUROC, label rule `{rule}`", _grid(data, units, rule, shown)) for rule in RULES]
    displays.append(("Base rate of brittle cases", _rates(data, shown)))
    notes = units.notes()
    notes.append(
        f"Not eligible, {NOT_ELIGIBLE}: {', '.join(out)}." if out else "All data sets are eligible."
    )
    eligible = ranking[ranking["dataset"].isin(shown)]
    for rule in RULES:
        one = pick(eligible, label_rule=rule, score="fds", sign="risk", metric="auroc")
        if len(one):
            notes += undefined_notes(one, f"Label rule `{rule}`, eligible data sets")
    notes += [
        "Events: the patterns in which fields of training rows are unavailable together (declared "
        "markers and categories, codes outside the dictionary, missing cells), drawn with their "
        "frequency among rows that have one. An event replaces every group that holds such a "
        "field by the protocol's baseline, a group of several fields whole. Some events of a case "
        "touch a field that it lacks already.",
        "`literal`: one of the first draws flips the label or takes half the margin; `expected`: "
        "half of all draws flip it, or they take half the margin on average. The replacement is "
        "the certificate's own, so this label shares the baseline with FDS.",
        *ranking_notes(settings),
    ]
    return units.result("natural", TITLE, context, data, displays, notes)


def not_eligible(rates: pd.DataFrame) -> list[str]:
    """Return the data sets every evaluated unit of which says that there is no event."""
    reasons = rates.groupby("dataset", sort=False)["reason"]
    return [dataset for dataset, own in reasons if (own == NOT_ELIGIBLE).any()]


def _grid(data: pd.DataFrame, units: Units, rule: str, shown: list[str]) -> pd.DataFrame:
    at = pick(data, label_rule=rule, metric="auroc")
    within = pick(data, label_rule=rule, metric="auroc_within_class", level="aggregate")
    rows = []
    for score, sign in score_signs(scores_in(units)):
        own = pick(at, score=score, sign=sign)
        by_dataset = pick(own, level="dataset").set_index("dataset")["value"]
        cases = pick(own, level="unit")
        cases = cases[cases["dataset"].isin(shown)]
        defined = int(cases["value"].notna().sum())
        rows.append(
            [
                score_title(score, sign),
                *[number(by_dataset.get(d)) for d in shown],
                number(pick(own, level="aggregate")["value"].iloc[0]),
                defined_text(defined, len(cases) - defined),
                number(pick(within, score=score, sign=sign)["value"].iloc[0]),
            ]
        )
    return pd.DataFrame(rows, columns=["score", *shown, "mean", "units", "within class"])


def _rates(data: pd.DataFrame, shown: list[str]) -> pd.DataFrame:
    at = pick(data, metric="base_rate")
    rows = []
    for rule in RULES:
        own = pick(at, label_rule=rule)
        by_dataset = pick(own, level="dataset").set_index("dataset")["value"]
        mean = pick(own, level="aggregate")["value"].iloc[0]
        rows.append([rule, *[number(by_dataset.get(d)) for d in shown], number(mean)])
    return pd.DataFrame(rows, columns=["label rule", *shown, "mean"])
