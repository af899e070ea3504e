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
) -> Groups:
    """Return the groups a user asks for, as a partition of the coordinates.

    Args:
        spec: None (every raw column is a group); a mapping from group name to column names or
            coordinate numbers; a list of such lists; the path of a YAML or JSON file with either.
        coordinates: what each coordinate is, and which raw column it comes from.
        columns: raw columns of the data; those no coordinate comes from are not used by the model.
        ungrouped: what becomes of columns the spec leaves out: ``error``, ``each`` (a group of its
            own for each) or ``fixed`` (in no group; nothing ever changes them).

    Raises:
        GroupError: an unknown, repeated or left-over column, an empty group; all at once.
        ConfigError: ``ungrouped`` is unknown, or the file cannot be read.
    """
    if ungrouped not in UNGROUPED:
        raise ConfigError(f"ungrouped={ungrouped!r} is unknown; one of {', '.join(UNGROUPED)}")
    of_column: dict[str, list[int]] = {}
    for number, coordinate in enumerate(coordinates):
        of_column.setdefault(coordinate.field, []).append(number)
    d = len(coordinates)
    if spec is None:
        return Groups(tuple(of_column), tuple(of_column.values()), d, "raw_origin")
    if isinstance(spec, (str, Path)):
        spec = read_groups_file(spec)
    if isinstance(spec, Groups):
        spec = {name: index.tolist() for name, index in spec}
    if not isinstance(spec, Mapping):
        spec = {_list_name(members, of_column): members for members in spec}
    problems = ProblemList()
    owner: dict[int, str] = {}
    named: set[str] = set()
    blocks: dict[str, list[int]] = {}
    for group, members in spec.items():
        if isinstance(members, (str, int, np.integer)):
            members = [members]
        indices: list[int] = []
        for member in members:
            found = _coordinates_of(member, of_column, d)
            if found is None:
                if member in columns:
                    continue  # a column the model never looks at
                problems.append(_unknown(group, member, of_column, d))
                continue
            named.add(str(member))
            for i in found:
                if i in owner:
                    problems.append(
                        f"{_said(member)} is in group {owner[i]!r} and in group {group!r}"
                    )
                    break
                owner[i] = str(group)
                indices.append(i)
        if not indices and not problems:
            problems.append(f"group {group!r} holds no column that reaches the model")
        blocks[str(group)] = indices
    left = [name for name, index in of_column.items() if any(i not in owner for i in index)]
    torn = [name for name in left if any(i in owner for i in of_column[name])]
    fixed: list[int] = []
    if not problems and ungrouped == "error" and left:
        problems.append(
            f"{len(left)} column(s) are in no group: {', '.join(map(str, left[:10]))}"
            + (" ..." if len(left) > 10 else "")
            + '; name them, or say ungrouped="each" (one group each) or "fixed" (never changed)'
        )
    elif not problems:
        for name in left:
            free = [i for i in of_column[name] if i not in owner]
            if ungrouped == "fixed":
                fixed += free
            else:
                blocks[f"{name} (rest)" if name in torn or name in blocks else name] = free
    problems.raise_if_any(GroupError, "groups are not a partition")
    return Groups(tuple(blocks), tuple(blocks.values()), d, "declared", fixed)


def _coordinates_of(member, of_column, d) -> list[int] | None:
    if isinstance(member, (int, np.integer)) and not isinstance(member, bool):
        return [int(member)] if 0 <= member < d else None
    return of_column.get(str(member))


def _said(member) -> str:
    return f"coordinate {member}" if isinstance(member, (int, np.integer)) else f"column {member!r}"


def _unknown(group, member, of_column, d) -> str:
    if isinstance(member, (int, np.integer)):
        return f"group {group!r} names coordinate {member}, outside 0..{d - 1}"
    return f"group {group!r} names unknown column {member!r}; {nearest(str(member), of_column)}"


def _list_name(members, of_column) -> str:
    names = list(of_column)
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
