"""Looking at an audit: a case in words, as text, HTML or a plot, and all cases together."""

from cfc.auditing.cases import alone_of, record_of, summary
from cfc.auditing.html_card import card_html, frame_html
from cfc.auditing.plots import plot_audit, plot_case
from cfc.auditing.text_card import card_text
from cfc.auditing.words import reading

__all__ = [
    "alone_of",
    "card_html",
    "card_text",
    "frame_html",
    "plot_audit",
    "plot_case",
    "reading",
    "record_of",
    "summary",
]
