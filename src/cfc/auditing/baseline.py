"""Replacement values x̄ of one's own model, for the kinds of coordinates it has."""

from collections.abc import Mapping, Sequence

import numpy as np

from cfc.baselines import Coordinate
from cfc.errors import ConfigError, DataError, ProblemList

AVERAGING = ("mean", "median", "zero")


def named_baseline(
    name: str,
    Z: np.ndarray,
    coordinates: Sequence[Coordinate],
    takes_missing: np.ndarray,
    block_of: Mapping[int, str] | None = None,
) -> np.ndarray:
    """Return a named baseline of background rows.

    As `cfc.baselines.baseline_vectors`, over the values that are present; under ``mode`` a block
    whose encoder dropped the most frequent level stays off; a code becomes the most
    frequent one (ties: the lowest) under ``mean_off`` and, unless the background has absent cells
    there and the model takes them, under ``mode``. A code has no mean, median or zero.

    Args:
        name: ``mean``, ``mean_off``, ``median``, ``zero`` or ``mode``.
        Z: background in the model's coordinates [n >= 1, d], NaN for absent.
        coordinates: what each coordinate is, length d.
        takes_missing: whether the model takes NaN at a coordinate [d].
        block_of: one-hot block of a level, where it is not its field.

    Returns:
        float64 [d].

    Raises:
        ConfigError: an average of a nominal column is asked for.
        DataError: a column has no value in the background, so that there is nothing to average.
    """
    codes = [c.field for c in coordinates if c.kind == "code"]
    if codes and name in AVERAGING:
        raise ConfigError(
            f'baseline "{name}" does not exist for nominal columns ({", ".join(codes[:5])}'
            f"{' ...' if len(codes) > 5 else ''}): a category has no {name}. Use baseline="
            '"mean_off" or "mode" (the most frequent category), "missing", or give a row'
        )
    Z = np.asarray(Z, dtype=np.float64)
    vector = np.zeros(len(coordinates))
    problems = ProblemList()
    blocks: dict[str, list[int]] = {}
    for i, coordinate in enumerate(coordinates):
        present = Z[~np.isnan(Z[:, i]), i]
        has_missing = len(present) < len(Z)
        if coordinate.kind == "level" and name == "mode":
            blocks.setdefault((block_of or {}).get(i, coordinate.field), []).append(i)
        elif coordinate.kind in ("level", "indicator"):
            if name in ("mean", "median") and len(present):
                vector[i] = present.mean() if name == "mean" else np.median(present)
        elif not len(present):
            if takes_missing[i]:
                vector[i] = np.nan
            else:
                problems.append(f"column {coordinate.field!r} has no value in the background")
        elif coordinate.kind == "code":
            values, counts = np.unique(present, return_counts=True)
            absent = name == "mode" and has_missing and takes_missing[i]
            vector[i] = np.nan if absent else values[np.argmax(counts)]
        elif name in ("mean", "mean_off"):
            vector[i] = present.mean()
        elif name in ("median", "mode"):
            vector[i] = np.median(present)
    for block in blocks.values():
        missing = [i for i in block if coordinates[i].is_missing]
        share = np.nanmean(Z[:, block], axis=0)
        # an encoder may drop a level: all off is that level, and may be the most frequent
        dropped = 1.0 - share.sum()
        if missing or share.max() >= dropped:
            vector[missing[0] if missing else block[int(np.argmax(share))]] = 1.0
    problems.raise_if_any(DataError, f'baseline "{name}"')
    return vector


def check_missing(vector: np.ndarray, coordinates: Sequence[Coordinate], seen: np.ndarray) -> None:
    """Refuse a baseline that is NaN where the model never saw NaN.

    Args:
        vector: baseline [d].
        coordinates: what each coordinate is, length d.
        seen: whether the model takes NaN at a coordinate, and the background has any there [d].

    Raises:
        ConfigError: names every such column.
    """
    bad = np.isnan(vector) & ~np.asarray(seen, dtype=bool)
    names = list(dict.fromkeys(coordinates[i].field for i in np.flatnonzero(bad)))
    if names:
        raise ConfigError(
            f"the baseline is absent (NaN) for {', '.join(names[:5])}"
            f"{' ...' if len(names) > 5 else ''}, but the model never saw a missing value there; "
            'use baseline="mean_off", "median" or "mode", or give values'
        )
