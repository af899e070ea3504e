"""Data sets: what is declared about them, where they come from, and the table that is kept.

:func:`acquire` is the only step of a run that may touch the network. Everything after it reads the
Parquet file it leaves, with :func:`read_dataset`.
"""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfc.data.registry import DatasetSpec, FieldSpec, SourceSpec, load_registry, portable_entry
from cfc.errors import ArtifactError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "DatasetSpec",
    "FieldSpec",
    "SourceSpec",
    "acquire",
    "describe",
    "load_registry",
    "portable_entry",
    "read_dataset",
]

LOG = logging.getLogger(__name__)


def acquire(
    spec: DatasetSpec,
    data_dir: str | os.PathLike | None,
    out_parquet: str | os.PathLike,
    out_json: str | os.PathLike,
    *,
    openml_server: str | None = None,
    **openml_options: Any,
) -> dict[str, Any]:
    """Load, clean, check and store one data set.

    Args:
        spec: the data set's declaration.
        data_dir: folder with local copies of OpenML sets, or None to download them.
        out_parquet: where the clean table goes: float64 and string columns, the target last.
        out_json: where its description goes: source, schema, counts, warnings, ``sha256``.
        openml_server: base URL of the OpenML server; None: the environment variable
            ``CFC_OPENML_SERVER``, else the public one.
        openml_options: ``attempts``, ``timeout_seconds``, ``backoff_seconds`` and others of
            :func:`cfc.data.openml_source.download`.

    Returns:
        The description that was written as JSON.

    Raises:
        DataError: the table cannot be had or does not fit; nothing is written then.
    """
    from cfc.artifacts import write_json, write_table
    from cfc.data.clean import check_expected, clean_table
    from cfc.data.sources import load_raw

    folder = Path(data_dir) if data_dir else None
    raw, source = load_raw(spec, folder, server=openml_server, **openml_options)
    table = clean_table(raw, spec)
    del raw
    check_expected(table, spec, spec.source.label if folder is None else source.get("file", "?"))
    facts = describe(table, spec, source)
    metadata = {"dataset": spec.key, "sha256": facts["sha256"], "source": source}
    write_table(_to_arrow(table, spec), out_parquet, metadata)
    write_json(facts, out_json)
    LOG.info("%s: %d rows, %d fields, sha256 %s", spec.key, *_size(table), facts["sha256"][:12])
    return facts


def describe(
    table: "pd.DataFrame", spec: DatasetSpec, source: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return what is worth knowing about a clean table, ready for JSON.

    Keys: ``dataset``, ``title``, ``source``, ``rows``, ``fields`` (name, kind, markers with their
    counts, unavailable, missing cells, and for nominal fields the levels), ``target``, ``classes``,
    ``class_counts``, ``domain_groups``, ``grouping``, ``warnings``, ``note``, ``sha256``.
    """
    from cfc.data.clean import class_counts, content_hash, table_warnings

    return {
        "dataset": spec.key,
        "title": spec.title,
        "source": source or {},
        "rows": len(table),
        "fields": [_describe_field(table, f) for f in spec.fields],
        "target": spec.target,
        "classes": list(spec.classes),
        "class_counts": class_counts(table, spec),
        "domain_groups": {k: list(v) for k, v in spec.domain_groups.items()},
        "grouping": spec.grouping,
        "unavailable_codes": {k: list(v) for k, v in spec.unavailable_codes.items()},
        "warnings": table_warnings(table, spec),
        "note": spec.note,
        "sha256": content_hash(table, spec),
    }


def read_dataset(path: str | os.PathLike) -> "pd.DataFrame":
    """Read a table that :func:`acquire` wrote.

    Returns:
        A frame as :func:`cfc.data.clean.clean_table` returns it: float64 with NaN, objects with
        None; the target is the last column.

    Raises:
        ArtifactError: the file is missing, cut off or not one of ours.
    """
    import pandas as pd

    from cfc.artifacts import read_metadata, read_table, to_numpy

    table = read_table(path)
    if "dataset" not in read_metadata(path):
        raise ArtifactError(f"{path} is no data set written by the acquire stage; rerun that stage")
    columns = {name: to_numpy(table.column(name)) for name in table.column_names}
    return pd.DataFrame({k: pd.Series(v, dtype=v.dtype) for k, v in columns.items()})


def _to_arrow(table: "pd.DataFrame", spec: DatasetSpec):
    import pyarrow as pa

    numeric = set(spec.numeric)
    arrays = {}
    for name in table.columns:
        kind = pa.float64() if name in numeric else pa.string()
        arrays[name] = pa.array(table[name].to_numpy(), type=kind, from_pandas=True)
    return pa.table(arrays)


def _describe_field(table: "pd.DataFrame", field: FieldSpec) -> dict[str, Any]:
    values = table[field.name]
    facts: dict[str, Any] = {
        "name": field.name,
        "kind": field.kind,
        "missing": int(values.isna().sum()),
    }
    if field.markers:
        facts["markers"] = {f"{m:g}": int((values == m).sum()) for m in field.markers}
    if field.unavailable:
        facts["unavailable"] = {u: int((values == u).sum()) for u in field.unavailable}
    if field.kind == "nominal":
        facts["levels"] = {str(k): int(v) for k, v in values.value_counts().sort_index().items()}
    return facts


def _size(table: "pd.DataFrame") -> tuple[int, int]:
    return len(table), table.shape[1] - 1
