"""A case, or the most fragile ones, as HTML for a notebook cell and for the page of an audit.

Inline SVG and plain HTML: it needs no script, follows the width of its place, and a notebook or a
mailed page carries no plotting library for two small charts.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

import numpy as np

from cfc.artifacts import to_numpy
from cfc.auditing.cases import (
    NONE,
    SHORT,
    GroupRow,
    alone_of,
    budget_text,
    first_severities,
    group_rows,
    headline,
    largest_of,
    number_text,
    numbers_of,
    place_text,
    record_of,
    score_name,
    values_of,
)
from cfc.auditing.words import (
    Name,
    Sentence,
    brittle_rules,
    decimal_text,
    percent_text,
    plural,
    probability_text,
    sentences,
    stress_cells,
)

STYLE = Path(__file__).parents[1] / "page" / "card.css"
_CHART = 190  # height of the collapse curve, px
_LETTER = 4.1  # how far down a letter of a slanted label reaches, px


def card_html(audit, position: int) -> str:
    """Return a case as HTML for a notebook cell: styles of its own, no script, nothing to load.

    Args:
        audit: an audit, or anything with its ``table``, ``facts`` and ``X``.
        position: row of the table, 0..n−1.

    Raises:
        CfcError: there is no such row.
    """
    record, facts = record_of(audit, position), audit.facts
    values = values_of(audit.X, [record["case_id"]], facts["columns"])[0]
    return _cell_html(card_body(record, facts, values))


def frame_html(audit, n: int = 10) -> str:
    """Return an audit as HTML for a notebook cell: what it comes to, and its most fragile cases.

    Args:
        audit: an audit, or anything with its ``table`` and ``facts``.
        n: cases shown.
    """
    table, facts = audit.table, audit.facts
    names = np.array(facts["groups"]["names"], dtype=object)
    order = np.argsort(to_numpy(table["rank"]), kind="stable")[:n]
    shown = table.take(order)
    titles = ("rank", "case", "predicted", "p̂", "k*", "flips alone", score_name(facts), "warnings")
    rows = []
    for record, own in zip(shown.to_pylist(), alone_of(shown, facts), strict=True):
        cells = [
            record["rank"],
            record["index"],
            record["predicted_label"],
            probability_text(record["confidence"]),
            budget_text(record),
            ", ".join(names[own]) or NONE,
            number_text(record[facts["rank_by"]]),
            ", ".join(SHORT.get(kind, kind) for kind in record["warnings"] or ()),
        ]
        rows.append("".join(_tag("td", str(cell)) for cell in cells))
    left = len(table) - len(order)
    more = _hint(f"{plural(left, 'more case')}, less fragile.") if left else ""
    return _cell_html(
        f'<article class="cfc-card"><h3>Audit of {plural(len(table), "case")}</h3>'
        + _tag("p", headline(table, facts), "cfc-lead")
        + _table(map(_column, titles), rows, "cfc-list")
        + f"{more}</article>"
    )


def card_body(
    record: Mapping[str, Any], facts: Mapping[str, Any], values: Mapping[str, str]
) -> str:
    """Return the card of a case without its styles.

    Args:
        record: one row of the audit's table.
        facts: the audit's facts.
        values: column -> text, see `cfc.auditing.cases.values_of`.
    """
    said: dict[str, list[Sentence]] = {}
    for sentence in sentences(record, facts):
        said.setdefault(sentence.about, []).append(sentence)
    more = [s for about in ("fading", "exposure", "stress") for s in said.get(about, ())]
    parts = [
        f"<h3>Case {escape(str(record['index']))} {_tag('small', place_text(record, facts))}</h3>",
        f'<p class="cfc-marks">{_marks(record)}</p>',
        *(f'<p class="cfc-lead">{_spoken(said[about])}</p>' for about in ("prediction", "removal")),
        *(f'<p class="cfc-warning">{_spoken([s])}</p>' for s in said.get("warning", ())),
        f"<ul>{''.join(f'<li>{_spoken([s])}</li>' for s in more)}</ul>" if more else "",
        '<div class="cfc-columns"><section><h4>Support while groups are removed</h4>',
        f"{collapse_svg(record, facts)}</section>",
        f"<section>{_fading(record, facts)}{_stress(record, facts)}</section></div>",
        f"<h4>Groups in order of removal</h4>{_groups(group_rows(record, facts, values), record)}",
        _numbers(record, facts),
    ]
    return f'<article class="cfc-card">{"".join(parts)}</article>'


def _cell_html(body: str) -> str:
    style = STYLE.read_text(encoding="utf-8")
    return f'<div class="cfc-cell"><style>{style}</style>{body}</div>'


def _tag(name: str, text: str, kind: str = "") -> str:
    return f"<{name}{f' class={kind}' if kind else ''}>{escape(text)}</{name}>"


def _column(title: str) -> str:
    return f"<th scope=col>{escape(title)}</th>"


def _table(heads: Iterable[str], rows: Iterable[str], kind: str, scroll: str = "") -> str:
    """Return a table of rows of finished cells, in a place of its own to scroll."""
    body = "".join(row if row.startswith("<tr") else f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class="cfc-scroll"{scroll}><table class="{kind}"><thead><tr>{"".join(heads)}</tr>'
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def _hint(text: str) -> str:
    return _tag("p", text, "cfc-hint")


def _spoken(said: Iterable[Sentence]) -> str:
    """Return sentences as HTML, names in bold."""
    return " ".join(
        "".join(_tag("b", part) if isinstance(part, Name) else escape(part) for part in s.parts)
        for s in said
    )


def _marks(record: Mapping[str, Any]) -> str:
    """Return the short labels above a card; those that ask for attention begin with a sign."""
    budget = budget_text(record)
    shown = [f"k* = {budget}" if budget == "none" else f"✕ k* = {budget}"]
    truth = record.get("true_label")
    if truth is not None and str(truth) != record["predicted_label"]:
        shown.append("✕ wrong")
    shown += [f"✕ brittle: {rule}" for rule, value in brittle_rules(record).items() if value]
    shown += [f"! {SHORT.get(kind, kind)}" for kind in record.get("warnings") or ()]
    return " ".join(_tag("span", text, "cfc-bad" if text[0] in "✕!" else "") for text in shown)


# --- the collapse curve ---


def collapse_svg(record: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return the margin along the path of removal as an SVG that fills its place.

    Positions across are shares of the width and positions down are pixels, so letters keep their
    size on a telephone.
    """
    margins = [float(m) for m in record["path_margin"]]
    if not np.isfinite(margins).all():
        return "<p>The margin is not a number here.</p>"
    depth, budget = len(margins) - 1, record["flip_budget"]
    low, high = min(0.0, *margins), max(0.0, *margins)
    names = ["nothing", *record["group_order"][:depth]]
    classes = [facts["classes"][label] for label in record["path_label"]]

    def x(k):
        return f"{4 + 92 * k / depth:.2f}"

    def y(margin):
        # the note of k* stands above the curve
        return f"{24 + (high - margin) / ((high - low) or 1.0) * (_CHART - 36):.1f}"

    def points(pairs):
        return " ".join(f"{x(k)},{y(margin)}" for k, margin in pairs)

    above = [(0, 0.0), *_above_zero(margins), (depth, 0.0)]
    parts = [
        f'<line class="cfc-grid" x2="100%" y1="{y(t)}" y2="{y(t)}"/>'
        f'<text class="cfc-tick" x="-6" y="{y(t)}" dy=".35em">{number_text(t, digits)}</text>'
        for t, digits in _ticks(low, high)
    ]
    parts += [
        f'<svg width="100%" height="{_CHART}" viewBox="0 0 100 {_CHART}" '
        f'preserveAspectRatio="none"><polygon class="cfc-area" points="{points(above)}"/>'
        f'<polyline class="cfc-line" points="{points(enumerate(margins))}"/></svg>',
        f'<line class="cfc-zero" x2="100%" y1="{y(0)}" y2="{y(0)}"/>',
    ]
    if budget <= depth:
        # the note stands on the side with more room
        side, shift = ("end", -6) if budget > 0.6 * depth else ("start", 6)
        note = escape(f"k* = {budget}: {_short(classes[budget], 24)}")
        parts.append(
            f'<line class="cfc-cut" x1="{x(budget)}%" x2="{x(budget)}%" y2="{_CHART}"/>'
            f'<svg x="{x(budget)}%" y="10"><text class="cfc-note" x="{shift}" '
            f'style="text-anchor:{side}">{note}</text></svg>'
        )
    for k, (margin, name, label) in enumerate(zip(margins, names, classes, strict=True)):
        is_kept = record["path_label"][k] == record["predicted"]
        mark = '<circle r="4"/>' if is_kept else '<path d="M-5-5L5 5M-5 5L5-5"/>'
        title = (
            f"k = {k}, {name} removed{' as well' if k > 1 else ''}: {number_text(margin)}, {label}"
        )
        parts.append(
            f'<svg x="{x(k)}%" y="{y(margin)}" class="{"cfc-kept" if is_kept else "cfc-flip"}">'
            f'{_tag("title", title)}{mark}</svg><svg x="{x(k)}%" y="{_CHART + 12}">'
            f'<text class="cfc-name" transform="rotate(-40)">{escape(_short(name))}</text></svg>'
        )
    height = _CHART + 22 + round(_LETTER * max(len(_short(name)) for name in names))
    steps = [f"{number_text(m)} without {n}" for m, n in zip(margins[1:], names[1:], strict=True)]
    words = f"Margin {number_text(margins[0])} with nothing removed; one group more each time: "
    return (
        f'<div class="cfc-chart"><svg role="img" aria-label="{escape(words + ", ".join(steps))}." '
        f'width="100%" height="{height}">{"".join(parts)}</svg></div>'
    ) + _hint(
        "Margin of the predicted class; below the line at 0 another class is predicted (✕). Each "
        "step removes one group more."
    )


def _above_zero(margins: Sequence[float]) -> list[tuple[float, float]]:
    """Return the curve's points with what is below 0 put to 0, and where it crosses 0."""
    found = []
    for k, margin in enumerate(margins):
        if k and margins[k - 1] * margin < 0:
            found.append((k - 1 + margins[k - 1] / (margins[k - 1] - margin), 0.0))
        found.append((k, max(0.0, margin)))
    return found


def _ticks(low: float, high: float) -> list[tuple[float, int]]:
    """Return round numbers from low to high, 0 among them, each with the decimals to print."""
    span = (high - low) or 1.0
    power = floor(log10(span / 3))
    step = next(m * 10.0**power for m in (1, 2, 5, 10) if span / (m * 10.0**power) <= 5)
    return [(k * step, max(0, -power)) for k in range(ceil(low / step), floor(high / step) + 1)]


def _short(text: str, most: int = 15) -> str:
    """Return a text cut in its middle: names often differ at their ends only."""
    tail = (most - 1) // 3
    return text if len(text) <= most else f"{text[: most - 1 - tail]}…{text[-tail:]}"


# --- tables ---


def _fading(record: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    grid, groups = facts["protocol"]["severities"], len(record["group_order"])
    counts = {"top1": 1, "top3": min(3, groups), "all": groups}
    titles = {1: "first group", groups: f"all {groups} groups"} if groups > 1 else {1: "the group"}
    rows = {}
    for operator, first in first_severities(record, facts).items():
        count = counts.get(operator)
        title = titles.get(count, f"first {count} groups") if count else operator
        cells = [
            _tag("td", "kept")
            if first is None or s < first
            else _tag("td", "✕ flip", "cfc-bad")
            if s == first
            else _tag("td", "·")
            for s in grid
        ]
        rows[title] = f"<th scope=row>{escape(title)}</th>{''.join(cells)}"
    heads = map(_column, ["moved by λ", *map(decimal_text, grid)])
    return (
        "<h4>Fading towards the baseline</h4>"
        + _table(heads, rows.values(), "cfc-fading")
        + _hint("λ = 1: all the way. After the first flip (·) nothing is recorded.")
    )


def _stress(record: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    if not facts.get("stress"):
        return ""
    cells = stress_cells(record, facts)
    if not cells:
        limit = probability_text(facts["stress"]["threshold"])
        return f"<h4>Held-out stress</h4><p>Not stressed: the confidence is below {limit}.</p>"
    rows: dict[str, str] = {}
    for cell in cells:
        operator, severity = cell["operator"], decimal_text(cell["severity"])
        rows.setdefault(operator, f"<th scope=row>{escape(operator)}</th>")
        rows[operator] += (
            f"<td><small>{severity}</small> {percent_text(cell['flip'])}{_bar(cell['flip'])}</td>"
        )
    return (
        "<h4>Held-out stress</h4>"
        + _table((), rows.values(), "cfc-stress")
        + _hint("Share of random draws that change the decision, at each severity (small).")
    )


def _bar(share: float, kind: str = "cfc-share", mark: float | None = None) -> str:
    share = min(1.0, share) if share > 0 else 0.0
    tick = f'<s style="left:{100 * mark:.1f}%"></s>' if mark is not None and mark >= 0 else ""
    filled = f'<i style="width:{100 * share:.1f}%"></i>'
    return f'<span class="cfc-bar {kind}" aria-hidden="true">{filled}{tick}</span>'


def _groups(rows: Sequence[GroupRow], record: Mapping[str, Any]) -> str:
    largest, is_exposed = largest_of(rows, record), rows[0].flip is not None
    whole = record["margin"] / largest
    heads = ["k", "group", "margin lost alone, δ", "margin then", "class then"]
    heads += ["values that flip", "mean loss"] if is_exposed else []
    start = f"<td>0</td><th scope=row>nothing removed</th><td></td>{_margin(record['margin'])}"
    start += _tag("td", record["predicted_label"]) + "<td></td><td></td>" * is_exposed
    lines = [start]
    for row in rows:
        kind = "cfc-alone" if row.flips_alone else "cfc-gain" if row.delta < 0 else ""
        cross, flipped = "✕ " if row.flips_alone else "", "✕ " if row.is_flipped else ""
        bar = _bar(abs(row.delta) / largest, kind, whole)
        beyond = "cfc-beyond" if row.margin is None else ""
        beside, below = _held(row, len(heads), beyond)
        cells = [
            _tag("td", str(row.k)),
            f"<th scope=row>{_breakable(row.name)}{beside}</th>",
            f"<td>{cross}{number_text(row.delta)}{bar}</td>",
            _margin(row.margin),
            _tag("td", flipped + (row.label or NONE), "cfc-bad" if flipped else ""),
        ]
        if is_exposed:
            cells += [f"<td>{percent_text(row.flip)}{_bar(row.flip)}</td>", _margin(row.lost)]
        above = " cfc-above" if below else ""
        lines.append(f'<tr class="{beyond}{above}">{"".join(cells)}</tr>{below}')
    hints = [
        "The tick in a bar is the whole margin: without a group that costs more (✕) the decision",
        "changes. Hatched: the margin grows without the group.",
    ]
    if rows[-1].margin is None:
        hints.append("Shaded: not on the path.")
    if is_exposed:
        hints.append("Values that flip: share of the group's background values that change the")
        hints.append("decision. Mean loss: share of the margin they cost on average.")
    place = ' tabindex="0" role="region" aria-label="Groups in order of removal"'
    return _table(map(_column, heads), lines, "cfc-groups", place) + _hint(" ".join(hints))


def _margin(value: float | None) -> str:
    return _tag("td", number_text(value))


def _held(row: GroupRow, columns: int, kind: str) -> tuple[str, str]:
    """Return what a group holds and what replaces it: beside its name, or as a row of its own."""
    parts = [row.value, f"baseline {row.baseline}" if row.baseline else ""]
    if sum(map(len, parts)) < 32:
        return _tag("small", " · ".join(filter(None, parts))), ""
    texts = "".join(_tag("small", part) for part in parts if part)
    return "", f'<tr class="{kind} cfc-held"><td></td><td colspan="{columns - 1}">{texts}</td></tr>'


def _breakable(name: str) -> str:
    """Return a name as HTML that may break after an underscore, dot, slash or hyphen."""
    return "".join(escape(c) + ("<wbr>" if c in "_./-" else "") for c in name)


def _numbers(record: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    shown = numbers_of(record)
    for label, p in zip(facts["classes"], record["proba"], strict=True):
        shown[f"p({label})"] = f"{p:.6g}"
    shown["forward rows"] = str(record["forward_rows"])
    items = "".join(f"<div>{_tag('dt', k)}{_tag('dd', v)}</div>" for k, v in shown.items())
    return f"<details><summary>All numbers of this case</summary><dl>{items}</dl></details>"
