"""Training many small networks at once.

Full-batch Adam or momentum SGD on weighted binary cross-entropy, early stopping on validation.
Networks of one shape share one stack of tensors, so one call trains all of them: resampled,
enlarged or relabelled training sets are weights and targets over the same rows. The gradient is
written out: it costs a third of what automatic differentiation does on networks this small.
Stacks are kept small enough for the cache; above about 8,000 rows a network trains alone.
"""

from collections.abc import Sequence

import numpy as np
import torch

from cfc.recourse.nets import Net, shapes_of
from cfc.recourse.specs import Trained, TrainSettings, TrainSpec

_BETAS, _EPSILON, _MOMENTUM = (0.9, 0.999), 1e-8, 0.9
_CACHE_ROWS = 8000
_LARGEST_STACK = 25


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


class _Bundle:
    """Networks of one shape as one tensor [M, parameters], their gradients and update steps."""

    def __init__(self, nets: Sequence[Net], lr: Sequence[float], optimiser: str = "adam"):
        self.like, self.optimiser = nets[0], optimiser
        self.shapes = shapes_of(nets[0].n_features, nets[0].hidden)
        self.flat = torch.from_numpy(np.stack([n.flat() for n in nets]))
        self.lr = torch.tensor([[v] for v in lr], dtype=torch.float32)
        self.first, self.second = torch.zeros_like(self.flat), torch.zeros_like(self.flat)

    def forward(self, x: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return the inputs of every layer and the logits [M, n] of rows [n, p] or [M, n, p]."""
        layers = _Layers(self.flat, self.shapes)
        inputs = [x if x.dim() == 3 else x.expand(len(self.flat), *x.shape)]
        for w, b in zip(layers.weights[:-1], layers.biases[:-1], strict=True):
            h = torch.baddbmm(b.unsqueeze(1), inputs[-1], w.transpose(1, 2))
            inputs.append(h.relu_())
        last = layers.weights[-1].transpose(1, 2)
        logits = torch.baddbmm(layers.biases[-1].unsqueeze(1), inputs[-1], last)
        return inputs, logits.squeeze(2)

    def gradient(self, x, target, row_weight) -> torch.Tensor:
        """Return the gradient [M, parameters] of each network's weighted cross-entropy."""
        inputs, logits = self.forward(x)
        grad = torch.empty_like(self.flat)
        layers, out = _Layers(self.flat, self.shapes), _Layers(grad, self.shapes)
        delta = ((torch.sigmoid(logits) - target) * row_weight).unsqueeze(2)
        for k in range(len(self.shapes) - 1, -1, -1):
            out.weights[k].copy_(torch.bmm(delta.transpose(1, 2), inputs[k]))
            out.biases[k].copy_(delta.sum(dim=1))
            if k:
                # an outer product for the logit's layer; then zero where the unit was off
                w = layers.weights[k]
                delta = delta * w if k == len(self.shapes) - 1 else torch.bmm(delta, w)
                delta = torch.ops.aten.threshold_backward(delta, inputs[k], 0)
        return grad

    def update(self, grad: torch.Tensor, count: int) -> None:
        """Make step number ``count``, from 1."""
        if self.optimiser == "sgd":
            # the first step's buffer is the gradient itself, as in torch
            self.first.mul_(_MOMENTUM).add_(grad)
            self.flat.sub_(self.lr * self.first)
            return
        one, two = _BETAS
        self.first.mul_(one).add_(grad, alpha=1 - one)
        self.second.mul_(two).addcmul_(grad, grad, value=1 - two)
        root = (self.second.sqrt() / (1 - two**count) ** 0.5).add_(_EPSILON)
        self.flat.sub_((self.lr / (1 - one**count)) * (self.first / root))


class _Stack:
    """Networks of one shape and optimiser in training; finished ones leave the stack."""

    def __init__(self, x, x_valid, y_valid, specs: Sequence[TrainSpec], settings: TrainSettings):
        self.x, self.x_valid, self.y_valid, self.settings = x, x_valid, y_valid, settings
        nets = [initial_net(s.init_seed, x.shape[1], s.hidden) for s in specs]
        self.bundle = _Bundle(nets, [s.lr for s in specs], specs[0].optimiser)
        weights = np.stack([np.asarray(s.weights, dtype=np.float64) for s in specs])
        weights /= weights.sum(axis=1, keepdims=True)
        self.row_weight = torch.from_numpy(weights.astype(np.float32))
        self.target = torch.from_numpy(np.stack([s.targets for s in specs]).astype(np.float32))
        decay = torch.tensor([[s.weight_decay] for s in specs], dtype=torch.float32)
        self.decay = decay if bool((decay > 0).any()) else None
        self.alive = np.arange(len(specs))  # positions of the members still in the tensors
        self.best = self.bundle.flat.clone()
        self.best_loss = np.full(len(specs), np.inf)
        self.best_epoch = np.zeros(len(specs), dtype=int)
        self.epochs = np.zeros(len(specs), dtype=int)

    def run(self) -> list[Trained]:
        """Train until every member has stopped; return them in order."""
        bundle = self.bundle
        for epoch in range(1, self.settings.epochs + 1):
            grad = bundle.gradient(self.x, self.target, self.row_weight)
            if self.decay is not None:
                grad.addcmul_(self.decay, bundle.flat)
            bundle.update(grad, epoch)
            loss = self._validation_loss()
            own = self.alive
            self.epochs[own] = epoch
            better = loss < self.best_loss[own] - self.settings.min_delta
            if better.any():
                rows = np.flatnonzero(better)
                self.best[own[rows]] = bundle.flat[rows]
                self.best_loss[own[rows]] = loss[rows]
                self.best_epoch[own[rows]] = epoch
            going = epoch - self.best_epoch[own] < self.settings.patience
            if not going.any():
                break
            if not going.all():
                self._keep(going)
        return [
            Trained(
                bundle.like.with_flat(self.best[i].numpy().copy()),
                int(self.epochs[i]),
                int(self.best_epoch[i]),
                float(self.best_loss[i]),
            )
            for i in range(len(self.epochs))
        ]

    def _keep(self, going: np.ndarray) -> None:
        rows = torch.from_numpy(np.flatnonzero(going))
        for name in ("row_weight", "target", "decay"):
            if getattr(self, name) is not None:
                setattr(self, name, getattr(self, name)[rows].contiguous())
        for name in ("flat", "first", "second", "lr"):
            setattr(self.bundle, name, getattr(self.bundle, name)[rows].contiguous())
        self.alive = self.alive[going]

    def _validation_loss(self) -> np.ndarray:
        _, logits = self.bundle.forward(self.x_valid)
        loss = torch.nn.functional.softplus(logits) - logits * self.y_valid
        return loss.mean(dim=1).numpy().astype(np.float64)


def one_pass(
    net: Net, X: np.ndarray, y: np.ndarray, rows: np.ndarray, *, lr: float, batch: int
) -> np.ndarray:
    """Return how far copies of a network move in one pass of Adam over their own rows.

    Args:
        net: where every copy starts.
        X: rows [n, p].
        y: 0/1 labels [n].
        rows: int [M, u], the rows copy m sees, in order; the last batch may be smaller.
        lr: step size.
        batch: rows a step.

    Returns:
        largest absolute parameter change of each copy, float64 [M].
    """
    bundle = _Bundle([net] * len(rows), [lr] * len(rows))
    start = bundle.flat.clone()
    x = torch.from_numpy(np.ascontiguousarray(X[rows], dtype=np.float32))
    target = torch.from_numpy(np.ascontiguousarray(y[rows], dtype=np.float32))
    for count, place in enumerate(range(0, rows.shape[1], batch), start=1):
        part = slice(place, place + batch)
        size = target[:, part].shape[1]
        grad = bundle.gradient(x[:, part], target[:, part], torch.tensor(1.0 / size))
        bundle.update(grad, count)
    return (bundle.flat - start).abs().amax(dim=1).numpy().astype(np.float64)
