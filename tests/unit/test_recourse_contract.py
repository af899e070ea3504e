"""What every recourse method and change family must do, those of the documentation included."""

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import yaml
from recourse_toys import linear_net, random_net, refused, toy_data, toy_problem

from cfc.errors import ConfigError, DataError
from cfc.recourse.families import FAMILIES, BaseModel, Rows, build_family, get_family
from cfc.recourse.generate import (
    STATUSES,
    Requests,
    candidates_of,
    draw_requests,
    scaled_distance,
    timed_alone,
    tune,
)
from cfc.recourse.methods.base import Answer, Method, Param
from cfc.recourse.methods.registry import METHODS, get_method
from cfc.recourse.seeds import SeedPlan
from cfc.recourse.specs import TrainSettings

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
OWN = {"sparse": f"{EXAMPLES / 'sparse_recourse.py'}:SparseNeighbour"}
OWN_FAMILIES = {"pruned": f"{EXAMPLES / 'pruned_family.py'}:Pruned"}
CHEAP = {
    "apas": {"networks": 20, "copies": 2},
    "betarce": {"delta": 0.7},
    "rbr": {"samples": 30, "neighbours": 20},
    "roar_lime": {"samples": 300, "max_steps": 2000},
    "robx_balanced": {"samples": 50, "start_samples": 50},
    "robx_robust_first": {"samples": 50, "start_samples": 50},
    "wachter": {"lam": 0.01},
}


def asked(problem, count=4) -> Requests:
    X, ids = refused(problem, count)
    return Requests(X, ids, np.arange(len(X)))


def a_problem():
    return toy_problem(random_net(3, hidden=(8, 8), seed=1), toy_data(3), voters=8)


@pytest.mark.parametrize("name", [*METHODS, *OWN])
def test_methods_keep_the_contract(name):
    kind = get_method(name, OWN.get(name))
    assert (kind.name, bool(kind.title)) == (name, True)
    assert kind.__doc__
    assert all(param.problem(param.default) is None for param in kind.PARAMS.values())
    assert set(kind.GRID) <= set(kind.PARAMS)
    problem = a_problem()
    requests = asked(problem)
    before = requests.X.copy()
    method = kind(problem, CHEAP.get(name))
    found = candidates_of(method, requests)
    assert np.array_equal(requests.X, before)
    assert set(found.status) <= set(STATUSES) - {"error"}, found.remarks
    assert "ok" in found.status
    for point, status in zip(found.points, found.status, strict=True):
        assert np.isfinite(point).all() == (status in ("ok", "base_invalid"))
    # the same again, in another order and without company
    turned = Requests(requests.X[::-1], requests.row_id[::-1], requests.position[::-1])
    fresh = kind(a_problem(), CHEAP.get(name))
    again = candidates_of(fresh, turned)
    assert again.status[::-1] == found.status
    assert np.allclose(again.points[::-1], found.points, atol=1e-4, equal_nan=True)
    assert all(np.isscalar(v) for v in method.facts().values())
    with pytest.raises(
        ConfigError, match=f"parameters of method {name}.*\n.*unknown parameter 'x'"
    ):
        kind(problem, {"x": 1})


@pytest.mark.parametrize("name", [*FAMILIES, *OWN_FAMILIES])
def test_families_keep_the_contract(name):
    family = get_family(name, OWN_FAMILIES.get(name))
    assert (family.name, bool(family.title), bool(family.__doc__)) == (name, True, True)
    data, plan = toy_data(3, n=60), SeedPlan("independent", "diabetes")
    bases = [BaseModel(b, 10 + b, random_net(3, hidden=(32, 32), seed=b)) for b in range(2)]
    assert len(family.variants(bases[0], Rows.of(data), plan)) >= 25
    made = build_family(family, bases, data, plan, count=2, settings=TrainSettings(epochs=2))
    again = build_family(family, bases, data, plan, count=2, settings=TrainSettings(epochs=2))
    assert [c.base for c in made] == [0, 0, 1, 1]
    for one, other in zip(made, again, strict=True):
        assert np.array_equal(one.net.flat(), other.net.flat())
        own = bases[one.base].net
        assert one.net.n_features == 3
        assert one.net.hidden != own.hidden or not np.array_equal(one.net.flat(), own.flat())


def test_the_example_changes_few_features_and_none_that_is_fixed():
    # only the first feature counts, so the last of a row need not be copied with it
    problem = toy_problem(linear_net([3.0, 0.0, 0.0, 0.0], 0.0), toy_data(4))
    requests = asked(problem, 20)
    kind = get_method("sparse", OWN["sparse"])
    found = candidates_of(kind(problem), requests)
    assert found.status == ["ok"] * 20
    moved = (found.points != requests.X).sum(axis=1)
    full = candidates_of(get_method("kdtree")(problem), requests)
    assert moved.sum() < (full.points != requests.X).sum()
    problem.mutable[1] = False
    kept = candidates_of(kind(problem), requests)
    assert kept.status == ["ok"] * 20
    assert np.array_equal(kept.points[:, 1], requests.X[:, 1])
    # the only feature that counts is fixed
    assert candidates_of(kind(problem, {"fixed": 1}), requests).status == ["none"] * 20


def test_the_overlay_in_the_example_is_the_one_that_works():
    for file, section in (("sparse_recourse", "own_methods"), ("pruned_family", "own_families")):
        text = (EXAMPLES / f"{file}.py").read_text().split('"""')[1]
        overlay = yaml.safe_load(text[text.index("    recourse:") :])["recourse"]
        for name, path in overlay[section].items():
            assert (EXAMPLES.parents[1] / path.split(":")[0]).is_file()
            load = get_method if section == "own_methods" else get_family
            found = load(name, str(EXAMPLES.parents[1] / path))
            assert found.name == name


def test_unknown_and_unfit_classes_are_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="nearest known: wachter"):
        get_method("watcher")
    with pytest.raises(ConfigError, match="expected 'package"):
        get_method("mine", "nothing")
    file = tmp_path / "own.py"
    file.write_text(
        "from cfc.recourse.methods.base import Method\n"
        "class Half(Method):\n    name, title = 'half', 'Half'\n"
        "class Other:\n    pass\n"
    )
    with pytest.raises(ConfigError, match="does not define generate"):
        get_method("half", f"{file}:Half")
    with pytest.raises(ConfigError, match="must derive from"):
        get_method("half", f"{file}:Other")
    with pytest.raises(ConfigError, match="nearest known: Half"):
        get_method("half", f"{file}:Hlaf")
    with pytest.raises(ConfigError, match="cannot be imported"):
        get_method("half", f"{tmp_path / 'none.py'}:Half")


# --- bad answers ----------------------------------------------------------------------------------


class Awkward(Method):
    name, title = "awkward", "Awkward"
    is_batched = True
    PARAMS: ClassVar = {"how": Param("", "what goes wrong")}

    def generate(self, X, row_ids):
        how = self.params["how"]
        if how == "shape":
            return X[:, :1]
        if how == "raise":
            raise RuntimeError("no luck")
        if how == "write":
            X[:] = 0
        if how == "late":
            return Answer(np.full(X.shape, np.nan), [{"status": "timeout"}] * len(X))
        fill = {"nan": np.nan, "inf": np.inf, "refused": -50.0}
        if how in fill:
            return np.full(X.shape, fill[how])
        return X if how == "same" else np.full(X.shape, 50.0)


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("", "ok"),
        ("nan", "none"),
        ("same", "none"),
        ("inf", "non_finite"),
        ("shape", "error"),
        ("raise", "error"),
        ("refused", "base_invalid"),
        ("late", "timeout"),
        ("write", "ok"),
    ],
)
def test_bad_answers_are_failures_and_never_the_unchanged_request(how, status):
    problem = toy_problem(linear_net([1.0, 0.0], 0.0))
    requests = asked(problem)
    before = requests.X.copy()
    found = candidates_of(Awkward(problem, {"how": how}), requests)
    assert set(found.status) == {status}
    assert np.array_equal(requests.X, before)
    assert np.isnan(found.points).all() == (status not in ("ok", "base_invalid"))
    if status == "error":
        assert ("shape" if how == "shape" else "no luck") in found.remarks[0]


def test_one_request_that_raises_costs_one_candidate():
    problem = toy_problem(linear_net([1.0, 0.0], 0.0))
    requests = asked(problem)

    class Some(Awkward):
        def generate(self, X, row_ids):
            if requests.row_id[1] in row_ids:
                raise RuntimeError("this one")
            return np.full(X.shape, 50.0)

    found = candidates_of(Some(problem), requests)
    assert found.status == ["ok", "error", "ok", "ok"]
    assert "this one" in found.remarks[1]


def test_a_base_model_that_refuses_nobody_is_an_error_that_names_it():
    data = toy_data(2)
    with pytest.raises(DataError, match="base model 3 of breast_cancer accepts every test row"):
        draw_requests(data, linear_net([0.0, 0.0], 1.0), SeedPlan("parity", "diabetes"), 3)


@pytest.mark.parametrize("profile", ["independent", "parity"])
def test_requests_are_all_refused_rows_or_a_fixed_sample_of_them(profile):
    data, plan, net = toy_data(2, n=400), SeedPlan(profile, "diabetes"), linear_net([1.0, 0.0], 0.0)
    every = draw_requests(data, net, plan, 0)
    refused_rows = data.row_id["test"][data.X["test"][:, 0] < 0]
    assert np.array_equal(every.row_id, refused_rows)
    few = draw_requests(data, net, plan, 0, limit=10)
    assert len(set(few.row_id)) == 10
    assert set(few.row_id) <= set(refused_rows)
    assert np.array_equal(few.row_id, draw_requests(data, net, plan, 0, limit=10).row_id)
    assert not np.array_equal(few.row_id, draw_requests(data, net, plan, 1, limit=10).row_id)
    assert np.array_equal(data.X["test"][few.position], few.X)


class Tunable(Method):
    name, title = "tunable", "Tunable"
    is_batched = True
    PARAMS: ClassVar = {
        "far": Param(1.0, "where the candidate lies"),
        "skip": Param(0, "requests refused"),
    }

    def generate(self, X, row_ids):
        out = np.full(X.shape, self.params["far"])
        out[: self.params["skip"]] = np.nan
        return out


def test_tuning_ranks_by_validity_then_distance_then_order():
    problem = toy_problem(linear_net([1.0, 0.0], 0.0))
    params, records = tune(Tunable, problem, {}, {"skip": (1, 0), "far": (0.1, 5.0, 0.1)})
    assert params == {"skip": 0, "far": 0.1}
    assert [r["is_winner"] for r in records] == [False, False, False, True, False, False]
    refused_rows = (~problem.net.accepts(problem.data.X["validation"])).sum()
    assert records[0]["requests"] == min(25, refused_rows)
    assert records[0]["valid"] == records[3]["valid"] - 1
    params, records = tune(Tunable, problem, {}, {"far": (-3.0, -4.0)})
    assert params == {"far": -3.0}  # nothing is valid: the first of the grid
    assert records[0]["distance"] is None


def test_distance_is_the_mean_over_features_in_units_of_the_scale():
    X, scale = np.zeros((1, 4), dtype=np.float32), np.array([1.0, 2.0, 0.5, 1.0])
    points = np.array([[1.0, 1.0, -1.0, 0.0]], dtype=np.float32)
    assert scaled_distance(points, X, scale) == pytest.approx((1 + 0.5 + 2 + 0) / 4)


def test_single_requests_are_timed_for_a_sample():
    problem = toy_problem(linear_net([1.0, 0.0], 0.0))
    seconds = timed_alone(Tunable(problem), asked(problem), limit=3)
    assert len(seconds) == 3
    assert min(seconds) > 0
