"""Stage preprocess: raw fields to one matrix, with groups, baselines and a report."""

import logging
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cfc.artifacts import to_numpy
from cfc.baselines import baseline_vectors
from cfc.data.registry import DatasetSpec
from cfc.prepared import Prepared, arrays_hash
from cfc.preprocess import Preprocessor, coordinate_records

logger = logging.getLogger(__name__)


def prepare(
    table: pd.DataFrame,
    spec: DatasetSpec,
    split: pa.Table,
    *,
    grouping: str | None,
    max_levels: int,
) -> tuple[Prepared, Preprocessor]:
    """Fit the preprocessing on train and apply it to every row.

    Args:
        table: the cleaned data set.
        spec: its declaration.
        split: table of the split stage.
        grouping: grouping in use; None = what the data set declares.
        max_levels: most categories of a nominal field.
    """
    names = to_numpy(split.column("split"))
    in_train = names == "train"
    train = table[in_train]
    fitted = Preprocessor.fit(train, spec.fields, max_levels)
    X = fitted.transform(table)
    y = to_numpy(split.column("label"))
    row_id = to_numpy(split.column("row_id"))
    groupings = {
        "raw_origin": fitted.groups("raw_origin", spec),
        "redundancy_merged": fitted.groups("redundancy_merged", spec, train),
    }
    if spec.domain_groups:
        groupings["domain"] = fitted.groups("domain", spec)
    in_use = grouping or spec.grouping
    if in_use not in groupings:
        fitted.groups(in_use, spec)  # raises, saying what is not declared
    report = _report(table, spec, fitted, names)
    for line in report["warnings"]:
        logger.warning("%s: %s", spec.key, line)
    prepared = Prepared(
        X=X,
        y=y,
        row_id=row_id,
        split=names,
        half=to_numpy(split.column("half")),
        classes=spec.classes,
        aliases=tuple(c.alias for c in fitted.coordinates),
        groupings=groupings,
        grouping=in_use,
        baselines=baseline_vectors(X[in_train], fitted.coordinates),
        noise_scale=fitted.noise_scale,
        data_hash=arrays_hash([X, y, row_id, names]),
        facts={"coordinates": coordinate_records(fitted.coordinates), "report": report},
    )
    return prepared, fitted


def _report(
    table: pd.DataFrame, spec: DatasetSpec, fitted: Preprocessor, split: np.ndarray
) -> dict[str, Any]:
    """Return what a reader should know about missing, constant and unseen values."""
    train = table[split == "train"]
    constant = [f.name for f in spec.fields if train[f.name].nunique(dropna=False) < 2]
    all_missing = [f.name for f in spec.fields if train[f.name].isna().all()]
    missing = {f.name: int(n) for f in spec.fields if (n := table[f.name].isna().sum())}
    unseen = {
        name: found for name in ("valid", "test") if (found := fitted.unseen(table[split == name]))
    }
    warnings = [f"column {c!r} is missing in every training row" for c in all_missing]
    warnings += [f"column {c!r} is constant in train" for c in constant if c not in all_missing]
    for name, fields in unseen.items():
        for column, levels in fields.items():
            rows = sum(levels.values())
            warnings.append(
                f"{rows} {name} row(s) hold a category of {column!r} not seen in train "
                f"({', '.join(list(levels)[:5])}); their block is all zero"
            )
    return {
        "missing_cells": missing,
        "constant_in_train": constant,
        "all_missing_in_train": all_missing,
        "unseen_categories": unseen,
        "warnings": warnings,
    }
