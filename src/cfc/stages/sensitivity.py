"""Stage sensitivity: certificates of the same cases and model under other declared protocols."""

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from cfc.artifacts import lists_to_matrix, to_numpy
from cfc.calibration import fit_temperature, tempered
from cfc.certificate import certify, combine
from cfc.groups import Groups
from cfc.models.base import Model
from cfc.prepared import Prepared
from cfc.protocol import Protocol
from cfc.scores import EPSILON, margin_of, relative_collapse
from cfc.stages.certify import clip_of
from cfc.stages.search import sample_confident
from cfc.variants import DEFAULT, IN_USE, TEMPERED, cell_name

logger = logging.getLogger(__name__)
FIELDS = ("u", "fds", "rcma", "flip_budget", "one_step_relative", "one_step_sum")


def variant_protocol(protocol: Protocol, name: str, change: Mapping[str, Any]) -> Protocol:
    """Return the protocol with the settings of a variant, under the variant's name.

    Raises:
        ConfigError: an unknown setting or an illegal value.
    """
    return Protocol.from_mapping({**protocol.to_dict(), **change, "preset": name}, name)


def vary_unit(
    prepared: Prepared,
    model: Model,
    certificates: pa.Table,
    predictions: pa.Table,
    protocol: Protocol,
    config: Mapping[str, Any],
    *,
    clip: float,
    unit: Mapping[str, Any],
) -> tuple[pa.Table, dict[str, Any]]:
    """Certify a sample of a unit's confident cases under every declared variant.

    The model, the rows and their cases stay; nothing is trained. What can be computed from the
    record is: other weights, the temperature and the default itself ask the model nothing, and
    cells of the grid with equal groups and equal x̄ are certified once.

    Args:
        prepared: matrix, groupings, baselines.
        model: the fitted model.
        certificates: table of the certify stage.
        predictions: table of the train stage, for the temperature.
        protocol: protocol in use.
        config: ``cases``, ``threshold``, ``variants`` (name -> what differs), ``baselines``,
            ``groupings``.
        clip: lower bound of a probability for this model.
        unit: ``dataset``, ``model`` and ``seed``.

    Returns:
        one row a case and variant: dataset, model, seed, case_id, variant, then `FIELDS`;
        timings, counts, the temperature.
    """
    chosen = sample_confident(
        certificates, config["threshold"], config["cases"], unit["seed"], "sensitivity"
    )
    cases = certificates.take(pa.array(chosen))
    start = time.perf_counter()
    temperature = _temperature(predictions, clip)
    work = _Work(prepared, model, cases)
    record = _record(cases, protocol)
    parts = {DEFAULT: record["fields"]}
    for name, change in config["variants"].items():
        parts[name] = _variant(work, record, variant_protocol(protocol, name, change))
        logger.info("variant %s: %d forward rows so far", name, work.rows)
    for name, groups, baseline in _grid(prepared, protocol, config):
        parts[name] = parts[DEFAULT] if groups is None else work(protocol, groups, baseline)
        logger.info("cell %s: %d forward rows so far", name, work.rows)
    if temperature is not None:
        parts[TEMPERED] = _tempered(cases, record, protocol, temperature, clip)
    timings = {
        "seconds": time.perf_counter() - start,
        "model_seconds": work.model_seconds,
        "forward_rows": work.rows,
        "cases": len(cases),
        "temperature": temperature,
    }
    return _long(cases, parts), timings


def _long(cases: pa.Table, parts: Mapping[str, Mapping[str, np.ndarray]]) -> pa.Table:
    tables = [
        pa.table(
            {
                **{name: cases[name] for name in ("dataset", "model", "seed", "case_id")},
                "variant": pa.repeat(pa.scalar(variant), len(cases)),
                **{name: values[name] for name in FIELDS},
            }
        )
        for variant, values in parts.items()
    ]
    return pa.concat_tables(tables)


class _Work:
    """Certifies the same cases again and again, each different question once."""

    def __init__(self, prepared: Prepared, model: Model, cases: pa.Table):
        self.prepared, self.model = prepared, model
        self.case_ids = to_numpy(cases["case_id"])
        self.X = prepared.X[self.case_ids]
        self.rows, self.model_seconds = 0, 0.0
        self._done: dict[tuple, dict[str, np.ndarray]] = {}

    def __call__(
        self, protocol: Protocol, groups: Groups, baseline: np.ndarray
    ) -> dict[str, np.ndarray]:
        key = (protocol.hash, baseline.tobytes(), *(i.tobytes() for i in groups.indices))
        if key not in self._done:
            result = certify(
                self.X,
                groups,
                baseline,
                self.model.predict_proba,
                protocol,
                clip=clip_of(self.model, protocol),
                case_ids=self.case_ids,
                noise_scale=self.prepared.noise_scale,
            )
            self.rows += result.rows_per_case * len(self.X) + 1
            self.model_seconds += result.model_seconds
            self._done[key] = _fields(
                result.u, result.rcma, result.flip_budget, result.margin, result.delta
            )
        return self._done[key]


def _fields(u, rcma, flip_budget, margin, delta) -> dict[str, np.ndarray]:
    size = np.abs(margin) + EPSILON
    # without cases an array of drops may have lost its second axis
    largest = delta.max(axis=1) if len(delta) else np.empty(0)
    gains = np.maximum(0.0, delta).sum(axis=1) if len(delta) else np.empty(0)
    return {
        "u": u,
        "fds": -np.expm1(-u),
        "rcma": rcma,
        "flip_budget": np.asarray(flip_budget, dtype=np.int16),
        "one_step_relative": largest / size,
        "one_step_sum": (largest + gains) / size,
    }


def _record(cases: pa.Table, protocol: Protocol) -> dict[str, Any]:
    """Return the default certificates of the cases, as the certify stage recorded them."""
    lambdas = [
        to_numpy(cases[f"lambda_{o}"].cast(pa.float64()).fill_null(np.inf))
        for o in protocol.operators
    ]
    columns = {name: to_numpy(cases[name]) for name in ("rcma", "flip_budget", "margin")}
    delta = lists_to_matrix(cases["delta"])
    return {
        "protocol": protocol,
        "lambda_star": np.stack(lambdas, axis=1),
        "delta": delta,
        **columns,
        "fields": _fields(
            to_numpy(cases["u"]), columns["rcma"], columns["flip_budget"], columns["margin"], delta
        ),
    }


def _variant(work: _Work, record: Mapping[str, Any], other: Protocol) -> dict[str, np.ndarray]:
    protocol, prepared = record["protocol"], work.prepared
    if replace(other, weights=protocol.weights).hash == protocol.hash:
        u = combine(record["rcma"], record["flip_budget"], record["lambda_star"], other.weights)
        return _fields(u, record["rcma"], record["flip_budget"], record["margin"], record["delta"])
    return work(other, prepared.groups, prepared.baseline(other.baseline))


def _grid(
    prepared: Prepared, protocol: Protocol, config: Mapping[str, Any]
) -> Iterator[tuple[str, Groups | None, np.ndarray]]:
    """Yield the cells; groups are None where a cell is the protocol in use.

    A grouping the data set does not declare has no cells.
    """
    for grouping in (IN_USE, *config["groupings"]):
        name = prepared.grouping if grouping == IN_USE else grouping
        if name not in prepared.groupings:
            logger.warning("the data set declares no grouping %r: its cells are left out", name)
            continue
        for baseline in config["baselines"]:
            is_default = (name, baseline) == (prepared.grouping, protocol.baseline)
            groups = None if is_default else prepared.groupings[name]
            yield cell_name(grouping, baseline), groups, prepared.baseline(baseline)


def _temperature(predictions: pa.Table, clip: float) -> float | None:
    valid = to_numpy(predictions["split"]) == "valid"
    if not valid.any():
        logger.warning("no validation case: no temperature")
        return None
    proba = lists_to_matrix(predictions["proba"])[valid]
    return fit_temperature(proba, to_numpy(predictions["label"])[valid], clip).value


def _tempered(cases, record, protocol: Protocol, temperature: float, clip: float):
    """Return the certificates of the tempered model, from the recorded probabilities.

    Labels do not change with T, so k* and λ* stay; margins, RCMA and δ follow from the tempered
    probabilities.
    """
    n = len(cases)
    if not n:
        return record["fields"]
    steps = lists_to_matrix(cases["path_margin"]).shape[1]
    flat = cases["path_proba"].combine_chunks().flatten()
    proba = lists_to_matrix(pa.chunked_array([flat]))
    predicted = np.repeat(to_numpy(cases["predicted"]), steps)
    if protocol.margin == "unsigned":
        predicted = np.argmax(proba, axis=1)
    margins = _margins(tempered(proba, temperature, clip), predicted).reshape(n, steps)
    rcma = relative_collapse(margins[:, :1], margins).mean(axis=1)
    u = combine(rcma, record["flip_budget"], record["lambda_star"], protocol.weights)
    # one-step states are not recorded, but tempering divides every margin by T
    delta = record["delta"] / temperature
    return _fields(u, rcma, record["flip_budget"], margins[:, 0], delta)


def _margins(proba: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return margins of tempered probabilities, which the clip no longer bounds from below."""
    return margin_of(proba, label, np.finfo(np.float64).tiny)
