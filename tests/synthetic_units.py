"""Small made-up units with the columns the stages write: fast, seeded, no model behind them."""

import zlib

import numpy as np
import pyarrow as pa

CONFIDENCE_SCORES = ("max_softmax", "entropy", "margin", "negative_energy")
OTHER_SCORES = ("rcma", "fds", "one_step_relative", "one_step_sum", "baseline_class")
RULES = ("literal", "expected", "flip", "swap")
GROUPS = 6
DEPTH = 4


def make_unit(dataset="toy", model="lr", seed=0, *, n=240, classes=2, brittle_share=0.3, skill=1.5):
    """Return the predictions, certificates, labels and ranks of one made-up unit.

    A hidden frailty drives the labels; the certificate scores see it with the given skill, the
    confidence scores hardly at all.
    """
    rng = np.random.default_rng([zlib.crc32(f"{dataset}/{model}".encode()), seed])
    case_id = np.sort(rng.choice(10 * n, size=n, replace=False)).astype(np.int64)
    confidence = np.where(rng.random(n) < 0.7, rng.uniform(0.9, 0.999, n), rng.uniform(0.6, 0.9, n))
    predicted = rng.integers(classes, size=n)
    proba = np.repeat(((1 - confidence) / (classes - 1))[:, None], classes, axis=1)
    proba[np.arange(n), predicted] = confidence
    right = rng.random(n) < confidence - 0.05
    true = np.where(right, predicted, (predicted + 1) % classes)
    frailty = rng.normal(size=n)
    predictions = _predictions(case_id, true, predicted, proba, rng)
    certificates = _certificates(
        dataset, model, seed, case_id, true, predicted, proba, confidence, frailty, skill, rng
    )
    labels = {"case_id": case_id}
    cut = np.quantile(frailty, 1 - brittle_share) if brittle_share else np.inf
    for rule in RULES:
        labels[rule] = (confidence >= 0.9) & (frailty + rng.normal(0, 0.3, n) > cut)
    ranks = _ranks(case_id, confidence, certificates, frailty, predicted, skill, rng)
    return predictions, certificates, pa.table(labels), ranks


def _predictions(case_id, true, predicted, proba, rng):
    n = len(case_id)
    order = rng.permutation(2 * n)
    split = np.array(["test"] * n + ["valid"] * n)[order]
    return pa.table(
        {
            "row_id": np.concatenate([case_id, 100_000 + np.arange(n)])[order],
            "split": split,
            "label": np.tile(true, 2)[order].astype(np.int16),
            "predicted": np.tile(predicted, 2)[order].astype(np.int16),
            "proba": pa.array(np.tile(proba, (2, 1))[order].tolist()),
        }
    )


def _certificates(
    dataset, model, seed, case_id, true, predicted, proba, confidence, frailty, skill, rng
):
    n = len(case_id)
    margin = np.log(confidence / (1 - confidence))
    strength = np.exp(0.4 * (skill * frailty + rng.normal(size=n)))
    steps = np.arange(DEPTH + 1) / DEPTH
    path = margin[:, None] * (1 - strength[:, None] * steps)
    drop = np.maximum(0, 1 - path / margin[:, None]).mean(axis=1)
    flips = path < 0
    budget = np.where(flips.any(axis=1), flips.argmax(axis=1), DEPTH + 1)
    u = (drop + 1 / budget) / 3
    return pa.table(
        {
            "dataset": [dataset] * n,
            "model": [model] * n,
            "seed": np.full(n, seed),
            "case_id": case_id,
            "split": ["test"] * n,
            "is_uniform": rng.random(n) < 0.6,
            "is_confident": confidence >= 0.85,
            "true_label": true.astype(np.int16),
            "predicted": predicted.astype(np.int16),
            "confidence": confidence,
            "margin": margin,
            "is_saturated": np.zeros(n, dtype=bool),
            "proba": pa.array(proba.tolist()),
            "group_order": pa.array([[f"g{i}" for i in range(GROUPS)]] * n),
            "path_margin": pa.array(path.tolist()),
            "lambda_top1": pa.array(np.where(budget <= 1, 0.5, np.nan), from_pandas=True),
            "lambda_top3": pa.array(np.where(budget <= 3, 0.5, np.nan), from_pandas=True),
            "lambda_all": pa.array(np.where(budget <= 4, 0.5, np.nan), from_pandas=True),
            "flip_budget": budget.astype(np.int16),
            "rcma": drop,
            "u": u,
            "fds": 1 - np.exp(-u),
            "forward_rows": rng.integers(15, 19, size=n).astype(np.int32),
        }
    )


def _ranks(case_id, confidence, certificates, frailty, predicted, skill, rng):
    n = len(case_id)
    columns = {"case_id": case_id}
    for name in CONFIDENCE_SCORES:
        columns[f"{name}_paper"], columns[f"{name}_risk"] = confidence, -confidence
    values = {
        "rcma": certificates["rcma"].to_numpy(),
        "fds": certificates["u"].to_numpy(),
        "one_step_relative": skill * frailty + rng.normal(size=n),
        "one_step_sum": skill * frailty + rng.normal(0, 0.8, size=n),
        "baseline_class": (predicted == 0).astype(float),
    }
    for name, value in values.items():
        columns[f"{name}_paper"] = columns[f"{name}_risk"] = value
    order = rng.permutation(n)
    return pa.table(columns).take(pa.array(order))
