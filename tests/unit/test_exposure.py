"""Value exposure: grids against counts, sums against loops, disjoint halves, joins."""

import math

import numpy as np
import pandas as pd
import pytest
from awkward_unit import SPEC, UNIT, awkward_unit
from unit import reference_cfc as reference

from cfc.artifacts import lists_to_matrix, to_numpy
from cfc.data.registry import FieldSpec
from cfc.errors import ArtifactError, CfcError, DataError
from cfc.exposure import ExposureGrid, expose, exposure_grid, field_points
from cfc.groups import Groups
from cfc.ranking import SCORES
from cfc.stages.exposure import expose_unit, halves_of_train, unit_grid
from cfc.stages.rank import rank_unit

NUMBER = FieldSpec("n", "numeric", markers=(-9.0, -8.0))
NAME = FieldSpec("c", "nominal")


@pytest.fixture(scope="module")
def unit():
    return awkward_unit()


@pytest.fixture(scope="module")
def grid(unit):
    return unit_grid(unit.prepared, unit.preprocessor, unit.table, 4, UNIT["seed"])


@pytest.fixture(scope="module")
def exposed(unit, grid):
    return expose_unit(
        unit.prepared, unit.model, unit.certificates, grid[0], clip=unit.clip, unit=UNIT
    )


# ---- points of one field


def test_quantiles_are_values_that_occur_and_states_of_absence_keep_their_share():
    # 8 present cells of 10; mid-quantiles at 1/8, 3/8, 5/8, 7/8 are the 1st, 3rd, 5th, 7th value
    cells = pd.Series([8.0, 1, 2, 3, 4, 5, 6, 7, -9, np.nan])
    values, weights = field_points(cells, NUMBER, 4)
    assert values[:5] == [1, 3, 5, 7, -9]
    assert math.isnan(values[5])
    assert weights == pytest.approx([0.2] * 4 + [0.1, 0.1])


def test_quantiles_by_brute_force():
    rng = np.random.default_rng(0)
    for n in (1, 3, 16, 17, 100):
        cells = rng.normal(size=n).round(1)
        values, weights = field_points(pd.Series(cells), NUMBER, 16)
        for i, value in enumerate(values):
            # inverted CDF: the smallest value with at least that share at or below it
            reached = [v for v in sorted(cells) if (cells <= v).mean() >= (i + 0.5) / 16 - 1e-12]
            assert value == reached[0]
        assert weights == pytest.approx(1 / 16)


def test_a_column_without_any_present_value_has_its_state_of_absence_only():
    values, weights = field_points(pd.Series([np.nan, np.nan]), NUMBER, 16)
    assert np.isnan(values).tolist() == [True]
    assert weights.tolist() == [1]
    values, weights = field_points(pd.Series([-8.0, -9, -8, -8]), NUMBER, 16)
    assert (values, weights.tolist()) == ([-9, -8], [0.25, 0.75])


def test_most_frequent_levels_missing_being_one_with_shares_renormalised():
    cells = pd.Series(["b", "a", "c", "b", None, None, "d", None], dtype=object)
    values, weights = field_points(cells, NAME, 3)
    # ties between a, c and d: text order
    assert values == [None, "b", "a"]
    assert weights == pytest.approx([3 / 6, 2 / 6, 1 / 6])


# ---- grids


def test_a_numeric_value_and_its_indicators_move_together(unit, grid):
    prepared, fitted = unit.prepared, unit.preprocessor
    index = prepared.groups.indices[prepared.groups.names.index("score")]
    points = grid[0].values[prepared.groups.names.index("score")]
    kinds = [fitted.coordinates[i].level for i in index]
    absent = {name: points[points[:, kinds.index(name)] == 1] for name in ("-9", "missing")}
    value = kinds.index(None)
    half = unit.table.iloc[prepared.row_id[prepared.half == 1]]["score"]
    train = unit.table.iloc[prepared.row_id[prepared.split == "train"]]["score"]
    median = train[train >= 0].median()
    filled = train.where(train >= 0, median)
    for name, rows in absent.items():
        assert len(rows) == 1
        # an absent value stands at the train median, and no other indicator is on
        assert rows[0, value] == pytest.approx((median - filled.mean()) / filled.std(ddof=0), 1e-5)
        assert rows[0].sum() - rows[0, value] == 1
        weight = grid[0].weights[prepared.groups.names.index("score")]
        share = (half == -9).mean() if name == "-9" else half.isna().mean()
        assert weight[points[:, kinds.index(name)] == 1] == pytest.approx(share)


def test_equal_points_are_merged(unit, grid):
    names = unit.prepared.groups.names
    for field in ("gone", "same"):  # all missing; constant
        assert len(grid[0].values[names.index(field)]) == 1
        assert grid[0].weights[names.index(field)] == pytest.approx([1])
    for values, weights in zip(grid[0].values, grid[0].weights, strict=True):
        assert len(np.unique(values, axis=0)) == len(values)
        assert weights.sum() == pytest.approx(1)
        assert (weights > 0).all()


def test_nominal_points_are_whole_levels(unit, grid):
    values = grid[0].values[unit.prepared.groups.names.index("job")]
    assert (values.sum(axis=1) == 1).all()
    assert len(values) == 4  # cook, pilot, unknown, missing


def test_a_group_of_several_fields_takes_vectors_that_occur_together():
    unit = awkward_unit("domain")
    grid, facts = unit_grid(unit.prepared, unit.preprocessor, unit.table, 4, UNIT["seed"])
    half = unit.prepared.X[unit.prepared.half == 1]
    for (_, index), values, weights in zip(
        unit.prepared.groups, grid.values, grid.weights, strict=True
    ):
        observed = {row.tobytes() for row in np.ascontiguousarray(half[:, index])}
        assert {row.tobytes() for row in values} <= observed
        # eight rows drawn, equal ones merged
        assert np.rint(weights * 8) == pytest.approx(weights * 8)
        assert len(weights) <= 8
    assert facts["grid_sizes"] == {
        n: len(w) for n, w in zip(unit.prepared.groups.names, grid.weights, strict=True)
    }


def test_the_grid_looks_at_no_row_the_stress_draws_from(unit, grid):
    stress, own = halves_of_train(unit.prepared)
    assert not set(stress) & set(own)
    assert set(stress) | set(own) == set(unit.prepared.row_id[unit.prepared.split == "train"])
    donors = unit.prepared.donors
    assert np.array_equal(donors, unit.prepared.X[stress])
    # change every row the stress may draw from: the grid stays
    changed = unit.table.copy()
    changed.loc[stress, "x"] = 1000.0
    changed.loc[stress, "job"] = "pilot"
    again, facts = unit_grid(unit.prepared, unit.preprocessor, changed, 4, UNIT["seed"])
    assert again.hash == grid[0].hash == facts["grid_hash"]
    assert facts["grid_half_hash"] != facts["stress_half_hash"]
    # change the other half: it does not
    changed = unit.table.copy()
    changed.loc[own, "x"] = 1000.0
    other, _ = unit_grid(unit.prepared, unit.preprocessor, changed, 4, UNIT["seed"])
    assert other.hash != grid[0].hash


def test_halves_that_overlap_or_leave_train_are_refused(unit):
    from dataclasses import replace

    doubled = replace(unit.prepared, row_id=np.zeros_like(unit.prepared.row_id))
    with pytest.raises(DataError, match="share rows"):
        halves_of_train(doubled)
    outside = unit.prepared.half.copy()
    outside[unit.prepared.split == "test"] = 1
    with pytest.raises(DataError, match="another split"):
        halves_of_train(replace(unit.prepared, half=outside))


def test_no_row_to_take_values_from():
    with pytest.raises(DataError, match="at least one training row"):
        exposure_grid(
            pd.DataFrame({"x": []}), Groups(("x",), ([0],), 1), [["x"]], {}, lambda t: t, seed=0
        )


# ---- sums


def test_sums_equal_loops_over_groups_and_values(unit, grid, exposed):
    table = exposed[0]
    prepared, model = unit.prepared, unit.model

    def one(row):
        return model.predict_proba(np.array([row], dtype=np.float32))[0].tolist()

    for position in range(0, table.num_rows, 3):
        x = prepared.X[table["case_id"][position].as_py()]
        p = one(x)
        own = reference.label_of(p)
        margin = reference.margin_of(p, own)
        total = squares = 0.0
        for g, index in enumerate(prepared.groups.indices):
            e = f = 0.0
            for value, weight in zip(grid[0].values[g], grid[0].weights[g], strict=True):
                state = x.copy()
                state[index] = value
                q = one(state)
                kappa = reference.collapse(margin, reference.margin_of(q, own))
                e += weight * kappa
                f += weight * (reference.label_of(q) != own)
                squares += weight * kappa**2
            assert table["e"][position].as_py()[g] == pytest.approx(e, rel=1e-9, abs=1e-12)
            assert table["f"][position].as_py()[g] == pytest.approx(f, abs=1e-12)
            total += e + f
        assert table["exposure"][position].as_py() == pytest.approx(total)
        assert table["root_square"][position].as_py() == pytest.approx(math.sqrt(squares))
        u = unit.certificates["u"][position].as_py()
        assert table["exposed_fds"][position].as_py() == pytest.approx(u + total)


def test_every_audited_case_is_exposed_and_rows_are_counted(unit, grid, exposed):
    table, timings = exposed
    assert table["case_id"].equals(unit.certificates["case_id"])
    assert timings["forward_rows"] == table.num_rows * (1 + grid[0].rows_per_case)
    assert (lists_to_matrix(table["f"]) <= 1 + 1e-12).all()
    # a group whose values are all alike exposes nothing
    for field in ("gone", "same"):
        g = unit.prepared.groups.names.index(field)
        assert (lists_to_matrix(table["e"])[:, g] == 0).all()


@pytest.mark.parametrize("chunk_bytes", [1, 5000, None])
def test_chunks_do_not_matter(unit, grid, exposed, chunk_bytes):
    X = unit.prepared.X[to_numpy(unit.certificates["case_id"])]
    found = expose(
        X, unit.prepared.groups, grid[0], unit.model.predict_proba, chunk_bytes=chunk_bytes
    )
    assert np.array_equal(found.total, to_numpy(exposed[0]["exposure"]))


def test_one_group_by_hand():
    # P(1) = sigmoid(x): margin of class 1 is x. x = 2; values 2, 1, -2: κ⁺ = 0, 1/2, 2; one flip
    def predict(rows):
        p = 1 / (1 + np.exp(-rows[:, 0].astype(np.float64)))
        return np.stack([1 - p, p], axis=1)

    grid = ExposureGrid(
        (np.array([[2], [1], [-2]], dtype=np.float32),), (np.array([0.5, 0.3, 0.2]),)
    )
    found = expose(np.array([[2.0]]), Groups(("x",), ([0],), 1), grid, predict)
    assert found.e[0] == pytest.approx([0.3 * 0.5 + 0.2 * 2])
    assert found.f[0] == pytest.approx([0.2])
    assert found.total == pytest.approx([0.75])
    assert found.root_square == pytest.approx([math.sqrt(0.3 * 0.25 + 0.2 * 4)])
    empty = expose(np.empty((0, 1)), Groups(("x",), ([0],), 1), grid, predict)
    assert empty.e.shape == (0, 1)
    with pytest.raises(CfcError, match="the grid has 1 groups"):
        expose(np.zeros((1, 2)), Groups(("a", "b"), ([0], [1]), 2), grid, predict)


# ---- the rank stage


def test_scores_join_the_ranking_in_both_signs(unit, exposed):
    plain = rank_unit(unit.certificates, unit.clip)
    joined = rank_unit(
        unit.certificates, unit.clip, exposed[0].take(list(range(len(exposed[0])))[::-1])
    )
    assert joined.select(plain.column_names).equals(plain)
    added = [n for n in joined.column_names if n not in plain.column_names]
    assert added == [
        f"{s}_{sign}" for s in ("exposure", "exposed_fds") for sign in ("paper", "risk")
    ]
    for sign in ("paper", "risk"):
        assert np.array_equal(
            to_numpy(joined[f"exposed_fds_{sign}"]), to_numpy(exposed[0]["exposed_fds"])
        )
    assert len(plain.column_names) == 4 + 2 * (len(SCORES) + 1)  # and max δ of one removal


def test_an_exposure_that_lacks_cases_is_refused(unit, exposed):
    with pytest.raises(ArtifactError, match="lacks certified cases"):
        rank_unit(unit.certificates, unit.clip, exposed[0].slice(1))
    with pytest.raises(ArtifactError, match="different cases"):
        rank_unit(unit.certificates.slice(1), unit.clip, exposed[0])


def test_fields_of_the_awkward_set_are_all_in_the_grid(grid):
    assert list(grid[1]["grid_sizes"]) == list(SPEC.field_names)


def test_one_group_of_everything(unit):
    from dataclasses import replace

    d = unit.prepared.X.shape[1]
    single = replace(
        unit.prepared, groupings={"one": Groups(("all",), (np.arange(d),), d)}, grouping="one"
    )
    grid, _ = unit_grid(single, unit.preprocessor, unit.table, 4, UNIT["seed"])
    assert len(grid.weights[0]) == 8
    table, _ = expose_unit(single, unit.model, unit.certificates, grid, clip=unit.clip, unit=UNIT)
    # every state is a training row whatever the case: the share of changed labels is that of rows
    share = lists_to_matrix(table["f"])[:, 0]
    labels = unit.model.predict_proba(grid.values[0]).argmax(axis=1)
    own = to_numpy(unit.certificates["predicted"])
    expected = [(grid.weights[0] * (labels != label)).sum() for label in own]
    assert share == pytest.approx(expected)
