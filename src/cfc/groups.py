"""Evidence groups: a partition of the transformed coordinates (paper, section 3.1)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cfc.errors import GroupError, ProblemList, nearest


@dataclass(frozen=True)
class Groups:
    """A named partition of the coordinates 0..d−1, in declared order.

    >>> groups = Groups(["income", "history"], [[0, 2], [1]], n_coordinates=3)
    >>> groups.of_coordinate
    array([0, 1, 0])
    >>> Groups(["income", "history"], [[0, 1], [1]], n_coordinates=3)
    Traceback (most recent call last):
        ...
    cfc.errors.GroupError: groups are not a partition: 2 problems
      - coordinate 1 is in group 'income' and in group 'history'
      - 1 coordinate(s) are in no group: 2

    Attributes:
        names: name of each group, unique.
        indices: coordinate indices of each group, ascending, int64 arrays.
        n_coordinates: d.
        label: name of this grouping.
        fixed: coordinates declared to be in no group, ascending: nothing ever changes them.

    Raises:
        GroupError: overlap, gap, empty group, index out of range or repeated name; every problem
            is named at once.
    """

    names: tuple[str, ...]
    indices: tuple[np.ndarray, ...]
    n_coordinates: int
    label: str = "raw"
    fixed: np.ndarray = ()

    def __post_init__(self):
        object.__setattr__(self, "names", tuple(map(str, self.names)))
        object.__setattr__(self, "fixed", np.unique(np.asarray(self.fixed, dtype=np.int64)))
        object.__setattr__(
            self, "indices", tuple(np.unique(np.asarray(i, dtype=np.int64)) for i in self.indices)
        )
        problems = ProblemList()
        if len(self.names) != len(self.indices):
            raise GroupError(f"{len(self.names)} names for {len(self.indices)} groups")
        if not self.names:
            raise GroupError("no group is declared")
        for name in sorted({n for n in self.names if self.names.count(n) > 1}):
            problems.append(f"the name {name!r} is used more than once")
        owner: dict[int, str] = {}
        members = [*zip(self.names, self.indices, strict=True), ("(fixed)", self.fixed)]
        for name, index in members:
            if index.size == 0 and index is not self.fixed:
                problems.append(f"group {name!r} is empty")
            for i in index.tolist():
                if not 0 <= i < self.n_coordinates:
                    problems.append(
                        f"group {name!r} names coordinate {i}, outside 0..{self.n_coordinates - 1}"
                    )
                elif i in owner:
                    problems.append(
                        f"coordinate {i} is in group {owner[i]!r} and in group {name!r}"
                    )
                else:
                    owner[i] = name
        gap = sorted(set(range(self.n_coordinates)) - set(owner))
        if gap:
            shown = ", ".join(map(str, gap[:10])) + (" ..." if len(gap) > 10 else "")
            problems.append(f"{len(gap)} coordinate(s) are in no group: {shown}")
        problems.raise_if_any(GroupError, "groups are not a partition")

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[tuple[str, np.ndarray]]:
        return iter(zip(self.names, self.indices, strict=True))

    @property
    def of_coordinate(self) -> np.ndarray:
        """Group number of each coordinate, int64 [d]; G for a fixed one."""
        owner = np.full(self.n_coordinates, len(self), dtype=np.int64)
        for number, index in enumerate(self.indices):
            owner[index] = number
        return owner

    def spread(self, of_group: np.ndarray, fixed) -> np.ndarray:
        """Return values of groups as values of coordinates.

        Args:
            of_group: values [..., G].
            fixed: value of the fixed coordinates.

        Returns:
            values [..., d] of the same dtype.
        """
        if self.fixed.size:
            filler = np.full((*of_group.shape[:-1], 1), fixed, dtype=of_group.dtype)
            of_group = np.concatenate([of_group, filler], axis=-1)
        return of_group[..., self.of_coordinate]

    @classmethod
    def of_fields(
        cls,
        blocks: Mapping[str, Sequence[str]],
        field_indices: Mapping[str, Sequence[int]],
        n_coordinates: int,
        label: str = "domain",
    ) -> "Groups":
        """Build groups of whole fields.

        Args:
            blocks: group name -> field names.
            field_indices: field name -> coordinate indices, from the fitted preprocessor.
            n_coordinates: d.
            label: name of this grouping.

        Raises:
            GroupError: an unknown field, a field in two groups or in none, an empty group.
        """
        problems = ProblemList()
        owner: dict[str, str] = {}
        for block, fields in blocks.items():
            if not fields:
                problems.append(f"group {block!r} is empty")
            for name in fields:
                if name not in field_indices:
                    problems.append(
                        f"group {block!r} names unknown column {name!r}; "
                        f"{nearest(name, field_indices)}"
                    )
                elif name in owner:
                    problems.append(
                        f"column {name!r} is in group {owner[name]!r} and in group {block!r}"
                    )
                else:
                    owner[name] = block
        problems += [f"column {f!r} is in no group" for f in field_indices if f not in owner]
        problems.raise_if_any(GroupError, "groups are not a partition")
        return cls(
            tuple(blocks),
            tuple(np.concatenate([field_indices[f] for f in fs]) for fs in blocks.values()),
            n_coordinates,
            label,
        )


def merge_redundant(
    association: Mapping[tuple[str, str], float], fields: Sequence[str], threshold: float = 0.8
) -> dict[str, list[str]]:
    """Merge fields that say the same: connected components of association >= threshold.

    Args:
        association: absolute association of each pair of fields, in [0, 1].
        fields: all fields, in order; a component is named by its members joined with `` + ``.
        threshold: pairs at or above it are linked.

    Returns:
        group name -> field names, in order of the first member.
    """
    parent = {f: f for f in fields}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    rank = {f: i for i, f in enumerate(fields)}
    for (a, b), value in association.items():
        if value >= threshold:
            first, second = sorted((root(a), root(b)), key=rank.__getitem__)
            parent[second] = first
    members: dict[str, list[str]] = {}
    for name in fields:
        members.setdefault(root(name), []).append(name)
    return {" + ".join(names): names for names in members.values()}
