"""Table ``budget``: what a limited review finds (paper, Table 14)."""

import pandas as pd

from cfc.evaluate import EvaluationSettings, capture_metric, ceiling_metric, false_conf_metric
from cfc.ranking import SIGNS
from cfc.tables.base import (
    UNIT_KEYS,
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

TITLE = "Review-budget utility: Capture, FalseConfCaptured and AURC"


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table; every level of each capture, its ceiling, AURC and FalseConfCaptured."""
    units = Units(rows, expected)
    capture = [capture_metric(q) for q in settings.budgets]
    ceiling = [ceiling_metric(q) for q in settings.budgets]
    wrong = false_conf_metric(settings.false_conf_budget)
    ranking = select_ranking(units, [*capture, "aurc"], settings)
    by_rule = pd.concat(
        [
            units.select("brittle", ceiling, label_rule=settings.label_rules),
            _comparable_rates(units, ranking, settings),
        ],
        ignore_index=True,
    )
    by_score = units.select("brittle", [wrong], score=scores_in(units), sign=SIGNS)
    pairs = score_signs(scores_in(units))
    kept = [p in pairs for p in zip(by_score["score"], by_score["sign"], strict=True)]
    by_score = by_score[kept]
    data = pd.concat([aggregate(part) for part in (ranking, by_rule, by_score)], ignore_index=True)
    displays = [
        (f"Label rule `{rule}`", _grid(pick(data, level="aggregate"), pairs, rule, settings))
        for rule in settings.label_rules
    ]
    notes = units.notes()
    for rule in settings.label_rules:
        one = pick(ranking, label_rule=rule, score="fds", sign="risk", metric="aurc")
        notes += undefined_notes(one, f"Label rule `{rule}`")
    one = pick(by_score, score="fds", sign="risk")
    notes += undefined_notes(one, "FalseConfCaptured")
    notes += ranking_notes(settings)
    notes += [
        "Capture@q: share of the brittle cases among the top q of the ranking, expected over the "
        "order of ties. Ceiling: what a perfect ranking reaches, min(1, q / base rate), averaged "
        "over the same units.",
        f"FalseConfCaptured@{settings.false_conf_budget:.0%}: the same with the wrong confident "
        "predictions as the cases sought; it does not depend on the label rule. (Read as brittle "
        "cases, it would be Capture at that budget.)",
        "AURC: mean share of brittle cases left while the top-ranked are escalated one by one; "
        "lower is better, a ranking at random gives the base rate, here over the same units.",
    ]
    return units.result("budget", TITLE, context, data, displays, notes)


def _comparable_rates(
    units: Units, ranking: pd.DataFrame, settings: EvaluationSettings
) -> pd.DataFrame:
    """Return the base rates, undefined where AURC is: the value a random ranking would have."""
    rates = units.select("brittle", ["base_rate"], label_rule=settings.label_rules)
    keys = ["label_rule", *UNIT_KEYS]
    one = pick(ranking, score="fds", sign="risk", metric="aurc").set_index(keys)
    at = pd.MultiIndex.from_frame(rates[keys])
    defined = one["value"].reindex(at).notna().to_numpy()
    reasons = one["reason"].reindex(at).to_numpy()
    return rates.assign(
        value=rates["value"].where(defined), reason=rates["reason"].where(defined, reasons)
    )


def _grid(
    top: pd.DataFrame, pairs: list[tuple[str, str]], rule: str, settings: EvaluationSettings
) -> pd.DataFrame:
    at = top.set_index(["label_rule", "score", "sign", "metric"])["value"]
    wrong = false_conf_metric(settings.false_conf_budget)
    lines = []
    for score, sign in pairs:
        own = pick(top, label_rule=rule, score=score, sign=sign, metric="aurc").iloc[0]
        lines.append(
            [
                score_title(score, sign),
                *[number(at[rule, score, sign, capture_metric(q)]) for q in settings.budgets],
                number(at["", score, sign, wrong]),
                number(at[rule, score, sign, "aurc"]),
                defined_text(own["n_defined"], own["n_undefined"]),
            ]
        )
    ceilings = [number(at[rule, "", "", ceiling_metric(q)]) for q in settings.budgets]
    lines.append(["ceiling", *ceilings, "", "", ""])
    lines.append(
        ["base rate", *[""] * len(ceilings), "", number(at[rule, "", "", "base_rate"]), ""]
    )
    columns = [
        "score",
        *[f"Capture@{q * 100:g}" for q in settings.budgets],
        f"FalseConfCaptured@{settings.false_conf_budget * 100:g}",
        "AURC",
        "units",
    ]
    return pd.DataFrame(lines, columns=columns)
