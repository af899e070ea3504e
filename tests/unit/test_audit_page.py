"""The page of an audit: what is in it, what it leaves out, its size and its bytes."""

import base64
import gzip
import json
import re

import pyarrow as pa
import pytest
from audit_tables import make_audit
from sklearn.linear_model import LogisticRegression

import cfc.page.audit as module
from cfc.auditing.html_card import card_body
from cfc.auditing.show import record_of, summary
from cfc.page.audit import audit_page
from cfc.page.payload import FRAGILE, UNIFORM

NASTY = "<img src=x onerror=\"alert(1)\"> & 'co'"


@pytest.fixture(scope="module")
def audit():
    return make_audit(grouping="measure")


def unpacked(page, name):
    text = re.search(f'<script type="text/plain" id="{name}">(.*?)</script>', page, re.S)[1]
    return json.loads(gzip.decompress(base64.b64decode(text)))


def cards(page):
    count = len(re.findall(r'id="block-\d+"', page))
    return [card for k in range(count) for card in unpacked(page, f"block-{k}")]


def words(page):
    """Return the text of the page's own markup, scripts and styles left out."""
    plain = re.sub(r"<(script|style).*?</\1>", " ", page, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", plain))


def test_equal_audits_give_equal_bytes(audit):
    page = audit_page(audit.table, audit.facts, audit.X)
    assert page == audit_page(audit.table, audit.facts, audit.X)


def test_it_asks_for_nothing_and_forbids_asking(audit):
    page = audit_page(audit.table, audit.facts, audit.X)
    assert "default-src 'none'" in page
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)
    assert not re.search(r"url\(|@import|https?:", page)
    assert len(page) < 1_000_000  # no plotting library inside


def test_every_case_is_in_it_most_fragile_first(audit):
    page = audit_page(audit.table, audit.facts, audit.X, title="Mine")
    told = unpacked(page, "values")["cases"]
    assert told["rank"] == list(range(1, 285))
    rows = {r["index"]: r for r in audit.table.to_pylist()}
    assert sorted(told["index"]) == sorted(rows)
    for i, index in enumerate(told["index"]):
        row = rows[index]
        assert told["pred"][i] == row["predicted"]
        assert 0 <= row["confidence"] - told["conf"][i] < 1e-5
        assert told["budget"][i] == row["flip_budget"]
        assert told["value"][i] == pytest.approx(row["s"], rel=1e-3)
        assert told["wrong"][i] == (row["true_label"] != row["predicted_label"])
        alone = {g for g, d in enumerate(row["delta"]) if d > row["margin"]}
        assert set(told["alone"][i]) == alone
        known = [row[k] for k in ("brittle_expected", "brittle_swap") if row[k] is not None]
        assert told["brittle"][i] == (int(any(known)) if known else None)
    assert len(cards(page)) == 284
    assert "<title>Mine</title>" in page
    assert "left-out" not in page


def test_cards_are_those_of_a_notebook(audit):
    page = audit_page(audit.table, audit.facts)
    told = unpacked(page, "values")
    for i in (0, told["block"] - 1, told["block"], 283):
        position = told["cases"]["id"][i]
        assert cards(page)[i] == card_body(record_of(audit, position), audit.facts, {})


def test_values_are_of_the_same_row(audit):
    page = audit_page(audit.table, audit.facts, audit.X)
    told, made = unpacked(page, "values")["cases"], cards(page)
    for i in range(0, 284, 31):
        value = float(audit.X["worst texture"].iloc[told["id"][i]])
        assert f"worst texture {value:.4g}" in made[i]
    assert (
        "worst texture"
        not in cards(audit_page(audit.table, {**audit.facts, "baseline_text": {}}))[0]
    )


def test_the_top_is_over_all_cases_shown_or_not(audit):
    found = summary(audit.table, audit.facts)
    page = words(audit_page(audit.table, audit.facts, cases=20))
    assert f"{found['fragile']} of {found['confident']} confident cases" in page
    for name, count in found["points"].items():
        assert f"{name} {count}" in page


def test_a_large_audit_says_what_it_leaves_out(audit):
    page = audit_page(audit.table, audit.facts, cases=30)
    told = unpacked(page, "values")["cases"]
    fragile = [r for r, why in zip(told["rank"], told["why"], strict=True) if why & FRAGILE]
    sample = [r for r, why in zip(told["rank"], told["why"], strict=True) if why & UNIFORM]
    assert len(told["rank"]) == 30
    assert len(sample) == 15
    assert fragile == list(range(1, len(fragile) + 1))
    assert (
        f"Of 284 audited cases this page holds 30: the {len(fragile)} most fragile and a uniform "
        "sample of 15 (a case can be both)."
    ) in words(page)


def test_a_page_that_would_be_too_large_holds_fewer_cases(audit, monkeypatch):
    full = len(audit_page(audit.table, audit.facts, audit.X))
    monkeypatch.setattr(module, "LARGEST", int(0.7 * full))
    page = audit_page(audit.table, audit.facts, audit.X)
    assert len(page.encode()) <= 0.7 * full
    assert module.BLOCK <= len(unpacked(page, "values")["cases"]["id"]) < 284


def test_the_largest_page_fits():
    """All the cases a page holds, of 64 groups, with values, exposure and stress."""
    model = LogisticRegression(C=1e-3, max_iter=200)  # quick to ask
    audit = make_audit(data="digits", n=160, model=model)
    assert len(audit.groups) == 64
    assert sum(row is not None for row in audit.table["stress_swap_flip"].to_pylist()) > 20
    page = audit_page(audit.table, audit.facts, audit.X)
    assert len(cards(page)) == 160
    assert len(page.encode()) * module.CASES / 160 < module.LARGEST


def test_names_cannot_break_out_of_the_page(audit):
    made = make_audit(
        grouping="raw", n=6, rename={"worst area": NASTY}, index=[NASTY, *"bcdef"], stress=False
    )
    facts = {**made.facts, "notes": [NASTY], "fixed": [NASTY], "classes": [NASTY, "b"]}
    page = audit_page(made.table, facts, made.X, title=NASTY)
    for text in (page, *cards(page)):
        assert "<img" not in text
    assert "<title>&lt;img" in page
    assert unpacked(page, "values")["groups"].count(NASTY) == 1


def test_without_exposure_stress_truth_and_values():
    made = make_audit(preset="paper", exposure=False, stress=False, truth=False, n=12)
    page = audit_page(made.table, made.facts)
    told = unpacked(page, "values")["cases"]
    assert told["brittle"] is told["wrong"] is None
    for control in ("f-brittle", "f-wrong", "f-why"):
        assert f'id="{control}"' not in page
    text = words(page)
    assert "value exposure not run" in text
    assert "Exposure moves one group" not in text
    assert "Brittle is a label" not in text


def test_no_cases_and_an_audit_that_stopped_early(audit):
    page = audit_page(audit.table.slice(0, 0), {**audit.facts, "n_cases": 0}, audit.X)
    assert unpacked(page, "values")["cases"]["id"] == []
    assert "it holds 0 of 284 rows" in words(page)


def test_protocol_and_hashes_are_printed(audit):
    text = words(audit_page(audit.table, audit.facts))
    for value in (
        audit.facts["protocol_hash"],
        audit.facts["model"]["hash"],
        audit.facts["data_hash"],
        audit.facts["background_hash"],
        audit.facts["exposure"]["hash"],
        audit.facts["stress"]["donors_hash"],
        "static, to a depth of 10",
        "top1, top3, all at severities .25, .5, .75, 1",
        "swap .1, .2, .3 (20 draws)",
    ):
        assert value in text
    own = {**audit.facts, "model": {**audit.facts["model"], "hash": None}, "operators": {"x": "ab"}}
    text = words(audit_page(audit.table, own))
    assert "a function has no content hash" in text
    assert "operator x ab" in text


def test_an_index_too_large_for_a_script_is_text(audit):
    large = [2**60 + i for i in range(len(audit.table))]
    at = audit.table.column_names.index("index")
    table = audit.table.set_column(at, "index", pa.array(large))
    told = unpacked(audit_page(table, audit.facts), "values")["cases"]
    assert set(told["index"]) == {str(i) for i in large}
