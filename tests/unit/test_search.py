"""Exact and beam search against plain loops over all subsets, and their table by hand."""

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from cfc.certificate import certify
from cfc.errors import CfcError
from cfc.evaluate import EvaluationSettings
from cfc.groups import Groups
from cfc.protocol import Protocol
from cfc.search import exact_depth, group_names, search_flips, subset_count
from cfc.stages.search import sample_confident, search_rows
from cfc.tables import build_table
from cfc.tables.base import TableContext, pick

D = 9
GROUPS = Groups(list("abcdef"), [[0, 1], [2], [3, 4], [5], [6, 7], [8]], D)
BASELINE = np.linspace(-0.3, 0.4, D).astype(np.float32)


def model(seed, n_classes=3):
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(D, 8))
    second = rng.normal(size=(8, n_classes))

    def predict(X):
        # sums a row at a time: the same numbers in any batch
        hidden = np.stack([np.tanh((X * first[:, j]).sum(axis=1)) for j in range(8)], axis=1)
        z = np.stack([(hidden * second[:, c]).sum(axis=1) for c in range(n_classes)], axis=1)
        p = np.exp(z - z.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    return predict


def rows(n=40, seed=1):
    return np.random.default_rng(seed).normal(size=(n, D)).astype(np.float32)


def flipping_sets(x, predict, size):
    """Every set of that size that flips, in lexicographic order, asked one row at a time."""
    own = predict(x[None]).argmax()
    found = []
    for chosen in combinations(range(len(GROUPS)), size):
        state = x.copy()
        for g in chosen:
            state[GROUPS.indices[g]] = BASELINE[GROUPS.indices[g]]
        if predict(state[None]).argmax() != own:
            found.append(chosen)
    return found


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("depth", [1, 3, 6])
def test_exact_search_is_brute_force(n_classes, depth):
    predict, X = model(0, n_classes), rows()
    result = search_flips(X, GROUPS, BASELINE, predict, depth=depth, limit=5)
    assert result.exact_depth == min(depth, 5)
    for i, x in enumerate(X):
        for size in range(1, min(depth, 5) + 1):
            if found := flipping_sets(x, predict, size):
                assert (result.k_exact[i], result.exact_set[i]) == (size, found[0])
                break
        else:
            assert (result.k_exact[i], result.exact_set[i]) == (min(depth, 5) + 1, ())
    assert len(set(result.k_exact.tolist())) > 1


def test_a_beam_that_keeps_everything_is_exact():
    predict, X = model(3), rows()
    result = search_flips(X, GROUPS, BASELINE, predict, depth=6, limit=6, width=100)
    assert result.k_beam.tolist() == result.k_exact.tolist()
    for i, x in enumerate(X):
        if result.beam_set[i]:
            assert result.beam_set[i] in flipping_sets(x, predict, result.k_beam[i])


@pytest.mark.parametrize("width", [1, 2, 10])
def test_searches_bound_each_other(width):
    predict, X = model(5), rows(60)
    result = search_flips(X, GROUPS, BASELINE, predict, depth=6, limit=6, width=width)
    path = certify(X, GROUPS, BASELINE, predict, Protocol(depth=6))
    greedy = certify(X, GROUPS, BASELINE, predict, Protocol(depth=6, order="greedy"))
    assert (result.k_beam >= result.k_exact).all()
    assert (path.flip_budget >= result.k_exact).all()
    assert (greedy.flip_budget >= result.k_exact).all()
    if width == 1:  # the re-evaluated greedy path, but that any candidate counts
        assert (result.k_beam <= greedy.flip_budget).all()


def test_a_pair_the_path_misses():
    # the label turns when both b and d are gone, or three others; a costs most alone
    weights = {0: 3.0, 1: 0.1, 3: 0.1}

    def predict(X):
        gone = [(X[:, index] == BASELINE[index]).all(axis=1) for index in GROUPS.indices]
        z = 4.0 - sum(w * gone[g] for g, w in weights.items()) - 6.0 * (gone[1] & gone[3])
        p = 1 / (1 + np.exp(-z))
        return np.stack([p, 1 - p], axis=1)

    X = rows(3)
    result = search_flips(X, GROUPS, BASELINE, predict, depth=6, limit=5)
    path = certify(X, GROUPS, BASELINE, predict, Protocol(depth=6))
    assert result.k_exact.tolist() == [2, 2, 2]
    assert result.exact_set == [(1, 3)] * 3
    assert result.beam_set == [(1, 3)] * 3
    assert path.flip_budget.tolist() == [3, 3, 3]
    assert group_names([(1, 3), ()], GROUPS.names) == [["b", "d"], None]


@pytest.mark.parametrize("chunk_bytes", [1, 4 * D * 7, 1 << 20])
def test_chunks_do_not_matter(chunk_bytes):
    predict, X = model(7), rows(15)
    whole = search_flips(X, GROUPS, BASELINE, predict, depth=6)
    cut = search_flips(X, GROUPS, BASELINE, predict, depth=6, chunk_bytes=chunk_bytes)
    assert cut.k_exact.tolist() == whole.k_exact.tolist()
    assert (cut.exact_set, cut.beam_set) == (whole.exact_set, whole.beam_set)
    one = search_flips(X[4:5], GROUPS, BASELINE, predict, depth=6)
    assert (one.exact_set[0], one.beam_set[0]) == (whole.exact_set[4], whole.beam_set[4])


def test_ties_of_the_margin_go_to_the_lowest_groups():
    def constant(X):
        return np.tile([0.8, 0.2], (len(X), 1))

    def flips_without_three(X):
        gone = np.stack([(X[:, i] == BASELINE[i]).all(axis=1) for i in GROUPS.indices]).sum(axis=0)
        return np.where((gone >= 3)[:, None], [0.4, 0.6], [0.8, 0.2])

    result = search_flips(rows(2), GROUPS, BASELINE, constant, depth=6)
    assert result.k_exact.tolist() == [6, 6]
    assert result.k_beam.tolist() == [7, 7]
    result = search_flips(rows(2), GROUPS, BASELINE, flips_without_three, depth=6, width=2)
    assert result.beam_set == [(0, 1, 2)] * 2


def test_feasibility_is_a_count_of_subsets():
    assert subset_count(14, 5) == 14 + 91 + 364 + 1001 + 2002
    assert exact_depth(14, 10, limit=5, most_subsets=20_000) == 5
    assert exact_depth(19, 10, limit=5, most_subsets=20_000) == 5
    assert exact_depth(20, 10, limit=5, most_subsets=20_000) == 0
    assert exact_depth(61, 10, limit=5, most_subsets=20_000) == 0
    assert exact_depth(3, 10, limit=5, most_subsets=7) == 3
    assert exact_depth(1, 1, limit=5, most_subsets=1) == 1


def test_many_groups_leave_the_beam_only():
    groups = Groups([f"g{i}" for i in range(70)], [[i] for i in range(70)], 70)

    def predict(X):
        p = 1 / (1 + np.exp(-(X.sum(axis=1) - 65.5)))
        return np.stack([1 - p, p], axis=1)

    result = search_flips(
        np.ones((2, 70)), groups, np.zeros(70, dtype=np.float32), predict, depth=10
    )
    assert result.exact_depth == 0
    assert result.k_exact.tolist() == [0, 0]
    assert result.k_beam.tolist() == [5, 5]
    assert result.beam_set[0] == (0, 1, 2, 3, 4)


def test_one_group_no_case_and_bad_input():
    one = Groups(["all"], [list(range(D))], D)
    result = search_flips(rows(5), one, BASELINE, model(0), depth=10)
    assert result.exact_depth == 1
    assert set(result.k_exact.tolist()) <= {1, 2}
    assert result.k_beam.tolist() == result.k_exact.tolist()
    none = search_flips(rows(0), GROUPS, BASELINE, model(0), depth=10)
    assert (len(none.k_exact), none.exact_set, none.rows) == (0, [], 0)
    with pytest.raises(CfcError, match="do not fit together"):
        search_flips(rows(2)[:, :4], GROUPS, BASELINE, model(0), depth=2)
    with pytest.raises(CfcError, match="at least 1"):
        search_flips(rows(2), GROUPS, BASELINE, model(0), depth=2, width=0)


def test_the_sample_does_not_hang_on_the_order_of_the_file():
    table = pa.table({"case_id": np.arange(50) * 3, "confidence": np.linspace(0.8, 0.99, 50)})
    chosen = sample_confident(table, 0.9, 10, 0, "search")
    order = np.random.default_rng(0).permutation(50)
    mixed = table.take(pa.array(order))
    again = sample_confident(mixed, 0.9, 10, 0, "search")
    first = set(table.take(pa.array(chosen))["case_id"].to_pylist())
    assert first == set(mixed.take(pa.array(again))["case_id"].to_pylist())
    assert len(first) == 10
    assert len(sample_confident(table, 0.98, 10, 0, "search")) == 3


# --- metrics and table, by hand ----------------------------------------------------------------


def cases(dataset, k_static, k_greedy, k_exact, k_beam, exact=3):
    """A search file at K = 5 with the exact search to 3 groups, or none."""
    n = len(k_static)
    held = exact is not None
    return pa.table(
        {
            "dataset": [dataset] * n,
            "model": ["m"] * n,
            "seed": [0] * n,
            "case_id": list(range(n)),
            "exact_depth": pa.array([exact] * n, pa.int16()),
            "exact_reason": pa.array([None if held else "too many"] * n, pa.string()),
            "k_static": pa.array(k_static, pa.int16()),
            "k_greedy": pa.array(k_greedy, pa.int16()),
            "k_exact": pa.array(k_exact if held else [None] * n, pa.int16()),
            "k_beam": pa.array(k_beam, pa.int16()),
        }
    )


SMALL = cases(
    "small", [1, 3, 5, 6, 2, 3], [1, 2, 4, 6, 2, 4], [1, 2, 4, 4, 2, 2], [1, 2, 4, 6, 2, 2]
)
LARGE = cases("large", [1, 4], [1, 3], None, [1, 3], exact=None)


def values(table, unit):
    frame = search_rows(table, unit).to_pandas()
    return {
        (row.score, row.metric): (row.value, row.n, row.reason)
        for row in frame.fillna({"score": ""}).itertuples()
    }


def test_metrics_by_hand():
    found = values(SMALL, ("small", "m", 0))
    # capped at 4, "more than three": the third case, 5 against 4, agrees; so does the fourth
    assert found["static", "exact_match"][0] == pytest.approx(4 / 6)
    assert found["static", "greedy_over"][0] == pytest.approx(2 / 6)
    assert found["static", "mean_gap"][0] == pytest.approx(2 / 6)
    assert found["static", "mean_positive_gap"][:2] == (1.0, 2)
    assert found["static", "pair_miss"][0] == pytest.approx(2 / 6)
    assert found["greedy", "greedy_over"][0] == pytest.approx(1 / 6)
    assert found["greedy", "mean_gap"][0] == pytest.approx(2 / 6)
    assert found["", "exact_flip"][0] == pytest.approx(4 / 6)
    assert found["", "exact_pair"][0] == pytest.approx(3 / 6)
    assert found["static", "exact_match_given_flip"][:2] == (0.5, 4)
    assert found["static", "pair_miss_given_pair"][:2] == (pytest.approx(2 / 3), 3)
    assert found["static", "beam_improve"][0] == pytest.approx(3 / 6)
    assert found["greedy", "beam_improve"][0] == pytest.approx(1 / 6)
    assert found["greedy", "beam_worse"][0] == 0
    assert found["static", "beam_improve_larger"][2].startswith("exact search is made")


def test_an_infeasible_unit_has_beam_metrics_and_reasons():
    found = values(LARGE, ("large", "m", 0))
    assert np.isnan(found["static", "exact_match"][0])
    assert found["static", "exact_match"][2] == "too many"
    assert found["", "exact_flip"][2] == "too many"
    assert found["static", "beam_improve_larger"][:2] == (0.5, 2)
    empty = values(SMALL.slice(0, 0), ("small", "m", 0))
    assert empty["static", "exact_match"][2] == "no high-confidence case"
    assert empty["static", "beam_improve"][2] == "no high-confidence case"


def test_the_smallest_pair_is_not_a_pair_where_search_stops_at_one():
    found = values(cases("s", [2, 1], [2, 1], [2, 1], [2, 1], exact=1), ("s", "m", 0))
    assert found["", "exact_pair"][0] == 0
    assert found["", "exact_flip"][0] == 0.5
    assert found["static", "exact_match"][0] == 1


def test_the_table_pools_cases_and_averages_units():
    second = cases("small", [2, 2], [2, 2], [1, 2], [1, 2])
    rows_ = pa.concat_tables(
        [
            search_rows(SMALL, ("small", "m", 0)),
            search_rows(second, ("small", "m", 1)),
            search_rows(LARGE, ("large", "m", 0)),
        ]
    )
    expected = [("small", "m", 0), ("small", "m", 1), ("large", "m", 0), ("large", "m", 1)]
    result = build_table(
        "search_gap", rows_, expected, EvaluationSettings(), TableContext("r", "p")
    )
    over = pick(result.data, metric="greedy_over", score="static")
    pooled = pick(over, level="pooled").iloc[0]
    assert (pooled["value"], pooled["n"], pooled["n_positive"]) == (pytest.approx(3 / 8), 8, 3)
    assert pick(over, level="aggregate")["value"].item() == pytest.approx((2 / 6 + 1 / 2) / 2)
    match = pick(result.data, metric="exact_match", score="static", level="pooled").iloc[0]
    assert match["value"] + pooled["value"] == pytest.approx(1)
    larger = pick(result.data, metric="beam_improve_larger", score="static", level="pooled")
    assert (larger["value"].item(), larger["n"].item()) == (0.5, 2)
    text = result.displays[0][1].to_string()
    assert "0.375 (n = 8)" in text
    assert any("large/m/1" in note for note in result.notes)
    assert any("too many" in note for note in result.notes)
