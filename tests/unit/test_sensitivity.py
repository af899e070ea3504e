"""Variants of the protocol against certificates made directly; config checks; no-case units."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from awkward_unit import UNIT, awkward_unit

from cfc.artifacts import matrix_to_lists
from cfc.calibration import tempered
from cfc.certificate import certify
from cfc.config import _sensitivity_problems
from cfc.errors import ConfigError
from cfc.protocol import Protocol
from cfc.scores import EPSILON
from cfc.stages.sensitivity import FIELDS, variant_protocol, vary_unit

CONFIG = {
    "cases": 1000,
    "threshold": 0.6,
    "variants": {
        "flip_heavy": {"weights": [0.2, 0.6, 0.2]},
        "depth_2": {"depth": 2},
        "depth_15": {"depth": 15},
        "greedy_order": {"order": "greedy"},
        "prefix": {"operators": ["prefix"]},
        "noisy": {"operators": ["top1", "sign_noise"]},
        "unsigned_margin": {"margin": "unsigned"},
    },
    "baselines": ["mean", "zero", "mode"],
    "groupings": ["raw_origin", "domain", "elsewhere"],
}


def predictions_of(made):
    prepared = made.prepared
    return pa.table(
        {
            "split": pa.array(prepared.split, pa.string()),
            "label": prepared.y,
            "proba": matrix_to_lists(made.model.predict_proba(prepared.X)),
        }
    )


def vary(made, **changes):
    config = {**CONFIG, **changes}
    return vary_unit(
        made.prepared,
        made.model,
        made.certificates,
        predictions_of(made),
        made.protocol,
        config,
        clip=made.clip,
        unit=UNIT,
    )


@pytest.fixture(scope="module")
def made():
    return awkward_unit()


@pytest.fixture(scope="module")
def varied(made):
    table, timings = vary(made)
    return table.to_pandas(), timings


def direct(made, protocol, groups=None, baseline=None, predict=None):
    ids = made.certificates.to_pandas().query("confidence >= 0.6")["case_id"].to_numpy()
    prepared = made.prepared
    return certify(
        prepared.X[ids],
        groups or prepared.groups,
        prepared.baseline(baseline or protocol.baseline),
        predict or made.model.predict_proba,
        protocol,
        case_ids=ids,
        noise_scale=prepared.noise_scale,
    )


def test_the_default_is_the_record(made, varied):
    table, _ = varied
    default = table[table["variant"] == "default"]
    record = made.certificates.to_pandas().query("confidence >= 0.6")
    assert default["case_id"].tolist() == record["case_id"].tolist()
    for name in ("u", "fds", "rcma", "flip_budget"):
        assert default[name].tolist() == pytest.approx(record[name].tolist())
    delta = np.stack(record["delta"])
    size = record["margin"].abs() + EPSILON
    assert default["one_step_relative"].tolist() == pytest.approx((delta.max(1) / size).tolist())
    total = delta.max(1) + np.where(delta > 0, delta, 0).sum(1)
    assert default["one_step_sum"].tolist() == pytest.approx((total / size).tolist())


@pytest.mark.parametrize("name", CONFIG["variants"])
def test_each_variant_is_a_certificate_of_its_protocol(made, varied, name):
    table, _ = varied
    own = table[table["variant"] == name]
    result = direct(made, replace(made.protocol, **CONFIG["variants"][name]))
    assert own["u"].tolist() == pytest.approx(result.u.tolist())
    assert own["flip_budget"].tolist() == result.flip_budget.tolist()
    assert own["rcma"].tolist() == pytest.approx(result.rcma.tolist())


@pytest.mark.parametrize("grouping", ["raw_origin", "domain"])
@pytest.mark.parametrize("baseline", ["mean", "zero", "mode"])
def test_each_cell_of_the_grid(made, varied, grouping, baseline):
    table, _ = varied
    own = table[table["variant"] == f"{grouping}/{baseline}"]
    result = direct(made, made.protocol, made.prepared.groupings[grouping], baseline)
    assert own["u"].tolist() == pytest.approx(result.u.tolist())
    if grouping == "raw_origin":  # the grouping in use
        same = table[table["variant"] == f"in_use/{baseline}"]
        assert same["u"].tolist() == own["u"].tolist()


def test_an_undeclared_grouping_has_no_cell(varied):
    assert not varied[0]["variant"].str.startswith("elsewhere").any()


def test_tempering_is_a_tempered_model(made, varied):
    table, timings = varied
    temperature = timings["temperature"]
    assert temperature > 0
    assert abs(temperature - 1) > 0.1  # a random model is far from calibrated: the test bites

    def predict(X):
        return tempered(made.model.predict_proba(X), temperature)

    own = table[table["variant"] == "tempered"]
    result = direct(made, made.protocol, predict=predict)
    assert own["u"].tolist() == pytest.approx(result.u.tolist(), rel=1e-6)
    assert own["flip_budget"].tolist() == result.flip_budget.tolist()
    assert own["one_step_sum"].tolist() == pytest.approx(
        ((result.delta.max(1) + np.maximum(0, result.delta).sum(1)) / result.margin).tolist(),
        rel=1e-6,
    )
    default = table[table["variant"] == "default"]
    assert own["u"].to_numpy() == pytest.approx(default["u"].to_numpy(), rel=1e-5)


def test_what_the_record_answers_asks_the_model_nothing(made):
    made.model.asked = 0
    predictions = predictions_of(made)
    made.model.asked = 0
    _, timings = vary_unit(
        made.prepared,
        made.model,
        made.certificates,
        predictions,
        made.protocol,
        {**CONFIG, "variants": {"w": {"weights": [1, 0, 0]}}, "baselines": [], "groupings": []},
        clip=made.clip,
        unit=UNIT,
    )
    assert (made.model.asked, timings["forward_rows"]) == (0, 0)


def test_equal_cells_are_certified_once(made):
    _, once = vary(made, variants={}, groupings=["raw_origin"], baselines=["zero"])
    _, twice = vary(made, variants={}, groupings=["raw_origin", "raw_origin"], baselines=["zero"])
    assert once["forward_rows"] == twice["forward_rows"] > 0


def test_the_sample_is_bounded(made):
    table, timings = vary(made, cases=7)
    assert timings["cases"] == 7
    assert set(table.to_pandas().groupby("variant").size()) == {7}


def test_a_unit_without_a_confident_case(made):
    table, timings = vary(made, threshold=0.9999999)
    assert (table.num_rows, timings["cases"]) == (0, 0)
    assert set(FIELDS) <= set(table.column_names)


def test_a_wrong_variant_is_named():
    with pytest.raises(ConfigError, match="deepth"):
        variant_protocol(Protocol(), "x", {"deepth": 3})
    with pytest.raises(ConfigError, match="severities"):
        variant_protocol(Protocol(), "x", {"severities": [0, 0.5]})
    with pytest.raises(ConfigError, match="weights"):
        variant_protocol(Protocol(), "x", {"weights": [0, 0, 0]})


def test_the_configuration_is_checked_as_a_whole():
    config = {
        "audit": {"threshold": 0.85},
        "sensitivity": {
            "threshold": 0.5,
            "tau_p": [0.8, 0.9],
            "variants": {
                "a": {"severities": [0.0]},
                "b": {"weights": [-1, 1, 1]},
                "c": {"baseline": "zero"},
                "d": {"depht": 3},
            },
        },
    }
    text = "\n".join(_sensitivity_problems(config))
    for words in (
        "sensitivity.threshold: 0.5 is below audit.threshold",
        "sensitivity.tau_p: 0.8 is below audit.threshold",
        "sensitivity.variants.a: severities",
        "sensitivity.variants.b: weights",
        "sensitivity.variants.c: 'baseline' cannot be varied here",
        "'depht' is not a protocol setting; nearest known: depth",
    ):
        assert words in text
