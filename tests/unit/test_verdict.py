"""Paper against ours, the verdict page and the running times, on runs whose answer is known."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from synthetic_units import make_unit

from cfc.errors import ArtifactError, ConfigError
from cfc.evaluate import EvaluationSettings, evaluate_unit
from cfc.figures import draw_figure
from cfc.reference import RULE, VERDICTS, judge, read_reference
from cfc.tables import build_table
from cfc.tables.base import TableContext, pick
from cfc.tables.paper_vs_ours import PAPER_DATASETS, READ
from cfc.tables.render import (
    document_html,
    document_markdown,
    from_arrow,
    table_reader,
    to_arrow,
    write_table_files,
)
from cfc.tables.runtime import read_benchmarks
from cfc.verdict import sections

NAN = float("nan")
SETTINGS = EvaluationSettings(n_bootstrap=100, label_rules=("literal", "swap"))
CORE = ("brittle_aggregate", "brittle_auroc", "budget", "predictive")


# --- the rule ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paper", "ours", "low", "high", "neutral", "verdict"),
    [
        (0.915, 0.900, 0.899, 0.901, 0.5, "reproduced"),  # within .02, outside the interval
        (0.520, 0.500, NAN, NAN, 0.5, "reproduced"),  # .02 exactly, no interval
        (0.915, 0.850, 0.780, 0.930, 0.5, "reproduced"),  # inside an interval of .15
        (0.915, 0.850, 0.700, 0.930, 0.5, "same direction"),  # inside one too wide to confirm
        (0.915, 0.776, 0.726, 0.818, 0.5, "same direction"),
        (0.361, 0.550, 0.500, 0.600, 0.5, "not reproduced"),
        (0.505, 0.700, 0.650, 0.750, 0.5, "not reproduced"),  # printed as chance, ours is not
        (0.700, 0.515, 0.450, 0.600, 0.5, "not reproduced"),  # the other way round
        (0.405, -0.100, -0.200, -0.050, 0.0, "not reproduced"),
        (0.405, 0.233, 0.154, 0.301, 0.0, "same direction"),
        (2048, 2050, NAN, NAN, NAN, "reproduced"),
        (2048, 1200, NAN, NAN, NAN, "same direction"),
        (2048, 64, NAN, NAN, NAN, "not reproduced"),
        (0.9, NAN, NAN, NAN, 0.5, "undefined"),
    ],
)
def test_the_rule_in_every_direction(paper, ours, low, high, neutral, verdict):
    found = judge(paper, ours, low, high, neutral)
    assert found.verdict == verdict
    assert found.verdict in VERDICTS
    assert found.why


def test_the_shipped_reference_is_whole(repository):
    frame = read_reference(repository / "config/reference/cfc_paper.csv")
    # counted in the paper: six scores on seven data sets
    assert len(frame[frame["source"] == "Table 2a"]) == 42
    assert set(frame.loc[frame["source"] == "Table 2a", "dataset"]) == set(PAPER_DATASETS)
    top = frame[(frame["score"] == "fds") & frame["source"].str.startswith("Table 2b")]
    assert top.set_index("metric")["value"].to_dict() == {
        "auroc": 0.915,
        "gain": 0.405,
        "share_not_improving": 0.0,
    }
    assert frame.loc[frame["metric"] == "cases", "value"].tolist() == [2048]
    # the printed mean of Table 2a is that of its rows, to the digit it is printed with
    for score, value in (("fds", 0.915), ("max_softmax", 0.434), ("rcma", 0.590)):
        own = frame[(frame["source"] == "Table 2a") & (frame["score"] == score)]["value"]
        assert own.mean() == pytest.approx(value, abs=6e-4)


def test_a_damaged_reference_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match="does not exist"):
        read_reference(tmp_path / "none.csv")
    path = tmp_path / "bad.csv"
    path.write_text("source,dataset\na,b\n")
    with pytest.raises(ArtifactError, match="no column score, metric"):
        read_reference(path)
    line = "Table 1,all,fds,auroc,0.9,,,0.5\n"
    path.write_text("source,dataset,score,metric,value,low,high,neutral\n" + line + line)
    with pytest.raises(ArtifactError, match="twice"):
        read_reference(path)


# --- a run whose answer is known -----------------------------------------------------------------


def make_run(skill, *, datasets=("adult", "heloc"), models=("lr", "rf"), seeds=(0, 1)):
    """Return the expected units, their metrics and their core tables."""
    expected = [(d, m, s) for d in datasets for m in models for s in seeds]
    rows = pa.concat_tables(
        [evaluate_unit(*make_unit(*u, n=400, skill=skill), settings=SETTINGS) for u in expected]
    )
    context = TableContext("toy", "paper")
    tables = {
        name: from_arrow(to_arrow(build_table(name, rows, expected, SETTINGS, context).data))
        for name in CORE
    }
    return expected, rows, tables


@pytest.fixture(scope="module")
def strong():
    return make_run(4.0)


@pytest.fixture(scope="module")
def blind():
    return make_run(-1.0)


def reference_file(path, lines):
    head = "source,dataset,score,metric,value,low,high,neutral\n"
    path.write_text(head + "".join(line + "\n" for line in lines))
    return path


def compare(run, path, settings=SETTINGS):
    expected, rows, tables = run
    context = TableContext("toy", "paper", tables=tables.get, reference=path)
    return build_table("paper_vs_ours", rows, expected, settings, context)


LINES = [
    "Table 2a,adult,fds,auroc,0.95,,,0.5",
    "Table 2a,bank,fds,auroc,0.935,,,0.5",
    "Table 2b,all,max_softmax,auroc,0.5,,,0.5",
    "Table 2b and text,all,fds,auroc,0.915,0.905,0.925,0.5",
    "Table 2b and text,all,fds,gain,0.405,,,0",
    "Table 2b,all,fds,share_not_improving,0,,,0.5",
    "Table 12,all,fds,win_rate,1.0,,,0.5",
    "Table 14,all,fds,capture_20,0.889,,,0.2",
    "Table 14,all,confidence_low,capture_20,0.318,,,0.2",
    "Table 9,adult+bank+heloc,fds,auroc,0.812,,,0.5",
    "text,all,fds,auroc_min,0.831,,,0.5",
    "text,all,strongest_confidence,auroc,0.510,,,0.5",
    "text,all,static,cases,2048,,,",
]


def line(result, **keys):
    return pick(result.data, **keys).iloc[0]


def test_values_are_the_means_of_the_unit_rows(strong, tmp_path):
    result = compare(strong, reference_file(tmp_path / "r.csv", LINES))
    _, rows, _ = strong
    frame = rows.to_pandas()
    frame = frame[(frame["metric"] == "auroc") & (frame["label_rule"] == "literal")]
    fds = pick(frame, score="fds", sign="risk").groupby("dataset")["value"].mean()
    row = line(result, source="Table 2b and text", metric="auroc")
    assert row["ours"] == pytest.approx(fds.mean())
    assert row["low"] < row["ours"] < row["high"]
    assert line(result, source="Table 2a", dataset="adult")["ours"] == pytest.approx(fds["adult"])
    assert line(result, metric="auroc_min")["ours"] == pytest.approx(fds.min())
    softmax = {
        sign: pick(frame, score="max_softmax", sign=sign).groupby("dataset")["value"].mean()
        for sign in ("paper", "risk")
    }
    row = line(result, score="max_softmax")
    assert row["ours"] == pytest.approx(softmax["paper"].mean())
    assert row["ours_risk"] == pytest.approx(softmax["risk"].mean())
    assert row["ours"] + row["ours_risk"] == pytest.approx(1)
    gain = line(result, metric="gain")
    best = {sign: max(softmax[sign].mean(), 0) for sign in softmax}
    assert gain["ours"] == pytest.approx(fds.mean() - best["paper"])
    assert gain["ours_risk"] == pytest.approx(fds.mean() - best["risk"])
    wins = (
        pick(frame, score="fds", sign="risk")["value"].to_numpy()
        > pick(frame, score="max_softmax", sign="paper")["value"].to_numpy()
    )
    assert line(result, metric="win_rate")["ours"] == pytest.approx(wins.mean())
    assert line(result, metric="share_not_improving")["ours"] == pytest.approx(1 - wins.mean())


def test_a_strong_run_is_called_reproduced_and_a_blind_one_not(strong, blind, tmp_path):
    path = reference_file(tmp_path / "r.csv", LINES)
    good, bad = compare(strong, path), compare(blind, path)
    for metric in ("win_rate", "share_not_improving"):
        assert line(good, metric=metric)["verdict"] == "reproduced"
        assert line(bad, metric=metric)["verdict"] == "not reproduced"
    for result, verdict in ((good, {"reproduced", "same direction"}), (bad, {"not reproduced"})):
        assert line(result, source="Table 2b and text", metric="auroc")["verdict"] in verdict
        assert line(result, metric="gain")["verdict"] in verdict
    text = "\n".join(bad.notes)
    assert RULE in text
    assert "2 of the paper's 7 data sets (adult, heloc)" in text


def test_what_a_run_lacks_is_undefined_with_the_reason(strong, tmp_path):
    result = compare(strong, reference_file(tmp_path / "r.csv", LINES))
    assert line(result, dataset="bank")["why"] == "data set bank is not in this run"
    assert line(result, source="Table 9")["why"] == "table natural is not in this run"
    assert line(result, metric="cases")["why"] == "table search_gap is not in this run"
    undefined = result.data[result.data["ours"].isna()]
    assert set(undefined["verdict"]) == {"undefined"}
    assert any("Not in this run" in note and "natural" in note for note in result.notes)


def test_a_run_of_other_data_sets_is_not_judged(strong, tmp_path):
    expected, rows, tables = make_run(4.0, datasets=("alpha",), seeds=(0,))
    result = compare((expected, rows, tables), reference_file(tmp_path / "r.csv", LINES))
    assert set(result.data["verdict"]) == {"undefined"}
    why = line(result, source="Table 2b and text", metric="auroc")["why"]
    assert why == "none of the paper's data sets is in this run"


def test_units_without_brittle_cases_are_counted(tmp_path):
    expected = [("adult", "lr", 0), ("adult", "rf", 0)]
    rows = pa.concat_tables(
        [
            evaluate_unit(*make_unit(*u, brittle_share=share), settings=SETTINGS)
            for u, share in zip(expected, (0.3, 0.0), strict=True)
        ]
    )
    tables = {
        name: from_arrow(
            to_arrow(build_table(name, rows, expected, SETTINGS, TableContext("toy", "paper")).data)
        )
        for name in CORE
    }
    run = expected, rows, tables
    path = reference_file(tmp_path / "r.csv", LINES)
    row = line(compare(run, path), source="Table 2b and text", metric="auroc")
    assert (row["n_units"], row["n_undefined"]) == (1, 1)
    assert np.isnan(row["low"])
    assert "1 of 2 units undefined" in row["why"]
    text = page(run)
    assert "Label `literal`: 1 of 2 units have none: 1 × no brittle case of N." in text
    assert "1 unit, no interval" in text


def test_paper_vs_ours_needs_its_inputs(strong):
    expected, rows, _ = strong
    with pytest.raises(ConfigError, match="needs the run's other tables"):
        build_table("paper_vs_ours", rows, expected, SETTINGS, TableContext("toy", "paper"))


def test_every_shipped_figure_is_looked_up_without_error(strong, repository):
    result = compare(strong, repository / "config/reference/cfc_paper.csv")
    assert len(result.data) == len(read_reference(repository / "config/reference/cfc_paper.csv"))
    assert set(READ) >= {"natural", "search_gap", "attribution", "ablation", "stability"}
    figure = draw_figure("paper_vs_ours", result.data, run="toy", preset="paper")
    assert len(figure.axes) == 2


# --- the page ------------------------------------------------------------------------------------


def page(run, more=None):
    expected, _, tables = run
    held = {**tables, **(more or {})}
    return document_markdown("Verdict", [("run", "toy")], sections(held.get, expected, SETTINGS))


def test_the_page_says_yes_and_says_no(strong, blind):
    yes, no = page(strong), page(blind)
    assert "Does FDS beat correctly signed confidence? Yes under `literal`" in yes
    assert "Does FDS beat correctly signed confidence? No, it is behind, under `literal`" in no
    assert "look at what they rest on, not at their confidence" in yes
    assert "correctly signed confidence finds the failing predictions better than FDS" in no
    assert "Label `literal`: FDS reaches" in yes
    assert "FDS is ahead of max-softmax, risk sign" in yes
    assert "FDS is behind max-softmax, risk sign" in no


def shift(run, score, by):
    """Return the run with one score's AUROC moved in every unit of brittle_aggregate."""
    expected, rows, tables = run
    data = tables["brittle_aggregate"].copy()
    own = (data["level"] == "unit") & (data["score"] == score)
    fds = data[(data["level"] == "unit") & (data["score"] == "fds") & (data["sign"] == "risk")]
    data.loc[own & (data["sign"] == "risk"), "value"] = fds["value"].to_numpy() + by
    return expected, rows, {**tables, "brittle_aggregate": data}


def test_the_one_step_sum_decides_in_both_directions(strong):
    ahead = page(shift(strong, "one_step_sum", -0.05))
    behind = page(shift(strong, "one_step_sum", +0.01))
    assert "Does FDS beat the one-step sum (max δ + Σδ⁺)/|m|? Yes under `literal` (+0.050)" in ahead
    assert "the removal path ranks better than the one-step sum and so earns its price" in ahead
    assert "(max δ + Σδ⁺)/|m|? No, it is behind, under `literal` (−0.010)" in behind
    assert "take it for the ranking, the certificate for the explanation" in behind


def calibration_table(changed):
    rows = []
    for seed in range(6):
        for method, ece in (("global", 0.05), ("brittleness_aware", 0.03 + seed * 0.002)):
            for subset in ("all", "fragile"):
                for metric, value in (("ece", ece), ("nll", 0.5), ("share_label_changed", changed)):
                    rows.append(
                        {
                            "level": "unit",
                            "dataset": "adult",
                            "model": "lr",
                            "seed": seed,
                            "score": method,
                            "metric": f"{subset}:{metric}",
                            "value": value,
                        }
                    )
    return pd.DataFrame(rows)


def test_changed_labels_are_shouted(strong):
    fine = page(strong, {"calibration": calibration_table(0.0)})
    assert "No predicted label changed in any unit, as it must be." in fine
    assert "lowers the ECE of all test cases" in fine
    assert "does not measurably change the NLL of the most fragile cases" in fine
    broken = page(strong, {"calibration": calibration_table(0.01)})
    assert "**Predicted labels changed, which must not be**: adult/lr/0, adult/lr/1, " in broken


def search_table(match, over):
    return pd.DataFrame(
        [
            {
                "level": "unit",
                "dataset": "adult",
                "model": "lr",
                "seed": seed,
                "score": "static",
                "metric": metric,
                "value": value,
                "n": 64,
                "label_rule": "",
                "reason": "",
            }
            for seed in (0, 1)
            for metric, value in (("exact_match", match), ("greedy_over", over))
        ]
    )


def test_match_and_over_estimate_add_up_on_the_page(strong, tmp_path):
    more = {"search_gap": search_table(0.84, 0.16)}
    text = page(strong, more)
    assert "the two add up to 1.000" in text
    assert "ExactMatch + GreedyOver must be 1" in text
    expected, rows, tables = strong
    lines = ["Table 7 and text,all,static,exact_match,0.869,,,0.5", "text,all,static,cases,2048,,,"]
    result = compare(
        (expected, rows, {**tables, **more}), reference_file(tmp_path / "r.csv", lines)
    )
    row = line(result, metric="exact_match")
    assert row["ours"] == pytest.approx(0.84)
    assert row["verdict"] == "same direction"
    assert "must to 1" in row["why"]
    assert line(result, metric="cases")["ours"] == 128


def test_the_monotone_confidence_scores_are_checked(strong):
    assert "the two agree within 0.001 on 2 of 2 data sets." in page(strong)
    expected, rows, tables = strong
    data = tables["brittle_aggregate"].copy()
    own = (data["level"] == "unit") & (data["score"] == "negative_energy")
    data.loc[own & (data["dataset"] == "heloc"), "value"] += 0.02
    text = page((expected, rows, {**tables, "brittle_aggregate": data}))
    assert "they differ on heloc (up to 0.020)" in text


def test_a_page_without_any_table_still_says_so():
    text = document_markdown("Verdict", [], sections(lambda name: None, [("a", "lr", 0)], SETTINGS))
    assert "none of the paper's data sets" in text
    assert "The table `brittle_aggregate` is absent from this run" in text


def test_pages_are_written_as_markdown_and_html(strong, tmp_path):
    expected, _rows, tables = strong
    result = compare(strong, reference_file(tmp_path / "r.csv", LINES))
    write_table_files(result, tmp_path / "paper_vs_ours")
    read = table_reader([tmp_path / "paper_vs_ours.parquet", tmp_path / "paper_vs_ours.md"])
    assert read("other") is None
    again = read("paper_vs_ours")
    assert again["verdict"].tolist() == result.data["verdict"].tolist()
    found = sections({**tables, "paper_vs_ours": again}.get, expected, SETTINGS)
    html = document_html("Verdict", [("run", "toy")], found)
    assert html.startswith("<!DOCTYPE html>")
    assert "<code>literal</code>" in html
    assert "http" not in html.replace("http-equiv", "")
    text = document_markdown("Verdict", [("run", "toy")], found)
    assert f"Of {len(LINES)} printed figures" in text
    assert "| Table 2a: CFC-FDS, auroc, bank | 0.935 | — |" in text


def test_missing_units_are_counted_on_the_page(strong):
    expected, rows, _ = strong
    longer = [*expected, ("adult", "lr", 9)]
    tables = {
        name: from_arrow(
            to_arrow(build_table(name, rows, longer, SETTINGS, TableContext("toy", "paper")).data)
        )
        for name in CORE
    }
    assert "**1 units are missing.**" in page((longer, rows, tables))


# --- running times -------------------------------------------------------------------------------


def benchmark(folder, path, **values):
    path = folder / f"{path}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values) + "\n")


UNITS = [("adult", "lr", 0), ("adult", "rf", 0)]


@pytest.fixture
def benchmarks(tmp_path):
    benchmark(tmp_path, "train_model/adult/lr/seed0", s=60.0, cpu_time=50.0, max_rss=1024.0)
    benchmark(tmp_path, "train_model/adult/rf/seed0", s=120.0, cpu_time=110.0, max_rss=2048.0)
    benchmark(tmp_path, "train_model/adult/rf/seed7", s=999.0, cpu_time=1.0, max_rss=1.0)
    benchmark(tmp_path, "train_model/bank/rf/seed0", s=999.0, cpu_time=1.0, max_rss=1.0)
    benchmark(tmp_path, "split_rows/adult/seed0", s=6.0, cpu_time=5.0, max_rss=None)
    benchmark(tmp_path, "acquire_data/adult", s=3.0, cpu_time=2.0, max_rss="NA")
    benchmark(tmp_path, "acquire_data/bank", s=999.0, cpu_time=2.0, max_rss=1.0)
    benchmark(tmp_path, "build_table/budget", s=3.0, cpu_time=2.0, max_rss=100.0)
    (tmp_path / "split_rows/adult/seed1.jsonl").write_text("")
    return tmp_path


def test_benchmarks_of_this_run_only(benchmarks):
    frame = read_benchmarks(benchmarks, [*UNITS, ("adult", "lr", 1)])
    assert sorted(frame["stage"]) == [
        "acquire_data",
        "build_table",
        "split_rows",
        "train_model",
        "train_model",
    ]
    assert frame["seconds"].sum() == 192.0
    assert np.isnan(pick(frame, stage="acquire_data")["peak_mb"].iloc[0])


def runtime(folder):
    rows = pa.concat_tables([evaluate_unit(*make_unit(*u), settings=SETTINGS) for u in UNITS])
    context = TableContext("toy", "paper", benchmarks=folder)
    return build_table("runtime", rows, UNITS, SETTINGS, context)


def test_runtime_by_hand(benchmarks):
    result = runtime(benchmarks)
    row = pick(result.data, level="stage", stage="train_model").iloc[0]
    assert (row["n_jobs"], row["seconds"], row["mean_seconds"]) == (2, 180.0, 90.0)
    assert (row["max_seconds"], row["peak_mb"]) == (120.0, 2048.0)
    assert pick(result.data, level="total")["seconds"].iloc[0] == 192.0
    by_model = pick(result.data, level="stage_model").set_index(["stage", "model"])["seconds"]
    assert by_model.to_dict() == {("train_model", "lr"): 60.0, ("train_model", "rf"): 120.0}
    _caption, frame = result.displays[0]
    assert frame.iloc[0].tolist() == [
        "train_model",
        "2",
        "3.00",
        "93.8%",
        "90.0",
        "120.0",
        "2.00",
        "adult/rf/seed0",
    ]
    assert frame.iloc[-1, 0] == "all"
    to_arrow(result.data)


def test_runtime_without_benchmarks(tmp_path):
    result = runtime(tmp_path)
    assert result.displays[0][1].iloc[0].tolist() == ["no job measured", "—"]
    assert any("No benchmark file was found" in note for note in result.notes)
    to_arrow(result.data)


# --- other figures of this slice -----------------------------------------------------------------


def test_mitigation_and_structure_figures(strong):
    _, _rows, tables = strong
    empty = draw_figure("mitigation", tables["predictive"], run="toy", preset="paper")
    assert any("this run" in t.get_text() for t in empty.axes[0].texts)
    renamed = tables["predictive"].assign(
        model=tables["predictive"]["model"].replace({"lr": "mlp", "rf": "resmlp"})
    )
    full = draw_figure("mitigation", renamed, run="toy", preset="paper")
    assert full.legends[0].get_texts()[0].get_text() == "mlp"
    natural = tables["brittle_auroc"]
    figure = draw_figure(
        "natural_and_structure",
        tables["brittle_auroc"],
        run="toy",
        preset="paper",
        also={"natural": natural},
    )
    heat = figure.axes[2].images[0].get_array()
    units = pick(
        natural, level="unit", metric="auroc", label_rule="literal", score="fds", sign="risk"
    )
    assert heat[0, 1] == pytest.approx(pick(units, dataset="adult", model="rf")["value"].mean())
    blank = natural.assign(value=np.nan)
    draw_figure(
        "natural_and_structure", natural, run="toy", preset="paper", also={"natural": blank}
    )


@pytest.mark.parametrize(
    ("signs", "standing"),
    [
        ([1, 1], "ahead"),
        ([-1, -1], "behind"),
        ([0, 0], "tied"),
        ([1, 0, 0], "partly ahead"),
        ([0, -1], "partly behind"),
        ([1, 0, -1], "mixed"),
        ([], "undefined"),
    ],
)
def test_a_standing_needs_every_rule_to_agree(signs, standing):
    from types import SimpleNamespace

    from cfc.verdict import _standing

    found = dict(enumerate(SimpleNamespace(sign=sign) for sign in signs))
    run = SimpleNamespace(difference=lambda *_, label_rule, **__: found[label_rule])
    assert _standing(run, list(found), lambda *_: "other") == standing
