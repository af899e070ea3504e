"""A small data set with everything that is awkward, prepared, with a made-up three-class model."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa

from cfc.artifacts import matrix_to_lists
from cfc.data import DatasetSpec
from cfc.protocol import Protocol
from cfc.stages.certify import audit_unit
from cfc.stages.preprocess import prepare
from cfc.stages.split import split_rows

UNIT = {"dataset": "awkward", "model": "toy", "seed": 3}
SPEC = DatasetSpec.from_mapping(
    "awkward",
    {
        "title": "Awkward",
        "source": {"kind": "openml", "id": 5, "version": None},
        "target": "class",
        "classes": ["a", "b", "c"],
        "fields": {
            "x": "numeric",
            "score": {"kind": "numeric", "markers": [-9, -8]},
            "gone": "numeric",
            "same": "numeric",
            "job": {"kind": "nominal", "unavailable": ["unknown"]},
        },
        "domain_groups": {"numbers": ["x", "score"], "rest": ["gone", "same", "job"]},
    },
)


def raw_table(n=240):
    """Markers, missing cells, a column that is all missing, a constant one, a rare level."""
    rng = np.random.default_rng(8)
    score = rng.integers(0, 40, n).astype(float)
    score[rng.random(n) < 0.2] = -9
    score[rng.random(n) < 0.1] = np.nan
    job = rng.choice(["cook", "pilot", "unknown"], n, p=[0.6, 0.3, 0.1]).astype(object)
    job[::17] = None
    return pd.DataFrame(
        {
            "x": rng.normal(size=n).round(2),
            "score": score,
            "gone": np.full(n, np.nan),
            "same": np.full(n, 7.0),
            "job": job,
            "class": rng.choice(["a", "b", "c"], n),
        }
    )


class ToyModel:
    """A softmax over the coordinates with an interaction; equal numbers in any batch."""

    family = "toy"
    is_forest = False

    def __init__(self, d, n_classes=3, scale=1.5):
        self.n_classes = n_classes
        self.weights = np.random.default_rng(4).normal(scale=scale, size=(d + 1, n_classes))
        self.facts = {}
        self.asked = 0

    def predict_proba(self, X):
        self.asked += len(X)
        X = np.asarray(X, dtype=np.float64)
        columns = [*X.T, X[:, 0] * X[:, 1]]
        z = np.zeros((len(X), self.n_classes))
        for column, weights in zip(columns, self.weights, strict=True):
            z += column[:, None] * weights
        z = np.exp(z - z.max(axis=1, keepdims=True))
        return z / z.sum(axis=1, keepdims=True)

    def model_hash(self):
        return "0" * 64


def awkward_unit(grouping=None, protocol=None, threshold=0.6):
    """Return table, preprocessor, prepared, model, certificates and clip of the unit."""
    table = raw_table()
    split, _ = split_rows(table, SPEC, {"train": 0.6, "valid": 0.2, "test": 0.2}, UNIT["seed"])
    prepared, preprocessor = prepare(table, SPEC, split, grouping=grouping, max_levels=100)
    model = ToyModel(prepared.X.shape[1])
    proba = model.predict_proba(prepared.X)
    predictions = pa.table({"proba": matrix_to_lists(proba)})
    protocol = protocol or Protocol()
    certificates, _ = audit_unit(
        prepared,
        model,
        predictions,
        protocol,
        {"uniform": 20, "confident": 20, "threshold": threshold},
        unit=UNIT,
    )
    return SimpleNamespace(
        table=table,
        preprocessor=preprocessor,
        prepared=prepared,
        model=model,
        certificates=certificates,
        protocol=protocol,
        clip=protocol.clip,
    )
