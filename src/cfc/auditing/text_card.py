"""A case as text for a terminal."""

import unicodedata
from collections.abc import Sequence
from math import isfinite

from cfc.auditing.cases import (
    NONE,
    first_severities,
    group_rows,
    hashes_of,
    largest_of,
    number_text,
    numbers_of,
    place_text,
    record_of,
    values_of,
)
from cfc.auditing.words import decimal_text, percent_text, plural, reading, stress_cells


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
    values = values_of(audit.X, [record["case_id"]], facts["columns"])[0]
    rows = group_rows(record, facts, values)
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


def _text_groups(rows, record, facts, width) -> list[str]:
    shown = rows[: len(record["path_margin"]) - 1]
    is_exposed = rows[0].flip is not None
    label = min(max(_cells(c) for c in facts["classes"]), 14) + 1 if width >= 64 else 0
    fixed = 3 + 11 + 9 + 2 + label + (9 if is_exposed else 0)
    bar = min(24, width - fixed - 24)
    bar = bar if bar >= 8 else 0
    name = min(max(7, *(_cells(row.name) for row in shown)) + 1, width - fixed - bar)
    scale = largest_of(shown, record)
    whole = min(bar - 1, _filled(record["margin"], scale, bar))

    def line(k, group, delta, drawn, after, predicted, flip, alone=False, flipped=False):
        parts = [
            f"{k:>2} ",
            _padded(group, name),
            f"{delta:>8}{_cross(alone)} ",
            _padded(drawn, bar),
        ]
        parts += [f"{after:>9}{_cross(flipped)}", _padded(f" {predicted}", label)]
        return "".join([*parts, f"{flip:>9}"] if is_exposed else parts)

    def drawn(delta):
        text = (("#" if delta > 0 else "-") * _filled(delta, scale, bar)).ljust(bar)
        return text[:whole] + "|" + text[whole + 1 :] if bar else ""

    heads = ("k", "without", "alone", "| all of it", "then", "predicted", "exposure")
    start = number_text(record["margin"])
    lines = [line(*heads), line("0", "nothing", "", "", start, record["predicted_label"], "")]
    for row in shown:
        flip = "" if row.flip is None else percent_text(row.flip)
        flip = flip.replace("under ", "<").replace("over ", ">")
        told = (str(row.k), row.name, number_text(row.delta), drawn(row.delta))
        told += (number_text(row.margin), row.label, flip)
        lines.append(line(*told, row.flips_alone, row.is_flipped))
        if row.value and width >= 60:
            held = [f"   {row.value} (baseline {row.baseline})", f"   {row.value}"]
            lines.append(next((text for text in held if _cells(text) <= width), held[1]))
    if rest := rows[len(shown) :]:
        most = number_text(max(row.delta for row in rest))
        lines.append(f"   and {plural(len(rest), 'more group')}, at most {most} alone")
    note = "alone: margin lost when this group alone is removed; then: margin left when the groups "
    note += "down to this line are removed together; x: the decision is another"
    note += "; exposure: share of background values that change it" if is_exposed else ""
    return [*lines, "", *_wrapped(note.split(), width, "", "")]


def _cross(is_marked: bool) -> str:
    return " x" if is_marked else "  "


def _filled(value: float, scale: float, width: int) -> int:
    """Return how many columns a bar fills; none for what is not a number."""
    return round(width * abs(value) / scale) if isfinite(value) else 0


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
