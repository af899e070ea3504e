"""Stage search: exact and beam search on a sample of a unit's confident audited cases."""

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from cfc.artifacts import to_numpy
from cfc.certificate import certify
from cfc.evaluate import metric_row, metric_table
from cfc.models.base import Model
from cfc.prepared import Prepared
from cfc.protocol import Protocol
from cfc.search import SearchResult, group_names, search_flips
from cfc.seeding import generator

logger = logging.getLogger(__name__)
ORDERS = ("static", "greedy")


def sample_confident(
    certificates: pa.Table, threshold: float, most: int, seed: int, purpose: str
) -> np.ndarray:
    """Return positions of a seeded sample of confident audited cases, ascending.

    Args:
        certificates: table of the certify stage.
        threshold: lowest confidence p̂ of a case.
        most: size of the sample; all there are, if fewer.
        seed: root seed of the unit.
        purpose: name of the random stream.
    """
    held = np.flatnonzero(to_numpy(certificates["confidence"]) >= threshold)
    if len(held) > most:
        # by case number, so that the sample does not hang on the order of the file
        held = held[np.argsort(to_numpy(certificates["case_id"])[held], kind="stable")]
        held = generator(seed, purpose).choice(held, size=most, replace=False)
    return np.sort(held)


def search_unit(
    prepared: Prepared,
    model: Model,
    certificates: pa.Table,
    protocol: Protocol,
    config: Mapping[str, Any],
    *,
    clip: float,
    unit: Mapping[str, Any],
) -> tuple[pa.Table, dict[str, Any]]:
    """Search the smallest flipping sets of one unit.

    Args:
        prepared: matrix, groups, baselines.
        model: the fitted model.
        certificates: table of the certify stage.
        protocol: what is declared.
        config: ``cases``, ``threshold``, ``exact_depth``, ``exact_subsets``, ``beam_width``.
        clip: lower bound of a probability for this model.
        unit: ``dataset``, ``model`` and ``seed``.

    Returns:
        one row a case; timings and counts.
    """
    chosen = sample_confident(
        certificates, config["threshold"], config["cases"], unit["seed"], "search"
    )
    cases = certificates.take(pa.array(chosen))
    case_ids = to_numpy(cases["case_id"])
    X = prepared.X[case_ids]
    baseline = prepared.baseline(protocol.baseline)
    logger.info("%d cases, %d groups", len(X), len(prepared.groups))
    start = time.perf_counter()
    found = search_flips(
        X,
        prepared.groups,
        baseline,
        model.predict_proba,
        depth=protocol.depth,
        limit=config["exact_depth"],
        most_subsets=config["exact_subsets"],
        width=config["beam_width"],
        clip=clip,
        progress=logger.info,
    )
    budgets, rows, model_seconds = {}, found.rows, found.model_seconds
    for order in ORDERS:
        if order == protocol.order:
            budgets[order] = to_numpy(cases["flip_budget"])
            continue
        # one operator whose states lie on the path: no forward row beside the path's own
        other = replace(protocol, order=order, operators=("prefix",), severities=(1.0,))
        path = certify(X, prepared.groups, baseline, model.predict_proba, other, clip=clip)
        budgets[order] = path.flip_budget
        rows += path.rows_per_case * len(X) + 1
        model_seconds += path.model_seconds
    table = _table(found, cases, budgets, prepared.groups.names, protocol, config)
    timings = {
        "seconds": time.perf_counter() - start,
        "model_seconds": model_seconds,
        "forward_rows": rows,
        "cases": len(X),
    }
    return table, timings


def _table(
    found: SearchResult, cases: pa.Table, budgets, names, protocol: Protocol, config
) -> pa.Table:
    n = len(cases)
    feasible = found.exact_depth > 0
    reason = None
    if not feasible:
        reason = (
            f"{found.n_subsets} subsets of {len(names)} groups, more than "
            f"{config['exact_subsets']}: exact search not made"
        )
    nowhere = np.full(n, not feasible)
    groups = pa.list_(pa.string())
    return pa.table(
        {
            **{name: cases[name] for name in ("dataset", "model", "seed", "case_id", "confidence")},
            "n_groups": np.full(n, len(names), dtype=np.int16),
            "depth": np.full(n, min(protocol.depth, len(names)), dtype=np.int16),
            "n_subsets": np.full(n, found.n_subsets, dtype=np.int64),
            "exact_depth": pa.array(np.full(n, found.exact_depth, dtype=np.int16), mask=nowhere),
            "exact_reason": pa.array([reason] * n, pa.string()),
            **{f"k_{order}": budgets[order].astype(np.int16) for order in ORDERS},
            "k_exact": pa.array(found.k_exact, mask=nowhere),
            "exact_set": pa.array(group_names(found.exact_set, names), groups),
            "k_beam": found.k_beam,
            "beam_set": pa.array(group_names(found.beam_set, names), groups),
        }
    )


def search_rows(table: pa.Table, unit: tuple[str, str, int]) -> pa.Table:
    """Return the metrics of one unit (paper, eq. 23-27), family ``search``, score = the order.

    Where the exact search stops at D < K groups, both k* and k_exact are read with "more than D"
    as one value, D + 1: the audit is compared as one of depth D. Then k* >= k_exact in every case,
    ``exact_match`` + ``greedy_over`` = 1, and the gaps are lower bounds of those at depth K.

    Args:
        table: what `search_unit` returned.
        unit: (dataset, model, seed).
    """
    n = table.num_rows
    reasons = table["exact_reason"].to_pylist()
    missing = "no high-confidence case" if not n else reasons[0]
    exact = to_numpy(table["k_exact"]).astype(np.float64)
    cap = to_numpy(table["exact_depth"]).astype(np.float64) + 1
    beam = to_numpy(table["k_beam"]).astype(np.int64)
    rows = list(_flip_rows(exact, cap, n, missing))
    for order in ORDERS:
        k = to_numpy(table[f"k_{order}"]).astype(np.int64)
        rows += _order_rows(order, k, exact, cap, n, missing)
        for metric, hit in (("beam_improve", beam < k), ("beam_worse", beam > k)):
            rows.append(_share(metric, order, hit, "no high-confidence case"))
        if missing is None:
            kept, why = np.zeros(0, dtype=bool), "exact search is made on every case of this unit"
        else:
            kept, why = beam < k, "no high-confidence case"
        rows.append(_share("beam_improve_larger", order, kept, why))
    return metric_table(rows, unit)


def _share(metric: str, order: str, hit: np.ndarray, reason: str | None) -> dict[str, Any]:
    value = hit.mean() if len(hit) else np.nan
    return metric_row(
        "search", metric, value, len(hit), n_positive=hit.sum(), reason=reason, score=order
    )


def _flip_rows(exact, cap, n, missing) -> Iterator[dict[str, Any]]:
    known = np.zeros(0, dtype=bool) if missing else exact < cap
    yield _share("exact_flip", "", known, missing)
    pairs = known & (exact == 2) if not missing else known
    yield _share("exact_pair", "", pairs, missing)


def _order_rows(order, k, exact, cap, n, missing) -> list[dict[str, Any]]:
    if missing:
        gap, has_flip, pair = np.zeros(0), np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
        k = exact = gap
    else:
        k = np.minimum(k, cap)
        gap, has_flip = k - exact, exact < cap
        pair = has_flip & (exact == 2)
    none = missing or "no case with a flip within the depth of the exact search"
    no_pair = missing or "no case whose smallest flipping set is a pair"
    no_gap = missing or "k* equals the exact value in every case"
    over = gap > 0
    return [
        _share("exact_match", order, gap == 0, missing),
        _share("greedy_over", order, over, missing),
        _mean("mean_gap", order, gap, missing),
        _mean("mean_positive_gap", order, gap[over], no_gap),
        _share("pair_miss", order, pair & (k > 2), missing),
        _share("exact_match_given_flip", order, (gap == 0)[has_flip], none),
        _share("greedy_over_given_flip", order, over[has_flip], none),
        _mean("mean_gap_given_flip", order, gap[has_flip], none),
        _share("pair_miss_given_pair", order, (k > 2)[pair], no_pair),
    ]


def _mean(metric: str, order: str, values: np.ndarray, reason: str | None) -> dict[str, Any]:
    value = values.mean() if len(values) else np.nan
    return metric_row("search", metric, value, len(values), reason=reason, score=order)
