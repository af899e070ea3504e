"""Which columns belong together: the ways a user can say it, resolved to coordinates."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cfc.baselines import Coordinate
from cfc.errors import ConfigError, GroupError, ProblemList, nearest
from cfc.groups import Groups

UNGROUPED = ("error", "each", "fixed")


def resolve_groups(
    spec: Any,
    coordinates: Sequence[Coordinate],
    columns: Sequence[str],
    ungrouped: str = "error",
    origins: Sequence[Sequence[str]] | None = None,
) -> Groups:
    """Return the groups a user asks for, as a partition of the coordinates.

    A coordinate that depends on no column, such as a bias, is in no group and never changes.

    Args:
        spec: None (every raw column is a group); a mapping from group name to column names or
            coordinate numbers; a list of such lists; the path of a YAML or JSON file with either.
        coordinates: what each coordinate is.
        columns: raw columns of the data; those no coordinate comes from are not used by the model.
        ungrouped: what becomes of columns the spec leaves out: ``error``, ``each`` (a group of its
            own for each) or ``fixed`` (in no group; nothing ever changes them).
        origins: raw columns each coordinate depends on; default: its field.

    Raises:
        GroupError: an unknown, repeated or left-over column, an empty group, columns that share a
            coordinate and are in different groups; all at once.
        ConfigError: ``ungrouped`` is unknown, or the file cannot be read.
    """
    if ungrouped not in UNGROUPED:
        raise ConfigError(f"ungrouped={ungrouped!r} is unknown; one of {', '.join(UNGROUPED)}")
    origins = [(c.field,) for c in coordinates] if origins is None else list(map(tuple, origins))
    used = list(dict.fromkeys(column for names in origins for column in names))
    label = "raw_origin" if spec is None else "declared"
    if isinstance(spec, (str, Path)):
        spec = read_groups_file(spec)
    if spec is None:
        spec, ungrouped = {}, "each"
    elif isinstance(spec, Groups):
        spec = {name: index.tolist() for name, index in spec}
    elif not isinstance(spec, Mapping):
        spec = {_list_name(members, used): members for members in spec}
    problems = ProblemList()
    of_column, of_coordinate = _owners(spec, used, columns, len(origins), problems)
    problems.raise_if_any(GroupError, "groups are not a partition")
    blocks: dict[str, list[int]] = {str(name): [] for name in spec}
    left: dict[str, list[int]] = {}
    fixed, torn = [], {}
    for number, names in enumerate(origins):
        owners = {of_column.get(name) for name in names}
        if number in of_coordinate:
            blocks[of_coordinate[number]].append(number)
        elif not names:
            fixed.append(number)
        elif owners == {None} and (len(names) == 1 or ungrouped == "fixed"):
            left.setdefault(names[0], []).append(number)
        elif len(owners) == 1 and None not in owners:
            blocks[owners.pop()].append(number)
        else:
            torn.setdefault(names, []).append(number)
    problems += [
        f"columns {', '.join(map(repr, names))} cannot be separate groups: they share "
        f'{len(found)} coordinate(s) of what the model sees. Audit with space="columns", or give '
        "groups= in which these columns are together"
        for names, found in torn.items()
    ]
    problems += [
        f"group {name!r} holds no column that reaches the model"
        for name in map(str, spec)
        if not blocks[name]
    ]
    if left and ungrouped == "error":
        problems.append(
            f"{len(left)} column(s) are in no group: {', '.join(list(left)[:10])}"
            + (" ..." if len(left) > 10 else "")
            + '; name them, or say ungrouped="each" (one group each) or "fixed" (never changed)'
        )
    problems.raise_if_any(GroupError, "groups are not a partition")
    for name, index in left.items():
        if ungrouped == "fixed":
            fixed += index
        else:
            partly = any(name in names for n, names in enumerate(origins) if n in of_coordinate)
            blocks[f"{name} (rest)" if partly or name in blocks else name] = index
    return Groups(tuple(blocks), tuple(blocks.values()), len(origins), label, fixed)


def _owners(spec, used, columns, d, problems) -> tuple[dict[str, str], dict[int, str]]:
    """Return the group of each named column and of each numbered coordinate."""
    of_column: dict[str, str] = {}
    of_coordinate: dict[int, str] = {}
    for group, members in spec.items():
        group = str(group)
        for member in [members] if isinstance(members, (str, int, np.integer)) else members:
            is_number = isinstance(member, (int, np.integer)) and not isinstance(member, bool)
            owner = of_coordinate if is_number else of_column
            key = int(member) if is_number else str(member)
            said = f"coordinate {key}" if is_number else f"column {key!r}"
            if is_number and not 0 <= key < d:
                problems.append(f"group {group!r} names coordinate {key}, outside 0..{d - 1}")
            elif not is_number and key not in used and key not in columns:
                problems.append(f"group {group!r} names unknown {said}; {nearest(key, used)}")
            elif key in owner:
                problems.append(f"{said} is in group {owner[key]!r} and in group {group!r}")
            else:
                owner[key] = group
    return of_column, of_coordinate


def _list_name(members, names) -> str:
    parts = [
        names[m] if isinstance(m, (int, np.integer)) and 0 <= m < len(names) else str(m)
        for m in ([members] if isinstance(members, (str, int)) else members)
    ]
    return " + ".join(parts[:3]) + (f" + {len(parts) - 3} more" if len(parts) > 3 else "")


def read_groups_file(path: str | Path) -> Any:
    """Read groups from a JSON or YAML file.

    Raises:
        ConfigError: it is missing, not readable, or holds neither a mapping nor a list.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"groups file {path} cannot be read: {error.strerror}") from error
    try:
        if path.suffix.lower() == ".json":
            value = json.loads(text)
        else:
            import yaml

            value = yaml.safe_load(text)
    except ValueError as error:
        raise ConfigError(f"groups file {path} is not valid JSON: {error}") from error
    except ImportError as error:
        raise ConfigError(f"reading {path} needs pyyaml; install it or use JSON") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"groups file {path} is not valid YAML: {error}") from error
    if not isinstance(value, (Mapping, list)):
        raise ConfigError(f"groups file {path} must hold a mapping of names to lists, or a list")
    return value
