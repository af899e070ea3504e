"""Checks a run's configuration and answers questions about its grid.

Everything that is wrong is said at once, each with its place and the nearest valid name.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from cfc.data.registry import DatasetSpec
from cfc.errors import ConfigError, ProblemList, nearest
from cfc.labels import LabelRule
from cfc.models.registry import FAMILIES, own_file
from cfc.protocol import BASELINES, FURTHER_BASELINES, Protocol
from cfc.stress import StressSettings
from cfc.transfer import TransferSettings


def load_schema(folder: Path) -> dict[str, Any]:
    """Return the JSON schema of a whole configuration.

    Args:
        folder: holds ``config.schema.yaml`` and ``models.schema.yaml``. Entries of data sets are
            checked by `cfc.data.registry`, which says more than a schema can.
    """
    import yaml

    whole, models = (
        yaml.safe_load((folder / f"{name}.schema.yaml").read_text(encoding="utf-8"))
        for name in ("config", "models")
    )
    whole["properties"] |= models["properties"]
    return whole


def schema_problems(value: Any, schema: Mapping[str, Any], where: str = "") -> list[str]:
    """Return every violation of a JSON schema as ``place: what is wrong``.

    An unknown key is answered with the nearest known one rather than with the whole schema.
    """
    from jsonschema import Draft202012Validator

    problems = []
    for error in Draft202012Validator(schema).iter_errors(value):
        place = ".".join([where, *map(str, error.absolute_path)]).strip(".") or "configuration"
        if error.validator == "additionalProperties" and isinstance(error.instance, Mapping):
            known = error.schema.get("properties", {})
            patterns = error.schema.get("patternProperties", {})
            for key in error.instance:
                if patterns and not any(re.search(p, str(key)) for p in patterns):
                    problems.append(
                        f"{place}: the name {key!r} does not match {', '.join(patterns)}"
                    )
                elif not patterns and key not in known:
                    problems.append(f"{place}: unknown key {key!r}; {nearest(key, known)}")
        elif error.validator == "required":
            missing = [key for key in error.validator_value if key not in error.instance]
            problems += [f"{place}: {key!r} is missing" for key in missing]
        else:
            problems.append(f"{place}: {error.message}")
    return list(dict.fromkeys(problems))


def check_config(config: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check a whole configuration.

    Args:
        config: the merged configuration, registries included.
        schema: JSON schema of it.

    Raises:
        ConfigError: everything that is wrong, one problem a line.
    """
    problems = ProblemList(schema_problems(config, schema))
    problems += _selection_problems(config)
    problems += _entry_problems(config)
    problems += _meaning_problems(config)
    problems += _recourse_problems(config)
    problems.raise_if_any(ConfigError, "the configuration is not valid")


def _selection_problems(config: Mapping[str, Any]) -> Iterable[str]:
    registries = {
        key: value if isinstance(value := config.get(registry), Mapping) else {}
        for key, registry in (("datasets", "dataset_registry"), ("models", "model_registry"))
    }
    for key, known in registries.items():
        for name in _texts(config.get(key)):
            if name not in known:
                yield f"{key}: {name!r} is not defined; {nearest(name, known)}"
    for name in sorted(set(registries["datasets"]) & set(registries["models"]), key=str):
        yield f"{name!r} is both a data set and a model; targets could not tell them apart"
    preset, presets = config.get("preset"), config.get("presets")
    if isinstance(preset, str) and isinstance(presets, Mapping) and preset not in presets:
        yield f"preset: {preset!r} is not defined; {nearest(preset, presets)}"


def _entry_problems(config: Mapping[str, Any]) -> Iterable[str]:
    """Say what is wrong with the entries of both registries, one's own above all."""
    datasets, models = (
        entries if isinstance(entries := config.get(f"{name}_registry"), Mapping) else {}
        for name in ("dataset", "model")
    )
    for key, entry in datasets.items():
        read = partial(DatasetSpec.from_mapping, key, entry)
        yield from _said_by(read, f"dataset_registry.{key}")
    for key, entry in models.items():
        if not isinstance(entry, Mapping):
            continue  # the schema has said so
        if isinstance(own := entry.get("class"), str):
            yield from _said_by(partial(_parse, own), f"model_registry.{key}.class")
        elif key not in FAMILIES:
            yield (
                f"model_registry.{key}: no family of that name; {nearest(key, FAMILIES)}. A family "
                "of your own needs class: path/to/file.py:ClassName"
            )


def _parse(class_path: str) -> None:
    file = own_file(class_path)
    try:
        ast.parse(file.read_bytes())
    except SyntaxError as error:
        raise ConfigError(f"{file}, line {error.lineno}: {error.msg}") from error


def _texts(value: Any) -> list[str]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


def _meaning_problems(config: Mapping[str, Any]) -> Iterable[str]:
    """Say what a schema cannot: sums, names across sections, rules about draws that exist."""
    shares = config.get("split")
    if isinstance(shares, Mapping) and all(isinstance(v, (int, float)) for v in shares.values()):
        total = sum(shares.values())
        if abs(total - 1) > 1e-9:
            yield f"split: the shares add up to {total:g}, not 1"
    presets = config.get("presets")
    for name, values in (presets if isinstance(presets, Mapping) else {}).items():
        yield from _said_by(lambda v=values, n=name: Protocol.from_mapping(v, n), f"presets.{name}")
        if isinstance(values, Mapping) and values.get("baseline") in FURTHER_BASELINES:
            yield (
                f"presets.{name}.baseline: {values['baseline']!r} is for one's own model "
                f"(cfc.audit); here one of {', '.join(BASELINES)}"
            )
    labels, audit = config.get("labels"), config.get("audit")
    if isinstance(labels, Mapping) and isinstance(audit, Mapping):
        tau_p, threshold = labels.get("tau_p"), audit.get("threshold")
        numbers = isinstance(tau_p, (int, float)) and isinstance(threshold, (int, float))
        if numbers and tau_p < threshold:
            yield (
                f"labels.tau_p: {tau_p} is below audit.threshold {threshold}; cases between the "
                "two would not be stressed and never be called brittle"
            )
    yield from _sensitivity_problems(config)
    transfer = config.get("transfer")
    if isinstance(transfer, Mapping):
        # a missing key or a value of a wrong type: the schema has said so
        with suppress(AttributeError, KeyError, ValueError):
            yield from _said_by(lambda: TransferSettings.from_mapping(transfer), "transfer")
    natural = config.get("natural")
    if isinstance(natural, Mapping):
        draws, first = natural.get("draws"), natural.get("literal_draws")
        if isinstance(draws, int) and isinstance(first, int) and first > draws:
            yield f"natural.literal_draws: looks at {first} draws, but only {draws} are made"
    stress = config.get("stress")
    if not isinstance(stress, Mapping):
        return
    settings = None
    try:
        settings = StressSettings.from_mapping(stress)
    except ConfigError as error:
        yield from _each("stress", error)
    except (KeyError, TypeError):
        return
    rules = labels.get("rules") if isinstance(labels, Mapping) else None
    for name, values in (rules if isinstance(rules, Mapping) else {}).items():
        if not isinstance(values, Mapping):
            continue
        yield from _said_by(lambda v=values, n=name: LabelRule.from_mapping(n, v), f"labels.{name}")
        if settings is not None and isinstance(values.get("cells"), Mapping):
            yield from _cell_problems(name, values, settings)


def _sensitivity_problems(config: Mapping[str, Any]) -> Iterable[str]:
    sensitivity, audit = config.get("sensitivity"), config.get("audit")
    if not isinstance(sensitivity, Mapping):
        return
    lowest = audit.get("threshold") if isinstance(audit, Mapping) else None
    tau_p = sensitivity.get("tau_p")
    asked = [("threshold", sensitivity.get("threshold"))]
    asked += [("tau_p", value) for value in (tau_p if isinstance(tau_p, list) else [])]
    for name, value in asked:
        if isinstance(lowest, (int, float)) and isinstance(value, (int, float)) and value < lowest:
            yield (
                f"sensitivity.{name}: {value} is below audit.threshold {lowest}; cases between "
                "the two are not stressed and have no label"
            )
    variants = sensitivity.get("variants")
    for name, change in (variants if isinstance(variants, Mapping) else {}).items():
        if not isinstance(change, Mapping):
            continue  # the schema has said so
        place = f"sensitivity.variants.{name}"
        for key in ("baseline", "preset"):
            if key in change:
                yield f"{place}: {key!r} cannot be varied here; see sensitivity.baselines"
        yield from _said_by(lambda c=change, n=name: Protocol.from_mapping(c, n), place)


def _recourse_problems(config: Mapping[str, Any]) -> Iterable[str]:
    """Say which names of the recourse benchmark are not defined."""
    from cfc.recourse.families import FAMILIES
    from cfc.recourse.methods.registry import METHODS

    own = config.get("recourse")
    if not isinstance(own, Mapping):
        return
    known = {
        "datasets": config.get("dataset_registry"),
        "methods": {**dict.fromkeys(METHODS), **_mapping(own.get("own_methods"))},
        "families": {**dict.fromkeys(FAMILIES), **_mapping(own.get("own_families"))},
    }
    for key, names in known.items():
        for name in _texts(own.get(key)):
            if name not in _mapping(names):
                yield f"recourse.{key}: {name!r} is not defined; {nearest(name, _mapping(names))}"
    for key in ("method_options", "grids"):
        for name in _mapping(own.get(key)):
            if name not in known["methods"]:
                near = nearest(name, known["methods"])
                yield f"recourse.{key}: {name!r} is no method; {near}"
    for key, taken in (("own_methods", METHODS), ("own_families", FAMILIES)):
        for name in _mapping(own.get(key)):
            if name in taken:
                yield f"recourse.{key}: {name!r} is the name of one that comes with the package"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _said_by(build, place: str) -> Iterable[str]:
    try:
        build()
    except ConfigError as error:
        yield from _each(place, error)
    except TypeError as error:
        yield f"{place}: {error}"


def _each(place: str, error: ConfigError) -> Iterable[str]:
    """Return the problems an error lists, one by one under their place."""
    head, *problems = str(error).splitlines()
    for problem in problems or [head]:
        yield f"{place}: {problem.removeprefix('  - ')}"


def _cell_problems(name: str, rule: Mapping[str, Any], settings: StressSettings) -> Iterable[str]:
    for operator, grid in rule["cells"].items():
        if not isinstance(grid, list):
            continue  # the schema has said so
        if operator not in settings.severities:
            yield (
                f"labels.rules.{name}: stress operator {operator!r} is not run; "
                f"{nearest(operator, settings.severities)}"
            )
            continue
        for severity in grid:
            if severity not in settings.severities[operator]:
                yield (
                    f"labels.rules.{name}: {operator} does not run at severity {severity}; it runs "
                    f"at {', '.join(map(str, settings.severities[operator]))}"
                )
        draws = rule.get("draws")
        if isinstance(draws, int) and draws > settings.draws[operator]:
            yield (
                f"labels.rules.{name}: looks at {draws} draws of {operator}, but only "
                f"{settings.draws[operator]} are made"
            )
