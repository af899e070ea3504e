"""What every script does around its one library call: the log, and where results come from."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cfc.artifacts import sha256_file
from cfc.joblog import job_log
from cfc.provenance import config_hash


def params_of(job) -> dict[str, Any]:
    """Return the job's parameters; those given as canonical JSON are decoded."""
    return {
        name: json.loads(value) if value[:1] in '{["' else value
        for name, value in job.params.items()
    }


def unit_of(job) -> dict[str, Any]:
    """Return data set, model and seed of a unit's job."""
    unit = dict(job.wildcards.items())
    return {**unit, "seed": int(unit["seed"])} if "seed" in unit else unit


def provenance(job) -> dict[str, Any]:
    """Return what the job's results depend on: rule, unit, settings, code, inputs, versions."""
    from cfc.provenance import loaded_versions

    params = params_of(job)
    code = params.pop("code", None)
    inputs = {}
    for name, files in job.input.items():
        hashes = [_input_hash(Path(f)) for f in ([files] if isinstance(files, str) else files)]
        inputs[name] = hashes[0] if len(hashes) == 1 else config_hash(hashes)
    return {
        "rule": job.rule.removesuffix("_gpu"),
        **unit_of(job),
        "config_hash": config_hash(params),
        "code_hash": code,
        "inputs": inputs,
        "versions": loaded_versions(),
    }


def _input_hash(file: Path) -> str:
    # the description of a model holds the hash of its file
    return sha256_file(file / "model.json" if file.is_dir() else file)[:16]


@contextmanager
def logged(job) -> Iterator[None]:
    """Send everything the job says to its log file."""
    facts = {
        "rule": job.rule,
        "wildcards": unit_of(job),
        "params": params_of(job),
        "threads": job.threads,
        "resources": {k: v for k, v in job.resources.items() if isinstance(v, (int, float))},
    }
    with job_log(job.log[0], facts):
        yield
