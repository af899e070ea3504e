"""The long evaluate table against values computed apart, and its reasons."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sklearn import metrics as reference
from synthetic_units import DEPTH, GROUPS, OTHER_SCORES, RULES, make_unit

from cfc.errors import ArtifactError, ConfigError
from cfc.evaluate import SCHEMA, EvaluationSettings, evaluate_unit, undefined_reason

SETTINGS = EvaluationSettings()


@pytest.fixture(scope="module")
def unit():
    return make_unit()


@pytest.fixture(scope="module")
def rows(unit):
    return evaluate_unit(*unit, settings=SETTINGS)


def _value(table, **keys):
    found = [
        row for row in table.to_pylist() if all(row[name] == value for name, value in keys.items())
    ]
    assert len(found) == 1, keys
    return found[0]


def _drop_cases(table, keep):
    return table.filter(pa.array(keep))


def test_schema_and_keys(rows):
    assert rows.schema == SCHEMA
    keys = rows.select(["family", "label_rule", "score", "sign", "metric"]).to_pylist()
    assert len({tuple(k.values()) for k in keys}) == rows.num_rows
    assert set(rows["dataset"].to_pylist()) == {"toy"}
    assert set(rows["family"].to_pylist()) == {"predictive", "certificate", "cost", "brittle"}


def test_a_row_has_a_value_or_a_reason(rows):
    both = pc.equal(pc.is_null(rows["value"]), pc.is_null(rows["reason"]))
    assert not pc.any(both).as_py()


def test_predictive_rows_use_the_test_split_only(unit, rows):
    predictions = unit[0].to_pandas()
    test = predictions[predictions["split"] == "test"]
    row = _value(rows, family="predictive", metric="auroc")
    assert row["n"] == len(test) == 240
    assert row["value"] == pytest.approx(
        reference.roc_auc_score(test["label"], [p[1] for p in test["proba"]])
    )
    assert _value(rows, metric="accuracy")["value"] == pytest.approx(
        (test["label"] == test["predicted"]).mean()
    )


def test_certificate_means_use_the_uniform_sample(unit, rows):
    uniform = unit[1].to_pandas().query("is_uniform")
    row = _value(rows, metric="mean_rcma")
    assert row["n"] == len(uniform)
    assert row["value"] == pytest.approx(uniform["rcma"].mean())
    assert _value(rows, metric="share_flip_budget_1")["value"] == pytest.approx(
        (uniform["flip_budget"] == 1).mean()
    )


def test_cost_formula(rows):
    assert _value(rows, metric="forward_rows_formula")["value"] == 1 + GROUPS + DEPTH - 1 + 3 * 4
    assert 15 <= _value(rows, metric="forward_rows_mean")["value"] <= 18


@pytest.mark.parametrize("rule", RULES)
def test_brittle_auroc_joins_files_by_case(unit, rows, rule):
    _, certificates, labels, ranks = (table.to_pandas() for table in unit)
    joined = certificates.merge(labels, on="case_id").merge(ranks, on="case_id")
    joined = joined[joined["confidence"] >= 0.9]
    for score, sign in (("fds", "risk"), ("margin", "risk"), ("margin", "paper")):
        row = _value(rows, label_rule=rule, score=score, sign=sign, metric="auroc")
        assert row["value"] == pytest.approx(
            reference.roc_auc_score(joined[rule], joined[f"{score}_{sign}"])
        )
        assert (row["n"], row["n_positive"]) == (len(joined), joined[rule].sum())


def test_signs_mirror_confidence_and_leave_certificates(rows):
    get = {
        (r["score"], r["sign"]): r["value"]
        for r in rows.to_pylist()
        if r["metric"] == "auroc" and r["label_rule"] == "expected"
    }
    assert get["entropy", "paper"] == pytest.approx(1 - get["entropy", "risk"])
    for score in OTHER_SCORES:
        assert get[score, "paper"] == get[score, "risk"]


def test_capture_ceiling_base_rate_and_curve_agree(rows):
    rate = _value(rows, metric="base_rate", label_rule="flip")["value"]
    ceiling = _value(rows, metric="capture_ceiling@0.20", label_rule="flip")["value"]
    assert ceiling == pytest.approx(min(1, 0.2 / rate))
    keys = {"label_rule": "flip", "score": "fds", "sign": "risk"}
    capture = _value(rows, metric="capture@0.20", **keys)["value"]
    assert capture <= ceiling
    assert _value(rows, metric="capture_curve@0.200", **keys)["value"] == capture
    assert _value(rows, metric="capture_curve@1.000", **keys)["value"] == pytest.approx(1)


def test_false_conf_rows_have_no_label_rule(unit, rows):
    row = _value(rows, metric="false_conf_captured@0.20", score="fds", sign="risk")
    frame = unit[1].to_pandas().query("confidence >= 0.9")
    assert row["label_rule"] is None
    assert row["n_positive"] == (frame["predicted"] != frame["true_label"]).sum()


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ([], "no high-confidence case"),
        ([0] * 9, "no brittle case of 9"),
        ([1] * 9, "only brittle cases (9)"),
        ([1] * 3 + [0] * 207, "only 3 brittle cases of 210"),
        ([1] + [0] * 9, "only 1 brittle case of 10"),
        ([1] * 8 + [0] * 2, "only 2 non-brittle cases of 10"),
        ([1] * 5 + [0] * 5, None),
    ],
)
def test_reasons(label, reason):
    assert undefined_reason(np.array(label, dtype=bool), SETTINGS) == reason


def test_an_undefined_unit_is_null_with_its_reason_everywhere():
    table = evaluate_unit(*make_unit(brittle_share=0), settings=SETTINGS).to_pylist()
    ranking = [
        row
        for row in table
        if row["family"] == "brittle"
        and row["metric"] != "base_rate"
        and not row["metric"].startswith("false_conf")
    ]
    assert len(ranking) > 100
    assert all(row["value"] is None and "no brittle case" in row["reason"] for row in ranking)
    rates = [row for row in table if row["metric"] == "base_rate"]
    assert [row["value"] for row in rates] == [0.0] * 4


def test_no_confident_case(unit):
    predictions, certificates, labels, ranks = unit
    low = certificates.filter(pc.less(certificates["confidence"], 0.9))
    table = evaluate_unit(predictions, low, labels, ranks, settings=SETTINGS).to_pylist()
    assert {r["reason"] for r in table if r["family"] == "brittle"} == {"no high-confidence case"}
    empty = evaluate_unit(
        predictions,
        certificates.slice(0, 0),
        labels,
        ranks,
        settings=SETTINGS,
        unit=("toy", "lr", 0),
    ).to_pylist()
    assert {r["reason"] for r in empty if r["metric"] == "mean_rcma"} == {
        "no case in the uniform test sample"
    }


def test_a_test_class_that_never_occurs_is_named(unit):
    predictions, certificates, labels, ranks = make_unit(classes=3)
    keep = (predictions["label"].to_numpy() != 2) | (predictions["split"].to_numpy() != "test")
    table = evaluate_unit(
        _drop_cases(predictions, keep), certificates, labels, ranks, settings=SETTINGS
    )
    row = _value(table, family="predictive", metric="auroc")
    assert (row["value"], row["reason"]) == (None, "no test case of class 2")
    assert _value(table, metric="accuracy")["value"] > 0


def test_validation_cases_do_not_enter(unit):
    predictions, certificates, labels, ranks = unit
    other = certificates.set_column(
        certificates.column_names.index("split"), "split", pa.array(["valid"] * 240)
    )
    shifted = other.set_column(
        other.column_names.index("case_id"), "case_id", pc.add(other["case_id"], 50_000)
    )
    both = evaluate_unit(
        predictions,
        pa.concat_tables([shifted, certificates]),
        labels,
        ranks,
        settings=SETTINGS,
    )
    alone = evaluate_unit(*unit, settings=SETTINGS)
    for family in ("certificate", "brittle"):
        mask = pc.equal(both["family"], family)
        assert both.filter(mask).equals(alone.filter(pc.equal(alone["family"], family)))


def test_missing_pieces_are_named(unit):
    predictions, certificates, labels, ranks = unit
    with pytest.raises(ArtifactError, match="label file has no column swap"):
        evaluate_unit(
            predictions, certificates, labels.drop_columns("swap"), ranks, settings=SETTINGS
        )
    with pytest.raises(ArtifactError, match="not in the rank file"):
        evaluate_unit(predictions, certificates, labels, ranks.slice(40), settings=SETTINGS)
    mixed = pa.concat_tables([certificates, make_unit(model="rf")[1]])
    with pytest.raises(ArtifactError, match="2 units"):
        evaluate_unit(predictions, mixed, labels, ranks, settings=SETTINGS)
    with pytest.raises(ConfigError, match="tau_p"):
        EvaluationSettings(tau_p=90)


def test_a_later_score_is_evaluated_without_being_listed(unit):
    predictions, certificates, labels, ranks = unit
    more = ranks.append_column("exposure_paper", ranks["fds_paper"]).append_column(
        "exposure_risk", ranks["fds_risk"]
    )
    table = evaluate_unit(predictions, certificates, labels, more, settings=SETTINGS)
    keys = {"metric": "auroc", "label_rule": "swap", "sign": "risk"}
    assert (
        _value(table, score="exposure", **keys)["value"]
        == _value(table, score="fds", **keys)["value"]
    )


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.2, "0.20"), (0.05, "0.05"), (0.005, "0.005"), (0.875, "0.875"), (1, "1.00")],
)
def test_shares_in_metric_names_keep_their_digits(share, text):
    from cfc.evaluate import capture_metric, share_text

    assert share_text(share) == text
    assert capture_metric(share) == f"capture@{text}"
