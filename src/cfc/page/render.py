"""Putting the page together: template, style, script, plotting library and packed values."""

import base64
import gzip
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cfc.artifacts import canonical_json

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).parent
ASSETS = ("page.html.j2", "page.css", "page.js")
LARGEST = 15_000_000


def packed(text: str) -> str:
    """Return a text as base64 of gzip, without a time stamp: equal texts give equal results."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def render_page(run: Mapping[str, Any], units: Iterable[Mapping[str, Any]]) -> str:
    """Return the page.

    Args:
        run: what `cfc.page.payload.run_payload` gives, with the facts the page's head prints:
            run, preset, cases, tau_p, threshold, protocol, provenance.
        units: the payload of each unit, in the order of ``run["units"]``.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from plotly.offline import get_plotlyjs, get_plotlyjs_version

    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style, script = ((FOLDER / name).read_text(encoding="utf-8") for name in ASSETS[1:])
    page = environment.get_template(ASSETS[0]).render(
        run=run,
        style=style,
        script=script,
        library=packed(get_plotlyjs()),
        library_version=get_plotlyjs_version(),
        values=packed(canonical_json(run)),
        units=[packed(canonical_json(unit)) for unit in units],
    )
    size = len(page.encode())
    logger.info("%d units, %.1f MB", len(run["units"]), size / 1e6)
    if size > LARGEST:
        logger.warning(
            "the page has %.1f MB and may open slowly; set page.cases below %s to make it smaller",
            size / 1e6,
            run["cases"],
        )
    return page
