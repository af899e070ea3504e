"""Temperatures: against closed forms and a grid, choices on validation, labels unchanged."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize
from synthetic_units import make_unit

from cfc import calibration, metrics
from cfc.artifacts import lists_to_matrix
from cfc.errors import ArtifactError, DataError
from cfc.evaluate import EvaluationSettings
from cfc.figures import draw_figure
from cfc.stages.calibrate import BINS, METHODS, calibrate_unit, reliability
from cfc.tables import build_table
from cfc.tables.base import TableContext, pick


def dirichlet(n, classes, seed=0, sharp=0.5):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(classes, sharp), size=n)
    label = np.array([rng.choice(classes, p=row) for row in proba])
    return proba, label


def test_tempered_two_classes_divides_the_log_odds():
    p = np.array([[0.2, 0.8], [0.9, 0.1]])
    for t in (0.5, 1.0, 3.0):
        odds = np.log(p[:, 1] / p[:, 0]) / t
        assert calibration.tempered(p, np.full(2, t))[:, 1] == pytest.approx(
            1 / (1 + np.exp(-odds))
        )
    with pytest.raises(DataError, match="above zero"):
        calibration.tempered(p, 0.0)


def test_nll_equals_the_metric_of_the_tempered_probabilities():
    proba, label = dirichlet(400, 4)
    t = np.linspace(0.5, 3, 400)
    assert calibration.mean_nll(proba, label, t) == pytest.approx(
        metrics.nll(calibration.tempered(proba, t), label)
    )


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("true_t", [0.4, 1.0, 2.5])
def test_t0_is_the_optimum_of_another_solver(classes, true_t):
    proba, label = dirichlet(3000, classes, seed=classes)
    # sharpen or blunt calibrated probabilities: T = true_t undoes it
    changed = calibration.tempered(proba, 1 / true_t)
    found = calibration.fit_temperature(changed, label)
    other = minimize(
        lambda b: (
            -np.log(
                (changed ** b[0] / (changed ** b[0]).sum(axis=1, keepdims=True))[
                    np.arange(len(label)), label
                ]
            ).mean()
        ),
        x0=[1.0],
        method="Nelder-Mead",
        options={"xatol": 1e-8, "fatol": 1e-14},
    )
    assert found.value == pytest.approx(1 / other.x[0], rel=1e-4)
    assert not found.at_edge
    assert found.value == pytest.approx(true_t, rel=0.12)


def test_t0_without_a_finite_optimum_ends_at_the_edge_and_says_so():
    proba = np.array([[0.4, 0.6], [0.7, 0.3]])
    assert calibration.fit_temperature(proba, np.array([1, 0])).at_edge  # always right: T → 0
    wrong = calibration.fit_temperature(proba, np.array([0, 1]))
    assert wrong.at_edge
    assert wrong.value == pytest.approx(calibration.T_MAX, rel=1e-3)
    with pytest.raises(DataError, match="without a validation row"):
        calibration.fit_temperature(np.empty((0, 2)), np.empty(0))


def test_normalisation_by_validation_range():
    scale = calibration.Range.of(np.array([0.2, 0.6, 0.4]))
    assert scale.normalise(np.array([0.1, 0.2, 0.5, 0.6, 0.9])) == pytest.approx([0, 0, 0.75, 1, 1])
    assert calibration.Range.of(np.array([0.3])).normalise(np.array([0.1, 0.9])).tolist() == [0, 0]


def test_eta_by_exhaustive_nll_and_ties_go_to_the_smallest():
    # two fragile cases of which one is wrong, two stable ones that are right
    proba = np.array([[0.05, 0.95], [0.05, 0.95], [0.05, 0.95], [0.05, 0.95]])
    label = np.array([0, 1, 1, 1])
    norm = np.array([1.0, 1.0, 0.0, 0.0])
    etas = [0, 0.25, 0.5, 1, 2]
    eta, values = calibration.choose_eta(proba, label, norm, 1.0, etas)
    by_hand = []
    for e in etas:
        t = 1 + e
        soft = 0.95 ** (1 / t) / (0.95 ** (1 / t) + 0.05 ** (1 / t))
        by_hand.append(-(np.log(1 - soft) + np.log(soft) + 2 * np.log(0.95)) / 4)
    assert values == pytest.approx(by_hand)
    assert eta == 2.0
    assert calibration.choose_eta(proba, label, np.zeros(4), 1.0, [0.5, 0, 1])[0] == 0.0


def test_fragile_subset_breaks_ties_by_u_then_case():
    norm = np.array([1.0, 1.0, 1.0, 0.2, 0.0])
    u = np.array([5.0, 9.0, 5.0, 1.0, 0.0])
    ids = np.array([30, 40, 20, 10, 50])
    assert calibration.most_fragile(norm, u, ids, 0.4).tolist() == [False, True, True, False, False]
    assert calibration.most_fragile(norm, u, ids, 0.01).sum() == 1
    assert calibration.most_fragile(np.empty(0), np.empty(0), np.empty(0), 0.2).size == 0


def test_labels_never_change_even_at_ties_and_extremes():
    proba = np.array([[0.5, 0.5], [0.5 + 1e-16, 0.5 - 1e-16], [1.0, 0.0], [0.0, 1.0]])
    proba = np.vstack([proba, np.random.default_rng(0).dirichlet([0.1, 0.1], size=5000)])
    predicted = proba.argmax(axis=1)
    for t in (calibration.T_MIN, 0.3, 1.0, 7.0, calibration.T_MAX):
        changed = calibration.labels_changed(calibration.tempered(proba, t), predicted)
        assert not changed.any()
    assert calibration.labels_changed(np.array([[0.4, 0.6]]), np.array([0])).tolist() == [True]


def test_reliability_by_hand_gives_the_ece():
    confidence = np.array([0.5, 0.52, 0.95, 0.99])
    correct = np.array([True, False, True, False])
    found = reliability(confidence, correct)
    # 15 bins: (7/15, 8/15] is number 7, (14/15, 1] number 14
    assert found["bin_share@07"] == 0.5
    assert found["bin_confidence@07"] == pytest.approx(0.51)
    assert found["bin_correct@14"] == 0.5
    assert np.isnan(found["bin_correct@00"])
    total = sum(
        found[f"bin_share@{i:02d}"]
        * abs(found[f"bin_confidence@{i:02d}"] - found[f"bin_correct@{i:02d}"])
        for i in range(BINS)
        if found[f"bin_share@{i:02d}"]
    )
    assert total == pytest.approx(metrics.ece(confidence, correct))


ETAS = [0, 0.25, 0.5, 1, 2]


def one_unit(dataset="alpha", model="lr", seed=0, classes=2):
    predictions, certificates, _, _ = make_unit(dataset, model, seed, classes=classes)
    _, validation, _, _ = make_unit(dataset, model, seed + 50, classes=classes)
    return calibrate_unit(
        predictions,
        validation,
        certificates,
        etas=ETAS,
        fragile_share=0.2,
        clip=1e-12,
        unit=(dataset, model, seed),
    ), (predictions, validation, certificates)


@pytest.mark.parametrize("classes", [2, 4])
def test_stage_chooses_on_validation_and_corrects_the_uniform_sample(classes):
    (cases, rows, chosen), (_predictions, validation, certificates) = one_unit(classes=classes)
    assert len(cases) == sum(certificates["is_uniform"].to_pylist())
    assert chosen["validation_cases"] == len(validation)
    assert chosen["eta"] == ETAS[int(np.argmin(chosen["validation_nll"]))]
    fds = np.asarray(validation["fds"])
    assert (chosen["fds_low"], chosen["fds_high"]) == (fds.min(), fds.max())
    norm = np.asarray(cases["normalised_fds"])
    assert np.asarray(cases["temperature"]) == pytest.approx(chosen["t0"] + chosen["eta"] * norm)
    assert sum(cases["is_fragile"].to_pylist()) == round(0.2 * len(cases))
    predicted = np.asarray(cases["predicted"])
    for method in METHODS:
        assert (lists_to_matrix(cases[f"proba_{method}"]).argmax(axis=1) == predicted).all()
    frame = rows.to_pandas()
    assert (frame.loc[frame["metric"].str.endswith("share_label_changed"), "value"] == 0).all()
    plain = pick(frame, metric="all:nll", score="uncalibrated")["value"].iloc[0]
    proba = lists_to_matrix(certificates.filter(certificates["is_uniform"])["proba"])
    label = np.asarray(certificates.filter(certificates["is_uniform"])["true_label"])
    assert plain == pytest.approx(metrics.nll(proba, label))


def test_test_labels_enter_no_choice():
    (_, _, chosen), (predictions, validation, certificates) = one_unit()
    other = certificates.set_column(
        certificates.schema.get_field_index("true_label"),
        "true_label",
        pa.array(1 - np.asarray(certificates["true_label"])),
    )
    test = np.asarray(predictions["split"]) == "test"
    label = np.asarray(predictions["label"]).copy()
    label[test] = 1 - label[test]
    predictions = predictions.set_column(
        predictions.schema.get_field_index("label"), "label", pa.array(label)
    )
    cases, _, again = calibrate_unit(
        predictions,
        validation,
        other,
        etas=ETAS,
        fragile_share=0.2,
        clip=1e-12,
        unit=("alpha", "lr", 0),
    )
    assert again == chosen
    assert len(cases)


def test_no_test_case_gives_nulls_with_a_reason_and_no_validation_an_error():
    _, (predictions, validation, certificates) = one_unit()
    cases, rows, _ = calibrate_unit(
        predictions,
        validation,
        certificates.slice(0, 0),
        etas=ETAS,
        fragile_share=0.2,
        clip=1e-12,
        unit=("alpha", "lr", 0),
    )
    assert len(cases) == 0
    frame = rows.to_pandas()
    undefined = frame[frame["value"].isna()]
    assert undefined["reason"].notna().all()
    assert {"all:ece", "fragile:nll"} <= set(undefined["metric"])
    with pytest.raises(ArtifactError, match="needs validation cases"):
        calibrate_unit(
            predictions,
            validation.slice(0, 0),
            certificates,
            etas=ETAS,
            fragile_share=0.2,
            clip=1e-12,
            unit=("alpha", "lr", 0),
        )


def test_table_and_figure():
    units = [("alpha", "lr", 0), ("alpha", "rf", 0), ("beta", "lr", 0), ("beta", "rf", 0)]
    rows = pa.concat_tables([one_unit(*unit)[0][1] for unit in units[:3]])
    settings = EvaluationSettings(n_bootstrap=50)
    table = build_table("calibration", rows, units, settings, TableContext("toy", "paper"))
    text = "\n".join(table.notes)
    assert "1 of 4 expected units have no evaluate file: beta/rf/0" in text
    assert "label changed, over" in text
    frame = rows.to_pandas()
    by_hand = pick(frame, metric="fragile:ece", score="global").groupby("dataset")["value"].mean()
    top = pick(table.data, level="aggregate", metric="fragile:ece", score="global")["value"].iloc[0]
    assert top == pytest.approx(by_hand.mean())
    bins = pick(table.data, level="bin")
    shares = bins.groupby(["score", "subset"])["share"].sum()
    assert shares.to_numpy() == pytest.approx(np.ones(6))
    figure = draw_figure("calibration_curve", table.data, run="toy", preset="paper")
    assert len(figure.axes) == 4
