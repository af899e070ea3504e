"""The interactive page's values against ones worked out by hand, its size and its bytes."""

import base64
import gzip
import json
import re

import numpy as np
import pyarrow as pa
import pytest
from page_units import CELLS, make_page, make_page_unit, make_run
from synthetic_units import RULES

from cfc.errors import ArtifactError
from cfc.page.payload import (
    FRAGILE,
    UNIFORM,
    UnitTables,
    cut,
    mid_ranks,
    rounded,
    rule_text,
    select_cases,
    unit_payload,
)

MEGABYTE = 1_000_000


def replaced(unit: UnitTables, **tables) -> UnitTables:
    return UnitTables(**{**unit.__dict__, **tables})


def payload(unit, limit=200, rules=RULES):
    return unit_payload(unit, limit=limit, tau_p=0.90, rules=rules)


def test_ranks_by_hand():
    # 5 is first; the two 3s share places 2 and 3; 1 is last
    assert mid_ranks(np.array([3.0, 5.0, 1.0]), np.array([5.0, 3.0, 1.0, 3.0])).tolist() == [
        2.5,
        1,
        4,
    ]


def test_ranks_agree_with_scipy():
    from scipy.stats import rankdata

    values = np.random.default_rng(0).integers(0, 9, 200).astype(float)
    np.testing.assert_array_equal(mid_ranks(values, values), rankdata(-values))


def test_numbers_keep_four_digits_and_their_size():
    assert rounded(np.array([[0.123456, 12345.6], [np.nan, -np.inf]])) == [
        [0.1235, 12350],
        [None, None],
    ]


def test_probabilities_are_cut_but_not_below_themselves():
    assert [cut(p) for p in (0.95, 0.9, 285 / 300, 0.999999, 0.8999999, 1.0)] == [
        0.95,
        0.9,
        0.95,
        0.99999,
        0.89999,
        1.0,
    ]


def test_few_cases_are_all_chosen_but_the_unsure_outside_the_sample():
    confidence = np.array([0.95, 0.99, 0.92, 0.7, 0.91])
    u = np.array([1.0, 3.0, 2.0, 9.0, 0.5])
    is_uniform = np.array([True, False, False, False, False])
    positions, why = select_cases(confidence, u, is_uniform, limit=10, tau_p=0.9, seed=0)
    assert positions.tolist() == [0, 1, 2, 4]
    assert why.tolist() == [UNIFORM + FRAGILE, FRAGILE, FRAGILE, FRAGILE]


def test_the_most_fragile_fill_the_places_the_sample_leaves():
    confidence = np.full(8, 0.95)
    u = np.arange(8.0)
    is_uniform = np.array([True, True, *[False] * 6])
    positions, why = select_cases(confidence, u, is_uniform, limit=4, tau_p=0.9, seed=0)
    assert positions.tolist() == [0, 1, 6, 7]
    assert why.tolist() == [UNIFORM, UNIFORM, FRAGILE, FRAGILE]


def test_the_uniform_part_is_a_sample_that_the_seed_fixes():
    n = 1000
    confidence, u, is_uniform = np.full(n, 0.5), np.zeros(n), np.ones(n, dtype=bool)
    taken = np.zeros(n)
    for seed in range(200):
        positions, _ = select_cases(confidence, u, is_uniform, limit=200, tau_p=0.9, seed=seed)
        assert len(positions) == 100
        taken[positions] += 1
    # 20 expected a case, standard deviation 4.2: thirds of the file are taken alike
    thirds = [part.mean() for part in np.array_split(taken, 3)]
    assert max(thirds) - min(thirds) < 1.5
    again, _ = select_cases(confidence, u, is_uniform, limit=200, tau_p=0.9, seed=199)
    assert np.array_equal(positions, again)


@pytest.fixture(scope="module")
def unit():
    return make_page_unit(n=120)


def test_stress_is_counted_case_by_case(unit):
    told = payload(unit)
    rows = {(r["case_id"], r["operator"], r["severity"]): r for r in unit.stressed.to_pylist()}
    assert [tuple(cell) for cell in told["cells"]] == CELLS
    unstressed = 0
    for i, case in enumerate(told["cases"]["id"]):
        if told["cases"]["flips"][i] is None:
            assert told["cases"]["conf"][i] < 0.85
            unstressed += 1
            continue
        for k, cell in enumerate(CELLS):
            r = rows[(case, *cell)]
            assert told["cases"]["flips"][i][k] == sum(v != r["predicted"] for v in r["labels"])
            lost = [max(0, r["margin"] - m) / (abs(r["margin"]) + 1e-8) for m in r["margins"]]
            assert told["cases"]["kappa"][i][k] == pytest.approx(np.mean(lost), rel=1e-2)
    assert 0 < unstressed < len(told["cases"]["id"])


def test_cells_come_in_the_order_of_the_file_and_of_severity(unit):
    shuffled = unit.stressed.take(pa.array(np.arange(len(unit.stressed))[::-1].copy()))
    order = [tuple(cell) for cell in payload(replaced(unit, stressed=shuffled))["cells"]]
    assert order == [(o, s) for o in ("swap", "noise", "dropout", "mask") for s in (0.1, 0.2, 0.3)]


def test_ranks_are_among_all_confident_cases_shown_or_not(unit):
    told = payload(unit, limit=20)
    certificates = unit.certificates.to_pandas()
    scores = unit.ranks.to_pandas().set_index("case_id")["fds_risk"]
    confident = certificates[certificates["confidence"] >= 0.9]["case_id"]
    assert told["population"] == len(confident)
    assert told["ranked"][told["scores"].index("fds")] == len(confident)
    assert len(told["cases"]["id"]) == 20
    ranks = told["cases"]["ranks"][told["scores"].index("fds")]
    for case, rank in zip(told["cases"]["id"], ranks, strict=True):
        if case in set(confident):
            assert rank == 1 + (scores[confident] > scores[case]).sum()
        else:
            assert rank is None


def test_a_score_of_a_sample_is_ranked_within_it(unit):
    partial = unit.ranks["fds_risk"].to_pylist()
    partial = [None if i % 2 else v for i, v in enumerate(partial)]
    ranks = unit.ranks.append_column("shap_risk", pa.array(partial, pa.float64()))
    told = payload(replaced(unit, ranks=ranks))
    at = told["scores"].index("shap")
    assert told["ranked"][at] < told["population"]
    found = [r for r in told["cases"]["ranks"][at] if r is not None]
    assert max(found) <= told["ranked"][at]
    assert told["cases"]["values"][at].count(None) > 0


def test_the_case_says_what_the_certificate_says(unit):
    told = payload(unit)["cases"]
    rows = {r["case_id"]: r for r in unit.certificates.to_pylist()}
    for i, case in enumerate(told["id"]):
        r = rows[case]
        assert told["path"][i] == pytest.approx(r["path_margin"], rel=1e-3)
        assert [unit.group_names[g] for g in told["order"][i]] == r["group_order"]
        assert told["delta"][i] == pytest.approx(r["delta"], rel=1e-3)
        assert 0 <= r["confidence"] - told["conf"][i] < 1e-5
        assert [column[i] for column in told["lambda"]] == [
            r["lambda_top1"],
            r["lambda_top3"],
            r["lambda_all"],
        ]


def test_labels_of_other_cases_are_refused(unit):
    with pytest.raises(ArtifactError, match="stages certify and label hold different cases"):
        payload(replaced(unit, labels=unit.labels.slice(1)))


def test_a_unit_without_brittle_cases_says_why():
    told = payload(make_page_unit(brittle_share=0, n=60))
    assert told["brittle"] == {rule: 0 for rule in RULES}
    assert told["capture"]["literal"].startswith("no brittle case")


def test_a_unit_without_audited_cases_is_an_empty_list(unit):
    none = {
        name: getattr(unit, name).slice(0, 0)
        for name in ("certificates", "stressed", "labels", "ranks")
    }
    told = payload(replaced(unit, **none))
    assert told["cases"]["id"] == told["cases"]["path"] == told["cells"] == []
    json.dumps(told, allow_nan=False)


def test_the_heat_map_is_the_mean_over_seeds_with_reasons():
    units = [make_page_unit("toy", "lr", seed, n=80) for seed in (0, 1)]
    units += [make_page_unit("toy", "rf", seed, n=80, brittle_share=seed * 0.3) for seed in (0, 1)]
    run, _ = make_run(units)

    def auroc(unit):
        rows = unit.metrics.to_pandas()
        rows = rows[(rows["metric"] == "auroc") & (rows["label_rule"] == "swap")]
        return rows[(rows["score"] == "fds") & (rows["sign"] == "risk")]["value"].iloc[0]

    cells = run["heat"]["auroc"]["swap"]["fds_risk"]["cells"]
    assert cells[0][:3] == [pytest.approx((auroc(units[0]) + auroc(units[1])) / 2, abs=1e-4), 2, 2]
    assert cells[1][:3] == [pytest.approx(auroc(units[3]), abs=1e-4), 1, 2]
    assert cells[0][3] is None
    assert re.fullmatch(r"seed 0: no brittle case of \d+", run["reasons"][cells[1][3]])
    assert run["units"] == ["toy/lr/0", "toy/lr/1", "toy/rf/0", "toy/rf/1"]


def test_label_rules_in_words():
    labels = {"tau_p": 0.9, "tau_kappa": 0.5, "tau_flip": 0.5}
    flips = {"kind": "any_draw", "draws": 5, "collapse": False, "cells": {"mask": [0.2]}}
    assert rule_text(flips, labels) == (
        "confidence ≥ 0.9 and any of the first 5 draws flips the label, "
        "in one of the cells mask 0.2"
    )
    mean = {"kind": "mean", "cells": {"swap": [0.1, 0.2]}}
    assert rule_text(mean, labels) == (
        "confidence ≥ 0.9 and the label flips in a share of at least 0.5 of all draws, or the mean "
        "κ is at least 0.5, in one of the cells swap 0.1, 0.2"
    )


def unpacked(page: str, name: str) -> str:
    text = re.search(f'<script type="text/plain" id="{name}">(.*?)</script>', page, re.S)[1]
    return gzip.decompress(base64.b64decode(text)).decode()


def test_equal_runs_give_equal_bytes_and_every_unit_is_inside():
    units = [make_page_unit("toy", model, n=40) for model in ("lr", "rf")]
    page = make_page(units)
    assert page == make_page(units)
    assert json.loads(unpacked(page, "values"))["units"] == ["toy/lr/0", "toy/rf/0"]
    for number, unit in enumerate(units):
        told = json.loads(unpacked(page, f"unit-{number}"))
        assert set(told["cases"]["id"]) <= set(unit.certificates["case_id"].to_pylist())
    assert "unit-2" not in page


def test_the_page_asks_for_nothing_and_forbids_asking():
    page = make_page([make_page_unit(n=30)])
    assert "default-src 'none'" in page
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)


def test_names_of_a_run_cannot_break_out_of_the_page():
    run, units = make_run([make_page_unit(n=30)])
    from cfc.page.render import render_page

    run = {**run, "run": "<script>x", "provenance": {"note": "</script><b>"}}
    page = render_page(run, units)
    assert "<script>x" not in page
    assert "</script><b>" not in page


def test_the_full_grid_fits():
    """189 units of 200 cases with 23 groups and depth 10 stay below 15 MB."""
    from cfc.artifacts import canonical_json
    from cfc.page.render import packed, render_page

    units = [make_page_unit(seed=s, n=320, groups=23, depth=10, draws=50) for s in range(3)]
    run, payloads = make_run(units)
    payloads = list(payloads)
    assert min(len(p["cases"]["id"]) for p in payloads) == 200
    page = len(render_page(run, payloads))
    each = [len(packed(canonical_json(p))) for p in payloads]
    # the heat map of 63 pairs, the only part of the run's own values that grows with the grid
    shared = 63 * len(packed(canonical_json(run["heat"])))
    total = page + 186 * max(each) + shared
    assert total < 15 * MEGABYTE, total
