"""Stage label: brittle labels of a unit under every rule."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cfc.artifacts import lists_to_matrix, to_numpy
from cfc.errors import ArtifactError
from cfc.labels import LabelRule, brittle

COPIED = (
    "dataset",
    "model",
    "seed",
    "case_id",
    "is_uniform",
    "is_confident",
    "confidence",
    "true_label",
    "predicted",
)


def label_unit(
    certificates: pa.Table,
    stressed: pa.Table,
    rules: Mapping[str, LabelRule],
    *,
    tau_p: float,
    tau_kappa: float,
    tau_flip: float,
) -> pa.Table:
    """Return one row an audited case with one bool column a rule.

    Cases below the stress threshold were not stressed: no rule can call them brittle.

    Args:
        certificates: table of the certify stage.
        stressed: table of the stress stage.
        rules: name -> rule.
        tau_p: threshold of confidence.
        tau_kappa: threshold of κ.
        tau_flip: share of flips that counts under a ``mean`` rule.
    """
    arrays = stress_arrays(stressed)
    is_confident = to_numpy(certificates.column("is_confident"))
    ids = to_numpy(certificates.column("case_id"))[is_confident]
    if not np.array_equal(ids, arrays.pop("case_id")):
        raise ArtifactError("certificates and stress outcomes are of different cases; rerun stress")
    columns = {name: certificates.column(name) for name in COPIED}
    for name, rule in rules.items():
        label = np.zeros(len(is_confident), dtype=bool)
        if len(ids):
            label[is_confident] = brittle(
                rule, tau_p=tau_p, tau_kappa=tau_kappa, tau_flip=tau_flip, **arrays
            )
        columns[name] = label
    return pa.table(columns)


def stress_arrays(stressed: pa.Table) -> dict:
    """Return the stress table as arrays, the keyword arguments of `cfc.labels.brittle`.

    Also ``case_id`` [n]. Every operator and severity holds the same cases in the same order.
    """
    severities: dict[str, list[float]] = {}
    margins: dict[str, list[np.ndarray]] = {}
    labels: dict[str, list[np.ndarray]] = {}
    first = None
    # in the order of the file: a threaded group-by would give another order each time
    pairs = zip(stressed["operator"].to_pylist(), stressed["severity"].to_pylist(), strict=True)
    for operator, severity in dict.fromkeys(pairs):
        part = stressed.filter(
            pc.and_(
                pc.equal(stressed["operator"], operator), pc.equal(stressed["severity"], severity)
            )
        )
        first = part if first is None else first
        severities.setdefault(operator, []).append(severity)
        margins.setdefault(operator, []).append(lists_to_matrix(part["margins"]))
        labels.setdefault(operator, []).append(lists_to_matrix(part["labels"]))
    if first is None:
        first = stressed
    return {
        "case_id": to_numpy(first["case_id"]),
        "confidence": to_numpy(first["confidence"]),
        "predicted": to_numpy(first["predicted"]),
        "margin": to_numpy(first["margin"]),
        "severities": severities,
        "margins": {k: np.stack(v, axis=1) for k, v in margins.items()},
        "labels": {k: np.stack(v, axis=1) for k, v in labels.items()},
    }
