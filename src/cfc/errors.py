"""Errors a user can act on.

Every message says what is wrong, where, and what to do. They derive from ``ValueError`` so that
code which only knows the standard library still catches them.
"""

import difflib
from collections.abc import Iterable


class CfcError(ValueError):
    """Base of all errors this package raises on purpose."""


class ConfigError(CfcError):
    """The configuration, a registry entry or a command-line choice is not valid."""


class DataError(CfcError):
    """A table does not have the declared shape, columns, types or values."""


class GroupError(CfcError):
    """A group definition is not a partition of the coordinates."""


class ModelError(CfcError):
    """A model cannot be fitted, saved, loaded or asked for predictions."""


class ArtifactError(CfcError):
    """A file written by an earlier stage is missing, damaged or of another schema."""


class ProblemList(list[str]):
    """Collects problems so that all of them are reported at once."""

    def raise_if_any(self, kind: type[CfcError], where: str) -> None:
        """Raise ``kind`` with every collected problem, one a line; do nothing when empty."""
        if self:
            lines = "\n".join(f"  - {problem}" for problem in self)
            raise kind(f"{where}: {len(self)} problem{'s' if len(self) > 1 else ''}\n{lines}")


def nearest(name: str, known: Iterable[str], *, count: int = 3) -> str:
    """Return a sentence naming the known names closest to ``name`` (or all of them if few).

    >>> nearest("adlt", ["adult", "bank"])
    'nearest known: adult'
    """
    known = sorted(str(k) for k in known)
    folded = {k.lower().replace("-", "_"): k for k in known}
    close = difflib.get_close_matches(
        str(name).lower().replace("-", "_"), list(folded), n=count, cutoff=0.5
    )
    if close:
        return "nearest known: " + ", ".join(folded[c] for c in close)
    return "known: " + ", ".join(known) if known else "none is known"
