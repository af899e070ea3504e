"""The page of an audit in a real browser: real clicks and keys, at desk and telephone width."""

import pytest
from audit_tables import make_audit
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

from cfc.auditing.show import alone_of, reading, summary
from cfc.page.audit import audit_page

NASTY = '<img src=x onerror="document.title=1">'
INDEX, RANK, PREDICTED, CONFIDENCE, BUDGET, SCORE, FLAGS = range(7)


@pytest.fixture(scope="module")
def audit():
    return make_audit(grouping="measure", rename={"mean area": NASTY, "worst area": f"{NASTY} 2"})


@pytest.fixture(scope="module")
def many():
    """64 groups with long names, ten classes, text as index, no exposure, stress or truth."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    names = load_digits(as_frame=True).data.columns
    return make_audit(
        data="digits",
        n=90,
        model=LogisticRegression(C=1e-3, max_iter=200),
        exposure=False,
        stress=False,
        truth=False,
        index=[f"customer <{i}> of the second branch" for i in range(90)],
        rename={n: f"a column with a rather long name, {n}" for n in names[::5]},
    )


@pytest.fixture(scope="module")
def pages(audit, many, tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    made = {
        "audit": audit_page(audit.table, audit.facts, audit.X, title="Mine"),
        "many": audit_page(many.table, many.facts, many.X, cases=60),
        "none": audit_page(audit.table.slice(0, 0), audit.facts),
    }
    for name, page in made.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in made}


@pytest.fixture
def opened(browser, pages):
    """Return a function that opens a page at a size and waits until a case is shown."""

    def open_one(size=WIDE, at="", page="audit"):
        open_page(browser, pages[page] + at, size)
        if page != "none":
            settle(browser, lambda b: get(b, "#card h3").is_displayed())
        return browser

    return open_one


def shown_case(browser):
    return get(browser, "#card h3").text.split(" rank ")[0].removeprefix("Case ")


def shows(browser, index):
    settle(browser, lambda b: shown_case(b) == str(index))


def by_rank(audit):
    return sorted(audit.table.to_pylist(), key=lambda row: row["rank"])


def indices(rows):
    return [str(row["index"]) for row in rows]


@pytest.mark.parametrize("page", ["audit", "many", "none"])
def test_it_opens_from_disk_without_errors_or_requests(opened, page):
    browser = opened(page=page)
    assert_no_errors_or_requests(browser)


def test_an_audit_without_cases_is_an_empty_list(opened):
    browser = opened(page="none")
    assert column(browser, INDEX) == []
    assert not get(browser, "#case").is_displayed()
    assert "it holds 0 of 284 rows" in get(browser, "header").text


def test_the_most_fragile_case_comes_first_and_is_read_out(opened, audit):
    browser = opened()
    ranked = by_rank(audit)
    assert column(browser, INDEX) == indices(ranked)
    assert column(browser, RANK) == [str(k) for k in range(1, 285)]
    assert shown_case(browser) == str(ranked[0]["index"])
    told = [
        sentence.replace("“", "").replace("”", "") for sentence in reading(ranked[0], audit.facts)
    ]
    lead = " ".join(e.text for e in all_of(browser, "#card .cfc-lead"))
    rest = [e.text for e in all_of(browser, "#card li")]
    assert lead.split() == " ".join(told[: len(told) - len(rest)]).split()
    assert rest == told[len(told) - len(rest) :]


def test_clicking_a_case_shows_its_certificate(opened, audit):
    browser = opened()
    ranked = by_rank(audit)
    row = next(r for r in ranked[5:] if r["stress_swap_flip"] is not None and r["flip_budget"] == 2)
    get(browser, f"#list tbody tr:nth-child({row['rank']}) button").click()
    shows(browser, row["index"])
    assert f"rank {row['rank']} of 284 by S" in get(browser, "#card h3").text
    names = [e.text.split("\n")[0] for e in all_of(browser, "#card .cfc-groups tbody th")]
    assert names == ["nothing removed", *row["group_order"]]
    marks = all_of(browser, "#card .cfc-kept, #card .cfc-flip")
    assert ["cfc-flip" in m.get_attribute("class") for m in marks] == [
        label != row["predicted"] for label in row["path_label"]
    ]
    label = get(browser, "#card .cfc-chart > svg").get_attribute("aria-label")
    assert label.startswith(f"Margin {row['margin']:.2f} with nothing removed")
    stress = get(browser, "#card .cfc-stress").text
    assert f".3 {100 * row['stress_swap_flip'][2]:.0f} %" in stress
    value = audit.X["worst texture"].iloc[row["case_id"]]
    assert f"worst texture {value:.4g}" in get(browser, "#card .cfc-groups").text
    get(browser, "#card summary").click()
    assert f"{row['rcma']:.3f}" in get(browser, "#card dl").text
    spoken = get(browser, "#said").get_attribute("textContent")
    assert spoken.startswith(f"Case {row['index']}. Predicted {row['predicted_label']} with")


def test_names_stay_text(opened):
    browser = opened()
    assert all_of(browser, "img") == []
    assert browser.title == "Mine"
    assert NASTY in get(browser, "#card").get_attribute("textContent")


def test_headings_sort_by_click_and_by_key(opened, audit):
    from selenium.webdriver.common.keys import Keys

    browser = opened()
    get(browser, "[data-sort=conf]").click()  # most confident first
    confidence = {str(r["index"]): r["confidence"] for r in by_rank(audit)}
    values = [confidence[i] for i in column(browser, INDEX)]
    assert values == sorted(values, reverse=True)
    assert get(browser, "#list th[aria-sort=descending]").text.startswith("p̂")
    press(browser, Keys.ENTER)
    values = [confidence[i] for i in column(browser, INDEX)]
    assert values == sorted(values)
    get(browser, "[data-sort=index]").click()
    own = [int(i) for i in column(browser, INDEX)]
    assert own == sorted(own)
    get(browser, "[data-sort=pred]").click()
    names = column(browser, PREDICTED)
    assert names == sorted(names)
    get(browser, "[data-sort=budget]").click()
    text = column(browser, BUDGET)
    steps = [11 if t == "none" else int(t.removeprefix("✕ ")) for t in text]
    assert steps == sorted(steps)


def test_text_as_index_sorts_by_the_numbers_in_it(opened):
    browser = opened(page="many")
    get(browser, "[data-sort=index]").click()
    numbers = [int(i.split("<")[1].split(">")[0]) for i in column(browser, INDEX)]
    assert numbers == sorted(numbers)


def test_filters_show_exactly_the_cases_that_fit(opened, audit):
    browser = opened()
    ranked = by_rank(audit)
    choose(browser, "#f-pred", "malignant")
    choose(browser, "#f-wrong", "wrong")
    fits = [r for r in ranked if r["predicted"] == 0 and r["true_label"] != r["predicted_label"]]
    assert column(browser, INDEX) == indices(fits)
    assert f"{284 - len(fits)} hidden" in get(browser, "#count").text
    get(browser, "#reset").click()
    assert len(column(browser, INDEX)) == 284
    box = get(browser, "#f-conf")
    box.clear()
    box.send_keys("0.98")
    assert column(browser, INDEX) == indices(r for r in ranked if r["confidence"] >= 0.98)
    get(browser, "#reset").click()
    choose(browser, "#f-brittle", "yes")
    assert column(browser, INDEX) == indices(
        r for r in ranked if r["brittle_expected"] or r["brittle_swap"]
    )
    assert {"brittle" in flags for flags in column(browser, FLAGS)} == {True}
    get(browser, "#reset").click()
    choose(browser, "#f-mind", "any")
    assert column(browser, INDEX) == []
    assert get(browser, "#count").text.startswith("0 cases shown")


def test_one_step_flips_only(opened, audit):
    browser = opened()
    flips = alone_of(audit.table, audit.facts)
    rows = audit.table.to_pylist()
    expected = sorted(
        (r for r, own in zip(rows, flips.any(axis=1), strict=True) if own), key=lambda r: r["rank"]
    )
    choose(browser, "#f-alone", f"any one group ({len(expected)})")
    assert column(browser, INDEX) == indices(expected)
    g = flips.sum(axis=0).argmax()
    choose(browser, "#f-alone", f"{audit.groups.names[g]} ({flips[:, g].sum()})")
    assert set(column(browser, INDEX)) == {
        str(r["index"]) for r, own in zip(rows, flips[:, g], strict=True) if own
    }


def test_search_finds_the_users_own_index(opened, audit):
    browser = opened(page="many")
    get(browser, "#f-index").send_keys("CUSTOMER <7")
    found = column(browser, INDEX)
    assert found
    assert all(i.startswith("customer <7") for i in found)
    get(browser, "#f-index").send_keys("999")
    assert column(browser, INDEX) == []
    assert get(browser, "#next").is_enabled() is False
    get(browser, "#reset").click()
    assert len(column(browser, INDEX)) == 60


def test_a_point_of_failure_leads_to_its_cases(opened, audit):
    browser = opened()
    name, count = next(iter(summary(audit.table, audit.facts)["points"].items()))
    button = get(browser, ".bars button")
    assert name in button.text
    button.click()
    found = column(browser, INDEX)
    assert len(found) == count
    shows(browser, found[0])
    assert f"Without {name} this decision becomes" in get(browser, "#card").text
    assert get(browser, "#f-conf").get_attribute("value") == "0.9"


def test_arrow_keys_go_through_the_list_and_open_cases(opened, audit):
    from selenium.webdriver.common.keys import Keys

    browser = opened()
    own = column(browser, INDEX)
    browser.execute_script("document.querySelector('[data-sort=flags]').focus()")
    press(browser, Keys.TAB)
    assert focused(browser).text == own[0]
    press(browser, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    shows(browser, own[2])
    assert focused(browser).text == own[2]
    outline = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    press(browser, Keys.END)
    shows(browser, own[-1])
    assert get(browser, "#next").is_enabled() is False
    press(browser, Keys.HOME)
    shows(browser, own[0])
    get(browser, "#next").click()
    shows(browser, own[1])
    get(browser, "#previous").click()
    shows(browser, own[0])


def test_every_control_is_reached_by_tab(opened):
    assert_controls_are_reached_by_tab(opened())


def test_an_address_names_a_case(opened, audit):
    browser = opened()
    get(browser, "#list tbody tr:nth-child(100) button").click()
    row = by_rank(audit)[99]
    shows(browser, row["index"])
    address = browser.execute_script("return location.hash")
    assert address == f"#{row['case_id']}"
    browser = opened(at=address)
    shows(browser, row["index"])
    browser = opened(at="#99999")
    shows(browser, by_rank(audit)[0]["index"])


def test_a_large_audit_says_what_is_missing(opened):
    browser = opened(page="many")
    assert "Of 90 audited cases this page holds 60" in get(browser, "#left-out").text
    choose(browser, "#f-why", "uniform sample")
    assert len(column(browser, INDEX)) == 30


def test_sixty_groups_fit_a_card(opened, many):
    browser = opened(page="many")
    assert len(all_of(browser, "#card .cfc-groups tbody th")) == 65
    assert len(all_of(browser, "#card .cfc-beyond")) == 54
    assert get(browser, "#card").text.count("Held-out stress") == 0
    box = get(browser, "#card .cfc-scroll[tabindex]")
    assert box.size["height"] < 700


@pytest.mark.parametrize("page", ["audit", "many"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["desk", "telephone"])
def test_nothing_is_wider_than_the_screen(opened, size, page):
    browser = opened(size, page=page)
    assert_nothing_wider_than_screen(browser, size)
    chart = browser.execute_script(
        "const card = document.getElementById('card').getBoundingClientRect();"
        "return [...document.querySelectorAll('.cfc-chart text')]"
        ".map(e => [e.textContent, e.getBoundingClientRect()])"
        ".filter(([, r]) => r.left < card.left - 12 || r.right > card.right + 1).map(([t]) => t)"
    )
    assert chart == []


def test_letters_of_the_curve_do_not_shrink_on_a_telephone(opened):
    heights = []
    for size in (WIDE, NARROW):
        browser = opened(size)
        heights.append(get(browser, ".cfc-tick").size["height"])
    assert heights[0] == heights[1] > 10


def test_a_finger_can_use_it_at_telephone_width(opened, audit):
    browser = opened(NARROW)
    get(browser, "#list tbody tr:nth-child(3) button").click()
    shows(browser, by_rank(audit)[2]["index"])
    settle(
        browser, lambda b: abs(get(b, "#case").rect["y"] - b.execute_script("return scrollY")) < 20
    )
    assert_fingers_fit(browser, "main select, main button[id], .bars button")
    get(browser, "#back").click()
    settle(browser, lambda b: get(b, "#cases").rect["y"] - b.execute_script("return scrollY") > -20)


def test_list_and_card_stand_side_by_side_on_a_desk(opened):
    browser = opened()
    left, card = get(browser, ".left").rect, get(browser, "#case").rect
    assert card["x"] >= left["x"] + left["width"]
    assert abs(card["y"] - left["y"]) < 40
    browser = opened(NARROW)
    left, card = get(browser, ".left").rect, get(browser, "#case").rect
    assert card["y"] >= left["y"] + left["height"]


@pytest.mark.parametrize("page", ["audit", "many"])
def test_text_has_enough_contrast_and_controls_have_names(opened, page):
    assert_contrast_and_names(opened(page=page))
