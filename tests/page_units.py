"""Made-up units with everything the interactive page reads, and the page of a made-up run."""

import numpy as np
import pyarrow as pa
from synthetic_units import GROUPS, RULES, make_unit

from cfc.artifacts import to_numpy
from cfc.evaluate import EvaluationSettings, evaluate_unit
from cfc.page.payload import UnitTables, rule_text, run_payload, unit_payload
from cfc.page.render import render_page
from cfc.protocol import PRESETS
from cfc.tables import build_table
from cfc.tables.base import TableContext

CELLS = [(o, s) for o in ("mask", "dropout", "noise", "swap") for s in (0.1, 0.2, 0.3)]
TAU_P = 0.90
LABELS = {"tau_p": TAU_P, "tau_kappa": 0.5, "tau_flip": 0.5}


def make_page_unit(
    dataset="toy", model="lr", seed=0, *, draws=10, groups=GROUPS, depth=None, **how
):
    """Return `UnitTables` of a made-up unit; ``depth`` and ``groups`` set the size of its lists."""
    predictions, certificates, labels, ranks = make_unit(dataset, model, seed, **how)
    rng = np.random.default_rng([seed, groups])
    certificates = _completed(certificates, groups, depth, rng)
    stressed = _stressed(certificates, draws, rng)
    names = [f"group-{i}" for i in range(groups)]
    metrics = evaluate_unit(
        predictions,
        certificates,
        labels,
        ranks,
        settings=EvaluationSettings(n_bootstrap=10),
        unit=(dataset, model, seed),
    )
    classes = [f"class {c}" for c in range(how.get("classes", 2))]
    return UnitTables(
        dataset, model, seed, certificates, stressed, labels, ranks, metrics, names, classes
    )


def _completed(certificates, groups, depth, rng):
    n = len(certificates)
    path = np.array(certificates["path_margin"].to_pylist())
    if depth is not None:
        path = path[:, :1] * (1 - np.cumsum(rng.random((n, depth + 1)), axis=1) / depth)
    predicted = to_numpy(certificates["predicted"])
    delta = rng.normal(size=(n, groups))
    order = np.argsort(-delta, axis=1, kind="stable")
    labels = np.where(path >= 0, predicted[:, None], 1 - predicted[:, None].clip(0, 1))
    columns = {
        "group_order": pa.array([[f"group-{g}" for g in row] for row in order]),
        "path_margin": pa.array(path.tolist()),
        "path_label": pa.array(labels.tolist(), pa.list_(pa.int16())),
        "delta": pa.array(delta.tolist()),
    }
    kept = [name for name in certificates.column_names if name not in columns]
    return pa.table({**{name: certificates[name] for name in kept}, **columns})


def _stressed(certificates, draws, rng):
    own = certificates.filter(certificates["is_confident"])
    n = len(own)
    margin, predicted = to_numpy(own["margin"]), to_numpy(own["predicted"])
    parts = []
    for operator, severity in CELLS:
        margins = margin[:, None] * (1 - 4 * severity * rng.random((n, draws)))
        labels = np.where(margins >= 0, predicted[:, None], 1 - predicted[:, None].clip(0, 1))
        parts.append(
            pa.table(
                {
                    "case_id": own["case_id"],
                    "confidence": own["confidence"],
                    "predicted": own["predicted"],
                    "margin": own["margin"],
                    "operator": [operator] * n,
                    "severity": np.full(n, severity),
                    "margins": pa.array(margins.tolist(), pa.list_(pa.float32())),
                    "labels": pa.array(labels.tolist(), pa.list_(pa.int16())),
                }
            )
        )
    return pa.concat_tables(parts)


def make_run(units, *, limit=200, rules=RULES):
    """Return the run's payload with the head's facts, and the payloads of its units."""
    keys = [(u.dataset, u.model, u.seed) for u in units]
    datasets, models, seeds = (list(dict.fromkeys(part)) for part in zip(*keys, strict=True))
    rows = pa.concat_tables([u.metrics for u in units])
    settings = EvaluationSettings(n_bootstrap=10)
    context = TableContext("made-up", "paper")
    data = {
        name: build_table(name, rows, keys, settings, context).data
        for name in ("brittle_auroc", "capture_curve")
    }
    rule = {"kind": "any_draw", "draws": 3, "cells": {"mask": [0.1, 0.2]}}
    run = run_payload(
        auroc=data["brittle_auroc"],
        capture=data["capture_curve"],
        datasets={d: d.title() for d in datasets},
        models={m: m.upper() for m in models},
        seeds=seeds,
        rules={name: rule_text(rule, LABELS) for name in rules},
        units=[u.key for u in units],
    )
    facts = {
        "run": "made-up",
        "preset": "paper",
        "cases": limit,
        "threshold": 0.85,
        "tau_p": TAU_P,
        "protocol": PRESETS["paper"].to_dict(),
        "provenance": {"rule": "build_page"},
    }
    payloads = (unit_payload(u, limit=limit, tau_p=TAU_P, rules=rules) for u in units)
    return {**run, **facts}, payloads


def make_page(units, **how) -> str:
    """Return the page of a made-up run; units that make no full grid are a run part of the way."""
    return render_page(*make_run(units, **how))
