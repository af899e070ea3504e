"""What the recourse tables share: the finished table and the formatting of mean ± sd."""

import pandas as pd

from cfc.recourse.results import Results
from cfc.tables.base import UNDEFINED, TableResult, number

PROFILE_NOTE = {
    "independent": (
        "Profile `independent`: every random stream has its own key, so no two base models share a "
        "draw. They share one split: spreads are over first weights and draws, not over data. This "
        "is the headline."
    ),
    "parity": (
        "Profile `parity`: the published seeds. Their ranges overlap between base models (the 125 "
        "changed models of a new initialisation are 29 different networks in a full run), so "
        "spreads over base models are too small; it is here to check this implementation against "
        "the paper."
    ),
}


def finished(
    results: Results,
    table_id: str,
    title: str,
    data: pd.DataFrame,
    displays: list[tuple[str, pd.DataFrame]],
    notes: list[str],
) -> TableResult:
    """Return a finished table of one profile; units are data sets."""
    n = len(results.datasets)
    return TableResult(
        table_id,
        title,
        results.run,
        results.profile,
        data,
        displays,
        [*notes, PROFILE_NOTE[results.profile]],
        n,
        n,
        preset_label="profile",
        unit_label="data sets",
    )


def mean_sd(mean: float, sd: float, digits: int = 1) -> str:
    """Return ``mean ± sd`` as text, the mean alone where there is one base model."""
    text = number(mean, digits)
    return text if text == UNDEFINED or pd.isna(sd) else f"{text} ± {number(sd, digits)}"


def dataset_title(results: Results, name: str) -> str:
    """Return a data set's printed name."""
    return results.titles.get(name, name)
