"""Files the stages exchange: whole, byte-reproducible, self-describing.

A file is written under a temporary name in the same folder and renamed, so a file that exists is
whole. Parquet is written with one compression, one row-group size and no time stamp, so equal
content gives equal bytes. Metadata lives under the key ``cfc`` of the Parquet footer as JSON.
"""

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cfc.errors import ArtifactError

SCHEMA_VERSION = 1
_ROW_GROUP = 1 << 16
_KEY = b"cfc"


def canonical_json(obj: Any) -> str:
    """Return JSON with sorted keys and no spare blanks: equal values give equal text.

    A whole number is written without a fraction, so 1 and 1.0, which are equal, read alike.

    Raises:
        ValueError: the object holds NaN or infinity, which JSON cannot say.
    """
    return json.dumps(
        _whole(obj), sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain
    )


def _whole(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    if hasattr(value, "tolist"):
        return _whole(value.tolist())
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, Path):
        return value.as_posix()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def sha256_text(text: str) -> str:
    """Return the hexadecimal SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_file(path: str | os.PathLike) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        while chunk := handle.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it into place on success, else remove it.

    Works for a file or a folder. A full disk is reported by name and leaves nothing behind.

    Raises:
        ArtifactError: the disk or quota is full.
    """
    path = Path(path)
    holder = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        holder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        temporary = holder / path.name
        yield temporary
        if path.is_dir() and temporary.is_dir():
            shutil.rmtree(path)
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ArtifactError(
                f"no space left while writing {path}: nothing was written under that name; "
                "free some space and run the same command again, finished files are kept"
            ) from error
        raise
    finally:
        if holder:
            shutil.rmtree(holder, ignore_errors=True)


def write_text(text: str, path: str | os.PathLike) -> None:
    """Write a text file atomically, in UTF-8 with plain newlines."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(obj: Any, path: str | os.PathLike) -> None:
    """Write an object as readable JSON with sorted keys, atomically."""
    write_text(
        json.dumps(obj, indent=2, sort_keys=True, allow_nan=False, default=_plain) + "\n", path
    )


def read_json(path: str | os.PathLike) -> Any:
    """Read a JSON file.

    Raises:
        ArtifactError: the file is missing or not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} does not exist") from error
    except json.JSONDecodeError as error:
        raise ArtifactError(f"{path} is not valid JSON ({error}); delete it and rerun") from error


def write_table(table, path: str | os.PathLike, metadata: Mapping[str, Any] | None = None) -> None:
    """Write a ``pyarrow.Table`` as Parquet: atomic, fixed layout, metadata in the footer.

    Args:
        table: the rows; pandas metadata in its schema is dropped.
        path: where to.
        metadata: JSON-able facts stored under the footer key ``cfc`` with the schema version.
    """
    import pyarrow.parquet as pq

    facts = {"schema_version": SCHEMA_VERSION, **(metadata or {})}
    table = table.replace_schema_metadata({_KEY: canonical_json(facts).encode()})
    with atomic_path(path) as temporary:
        pq.write_table(
            table,
            temporary,
            compression="zstd",
            compression_level=3,
            row_group_size=_ROW_GROUP,
            use_dictionary=[
                field.name
                for field in table.schema
                if str(field.type) in ("string", "large_string", "list<element: string>")
                or str(field.type).startswith(("list<item: string", "dictionary"))
            ],
            write_statistics=True,
            store_schema=True,
        )


def read_table(path: str | os.PathLike, columns: list[str] | None = None):
    """Read a Parquet file into a ``pyarrow.Table``.

    Raises:
        ArtifactError: the file is missing, truncated, not Parquet or of another schema version, or
            a column is missing.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            _facts(path, file.schema_arrow)
            known = set(file.schema_arrow.names)
            missing = [c for c in columns or [] if c not in known]
            if missing:
                raise ArtifactError(f"{path} has no column {', '.join(missing)}")
            return file.read(columns=columns)
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} does not exist") from error
    except (pa.ArrowInvalid, OSError) as error:
        raise ArtifactError(
            f"{path} cannot be read as Parquet ({error}); delete it and rerun the stage"
        ) from error


def read_metadata(path: str | os.PathLike) -> dict[str, Any]:
    """Return the ``cfc`` metadata of a Parquet file ({} when it has none).

    Raises:
        ArtifactError: the file is missing, damaged or of another schema version.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} does not exist") from error
    except (pa.ArrowInvalid, OSError) as error:
        raise ArtifactError(f"{path} cannot be read as Parquet ({error})") from error
    return _facts(path, schema)


def _facts(path, schema) -> dict[str, Any]:
    facts = json.loads((schema.metadata or {}).get(_KEY, b"{}"))
    version = facts.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise ArtifactError(
            f"{path} was written under schema version {version}, this version reads "
            f"{SCHEMA_VERSION}; delete it (or the results folder) and run the same command again"
        )
    return facts


def rows_hash(path: str | os.PathLike) -> str:
    """Return 16 hexadecimal digits of a Parquet file's rows and types, its metadata left out.

    Two files with equal rows have the same hash, whatever code, folder or time they come from.

    Raises:
        ArtifactError: the file is missing, damaged or of another schema version.
    """
    import pyarrow as pa

    table = read_table(path).replace_schema_metadata(None).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return hashlib.sha256(sink.getvalue()).hexdigest()[:16]


def to_numpy(column) -> Any:
    """Return a column of a table as a NumPy array: numbers as they are, text as objects."""
    return column.combine_chunks().to_numpy(zero_copy_only=False)


def lists_to_matrix(column) -> Any:
    """Return a list column whose lists all have one length as a 2-D NumPy array.

    Raises:
        ArtifactError: the lists differ in length.
    """
    array = column.combine_chunks()
    values = array.flatten().to_numpy(zero_copy_only=False)
    if len(array) == 0:
        return values.reshape(0, 0)
    if len(values) % len(array):
        raise ArtifactError("a list column has lists of different lengths")
    width = len(values) // len(array)
    offsets = array.offsets.to_numpy()
    if not (offsets[1:] - offsets[:-1] == width).all():
        raise ArtifactError("a list column has lists of different lengths")
    return values.reshape(len(array), width)


def matrix_to_lists(matrix, dtype=None):
    """Return a 2-D array as a list column (``pyarrow.ListArray``) with one list a row."""
    import numpy as np
    import pyarrow as pa

    matrix = np.ascontiguousarray(matrix)
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(matrix.ravel(), type=dtype))
