"""Raw tables: from a folder of files, from a bundled set, from a file, or from OpenML.

A source gives the table as it is; :mod:`cfc.data.clean` decides whether it fits.
"""

import csv
import hashlib
import io
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfc.data.registry import DatasetSpec
from cfc.errors import ConfigError, DataError, nearest

if TYPE_CHECKING:
    import pandas as pd

LOG = logging.getLogger(__name__)

EXTENSIONS = (".parquet", ".csv", ".arff")
_BUNDLED = ("breast_cancer", "digits", "iris", "wine")


def load_raw(
    spec: DatasetSpec,
    data_dir: Path | None = None,
    **openml_options: Any,
) -> tuple["pd.DataFrame", dict[str, Any]]:
    """Load a data set's table as its source has it.

    Args:
        spec: the data set. A source of kind openml is read from ``data_dir`` when that is given,
            and only then downloaded; the other kinds never look there.
        data_dir: folder with ``<file>.parquet``, ``.csv`` or ``.arff``, tried in that order.
        openml_options: passed to :func:`cfc.data.openml_source.download`.

    Returns:
        The raw table, and facts about where it came from (``kind`` and what identifies it: file
        name and SHA-256, OpenML id, version and MD5, or package version). No path of the machine.

    Raises:
        DataError: there is no file, or it cannot be read, or the download failed.
        ConfigError: scikit-learn bundles no set of that name.
    """
    if spec.source.kind == "sklearn":
        return _load_sklearn(spec)
    if spec.source.kind == "file":
        return _load_file(spec, Path(str(spec.source.path)))
    if data_dir is not None:
        return _load_file(spec, find_file(spec, Path(data_dir)))
    from cfc.data.openml_source import download

    return download(spec, **openml_options)


def find_file(spec: DatasetSpec, data_dir: Path) -> Path:
    """Return the file of a data set in a folder: Parquet before CSV before ARFF.

    Raises:
        DataError: the folder does not exist or holds no such file; the message names the files
            looked for, those that are there and the nearest.
    """
    if not data_dir.is_dir():
        raise DataError(
            f"data_dir {data_dir} is not a folder; set it to the folder that holds "
            f"{spec.file}{EXTENSIONS[0]}, or to null to download from OpenML"
        )
    wanted = [stem + ext for ext in EXTENSIONS for stem in spec.stems]
    found = [data_dir / name for name in wanted if (data_dir / name).is_file()]
    if found:
        if len(found) > 1:
            LOG.info("%s: using %s of %d files", spec.key, found[0].name, len(found))
        return found[0]
    present = sorted(
        p.name for p in data_dir.iterdir() if p.is_file() and p.suffix.lower() in EXTENSIONS
    )
    raise DataError(
        f"data set {spec.key}: no file in data_dir {data_dir}. Looked for {', '.join(wanted)}; "
        f"there are {', '.join(present) if present else 'no Parquet, CSV or ARFF files'}"
        f"{'; ' + nearest(spec.file, present) if present else ''}. Put the file there, or set "
        f"data_dir to null to download {spec.source.label}"
    )


def read_any(path: Path) -> "pd.DataFrame":
    """Read a Parquet, CSV or ARFF file by its extension, refusing repeated column names.

    CSV cells stay text (an empty cell is an empty text); the separator is the comma, semicolon or
    tab that the header has most of.

    Raises:
        DataError: the file is missing, empty, truncated, not of that format, or repeats a column.
    """
    readers: Mapping[str, Callable[[bytes, str], pd.DataFrame]] = {
        ".parquet": read_parquet,
        ".pq": read_parquet,
        ".csv": read_csv,
        ".arff": read_arff,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: {path.suffix!r} is none of {', '.join(EXTENSIONS)}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be opened: {error.strerror or error}") from error
    return reader(content, str(path))


def read_parquet(content: bytes, name: str) -> "pd.DataFrame":
    """Read the bytes of a Parquet file; see :func:`read_any`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    _not_empty(content, name)
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            _no_repeats(file.schema_arrow.names, name)
            frame = file.read(use_threads=False).to_pandas(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(name, "Parquet", error) from error
    return frame.reset_index(drop=True)


def read_csv(content: bytes, name: str) -> "pd.DataFrame":
    """Read the bytes of a CSV file with a header line; see :func:`read_any`.

    Arrow's reader is used because it refuses a row with too few or too many cells, where others
    fill up or drop.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    _not_empty(content, name)
    try:
        text = content.decode("utf-8-sig").lstrip("\r\n")
    except UnicodeDecodeError as error:
        raise _unreadable(name, "CSV in UTF-8", error) from error
    if text.count('"') % 2:
        raise _unreadable(name, "CSV", ValueError("a quoted cell is never closed"))
    separator = max(",;\t", key=text.split("\n", 1)[0].count)
    header = [h.strip() for h in next(csv.reader(io.StringIO(text), delimiter=separator))]
    _no_repeats(header, name)
    places = [str(i) for i in range(len(header))]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(text.encode()),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, column_names=places, skip_rows_after_names=1
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(places, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowException as error:
        raise _unreadable(name, "CSV", error) from error
    frame = table.to_pandas(use_threads=False)
    frame.columns = header
    return frame


def read_arff(content: bytes, name: str) -> "pd.DataFrame":
    """Read the bytes of an ARFF file; see :func:`read_any`.

    ``?`` is a missing cell. Numeric attributes become float64, all others text.
    """
    _not_empty(content, name)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(name, "ARFF in UTF-8", error) from error
    from cfc.data.arff import ArffError, parse_arff

    try:
        names, columns = parse_arff(text)
    except ArffError as error:
        raise _unreadable(name, "ARFF", error) from error
    _no_repeats(names, name)
    import pandas as pd

    return pd.DataFrame(dict(zip(names, columns, strict=True)))


def _load_file(spec: DatasetSpec, path: Path) -> tuple["pd.DataFrame", dict[str, Any]]:
    LOG.info("%s: reading %s", spec.key, path)
    frame = read_any(path)
    facts = {
        "kind": "data_dir" if spec.source.kind == "openml" else "file",
        "file": path.name,
        "file_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "file_bytes": path.stat().st_size,
    }
    if spec.source.kind == "openml":
        facts["stands_for_openml_id"] = spec.source.id
    return frame, facts


def _load_sklearn(spec: DatasetSpec) -> tuple["pd.DataFrame", dict[str, Any]]:
    name = str(spec.source.name)
    if name not in _BUNDLED:
        raise ConfigError(
            f"data set {spec.key}: source.name {name!r} is no bundled set that is known here; "
            f"{nearest(name, _BUNDLED)}"
        )
    import sklearn
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")(as_frame=True)
    frame = bunch.data.copy()
    names = [str(t) for t in bunch.target_names]
    frame[spec.target] = [names[code] for code in bunch.target]
    return frame, {"kind": "sklearn", "name": name, "package_version": sklearn.__version__}


def _not_empty(content: bytes, name: str) -> None:
    if not content.strip():
        raise DataError(f"{name} is empty; fetch it again")


def _no_repeats(names: list[str], where: str) -> None:
    repeated = [n for n, count in Counter(names).items() if count > 1]
    if repeated:
        raise DataError(
            f"{where}: column names occur more than once: {', '.join(map(repr, repeated))}; "
            "rename or remove the copies"
        )


def _unreadable(name: str, kind: str, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:300]
    return DataError(
        f"{name} cannot be read as {kind}: {reason}. It is damaged, cut off or another format; "
        "fetch it again"
    )
