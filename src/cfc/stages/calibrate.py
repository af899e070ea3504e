"""Stage calibrate: temperatures from validation, applied to the uniform test sample of one unit."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from cfc import calibration, metrics
from cfc.artifacts import lists_to_matrix, matrix_to_lists, to_numpy
from cfc.errors import ArtifactError
from cfc.evaluate import metric_row, metric_table

logger = logging.getLogger(__name__)
METHODS = ("uncalibrated", "global", "brittleness_aware")
SUBSETS = ("all", "fragile")
BINS = metrics.ECE_BINS
NO_TEST = "no case in the uniform test sample"


def calibrate_unit(
    predictions: pa.Table,
    validation: pa.Table,
    certificates: pa.Table,
    *,
    etas: Sequence[float],
    fragile_share: float,
    clip: float,
    unit: tuple[str, str, int],
) -> tuple[pa.Table, pa.Table, dict[str, Any]]:
    """Fit T₀, the range of FDS and η on validation; correct the uniform test sample.

    T₀ uses every validation row; the range and η use the certified validation sample, for FDS is
    known there only.

    Args:
        predictions: table of the train stage.
        validation: certificates of a uniform validation sample.
        certificates: certificates of test cases; those of the uniform sample are used.
        etas: candidates of η.
        fragile_share: share of test cases that makes the fragile subset.
        clip: lower bound of a probability for this unit's model.
        unit: (dataset, model, seed).

    Returns:
        one row a test case with its temperatures, labels and corrected probabilities; the metrics
        in the evaluate schema (family ``calibration``; ``score`` holds the method); what was
        chosen.

    Raises:
        ArtifactError: there is no validation case.
    """
    is_valid = to_numpy(predictions["split"]) == "valid"
    if not is_valid.any() or not len(validation):
        raise ArtifactError("calibration needs validation cases; there are none")
    fitted = calibration.fit_temperature(
        lists_to_matrix(predictions["proba"])[is_valid],
        to_numpy(predictions["label"])[is_valid],
        clip,
    )
    fds = to_numpy(validation["fds"])
    scale = calibration.Range.of(fds)
    eta, nll = calibration.choose_eta(
        lists_to_matrix(validation["proba"]),
        to_numpy(validation["true_label"]),
        scale.normalise(fds),
        fitted.value,
        etas,
        clip,
    )
    chosen = {
        "t0": fitted.value,
        "t0_at_edge": fitted.at_edge,
        "eta": eta,
        "etas": list(etas),
        "validation_nll": nll,
        "fds_low": scale.low,
        "fds_high": scale.high,
        "validation_rows": int(is_valid.sum()),
        "validation_cases": len(validation),
    }
    logger.info("T0 %.4f, eta %g, FDS %.3f to %.3f", fitted.value, eta, scale.low, scale.high)
    cases = _test_cases(certificates, scale, chosen, fragile_share, clip)
    return cases, metric_table(_metric_rows(cases, chosen), unit), chosen


def _test_cases(certificates, scale, chosen, fragile_share, clip) -> pa.Table:
    kept = certificates.filter(certificates["is_uniform"])
    proba = np.empty((0, 2)) if not len(kept) else lists_to_matrix(kept["proba"])
    norm = scale.normalise(to_numpy(kept["fds"]))
    local = chosen["t0"] + chosen["eta"] * norm
    fragile = calibration.most_fragile(
        norm, to_numpy(kept["u"]), to_numpy(kept["case_id"]), fragile_share
    )
    corrected = {
        "uncalibrated": calibration.tempered(proba, 1.0, clip),
        "global": calibration.tempered(proba, np.full(len(kept), chosen["t0"]), clip),
        "brittleness_aware": calibration.tempered(proba, local, clip),
    }
    names = ("dataset", "model", "seed", "case_id", "true_label", "predicted", "u", "fds")
    columns = {name: kept[name] for name in names}
    columns |= {"normalised_fds": norm, "is_fragile": fragile, "temperature": local}
    for method, values in corrected.items():
        columns[f"proba_{method}"] = matrix_to_lists(values)
    return pa.table(columns)


def _metric_rows(cases: pa.Table, chosen: dict[str, Any]) -> list[dict]:
    n = len(cases)
    true, predicted = (to_numpy(cases[c]).astype(np.int64) for c in ("true_label", "predicted"))
    subsets = {"all": np.ones(n, dtype=bool), "fragile": to_numpy(cases["is_fragile"]).astype(bool)}
    rows = [
        metric_row("calibration", name, float(chosen[name]), chosen["validation_cases"])
        for name in ("t0", "t0_at_edge", "eta")
    ]
    for method in METHODS:
        proba = lists_to_matrix(cases[f"proba_{method}"]) if n else np.empty((0, 2))
        changed = calibration.labels_changed(proba, predicted)
        confidence = proba[np.arange(n), predicted] if n else np.empty(0)
        for subset, member in subsets.items():
            values = {
                "ece": metrics.ece(confidence[member], (predicted == true)[member]),
                "brier": metrics.brier(proba[member], true[member]),
                "nll": metrics.nll(proba[member], true[member]),
                "share_label_changed": changed[member].mean() if member.any() else np.nan,
            }
            values |= reliability(confidence[member], (predicted == true)[member])
            for name, value in values.items():
                rows.append(
                    metric_row(
                        "calibration",
                        f"{subset}:{name}",
                        value,
                        int(member.sum()),
                        score=method,
                        reason="no case in this bin" if name.startswith("bin_") else NO_TEST,
                    )
                )
    return rows


def reliability(confidence: np.ndarray, correct: np.ndarray) -> dict[str, float]:
    """Return, for each of 15 equal bins, share of cases, mean confidence and share correct.

    Args:
        confidence: probability of the predicted class [n], in [0, 1]; bins are open below.
        correct: bool [n].

    Returns:
        ``bin_share@i``, ``bin_confidence@i``, ``bin_correct@i``; the last two ``nan`` in an empty
        bin. The ECE is the sum of share x |confidence − correct|.
    """
    index = np.searchsorted(np.arange(1, BINS) / BINS, confidence, side="left")
    count = np.bincount(index, minlength=BINS)
    divisor = np.where(count > 0, count, np.nan)
    sums = {
        "bin_confidence": np.bincount(index, weights=confidence, minlength=BINS) / divisor,
        "bin_correct": np.bincount(index, weights=correct, minlength=BINS) / divisor,
        "bin_share": count / max(1, len(confidence)),
    }
    return {f"{name}@{i:02d}": float(v[i]) for name, v in sums.items() for i in range(BINS)}
