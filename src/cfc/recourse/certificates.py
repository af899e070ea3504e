"""Certificates of the requests: does evidence that is about to fail say how long recourse lasts?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cfc.baselines import Coordinate, baseline_vectors
from cfc.certificate import certify
from cfc.data.registry import DatasetSpec
from cfc.groups import Groups
from cfc.models.base import two_columns
from cfc.protocol import Protocol
from cfc.recourse.data import RecourseData
from cfc.recourse.families import BaseModel
from cfc.recourse.stages import requests_of
from cfc.search import search_flips


def groups_of(data: RecourseData, spec: DatasetSpec) -> Groups:
    """Return the evidence groups of a data set: its declared grouping over the features kept."""
    place = {name: [i] for i, name in enumerate(data.fields)}
    if spec.grouping != "domain":
        blocks = {name: [name] for name in data.fields}
    else:
        kept = {
            block: [f for f in fields if f in place] for block, fields in spec.domain_groups.items()
        }
        blocks = {block: fields for block, fields in kept.items() if fields}
    return Groups.of_fields(blocks, place, data.n_features, spec.grouping)


def certify_stage(
    data: RecourseData,
    bases: Sequence[BaseModel],
    requests,
    spec: DatasetSpec,
    protocol: Protocol,
    settings: Mapping[str, Any],
):
    """Certify every request against its base model, and search its smallest flipping set.

    Args:
        data, bases, requests: the data set, base models and table of requests.
        spec: the data set's declaration, for the groups.
        protocol: the certificate's protocol; the baseline is made from the training rows.
        settings: ``exact_depth``, ``exact_subsets``, ``beam_width`` of the search.

    Returns:
        a table with a row a request: base, row_id, confidence, margin, rcma, flip_budget, u, fds,
        k_exact (exact_depth + 1 when no set up to that size flips; null when the search is not
        feasible), k_beam.
    """
    import pyarrow as pa

    groups = groups_of(data, spec)
    coordinates = [Coordinate(f"f{i:04d}", name, "value") for i, name in enumerate(data.fields)]
    baseline = baseline_vectors(data.X["train"], coordinates)[protocol.baseline]
    parts = []
    for base in bases:
        asked = requests_of(requests, base.number, data)

        def predict(rows: np.ndarray, net=base.net) -> np.ndarray:
            return two_columns(net.proba(rows))

        made = certify(asked.X, groups, baseline, predict, protocol)
        found = search_flips(
            asked.X,
            groups,
            baseline,
            predict,
            depth=protocol.depth,
            limit=settings["exact_depth"],
            most_subsets=settings["exact_subsets"],
            width=settings["beam_width"],
        )
        exact = found.k_exact.astype(object) if found.exact_depth else [None] * len(asked)
        parts.append(
            pa.table(
                {
                    "base": pa.array([base.number] * len(asked), type=pa.int64()),
                    "row_id": pa.array(asked.row_id),
                    "confidence": pa.array(made.confidence),
                    "margin": pa.array(made.margin),
                    "rcma": pa.array(made.rcma),
                    "flip_budget": pa.array(made.flip_budget.astype(np.int64)),
                    "u": pa.array(made.u),
                    "fds": pa.array(made.fds),
                    "k_exact": pa.array(list(exact), type=pa.int64()),
                    "k_beam": pa.array(found.k_beam.astype(np.int64)),
                }
            )
        )
    return pa.concat_tables(parts), {
        "grouping": groups.label,
        "groups": list(groups.names),
        "exact_depth": found.exact_depth,
    }
