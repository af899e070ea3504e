"""Shared fixtures."""

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared" / "data"


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with copies of the public data sets; tests that need it are skipped without it."""
    if not (SHARED / "adult.parquet").is_file():
        pytest.skip(f"needs the copies of the public data sets in {SHARED.name}/ beside the clone")
    return SHARED


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium; tests that need it are skipped without it."""
    from browsing import start_browser

    driver = start_browser()
    yield driver
    driver.quit()
