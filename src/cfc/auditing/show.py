"""Looking at an audit: a case as text, as HTML and as a plot, and the cases side by side.

Every function takes the audit, or one row of its table (the record) and its facts. What is said in
words comes from `cfc.auditing.words`.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10
from pathlib import Path
from typing import Any

import numpy as np

from cfc.artifacts import lists_to_matrix, to_numpy
from cfc.auditing.words import (
    CONFIDENT,
    Name,
    Sentence,
    brittle_rules,
    decimal_text,
    one_step_flips,
    percent_text,
    plural,
    probability_text,
    reading,
    sentences,
    stress_cells,
)
from cfc.errors import CfcError

__all__ = [
    "alone_of",
    "card_body",
    "card_html",
    "card_text",
    "frame_html",
    "plot_audit",
    "plot_case",
    "reading",
    "record_of",
    "summary",
    "values_of",
]

NONE = "—"
STYLE = Path(__file__).parents[1] / "page" / "card.css"
SHORT = {
    "saturated": "margin is a lower bound",
    "near_tie": "near tie",
    "undefined_margin": "margin undefined",
    "unseen_category": "unseen category",
}


# --- what is shown ---


def record_of(audit, position: int) -> dict[str, Any]:
    """Return one row of an audit's table.

    Args:
        audit: an audit, or anything with its ``table``.
        position: 0..n−1.

    Raises:
        CfcError: there is no such row.
    """
    if not 0 <= position < len(audit.table):
        raise CfcError(
            f"there is no case at position {position}: the audit holds "
            f"{plural(len(audit.table), 'case')}, counted from 0"
        )
    return audit.table.slice(position, 1).to_pylist()[0]


def alone_of(table, facts: Mapping[str, Any]) -> np.ndarray:
    """Tell which groups are known to change a decision when removed alone.

    Args:
        table: the audit's table, n rows.
        facts: the audit's facts.

    Returns:
        bool [n, G], groups in declared order; see `cfc.auditing.words.one_step_flips`.
    """
    names = facts["groups"]["names"]
    if not len(table):
        return np.zeros((0, len(names)), dtype=bool)
    number = {name: g for g, name in enumerate(names)}
    order = table["group_order"].combine_chunks()
    first = order.flatten().take(order.offsets.slice(0, len(order)))
    return one_step_flips(
        lists_to_matrix(table["delta"]),
        to_numpy(table["margin"]),
        np.array([number[name] for name in first.to_pylist()]),
        to_numpy(table["flip_budget"]),
        facts["protocol"]["margin"],
    )


def summary(table, facts: Mapping[str, Any], confidence: float = CONFIDENT) -> dict[str, Any]:
    """Return what an audit comes to, over its confident cases.

    Args:
        table: the audit's table.
        facts: the audit's facts.
        confidence: cases with p̂ from here on are confident.

    Returns:
        ``cases``, ``confident``; ``fragile``: confident cases that some single group flips;
        ``share``: fragile over confident, None without a confident case; ``points``: group ->
        confident cases that this group alone flips, most first, without zeros; ``budgets``: k* ->
        confident cases, for every k* from 1 to the depth, None = no flip.
    """
    sure = to_numpy(table["confidence"]) >= confidence
    alone = alone_of(table, facts)[sure]
    counts = alone.sum(axis=0)
    names = facts["groups"]["names"]
    depth = min(facts["protocol"]["depth"], len(names))
    budgets = np.bincount(to_numpy(table["flip_budget"])[sure], minlength=depth + 2).tolist()
    fragile = int(alone.any(axis=1).sum())
    return {
        "cases": len(table),
        "confident": int(sure.sum()),
        "fragile": fragile,
        "share": fragile / int(sure.sum()) if sure.any() else None,
        "points": {
            names[g]: int(counts[g]) for g in np.argsort(-counts, kind="stable") if counts[g]
        },
        "budgets": {**{k: budgets[k] for k in range(1, depth + 1)}, None: budgets[depth + 1]},
    }


def values_of(X, position: int, columns: Sequence[str]) -> dict[str, str]:
    """Return one row of the user's table as column -> text.

    Args:
        X: a pandas, polars or Arrow table, or a matrix whose columns are in the audit's order;
            None gives {}.
        position: row, 0..n−1.
        columns: raw columns of the audit, in order.
    """
    if X is None:
        return {}
    if hasattr(X, "iloc"):
        cells = [X[name].iloc[position] for name in columns]
    elif hasattr(X, "column_names"):
        cells = [X[name][position].as_py() for name in columns]
    elif hasattr(X, "get_column"):
        cells = [X.get_column(name)[position] for name in columns]
    else:
        cells = np.asarray(X)[position].tolist()
    return {name: cell_text(cell) for name, cell in zip(columns, cells, strict=True)}


def cell_text(cell: Any) -> str:
    """Return a cell as text: numbers with four digits at least, absent ones as ``missing``."""
    if cell is None or cell != cell or str(cell) in ("NaT", "<NA>"):
        return "missing"
    if isinstance(cell, (float, np.floating)):
        cell = float(cell)
        return f"{cell:.0f}" if cell.is_integer() and abs(cell) < 1e15 else f"{cell:.4g}"
    return str(cell)


def group_values(facts: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, str]:
    """Return group -> the values of its columns as text, {} without values.

    The name of a column is left out where the group is that column.
    """
    if not values:
        return {}
    fields = [coordinate["field"] for coordinate in facts["coordinates"]]
    found = {}
    for group, index in zip(facts["groups"]["names"], facts["groups"]["indices"], strict=True):
        own = [name for name in dict.fromkeys(fields[i] for i in index) if name in values]
        if own == [group]:
            found[group] = values[group]
        else:
            found[group] = ", ".join(f"{name} {values[name]}" for name in own)
    return found


def number_text(value: float | None, digits: int = 2) -> str:
    """Return a number with a true minus sign; — where there is none."""
    if value is None or not np.isfinite(value):
        return NONE
    is_odd = value != 0 and (abs(value) >= 1e5 or abs(value) < 0.5 * 10**-digits)
    return (f"{value:.1e}" if is_odd else f"{value:.{digits}f}").replace("-", "−")


@dataclass(frozen=True)
class GroupRow:
    """One group of a case, in order of removal.

    Attributes:
        k: place in the order, from 1.
        name: the group.
        delta: margin it costs alone.
        flips_alone: it is known to change the decision alone.
        margin, label: after the first k groups are gone; None beyond the path.
        is_flipped: that label is not the predicted one.
        lost, flip: exposure e and f; None without exposure.
        value, baseline: what its columns hold and what replaces them, as text; "" if unknown.
    """

    k: int
    name: str
    delta: float
    flips_alone: bool
    margin: float | None
    label: str | None
    is_flipped: bool
    lost: float | None
    flip: float | None
    value: str
    baseline: str


def group_rows(
    record: Mapping[str, Any], facts: Mapping[str, Any], values: Mapping[str, str]
) -> list[GroupRow]:
    """Return the groups of a case in order of removal.

    Args:
        record: one row of the audit's table.
        facts: the audit's facts.
        values: column -> text, see `values_of`.
    """
    names = list(facts["groups"]["names"])
    number = {name: g for g, name in enumerate(names)}
    order = list(record["group_order"])
    alone = one_step_flips(
        np.array([record["delta"]], dtype=float),
        np.array([record["margin"]], dtype=float),
        np.array([number[order[0]]]),
        np.array([record["flip_budget"]]),
        facts["protocol"]["margin"],
    )[0]
    held = group_values(facts, values)
    lost, flip = (record.get(f"exposure_{kind}") for kind in ("mean", "flip"))
    rows = []
    for k, name in enumerate(order, start=1):
        g, on_path = number[name], k < len(record["path_margin"])
        label = record["path_label"][k] if on_path else None
        rows.append(
            GroupRow(
                k=k,
                name=name,
                delta=record["delta"][g],
                flips_alone=bool(alone[g]),
                margin=record["path_margin"][k] if on_path else None,
                label=facts["classes"][label] if on_path else None,
                is_flipped=on_path and label != record["predicted"],
                lost=None if lost is None else lost[g],
                flip=None if flip is None else flip[g],
                value=held.get(name, ""),
                baseline=(facts.get("baseline_text") or {}).get(name, ""),
            )
        )
    return rows


def place_text(record: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return where a case ranks, in words."""
    return f"rank {record['rank']:,} of {facts['n_cases']:,} by {score_name(facts)}"


def score_name(facts: Mapping[str, Any]) -> str:
    """Return the name of the score cases are ranked by."""
    return {"s": "S", "u": "u"}[facts["rank_by"]]


def numbers_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the numbers of a case that have no place elsewhere, name -> text."""
    shown = {"margin m": "margin", "RCMA": "rcma", "u": "u", "FDS": "fds"}
    shown |= {"exposure X": "exposure", "S = u + X": "s"}
    return {name: number_text(record[key], 3) for name, key in shown.items() if key in record}


def first_severities(record: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return operator -> first severity that changes the decision, None where none does."""
    found = {
        operator: record.get(f"lambda_{operator}") for operator in facts["protocol"]["operators"]
    }
    return {o: None if v is None or not np.isfinite(v) else v for o, v in found.items()}


# --- text ---


def card_text(audit, position: int, width: int = 80) -> str:
    """Return a case as text for a terminal: no colour, no line wider than ``width``.

    Args:
        audit: an audit, or anything with its ``table``, ``facts`` and ``X``.
        position: row of the table, 0..n−1.
        width: columns of the terminal, at least 40.

    Raises:
        CfcError: there is no such row.
    """
    record, facts = record_of(audit, position), audit.facts
    width = max(width, 40)
    rows = group_rows(record, facts, values_of(audit.X, position, facts["columns"]))
    lines = [f"Case {record['index']}, {place_text(record, facts)}", ""]
    for sentence in reading(record, facts):
        lines += _wrapped(sentence.split(), width, "- ", "  ")
    lines += ["", *_text_groups(rows, record, facts, width)]
    severities = [
        f"{operator} {NONE if value is None else decimal_text(value)}"
        for operator, value in first_severities(record, facts).items()
    ]
    lines += ["", *_text_items("Fading, first severity that changes it:", severities, width)]
    cells = stress_cells(record, facts)
    lines += ["Stress, share of draws that change it:"] if cells else []
    for operator in dict.fromkeys(cell["operator"] for cell in cells):
        own = [
            f"{percent_text(cell['flip']):>5} at {decimal_text(cell['severity'])}"
            for cell in cells
            if cell["operator"] == operator
        ]
        lines += _text_items(f"  {operator:<8}", own, width)
    numbers = [f"{name} {text}" for name, text in numbers_of(record).items()]
    hashes = [f"{name} {text}" for name, text in hashes_of(facts, 12).items()]
    lines += ["", *_text_items("Numbers:", numbers, width), *_text_items("Hashes:", hashes, width)]
    return "\n".join(_fitted(line, width).rstrip() for line in lines)


def hashes_of(facts: Mapping[str, Any], digits: int | None = None) -> dict[str, str]:
    """Return what an audit was made of: name -> hash, cut to some digits."""
    found = {
        "protocol": facts["protocol_hash"],
        "model": facts["model"]["hash"],
        "data": facts["data_hash"],
        "background": facts["background_hash"],
        "exposure grid": (facts.get("exposure") or {}).get("hash"),
        "stress donors": (facts.get("stress") or {}).get("donors_hash"),
    }
    return {name: value[:digits] for name, value in found.items() if value}


def _text_groups(rows, record, facts, width) -> list[str]:
    shown = rows[: len(record["path_margin"]) - 1]
    is_exposed = rows[0].flip is not None
    label = min(max(_cells(c) for c in facts["classes"]), 14) + 1 if width >= 64 else 0
    fixed = 3 + 9 + 9 + 2 + label + (9 if is_exposed else 0)
    bar = min(24, width - fixed - 24)
    bar = bar if bar >= 8 else 0
    name = min(max(7, *(_cells(row.name) for row in shown)) + 1, width - fixed - bar)
    scale = max([abs(row.delta) for row in shown] + [record["margin"], 1e-9])
    whole = min(bar - 1, floor(bar * record["margin"] / scale))

    def line(k, group, delta, drawn, after, mark, predicted, flip):
        parts = [f"{k:>2} ", _padded(group, name), f"{delta:>8} ", _padded(drawn, bar)]
        parts += [f"{after:>9}{mark:>2}", _padded(f" {predicted}", label)]
        return "".join([*parts, f"{flip:>9}"] if is_exposed else parts)

    def drawn(delta):
        text = (("#" if delta > 0 else "-") * round(bar * abs(delta) / scale)).ljust(bar)
        return text[:whole] + "|" + text[whole + 1 :] if bar else ""

    heads = ("k", "without", "alone", "| all of it", "then", "", "predicted", "exposure")
    start = number_text(record["margin"])
    lines = [line(*heads), line("0", "nothing", "", "", start, "", record["predicted_label"], "")]
    for row in shown:
        flip = "" if row.flip is None else percent_text(row.flip)
        flip = flip.replace("under ", "<").replace("over ", ">")
        after, mark = number_text(row.margin), "x" if row.is_flipped else ""
        delta = number_text(row.delta)
        lines.append(
            line(str(row.k), row.name, delta, drawn(row.delta), after, mark, row.label, flip)
        )
        if row.value and width >= 60:
            held = [f"   {row.value} (baseline {row.baseline})", f"   {row.value}"]
            lines.append(next((text for text in held if _cells(text) <= width), held[1]))
    if rest := rows[len(shown) :]:
        most = number_text(max(row.delta for row in rest))
        lines.append(f"   and {plural(len(rest), 'more group')}, at most {most} alone")
    note = "alone: margin lost when this group alone is removed; then: margin left when the groups "
    note += "down to this line are removed together, x = the decision is another"
    note += "; exposure: share of background values that change it" if is_exposed else ""
    return [*lines, "", *_wrapped(note.split(), width, "", "")]


def _text_items(title: str, items: Sequence[str], width: int) -> list[str]:
    """Return a title and items with two blanks between them, broken between items only."""
    return _wrapped([title, *items], width, "", "  ", between="  ")


def _wrapped(words, width: int, first: str, then: str, between: str = " ") -> list[str]:
    """Return lines of words; unlike `textwrap`, it knows that some letters take two columns."""
    lines, line, is_empty = [], first, True
    for word in words:
        if not is_empty and _cells(line) + len(between) + _cells(word) > width:
            lines.append(line)
            line, is_empty = then, True
        line += word if is_empty else between + word
        is_empty = False
        while _cells(line) > width:  # one word longer than a line
            cut = next(k for k in range(len(line), 0, -1) if _cells(line[:k]) <= width)
            lines.append(line[:cut])
            line = then + line[cut:]
    return [*lines, line]


def _cells(text: str) -> int:
    """Return the columns a text takes in a terminal: East Asian letters take two, accents none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _fitted(text: str, width: int) -> str:
    """Return a text cut to a width, with an ellipsis where something is cut."""
    text = "".join(c if c.isprintable() else " " for c in text)
    if _cells(text) <= width:
        return text
    while text and _cells(text) > width - 1:
        text = text[:-1]
    return text + "…"


def _padded(text: str, width: int) -> str:
    text = _fitted(text, width) if width else ""
    return text + " " * (width - _cells(text))


# --- HTML ---

_CHART = 190  # height of the collapse curve, px
_LETTER = 6.3  # width of a letter in its labels, px


def card_html(audit, position: int) -> str:
    """Return a case as HTML for a notebook cell: styles of its own, no script, nothing to load.

    Args:
        audit: an audit, or anything with its ``table``, ``facts`` and ``X``.
        position: row of the table, 0..n−1.

    Raises:
        CfcError: there is no such row.
    """
    values = values_of(audit.X, position, audit.facts["columns"])
    body = card_body(record_of(audit, position), audit.facts, values)
    return f'<div class="cfc-cell">{_style()}{body}</div>'


def card_body(
    record: Mapping[str, Any], facts: Mapping[str, Any], values: Mapping[str, str]
) -> str:
    """Return the card of a case without its styles.

    Args:
        record: one row of the audit's table.
        facts: the audit's facts.
        values: column -> text, see `values_of`.
    """
    said = sentences(record, facts)
    of = {about: [s for s in said if s.about == about] for about in ("prediction", "removal")}
    rows = group_rows(record, facts, values)
    return (
        '<article class="cfc-card">'
        f"<h3><span>Case {escape(str(record['index']))}</span> "
        f"<small>{escape(place_text(record, facts))}</small></h3>"
        f"<p class=cfc-marks>{_marks(record)}</p>"
        f"<p class=cfc-lead>{_spoken(of['prediction'])}</p>"
        f"<p class=cfc-lead>{_spoken(of['removal'])}</p>"
        + "".join(
            f"<p class=cfc-warning><b>Mind:</b> {_spoken([s])}</p>"
            for s in said
            if s.about == "warning"
        )
        + "<ul>"
        + "".join(
            f"<li>{_spoken([s])}</li>" for s in said if s.about in ("fading", "exposure", "stress")
        )
        + "</ul>"
        f"<div class=cfc-columns><section><h4>Support while groups are removed</h4>"
        f"{collapse_svg(record, facts)}</section><section>{_fading_html(record, facts)}"
        f"{_stress_html(record, facts)}</section></div>"
        f"<h4>Groups in order of removal</h4>{_groups_html(rows, record)}"
        f"{_numbers_html(record, facts)}</article>"
    )


def _style() -> str:
    return f"<style>{STYLE.read_text(encoding='utf-8')}</style>"


def _spoken(said: Sequence[Sentence]) -> str:
    """Return sentences as HTML, names in bold."""
    return " ".join(
        "".join(f"<b>{escape(p)}</b>" if isinstance(p, Name) else escape(p) for p in s.parts)
        for s in said
    )


def _marks(record: Mapping[str, Any]) -> str:
    """Return the short labels above a card."""
    depth = len(record["path_margin"]) - 1
    budget = record["flip_budget"]
    shown = [
        ("✕ k* = " if budget <= depth else "k* = ") + (str(budget) if budget <= depth else "none")
    ]
    truth = record.get("true_label")
    if truth is not None and str(truth) != record["predicted_label"]:
        shown.append("✕ wrong")
    shown += [f"✕ brittle: {rule}" for rule, value in brittle_rules(record).items() if value]
    shown += [f"! {SHORT.get(kind, kind)}" for kind in record.get("warnings") or ()]
    return " ".join(
        f'<span class="{"cfc-bad" if text[0] in "✕!" else ""}">{escape(text)}</span>'
        for text in shown
    )


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
    span = (high - low) or 1.0

    def x(k):
        return f"{4 + 92 * k / depth:.2f}"

    def y(value):
        return f"{12 + (high - value) / span * (_CHART - 24):.1f}"

    line = " ".join(f"{x(k)},{y(m)}" for k, m in enumerate(margins))
    above = [(0.0, max(0.0, margins[0]))]
    for k in range(1, depth + 1):
        a, b = margins[k - 1], margins[k]
        if a * b < 0:
            above.append((k - 1 + a / (a - b), 0.0))
        above.append((k, max(0.0, b)))
    area = " ".join(f"{x(k)},{y(m)}" for k, m in [(0, 0.0), *above, (depth, 0.0)])
    classes = facts["classes"]
    names = ["nothing", *record["group_order"][:depth]]
    parts = [
        f'<line class=cfc-grid x1="0" x2="100%" y1="{y(t)}" y2="{y(t)}"/>'
        f'<text class=cfc-tick x="-6" y="{y(t)}" dy=".35em">{escape(_tick(t))}</text>'
        for t in _ticks(low, high)
    ]
    parts.append(
        f'<svg width="100%" height="{_CHART}" viewBox="0 0 100 {_CHART}" preserveAspectRatio="none">'
        f'<polygon class=cfc-area points="{area}"/><polyline class=cfc-line points="{line}"/></svg>'
        f'<line class=cfc-zero x1="0" x2="100%" y1="{y(0)}" y2="{y(0)}"/>'
    )
    if budget <= depth:
        end = ' text-anchor="end"' if budget > 0.6 * depth else ""
        shift = -6 if end else 6
        parts.append(
            f'<line class=cfc-cut x1="{x(budget)}%" x2="{x(budget)}%" y1="0" y2="{_CHART}"/>'
            f'<svg x="{x(budget)}%" y="12"><text class=cfc-note x="{shift}"{end}>'
            f"k* = {budget}: {escape(_short(classes[record['path_label'][budget]], 24))}</text></svg>"
        )
    longest = 0
    for k, (margin, label) in enumerate(zip(margins, record["path_label"], strict=True)):
        kept = label == record["predicted"]
        mark = '<circle r="4"/>' if kept else '<path d="M-5-5L5 5M-5 5L5-5"/>'
        what = "with nothing removed" if k == 0 else f"k = {k}, {names[k]} removed as well"
        title = escape(f"{what}: margin {number_text(margin)}, {classes[label]}")
        name = _short(names[k], 20)
        longest = max(longest, len(name))
        parts.append(
            f'<svg x="{x(k)}%" y="{y(margin)}" class="{"cfc-kept" if kept else "cfc-flip"}">'
            f"<title>{title}</title>{mark}</svg>"
            f'<svg x="{x(k)}%" y="{_CHART + 12}"><text class=cfc-name transform="rotate(-40)">'
            f"{escape(name)}</text></svg>"
        )
    height = _CHART + 24 + round(longest * _LETTER * 0.64)
    words = ", ".join(
        f"{number_text(m)} without {n}" for m, n in zip(margins[1:], names[1:], strict=True)
    )
    words = (
        f"Margin {number_text(margins[0])} with nothing removed; then, one more each time: {words}."
    )
    return (
        f'<div class=cfc-chart><svg role="img" aria-label="{escape(words)}" width="100%" '
        f'height="{height}">{"".join(parts)}</svg></div>'
        "<p class=cfc-hint>Margin of the predicted class; below the line at 0 another class is "
        "predicted (✕). Each step removes one more group.</p>"
    )


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers from low to high, 0 among them."""
    step = 10 ** floor(log10((high - low or 1.0) / 3))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (m * step) <= 5)
    return [k * step for k in range(int(np.ceil(low / step)), int(high // step) + 1)]


def _tick(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _fading_html(record: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    grid = facts["protocol"]["severities"]
    titles = {
        "top1": "first group",
        "top3": "first 3 groups",
        "all": "all groups",
        "prefix": "more and more groups",
        "sign_noise": "random signs",
    }
    head = "".join(f"<th scope=col>{decimal_text(s)}</th>" for s in grid)
    body = ""
    for operator, first in first_severities(record, facts).items():
        cells = ""
        for s in grid:
            if first is None or s < first:
                cells += "<td>kept</td>"
            else:
                cells += "<td class=cfc-bad>✕ flip</td>" if s == first else "<td>·</td>"
        body += f"<tr><th scope=row>{escape(titles.get(operator, operator))}</th>{cells}</tr>"
    return (
        "<h4>Fading towards the baseline</h4><div class=cfc-scroll>"
        f"<table><thead><tr><th scope=col>moved by λ</th>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
        "<p class=cfc-hint>1 = all the way. After the first flip (·) nothing is recorded.</p>"
    )


def _stress_html(record: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    if not facts.get("stress"):
        return ""
    title = "<h4>Held-out stress</h4>"
    cells = stress_cells(record, facts)
    if not cells:
        threshold = probability_text(facts["stress"]["threshold"])
        return f"{title}<p>Not stressed: the confidence is below {threshold}.</p>"
    body = ""
    for operator in dict.fromkeys(cell["operator"] for cell in cells):
        body += f"<tr><th scope=row>{escape(operator)}</th>"
        for cell in cells:
            if cell["operator"] == operator:
                body += (
                    f"<td><small>{decimal_text(cell['severity'])}</small> "
                    f"{escape(percent_text(cell['flip']))}{_bar(cell['flip'], 'cfc-share')}</td>"
                )
        body += "</tr>"
    return (
        f"{title}<div class=cfc-scroll><table class=cfc-stress><tbody>{body}</tbody></table></div>"
        "<p class=cfc-hint>Share of random draws that change the decision, by operator and "
        "(small) severity.</p>"
    )


def _bar(share: float, kind: str, mark: float | None = None) -> str:
    tick = "" if mark is None else f'<s style="left:{100 * mark:.1f}%"></s>'
    width = f'<i style="width:{100 * share:.1f}%"></i>'
    return f'<span class="cfc-bar {kind}" aria-hidden="true">{width}{tick}</span>'


def _groups_html(rows: Sequence[GroupRow], record: Mapping[str, Any]) -> str:
    scale = max([abs(row.delta) for row in rows] + [record["margin"], 1e-9])
    is_exposed = rows[0].flip is not None
    head = "<th scope=col>k</th><th scope=col>group</th><th scope=col>margin lost alone, δ</th>"
    head += "<th scope=col>margin then</th><th scope=col>class then</th>"
    if is_exposed:
        head += "<th scope=col>values that flip</th><th scope=col>mean loss</th>"
    start = f"<td>{number_text(record['margin'])}</td>"
    body = f"<tr><td>0</td><th scope=row>nothing removed</th><td></td>{start}"
    body += f"<td>{escape(record['predicted_label'])}</td>{'<td></td>' * 2 * is_exposed}</tr>"
    for row in rows:
        kind = "cfc-alone" if row.flips_alone else "cfc-gain" if row.delta < 0 else ""
        held = f"<small>{escape(row.value)}</small>" if row.value else ""
        if row.baseline:
            held += f"<small>baseline {escape(row.baseline)}</small>"
        flips = "✕ " if row.is_flipped else ""
        label = NONE if row.label is None else flips + row.label
        body += (
            f"<tr{'' if row.margin is not None else ' class=cfc-beyond'}><td>{row.k}</td>"
            f"<th scope=row>{_breakable(row.name)}{held}</th>"
            f"<td>{'✕ ' if row.flips_alone else ''}{number_text(row.delta)}"
            f"{_bar(abs(row.delta) / scale, kind, record['margin'] / scale)}</td>"
            f"<td>{number_text(row.margin)}</td>"
            f"<td{' class=cfc-bad' if flips else ''}>{escape(label)}</td>"
        )
        if is_exposed:
            body += f"<td>{escape(percent_text(row.flip))}{_bar(row.flip, 'cfc-share')}</td>"
            body += f"<td>{number_text(row.lost)}</td>"
        body += "</tr>"
    hint = (
        "The tick in a bar is the whole margin: a group that costs more (✕) changes the decision "
    )
    hint += "alone; a hatched bar means the margin grows without the group."
    if is_exposed:
        hint += (
            " Values that flip: share of background values of the group that change the decision; "
        )
        hint += "mean loss: share of the margin they cost on average."
    return (
        '<div class="cfc-scroll cfc-tall" role="region" tabindex="0" '
        'aria-label="Groups in order of removal"><table class=cfc-groups>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div><p class=cfc-hint>{hint}</p>"
    )


def _breakable(name: str) -> str:
    """Return a name as HTML that may break after an underscore, dot, slash or hyphen."""
    return "".join(escape(c) + ("<wbr>" if c in "_./-" else "") for c in name)


def _numbers_html(record: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    shown = numbers_of(record)
    for label, p in zip(facts["classes"], record["proba"], strict=True):
        shown[f"p({label})"] = f"{p:.6g}"
    shown["forward rows"] = str(record["forward_rows"])
    items = "".join(
        f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in shown.items()
    )
    return f"<details><summary>All numbers of this case</summary><dl>{items}</dl></details>"


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
    alone = alone_of(shown, facts)
    name = score_name(facts)
    head = "".join(
        f"<th scope=col>{title}</th>"
        for title in ("rank", "case", "predicted", "p̂", "k*", "flips alone", name, "mind")
    )
    body = ""
    for record, own in zip(shown.to_pylist(), alone, strict=True):
        depth = len(record["path_margin"]) - 1
        budget = str(record["flip_budget"]) if record["flip_budget"] <= depth else "none"
        cells = [
            record["rank"],
            record["index"],
            record["predicted_label"],
            probability_text(record["confidence"]),
            budget,
            ", ".join(names[own]) or NONE,
            number_text(record[facts["rank_by"]]),
            ", ".join(SHORT.get(kind, kind) for kind in record["warnings"] or ()),
        ]
        body += "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>"
    left = len(table) - len(order)
    more = f"<p class=cfc-hint>{plural(left, 'more case')}, less fragile.</p>" if left else ""
    return (
        f'<div class="cfc-cell">{_style()}<article class="cfc-card"><h3>Audit of '
        f"{plural(len(table), 'case')}</h3><p class=cfc-lead>{escape(headline(table, facts))}</p>"
        f"<div class=cfc-scroll><table class=cfc-list><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>{more}</article></div>"
    )


def headline(table, facts: Mapping[str, Any]) -> str:
    """Return what an audit comes to, in a sentence or two."""
    found = summary(table, facts)
    if not found["confident"]:
        return f"No case has confidence of {decimal_text(CONFIDENT)} or more."
    text = (
        f"{percent_text(found['share'])} of {plural(found['confident'], 'confident case')} "
        f"(p̂ ≥ {decimal_text(CONFIDENT)}) flip on losing one group."
    )
    points = [f"“{name}” ({count})" for name, count in list(found["points"].items())[:3]]
    return f"{text} Most often that group is {', '.join(points)}." if points else text


# --- plots ---


def plot_case(record: Mapping[str, Any], facts: Mapping[str, Any], axes=None):
    """Draw the margin of a case while groups are removed.

    Args:
        record: one row of the audit's table.
        facts: the audit's facts.
        axes: Matplotlib Axes to draw into; default: those of a new figure.

    Returns:
        the Axes.
    """
    from cfc.figures.certificate import draw_collapse

    axes = _axes(axes, (7.0, 4.0))
    draw_collapse(axes, {**record, "case_id": record["index"]}, facts["classes"])
    return axes


def plot_audit(table, facts: Mapping[str, Any], axes=None):
    """Draw the cases of an audit: confidence against the score they are ranked by.

    Cases that some single group flips are marked. The score is on a logarithmic scale where it
    spans more than a factor of 30.

    Args:
        table: the audit's table.
        facts: the audit's facts.
        axes: Matplotlib Axes to draw into; default: those of a new figure.

    Returns:
        the Axes.
    """
    from cfc.figures.style import BLUE, GREY, VERMILION

    axes = _axes(axes, (7.0, 4.5))
    confidence, score = to_numpy(table["confidence"]), to_numpy(table[facts["rank_by"]])
    fragile = alone_of(table, facts).any(axis=1)
    marks = (
        (~fragile, "o", BLUE, "needs more than one group, or does not flip"),
        (fragile, "X", VERMILION, "flips on losing one group"),
    )
    for member, marker, colour, label in marks:
        axes.scatter(
            confidence[member],
            score[member],
            s=30 if marker == "X" else 14,
            marker=marker,
            c=colour,
            alpha=0.7,
            linewidths=0,
            label=f"{label} ({member.sum():,})",
            rasterized=len(table) > 5000,
        )
    axes.axvline(CONFIDENT, color=GREY, linewidth=0.8, linestyle="--")
    if len(score) and score.min() > 0 and score.max() > 30 * score.min():
        axes.set_yscale("log")
    axes.set_xlabel(f"confidence p̂ (dashed: {decimal_text(CONFIDENT)})")
    axes.set_ylabel(f"fragility {score_name(facts)}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small")
    return axes


def _axes(axes, size: tuple[float, float]):
    if axes is not None:
        return axes
    # pyplot, so that a notebook shows the figure by itself
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]
