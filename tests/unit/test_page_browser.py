"""The interactive page in a real browser: real clicks and keys, at desk and telephone width."""

import shutil

import numpy as np
import pytest
from page_units import make_page, make_page_unit

WIDE, NARROW = (1280, 900), (360, 740)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")


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


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, page):
    """Return a function that opens the page at a size and waits until it is ready."""

    def open_page(size=WIDE, at=""):
        from selenium.webdriver.support.ui import WebDriverWait

        width, height = size
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        browser.get("about:blank")
        browser.get(page + at)
        WebDriverWait(browser, 30).until(
            lambda b: b.execute_script("return document.documentElement.dataset.ready") == "yes"
        )
        return browser

    return open_page


def get(browser, selector):
    return browser.find_element("css selector", selector)


def all_of(browser, selector):
    return browser.find_elements("css selector", selector)


def choose(browser, selector, text):
    from selenium.webdriver.support.ui import Select

    Select(get(browser, selector)).select_by_visible_text(text)


def settle(browser, condition):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 10).until(condition)


def column(browser, number):
    """Return the texts of one column of the list of cases."""
    return browser.execute_script(
        "return [...document.querySelectorAll('#list tbody tr')]"
        f".map(r => r.cells[{number}].textContent)"
    )


def press(browser, *keys):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def focused(browser):
    return browser.switch_to.active_element


def shown_case(browser):
    return int(get(browser, "#case-title").text.split(":")[0].removeprefix("Case "))


def test_it_opens_from_disk_without_errors_or_requests(opened):
    browser = opened()
    assert not [e for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
    requests = [e["message"] for e in browser.get_log("performance")]
    asked = [m for m in requests if '"Network.requestWillBeSent"' in m]
    assert asked
    assert not [m for m in asked if '"url":"http' in m]
    assert get(browser, "#loading").is_displayed() is False
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
    from selenium.webdriver.common.keys import Keys

    browser = opened()
    wanted = {
        e.get_attribute("id")
        for e in all_of(browser, "main select, main input, main button[id]")
        if e.is_enabled()
    }
    reached = set()
    for _ in range(120):
        press(browser, Keys.TAB)
        reached.add(focused(browser).get_attribute("id"))
    assert wanted <= reached


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
    browser = opened(size)
    width = browser.execute_script("return document.documentElement.scrollWidth")
    assert width <= size[0]
    beyond = browser.execute_script(
        "return [...document.querySelectorAll('main *, header *')]"
        ".filter(e => !e.closest('.scroll') && !e.closest('.chart'))"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
        ".map(e => e.outerHTML.slice(0, 80))"
    )
    assert beyond == []


def test_a_finger_can_use_it_at_telephone_width(opened):
    browser = opened(NARROW)
    get(browser, "#list tbody tr:nth-child(3) button").click()
    assert shown_case(browser) == int(column(browser, 0)[2])
    heights = browser.execute_script(
        "return [...document.querySelectorAll('main select, main > section > * > button')]"
        ".map(e => e.getBoundingClientRect().height).filter(h => h > 0)"
    )
    assert min(heights) >= 36


def test_text_has_enough_contrast_and_controls_have_names(opened):
    browser = opened()
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('main select, main input, main button')].filter(e =>"
        " !(e.labels?.length || e.ariaLabel || e.textContent.trim())).map(e => e.outerHTML)"
    )
    assert unnamed == []
    faint = browser.execute_script(
        """
        const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3)
            .map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
            return .2126 * r + .7152 * g + .0722 * b; };
        return [...document.querySelectorAll('main p, main th, main td, main label, main button')]
          .filter(e => !e.disabled && 1.05 / (light(getComputedStyle(e).color) + .05) < 4.5)
          .map(e => e.outerHTML.slice(0, 80));
        """
    )
    assert faint == []
