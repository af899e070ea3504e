"""What each rule of the recourse benchmark does, between reading and writing its files."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cfc.recourse.data import RecourseData
from cfc.recourse.families import (
    BaseModel,
    ChangeFamily,
    build_family,
    train_bases,
    train_ensemble,
)
from cfc.recourse.generate import (
    COVERED,
    Requests,
    candidates_of,
    draw_requests,
    scaled_distance,
    timed_alone,
    tune,
)
from cfc.recourse.methods.base import Method, Problem
from cfc.recourse.nets import Net, Stack, logits_of, sigmoid
from cfc.recourse.seeds import SeedPlan
from cfc.recourse.specs import TrainSettings

LOG = logging.getLogger(__name__)


def net_name(base: int, number: int | None = None) -> str:
    """Return the name of a network in its file: ``base0``, or ``base0/007`` for a changed one."""
    return f"base{base}" if number is None else f"base{base}/{number:03d}"


def nets_of(nets: Mapping[str, Net], base: int) -> list[Net]:
    """Return the changed networks of one base model, in order of their numbers."""
    return [net for name, net in sorted(nets.items()) if name.startswith(f"base{base}/")]


def bases_of(nets: Mapping[str, Net], facts) -> list[BaseModel]:
    """Return the base models from their networks and the table of facts beside them."""
    init = dict(zip(facts["base"].to_pylist(), facts["init_seed"].to_pylist(), strict=True))
    return [BaseModel(b, init[b], nets[net_name(b)]) for b in sorted(init)]


def balanced_accuracy(accepted: np.ndarray, y: np.ndarray) -> float:
    """Return the mean of sensitivity and specificity of hard labels [n]."""
    accepted = np.asarray(accepted, dtype=bool)
    return float((accepted[y == 1].mean() + (~accepted[y == 0]).mean()) / 2)


def base_stage(data: RecourseData, seeds: SeedPlan, settings: Mapping[str, Any]):
    """Train the base models and draw their requests.

    Args:
        data, seeds: the data set and the plan.
        settings: ``bases``, ``requests``, ``training``.

    Returns:
        networks by name; a table with a row a base model (base, init_seed, epochs, best_epoch,
        validation_loss, balanced_accuracy, n_refused, n_requests); a table of requests (base,
        row_id, position in the test part, proba).
    """
    import pyarrow as pa

    bases, trained = train_bases(
        data, seeds, settings["bases"], TrainSettings(**settings["training"])
    )
    X, y = data.X["test"], data.y["test"]
    facts, requests = [], []
    for base, done in zip(bases, trained, strict=True):
        accepted = base.net.accepts(X)
        drawn = draw_requests(data, base.net, seeds, base.number, limit=settings["requests"])
        facts.append(
            {
                "base": base.number,
                "init_seed": base.init_seed,
                "epochs": done.epochs,
                "best_epoch": done.best_epoch,
                "validation_loss": done.validation_loss,
                "balanced_accuracy": balanced_accuracy(accepted, y),
                "n_refused": int((~accepted).sum()),
                "n_requests": len(drawn),
            }
        )
        for row, place, p in zip(
            drawn.row_id, drawn.position, base.net.proba(drawn.X), strict=True
        ):
            requests.append(
                {"base": base.number, "row_id": int(row), "position": int(place), "proba": float(p)}
            )
    nets = {net_name(b.number): b.net for b in bases}
    return nets, pa.Table.from_pylist(facts), pa.Table.from_pylist(requests)


def bank_stage(
    family: ChangeFamily,
    data: RecourseData,
    bases: Sequence[BaseModel],
    seeds: SeedPlan,
    settings: Mapping[str, Any],
):
    """Make the changed models of one family and measure how far each is from its base model.

    Args:
        family: how models change.
        data, bases, seeds: the data set, its base models and the plan.
        settings: ``variants``, ``training``.

    Returns:
        networks by name, and a table with a row a changed model: base, number, family, level,
        replicate, hidden, seeds, epochs, best_epoch, validation_loss, balanced_accuracy,
        disagreement (share of test rows with another label) and probability_mae.
    """
    import pyarrow as pa

    from cfc.artifacts import canonical_json

    def progress(done: int) -> None:
        LOG.info("%s, %s: %d networks trained", data.dataset, family.name, done)

    changed = build_family(
        family,
        bases,
        data,
        seeds,
        count=settings["variants"],
        settings=TrainSettings(**settings["training"]),
        progress=progress,
    )
    X, y = data.X["test"], data.y["test"]
    own = {b.number: b.net.logits(X) for b in bases}
    nets, rows, counts = {}, [], dict.fromkeys(own, 0)
    for item, logits in zip(changed, logits_of([c.net for c in changed], X), strict=True):
        number = counts[item.base]
        counts[item.base] += 1
        nets[net_name(item.base, number)] = item.net
        before, done = own[item.base], item.trained
        moved = np.abs(sigmoid(logits).astype(np.float64) - sigmoid(before).astype(np.float64))
        rows.append(
            {
                "base": item.base,
                "number": number,
                "family": family.name,
                "level": item.variant.level,
                "replicate": item.variant.replicate,
                "hidden": "-".join(map(str, item.net.hidden)),
                "seeds": canonical_json(item.variant.seeds),
                "epochs": done.epochs if done else None,
                "best_epoch": done.best_epoch if done else None,
                "validation_loss": done.validation_loss if done else None,
                "balanced_accuracy": balanced_accuracy(logits >= 0, y),
                "disagreement": float(((logits >= 0) != (before >= 0)).mean()),
                "probability_mae": float(moved.mean()),
            }
        )
    return nets, pa.Table.from_pylist(rows, schema=_bank_schema())


def _bank_schema():
    import pyarrow as pa

    kinds = {
        "base": pa.int64(),
        "number": pa.int64(),
        "family": pa.string(),
        "level": pa.string(),
        "replicate": pa.int64(),
        "hidden": pa.string(),
        "seeds": pa.string(),
        "epochs": pa.int64(),
        "best_epoch": pa.int64(),
        "validation_loss": pa.float64(),
        "balanced_accuracy": pa.float64(),
        "disagreement": pa.float64(),
        "probability_mae": pa.float64(),
    }
    return pa.schema(list(kinds.items()))


def ensemble_stage(
    data: RecourseData,
    bases: Sequence[BaseModel],
    seeds: SeedPlan,
    settings: Mapping[str, Any],
) -> dict[str, Net]:
    """Train the voters of every base model; ``settings``: ``ensemble``, ``training``."""
    found = train_ensemble(
        data, seeds, bases, settings["ensemble"], TrainSettings(**settings["training"])
    )
    return {net_name(b, i): net for b, nets in found.items() for i, net in enumerate(nets)}


def generate_stage(
    method: type[Method],
    data: RecourseData,
    bases: Sequence[BaseModel],
    requests,
    seeds: SeedPlan,
    settings: Mapping[str, Any],
    ensemble: Mapping[str, Net] | None = None,
):
    """Tune a method where it has a grid, and ask it for a candidate of every request.

    Args:
        method: its class.
        data, bases, requests, seeds: the data set, base models, table of requests, plan.
        settings: ``params``, ``grid`` (parameter -> values; empty: no tuning),
            ``tuning_requests``, ``timed_requests``.
        ensemble: networks by name, for methods that vote.

    Returns:
        a table of candidates (base, row_id, status, x, remark); facts for JSON (``params``,
        ``tuning``, ``facts`` by base); times for JSON (``seconds`` a request, ``mode``,
        ``setup_seconds`` a base, ``alone_seconds`` of single requests).
    """
    import time

    import pyarrow as pa

    from cfc.artifacts import matrix_to_lists

    params, tuning = dict(settings["params"]), []
    parts, facts, times = [], [], {"mode": "batched" if method.is_batched else "single"}
    times |= {"seconds": [], "setup_seconds": [], "alone_seconds": [], "tuning_seconds": 0.0}
    for base in bases:
        voters = Stack(nets_of(ensemble, base.number)) if ensemble else None
        problem = Problem(data, base.number, base.net, seeds, ensemble=voters)
        if base.number == bases[0].number and settings["grid"]:
            start = time.perf_counter()
            params, tuning = tune(
                method, problem, params, settings["grid"], limit=settings["tuning_requests"]
            )
            times["tuning_seconds"] = time.perf_counter() - start
            LOG.info("%s, %s: tuned to %s", data.dataset, method.name, params)
        start = time.perf_counter()
        made = method(problem, params)
        times["setup_seconds"].append(time.perf_counter() - start)
        asked = requests_of(requests, base.number, data)
        found = candidates_of(made, asked)
        times["seconds"] += found.seconds.tolist()
        if method.is_batched and settings["timed_requests"]:
            problem.cache.clear()  # what the batch left behind would make single requests free
            times["alone_seconds"] += timed_alone(made, asked, settings["timed_requests"])
        facts += [
            {"base": base.number, "name": name, "value": None if np.isnan(value) else value}
            for name, value in made.facts().items()
        ]
        LOG.info(
            "%s, base %d: %s",
            data.dataset,
            base.number,
            {s: found.status.count(s) for s in sorted(set(found.status))},
        )
        parts.append(
            pa.table(
                {
                    "base": pa.array([base.number] * len(asked), type=pa.int64()),
                    "row_id": pa.array(asked.row_id),
                    "status": pa.array(found.status, type=pa.string()),
                    "x": matrix_to_lists(found.points, pa.float32()),
                    "remark": pa.array([r or None for r in found.remarks], type=pa.string()),
                }
            )
        )
    return (
        pa.concat_tables(parts),
        {"params": params, "tuning": tuning, "facts": facts},
        times,
    )


def requests_of(requests, base: int, data: RecourseData) -> Requests:
    """Return the requests of one base model from the table of all."""
    from cfc.artifacts import to_numpy

    own = to_numpy(requests.column("base")) == base
    position = to_numpy(requests.column("position"))[own]
    return Requests(data.X["test"][position], data.row_id["test"][position], position)


def evaluate_stage(
    data: RecourseData,
    bases: Sequence[BaseModel],
    requests,
    candidates: Mapping[str, Any],
    bank: Mapping[str, Mapping[str, Net]],
    *,
    neighbours: int = 10,
):
    """Ask every changed model about every candidate its base model accepts.

    Args:
        data, bases, requests: the data set, base models and table of requests.
        candidates: method -> table of candidates.
        bank: family -> changed networks by name.
        neighbours: accepted training rows in the plausibility distance.

    Returns:
        three tables. ``candidates``: method, base, row_id, status, distance, n_changed,
        plausibility. ``survival``: method, base, row_id, family, share, for valid candidates.
        ``models``: method, base, family, number, n_valid, n_accepted.
    """
    import pyarrow as pa

    from cfc.artifacts import lists_to_matrix, to_numpy

    parts: dict[str, list] = {"candidates": [], "survival": [], "models": []}
    for base in bases:
        asked = requests_of(requests, base.number, data)
        accepted = data.X["train"][base.net.accepts(data.X["train"])]
        for method, table in candidates.items():
            own = np.flatnonzero(to_numpy(table.column("base")) == base.number)
            points = lists_to_matrix(table.column("x"))[own]
            status = np.asarray(to_numpy(table.column("status")), dtype=str)[own]
            if not np.array_equal(to_numpy(table.column("row_id"))[own], asked.row_id):
                raise ValueError(
                    f"candidates of {method} for base {base.number} answer other requests; delete "
                    "them and rerun"
                )
            valid = status == "ok"
            parts["candidates"].append(
                _candidate_rows(method, base, asked, points, status, accepted, data, neighbours)
            )
            for family, nets in bank.items():
                survived = logits_of(nets_of(nets, base.number), points[valid]) >= 0
                n, k = survived.shape[1], len(survived)
                parts["survival"].append(
                    pa.table(
                        {
                            "method": pa.array([method] * n, type=pa.string()),
                            "base": pa.array([base.number] * n, type=pa.int64()),
                            "row_id": pa.array(asked.row_id[valid]),
                            "family": pa.array([family] * n, type=pa.string()),
                            "share": pa.array(survived.mean(axis=0)),
                        }
                    )
                )
                parts["models"].append(
                    pa.table(
                        {
                            "method": pa.array([method] * k, type=pa.string()),
                            "base": pa.array([base.number] * k, type=pa.int64()),
                            "family": pa.array([family] * k, type=pa.string()),
                            "number": pa.array(range(k), type=pa.int64()),
                            "n_valid": pa.array([n] * k, type=pa.int64()),
                            "n_accepted": pa.array(survived.sum(axis=1).astype(np.int64)),
                        }
                    )
                )
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}


def _candidate_rows(method, base, asked, points, status, accepted, data, neighbours):
    import pyarrow as pa

    n = len(asked)
    covered = np.isin(status, COVERED)
    distance, changed, plausible = np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan)
    if covered.any():
        distance[covered] = scaled_distance(points[covered], asked.X[covered], data.scale)
        changed[covered] = (points[covered] != asked.X[covered]).sum(axis=1)
        if len(accepted):
            k = min(neighbours, len(accepted))
            plausible[covered] = [
                np.sort(scaled_distance(accepted, np.broadcast_to(x, accepted.shape), data.scale))[
                    :k
                ].mean()
                for x in points[covered]
            ]

    def number(values):
        return pa.array(values, from_pandas=True)

    return pa.table(
        {
            "method": pa.array([method] * n, type=pa.string()),
            "base": pa.array([base.number] * n, type=pa.int64()),
            "row_id": pa.array(asked.row_id),
            "status": pa.array(status.tolist(), type=pa.string()),
            "distance": number(distance),
            "n_changed": number(changed),
            "plausibility": number(plausible),
        }
    )
