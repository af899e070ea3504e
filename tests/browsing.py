"""Driving a page in headless Chromium: what the browser tests share."""

import shutil

WIDE, NARROW = (1280, 900), (360, 740)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")


def start_browser():
    """Return a browser; the calling test is skipped, by name, where there is none."""
    import pytest

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
    return driver


def open_page(browser, address, size=WIDE):
    """Open a page at a size and wait until it is ready."""
    from selenium.webdriver.support.ui import WebDriverWait

    width, height = size
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.get("about:blank")
    browser.get(address)
    WebDriverWait(browser, 30).until(
        lambda b: b.execute_script("return document.documentElement.dataset.ready") == "yes"
    )
    return browser


def get(browser, selector):
    return browser.find_element("css selector", selector)


def all_of(browser, selector):
    return browser.find_elements("css selector", selector)


def choose(browser, selector, text):
    from selenium.webdriver.support.ui import Select

    Select(get(browser, selector)).select_by_visible_text(text)


def settle(browser, condition):
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.support.ui import WebDriverWait

    # what is read may be drawn anew while it is read
    WebDriverWait(browser, 10, ignored_exceptions=[StaleElementReferenceException]).until(condition)


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


# --- what every page has to be ---


def assert_no_errors_or_requests(browser):
    assert not [e for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
    requests = [e["message"] for e in browser.get_log("performance")]
    asked = [m for m in requests if '"Network.requestWillBeSent"' in m]
    assert asked
    assert not [m for m in asked if '"url":"http' in m]
    assert get(browser, "#loading").is_displayed() is False


def assert_controls_are_reached_by_tab(browser):
    from selenium.webdriver.common.keys import Keys

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


def assert_nothing_wider_than_screen(browser, size):
    """Nothing is beyond the right edge but what its place lets scroll."""
    width = browser.execute_script("return document.documentElement.scrollWidth")
    assert width <= size[0]
    beyond = browser.execute_script(
        "return [...document.querySelectorAll('main *, header *')]"
        ".filter(e => !e.closest('.scroll, .chart, .cfc-scroll, .unseen, svg'))"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
        ".map(e => e.outerHTML.slice(0, 80))"
    )
    assert beyond == []


def assert_fingers_fit(browser, selector):
    heights = browser.execute_script(
        f"return [...document.querySelectorAll('{selector}')]"
        ".map(e => e.getBoundingClientRect().height).filter(h => h > 0)"
    )
    assert heights
    assert min(heights) >= 36


def assert_contrast_and_names(browser):
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
        const kinds = "p, th, td, label, button, li, dt, dd, small, h3, h4, span";
        return [...document.querySelectorAll(kinds)].filter(e => e.closest("main"))
          .filter(e => !e.disabled && 1.05 / (light(getComputedStyle(e).color) + .05) < 4.5)
          .map(e => e.outerHTML.slice(0, 80));
        """
    )
    assert faint == []
