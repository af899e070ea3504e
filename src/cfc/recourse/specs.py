"""What is trained and what came out; light at import, so that planning a run loads no torch."""

from dataclasses import dataclass

import numpy as np

from cfc.errors import ConfigError
from cfc.recourse.nets import Net

OPTIMISERS = ("adam", "sgd")


@dataclass(frozen=True)
class TrainSettings:
    """The training protocol all networks share.

    Attributes:
        epochs: most full-batch updates.
        patience: updates without improvement before a stop.
        min_delta: by how much validation loss must fall to count as better.
    """

    epochs: int = 300
    patience: int = 30
    min_delta: float = 1e-6


@dataclass(frozen=True)
class TrainSpec:
    """One network to train.

    Attributes:
        init_seed: torch seed of the initial weights.
        weights: float [n] >= 0 over the rows of the call, not all 0; a row counted twice has
            twice the weight. They are normalised to sum to 1.
        targets: 0/1 labels [n] of the same rows.
        hidden: sizes of the hidden layers.
        optimiser: ``adam`` or ``sgd`` (momentum 0.9).
        lr: step size.
        weight_decay: classic L2, added to the gradient of weights and biases.
    """

    init_seed: int
    weights: np.ndarray
    targets: np.ndarray
    hidden: tuple[int, ...] = (32, 32)
    optimiser: str = "adam"
    lr: float = 1e-3
    weight_decay: float = 0.0

    def __post_init__(self):
        if self.optimiser not in OPTIMISERS:
            raise ConfigError(f"optimiser {self.optimiser!r} is none of {', '.join(OPTIMISERS)}")


@dataclass(frozen=True)
class Trained:
    """A trained network and how its training went.

    Attributes:
        net: weights of the best epoch.
        epochs: updates made.
        best_epoch: update after which validation loss was lowest, from 1.
        validation_loss: mean binary cross-entropy there.
    """

    net: Net
    epochs: int
    best_epoch: int
    validation_loss: float
