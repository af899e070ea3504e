"""What is declared about a data set, before any of it is loaded.

A registry entry (one value of ``dataset_registry`` in ``config/datasets.yaml``) becomes a frozen
:class:`DatasetSpec`. All mistakes of an entry are reported together, each with its place.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from cfc.errors import ConfigError, ProblemList, nearest

KINDS = ("numeric", "nominal")
SOURCE_KINDS = ("openml", "sklearn", "file")
GROUPINGS = ("raw_origin", "domain", "redundancy_merged")

_SOURCE_KEYS = ("kind", "id", "version", "name", "path")
_ENTRY_KEYS = (
    "title",
    "source",
    "file",
    "target",
    "classes",
    "rows",
    "class_counts",
    "missing_tokens",
    "rename",
    "recode",
    "fields",
    "drop",
    "indicator_families",
    "domain_groups",
    "grouping",
    "unavailable_codes",
    "note",
)
_ORDERED_KEYS = ("fields", "indicator_families", "domain_groups")
_REQUIRED_KEYS = ("source", "target", "classes", "fields")
_FIELD_KEYS = ("kind", "markers", "unavailable")


def _frozen_map() -> Mapping:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One raw field.

    Attributes:
        name: column name in our tables.
        kind: ``"numeric"`` or ``"nominal"``.
        markers: numbers that stand for "not available" (numeric fields only).
        unavailable: categories that say "not available" (nominal fields only).
    """

    name: str
    kind: str
    markers: tuple[float, ...] = ()
    unavailable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """Where a data set comes from.

    Attributes:
        kind: ``"openml"``, ``"sklearn"`` or ``"file"``.
        id: OpenML data set id (openml only).
        version: OpenML version number that the id must have, or None when not known.
        name: scikit-learn loader, for example ``"digits"`` (sklearn only).
        path: a Parquet, CSV or ARFF file (file only).
    """

    kind: str
    id: int | None = None
    version: int | None = None
    name: str | None = None
    path: str | None = None

    @property
    def label(self) -> str:
        """A short text for messages, such as ``OpenML id 1590``."""
        if self.kind == "openml":
            return f"OpenML id {self.id}"
        if self.kind == "sklearn":
            return f"scikit-learn's bundled {self.name}"
        return f"file {self.path}"


@dataclass(frozen=True, slots=True)
class IndicatorFamily:
    """0/1 columns of the source that are one nominal field of ours.

    Attributes:
        name: the nominal field.
        columns: the indicator columns, in level order.
        levels: the level each column stands for.
    """

    name: str
    columns: tuple[str, ...]
    levels: tuple[str, ...]


@dataclass(frozen=True)
class DatasetSpec:
    """A validated registry entry; see the head of ``config/datasets.yaml`` for every key.

    ``classes`` fixes the class codes: label ``classes[c]`` has code ``c``. ``fields`` are in column
    order and never include the target. ``domain_groups`` is empty or a partition of the fields.
    """

    key: str
    title: str
    source: SourceSpec
    file: str
    target: str
    classes: tuple[str, ...]
    fields: tuple[FieldSpec, ...]
    rows: int | None = None
    class_counts: Mapping[str, int] = field(default_factory=_frozen_map)
    missing_tokens: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=_frozen_map)
    recode: Mapping[str, Mapping[str, str]] = field(default_factory=_frozen_map)
    drop: tuple[str, ...] = ()
    indicator_families: tuple[IndicatorFamily, ...] = ()
    domain_groups: Mapping[str, tuple[str, ...]] = field(default_factory=_frozen_map)
    grouping: str = "raw_origin"
    unavailable_codes: Mapping[str, tuple[float, ...]] = field(default_factory=_frozen_map)
    note: str = ""

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the fields, in column order."""
        return tuple(f.name for f in self.fields)

    @property
    def numeric(self) -> tuple[str, ...]:
        """Names of the numeric fields, in column order."""
        return tuple(f.name for f in self.fields if f.kind == "numeric")

    @property
    def nominal(self) -> tuple[str, ...]:
        """Names of the nominal fields, in column order."""
        return tuple(f.name for f in self.fields if f.kind == "nominal")

    @property
    def stems(self) -> tuple[str, ...]:
        """File stems looked for in a ``data_dir``, in order."""
        return tuple(dict.fromkeys((self.file, self.key)))

    def field_named(self, name: str) -> FieldSpec:
        """Return the field of that name.

        Raises:
            ConfigError: there is none; the message names the nearest.
        """
        for spec in self.fields:
            if spec.name == name:
                return spec
        raise ConfigError(
            f"data set {self.key} has no field {name!r}; {nearest(name, self.field_names)}"
        )

    @classmethod
    def from_mapping(cls, key: str, mapping: Mapping[str, Any]) -> "DatasetSpec":
        """Build a spec from a registry entry, reporting every problem at once.

        Args:
            key: the entry's name, ``[a-z0-9_]+``.
            mapping: the entry as read from YAML or JSON.

        Raises:
            ConfigError: a key is unknown or missing, a value has the wrong type, a name refers to
                no field, a column is claimed twice, or the domain groups are no partition.
        """
        return _Reader(key, mapping).spec()


def portable_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry whose order survives JSON with sorted keys.

    The order of ``fields`` is the column order, so it may not be lost where an entry travels as
    canonical JSON: the maps whose order counts become lists of ``[name, value]`` pairs, which
    :meth:`DatasetSpec.from_mapping` reads as well.
    """
    return {
        key: [[k, v] for k, v in value.items()]
        if key in _ORDERED_KEYS and isinstance(value, Mapping)
        else value
        for key, value in entry.items()
    }


def load_registry(mapping: Mapping[str, Any]) -> dict[str, DatasetSpec]:
    """Build every spec of a ``dataset_registry`` mapping, in its order.

    Raises:
        ConfigError: an entry is not valid (its own problems all listed).
    """
    return {key: DatasetSpec.from_mapping(key, entry) for key, entry in mapping.items()}


class _Reader:
    """Reads one entry and keeps a list of what is wrong with it."""

    def __init__(self, key: str, mapping: Any) -> None:
        self.key = str(key)
        self.problems = ProblemList()
        if not isinstance(mapping, Mapping):
            raise ConfigError(
                f"dataset_registry.{key}: expected a mapping of settings, got "
                f"{type(mapping).__name__}"
            )
        self.entry = mapping

    def spec(self) -> DatasetSpec:
        self._check_key()
        self._known_keys("", self.entry, _ENTRY_KEYS, _REQUIRED_KEYS)
        source = self._source()
        fields = self._fields()
        families = self._families(fields)
        target = self._text("target")
        classes = self._classes()
        spec = DatasetSpec(
            key=self.key,
            title=self._text("title", default=self.key),
            source=source,
            file=self._text("file", default=self.key),
            target=target,
            classes=classes,
            fields=fields,
            rows=self._count("rows"),
            class_counts=self._class_counts(classes),
            missing_tokens=tuple(self._texts("missing_tokens")),
            rename=self._rename(fields, target, families),
            recode=self._recode(fields, target),
            drop=tuple(self._texts("drop")),
            indicator_families=families,
            domain_groups=self._domain_groups(fields),
            grouping=self._grouping(),
            unavailable_codes=self._unavailable_codes(fields),
            note=self._text("note", default=""),
        )
        self._cross_checks(spec)
        self.problems.raise_if_any(ConfigError, f"dataset_registry.{self.key}")
        return spec

    # ---- pieces

    def _check_key(self) -> None:
        if not self.key or not all(c in "abcdefghijklmnopqrstuvwxyz0123456789_" for c in self.key):
            self.problems.append(
                f"the name {self.key!r} may hold only lower-case letters, digits and _"
            )

    def _known_keys(
        self, where: str, mapping: Mapping, known: Iterable[str], required: Iterable[str] = ()
    ) -> None:
        prefix = f"{where}." if where else ""
        for name in mapping:
            if name not in known:
                self.problems.append(f"{prefix}{name}: unknown key; {nearest(str(name), known)}")
        for name in required:
            if name not in mapping:
                self.problems.append(f"{prefix}{name}: missing")

    def _text(self, name: str, default: str | None = None) -> str:
        value = self.entry.get(name)
        if value is None:
            return default or ""
        if not isinstance(value, str) or not (value or default == ""):
            self.problems.append(f"{name}: expected a text, got {value!r}")
            return default or ""
        return value

    def _count(self, name: str) -> int | None:
        value = self.entry.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            self.problems.append(f"{name}: expected a whole number or null, got {value!r}")
            return None
        if value is not None and value < 1:
            self.problems.append(f"{name}: expected at least 1, got {value}")
            return None
        return value

    def _map(self, name: str) -> Mapping:
        value = self.entry.get(name)
        if value is None:
            return {}
        if name in _ORDERED_KEYS and isinstance(value, list) and all(map(_is_pair, value)):
            return dict(value)
        if not isinstance(value, Mapping):
            self.problems.append(f"{name}: expected a mapping, got {type(value).__name__}")
            return {}
        return value

    def _list(self, where: str, value: Any) -> list:
        if value is None:
            return []
        if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple)):
            self.problems.append(f"{where}: expected a list, got {value!r}")
            return []
        return list(value)

    def _texts(self, name: str, value: Any = None) -> list[str]:
        value = self.entry.get(name) if value is None else value
        items = []
        for position, item in enumerate(self._list(name, value)):
            if isinstance(item, str):
                items.append(item)
            else:
                self.problems.append(
                    f"{name}.{position}: expected a text, got {item!r} (put it in quotes)"
                )
        for item in _repeated(items):
            self.problems.append(f"{name}: {item!r} is listed twice")
        return items

    def _numbers(self, where: str, value: Any) -> tuple[float, ...]:
        numbers = []
        for position, item in enumerate(self._list(where, value)):
            if isinstance(item, bool) or not isinstance(item, (int, float)):
                self.problems.append(f"{where}.{position}: expected a number, got {item!r}")
            else:
                numbers.append(float(item))
        for item in _repeated(numbers):
            self.problems.append(f"{where}: {item:g} is listed twice")
        return tuple(numbers)

    def _source(self) -> SourceSpec:
        value = self._map("source")
        self._known_keys("source", value, _SOURCE_KEYS)
        kind = value.get("kind")
        if value and kind not in SOURCE_KINDS:
            self.problems.append(
                f"source.kind: {kind!r} is not one of {', '.join(SOURCE_KINDS)}; "
                f"{nearest(str(kind), SOURCE_KINDS)}"
            )
        needed = {"openml": ("id", int), "sklearn": ("name", str), "file": ("path", str)}
        if kind in needed:
            name, wanted = needed[kind]
            got = value.get(name)
            if isinstance(got, bool) or not isinstance(got, wanted) or not got:
                self.problems.append(
                    f"source.{name}: a source of kind {kind} needs "
                    f"{'a whole number' if wanted is int else 'a text'}, got {got!r}"
                )
        return SourceSpec(**{k: value.get(k) for k in _SOURCE_KEYS})

    def _fields(self) -> tuple[FieldSpec, ...]:
        fields = []
        for name, value in self._map("fields").items():
            where = f"fields.{name}"
            if not isinstance(name, str):
                self.problems.append(f"{where}: a field name must be a text (put it in quotes)")
                continue
            options = {"kind": value} if isinstance(value, str) else value
            if not isinstance(options, Mapping):
                self.problems.append(
                    f"{where}: expected numeric, nominal or a mapping with kind, got {value!r}"
                )
                continue
            fields.append(self._field(name, where, options))
        if "fields" in self.entry and not fields:
            self.problems.append("fields: at least one field is needed")
        return tuple(fields)

    def _field(self, name: str, where: str, options: Mapping) -> FieldSpec:
        self._known_keys(where, options, _FIELD_KEYS, ("kind",))
        kind = options.get("kind")
        if kind not in KINDS and "kind" in options:
            self.problems.append(f"{where}: kind {kind!r} is unknown; {nearest(str(kind), KINDS)}")
        if kind == "nominal" and options.get("markers"):
            self.problems.append(f"{where}: markers belong to numeric fields; use unavailable")
        if kind == "numeric" and options.get("unavailable"):
            self.problems.append(f"{where}: unavailable belongs to nominal fields; use markers")
        return FieldSpec(
            name=name,
            kind=str(kind),
            markers=self._numbers(f"{where}.markers", options.get("markers")),
            unavailable=tuple(self._texts(f"{where}.unavailable", options.get("unavailable"))),
        )

    def _classes(self) -> tuple[str, ...]:
        classes = self._texts("classes")
        if "classes" in self.entry and len(classes) < 2:
            self.problems.append("classes: at least two class labels are needed")
        return tuple(classes)

    def _class_counts(self, classes: tuple[str, ...]) -> Mapping[str, int]:
        counts = {}
        for label, count in self._map("class_counts").items():
            if str(label) not in classes:
                self.problems.append(
                    f"class_counts.{label}: not one of the classes; {nearest(str(label), classes)}"
                )
            elif isinstance(count, bool) or not isinstance(count, int) or count < 0:
                self.problems.append(f"class_counts.{label}: expected a count, got {count!r}")
            else:
                counts[str(label)] = count
        if counts and len(counts) < len(classes):
            absent = [c for c in classes if c not in counts]
            self.problems.append(f"class_counts: no count for {', '.join(absent)}")
        return MappingProxyType(counts)

    def _families(self, fields: tuple[FieldSpec, ...]) -> tuple[IndicatorFamily, ...]:
        names = {f.name: f.kind for f in fields}
        families = []
        for name, value in self._map("indicator_families").items():
            where = f"indicator_families.{name}"
            if name not in names:
                self.problems.append(f"{where}: not a field; {nearest(str(name), names)}")
            elif names[name] != "nominal":
                self.problems.append(f"{where}: the field must be nominal, not {names[name]}")
            if not isinstance(value, Mapping):
                self.problems.append(f"{where}: expected a mapping, got {value!r}")
                continue
            self._known_keys(where, value, ("columns", "prefix", "count"))
            columns, levels = self._family_columns(where, value)
            if len(columns) < 2:
                self.problems.append(f"{where}: at least two indicator columns are needed")
            families.append(IndicatorFamily(str(name), columns, levels))
        return tuple(families)

    def _family_columns(
        self, where: str, value: Mapping
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        prefix = value.get("prefix")
        if "columns" in value:
            columns = tuple(self._texts(f"{where}.columns", value["columns"]))
            stripped = prefix if isinstance(prefix, str) else _common_prefix(columns)
            return columns, tuple(c.removeprefix(stripped) or c for c in columns)
        count = value.get("count")
        if not isinstance(prefix, str) or isinstance(count, bool) or not isinstance(count, int):
            self.problems.append(f"{where}: give either columns, or prefix (text) and count")
            return (), ()
        levels = tuple(str(i) for i in range(1, count + 1))
        return tuple(prefix + level for level in levels), levels

    def _rename(
        self, fields: tuple[FieldSpec, ...], target: str, families: tuple[IndicatorFamily, ...]
    ) -> Mapping[str, str]:
        known = {f.name for f in fields} | {target}
        known |= {column for family in families for column in family.columns}
        rename = {}
        for old, new in self._map("rename").items():
            if not isinstance(old, str) or not isinstance(new, str):
                self.problems.append(f"rename.{old}: both names must be texts")
            elif new not in known:
                self.problems.append(f"rename.{old}: {new!r} is no field; {nearest(new, known)}")
            else:
                rename[old] = new
        for new in _repeated(list(rename.values())):
            self.problems.append(f"rename: two columns become {new!r}")
        return MappingProxyType(rename)

    def _recode(
        self, fields: tuple[FieldSpec, ...], target: str
    ) -> Mapping[str, Mapping[str, str]]:
        nominal = {f.name for f in fields if f.kind == "nominal"} | {target}
        recode = {}
        for column, codes in self._map("recode").items():
            if column not in nominal:
                self.problems.append(
                    f"recode.{column}: neither the target nor a nominal field; "
                    f"{nearest(str(column), nominal)}"
                )
            if not isinstance(codes, Mapping) or not all(
                isinstance(k, str) and isinstance(v, str) for k, v in codes.items()
            ):
                self.problems.append(f"recode.{column}: expected texts to texts (use quotes)")
                continue
            recode[str(column)] = MappingProxyType(dict(codes))
        return MappingProxyType(recode)

    def _domain_groups(self, fields: tuple[FieldSpec, ...]) -> Mapping[str, tuple[str, ...]]:
        names = [f.name for f in fields]
        groups: dict[str, tuple[str, ...]] = {}
        owner: dict[str, str] = {}
        for block, members in self._map("domain_groups").items():
            where = f"domain_groups.{block}"
            groups[str(block)] = tuple(self._texts(where, members))
            if not groups[str(block)]:
                self.problems.append(f"{where}: an empty group")
            for name in groups[str(block)]:
                if name not in names:
                    self.problems.append(f"{where}: no field {name!r}; {nearest(name, names)}")
                elif owner.setdefault(name, str(block)) != str(block):
                    self.problems.append(f"{where}: {name!r} is already in {owner[name]}")
        left = [n for n in names if n not in owner]
        if groups and left:
            self.problems.append(f"domain_groups: in no group: {', '.join(left)}")
        return MappingProxyType(groups)

    def _grouping(self) -> str:
        value = self._text("grouping", default="raw_origin")
        if value not in GROUPINGS:
            self.problems.append(f"grouping: {value!r} is unknown; {nearest(value, GROUPINGS)}")
        if value == "domain" and not self._map("domain_groups"):
            self.problems.append("grouping: domain needs domain_groups")
        return value

    def _unavailable_codes(self, fields: tuple[FieldSpec, ...]) -> Mapping[str, tuple[float, ...]]:
        numeric = {f.name for f in fields if f.kind == "numeric"}
        codes = {}
        for name, values in self._map("unavailable_codes").items():
            if name not in numeric:
                self.problems.append(
                    f"unavailable_codes.{name}: not a numeric field; {nearest(str(name), numeric)}"
                )
            codes[str(name)] = self._numbers(f"unavailable_codes.{name}", values)
        return MappingProxyType(codes)

    def _cross_checks(self, spec: DatasetSpec) -> None:
        if spec.target in spec.field_names:
            self.problems.append(f"target: {spec.target!r} is also listed in fields")
        plain = [n for n in spec.field_names if n not in {f.name for f in spec.indicator_families}]
        claimed = [*plain, *(c for f in spec.indicator_families for c in f.columns)]
        for column in _repeated(claimed):
            self.problems.append(f"indicator_families: column {column!r} is used twice")
        for column in spec.drop:
            if column in claimed or column in spec.field_names or column == spec.target:
                self.problems.append(f"drop: {column!r} is a field or the target")
        total = sum(spec.class_counts.values())
        if spec.rows is not None and spec.class_counts and total != spec.rows:
            self.problems.append(f"class_counts: they add up to {total}, but rows is {spec.rows}")


def _is_pair(item: Any) -> bool:
    return isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], str)


def _repeated(items: list) -> list:
    """Items that occur more than once, each named once."""
    return sorted({item for item in items if items.count(item) > 1})


def _common_prefix(names: tuple[str, ...]) -> str:
    if not names:
        return ""
    low, high = min(names), max(names)
    size = next((i for i, c in enumerate(low) if i >= len(high) or c != high[i]), len(low))
    return low[:size]
