"""The eight families of model change, and how to add one.

A family turns a base model into changed models. A family of one's own is a subclass of
`ChangeFamily` in a file, named in the configuration by ``class: path/to/file.py:ClassName``; it
returns `Variant` objects, each either a training to make (`TrainSpec`) or a finished `Net`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from cfc.errors import ConfigError, ModelError, nearest
from cfc.recourse.data import RecourseData
from cfc.recourse.nets import Net
from cfc.recourse.seeds import SeedPlan
from cfc.recourse.specs import Trained, TrainSettings, TrainSpec

VARIANTS = 25
BASE_HIDDEN = (32, 32)
BASE_LR = 1e-3
_WIDTHS = {
    1: ("8", "16", "32", "64", "128"),
    2: (
        *("8-8", "8-16", "8-32", "16-8", "16-16", "16-32", "32-8", "32-16", "32-64"),
        *("64-16", "64-32", "64-64", "128-32", "128-64", "128-128"),
    ),
    3: ("8-8-8", "16-16-8", "16-16-16", "32-16-8", "32-32-16"),
}
ARCHITECTURES = tuple(
    tuple(int(width) for width in text.split("-")) for texts in _WIDTHS.values() for text in texts
)
CONFIGURATIONS = tuple(
    ("adam", lr, decay)
    for lr in (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3)
    for decay in (0.0, 1e-5, 1e-4, 1e-3)
    if (lr, decay) != (BASE_LR, 0.0)
) + tuple(("sgd", lr, decay) for lr in (0.01, 0.03) for decay in (0.0, 1e-4, 1e-3))


@dataclass(frozen=True)
class BaseModel:
    """A base model: what changes start from.

    Attributes:
        number: its number, from 0.
        init_seed: torch seed of its first weights.
        net: the trained network.
    """

    number: int
    init_seed: int
    net: Net


@dataclass(frozen=True)
class Rows:
    """The rows trainings of a data set refer to: train first, then the update pool.

    Attributes:
        X: float32 [n + u, p].
        y: int8 [n + u].
        n_train, n_update: n and u.
    """

    X: np.ndarray
    y: np.ndarray
    n_train: int
    n_update: int

    @classmethod
    def of(cls, data: RecourseData) -> "Rows":
        """Return the rows of a data set."""
        return cls(
            np.concatenate([data.X["train"], data.X["update"]]),
            np.concatenate([data.y["train"], data.y["update"]]),
            len(data.y["train"]),
            len(data.y["update"]),
        )

    def weights(self, train=1.0, update=0.0) -> np.ndarray:
        """Return row weights [n + u] from weights of train and of update rows."""
        out = np.zeros(len(self.y))
        out[: self.n_train] = train
        out[self.n_train :] = update
        return out


@dataclass(frozen=True)
class Variant:
    """One changed model: exactly one of ``train`` and ``net`` is given.

    Attributes:
        level: strength of the change as text, such as ``0.05``; empty where there is one level.
        replicate: number within the level, from 0.
        train: a training to make, over the rows of `Rows`.
        net: a finished network.
        seeds: seeds used, by purpose, for the record.
    """

    level: str
    replicate: int
    train: TrainSpec | None = None
    net: Net | None = None
    seeds: dict[str, int] = field(default_factory=dict)

    def __post_init__(self):
        if (self.train is None) == (self.net is None):
            raise ModelError("a variant holds either a training or a network")


class ChangeFamily(ABC):
    """A way in which a deployed model changes.

    Attributes:
        name: key in tables and configuration.
        title: printed name.
    """

    name: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def variants(self, base: BaseModel, rows: Rows, seeds: SeedPlan) -> list[Variant]:
        """Return the changed models of one base model, at least as many as the run declares.

        Args:
            base: the model that changes.
            rows: training and update rows, standardised.
            seeds: where random streams come from: ``seeds.rng(name, base.number, ...)``.
        """

    def base_spec(self, base: BaseModel, rows: Rows) -> TrainSpec:
        """Return the training that made the base model; families change one thing of it."""
        return TrainSpec(base.init_seed, rows.weights(), rows.y, hidden=base.net.hidden)


class NewInitialization(ChangeFamily):
    """The same data and protocol from other first weights."""

    name, title = "new_initialization", "New initialization"

    def variants(self, base, rows, seeds):
        """Return 25 networks that differ in the initial seed only."""
        out = []
        for r in range(VARIANTS):
            seed = seeds.seed(self.name, base.number, replicate=r)
            spec = replace(self.base_spec(base, rows), init_seed=seed)
            out.append(Variant("", r, spec, seeds={"init": seed}))
        return out


class Bootstrap(ChangeFamily):
    """Resampled training rows."""

    name, title = "bootstrap", "Bootstrap"

    def variants(self, base, rows, seeds):
        """Return 25 networks trained on n rows drawn with replacement."""
        out = []
        for r in range(VARIANTS):
            seed = seeds.seed(self.name, base.number, replicate=r)
            counts = bootstrap_counts(rows.n_train, seed)
            spec = replace(self.base_spec(base, rows), weights=rows.weights(counts))
            out.append(Variant("", r, spec, seeds={"rows": seed}))
        return out


class _Levels(ChangeFamily):
    """Shared by families with levels: shares of rows, each with a number of replicates."""

    levels: ClassVar[tuple[tuple[float, int], ...]]

    def variants(self, base, rows, seeds):
        """Return one network a level and replicate."""
        out = []
        for index, (level, count) in enumerate(self.levels):
            for r in range(count):
                seed = seeds.seed(
                    self.name, base.number, level=level, level_index=index, replicate=r
                )
                out.append(
                    replace(
                        self.one(base, rows, level, seed),
                        level=f"{level:g}",
                        replicate=r,
                    )
                )
        return out


class DataDeletion(_Levels):
    """Some training rows are gone."""

    name, title = "data_deletion", "Data deletion"
    levels = ((0.01, 9), (0.05, 8), (0.10, 8))

    def one(self, base, rows, level, seed):
        """Return the network that keeps a share of the training rows."""
        keep = round((1 - level) * rows.n_train)
        chosen = np.random.default_rng(seed).choice(rows.n_train, size=keep, replace=False)
        kept = np.zeros(rows.n_train)
        kept[chosen] = 1
        spec = replace(self.base_spec(base, rows), weights=rows.weights(kept))
        return Variant("", 0, spec, seeds={"rows": seed})


class DataAddition(_Levels):
    """Rows of the update pool join the training rows."""

    name, title = "data_addition", "Data addition"
    levels = ((0.25, 8), (0.50, 8), (0.75, 8), (1.0, 1))

    def one(self, base, rows, level, seed):
        """Return the network trained with a share of the update pool added."""
        size = max(1, round(level * rows.n_update))
        chosen = np.random.default_rng(seed).choice(rows.n_update, size=size, replace=False)
        added = np.zeros(rows.n_update)
        added[chosen] = 1
        spec = replace(self.base_spec(base, rows), weights=rows.weights(1.0, added))
        return Variant("", 0, spec, seeds={"rows": seed})


class LabelUpdate(_Levels):
    """Some training labels turn out to be the other one."""

    name, title = "label_update", "Label update"
    levels = ((0.01, 9), (0.05, 8), (0.10, 8))

    def one(self, base, rows, level, seed):
        """Return the network trained with a share of the labels flipped."""
        size = max(1, round(level * rows.n_train))
        chosen = np.random.default_rng(seed).choice(rows.n_train, size=size, replace=False)
        targets = rows.y.copy()
        targets[chosen] = 1 - targets[chosen]
        spec = replace(self.base_spec(base, rows), targets=targets)
        return Variant("", 0, spec, seeds={"rows": seed})


class TrainingConfiguration(ChangeFamily):
    """Other optimiser settings on the same rows and first weights."""

    name, title = "training_configuration", "Training configuration"

    def variants(self, base, rows, seeds):
        """Return one network for each of 25 combinations of optimiser, step and decay."""
        return [
            Variant(
                f"{optimiser} lr {lr:g} wd {decay:g}",
                0,
                replace(self.base_spec(base, rows), optimiser=optimiser, lr=lr, weight_decay=decay),
            )
            for optimiser, lr, decay in CONFIGURATIONS
        ]


class Architecture(ChangeFamily):
    """Other widths and depths."""

    name, title = "architecture", "Architecture"

    def variants(self, base, rows, seeds):
        """Return one network for each of 25 shapes, initialised under the base seed."""
        return [
            Variant(
                "-".join(map(str, hidden)),
                0,
                replace(self.base_spec(base, rows), hidden=hidden),
            )
            for hidden in ARCHITECTURES
        ]


class ParameterPerturbation(ChangeFamily):
    """Every weight and bias moves a little; nothing is trained."""

    name, title = "parameter_perturbation", "Parameter perturbation"
    levels = ((0.001, 5), (0.005, 5), (0.01, 5), (0.02, 5), (0.05, 5))

    def variants(self, base, rows, seeds):
        """Return 25 networks at five largest parameter changes, each in five directions."""
        out = []
        for index, (radius, count) in enumerate(self.levels):
            for r in range(count):
                seed = seeds.seed(
                    self.name, base.number, level=radius, level_index=index, replicate=r
                )
                net = perturbed(base.net, radius, seed)
                out.append(Variant(f"{radius:g}", r, net=net, seeds={"direction": seed}))
        return out


def bootstrap_counts(n: int, seed: int) -> np.ndarray:
    """Return how often each of n rows is drawn in n draws with replacement, int64 [n]."""
    return np.bincount(np.random.default_rng(seed).integers(0, n, n), minlength=n)


def perturbed(net: Net, radius: float, seed: int) -> Net:
    """Return a network moved in one random direction.

    The direction is uniform in (−1, 1) for all weights and biases together, scaled so that its
    largest entry is exactly ``radius``.

    Args:
        net: where to start.
        radius: largest absolute change of a parameter, > 0.
        seed: of a torch generator; tensors are drawn in the order W1, b1, W2, b2, ...
    """
    import torch

    source = torch.Generator().manual_seed(int(seed))
    draws = []
    for w, b in zip(net.weights, net.biases, strict=True):
        for tensor in (w, b):
            draw = torch.empty(tensor.shape).uniform_(-1, 1, generator=source)
            draws.append(draw.numpy().ravel())
    direction = np.concatenate(draws)
    # float64, then once to float32: the largest entry comes out at the radius
    step = direction.astype(np.float64) * (radius / np.abs(direction).max())
    return net.with_flat((net.flat().astype(np.float64) + step).astype(np.float32))


_CLASSES: tuple[type[ChangeFamily], ...] = (
    NewInitialization,
    Bootstrap,
    DataDeletion,
    DataAddition,
    LabelUpdate,
    TrainingConfiguration,
    Architecture,
    ParameterPerturbation,
)
FAMILIES: dict[str, type[ChangeFamily]] = {c.name: c for c in _CLASSES}


def get_family(name: str, class_path: str | None = None) -> ChangeFamily:
    """Return a change family by name.

    Args:
        name: a key of `FAMILIES`, or any name when ``class_path`` is given.
        class_path: ``package.module:ClassName`` or ``path/to/file.py:ClassName`` of one's own.

    Raises:
        ConfigError: unknown name (with the nearest known), or a class that cannot be used.
    """
    from cfc.recourse.plugins import load_class

    if class_path is not None:
        return load_class("change family", name, class_path, ChangeFamily)()
    if name not in FAMILIES:
        raise ConfigError(
            f"unknown change family {name!r}; {nearest(name, FAMILIES)}. A family of your own "
            "needs an entry in recourse.own_families: {name: path/to/file.py:ClassName}"
        )
    return FAMILIES[name]()


def pick_evenly(variants: Sequence[Any], count: int) -> list[Any]:
    """Return ``count`` of the variants, spread over the whole list; all when they are so many."""
    places = np.unique(np.round(np.linspace(0, len(variants) - 1, count)).astype(int))
    return [variants[i] for i in places]


@dataclass(frozen=True)
class Changed:
    """A changed model with what is known about it.

    Attributes:
        base: number of its base model.
        variant: what was asked for.
        net: the network.
        trained: how its training went; None for perturbed weights.
    """

    base: int
    variant: Variant
    net: Net
    trained: Trained | None


def build_family(
    family: ChangeFamily,
    bases: Sequence[BaseModel],
    data: RecourseData,
    seeds: SeedPlan,
    *,
    count: int = VARIANTS,
    settings: TrainSettings | None = None,
    progress=None,
) -> list[Changed]:
    """Return ``count`` changed models of every base model, in order of base, then variant.

    Args:
        family: how models change.
        bases: the base models of the data set.
        data: its rows; early stopping uses the same validation rows as the base models.
        seeds: the plan in use.
        count: variants a base; fewer than the family has are spread over its list.
        settings: the shared training protocol.
        progress: called with the number of trained networks.

    Raises:
        ConfigError: the family gives fewer variants than ``count``.
    """
    from cfc.recourse.training import train_nets

    rows = Rows.of(data)
    asked: list[tuple[int, Variant]] = []
    for base in bases:
        own = family.variants(base, rows, seeds)
        if len(own) < count:
            raise ConfigError(
                f"change family {family.name!r} gives {len(own)} variants of base model "
                f"{base.number}, but the run declares {count} (recourse.variants); give more, or "
                "declare fewer"
            )
        asked += [(base.number, variant) for variant in pick_evenly(own, count)]
    todo = [i for i, (_, variant) in enumerate(asked) if variant.train is not None]
    trained: dict[int, Trained] = {}
    if todo:
        X = rows.X
        specs = [asked[i][1].train for i in todo]
        if not any(spec.weights[rows.n_train :].any() for spec in specs):
            X = X[: rows.n_train]
            specs = [
                replace(s, weights=s.weights[: rows.n_train], targets=s.targets[: rows.n_train])
                for s in specs
            ]
        done = train_nets(X, data.X["validation"], data.y["validation"], specs, settings, progress)
        trained = dict(zip(todo, done, strict=True))
    return [
        Changed(b, v, trained[i].net if i in trained else v.net, trained.get(i))
        for i, (b, v) in enumerate(asked)
    ]


def train_bases(
    data: RecourseData,
    seeds: SeedPlan,
    count: int,
    settings: TrainSettings | None = None,
) -> tuple[list[BaseModel], list[Trained]]:
    """Train the base models of a data set; they differ in their first weights only."""
    from cfc.recourse.training import train_nets

    rows = Rows.of(data)
    init = [seeds.seed("base", b) for b in range(count)]
    n = rows.n_train
    specs = [TrainSpec(s, np.ones(n), rows.y[:n], hidden=BASE_HIDDEN) for s in init]
    done = train_nets(rows.X[:n], data.X["validation"], data.y["validation"], specs, settings)
    return [BaseModel(b, init[b], t.net) for b, t in enumerate(done)], done


def train_ensemble(
    data: RecourseData,
    seeds: SeedPlan,
    bases: Sequence[BaseModel],
    members: int,
    settings: TrainSettings | None = None,
    progress=None,
) -> dict[int, list[Net]]:
    """Train the bootstrap networks BetaRCE votes with; never part of the changed models.

    Args:
        data, seeds, settings: as elsewhere.
        bases: their first weights start every member.
        members: networks a base model.
        progress: called with the number of trained networks.

    Returns:
        base number -> networks.
    """
    from cfc.recourse.training import train_nets

    rows = Rows.of(data)
    n = rows.n_train
    specs = [
        TrainSpec(
            base.init_seed,
            bootstrap_counts(n, seeds.seed("betarce_ensemble", base.number, replicate=m)),
            rows.y[:n],
            hidden=base.net.hidden,
        )
        for base in bases
        for m in range(members)
    ]
    done = train_nets(
        rows.X[:n], data.X["validation"], data.y["validation"], specs, settings, progress
    )
    return {
        base.number: [t.net for t in done[i * members : (i + 1) * members]]
        for i, base in enumerate(bases)
    }
