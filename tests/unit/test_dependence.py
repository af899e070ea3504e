"""What a score adds once confidence is known: hand-worked, other libraries, both directions."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from synthetic_units import make_unit

from cfc.dependence import (
    cross_validated_auroc,
    fit_logistic,
    mid_ranks,
    partial_rank_correlation,
    strata,
)
from cfc.errors import ArtifactError
from cfc.evaluate import EvaluationSettings
from cfc.stages.dependence import dependence_unit
from cfc.tables import build_table
from cfc.tables.base import TableContext, pick


def test_mid_ranks_are_those_of_scipy():
    values = np.random.default_rng(1).integers(0, 9, 200)
    assert (mid_ranks(values) == stats.rankdata(values)).all()


def test_strata_hold_equal_numbers_and_never_part_ties():
    values = np.arange(10.0)[::-1]
    assert strata(values, 5).tolist() == [4, 4, 3, 3, 2, 2, 1, 1, 0, 0]
    tied = strata(np.array([1.0, 1.0, 1.0, 1.0, 2.0]), 5)
    assert len(set(tied[:4].tolist())) == 1
    assert tied[4] == 4
    assert strata(np.empty(0), 5).size == 0


def test_partial_correlation_equals_that_of_residuals():
    rng = np.random.default_rng(2)
    z = rng.normal(size=300)
    x, y = z + rng.normal(size=300), (z + rng.normal(size=300) > 0).astype(float)
    ranks = [stats.rankdata(v) for v in (x, y, z)]
    design = np.column_stack([np.ones(300), ranks[2]])
    residual = [r - design @ np.linalg.lstsq(design, r, rcond=None)[0] for r in ranks[:2]]
    expected = np.corrcoef(*residual)[0, 1]
    assert partial_rank_correlation(x, y, z) == pytest.approx(expected)
    assert np.isnan(partial_rank_correlation(np.ones(300), y, z))
    assert np.isnan(partial_rank_correlation(np.exp(z), y, z))  # the same ranks as z


def test_logistic_fit_is_that_of_sklearn():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (400, 2))
    y = rng.random(400) < 1 / (1 + np.exp(-(0.5 + 2 * X[:, 0] - X[:, 1])))
    other = LogisticRegression(C=1 / (400 * 1e-3), tol=1e-10, max_iter=1000).fit(X, y)
    ours = fit_logistic(X, y)
    assert ours == pytest.approx([other.intercept_[0], *other.coef_[0]], rel=1e-4)


def test_a_separable_fold_stays_finite():
    X = np.linspace(-1, 1, 40)[:, None]
    assert np.isfinite(fit_logistic(X, X[:, 0] > 0)).all()


def test_ranker_knows_a_useful_second_score_from_noise_and_learns_the_sign():
    rng = np.random.default_rng(4)
    confidence, useful = rng.normal(size=2000), rng.normal(size=2000)
    label = confidence + 2 * useful + rng.normal(size=2000) > 1
    run = {"folds": 5, "seed": 0}
    alone = cross_validated_auroc([confidence], label, **run)
    assert alone == pytest.approx(cross_validated_auroc([-confidence], label, **run))
    assert cross_validated_auroc([confidence, useful], label, **run) > alone + 0.2
    noise = cross_validated_auroc([confidence, rng.normal(size=2000)], label, **run)
    assert abs(noise - alone) < 0.01
    few = np.arange(2000) < 2  # two cases of a kind: two folds
    assert 0 <= cross_validated_auroc([confidence], few, **run) <= 1


SETTINGS = EvaluationSettings(n_bootstrap=100)


def measure(unit, *, change=None, **options):
    _, certificates, labels, ranks = make_unit(*unit, **options)
    if change:
        certificates, labels, ranks = change(certificates, labels, ranks)
    return dependence_unit(
        certificates, labels, ranks, settings=SETTINGS, n_strata=4, folds=5, unit=unit
    )


def value(frame, metric, score="fds", rule="literal"):
    return pick(frame, metric=metric, score=score, label_rule=rule)["value"].iloc[0]


def test_a_skilled_score_adds_and_an_unskilled_one_does_not():
    skilled = measure(("toy", "lr", 0), n=1500, skill=3.0).to_pandas()
    assert value(skilled, "auroc_within_confidence") > 0.85
    assert value(skilled, "auroc_gain") > 0.25
    assert value(skilled, "partial_rank_correlation") > 0.4
    blind = measure(("toy", "lr", 0), n=1500, skill=0.0).to_pandas()
    assert abs(value(blind, "auroc_within_confidence") - 0.5) < 0.08
    assert abs(value(blind, "auroc_gain")) < 0.08
    alone = pick(blind, metric="auroc_confidence_alone", label_rule="literal").iloc[0]
    assert alone["score"] == "max_softmax"  # all four are equal here: the first declared


def test_a_score_that_is_confidence_in_disguise_adds_nothing():
    def disguise(certificates, labels, ranks):
        at = dict(
            zip(
                certificates["case_id"].to_pylist(),
                certificates["confidence"].to_pylist(),
                strict=True,
            )
        )
        same = pa.array([-at[c] for c in ranks["case_id"].to_pylist()])
        column = ranks.schema.get_field_index("fds_risk")
        return certificates, labels, ranks.set_column(column, "fds_risk", same)

    frame = measure(("toy", "lr", 0), n=1500, change=disguise).to_pandas()
    assert abs(value(frame, "auroc_gain")) < 0.005
    row = pick(frame, metric="partial_rank_correlation", score="fds", label_rule="literal").iloc[0]
    assert np.isnan(row["value"])
    assert "constant" in row["reason"]


def test_units_without_brittle_cases_and_scores_with_gaps():
    frame = measure(("toy", "lr", 0), brittle_share=0.0).to_pandas()
    assert frame["value"].isna().all()
    assert frame["reason"].str.startswith("no brittle case").all()

    def gaps(certificates, labels, ranks):
        values = np.asarray(ranks["fds_risk"]).copy()
        values[::2] = np.nan
        column = ranks.schema.get_field_index("fds_risk")
        return certificates, labels, ranks.set_column(column, "fds_risk", pa.array(values))

    half = measure(("toy", "lr", 0), n=1500, change=gaps).to_pandas()
    full = measure(("toy", "lr", 0), n=1500).to_pandas()
    n = [
        pick(f, metric="auroc_gain", score="fds", label_rule="literal")["n"].iloc[0]
        for f in (half, full)
    ]
    assert 0.4 < n[0] / n[1] < 0.6
    assert value(half, "auroc_gain") == pytest.approx(value(full, "auroc_gain"), abs=0.1)


def test_foreign_files_are_refused():
    _, certificates, labels, ranks = make_unit()
    with pytest.raises(ArtifactError, match="rerun the label stage"):
        dependence_unit(
            certificates,
            labels.slice(5),
            ranks,
            settings=SETTINGS,
            n_strata=4,
            folds=5,
            unit=("toy", "lr", 0),
        )


def test_table():
    units = [("alpha", "lr", 0), ("alpha", "rf", 0), ("beta", "lr", 0), ("beta", "rf", 0)]
    rows = [measure(unit, brittle_share=0.0 if unit[1] == "rf" else 0.3) for unit in units[:3]]
    table = build_table(
        "dependence", pa.concat_tables(rows), units, SETTINGS, TableContext("toy", "paper")
    )
    gains = [value(r.to_pandas(), "auroc_gain") for r in (rows[0], rows[2])]
    top = pick(
        table.data, level="aggregate", metric="auroc_gain", score="fds", label_rule="literal"
    ).iloc[0]
    assert top["value"] == pytest.approx(np.mean(gains))
    assert (top["n_defined"], top["n_undefined"]) == (2, 2)
    assert top["low"] <= top["value"] <= top["high"]
    captions = [caption for caption, _ in table.displays]
    assert "Label rule `swap`: CFC-FDS per data set" in captions
    assert any("no brittle case" in note for note in table.notes)
