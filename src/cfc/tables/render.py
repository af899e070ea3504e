"""Writing a finished table: Parquet in full precision, CSV, Markdown and HTML for reading."""

import html
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pandas as pd

from cfc.artifacts import read_table, write_table, write_text
from cfc.tables.base import TableResult

SIGNIFICANT_DIGITS = 6
_LONG = 48  # characters from which a cell of an HTML table is running text
_STYLE = (
    "body{font:14px/1.45 system-ui,sans-serif;margin:1.5rem;color:#222}"
    "table{border-collapse:collapse;margin:.4rem 0 1.4rem}"
    "th,td{padding:.22rem .6rem;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}"
    "td.long{text-align:left;white-space:normal;min-width:16rem}"
    "thead th{border-bottom:2px solid #888}"
    "h2{font-size:1rem;margin:1.2rem 0 .2rem}"
    "dt{font-weight:600}p,li{max-width:60rem}"
)


def write_table_files(result: TableResult, stem: str | Path, metadata: dict | None = None) -> None:
    """Write ``<stem>.parquet``, ``.csv``, ``.md`` and ``.html``, each atomically.

    Args:
        result: the finished table.
        stem: path without its ending.
        metadata: further facts for the Parquet footer (hashes, versions).
    """
    stem = Path(stem)
    facts = {
        "table": result.id,
        "title": result.title,
        "run": result.run,
        "preset": result.preset,
        "n_expected": result.n_expected,
        "n_evaluated": result.n_evaluated,
        "notes": result.notes,
    }
    write_table(to_arrow(result.data), f"{stem}.parquet", {**(metadata or {}), **facts})
    write_text(to_csv(result.data), f"{stem}.csv")
    write_text(to_markdown(result), f"{stem}.md")
    write_text(to_html(result), f"{stem}.html")


def to_arrow(data: pd.DataFrame):
    """Return the data as a ``pyarrow.Table``; empty text in key columns becomes null."""
    import pyarrow as pa

    arrays, names = [], []
    for name in data.columns:
        column = data[name]
        if _is_text(column):
            values = [None if pd.isna(v) or v == "" else str(v) for v in column]
            arrays.append(pa.array(values, type=pa.string()))
        elif name in ("seed", "n", "n_positive") or name.startswith("n_"):
            arrays.append(pa.array(column.astype("Int64")))
        else:
            arrays.append(pa.array(column, from_pandas=True))
        names.append(name)
    return pa.table(arrays, names=names)


def from_arrow(table) -> pd.DataFrame:
    """Return a table read back from disk with the conventions of `TableResult.data`."""
    data = table.to_pandas()
    for name in data.columns:
        if _is_text(data[name]):
            data[name] = data[name].astype(object).where(data[name].notna(), "")
    return data


def table_reader(files: Iterable[str | Path]) -> Callable[[str], pd.DataFrame | None]:
    """Return a function from a table's name to its data, None for names not among the files.

    A file is read at its first use. Files other than Parquet are ignored.
    """
    paths = {Path(file).stem: file for file in files if Path(file).suffix == ".parquet"}

    @cache
    def read(name: str) -> pd.DataFrame | None:
        return from_arrow(read_table(paths[name])) if name in paths else None

    return read


def to_csv(data: pd.DataFrame) -> str:
    """Return the data as CSV with six significant digits."""
    frame = data.copy()
    for name in frame.columns:
        if name in ("seed", "n", "n_positive"):
            frame[name] = frame[name].astype("Int64")
    return frame.to_csv(index=False, float_format=f"%.{SIGNIFICANT_DIGITS}g", lineterminator="\n")


def to_markdown(result: TableResult) -> str:
    """Return the readable form in Markdown."""
    lines = [f"# {result.title}", ""]
    lines += [f"- {name}: {value}" for name, value in _facts(result)]
    for caption, frame in result.displays:
        lines += ["", f"## {caption}", "", *_markdown_rows(frame)]
    if result.notes:
        lines += ["", "## Notes", "", *[f"- {note}" for note in result.notes]]
    return "\n".join(lines) + "\n"


def to_html(result: TableResult) -> str:
    """Return the readable form as one self-contained HTML page."""
    facts = "".join(f"<li>{html.escape(k)}: {html.escape(v)}</li>" for k, v in _facts(result))
    parts = [f"<h1>{html.escape(result.title)}</h1>", f"<ul>{facts}</ul>"]
    for caption, frame in result.displays:
        parts += [f"<h2>{_inline(caption)}</h2>", _html_table(frame)]
    if result.notes:
        notes = "".join(f"<li>{_inline(note)}</li>" for note in result.notes)
        parts.append(f"<h2>Notes</h2><ul>{notes}</ul>")
    return _page(result.title, parts)


Section = tuple[str, list[str], list[pd.DataFrame]]


def document_markdown(title: str, facts: list[tuple[str, str]], sections: list[Section]) -> str:
    """Return a page of headed sections (heading, sentences, tables) in Markdown."""
    lines = [f"# {title}", "", *[f"- {name}: {value}" for name, value in facts]]
    for heading, sentences, frames in sections:
        lines += ["", f"## {heading}", ""]
        lines += [f"- {sentence}" for sentence in sentences]
        for frame in frames:
            lines += ["", *_markdown_rows(frame)]
    return "\n".join(lines) + "\n"


def document_html(title: str, facts: list[tuple[str, str]], sections: list[Section]) -> str:
    """Return the same page as one self-contained HTML file."""
    head = "".join(f"<li>{html.escape(k)}: {html.escape(v)}</li>" for k, v in facts)
    parts = [f"<h1>{html.escape(title)}</h1>", f"<ul>{head}</ul>"]
    for heading, sentences, frames in sections:
        items = "".join(f"<li>{_inline(sentence)}</li>" for sentence in sentences)
        parts += [f"<h2>{_inline(heading)}</h2>", f"<ul>{items}</ul>" if items else ""]
        parts += [_html_table(frame) for frame in frames]
    return _page(title, parts)


def _page(title: str, parts: list[str]) -> str:
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body></html>\n"
    )


def _facts(result: TableResult) -> list[tuple[str, str]]:
    return [
        ("run", result.run),
        (result.preset_label, result.preset),
        (result.unit_label, f"{result.n_evaluated} evaluated of {result.n_expected} expected"),
    ]


def _markdown_rows(frame: pd.DataFrame) -> list[str]:
    header = [str(c) for c in frame.columns]
    body = [[str(v).replace("|", "\\|") for v in row] for row in frame.itertuples(index=False)]
    align = [":--", *["--:"] * (len(header) - 1)]
    return ["| " + " | ".join(cells) + " |" for cells in (header, align, *body)]


def _html_table(frame: pd.DataFrame) -> str:
    head = "".join(f"<th>{_inline(str(c))}</th>" for c in frame.columns)
    rows = "".join(
        "<tr>" + "".join(_html_cell(str(v)) for v in row) + "</tr>\n"
        for row in frame.itertuples(index=False)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table>"


def _html_cell(text: str) -> str:
    kind = ' class="long"' if len(text) > _LONG else ""
    return f"<td{kind}>{_inline(text)}</td>"


def _inline(text: str) -> str:
    """Escape a text for HTML, keeping the marks tables use: bold, underline, code."""
    text = html.escape(text, quote=False)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"&lt;(/?)u&gt;", r"<\1u>", text)


def _is_text(column: pd.Series) -> bool:
    return not (
        pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype)
    )
