"""The page of an audit: one HTML file with its cases, to look at, sort and mail.

Cards are made by `cfc.auditing.html_card`, the same as in a notebook, and travel packed in blocks;
the page's script only lists, filters and shows them.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cfc.artifacts import canonical_json, to_numpy
from cfc.auditing.cases import SHORT, alone_of, hashes_of, score_name, summary, values_of
from cfc.auditing.html_card import card_body
from cfc.auditing.words import (
    BRITTLE_RULES,
    CONFIDENT,
    decimal_text,
    percent_text,
    plural,
    probability_text,
)
from cfc.page.payload import UNIFORM, cut, rounded, select_cases
from cfc.page.render import LARGEST, fill, packed

logger = logging.getLogger(__name__)

CASES = 1000
BLOCK = 40  # cards packed together
POINTS = 6  # groups shown as most often the single point of failure


def audit_page(
    table, facts: Mapping[str, Any], X=None, *, title: str = "Audit", cases: int = CASES
) -> str:
    """Return the page of an audit, below 15 MB.

    Of an audit of more cases than fit, the page holds the most fragile ones and a uniform sample of
    the same size, and says so; the figures at its top are over all cases.

    Args:
        table: the audit's table.
        facts: the audit's facts.
        X: the user's rows, to show values; None leaves them out.
        title: name of the page.
        cases: most cases on the page, at least 2.
    """
    rank = to_numpy(table["rank"])
    while True:
        chosen, why = select_cases(
            to_numpy(table["confidence"]),
            -rank,
            np.ones(len(table), dtype=bool),
            limit=cases,
            tau_p=0.0,
            seed=facts["seed"],
        )
        order = np.argsort(rank[chosen], kind="stable")
        page = _render(table, facts, X, title, chosen[order], why[order])
        size = len(page.encode())
        logger.info("%d cases, %.1f MB", len(chosen), size / 1e6)
        if size <= LARGEST or cases <= BLOCK:
            return page
        cases = max(BLOCK, int(0.9 * min(cases, len(chosen)) * LARGEST / size))


def _render(table, facts, X, title: str, chosen: np.ndarray, why: np.ndarray) -> str:
    shown = table.take(chosen)
    values = values_of(X, to_numpy(shown["case_id"]), facts["columns"])
    cards = [
        card_body(record, facts, held)
        for record, held in zip(shown.to_pylist(), values, strict=True)
    ]
    blocks = [cards[start : start + BLOCK] for start in range(0, len(cards), BLOCK)]
    return fill(
        "audit",
        ["card.css"],
        title=title,
        facts=facts,
        found=_found(table, facts),
        held=_held(table, why),
        score=score_name(facts),
        protocol=_protocol(facts),
        groups=_groups(facts),
        hashes=_hashes(facts),
        versions=_versions(facts),
        has_truth="true_label" in table.column_names,
        has_stress=bool(facts.get("stress")),
        values=packed(canonical_json(_list(shown, facts, why))),
        blocks=[packed(canonical_json(block)) for block in blocks],
    )


def _found(table, facts) -> dict[str, Any]:
    """Return the figures at the top, as text and shares of the longest bar."""
    found = summary(table, facts)
    points, budgets = list(found["points"].items()), found["budgets"]
    most, longest = max([1, *found["points"].values()]), max([1, *budgets.values()])
    return {
        **found,
        "least": decimal_text(CONFIDENT),
        "percent": "—" if found["share"] is None else percent_text(found["share"]),
        "points": [
            {"name": name, "count": count, "width": 100 * count / most}
            for name, count in points[:POINTS]
        ],
        "more_points": plural(len(points) - POINTS, "more group") if len(points) > POINTS else "",
        "budgets": [
            {"name": "none" if k is None else k, "count": count, "share": count / longest}
            for k, count in budgets.items()
        ],
    }


def _held(table, why: np.ndarray) -> dict[str, Any]:
    sample = int((why & UNIFORM > 0).sum())
    return {
        "shown": len(why),
        "cases": len(table),
        "is_all": len(why) == len(table),
        "sample": sample,
        "fragile": int((why != UNIFORM).sum()),
    }


def _list(shown, facts, why: np.ndarray) -> dict[str, Any]:
    """Return what the list and its filters know of each case."""
    alone = alone_of(shown, facts)
    kinds = sorted({kind for kinds in shown["warnings"].to_pylist() for kind in kinds or ()})
    truth = shown["true_label"].to_pylist() if "true_label" in shown.column_names else None
    rules = [f"brittle_{rule}" for rule in BRITTLE_RULES if f"brittle_{rule}" in shown.column_names]
    brittle = [shown[rule].to_pylist() for rule in rules]
    predicted = shown["predicted_label"].to_pylist()
    depth = min(facts["protocol"]["depth"], len(facts["groups"]["names"]))
    return {
        "groups": facts["groups"]["names"],
        "classes": facts["classes"],
        "kinds": [SHORT.get(kind, kind) for kind in kinds],
        "depth": depth,
        "block": BLOCK,
        "least": CONFIDENT,
        "score": score_name(facts),
        "cases": {
            "id": shown["case_id"].to_pylist(),
            "index": [_exact(index) for index in shown["index"].to_pylist()],
            "rank": shown["rank"].to_pylist(),
            "pred": shown["predicted"].to_pylist(),
            "conf": [cut(p) for p in shown["confidence"].to_pylist()],
            "shownConf": [probability_text(p) for p in shown["confidence"].to_pylist()],
            "budget": shown["flip_budget"].to_pylist(),
            "value": rounded(to_numpy(shown[facts["rank_by"]])),
            "alone": [np.flatnonzero(own).tolist() for own in alone],
            "mind": [[kinds.index(k) for k in own or ()] for own in shown["warnings"].to_pylist()],
            "wrong": truth and [int(t != p) for t, p in zip(truth, predicted, strict=True)],
            # 1 brittle by some rule, 0 by none, null where no rule says anything
            "brittle": [_any(own) for own in zip(*brittle, strict=True)] if brittle else None,
            "why": why.tolist(),
        },
    }


def _exact(index: Any) -> int | str:
    """Return an index as a script can hold it: whole numbers of up to 53 bits, or text."""
    return index if isinstance(index, int) and abs(index) < 2**53 else str(index)


def _any(values: Sequence[bool | None]) -> int | None:
    known = [value for value in values if value is not None]
    return int(any(known)) if known else None


_BASELINES = {
    "mean": "the mean of the background; a one-hot block becomes the frequencies of its levels",
    "mean_off": "the mean of the background for numbers; one-hot blocks and indicators off",
    "median": "the median of the background",
    "zero": "0 everywhere",
    "mode": "the median of numbers; the most frequent or the missing level of a one-hot block",
}


def _protocol(facts) -> list[tuple[str, str]]:
    """Return the settings of an audit in words."""
    own = facts["protocol"]
    grid = ", ".join(map(decimal_text, own["severities"]))
    rows = [
        ("preset", own["preset"]),
        ("baseline", f"{own['baseline']}: {_BASELINES.get(own['baseline'], 'as given')}"),
        ("order of removal", f"{own['order']}, to a depth of {own['depth']}"),
        ("fading", f"{', '.join(own['operators'])} at severities {grid}"),
        (
            "weights of RCMA, 1/k*, fading",
            ", ".join(decimal_text(round(w, 3)) for w in own["weights"]),
        ),
        ("smallest probability told apart from 0", f"{facts['clip']:.3g}"),
        ("margin", own["margin"]),
        ("ranked by", "S = u + X" if facts["rank_by"] == "s" else "u"),
        ("seed", str(facts["seed"])),
    ]
    exposure, stress = facts.get("exposure"), facts.get("stress")
    told = exposure and f"{exposure['points']} background values a column, seed {exposure['seed']}"
    rows.append(("value exposure", told or "not run"))
    if stress:
        cells = [
            f"{operator} {', '.join(map(decimal_text, cell['severities']))} ({cell['draws']} draws)"
            for operator, cell in stress["settings"].items()
        ]
        least = decimal_text(stress["threshold"])
        told = f"{'; '.join(cells)}; cases with p̂ ≥ {least}, seed {stress['seed']}"
    rows.append(("stress", told if stress else "not run"))
    return rows


def _hashes(facts) -> list[tuple[str, str]]:
    own = hashes_of(facts)
    own.setdefault("model", "none: a function has no content hash")
    operators = facts.get("operators") or {}
    return [*own.items(), *((f"operator {name}", value) for name, value in operators.items())]


def _versions(facts) -> list[tuple[str, str]]:
    model = facts["model"]
    answers = "the same bytes in any batch" if model["is_exact"] else "equal to rounding"
    rows = [("kind", model["kind"]), ("asked with", model["dtype"]), ("repeated answers", answers)]
    if model["n_trees"]:
        rows.append(("trees that vote", str(model["n_trees"])))
    return [*rows, ("cfc", facts["cfc_version"]), *model["library_versions"].items()]


def _groups(facts) -> list[dict[str, str]]:
    fields = [coordinate["field"] for coordinate in facts["coordinates"]]
    baseline = facts.get("baseline_text") or {}
    return [
        {
            "name": name,
            "columns": ", ".join(dict.fromkeys(fields[i] for i in index)),
            "baseline": baseline.get(name, ""),
        }
        for name, index in zip(facts["groups"]["names"], facts["groups"]["indices"], strict=True)
    ]
