"""Tables over synthetic units: aggregation, counts, references, marks and files."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import REPOSITORY
from synthetic_units import RULES, make_unit

from cfc.artifacts import read_metadata, read_table
from cfc.errors import ArtifactError, ConfigError
from cfc.evaluate import EvaluationSettings, evaluate_unit
from cfc.tables import TABLES, build_table
from cfc.tables.base import (
    MISSING_FILE,
    TableContext,
    Units,
    aggregate,
    list_missing,
    mark_best,
    number,
    pick,
    score_signs,
    undefined_notes,
)
from cfc.tables.case_degradation import choose_case
from cfc.tables.render import from_arrow, to_arrow, write_table_files

SETTINGS = EvaluationSettings(n_bootstrap=400)
EXPECTED = [(d, m, s) for d in ("alpha", "beta") for m in ("lr", "rf") for s in (0, 1)]
MISSING = ("alpha", "rf", 1)
SKILL = {"lr": 2.5, "rf": 0.2}


def _unit(unit):
    dataset, model, seed = unit
    share = 0.0 if (dataset, model) == ("beta", "rf") else 0.3
    return make_unit(dataset, model, seed, brittle_share=share, skill=SKILL[model])


@pytest.fixture(scope="module")
def units():
    return {unit: _unit(unit) for unit in EXPECTED if unit != MISSING}


@pytest.fixture(scope="module")
def rows(units):
    return pa.concat_tables([evaluate_unit(*parts, settings=SETTINGS) for parts in units.values()])


@pytest.fixture(scope="module")
def context(units):
    timings = pd.DataFrame(
        [
            {
                "dataset": d,
                "model": m,
                "seed": s,
                "stage": stage,
                "seconds": 2.0 + s,
                "model_seconds": 1.0,
                "forward_rows": 610,
                "cases": 10,
                "rows_per_case": 60,
            }
            for d, m, s in EXPECTED
            for stage in ("certify", "stress")
        ]
    )

    def certificates(unit):
        return units[unit][1].to_pandas() if unit in units else None

    return TableContext(
        "test run",
        "paper",
        timings,
        certificates,
        tables=lambda name: None,
        reference=REPOSITORY / "config/reference/cfc_paper.csv",
    )


@pytest.fixture(scope="module")
def built(rows, context):
    return {name: build_table(name, rows, EXPECTED, SETTINGS, context) for name in TABLES}


def _metric(rows, **keys):
    frame = rows.to_pandas()
    for name, value in keys.items():
        frame = frame[frame[name] == value]
    return frame.set_index(["dataset", "model", "seed"])["value"]


def test_aggregate_is_units_then_data_sets():
    frame = pd.DataFrame(
        [("a", "m", 0, 0.2), ("a", "m", 1, 0.4), ("b", "m", 0, 0.9), ("b", "m", 1, np.nan)],
        columns=["dataset", "model", "seed", "value"],
    ).assign(label_rule="r", score="s", sign="risk", metric="auroc", n=1, n_positive=1, reason=None)
    data = aggregate(frame)
    top = pick(data, level="aggregate").iloc[0]
    assert top["value"] == pytest.approx((0.3 + 0.9) / 2)
    assert (top["n_defined"], top["n_undefined"]) == (3, 1)
    assert pick(data, level="dataset")["value"].tolist() == pytest.approx([0.3, 0.9])
    assert pick(data, level="dataset")["sd"].iloc[0] == pytest.approx(np.sqrt(0.02))


def test_missing_and_undefined_units_are_rows_with_reasons(rows):
    units = Units(rows, EXPECTED)
    assert units.missing == [MISSING]
    chosen = units.select(
        "brittle", ["auroc"], label_rule=["expected"], score=["fds"], sign=["risk"]
    )
    assert len(chosen) == len(EXPECTED)
    reasons = chosen.set_index(["dataset", "model", "seed"])["reason"]
    assert reasons[MISSING] == MISSING_FILE
    assert reasons["beta", "rf", 0].startswith("no brittle case of ")
    assert reasons["alpha", "lr", 0] is None
    note = undefined_notes(chosen, "X")[0]
    assert note.startswith("X: defined in 5 of 8 units; undefined: ")
    assert "2 × no brittle case of N (beta/rf/0, beta/rf/1)" in note
    assert "alpha/rf/1" in note


def test_units_that_do_not_belong_are_left_out_and_named(rows):
    units = Units(rows, EXPECTED[:2])
    assert set(units.frame["model"]) == {"lr"}
    assert "beta/rf/1" in " ".join(units.notes())
    with pytest.raises(ArtifactError, match="given twice"):
        Units(pa.concat_tables([rows, rows]), EXPECTED)
    with pytest.raises(ArtifactError, match="at least one"):
        Units(rows, [])


@pytest.mark.parametrize("name", TABLES)
def test_every_table_states_run_preset_and_missing_units(built, name):
    result = built[name]
    assert (result.run, result.preset) == ("test run", "paper")
    assert (result.n_evaluated, result.n_expected) == (7, 8)
    assert any("alpha/rf/1" in note for note in result.notes)
    assert result.displays
    for _, frame in result.displays:
        assert len(frame)
        assert all(isinstance(v, str) for row in frame.itertuples(index=False) for v in row)


def test_brittle_auroc_by_hand(built, rows):
    values = _metric(rows, label_rule="literal", score="fds", sign="risk", metric="auroc").dropna()
    expected = values.groupby("dataset").mean().mean()
    data = pick(built["brittle_auroc"].data, label_rule="literal", score="fds", metric="auroc")
    assert pick(data, level="aggregate")["value"].item() == pytest.approx(expected)
    caption, frame = built["brittle_auroc"].displays[0]
    assert "literal" in caption
    line = frame[frame["score"] == "CFC-FDS"].iloc[0]
    assert line["mean"] == f"{expected:.3f}"
    assert line["units"] == "5/8"
    assert {"max-softmax, risk sign", "max-softmax, paper sign"} <= set(frame["score"])


def test_signs_are_mirror_images_in_the_table(built):
    data = pick(built["brittle_auroc"].data, level="aggregate", metric="auroc", score="margin")
    for rule in RULES:
        own = pick(data, label_rule=rule).set_index("sign")["value"]
        assert own["risk"] + own["paper"] == pytest.approx(1)


def test_gain_is_against_the_strongest_risk_signed_confidence_score(built, rows):
    data = pick(built["brittle_aggregate"].data, level="aggregate", label_rule="swap")
    means = pick(data, metric="auroc").set_index(["score", "sign"])["value"]
    confidence = ["max_softmax", "entropy", "margin", "negative_energy"]
    gain = pick(data, metric="gain_vs_risk", score="fds").iloc[0]
    assert gain["reference"] == "max_softmax"
    assert gain["value"] == pytest.approx(
        means["fds", "risk"] - max(means[name, "risk"] for name in confidence)
    )
    keys = {"label_rule": "swap", "metric": "auroc"}
    unit_gain = (
        _metric(rows, score="fds", sign="risk", **keys)
        - _metric(rows, score="max_softmax", sign="risk", **keys)
    ).dropna()
    assert gain["share_not_improving"] == (unit_gain <= 0).mean()
    assert gain["units_low"] <= gain["value"] <= gain["units_high"]
    assert (gain["n_defined"], gain["n_undefined"]) == (5, 3)


def test_reference_ignores_certificates_and_our_rows(built):
    data = pick(built["brittle_aggregate"].data, level="aggregate")
    names = set(data["reference"]) - {""}
    assert names <= {"max_softmax", "entropy", "margin", "negative_energy"}


def test_brittle_aggregate_keeps_the_unit_dots_for_the_figure(built):
    data = pick(built["brittle_aggregate"].data, level="unit", label_rule="flip", score="fds")
    assert len(data) == 8
    assert data["value"].notna().sum() == 5


def test_seed_variance_by_hand(built, rows):
    keys = {"label_rule": "expected", "metric": "auroc", "sign": "risk"}
    own = _metric(rows, score="rcma", **keys).dropna()
    reference = _metric(rows, score="max_softmax", **keys).dropna()
    row = pick(built["seed_variance"].data, label_rule="expected", score="rcma").iloc[0]
    assert row["sd_units"] == pytest.approx(own.std())
    assert row["win_rate"] == (own > reference).mean()
    cells = own.groupby(["dataset", "model"])
    pooled = sum(((v - v.mean()) ** 2).sum() for _, v in cells) / sum(len(v) - 1 for _, v in cells)
    assert row["sd_seeds"] == pytest.approx(np.sqrt(pooled))


def test_budget_stays_below_its_ceiling(built):
    data = pick(built["budget"].data, level="aggregate")
    for rule in RULES:
        own = pick(data, label_rule=rule)
        for q in ("0.05", "0.10", "0.20"):
            ceiling = pick(own, metric=f"capture_ceiling@{q}")["value"].item()
            assert (pick(own, metric=f"capture@{q}")["value"] <= ceiling + 1e-9).all()
    _, frame = built["budget"].displays[0]
    assert list(frame["score"][-2:]) == ["ceiling", "base rate"]
    rates = pick(data, metric="base_rate")
    assert (rates["n_defined"] == 5).all()  # the units AURC is defined on, not those without any


def test_capture_curve_matches_budget_and_ends_at_one(built):
    curve = pick(built["capture_curve"].data, label_rule="flip", score="fds", sign="risk")
    at = curve.set_index("budget")["capture"]
    data = pick(built["budget"].data, level="aggregate", label_rule="flip", score="fds")
    assert at[0.2] == pytest.approx(pick(data, metric="capture@0.20")["value"].item())
    assert at[1.0] == pytest.approx(1)
    ceiling = pick(built["capture_curve"].data, label_rule="flip", score="ceiling")
    assert (ceiling["n_defined"] == 5).all()
    assert (ceiling["capture"].to_numpy() >= curve["capture"].to_numpy() - 1e-9).all()


def test_predictive_cells_and_marks(built, rows):
    values = _metric(rows, family="predictive", metric="auroc")
    _, frame = built["predictive"].displays[0]
    cells = frame.set_index("data set")
    lr = values.xs(("alpha", "lr"), level=("dataset", "model"))
    assert f"{lr.mean():.3f} ± {lr.std():.3f}" in cells.loc["alpha", "lr"]
    assert sum("**" in cell for cell in cells.loc["alpha"]) == 1
    assert "±" not in cells.loc["alpha", "rf"]  # one seed only


def test_a_mean_over_fewer_data_sets_says_so_and_is_not_compared(rows):
    frame = rows.to_pandas()
    gone = (frame["metric"] == "auroc") & (frame["family"] == "predictive")
    gone &= (frame["dataset"] == "beta") & (frame["model"] == "rf")
    frame.loc[gone, "value"] = np.nan
    frame.loc[gone, "reason"] = "no test case of class 1"
    result = build_table("predictive", frame, EXPECTED, SETTINGS, TableContext("r", "paper"))
    mean = result.displays[0][1].set_index("data set").loc["mean"]
    assert mean["rf"].endswith("(1 of 2)")
    assert any("2 × no test case of class N (beta/rf/0" in note for note in result.notes)


def test_nominal_vs_stable_picks_the_extremes(built, rows):
    auroc = _metric(rows, family="predictive", metric="auroc").groupby(["dataset", "model"]).mean()
    rcma = _metric(rows, metric="mean_rcma").groupby(["dataset", "model"]).mean()
    data = built["nominal_vs_stable"].data
    for dataset in ("alpha", "beta"):
        chosen = pick(data, dataset=dataset).set_index("role")["model"]
        assert chosen["nominal"] == auroc[dataset].idxmax()
        assert chosen["stable"] == rcma[dataset].idxmin()


def test_cost_counts_and_times(built, rows, context):
    data = built["cost"].data
    formula = pick(data, level="family", metric="forward_rows_formula", model="lr")["value"].item()
    assert formula == 1 + 6 + 3 + 12
    seconds = pick(data, level="family", metric="overhead_seconds", model="lr", stage="stress")
    assert seconds["value"].item() == pytest.approx(1.5)
    _, frame = built["cost"].displays[0]
    stress = frame.set_index("stage: family").loc["stress: lr"]
    assert (stress["formula"], stress["made"]) == ("60.0", "61.0")
    untimed = build_table("cost", rows, EXPECTED, SETTINGS, replace(context, timings=None))
    assert "No timing was collected" in " ".join(untimed.notes)


def test_choose_case_is_the_nearest_rank_percentile():
    frame = pd.DataFrame(
        {
            "case_id": np.arange(20),
            "split": "test",
            "confidence": 0.95,
            "predicted": 1,
            "true_label": 1,
            "u": np.arange(20)[::-1] / 10,
        }
    )
    stable = frame.copy()
    # 20 candidates: rank 18 of ascending u is case 2; without case 0, rank 18 of 19 is case 2
    assert choose_case(frame, stable, 0.9) == (2, 20)
    assert choose_case(frame, stable[stable["case_id"] > 0], 0.9) == (2, 19)
    wrong = frame.assign(predicted=0)
    assert choose_case(wrong, stable, 0.9) == (-1, 0)


def test_case_degradation_paths_and_reasons(built, rows, units):
    data = built["case_degradation"].data
    for (dataset, role), path in data.groupby(["dataset", "role"]):
        first = path.iloc[0]
        source = units[dataset, first["model"], int(first["seed"])][1].to_pandas()
        one = source[source["case_id"] == first["case_id"]].iloc[0]
        assert path["margin"].tolist() == list(one["path_margin"]), role
        assert path["removed"].tolist() == ["", *one["group_order"][: len(path) - 1]]
        assert path["relative_margin"].iloc[0] == 1
    assert pick(data, role="nominal").query("step == 0")["confidence"].min() >= 0.9
    none = build_table("case_degradation", rows, EXPECTED, SETTINGS, TableContext("r", "paper"))
    assert none.data["reason"].str.startswith("no certificate of unit").all()
    assert len(none.data) == 2


def test_nothing_defined_still_gives_every_table(context):
    units = {u: make_unit(*u, brittle_share=0, n=60) for u in EXPECTED[:2]}
    rows = pa.concat_tables([evaluate_unit(*p, settings=SETTINGS) for p in units.values()])
    bare = replace(context, timings=None, certificates=None)
    for name in TABLES:
        result = build_table(name, rows, EXPECTED[:2], SETTINGS, bare)
        assert result.displays
    gain = build_table("brittle_aggregate", rows, EXPECTED[:2], SETTINGS, TableContext("r", "p"))
    assert pick(gain.data, level="aggregate")["value"].isna().all()
    assert "none defined in the risk sign" in " ".join(gain.notes)


def test_files_are_written_whole_and_equal_on_repeat(built, tmp_path):
    result = built["predictive"]
    for stem in ("one", "two"):
        write_table_files(result, tmp_path / stem, {"rule": "x"})
    for kind in ("parquet", "csv", "md", "html"):
        first = (tmp_path / f"one.{kind}").read_bytes()
        assert first == (tmp_path / f"two.{kind}").read_bytes()
    metadata = read_metadata(tmp_path / "one.parquet")
    assert (metadata["preset"], metadata["rule"]) == ("paper", "x")
    text = (tmp_path / "one.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {result.title}\n\n- run: test run\n- protocol preset: paper\n")
    assert "7 evaluated of 8 expected" in text
    page = (tmp_path / "one.html").read_text(encoding="utf-8")
    assert "<b>" in page
    assert "**" not in page
    assert json.dumps(metadata)


@pytest.mark.parametrize("name", TABLES)
def test_data_survives_the_disk(built, tmp_path, name):
    write_table_files(built[name], tmp_path / name)
    table = read_table(tmp_path / f"{name}.parquet")
    assert table.num_rows == len(built[name].data)
    assert to_arrow(from_arrow(table)).equals(table)


def test_marks_and_numbers():
    assert mark_best([3, 1, 2], "abc", larger_is_better=True) == ["**a**", "b", "<u>c</u>"]
    assert mark_best([2, 2, 3], "abc", larger_is_better=False) == ["**a**", "**b**", "c"]
    assert mark_best([None, 1], ["-", "b"], larger_is_better=True) == ["-", "b"]
    assert number(0.1234) == "0.123"
    assert number(-0.5, signed=True) == "−0.500"
    assert number(0.25, signed=True) == "+0.250"
    assert number(-0.0001, signed=True) == "0.000"
    assert number(None) == "—"


def test_rows_of_a_ranking_table():
    assert score_signs(["max_softmax", "fds", "exposure"]) == [
        ("max_softmax", "risk"),
        ("max_softmax", "paper"),
        ("fds", "risk"),
        ("exposure", "risk"),
    ]


def test_unknown_table_names_the_nearest(rows):
    with pytest.raises(ConfigError, match="nearest known: budget"):
        build_table("budgets", rows, EXPECTED, SETTINGS, TableContext("r", "paper"))


def test_missing_units_are_listed_in_whole_seeds_and_data_sets():
    expected = [(d, m, s) for d in "ab" for m in ("lr", "rf") for s in (0, 1, 2)]
    missing = [u for u in expected if u[2] == 2 or u[::2] == ("a", 1) or u == ("b", "rf", 0)]
    assert list_missing(missing, expected) == "all of seed 2; all of a, seed 1; b/rf/0"
    assert list_missing([("a", "lr", 0)], [("a", "lr", 0), ("a", "rf", 0)]) == "a/lr/0"
