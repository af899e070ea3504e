"""The interactive page in a real browser: real clicks and keys, at desk and telephone width."""

import numpy as np
import pytest
from browsing import (
    NARROW,
    WIDE,
    all_of,
    assert_contrast_and_names,
    assert_controls_are_reached_by_tab,
    assert_fingers_fit,
    assert_no_errors_or_requests,
    assert_nothing_wider_than_screen,
    choose,
    column,
    focused,
    get,
    open_page,
    press,
    settle,
)
from page_units import make_page, make_page_unit


@pytest.fixture(scope="module")
def units():
    """Units of two data sets; toy/rf has no brittle case, the other data set three classes."""
    kinds = {
        ("toy", "lr"): {},
        ("toy", "rf"): {"brittle_share": 0},
        ("three", "lr"): {"classes": 3},
        ("three", "rf"): {"skill": -1.5},
    }
    return {key: make_page_unit(*key, n=90, **how) for key, how in kinds.items()}


@pytest.fixture(scope="module")
def page(units, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "explore.html"
    file.write_text(make_page(list(units.values()), limit=60), encoding="utf-8")
    return file.as_uri()


@pytest.fixture
def opened(browser, page):
    """Return a function that opens the page at a size and waits until it is ready."""
    return lambda size=WIDE, at="": open_page(browser, page + at, size)


def shown_case(browser):
    return int(get(browser, "#case-title").text.split(":")[0].removeprefix("Case "))


def test_it_opens_from_disk_without_errors_or_requests(opened):
    browser = opened()
    assert_no_errors_or_requests(browser)
    assert len(all_of(browser, "#collapse svg.main-svg")) > 0


def test_a_cell_of_the_heat_map_opens_its_cases(opened, units):
    browser = opened()
    get(browser, "#heat button[data-pair='three/rf']").click()
    settle(browser, lambda b: "Three, RF" in get(b, "#case-title").text)
    assert get(browser, "#dataset").get_attribute("value") == "three"
    assert get(browser, "#heat [aria-pressed=true]").get_attribute("data-pair") == "three/rf"
    ids = set(units["three", "rf"].certificates["case_id"].to_pylist())
    assert {int(text) for text in column(browser, 0)} <= ids
    assert len(column(browser, 0)) == 60


def test_an_undefined_cell_says_why(opened):
    browser = opened()
    cell = get(browser, "#heat button[data-pair='toy/rf']")
    assert cell.text == "—"
    assert "no brittle case of" in cell.get_attribute("aria-label")
    get(browser, "#undefined summary").click()
    assert "Toy, RF: seed 0: no brittle case of" in get(browser, "#undefined ul").text


def test_worse_than_a_coin_is_marked_without_colour(opened):
    browser = opened()
    choose(browser, "#heat-score", "max δ/|m| (ours)")
    marked = [b.text for b in all_of(browser, "#heat button.low")]
    assert marked
    assert all(text.startswith("▾ 0.") for text in marked)


def test_choosing_a_score_changes_it_everywhere(opened, units):
    browser = opened()
    choose(browser, "#capture-score", "max-softmax, paper sign")
    assert get(browser, "#heat-score").get_attribute("value") == "max_softmax_paper"
    assert "max-softmax, paper sign" in get(browser, "#capture-caption").text
    assert "max-softmax, paper sign" in get(browser, "#count").text
    unit = units["toy", "lr"]
    confidence = {r["case_id"]: r["confidence"] for r in unit.certificates.to_pylist()}
    places = zip(column(browser, 0), column(browser, 1), strict=True)
    ranked = [int(i) for i, rank in places if rank != "—"]
    values = [confidence[i] for i in ranked]
    assert values == sorted(values, reverse=True)  # the paper's sign: most confident first


def test_headings_sort_by_click_and_by_key(opened, units):
    from selenium.webdriver.common.keys import Keys

    browser = opened()
    get(browser, "[data-sort=id]").click()
    ids = [int(text) for text in column(browser, 0)]
    assert ids == sorted(ids)
    assert get(browser, "#list th[aria-sort=ascending]").text.startswith("Case")
    assert focused(browser).get_attribute("data-sort") == "id"
    press(browser, Keys.ENTER)
    assert [int(text) for text in column(browser, 0)] == sorted(ids, reverse=True)
    press(browser, Keys.TAB, Keys.ENTER)  # the next heading
    ranks = [float(text) for text in column(browser, 1) if text != "—"]
    assert ranks == sorted(ranks)


def test_filters_show_exactly_the_cases_that_fit(opened, units):
    browser = opened()
    rows = {r["case_id"]: r for r in units["toy", "lr"].certificates.to_pylist()}
    everything = {int(text) for text in column(browser, 0)}
    choose(browser, "#f-pred", "class 1")
    choose(browser, "#f-budget", "at most 2")
    fits = {i for i in everything if rows[i]["predicted"] == 1 and rows[i]["flip_budget"] <= 2}
    assert {int(text) for text in column(browser, 0)} == fits
    assert f"{len(everything) - len(fits)} hidden" in get(browser, "#count").text
    get(browser, "#reset").click()
    box = get(browser, "#f-conf")
    box.clear()
    box.send_keys("0.95")
    fits = {i for i in everything if rows[i]["confidence"] >= 0.95}
    assert {int(text) for text in column(browser, 0)} == fits
    get(browser, "#reset").click()
    choose(browser, "#f-rule", "swap")
    choose(browser, "#f-brittle", "yes")
    labels = units["toy", "lr"].labels.to_pandas().set_index("case_id")["swap"]
    assert {int(text) for text in column(browser, 0)} == {i for i in everything if labels[i]}
    choose(browser, "#f-brittle", "yes or no")
    get(browser, "#f-low").send_keys("0.5")
    fits = {i for i in everything if rows[i]["u"] >= 0.5}
    assert {int(text) for text in column(browser, 0)} == fits


def test_a_filter_nothing_passes_leaves_an_empty_list(opened):
    browser = opened()
    get(browser, "#f-id").send_keys("999999999")
    assert column(browser, 0) == []
    assert get(browser, "#count").text.startswith("0 cases shown")
    get(browser, "#reset").click()
    assert len(column(browser, 0)) == 60


def test_arrow_keys_go_through_the_list_and_open_cases(opened):
    from selenium.webdriver.common.keys import Keys

    browser = opened()
    ids = [int(text) for text in column(browser, 0)]
    assert shown_case(browser) == ids[0]
    browser.execute_script("document.querySelector('[data-sort=why]').focus()")
    press(browser, Keys.TAB)
    assert focused(browser).text == str(ids[0])
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert shown_case(browser) == ids[2]
    assert focused(browser).text == str(ids[2])
    outline = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"  # where the keyboard is can be seen
    press(browser, Keys.END)
    assert shown_case(browser) == ids[-1]
    assert get(browser, "#next").is_enabled() is False
    press(browser, Keys.HOME, Keys.ARROW_UP)
    assert shown_case(browser) == ids[0]
    get(browser, "#next").click()
    assert shown_case(browser) == ids[1]


def test_every_control_is_reached_by_tab(opened):
    assert_controls_are_reached_by_tab(opened())


def test_a_case_shows_its_certificate(opened, units):
    browser = opened()
    unit = units["toy", "lr"]
    get(browser, "#list tbody tr:nth-child(4) button").click()
    case = shown_case(browser)
    row = next(r for r in unit.certificates.to_pylist() if r["case_id"] == case)
    summary = get(browser, "#case-summary").text
    assert f"Predicted “class {row['predicted']}”" in summary
    depth = len(row["path_margin"]) - 1
    if row["flip_budget"] <= depth:
        assert f"k* = {row['flip_budget']}" in summary
    names = [e.text for e in all_of(browser, "#groups tbody th")]
    assert names == row["group_order"]
    deltas = [e.text for e in all_of(browser, "#groups tbody td:nth-child(3)")]
    by_name = dict(zip(unit.group_names, row["delta"], strict=True))
    told = [float(text.replace("−", "-")) for text in deltas]
    assert np.allclose(told, [by_name[n] for n in row["group_order"]], atol=0.006)
    assert get(browser, "#collapse").get_attribute("aria-label").startswith("Margin ")
    stressed = [r for r in unit.stressed.to_pylist() if r["case_id"] == case]
    flips = [e.text for e in all_of(browser, "#stress tbody td:nth-child(3)")]
    expected = [sum(v != r["predicted"] for v in r["labels"]) for r in stressed]
    assert flips == [f"{count}/10" for count in expected]
    others = [r for r in unit.certificates.to_pylist() if r["confidence"] >= 0.9]
    higher = sum(r["u"] > row["u"] for r in others)
    place = next(e for e in all_of(browser, "#ranks tbody tr") if e.text.startswith("CFC-FDS"))
    assert f" {higher + 1} of " in place.text


def test_an_unsure_case_says_that_it_was_not_stressed_or_ranked(opened):
    browser = opened()
    get(browser, "[data-sort=conf]").click()
    get(browser, "[data-sort=conf]").click()  # least sure first
    get(browser, "#list tbody tr:nth-child(1) button").click()
    assert "is below 0.85" in get(browser, "#stress-none").text
    assert not get(browser, "#stress-part").is_displayed()
    assert "Not ranked" in get(browser, "#ranks-hint").text


def test_an_address_names_a_case(opened, units):
    case = units["three", "lr"].certificates["case_id"].to_pylist()
    browser = opened()
    get(browser, "#heat button[data-pair='three/lr']").click()
    settle(browser, lambda b: "Three, LR" in get(b, "#case-title").text)
    get(browser, "#list tbody tr:nth-child(9) button").click()
    chosen = shown_case(browser)
    address = browser.execute_script("return location.hash")
    assert address == f"#three/lr/0/{chosen}"
    browser = opened(at=address)
    assert shown_case(browser) == chosen
    assert chosen in case
    browser = opened(at="#no/such/unit/1")
    assert "Toy, LR" in get(browser, "#case-title").text


def test_the_capture_chart_follows_the_unit(opened, units):
    browser = opened()
    choose(browser, "#capture-scope", "the unit below")
    assert "Toy, LR, seed 0" in get(browser, "#capture-caption").text
    choose(browser, "#model", "RF")
    settle(browser, lambda b: "Toy, RF" in get(b, "#case-title").text)
    assert "no brittle case" in get(browser, "#capture-caption").text
    assert not get(browser, "#capture").is_displayed()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["desk", "telephone"])
def test_charts_stay_inside_their_place(opened, size):
    browser = opened(size)
    for _ in range(2):
        spilled = browser.execute_script(
            "return [...document.querySelectorAll('.chart')].filter(c => c.offsetHeight &&"
            " c.querySelector('.main-svg').getBoundingClientRect().bottom"
            " > c.getBoundingClientRect().bottom + 1).map(c => c.id)"
        )
        assert spilled == []
        get(browser, "#capture-every").click()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["desk", "telephone"])
def test_nothing_is_wider_than_the_screen(opened, size):
    assert_nothing_wider_than_screen(opened(size), size)


def test_a_finger_can_use_it_at_telephone_width(opened):
    browser = opened(NARROW)
    get(browser, "#list tbody tr:nth-child(3) button").click()
    assert shown_case(browser) == int(column(browser, 0)[2])
    assert_fingers_fit(browser, "main select, main > section > * > button")


def test_text_has_enough_contrast_and_controls_have_names(opened):
    assert_contrast_and_names(opened())


def test_a_run_part_of_the_way_says_so_and_shows_what_is_there(browser, units, tmp_path):
    file = tmp_path / "partial.html"
    present = [unit for key, unit in units.items() if key != ("three", "rf")]
    file.write_text(make_page(present, limit=20), encoding="utf-8")
    open_page(browser, file.as_uri())
    assert "= 4 units" in get(browser, "header").text
    assert "3 of them are complete and on this page" in get(browser, "header").text
    choose(browser, "#dataset", "Three")
    settle(browser, lambda b: "Three, LR" in get(b, "#case-title").text)
    choose(browser, "#model", "RF")  # three/rf is missing, so another data set with it is shown
    settle(browser, lambda b: "Toy, RF" in get(b, "#case-title").text)
    assert get(browser, "#dataset").get_attribute("value") == "toy"
    assert_no_errors_or_requests(browser)
