"""Stage train: fit one model on one prepared data set and predict every row."""

import logging
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from cfc.artifacts import matrix_to_lists
from cfc.models.base import Model, TrainingData
from cfc.models.registry import get_family
from cfc.prepared import Prepared
from cfc.scores import predicted_label

logger = logging.getLogger(__name__)
_ROWS = 1 << 16
# x̄ of the degraded rows that fr_resmlp trains on: the paper's default, whatever an audit declares
TRAINING_BASELINE = "mean"


def choose_device(wants_gpu: bool) -> str:
    """Return ``cuda`` where a GPU was asked for and torch finds one, else ``cpu``."""
    if not wants_gpu:
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    logger.info("no GPU found: training on the CPU")
    return "cpu"


def train_model(
    prepared: Prepared,
    family: str,
    entry: Mapping[str, Any],
    *,
    seed: int,
    threads: int,
    device: str,
) -> tuple[Model, pa.Table, dict[str, Any]]:
    """Fit a model and predict all rows.

    Args:
        prepared: matrix, labels, split.
        family: registered name.
        entry: its entry in the registry of models (``params``, optional ``class``).
        seed: root seed.
        threads: threads to fit with.
        device: torch device of neural families.

    Returns:
        the model; predictions of every row (row_id, split, label, predicted, proba); timings.
    """
    train, valid = prepared.rows("train"), prepared.rows("valid")
    data = TrainingData(
        X_train=prepared.X[train],
        y_train=prepared.y[train],
        X_valid=prepared.X[valid],
        y_valid=prepared.y[valid],
        n_classes=len(prepared.classes),
        groups=list(prepared.groups.indices),
        baseline=prepared.baseline(TRAINING_BASELINE),
    )
    model = get_family(family, entry.get("class")).fit(
        data, entry.get("params", {}), seed=seed, threads=threads, device=device
    )
    logger.info("fitted %s in %.1f s: %s", family, model.timings["fit_seconds"], model.facts)
    start = time.perf_counter()
    proba = np.concatenate(
        [model.predict_proba(prepared.X[i : i + _ROWS]) for i in range(0, len(prepared.X), _ROWS)]
    )
    seconds = time.perf_counter() - start
    table = pa.table(
        {
            "row_id": prepared.row_id,
            "split": pa.array(prepared.split, pa.string()),
            "label": prepared.y,
            "predicted": predicted_label(proba),
            "proba": matrix_to_lists(proba.astype(np.float64)),
        }
    )
    timings = {
        "seconds": model.timings["fit_seconds"],
        "model_seconds": seconds,
        "forward_rows": len(proba),
        "device": device,
    }
    return model, table, timings
