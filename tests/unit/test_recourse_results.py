"""Metrics and tables from hand-made stages; the published numbers and the rule of verdicts."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from recourse_toys import linear_net, toy_data
from scipy.stats import rankdata

from cfc.artifacts import write_json, write_table
from cfc.data.registry import DatasetSpec
from cfc.errors import ArtifactError, ConfigError
from cfc.protocol import Protocol
from cfc.recourse.certificates import certify_stage, groups_of
from cfc.recourse.families import BaseModel
from cfc.recourse.figures import FIGURES, draw_figure
from cfc.recourse.figures.distance_robustness import frontier
from cfc.recourse.reference import VERDICTS, judge, read_reference
from cfc.recourse.results import METRICS, Results
from cfc.recourse.seeds import SeedPlan
from cfc.recourse.stages import base_stage, evaluate_stage, nets_of
from cfc.recourse.tables import TABLES, build_table
from cfc.recourse.tables.certificate_survival import flip_group, partial
from cfc.tables.render import to_arrow, to_html, to_markdown

FAMILIES = ("bootstrap", "parameter_perturbation")
METHODS = ("kdtree", "apas")


def rows(columns, *values):
    return pa.Table.from_pylist([dict(zip(columns, v, strict=True)) for v in values])


@pytest.fixture
def results(tmp_path, repository):
    """Two base models, four requests each; apas fails at some, and finds nothing for base 1."""
    keys = ("method", "base", "row_id", "status", "distance", "n_changed", "plausibility")
    candidates, survival, models = [], [], []
    for base in (0, 1):
        for row in range(4):
            candidates.append(("kdtree", base, row, "ok", 1.0 + base, 3.0, 0.5))
            for family, share in zip(FAMILIES, (0.5, 1.0 - 0.25 * base), strict=True):
                survival.append(("kdtree", base, row, family, share))
    status = ["ok", "base_invalid", "none", "ok"]
    for row in range(4):
        far = 0.2 * (row + 1) if status[row] != "none" else None
        candidates.append(("apas", 0, row, status[row], far, 1.0, 0.4))
        candidates.append(("apas", 1, row, "timeout", None, None, None))
    for family, shares in zip(FAMILIES, ((0.0, 0.5), (1.0, 1.0)), strict=True):
        survival += [("apas", 0, row, family, s) for row, s in zip((0, 3), shares, strict=True)]
    for method, bases in (("kdtree", (0, 1)), ("apas", (0,))):
        for base in bases:
            n = 4 if method == "kdtree" else 2
            models += [(method, base, f, k, n, n - k) for f in FAMILIES for k in (0, 1)]
    folder = tmp_path
    write_table(rows(keys, *candidates), folder / "evaluation/toy.candidates.parquet")
    write_table(
        rows(("method", "base", "row_id", "family", "share"), *survival),
        folder / "evaluation/toy.survival.parquet",
    )
    write_table(
        rows(("method", "base", "family", "number", "n_valid", "n_accepted"), *models),
        folder / "evaluation/toy.models.parquet",
    )
    for family in FAMILIES:
        bank = [
            {
                "base": b,
                "number": k,
                "family": family,
                "level": f"{k / 10:g}" if family == FAMILIES[1] else "",
                "replicate": 0,
                "hidden": "32-32",
                "seeds": json.dumps({"rows": 10 * b + k}),
                "validation_loss": 0.1 * b + k,
                "balanced_accuracy": 0.9,
                "disagreement": 0.01 * (1 + b) * (1 + k),
                "probability_mae": 0.02,
            }
            for b in (0, 1)
            for k in (0, 1)
        ]
        write_table(pa.Table.from_pylist(bank), folder / f"bank/toy/{family}.parquet")
    bases = [
        {"base": b, "init_seed": b, "balanced_accuracy": 0.9 + 0.02 * b, "n_requests": 4}
        for b in (0, 1)
    ]
    write_table(pa.Table.from_pylist(bases), folder / "bases/toy.parquet")
    toy_data(3).write(folder / "data/toy.parquet")
    for method in METHODS:
        remarks = [json.dumps({"certified": row % 2 == 0}) for row in range(4)]
        table = pa.table(
            {
                "base": [0] * 4 + [1] * 4,
                "status": status + ["timeout"] * 4,
                "remark": remarks + [None] * 4,
            }
        )
        write_table(table, folder / f"candidates/toy/{method}.parquet")
        head = {"dataset": "toy", "method": method}
        grid = [
            {"params": {"lam": 0.1}, "valid": 3, "requests": 4, "distance": 0.5, "is_winner": True}
        ]
        facts = [{"base": 0, "name": "apas_radius", "value": 0.25}]
        write_json(
            {**head, "params": {}, "tuning": grid, "facts": facts},
            folder / f"candidates/toy/{method}.facts.json",
        )
        times = {"seconds": [1.0, 3.0], "setup_seconds": [4.0], "alone_seconds": [2.0], "mode": "x"}
        write_json({**head, **times}, folder / f"candidates/toy/{method}.timings.json")
    certificates = [
        {
            "base": b,
            "row_id": r,
            "confidence": 0.6 + 0.1 * r,
            "margin": 1.0,
            "rcma": 0.1,
            "flip_budget": 1 + r,
            "u": 1.0 / (1 + r),
            "fds": 0.5,
            "k_exact": 1 + r,
            "k_beam": 1 + r,
        }
        for b in (0, 1)
        for r in range(4)
    ]
    write_table(pa.Table.from_pylist(certificates), folder / "certificates/toy.parquet")
    keys = ("base", "row_id", "margin", "outcome", "cost", "best", "bound", "nodes", "n_open_units")
    audited = [
        (0, 0, 0.21, "proved", 2.0, 2.0, 2.0, 1, 9),
        (0, 3, 0.21, "cheaper", 2.0, 1.6, 1.5, 40, 30),
        (1, 0, 0.41, "open", 4.0, 4.0, 1.0, 500, 60),
    ]
    write_table(rows(keys, *audited), folder / "audit/toy.parquet")
    return Results(
        folder=folder,
        run="r",
        profile="independent",
        datasets=["toy"],
        methods=METHODS,
        families=FAMILIES,
        titles={"toy": "Toy"},
        settings={"exact_depth": 5, "n_bootstrap": 50, "bootstrap_seed": 0},
        reference=repository / "config/reference/recourse_paper.csv",
    )


def test_metrics_are_made_within_a_base_model_then_averaged(results):
    own = results.by_base.set_index(["method", "base"])
    apas = own.loc[("apas", 0)]
    # 3 of 4 covered, 2 of 3 valid; survival (0 + .5)/2 under one family, 1 under the other
    assert apas["coverage_pct"] == 75
    assert apas["base_validity_pct"] == pytest.approx(200 / 3)
    assert apas["empirical_robustness_pct"] == pytest.approx(100 * (0.25 + 1) / 2)
    assert apas["end_to_end_robustness_pct"] == pytest.approx(75 * 2 / 3 * 0.625)
    assert apas["scaled_l1_distance"] == pytest.approx((0.2 + 0.8) / 2)  # valid ones only
    nothing = own.loc[("apas", 1)]
    assert nothing["coverage_pct"] == 0
    assert nothing["end_to_end_robustness_pct"] == 0
    assert (
        nothing[["base_validity_pct", "empirical_robustness_pct", "scaled_l1_distance"]]
        .isna()
        .all()
    )
    data = build_table("methods", results).data.set_index(["method", "metric"])
    # kdtree: 75 % at base 0, (50 + 75)/2 at base 1; sample deviation of the two
    found = data.loc[("kdtree", "empirical_robustness_pct")]
    assert found["mean"] == pytest.approx((75 + 62.5) / 2)
    assert found["sd"] == pytest.approx(np.std([75, 62.5], ddof=1))
    # the product is averaged, not made of averages
    assert data.loc[("apas", "end_to_end_robustness_pct"), "mean"] == pytest.approx(31.25 / 2)


def test_features_whose_unit_is_no_median_deviation_are_named(results):
    assert not [n for n in build_table("methods", results).notes if "median absolute" in n]
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[:21, 1] = 0.5  # more than half the rows alike
    toy_data(3, X=X).write(results.folder / "data/toy.parquet")
    results.__dict__.pop("without_mad")
    (note,) = [n for n in build_table("methods", results).notes if "median absolute" in n]
    assert note.startswith("Toy: the median absolute deviation of f1 is 0")


def test_cells_average_base_models_and_show_what_pooling_would_give(results):
    data = build_table("families", results).data.set_index(["method", "family"])
    cell = data.loc[("kdtree", "parameter_perturbation")]
    assert cell["mean"] == pytest.approx((100 + 75) / 2)
    assert cell["pooled"] == pytest.approx(87.5)
    assert cell["worst_model"] == pytest.approx(75)  # one of two models accepts 3 of 4
    assert data.loc[("apas", "bootstrap"), "mean"] == pytest.approx(25)


def test_magnitude_is_the_mean_of_data_sets_means_and_of_their_deviations(results):
    data = build_table("magnitude", results).data
    own = data[(data["family"] == "bootstrap") & (data["metric"] == "hard_disagreement_pct")]
    moved = [1.0, 2.0, 2.0, 4.0]
    for name in ("toy", "macro_average"):
        row = own[own["dataset"] == name].iloc[0]
        assert row["mean"] == pytest.approx(np.mean(moved))
        assert row["sd"] == pytest.approx(np.std(moved, ddof=1))
    assert own[own["dataset"] == "toy"]["n_distinct"].iloc[0] == 4


def bank_of(family, *models):
    keys = ("base", "level", "replicate", "hidden", "seeds")
    return pd.DataFrame([dict(zip(keys, m, strict=True)) for m in models]).assign(family=family)


def test_networks_are_different_by_how_they_were_made(results):
    # the same first weights asked for by two base models are one network; base 1 starts from 1
    name = "new_initialization"
    bank = bank_of(
        name,
        (0, "", 0, "32-32", '{"init":2}'),
        (0, "", 1, "32-32", '{"init":3}'),
        (1, "", 0, "32-32", '{"init":3}'),
        (1, "", 1, "32-32", '{"init":4}'),
    )
    # equal row draws are other networks under other first weights, and at another strength
    rows = bank_of(
        "data_deletion",
        (0, "0.01", 0, "32-32", '{"rows":7}'),
        (1, "0.01", 0, "32-32", '{"rows":7}'),
        (0, "0.05", 0, "32-32", '{"rows":7}'),
        (0, "0.05", 1, "32-32", '{"rows":7}'),
    )
    # nothing drawn: the settings, the shape or the replicate tell them apart
    fixed = bank_of(
        "architecture",
        (0, "8", 0, "8", "{}"),
        (0, "8-8", 0, "8-8", "{}"),
        (1, "8", 0, "8", "{}"),
        (1, "8", 1, "8", "{}"),
    )
    bank = pd.concat([bank, rows, fixed])
    bank = bank.assign(dataset="toy", balanced_accuracy=0.9, disagreement=0.1, probability_mae=0.1)
    results = replace(results, families=tuple(bank["family"].unique()))
    results.__dict__["bank"] = bank
    result = build_table("magnitude", results)
    own = result.data[result.data["metric"] == "hard_disagreement_pct"].set_index("family")
    own = own[own["dataset"] == "toy"]["n_distinct"]
    assert own.to_dict() == {name: 3, "data_deletion": 3, "architecture": 4}
    assert "Toy, New initialization: 4 changed models are 3 different networks." in result.notes


def test_size_and_robustness_are_ranked_model_by_model(results):
    data = build_table("magnitude_robustness", results).data
    at = data[data["kind"] != "family"].set_index(["kind", "method"])
    # base 0: labels moved 1, 2, 1, 2 %; kdtree accepted by 4, 3, 4, 3 of 4; base 1 the same
    assert at.loc[("all", "kdtree"), "mean"] == pytest.approx(-1)
    assert at.loc[("within", "kdtree"), "mean"] == pytest.approx(-1)
    assert at.loc[("all", "kdtree"), "n_bases"] == 2
    assert at.loc[("all", "apas"), "n_bases"] == 1  # base 1 has no valid candidate
    # perturbed models that move more are accepted more: +1 within that family, −1 in the other
    turned = results.models.copy()
    is_perturbed = turned["family"] == "parameter_perturbation"
    turned.loc[is_perturbed, "n_accepted"] = turned["n_valid"] - 1 + turned["number"]
    results.__dict__["models"] = turned
    again = build_table("magnitude_robustness", results).data.set_index(["kind", "method"])
    assert again.loc[("within", "kdtree"), "mean"] == pytest.approx(0)
    assert again.loc[("all", "kdtree"), "mean"] == pytest.approx(0)
    results.__dict__["models"] = turned.assign(
        n_accepted=turned["n_accepted"] - 10 * is_perturbed, n_valid=20
    )
    again = build_table("magnitude_robustness", results).data.set_index(["kind", "method"])
    assert again.loc[("within", "kdtree"), "mean"] == pytest.approx(0)
    # labels moved 1, 2, 1, 2; accepted in the order 3.5, 3 ranks against 1, 2
    ranks = pd.DataFrame({"moved": [1, 2, 1, 2], "accepted": [4, 3, 1, 2]}).rank()
    whole = ranks["moved"].corr(ranks["accepted"])
    assert again.loc[("all", "kdtree"), "mean"] == pytest.approx(whole)
    families = data[data["kind"] == "family"].set_index(["method", "family"])
    assert families.loc[("kdtree", "bootstrap"), "disagreement_pct"] == pytest.approx(2.25)
    assert families.loc[("kdtree", "bootstrap"), "mean"] == pytest.approx(87.5)
    constant = results.models.assign(n_accepted=results.models["n_valid"])
    results.__dict__["models"] = constant
    again = build_table("magnitude_robustness", results).data
    assert again[again["kind"] != "family"]["mean"].isna().all()


def test_certification_counts_requests_and_times_are_pooled_over_them(results):
    data = build_table("apas_certification", results).data.set_index("base")
    assert data["certified_pct"].tolist() == [50.0, 0.0]
    assert data.loc[0, "n_returned"] == 3
    times = build_table("seconds", results).data
    row = times[
        (times["method"] == "apas") & (times["dataset"] == "pooled") & (times["mode"] == "run")
    ]
    assert row["mean"].iloc[0] == 2.0
    assert row["sd"].iloc[0] == pytest.approx(np.sqrt(2))
    assert row["p90"].iloc[0] == pytest.approx(2.8)
    assert row["with_setup"].iloc[0] == 4.0


def test_the_audit_counts_outcomes_and_prints_the_largest_excess_and_gap(results):
    result = build_table("apas_audit", results)
    assert result.data["excess_pct"].tolist() == pytest.approx([0, 25, 0])
    assert result.data["gap_pct"].tolist() == pytest.approx([0, 25, 75])
    shown = result.displays[0][1].iloc[0].tolist()
    assert shown == ["Toy", "3", "1", "1", "1", "25.00", "75.00", "40", "500"]
    without = build_table("apas_audit", replace(results, methods=("kdtree",)))
    assert not len(without.data)
    assert without.notes[0].startswith("Nothing was audited")
    to_arrow(without.data)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_renders(name, results):
    result = build_table(name, results)
    assert len(result.data)
    to_arrow(result.data)
    assert result.title in to_markdown(result)
    assert "<table>" in to_html(result)
    assert "Profile `independent`" in result.notes[-1]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_draws(name, results):
    data = to_arrow(build_table(FIGURES[name], results).data)
    figure = draw_figure(name, data, run="r", profile="independent", titles={"toy": "Toy"})
    texts = [t.get_text() for axes in figure.axes for t in axes.texts]
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert any(titles)
    if name == "family_heatmap":
        assert "88" in texts  # kdtree under perturbation
    with pytest.raises(ConfigError, match="unknown"):
        draw_figure("none", data, run="r", profile="independent", titles={})


def test_the_frontier_holds_what_nothing_beats():
    points = [(1.0, 50.0), (2.0, 40.0), (2.0, 90.0), (3.0, 90.0), (4.0, 95.0)]
    assert frontier(points) == [(1.0, 50.0), (2.0, 90.0), (4.0, 95.0)]


# --- certificates of requests ---------------------------------------------------------------------


def test_flip_groups_use_the_exact_search_where_there_is_one():
    assert flip_group(1, 9, 5) == "1"
    assert flip_group(4, 1, 5) == "3 or more"
    assert flip_group(6, 6, 5) == "none found"
    assert flip_group(np.nan, 2, 5) == "2"


def test_the_partial_correlation_is_that_of_what_a_regression_leaves_over():
    rng = np.random.default_rng(0)
    fixed = rng.normal(size=50)
    score, share = fixed + rng.normal(size=50), 0.5 * fixed + rng.normal(size=50)
    design = np.c_[np.ones(50), fixed]
    left = [v - design @ np.linalg.lstsq(design, v, rcond=None)[0] for v in (score, share)]
    plain = np.corrcoef([score, share, fixed])
    found = partial(plain[0, 1], plain[1, 2], plain[0, 2])
    assert found == pytest.approx(np.corrcoef(left)[0, 1])
    assert np.isnan(partial(0.5, np.nan, 0.1))
    assert np.isnan(partial(0.5, 0.5, -1.0))


def test_association_is_a_rank_correlation_within_units(tmp_path, results):
    keys = ("method", "base", "row_id", "family", "share")
    up = [("kdtree", b, r, "bootstrap", r / 20) for b in range(2) for r in range(12)]
    write_table(rows(keys, *up), results.folder / "evaluation/toy.survival.parquet")
    many = [
        {"method": "kdtree", "base": b, "row_id": r, "status": "ok", "distance": 12.0 - r}
        for b in range(2)
        for r in range(12)
    ]
    write_table(pa.Table.from_pylist(many), results.folder / "evaluation/toy.candidates.parquet")
    certificates = [
        {
            "base": b,
            "row_id": r,
            "confidence": 0.5,
            "u": (1 if b else -1) * r,
            "flip_budget": r + 1,
            "k_exact": None,
            "k_beam": 3,
        }
        for b in range(2)
        for r in range(12)
    ]
    table = pa.Table.from_pylist(certificates)
    table = table.set_column(5, "k_exact", pa.array([None] * 24, type=pa.int64()))
    write_table(table, results.folder / "certificates/toy.parquet")
    data = build_table("certificate_survival", results).data
    at = data[data["kind"] == "correlation"].set_index(["method", "family", "score"])["value"]
    assert at["kdtree", "bootstrap", "u"] == pytest.approx(0)  # +1 and −1 in the two units
    assert at["kdtree", "bootstrap", "flip_budget"] == pytest.approx(1)
    assert at["kdtree", "bootstrap", "distance"] == pytest.approx(-1)
    assert np.isnan(at["kdtree", "bootstrap", "confidence"])  # constant
    assert np.isnan(at["kdtree", "bootstrap", "k_exact"])  # no search
    assert np.isnan(at["kdtree", "parameter_perturbation", "u"])


def test_what_is_left_given_the_confidence_is_a_correlation_of_residual_ranks(results):
    rng = np.random.default_rng(2)
    n = 30
    confidence = rng.uniform(0.5, 1, n)
    u, k = 2 - confidence + rng.normal(0, 0.2, n), rng.integers(1, 6, n)
    share = np.round(np.clip(0.6 * u - 0.1 * k + rng.normal(0, 0.1, n), 0, 1) * 20) / 20
    keys = ("method", "base", "row_id", "family", "share")
    path = results.folder
    write_table(
        rows(keys, *[("kdtree", 0, r, "bootstrap", s) for r, s in enumerate(share.tolist())]),
        path / "evaluation/toy.survival.parquet",
    )
    keys = ("method", "base", "row_id", "status", "distance")
    many = [("kdtree", 0, r, "ok", 1.0) for r in range(n)]
    write_table(rows(keys, *many), path / "evaluation/toy.candidates.parquet")
    keys = ("base", "row_id", "confidence", "u", "flip_budget", "k_exact", "k_beam")
    values = zip(confidence.tolist(), u.tolist(), k.tolist(), strict=True)
    write_table(
        rows(keys, *[(0, r, c, v, b, b, b) for r, (c, v, b) in enumerate(values)]),
        path / "certificates/toy.parquet",
    )
    data = build_table("certificate_survival", results).data
    at = data[data["kind"] == "correlation"].set_index(["method", "family", "score"])["value"]
    design = np.c_[np.ones(n), rankdata(confidence)]

    def left(values):
        ranks = rankdata(values)
        return ranks - design @ np.linalg.lstsq(design, ranks, rcond=None)[0]

    for name, values in (("u_given", u), ("k_exact_given", k)):
        expected = np.corrcoef(left(values), left(share))[0, 1]
        assert at["kdtree", "bootstrap", name] == pytest.approx(expected)


def test_groups_of_the_flip_budget_are_not_averaged_over_data_sets(results):
    keys = ("method", "base", "row_id", "family", "share")
    # 12 requests with k = 1 and 9 with k = 2: too few for a value, but they are counted
    shares = [("kdtree", 0, r, "bootstrap", 0.25 if r < 6 else 0.75) for r in range(21)]
    write_table(rows(keys, *shares), results.folder / "evaluation/toy.survival.parquet")
    many = [("kdtree", 0, r, "ok", 1.0) for r in range(21)]
    keys = ("method", "base", "row_id", "status", "distance")
    write_table(rows(keys, *many), results.folder / "evaluation/toy.candidates.parquet")
    keys = ("base", "row_id", "confidence", "u", "flip_budget", "k_exact", "k_beam")
    budgets = [(0, r, 0.5, 1.0, 1, 1 if r < 12 else 2, 1) for r in range(21)]
    write_table(rows(keys, *budgets), results.folder / "certificates/toy.parquet")
    data = build_table("certificate_survival", results).data
    at = data[data["kind"] == "survival_pct"].set_index(["dataset", "method", "score"])
    assert at.loc[("toy", "kdtree", "1"), "value"] == pytest.approx(50)
    assert np.isnan(at.loc[("toy", "kdtree", "2"), "value"])
    assert at.loc[("toy", "kdtree", "2"), "n_candidates"] == 9


def test_certificates_of_requests_are_those_of_the_linear_model():
    data, net = toy_data(3), linear_net([3.0, 1.0, 0.0], 0.0)
    declared = DatasetSpec.from_mapping(
        "toy",
        {
            "title": "T",
            "source": {"kind": "file", "path": "x"},
            "target": "y",
            "classes": ["a", "b"],
            "fields": {"f0": "numeric", "f1": "numeric", "f2": "numeric"},
            "domain_groups": {"left": ["f0"], "rest": ["f1", "f2"]},
            "grouping": "domain",
        },
    )
    assert [n for n, _ in groups_of(data, declared)] == ["left", "rest"]
    refused = np.flatnonzero(~net.accepts(data.X["test"]))[:8]
    requests = pa.table({"base": np.zeros(8, dtype=np.int64), "position": refused})
    table, facts = certify_stage(
        data,
        [BaseModel(0, 0, net)],
        requests,
        declared,
        Protocol(),
        {"exact_depth": 2, "exact_subsets": 100, "beam_width": 2},
    )
    assert facts["exact_depth"] == 2
    mean = data.X["train"].mean(axis=0)
    for x, k in zip(data.X["test"][refused], table.column("k_exact").to_pylist(), strict=True):
        left, rest = np.r_[mean[0], x[1:]], np.r_[x[0], mean[1:]]
        single = [3 * z[0] + z[1] >= 0 for z in (left, rest)]
        whole = 3 * mean[0] + mean[1] >= 0
        assert k == (1 if any(single) else 2 if whole else 3)


# --- stages ---------------------------------------------------------------------------------------


def test_evaluation_asks_every_changed_model_about_valid_candidates_only():
    data, net = toy_data(2), linear_net([1.0, 0.0], 0.0)
    refused = np.flatnonzero(~net.accepts(data.X["test"]))[:3]
    requests = pa.table({"base": np.zeros(3, dtype=np.int64), "position": refused})
    points = np.array([[2.0, 0.0], [np.nan, np.nan], [5.0, 0.0]], dtype=np.float32)
    table = pa.table(
        {
            "base": np.zeros(3, dtype=np.int64),
            "row_id": data.row_id["test"][refused],
            "status": ["ok", "none", "ok"],
            "x": pa.array(points.tolist(), type=pa.list_(pa.float32())),
        }
    )
    stricter = {f"base0/00{i}": linear_net([1.0, 0.0], -b) for i, b in enumerate((1.0, 3.0, 9.0))}
    found = evaluate_stage(data, [BaseModel(0, 0, net)], requests, {"m": table}, {"f": stricter})
    # thresholds 1, 3, 9: the first candidate passes one, the last two
    assert found["survival"].column("share").to_pylist() == pytest.approx([1 / 3, 2 / 3])
    assert found["models"].column("n_accepted").to_pylist() == [2, 1, 0]
    assert found["candidates"].column("distance").to_pylist()[1] is None
    assert len(nets_of(stricter, 0)) == 3
    other = table.set_column(1, "row_id", pa.array([1, 2, 3]))
    with pytest.raises(ValueError, match="answer other requests"):
        evaluate_stage(data, [BaseModel(0, 0, net)], requests, {"m": other}, {"f": stricter})


def test_base_models_differ_in_first_weights_and_say_what_they_refuse():
    data = toy_data(3, n=200)
    settings = {
        "bases": 2,
        "requests": 7,
        "training": {"epochs": 20, "patience": 5, "min_delta": 1e-6},
    }
    nets, facts, requests = base_stage(data, SeedPlan("independent", "diabetes"), settings)
    assert not np.array_equal(nets["base0"].flat(), nets["base1"].flat())
    for b in (0, 1):
        accepted = nets[f"base{b}"].accepts(data.X["test"])
        own = facts.to_pylist()[b]
        assert own["n_refused"] == (~accepted).sum()
        assert own["n_requests"] == min(7, own["n_refused"])
        y = data.y["test"]
        expected = (
            (accepted & (y == 1)).sum() / (y == 1).sum()
            + (~accepted & (y == 0)).sum() / (y == 0).sum()
        ) / 2
        assert own["balanced_accuracy"] == pytest.approx(expected)
    assert max(requests.column("proba").to_pylist()) < 0.5


# --- the published numbers ------------------------------------------------------------------------


def test_the_published_numbers_are_whole_and_agree_with_each_other(repository, tmp_path):
    frame = read_reference(repository / "config/reference/recourse_paper.csv")
    table6 = frame[frame["table"] == "Table 6"]
    assert len(table6) == 36 * 5
    cells = frame[frame["table"] == "Figure 1"]
    assert len(cells) == 288
    wide = table6.pivot(index=["dataset", "method"], columns="metric", values="mean")
    means = cells.groupby(["dataset", "method"])["mean"].mean()
    gap = (means - wide["empirical_robustness_pct"]).abs()
    assert gap.max() <= 0.505
    product = (
        wide["coverage_pct"] * wide["base_validity_pct"] * wide["empirical_robustness_pct"] / 1e4
    )
    assert (product - wide["end_to_end_robustness_pct"]).abs().max() <= 0.35
    text = (repository / "config/reference/recourse_paper.csv").read_text()
    (tmp_path / "twice.csv").write_text(text + text.splitlines()[1] + "\n")
    with pytest.raises(ArtifactError, match="names a number twice"):
        read_reference(tmp_path / "twice.csv")


def published(**changes):
    row = {"table": "Table 6", "dataset": "diabetes", "method": "kdtree", "family": "all"}
    row |= {"metric": "empirical_robustness_pct", "mean": 85.9, "sd": 5.9}
    return row | changes


@pytest.mark.parametrize(
    ("row", "ours", "profile", "verdict"),
    [
        (published(), 86.9, "parity", "reproduced"),
        (published(), 87.5, "parity", "close"),
        (published(), 89.0, "parity", "not reproduced"),
        (published(), 97.0, "independent", "reproduced"),  # two printed deviations
        (published(sd=0.1), 91.0, "independent", "close"),
        (published(), np.nan, "parity", "undefined"),
        (published(metric="scaled_l1_distance", mean=1.201), 1.23, "parity", "reproduced"),
        (published(metric="scaled_l1_distance", mean=1.201), 1.30, "parity", "not reproduced"),
        (
            published(method="roar_lime", metric="scaled_l1_distance"),
            1.0,
            "parity",
            "not comparable",
        ),
        (published(method="apas", metric="coverage_pct"), 100.0, "parity", "not comparable"),
        (
            published(table="Table 3", metric="n_train", mean=384, sd=np.nan),
            383.0,
            "parity",
            "not reproduced",
        ),
        (
            published(table="Table 3", metric="n_train", mean=384, sd=np.nan),
            384.0,
            "independent",
            "reproduced",
        ),
        (published(table="Figure 1", mean=86), 88.4, "parity", "reproduced"),
    ],
)
def test_verdicts_follow_the_rule(row, ours, profile, verdict):
    found = judge(row, ours, profile)
    assert found.verdict == verdict
    assert found.verdict in VERDICTS


def test_every_published_number_has_a_row_and_ours_beside_it(results):
    data = build_table("paper_vs_ours", results).data
    assert len(data) == 602
    assert set(data["verdict"]) <= set(VERDICTS)
    # the toy run has families that are averaged over data sets, nothing else that is printed
    own = data[data["ours"].notna()]
    assert set(own["table"]) <= {"Table 4", "Text A.4"}
    assert len(METRICS) == 5
    with pytest.raises(ConfigError, match="file of published numbers"):
        build_table("paper_vs_ours", replace(results, reference=None))


def test_distances_in_published_deviations_are_ours_less_theirs_over_theirs(results):
    data = build_table("paper_vs_ours", results).data
    row = data[(data["table"] == "Table 4") & (data["family"] == "bootstrap")].iloc[0]
    assert row["difference"] == pytest.approx(2.25 - 4.92)
    assert row["difference_in_sd"] == pytest.approx((2.25 - 4.92) / 1.25)
    assert isinstance(data, pd.DataFrame)
