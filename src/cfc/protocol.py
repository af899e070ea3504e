"""The protocol of an audit: one frozen, hashed, serialisable object.

A certificate means nothing without it: baseline, order of removal, audit depth, degradation
operators, severities, weights and clipping are all declared here and travel with the result.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cfc.artifacts import canonical_json, sha256_text
from cfc.errors import ConfigError, ProblemList, nearest
from cfc.operators import DEGRADATIONS

BASELINES = ("mean", "mean_off", "median", "zero", "mode")
# only where one's own model is audited: absent values, or a row handed over
FURTHER_BASELINES = ("missing", "given")
OPERATORS = ("top1", "top3", "all", "prefix", "sign_noise")
ORDERS = ("static", "greedy")
MARGINS = ("original", "unsigned")


@dataclass(frozen=True)
class Protocol:
    """What an audit declares (paper, section 3.2; defaults are the preset ``paper``).

    >>> Protocol(depth=3).severities
    (0.25, 0.5, 0.75, 1.0)
    >>> Protocol(depth=3).hash == Protocol(depth=4).hash
    False
    >>> Protocol.from_mapping({"dpeth": 3})
    Traceback (most recent call last):
        ...
    cfc.errors.ConfigError: protocol 'custom': 1 problem
      - 'dpeth' is not a protocol setting; nearest known: depth, preset

    Attributes:
        preset: name of the preset the values started from.
        baseline: how the replacement vector x̄ is made from train; see `cfc.baselines`. For one's
            own model also ``missing`` (every value absent) and ``given`` (a row handed over).
        depth: largest number of groups removed, K >= 1; min(depth, G) is used.
        order: ``static`` sorts the one-step drops once (paper, eq. 4); ``greedy`` re-evaluates
            the remaining groups after each removal.
        operators: degradation operators P, a non-empty subset of `OPERATORS` and of those
            registered with `cfc.degradation`.
        severities: grid Λ, ascending, each in (0, 1].
        weights: (w1, w2, w3) of RCMA, 1/k* and the degradation term, non-negative, sum 1 (eq. 10).
        clip: lower bound of a probability (eq. 14).
        clip_forest_votes: clip a forest of T trees at 1/(2T) instead: half a vote is all it can
            tell apart from zero.
        margin: ``original`` follows the originally predicted class through every state;
            ``unsigned`` takes the gap of the two largest pseudo-logits instead (never negative).
        seed: seed of the signs of ``sign_noise``; nothing else in a certificate is random.
    """

    preset: str = "paper"
    baseline: str = "mean"
    depth: int = 10
    order: str = "static"
    operators: tuple[str, ...] = ("top1", "top3", "all")
    severities: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)
    clip: float = 1e-12
    clip_forest_votes: bool = False
    margin: str = "original"
    seed: int = 0

    def __post_init__(self):
        for name in ("operators", "severities", "weights"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        problems = ProblemList()
        for name, known in (
            ("baseline", (*BASELINES, *FURTHER_BASELINES)),
            ("order", ORDERS),
            ("margin", MARGINS),
        ):
            if getattr(self, name) not in known:
                problems.append(f"{name}: {getattr(self, name)!r} is unknown; {_all(known)}")
        if not isinstance(self.depth, int) or self.depth < 1:
            problems.append(f"depth: {self.depth!r} is not a whole number of at least 1")
        operators = (*OPERATORS, *DEGRADATIONS)
        unknown = [o for o in self.operators if o not in operators]
        problems += [f"operators: {o!r} is unknown; {_all(operators)}" for o in unknown]
        if not self.operators or len(set(self.operators)) != len(self.operators):
            problems.append("operators: name at least one, each once")
        grid = self.severities
        if not grid or any(not 0 < s <= 1 for s in grid) or list(grid) != sorted(set(grid)):
            problems.append(
                f"severities: {list(grid)} must be ascending, without repeats, above 0 "
                "(0 changes nothing) and at most 1"
            )
        w = self.weights
        if len(w) != 3 or any(x < 0 for x in w) or not math.isclose(sum(w), 1, abs_tol=1e-9):
            problems.append(f"weights: {list(w)} must be three non-negative numbers with sum 1")
        if not 0 < self.clip < 0.1:
            problems.append(f"clip: {self.clip} must lie in (0, 0.1)")
        problems.raise_if_any(ConfigError, "protocol")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], preset: str = "custom") -> "Protocol":
        """Build a protocol from a mapping; unknown keys are refused with the nearest name.

        Raises:
            ConfigError: unknown keys or illegal values, all at once.
        """
        known = [f.name for f in dataclasses.fields(cls)]
        problems = ProblemList(
            f"{key!r} is not a protocol setting; {nearest(key, known)}"
            for key in values
            if key not in known
        )
        problems.raise_if_any(ConfigError, f"protocol {preset!r}")
        return cls(**{"preset": preset, **values})

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return {
            k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self).items()
        }

    @property
    def hash(self) -> str:
        """16 hexadecimal digits naming every setting but the preset's name."""
        return sha256_text(
            canonical_json({k: v for k, v in self.to_dict().items() if k != "preset"})
        )[:16]

    def clip_for(self, forest_trees: int | None) -> float:
        """Return the clip for a model: 1/(2T) for a forest of T trees where declared."""
        if self.clip_forest_votes and forest_trees:
            # a forest of a few trees would be clipped above 1/C
            return min(1.0 / (2 * forest_trees), 0.1)
        return self.clip


def forward_rows(n_groups: int, depth: int, order: str, cells: int) -> int:
    """Return the formula of forward rows a case (paper, Table 3).

    Static order: 1 + G + (K − 1) + |P||Λ|. Greedy order asks for every remaining group at each
    step, G − 1 + ... + (G − K + 1) rows in place of the K − 1.

    Args:
        n_groups: G.
        depth: K, at most G.
        order: ``static`` or ``greedy``.
        cells: |P||Λ|, degradation operators times severities.
    """
    steps = sum(n_groups - k for k in range(1, depth)) if order == "greedy" else depth - 1
    return 1 + n_groups + steps + cells


def _all(known) -> str:
    return "one of " + ", ".join(known)


PRESETS: dict[str, Protocol] = {
    # the paper's own choices; default of the reproduction
    "paper": Protocol(),
    # for one's own data: a mean one-hot switches every level on in some libraries, and a forest's
    # unanimous vote is not certainty
    "audit": Protocol(preset="audit", baseline="mean_off", clip_forest_votes=True),
    # for comparison with the RCMA values the paper prints, which a signed margin cannot reach
    "reference": Protocol(preset="reference", operators=("top1",), margin="unsigned"),
}
"""Protocols by name: ``paper``, ``audit`` and ``reference``.

>>> PRESETS["audit"].baseline
'mean_off'

A protocol of one's own starts from one of them:

>>> from dataclasses import replace
>>> replace(PRESETS["audit"], preset="mine", depth=3).depth
3
"""


def get_preset(name: str) -> Protocol:
    """Return a preset by name.

    Raises:
        ConfigError: unknown name.
    """
    if name not in PRESETS:
        raise ConfigError(f"preset {name!r} is unknown; {nearest(name, PRESETS)}")
    return PRESETS[name]
