"""Training many small networks at once.

Full-batch Adam or momentum SGD on weighted binary cross-entropy, early stopping on validation.
Networks of one shape share one stack of tensors, so one call trains all of them: resampled,
enlarged or relabelled training sets are weights and targets over the same rows. The gradient is
written out: it costs a third of what automatic differentiation does on networks this small.
Stacks are kept small enough for the cache; above about 8,000 rows a network trains alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from cfc.errors import ConfigError
from cfc.recourse.nets import Net, shapes_of

OPTIMISERS = ("adam", "sgd")
_BETAS, _EPSILON, _MOMENTUM = (0.9, 0.999), 1e-8, 0.9
_CACHE_ROWS = 8000
_LARGEST_STACK = 25


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
    facts: dict[str, Any] = field(default_factory=dict)


def initial_net(seed: int, n_features: int, hidden: Sequence[int]) -> Net:
    """Return the network torch initialises under a seed, layer by layer, float32."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(seed))
        layers = [torch.nn.Linear(a, b) for b, a in shapes_of(n_features, hidden)]
    return Net(
        tuple(layer.weight.detach().numpy() for layer in layers),
        tuple(layer.bias.detach().numpy() for layer in layers),
    )


def train_nets(
    X: np.ndarray,
    X_valid: np.ndarray,
    y_valid: np.ndarray,
    specs: Sequence[TrainSpec],
    settings: TrainSettings | None = None,
    progress=None,
) -> list[Trained]:
    """Train every network described, those of one shape and optimiser together.

    Args:
        X: rows [n, p] all specs refer to, taken as float32.
        X_valid: validation rows [m, p].
        y_valid: their 0/1 labels [m].
        specs: what to train.
        settings: the shared protocol.
        progress: called with the number of networks done after each stack.

    Returns:
        results in the order of ``specs``. A network that never improves (its loss is not finite
        from the start) keeps the weights of its last update and is refused as not finite.
    """
    settings = settings or TrainSettings()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    try:
        x = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))
        xv = torch.from_numpy(np.ascontiguousarray(X_valid, dtype=np.float32))
        yv = torch.from_numpy(np.ascontiguousarray(y_valid, dtype=np.float32))
        found: dict[int, Trained] = {}
        size = int(np.clip(_CACHE_ROWS // max(1, len(x)), 1, _LARGEST_STACK))
        for places in _groups(specs):
            for start in range(0, len(places), size):
                chunk = places[start : start + size]
                stack = _Stack(x, xv, yv, [specs[i] for i in chunk], settings)
                found.update(zip(chunk, stack.run(), strict=True))
                if progress:
                    progress(len(found))
        return [found[i] for i in range(len(specs))]
    finally:
        torch.set_num_threads(threads)


def _groups(specs: Sequence[TrainSpec]) -> list[list[int]]:
    groups: dict[tuple, list[int]] = {}
    for i, spec in enumerate(specs):
        groups.setdefault((spec.hidden, spec.optimiser), []).append(i)
    return list(groups.values())


class _Layers:
    """Views of each layer's weights and biases in one flat [M, parameters] tensor."""

    def __init__(self, flat: torch.Tensor, shapes: list[tuple[int, int]]):
        self.weights, self.biases, start = [], [], 0
        for out, into in shapes:
            end = start + out * into
            self.weights.append(flat[:, start:end].view(len(flat), out, into))
            self.biases.append(flat[:, end : end + out])
            start = end + out


class _Stack:
    """Networks of one shape and optimiser in training; finished ones leave the stack."""

    def __init__(self, x, x_valid, y_valid, specs: Sequence[TrainSpec], settings: TrainSettings):
        self.x, self.x_valid, self.y_valid, self.settings = x, x_valid, y_valid, settings
        self.specs = list(specs)
        self.shapes = shapes_of(x.shape[1], specs[0].hidden)
        nets = [initial_net(s.init_seed, x.shape[1], s.hidden) for s in specs]
        self.like = nets[0]
        self.flat = torch.from_numpy(np.stack([n.flat() for n in nets]))
        weights = np.stack([np.asarray(s.weights, dtype=np.float64) for s in specs])
        weights /= weights.sum(axis=1, keepdims=True)
        self.row_weight = torch.from_numpy(weights.astype(np.float32))
        self.target = torch.from_numpy(np.stack([s.targets for s in specs]).astype(np.float32))
        self.lr = torch.tensor([[s.lr] for s in specs], dtype=torch.float32)
        decay = torch.tensor([[s.weight_decay] for s in specs], dtype=torch.float32)
        self.decay = decay if bool((decay > 0).any()) else None
        self.first = torch.zeros_like(self.flat)
        self.second = torch.zeros_like(self.flat)
        self.alive = np.arange(len(specs))  # positions of the members still in the tensors
        self.best = self.flat.clone()
        self.best_loss = np.full(len(specs), np.inf)
        self.best_epoch = np.zeros(len(specs), dtype=int)
        self.epochs = np.zeros(len(specs), dtype=int)

    def run(self) -> list[Trained]:
        grad = torch.empty_like(self.flat)
        for epoch in range(1, self.settings.epochs + 1):
            self._gradient(grad)
            self._update(grad, epoch)
            loss = self._validation_loss()
            own = self.alive
            self.epochs[own] = epoch
            better = loss < self.best_loss[own] - self.settings.min_delta
            if better.any():
                rows = np.flatnonzero(better)
                self.best[own[rows]] = self.flat[rows]
                self.best_loss[own[rows]] = loss[rows]
                self.best_epoch[own[rows]] = epoch
            going = epoch - self.best_epoch[own] < self.settings.patience
            if not going.any():
                break
            if not going.all():
                self._keep(going)
                grad = torch.empty_like(self.flat)
        return [
            Trained(
                self.like.with_flat(self.best[i].numpy().copy()),
                int(self.epochs[i]),
                int(self.best_epoch[i]),
                float(self.best_loss[i]),
            )
            for i in range(len(self.specs))
        ]

    def _keep(self, going: np.ndarray) -> None:
        rows = torch.from_numpy(np.flatnonzero(going))
        for name in ("flat", "first", "second", "row_weight", "target", "lr", "decay"):
            held = getattr(self, name)
            if held is not None:
                setattr(self, name, held[rows].contiguous())
        self.alive = self.alive[going]

    def _forward(self, x: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return the activations of every hidden layer and the logits [M, n]."""
        layers = _Layers(self.flat, self.shapes)
        h = x.expand(len(self.flat), *x.shape)
        hidden = []
        for w, b in zip(layers.weights[:-1], layers.biases[:-1], strict=True):
            h = torch.baddbmm(b.unsqueeze(1), h, w.transpose(1, 2)).relu_()
            hidden.append(h)
        last = layers.weights[-1].transpose(1, 2)
        return hidden, torch.baddbmm(layers.biases[-1].unsqueeze(1), h, last).squeeze(2)

    def _gradient(self, grad: torch.Tensor) -> None:
        """Fill ``grad`` [M, parameters] with the gradient of each network's weighted loss."""
        hidden, logits = self._forward(self.x)
        inputs = [self.x.expand(len(self.flat), *self.x.shape), *hidden]
        layers, out = _Layers(self.flat, self.shapes), _Layers(grad, self.shapes)
        delta = ((torch.sigmoid(logits) - self.target) * self.row_weight).unsqueeze(2)
        for k in range(len(self.shapes) - 1, -1, -1):
            out.weights[k].copy_(torch.bmm(delta.transpose(1, 2), inputs[k]))
            out.biases[k].copy_(delta.sum(dim=1))
            if k:
                # an outer product for the logit's layer; then zero where the unit was off
                w = layers.weights[k]
                delta = delta * w if k == len(self.shapes) - 1 else torch.bmm(delta, w)
                delta = torch.ops.aten.threshold_backward(delta, inputs[k], 0)
        if self.decay is not None:
            grad.addcmul_(self.decay, self.flat)

    def _update(self, grad: torch.Tensor, epoch: int) -> None:
        if self.specs[0].optimiser == "sgd":
            # the first step's buffer is the gradient itself, as in torch
            self.first.mul_(_MOMENTUM).add_(grad)
            self.flat.sub_(self.lr * self.first)
            return
        one, two = _BETAS
        self.first.mul_(one).add_(grad, alpha=1 - one)
        self.second.mul_(two).addcmul_(grad, grad, value=1 - two)
        root = (self.second.sqrt() / (1 - two**epoch) ** 0.5).add_(_EPSILON)
        self.flat.sub_((self.lr / (1 - one**epoch)) * (self.first / root))

    def _validation_loss(self) -> np.ndarray:
        _, logits = self._forward(self.x_valid)
        loss = torch.nn.functional.softplus(logits) - logits * self.y_valid
        return loss.mean(dim=1).numpy().astype(np.float64)
