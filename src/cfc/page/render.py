"""Putting the page together: template, style, script, plotting library and packed values."""

import base64
import gzip
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cfc.artifacts import canonical_json

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).parent
SHARED = ("base.html.j2", "common.css", "common.js")
ASSETS = (*SHARED, "page.html.j2", "page.css", "page.js")
LARGEST = 15_000_000


def packed(text: str) -> str:
    """Return a text as base64 of gzip, without a time stamp: equal texts give equal results."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def fill(name: str, styles: Sequence[str] = (), **values: Any) -> str:
    """Return a page: its template with the shared style and script and its own put in.

    Args:
        name: ``<name>.html.j2``, ``<name>.css`` and ``<name>.js`` lie beside this module.
        styles: further style sheets.
        values: what the template prints.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

    def text(names):
        return "\n".join((FOLDER / n).read_text(encoding="utf-8") for n in names)

    return environment.get_template(f"{name}.html.j2").render(
        style=text(["common.css", *styles, f"{name}.css"]),
        script=text(["common.js", f"{name}.js"]),
        **values,
    )


def render_page(run: Mapping[str, Any], units: Iterable[Mapping[str, Any]]) -> str:
    """Return the page.

    Args:
        run: what `cfc.page.payload.run_payload` gives, with the facts the page's head prints:
            run, preset, cases, tau_p, threshold, protocol, provenance.
        units: the payload of each unit, in the order of ``run["units"]``.
    """
    from plotly.offline import get_plotlyjs, get_plotlyjs_version

    page = fill(
        "page",
        run=run,
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
