"""Stage split: which rows of a data set are train, validation and test under one seed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from cfc.data.registry import DatasetSpec
from cfc.splits import SPLITS, stratified_split, train_halves


def class_codes(table: pd.DataFrame, spec: DatasetSpec) -> np.ndarray:
    """Return the class code of each row, int16 [n]: position in the declared classes."""
    return pd.Categorical(table[spec.target], categories=list(spec.classes)).codes.astype(np.int16)


def split_rows(
    table: pd.DataFrame, spec: DatasetSpec, shares: Mapping[str, float], seed: int
) -> tuple[pa.Table, dict[str, Any]]:
    """Return row_id, split, half of train and class code of every row; and counts by split."""
    labels = class_codes(table, spec)
    split = stratified_split(labels, seed, [shares[name] for name in SPLITS])
    counts = {
        name: {
            label: int(((split == name) & (labels == code)).sum())
            for code, label in enumerate(spec.classes)
        }
        for name in SPLITS
    }
    columns = {
        "row_id": np.arange(len(labels), dtype=np.int64),
        "split": pa.array(split, pa.string()),
        "half": train_halves(split, seed),
        "label": labels,
    }
    return pa.table(columns), {"class_counts": counts}
