"""The seeds of the recourse benchmark, under two plans.

``parity`` uses the integers of the published run: bases 2026 to 2030, fixed offsets. They overlap:
base 2026's variant of a new initialisation is base 2027 itself, and of 125 such networks only 29
differ. ``independent`` keys every stream by data set, base, purpose, level and replicate, so that
no two changed models share a draw and the base model is a true replicate. Headline results use it.
"""

from dataclasses import dataclass

import numpy as np

from cfc.errors import ConfigError, nearest
from cfc.seeding import purpose_key, spawned_sequence

PROFILES = ("independent", "parity")
ROOT = 20260925
FIRST_BASE = 2026
# positions are part of the plan: append, never reorder
DATASETS = ("breast_cancer", "diabetes", "wine_quality", "heloc")
PURPOSES = (
    "split",
    "base",
    "new_initialization",
    "bootstrap",
    "data_deletion",
    "data_addition",
    "label_update",
    "parameter_perturbation",
    "betarce_ensemble",
    "apas_calibration",
    "apas_search",
    "apas_check",
    "factuals",
    "tuning_factuals",
    "method",
    "robx_noise",
)
# purpose -> (offset, multiplier of the level) in the published run
_OFFSETS = {
    "base": (0, 0),
    "new_initialization": (1, 0),
    "bootstrap": (10_000, 0),
    "data_deletion": (20_000, 1_000),
    "data_addition": (30_000, 1_000),
    "label_update": (40_000, 1_000),
    "parameter_perturbation": (80_000, 1_000_000),
    "betarce_ensemble": (100_000, 0),
    "apas_calibration": (200_000, 0),
    "apas_search": (0, 0),
    "apas_check": (1_000_003, 0),
    "factuals": (30_000, 0),
    "tuning_factuals": (70_000, 0),
    "robx_noise": (81_000, 0),
}


@dataclass(frozen=True)
class SeedPlan:
    """Seeds of one data set under one profile.

    Attributes:
        profile: one of `PROFILES`.
        dataset: key of the data set.

    Raises:
        ConfigError: the profile is unknown.
    """

    profile: str
    dataset: str

    def __post_init__(self):
        if self.profile not in PROFILES:
            raise ConfigError(
                f"recourse profile {self.profile!r} is unknown; {nearest(self.profile, PROFILES)}"
            )

    def seed(
        self,
        purpose: str,
        base: int = 0,
        *,
        level: float = 0.0,
        level_index: int = 0,
        replicate: int = 0,
    ) -> int:
        """Return the seed of one stream, a whole number in [0, 2**63).

        Args:
            purpose: one of `PURPOSES`, or a name of one's own (a family or a method).
            base: number of the base model, from 0.
            level: strength of the change; enters the published seeds only.
            level_index: number of the level within its family; enters independent seeds only.
            replicate: number within the level, or the row id of a request.
        """
        if self.profile == "parity":
            if purpose == "split":
                return FIRST_BASE
            if purpose in _OFFSETS:
                offset, factor = _OFFSETS[purpose]
                return FIRST_BASE + base + offset + round(factor * level) + replicate
            entropy = FIRST_BASE
        else:
            entropy = ROOT
        key = (_index(self.dataset, DATASETS), base, _index(purpose, PURPOSES), level_index)
        state = spawned_sequence(entropy, (*key, replicate)).generate_state(1, np.uint64)
        return int(state[0] >> np.uint64(1))

    def rng(self, purpose: str, base: int = 0, **key) -> np.random.Generator:
        """Return the NumPy generator of one stream; arguments as for `seed`."""
        return np.random.default_rng(self.seed(purpose, base, **key))


def _index(name: str, known: tuple[str, ...]) -> int:
    # names beyond the enumeration get a 32-bit number of their own, far above its positions
    return known.index(name) if name in known else purpose_key(name)
