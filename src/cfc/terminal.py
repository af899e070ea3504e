"""Where a person looks while a job's own output goes to its log."""

import sys
from typing import TextIO

_screen: TextIO | None = None


def terminal() -> TextIO:
    """Return standard error, as it was before a job's log took it over."""
    return _screen or sys.stderr


def set_terminal(screen: TextIO | None) -> None:
    """Remember the screen while standard error is redirected; None forgets it."""
    global _screen
    _screen = screen
