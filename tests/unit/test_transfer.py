"""Transfer stress: states against loops over the streams, near rows, labels from means."""

import numpy as np
import pyarrow as pa
import pytest
from awkward_unit import UNIT, ToyModel, awkward_unit
from scipy.stats import norm
from unit import reference_cfc as reference

from cfc.artifacts import to_numpy
from cfc.errors import ArtifactError, CfcError, ConfigError
from cfc.groups import Groups
from cfc.labels import LabelRule, brittle
from cfc.seeding import uniforms
from cfc.stages.transfer import transfer_labels, transfer_unit
from cfc.stress import OPERATORS as LABEL_OPERATORS
from cfc.transfer import OPERATORS, TransferSettings, mean_rule, near_rows, transfer_cases

GROUPS = Groups(("a", "b", "c"), ([0, 3], [1], [2, 4]), 5)
MEMBERS = [[0, 3], [1], [2, 4]]
SCALE = np.array([1, 0.5, 0, 0, 0], dtype=np.float32)
SETTINGS = TransferSettings(
    {"median": (0.3, 0.6), "mode": (0.5,), "gaussian": (0.25, 1.5), "near_swap": (0.4,)},
    {"median": 6, "mode": 5, "gaussian": 4, "near_swap": 7},
    neighbours=3,
)
IDS = np.array([4, 9, 2])


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(5)
    return {
        "X": rng.normal(size=(3, 5)).astype(np.float32),
        "baselines": {n: rng.normal(size=5).astype(np.float32) for n in ("median", "mode")},
        "donors": rng.normal(size=(20, 5)).astype(np.float32),
    }


def run(inputs, X=None, ids=IDS, **options):
    model = ToyModel(5)
    return transfer_cases(
        inputs["X"] if X is None else X, GROUPS, inputs["baselines"], model.predict_proba, SETTINGS,
        seed=7, case_ids=ids, noise_scale=SCALE, donors=inputs["donors"], **options,
    )  # fmt: skip


def states(operator, x, case, severity, draws, inputs):
    """States of one case from the documented streams, one draw at a time."""
    count = {"gaussian": 2, "near_swap": 4}.get(operator, 3)
    u = uniforms(7, f"transfer {operator}", [case], round(severity * 1e6), np.arange(draws), count)
    near = sorted(
        range(20), key=lambda j: ((inputs["donors"][j].astype(float) - x) ** 2).sum()
    )[:3]  # fmt: skip
    for row in u[0].astype(float):
        state = x.astype(float).tolist()
        if operator == "gaussian":
            for i, value in zip((0, 1), row, strict=True):
                state[i] += severity * float(SCALE[i]) * norm.ppf(value + 2.0**-25)
        else:
            values = inputs["baselines"].get(operator)
            hit = row
            if operator == "near_swap":
                values, hit = inputs["donors"][near[int(row[0] * 3)]], row[1:]
            gone = [g for g in range(3) if hit[g] < severity]
            state = reference.removed(state, gone, MEMBERS, values.tolist())
        yield state


def test_means_equal_loops_over_draws(inputs):
    found = run(inputs)
    predict = ToyModel(5).predict_proba
    for operator, grid in SETTINGS.severities.items():
        for level, severity in enumerate(grid):
            for row, x in enumerate(inputs["X"]):
                p = predict(x[None])[0]
                own = reference.label_of(p)
                start = reference.margin_of(p, own)
                flips, kappas = [], []
                draws = SETTINGS.draws[operator]
                for state in states(operator, x, IDS[row], severity, draws, inputs):
                    q = predict(np.array([state], dtype=np.float32))[0]
                    flips.append(reference.label_of(q) != own)
                    kappas.append(reference.collapse(start, reference.margin_of(q, own)))
                assert found.flip_share[operator][row, level] == pytest.approx(np.mean(flips))
                assert found.mean_kappa[operator][row, level] == pytest.approx(
                    np.mean(kappas), rel=1e-5, abs=1e-6
                )


@pytest.mark.parametrize("chunk_bytes", [1, 400, None])
def test_a_case_does_not_depend_on_batch_or_the_other_cases(inputs, chunk_bytes):
    whole = run(inputs)
    part = run(inputs, X=inputs["X"][[2, 0]], ids=IDS[[2, 0]], chunk_bytes=chunk_bytes)
    for operator in SETTINGS.severities:
        assert np.array_equal(part.mean_kappa[operator], whole.mean_kappa[operator][[2, 0]])
        assert np.array_equal(part.flip_share[operator], whole.flip_share[operator][[2, 0]])
    assert whole.rows == 3 * SETTINGS.rows_per_case == 3 * (2 * 7 + 6 + 2 * 5 + 8)


def test_streams_are_none_of_the_label_channel():
    assert not {f"transfer {name}" for name in OPERATORS} & set(LABEL_OPERATORS)


def test_near_rows_by_brute_force():
    rng = np.random.default_rng(0)
    X, donors = rng.normal(size=(6, 4)).astype(np.float32), rng.normal(size=(30, 4))
    donors = donors.astype(np.float32)
    found = near_rows(X, donors, 5)
    distance = np.sqrt(((X[:, None].astype(float) - donors[None]) ** 2).sum(axis=2))
    assert np.array_equal(found, np.argsort(distance, axis=1)[:, :5])
    assert near_rows(X, donors[:2], 5).shape == (6, 2)
    assert near_rows(X[:0], donors, 5).shape == (0, 5)
    with pytest.raises(CfcError, match="at least one training row"):
        near_rows(X, donors[:0], 5)


def test_settings_say_everything_that_is_wrong():
    with pytest.raises(ConfigError) as caught:
        TransferSettings.from_mapping(
            {
                "medain": {"severities": [0.1], "draws": 1},
                "mode": {"severities": [1.5], "draws": 0},
                "neighbours": 0,
            }
        )
    for words in ("nearest known: median", "severities of mode", "mode: 0", "neighbours: 0"):
        assert words in str(caught.value)
    assert TransferSettings.from_mapping(
        {"gaussian": {"severities": [2.5, 0.1], "draws": 3}, "neighbours": 4}
    ).rows_per_case == 8  # fmt: skip


def test_a_severity_written_as_a_whole_number_is_a_number_like_the_others():
    settings = TransferSettings.from_mapping({"mode": {"severities": [0.5, 1], "draws": 2}})
    assert [type(s) for s in settings.severities["mode"]] == [float, float]


def test_the_mean_rule_is_that_of_the_label_channel():
    rng = np.random.default_rng(1)
    n, draws = 200, 9
    margin, confidence = rng.uniform(1, 4, n), rng.uniform(0.8, 1, n)
    stressed = rng.normal(1.2, 2, size=(n, 2, draws)).astype(np.float32)
    labels = (stressed < 0).astype(np.int16)
    thresholds = {"tau_p": 0.9, "tau_kappa": 0.5, "tau_flip": 0.5}
    expected = brittle(
        LabelRule("mean", {"mask": [0.1, 0.2]}), confidence=confidence, margin=margin,
        predicted=np.zeros(n, dtype=np.int16), severities={"mask": [0.1, 0.2]},
        margins={"mask": stressed}, labels={"mask": labels}, **thresholds,
    )  # fmt: skip
    kappa = np.maximum(0, margin[:, None, None] - stressed) / (margin[:, None, None] + 1e-8)
    found = mean_rule(labels.mean(axis=2), kappa.mean(axis=2), confidence, **thresholds)
    assert np.array_equal(found, expected)
    assert 0 < found.mean() < 0.6


def test_stage_and_labels():
    unit = awkward_unit()
    settings = TransferSettings(
        {name: (0.3, 0.6) for name in OPERATORS}, dict.fromkeys(OPERATORS, 5)
    )
    table, timings = transfer_unit(
        unit.prepared, unit.model, unit.certificates, settings, clip=unit.clip, seed=UNIT["seed"]
    )
    confident = to_numpy(unit.certificates["is_confident"])
    assert table.num_rows == confident.sum() * 8
    assert timings["cases"] == confident.sum()
    thresholds = {"tau_p": 0.6, "tau_kappa": 0.5, "tau_flip": 0.5}
    labels = transfer_labels(unit.certificates, table, OPERATORS, thresholds)
    assert labels["case_id"].equals(unit.certificates["case_id"])
    frame = table.to_pandas()
    for operator in OPERATORS:
        own = frame[frame["operator"] == operator]
        failing = own[(own["flip_share"] >= 0.5) | (own["mean_kappa"] >= 0.5)]
        expected = np.isin(to_numpy(labels["case_id"]), failing["case_id"]) & confident
        assert np.array_equal(to_numpy(labels[operator]), expected)
        assert not to_numpy(labels[operator])[~confident].any()
    with pytest.raises(ArtifactError, match="different cases"):
        transfer_labels(unit.certificates, table.slice(1), OPERATORS, thresholds)
    none = unit.certificates.set_column(
        unit.certificates.column_names.index("is_confident"), "is_confident",
        pa.array(np.zeros(len(confident), dtype=bool)),
    )  # fmt: skip
    empty, _ = transfer_unit(
        unit.prepared, unit.model, none, settings, clip=unit.clip, seed=UNIT["seed"]
    )
    assert empty.num_rows == 0
    assert not to_numpy(transfer_labels(none, empty, OPERATORS, thresholds)["mode"]).any()
