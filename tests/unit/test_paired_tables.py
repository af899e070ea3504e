"""Tables exposure, transfer and attribution over synthetic units: gains, readings, absences."""

import numpy as np
import pyarrow as pa
import pytest
from synthetic_units import make_unit

from cfc.evaluate import EvaluationSettings, evaluate_ranking, evaluate_unit, metric_table
from cfc.metrics import auroc
from cfc.ranking import OPTIONAL_SCORES, SCORES, in_order, score_info
from cfc.stages.rank import both_signs
from cfc.tables import build_table
from cfc.tables.base import TableContext, Units, pick, score_title, select_ranking
from cfc.tables.paired import comparisons, verdict
from cfc.tables.render import from_arrow, to_arrow
from cfc.transfer import OPERATORS

SETTINGS = EvaluationSettings(n_bootstrap=300)
EXPECTED = [(d, m, s) for d in ("alpha", "beta") for m in ("lr", "rf") for s in (0, 1, 2)]
CONTEXT = TableContext("r", "paper")


def with_scores(unit, better=True):
    """Return a unit whose ranks also hold the optional scores; some lack group-SHAP."""
    predictions, certificates, labels, ranks = make_unit(*unit)
    position = np.searchsorted(labels["case_id"].to_numpy(), ranks["case_id"].to_numpy())
    truth = labels["swap"].to_numpy()[position].astype(float)
    rng = np.random.default_rng(unit[2])
    sharp = truth + rng.normal(0, 0.2 if better else 5, len(truth))
    added = both_signs("exposure", sharp) | both_signs("exposed_fds", sharp + 0.01)
    held = np.arange(len(truth)) % 2 == 0
    added |= both_signs("group_shap", pa.array(rng.random(len(truth)), mask=~held))
    ranks = pa.table({**{n: ranks[n] for n in ranks.column_names}, **added})
    return predictions, certificates, labels, ranks


@pytest.fixture(scope="module")
def units():
    return {unit: with_scores(unit) for unit in EXPECTED}


@pytest.fixture(scope="module")
def rows(units):
    return pa.concat_tables([evaluate_unit(*parts, settings=SETTINGS) for parts in units.values()])


def test_declared_order_and_titles():
    names = [s.name for s in (*SCORES, *OPTIONAL_SCORES)]
    assert len(set(names)) == len(names)
    assert in_order(["mine", "exposed_fds", "fds", "mine", "max_softmax"]) == [
        "max_softmax", "fds", "exposed_fds", "mine",
    ]  # fmt: skip
    assert score_info("nobody") is None
    assert score_title("exposure").endswith("(ours)")
    assert "(ours)" not in score_title("group_shap")


def test_a_null_score_is_evaluated_on_the_cases_that_have_it(units, rows):
    unit = EXPECTED[0]
    _, certificates, labels, ranks = units[unit]
    frame = certificates.to_pandas().merge(labels.to_pandas(), on="case_id")
    frame = frame.merge(ranks.to_pandas()[["case_id", "group_shap_risk"]], on="case_id")
    frame = frame[(frame["confidence"] >= 0.9) & frame["group_shap_risk"].notna()]
    table = rows.to_pandas()
    table = table[(table["score"] == "group_shap") & (table["metric"] == "auroc")]
    table = table[(table["sign"] == "risk") & (table["label_rule"] == "swap")]
    own = table.set_index(["dataset", "model", "seed"]).loc[unit]
    assert own["n"] == len(frame)
    assert own["value"] == pytest.approx(
        auroc(frame["group_shap_risk"].to_numpy(), frame["swap"].to_numpy())
    )


def test_a_score_computed_for_no_case_says_so(units):
    predictions, certificates, labels, ranks = units[EXPECTED[0]]
    names = ("group_shap_risk", "group_shap_paper")
    for name in names:
        ranks = ranks.set_column(
            ranks.column_names.index(name), name, pa.nulls(ranks.num_rows, pa.float64())
        )
    found = evaluate_unit(predictions, certificates, labels, ranks, settings=SETTINGS).to_pandas()
    found = found[found["score"] == "group_shap"]
    assert found["value"].isna().all()
    reasons = found[found["metric"] == "auroc"]["reason"]
    assert reasons.str.startswith("the score was computed for none of").all()


def test_gains_are_paired_differences_of_units(rows):
    units = Units(rows, EXPECTED)
    ranking = select_ranking(units, ["auroc"], SETTINGS)
    gains = comparisons(ranking, [("exposed_fds", "fds")], SETTINGS)
    value = pick(ranking, label_rule="swap", sign="risk").set_index(["dataset", "model", "seed"])
    expected = (
        value[value["score"] == "exposed_fds"]["value"] - value[value["score"] == "fds"]["value"]
    )
    own = pick(gains, label_rule="swap", level="unit").set_index(["dataset", "model", "seed"])
    assert own["value"].to_dict() == pytest.approx(expected.to_dict())
    top = pick(gains, label_rule="swap", level="aggregate").iloc[0]
    assert top["value"] == pytest.approx(expected.groupby("dataset").mean().mean())
    assert top["share_won"] == (expected > 0).mean()
    assert top["units_low"] <= top["value"] <= top["units_high"]
    assert top["verdict"] == "wins"


@pytest.mark.parametrize(
    ("interval", "n", "expected"),
    [
        ((0.01, 0.2), 9, "wins"),
        ((-0.2, -0.01), 9, "loses"),
        ((-0.1, 0.1), 9, "no difference shown"),
        ((0.0, 0.1), 9, "no difference shown"),
        ((0.01, 0.2), 4, "too few units"),
        ((float("nan"), float("nan")), 0, "undefined"),
    ],
)
def test_what_an_interval_says(interval, n, expected):
    assert verdict(*interval, n) == expected


def test_exposure_says_where_it_wins_and_where_it_loses(rows):
    won = build_table("exposure", rows, EXPECTED, SETTINGS, CONTEXT)
    sentence = next(
        n for n in won.notes if n.startswith("exposed FDS (u + X) (ours) against CFC-F")
    )
    assert "wins under" in sentence
    assert "`swap`" in sentence.split("wins under")[1]
    poor = [with_scores(unit, better=False) for unit in EXPECTED]
    poor = pa.concat_tables([evaluate_unit(*parts, settings=SETTINGS) for parts in poor])
    lost = build_table("exposure", poor, EXPECTED, SETTINGS, CONTEXT)
    sentence = next(
        n for n in lost.notes if n.startswith("exposed FDS (u + X) (ours) against CFC-F")
    )
    assert "loses under" in sentence
    assert "wins" not in sentence
    assert to_arrow(from_arrow(to_arrow(won.data))).equals(to_arrow(won.data))


def test_scores_that_were_not_computed_are_said_to_be_absent():
    plain = pa.concat_tables(
        [evaluate_unit(*make_unit(*unit), settings=SETTINGS) for unit in EXPECTED]
    )
    result = build_table("exposure", plain, EXPECTED, SETTINGS, CONTEXT)
    assert any("Not in this run: exposure X" in note for note in result.notes)
    gain = pick(result.data, metric="gain")
    assert set(zip(gain["score"], gain["against"], strict=True)) == {("one_step_sum", "fds")}


def transfer_rows(units, expected):
    settings = EvaluationSettings(n_bootstrap=300, label_rules=OPERATORS)
    parts = []
    for unit in expected:
        _, certificates, labels, ranks = units[unit]
        own = {name: labels["swap"] for name in OPERATORS}
        own["mode"] = pa.array(np.zeros(labels.num_rows, dtype=bool))
        labels = pa.table({"case_id": labels["case_id"], **own})
        parts.append(evaluate_ranking(certificates, labels, ranks, settings=settings, unit=unit))
    return pa.concat_tables(parts)


def test_transfer_labels_are_the_rules_of_their_table(units, rows):
    missing = EXPECTED[-1]
    result = build_table(
        "transfer", transfer_rows(units, EXPECTED[:-1]), EXPECTED, SETTINGS, CONTEXT
    )
    assert (result.n_evaluated, result.n_expected) == (11, 12)
    assert any("/".join(map(str, missing)) in note for note in result.notes)
    at = pick(result.data, metric="auroc", score="exposed_fds", level="unit", sign="risk")
    main = select_ranking(Units(rows, EXPECTED), ["auroc"], SETTINGS)
    main = pick(main, label_rule="swap", score="exposed_fds", sign="risk")
    keys = ["dataset", "model", "seed"]
    assert pick(at, label_rule="median").set_index(keys)["value"].drop(missing).to_dict() == (
        main.set_index(keys)["value"].drop(missing).to_dict()
    )
    assert pick(at, label_rule="mode")["value"].isna().all()
    sentence = next(
        n for n in result.notes if n.startswith("exposed FDS (u + X) (ours) against CF")
    )
    assert "wins under `median`, `gaussian`, `near_swap`" in sentence
    assert "undefined under `mode`" in sentence
    assert [caption for caption, _ in result.displays][:4] == [
        f"AUROC under `{n}`" for n in OPERATORS
    ]


def test_attribution_states_the_sampling_error(units):
    parts = []
    for unit in EXPECTED:
        _, certificates, labels, ranks = units[unit]
        parts.append(evaluate_ranking(certificates, labels, ranks, settings=SETTINGS, unit=unit))
        values = {"relative_error": 0.02, "additivity_error": 1e-13, "share_exact": 0.25}
        parts.append(
            metric_table(
                [
                    {"family": "attribution", "metric": name, "value": value, "n": 10}
                    for name, value in values.items()
                ],
                unit,
            )
        )
    result = build_table("attribution", pa.concat_tables(parts), EXPECTED, SETTINGS, CONTEXT)
    caption, frame = result.displays[-1]
    assert caption == "Shapley values"
    assert frame["mean"].tolist() == ["0.020", "1e-13", "0.250"]
    assert "group-SHAP, top 1" in set(result.displays[0][1]["score"])
    assert pick(result.data, metric="gain", against="group_shap")["value"].notna().any()
