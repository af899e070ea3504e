"""From a raw table to exactly the declared fields and the target, checked.

Missing cells become NaN (numeric) or None (nominal); markers keep their numbers. Nothing is
imputed, re-ordered, dropped or repaired: a table that does not fit the declaration is refused with
all of its problems listed.
"""

import difflib
import hashlib
import json
import logging
from typing import TYPE_CHECKING

import numpy as np

from cfc.data.registry import DatasetSpec, IndicatorFamily
from cfc.errors import DataError, ProblemList

if TYPE_CHECKING:
    import pandas as pd

LOG = logging.getLogger(__name__)

MIN_CLASS_ROWS = 3
_SHOWN = 5
_NESTED = (list, dict, set, np.ndarray)
# Cells that common writers leave for "no number"; text fields keep such words as categories.
_NO_NUMBER = frozenset({"na", "n/a", "nan", "null", "none", "?"})


def clean_table(raw: "pd.DataFrame", spec: DatasetSpec) -> "pd.DataFrame":
    """Return the declared fields and the target of a raw table.

    Args:
        raw: the table as loaded; columns under the source's names or ours, any column types.
        spec: what the table should hold.

    Returns:
        A frame with a plain row index, in the row order of ``raw``. Columns are ``spec.fields`` in
        order, then the target. Numeric: float64, NaN where missing, markers kept. Nominal: object,
        text or None. Target: object, one of ``spec.classes``.

    Raises:
        DataError: columns are missing, extra, renamed or duplicated; a numeric field holds text or
            an infinite value; an indicator family is not one-hot; a label is missing, unknown, or a
            class has fewer than three rows. All problems of the table are in one message.
    """
    import pandas as pd

    problems = ProblemList()
    if len(raw) == 0:
        problems.append("the table has no rows")
        problems.raise_if_any(DataError, _where(spec))
    position = _column_positions(raw, spec, problems)
    columns = {}
    for field in spec.fields:
        family = _family_to_decode(field.name, spec, position)
        if family is not None:
            columns[field.name] = _decode_family(raw, family, position, problems)
        elif field.name in position:
            series = raw.iloc[:, position[field.name]]
            if field.kind == "numeric":
                columns[field.name] = _numeric(series, field.name, spec, problems)
            else:
                columns[field.name] = _text(series, field.name, spec)
    if spec.target in position:
        labels = _text(raw.iloc[:, position[spec.target]], spec.target, spec)
        _check_labels(labels, spec, problems)
        columns[spec.target] = labels
    problems.raise_if_any(DataError, _where(spec))
    frame = {name: pd.Series(values, dtype=values.dtype) for name, values in columns.items()}
    table = pd.DataFrame(frame)
    for warning in table_warnings(table, spec):
        LOG.warning("%s: %s", spec.key, warning)
    return table


def table_warnings(table: "pd.DataFrame", spec: DatasetSpec) -> list[str]:
    """Return a sentence for every all-missing or constant field of a clean table."""
    warnings = []
    for name in spec.field_names:
        values = table[name].dropna()
        if len(values) == 0:
            warnings.append(f"field {name!r} has no value in any row")
        elif values.nunique() == 1:
            left = " where it is not missing" if len(values) < len(table) else ""
            only = values.iloc[0]
            shown = repr(only) if isinstance(only, str) else f"{only:g}"
            warnings.append(f"field {name!r} holds one value only{left}: {shown}")
    return warnings


def check_expected(table: "pd.DataFrame", spec: DatasetSpec, origin: str) -> None:
    """Compare a clean table's rows and class counts with the registry.

    Args:
        table: a clean table.
        spec: its declaration; ``rows`` None and empty ``class_counts`` are not compared.
        origin: where the table came from, for the message.

    Raises:
        DataError: a count differs; the message names each difference.
    """
    problems = ProblemList()
    if spec.rows is not None and len(table) != spec.rows:
        problems.append(f"{len(table)} rows, expected {spec.rows}")
    counts = class_counts(table, spec)
    for label, expected in spec.class_counts.items():
        if counts[label] != expected:
            problems.append(f"class {label!r}: {counts[label]} rows, expected {expected}")
    if problems:
        problems.append(
            "this is another version or a part of the data set; use the whole file, or change rows "
            "and class_counts of this entry in config/datasets.yaml if it is what you mean"
        )
    problems.raise_if_any(DataError, f"{_where(spec)} from {origin}")


def class_counts(table: "pd.DataFrame", spec: DatasetSpec) -> dict[str, int]:
    """Return the number of rows of every class, in class order."""
    counts = table[spec.target].value_counts()
    return {label: int(counts.get(label, 0)) for label in spec.classes}


def content_hash(table: "pd.DataFrame", spec: DatasetSpec) -> str:
    """Return the SHA-256 (hex) of a clean table's content.

    It depends on the column names, their order, kinds, row order and cell values, and on nothing
    else: not on the file format, the column types of the backend or the order of categories.
    Numbers enter as little-endian float64 with one NaN and one zero; texts as the sorted list of
    distinct texts and an int32 code a row (-1 where missing).
    """
    digest = hashlib.sha256()
    kinds = [[f.name, f.kind] for f in spec.fields] + [[spec.target, "target"]]
    _feed(digest, json.dumps({"columns": kinds, "rows": len(table)}, ensure_ascii=True).encode())
    for name, kind in kinds:
        if kind == "numeric":
            numbers = np.array(table[name], dtype="<f8") + 0.0  # -0.0 becomes 0.0
            numbers[np.isnan(numbers)] = np.nan
            _feed(digest, numbers.tobytes())
        else:
            texts, codes = _sorted_codes(table[name])
            _feed(digest, json.dumps(texts, ensure_ascii=True).encode())
            _feed(digest, codes.astype("<i4").tobytes())
    return digest.hexdigest()


# ---- columns


def _where(spec: DatasetSpec) -> str:
    return f"data set {spec.key}"


def _column_positions(
    raw: "pd.DataFrame", spec: DatasetSpec, problems: ProblemList
) -> dict[str, int]:
    """Map our names to column positions; missing, extra and repeated columns become problems."""
    position: dict[str, int] = {}
    original: dict[str, str] = {}
    for place, column in enumerate(raw.columns):
        old = str(column).strip()
        new = spec.rename.get(old, old)
        if old in spec.drop or new in spec.drop:
            continue
        if new not in position:
            position[new], original[new] = place, old
        elif original[new] == old:
            problems.append(f"column {old!r} occurs more than once")
        else:
            problems.append(f"columns {original[new]!r} and {old!r} are both {new!r}; keep one")
    needed = _needed_columns(spec, position)
    missing = [name for name in needed if name not in position]
    extra = [name for name in position if name not in needed]
    _report_columns(missing, extra, original, spec, problems)
    return position


def _needed_columns(spec: DatasetSpec, position: dict[str, int]) -> list[str]:
    needed = []
    for name in spec.field_names:
        family = _family_to_decode(name, spec, position)
        needed += list(family.columns) if family is not None else [name]
    return [*needed, spec.target]


def _report_columns(
    missing: list[str],
    extra: list[str],
    original: dict[str, str],
    spec: DatasetSpec,
    problems: ProblemList,
) -> None:
    back = {new: old for old, new in spec.rename.items() if old != new}
    free = list(extra)
    for name in missing:
        guess = _nearest_column(name, free)
        also = f" (or {back[name]!r}, its name at the source)" if name in back else ""
        hint = f"; the table has {original[guess]!r}: is that it, renamed?" if guess else ""
        problems.append(f"column {name!r}{also} is missing{hint}")
        if guess:
            free.remove(guess)
    for name in free:
        problems.append(
            f"column {original[name]!r} is not declared; add it to drop in config/datasets.yaml if "
            "it is to be ignored"
        )


def _nearest_column(name: str, candidates: list[str]) -> str | None:
    folded = {_fold(candidate): candidate for candidate in candidates}
    found = difflib.get_close_matches(_fold(name), list(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def _fold(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum()) or name


# ---- cells


def _numeric(
    series: "pd.Series", name: str, spec: DatasetSpec, problems: ProblemList
) -> np.ndarray:
    """Return float64 values; texts that are no number and infinities become problems."""
    import pandas as pd

    kind = series.dtype
    if pd.api.types.is_bool_dtype(kind) or pd.api.types.is_numeric_dtype(kind):
        if pd.api.types.is_complex_dtype(kind):
            problems.append(f"numeric field {name!r} holds complex numbers")
            return np.full(len(series), np.nan)
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = _parsed(series, name, spec, problems)
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        problems.append(
            f"numeric field {name!r} holds {_times(len(infinite), 'infinite value')} "
            f"({_rows(infinite)}); make them finite or missing"
        )
    return np.array(values, dtype=np.float64)


def _parsed(series: "pd.Series", name: str, spec: DatasetSpec, problems: ProblemList) -> np.ndarray:
    codes, levels = _levels(series)
    tokens = {t.lower() for t in spec.missing_tokens} | _NO_NUMBER
    numbers = np.full(len(levels) + 1, np.nan)  # the last serves code -1, a missing cell
    wrong = []
    for place, text in enumerate(levels):
        if not text or text.lower() in tokens:
            continue
        try:
            numbers[place] = float(text.replace("_", "?"))  # Python would read 1_000
        except ValueError:
            wrong.append(place)
    if wrong:
        rows = np.flatnonzero(np.isin(codes, wrong))
        shown = ", ".join(repr(levels[p]) for p in wrong[:_SHOWN])
        problems.append(
            f"numeric field {name!r} holds {_times(len(rows), 'value')} that cannot be read as a "
            f"number: {shown}{', ...' if len(wrong) > _SHOWN else ''} ({_rows(rows)})"
        )
    return numbers[codes]


def _text(series: "pd.Series", name: str, spec: DatasetSpec) -> np.ndarray:
    """Return trimmed, recoded text as objects, None where missing."""
    codes, levels = _levels(series)
    recode = spec.recode.get(name, {})
    tokens = set(spec.missing_tokens)
    final = np.empty(len(levels) + 1, dtype=object)
    for place, text in enumerate(levels):
        text = recode.get(text, text)
        final[place] = None if not text or text in tokens else text
    final[-1] = None
    return final[codes]


def _levels(series: "pd.Series") -> tuple[np.ndarray, list[str]]:
    """Return a code a row (-1 missing) and the trimmed text of every distinct cell value."""
    import pandas as pd

    if series.dtype == object and series.map(lambda v: isinstance(v, _NESTED)).any():
        series = series.map(repr)  # lists cannot be told apart by hash; shown, then refused
    codes, uniques = pd.factorize(series)
    return np.asarray(codes), [_as_text(value) for value in uniques]


def _as_text(value: object) -> str:
    """One cell as text: whole numbers without a point, stray blanks and quotes off."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    text = str(value).strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1].strip()
    return text


def _sorted_codes(column: "pd.Series") -> tuple[list[str], np.ndarray]:
    import pandas as pd

    codes, uniques = pd.factorize(column)
    texts = [str(u) for u in uniques]
    order = sorted(range(len(texts)), key=texts.__getitem__)
    rank = np.empty(len(texts) + 1, dtype=np.int32)
    rank[order] = np.arange(len(texts), dtype=np.int32)
    rank[-1] = -1
    return [texts[i] for i in order], rank[codes]


def _feed(digest, block: bytes) -> None:
    # The length first, so that no two sequences of blocks run into the same bytes.
    digest.update(len(block).to_bytes(8, "little"))
    digest.update(block)


# ---- indicator families


def _family_to_decode(
    name: str, spec: DatasetSpec, position: dict[str, int]
) -> IndicatorFamily | None:
    """The family of a field, unless the table holds the field decoded already."""
    for family in spec.indicator_families:
        if family.name == name:
            decoded = name in position and not any(c in position for c in family.columns)
            return None if decoded else family
    return None


def _decode_family(
    raw: "pd.DataFrame",
    family: IndicatorFamily,
    position: dict[str, int],
    problems: ProblemList,
) -> np.ndarray:
    """Return the level of every row as text; None where no indicator is on."""
    rows = len(raw)
    level = np.full(rows, -1, dtype=np.int32)
    ones = np.zeros(rows, dtype=np.int32)
    for place, column in enumerate(family.columns):
        if column not in position:
            continue
        on, wrong = _indicator(raw.iloc[:, position[column]])
        if len(wrong):
            problems.append(
                f"indicator {column!r} holds {_times(len(wrong), 'value')} other than 0 and 1 "
                f"({_rows(wrong)})"
            )
        level[on] = place
        ones += on
    double = np.flatnonzero(ones > 1)
    if len(double):
        problems.append(
            f"indicators of {family.name!r}: {_times(len(double), 'row')} with more than one 1 "
            f"({_rows(double)}); each row may belong to one level"
        )
    empty = int((ones == 0).sum())
    if empty:
        LOG.warning("%s: %d rows have no indicator on; they count as missing", family.name, empty)
    return np.array([*family.levels, None], dtype=object)[level]


def _indicator(series: "pd.Series") -> tuple[np.ndarray, np.ndarray]:
    """Return a mask of ones, and the positions of cells that are neither 0 nor 1."""
    codes, levels = _levels(series)
    values = np.full(len(levels) + 1, -1, dtype=np.int8)
    for place, text in enumerate(levels):
        values[place] = {"0": 0, "1": 1, "False": 0, "True": 1, "": -1}.get(text, -1)
    cells = values[codes]
    return cells == 1, np.flatnonzero(cells == -1)


# ---- target


def _check_labels(labels: np.ndarray, spec: DatasetSpec, problems: ProblemList) -> None:
    import pandas as pd

    missing = np.flatnonzero(pd.isna(labels))
    if len(missing):
        problems.append(
            f"target {spec.target!r}: {_times(len(missing), 'row')} without a label "
            f"({_rows(missing)}); remove these rows"
        )
    counts = pd.Series(labels, dtype=object).value_counts()
    unknown = [label for label in counts.index if label not in spec.classes]
    if unknown:
        shown = ", ".join(f"{u!r} ({counts[u]} rows)" for u in unknown[:_SHOWN])
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        problems.append(
            f"target {spec.target!r}: labels that are not declared: {shown}{more}; the "
            f"{len(spec.classes)} declared classes are {', '.join(map(repr, spec.classes))}"
        )
    if len(counts) == 1:
        problems.append(
            f"target {spec.target!r}: every row has the same class {counts.index[0]!r}; "
            "at least two are needed"
        )
    for label in spec.classes:
        count = int(counts.get(label, 0))
        if count < MIN_CLASS_ROWS:
            problems.append(
                f"target {spec.target!r}: class {label!r} has {_times(count, 'row')}; a train, "
                f"validation and test part need at least {MIN_CLASS_ROWS}"
            )


def _times(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _rows(positions: np.ndarray) -> str:
    """Name the first few rows, counted from 1 as in the file without its header."""
    shown = ", ".join(str(int(p) + 1) for p in positions[:_SHOWN])
    noun = "row" if len(positions) == 1 else "rows"
    return f"{noun} {shown}{', ...' if len(positions) > _SHOWN else ''}"
