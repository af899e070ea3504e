"""Neural families in torch: ``mlp``, ``resmlp`` and ``fr_resmlp``.

Training runs on the device the caller names, prediction always on the CPU, so that a certificate
does not depend on where the model was trained. torch rounds a row differently in calls of
different heights and with different thread counts; both are fixed in prediction (`BLOCK_ROWS` rows,
one thread). Trained weights can differ in the last bits between thread counts, devices and
machines; equal settings on one machine give equal bytes.
"""

import logging
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import nn
from torch.nn import functional

from cfc.errors import ModelError
from cfc.models.base import Model, Param, TrainingData, expect
from cfc.seeding import generator

log = logging.getLogger(__name__)
# Rows of one forward pass in prediction; the last block is filled up with zeros.
BLOCK_ROWS = 256
_EVALUATION_ROWS = 8192  # rows of one forward pass when the validation loss is taken
_EPSILON = 1e-8  # paper, eq. 8

_TRAINING = {
    "learning_rate": Param(1e-3, "step size of AdamW", low=1e-8, high=1.0),
    "weight_decay": Param(1e-2, "decoupled weight decay of AdamW", low=0.0),
    "dropout": Param(0.1, "share of hidden units dropped in training", low=0.0, high=0.95),
    "max_epochs": Param(100, "most passes over the training rows", low=1),
    "max_row_passes": Param(
        10_000_000, "most rows seen in training, all epochs together; shortens large sets", low=1
    ),
    "patience": Param(10, "epochs without a better validation loss before a stop", low=1),
    "rows_per_batch": Param(
        128, "training rows for each row of a batch; the batch is the nearest power of two", low=1
    ),
    "min_batch": Param(64, "smallest batch", low=1),
    "max_batch": Param(2048, "largest batch", low=1),
}


class MLP(nn.Module):
    """Plain network: linear layers with ReLU and dropout.

    Maps float32 [n, d] to logits [n, C].
    """

    def __init__(self, n_features: int, n_classes: int, params: dict[str, Any]):
        super().__init__()
        width = params["width"]
        sizes = [n_features] + [width] * params["n_layers"]
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.head = nn.Linear(width, n_classes)
        self.dropout = nn.Dropout(params["dropout"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits [n, C]."""
        for layer in self.hidden:
            x = self.dropout(torch.relu(layer(x)))
        return self.head(x)


class ResidualBlock(nn.Module):
    """Layer norm, widen, ReLU, dropout, narrow, dropout; the result is added to the input."""

    def __init__(self, width: int, hidden: int, dropout: float):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x plus the block's change [n, width]."""
        change = self.dropout(torch.relu(self.widen(self.norm(x))))
        return x + self.dropout(self.narrow(change))


class ResMLP(nn.Module):
    """Residual network with layer norm, dropout and skip connections (paper, section 3.3).

    Maps float32 [n, d] to logits [n, C].
    """

    def __init__(self, n_features: int, n_classes: int, params: dict[str, Any]):
        super().__init__()
        width = params["width"]
        self.stem = nn.Linear(n_features, width)
        self.blocks = nn.ModuleList(
            ResidualBlock(width, params["hidden"], params["dropout"])
            for _ in range(params["n_blocks"])
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits [n, C]."""
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(torch.relu(self.norm(x)))


class _NeuralModel(Model):
    """Training loop, prediction and files shared by the networks."""

    is_neural = True
    predictor_dtype = "float32"
    model_file = "model.safetensors"
    library = "torch"
    network_class: type[nn.Module]
    # Families that are compared as twins name one stream: same first weights, same batches.
    stream: str

    def __init__(self, network: nn.Module, **base: Any):
        super().__init__(**base)
        self.network = network.cpu().eval()
        self.network.requires_grad_(False)

    @classmethod
    def _fit(
        cls, data: TrainingData, params: dict[str, Any], *, seed: int, threads: int, device: str
    ) -> Self:
        target = _usable_device(device)
        streams = generator(seed, f"model/{cls.stream}").integers(2**63 - 1, size=3)
        with _deterministic_torch(threads, target):
            torch.manual_seed(int(streams[0]))
            network = cls.network_class(data.X_train.shape[1], data.n_classes, params).to(target)
            torch.manual_seed(int(streams[1]))  # dropout
            training = _Training(cls, network, data, params, target, batch_seed=int(streams[2]))
            training.run()
        model = cls(
            network,
            n_classes=data.n_classes,
            n_features=data.X_train.shape[1],
            params=params,
            facts=training.facts(),
            history=training.history,
        )
        model.timings["epoch_seconds"] = training.epoch_seconds
        return model

    @classmethod
    def batch_loss(
        cls,
        network: nn.Module,
        x: torch.Tensor,
        y: torch.Tensor,
        params: dict[str, Any],
        degrade: "Degradation",
    ) -> torch.Tensor:
        """Return the loss of one batch: the mean cross-entropy."""
        return functional.cross_entropy(network(x), y)

    def _predict_proba(self, X: np.ndarray) -> np.ndarray:
        n = len(X)
        out = np.empty((n, self.n_classes), dtype=np.float32)
        block = np.zeros((BLOCK_ROWS, self.n_features), dtype=np.float32)
        with _torch_threads(1), torch.inference_mode():
            for start in range(0, n, BLOCK_ROWS):
                rows = X[start : start + BLOCK_ROWS]
                # The copy keeps memory alignment, and with it the kernels, the same everywhere.
                block[: len(rows)] = rows
                p = torch.softmax(self.network(torch.from_numpy(block)), dim=1)
                out[start : start + len(rows)] = p.numpy()[: len(rows)]
        return out

    def _to_bytes(self) -> bytes:
        return save_tensors({k: v.contiguous() for k, v in self.network.state_dict().items()})

    @classmethod
    def _from_bytes(cls, content: bytes, base: dict[str, Any]) -> Self:
        with torch.random.fork_rng(devices=[]):
            network = cls.network_class(base["n_features"], base["n_classes"], base["params"])
        tensors = load_tensors(content)
        wanted = {k: (v.shape, v.dtype) for k, v in network.state_dict().items()}
        expect(
            {k: (v.shape, v.dtype) for k, v in tensors.items()} == wanted,
            "the weights do not have the names, shapes or types of the described network",
        )
        network.load_state_dict(tensors)
        return cls(network, **base)


class MLPModel(_NeuralModel):
    """Multilayer perceptron, AdamW, stopped early on validation log-loss."""

    family = "mlp"
    stream = "mlp"
    network_class = MLP
    PARAMS: ClassVar[dict[str, Param]] = {
        "n_layers": Param(3, "hidden layers", low=1),
        "width": Param(256, "units of a hidden layer", low=1),
    } | _TRAINING


class ResMLPModel(_NeuralModel):
    """Residual MLP, AdamW, stopped early on validation log-loss."""

    family = "resmlp"
    stream = "resmlp"
    network_class = ResMLP
    PARAMS: ClassVar[dict[str, Param]] = {
        "n_blocks": Param(3, "residual blocks", low=1),
        "width": Param(128, "units carried along the skip connections", low=1),
        "hidden": Param(256, "units inside a block", low=1),
    } | _TRAINING


class FragilityRegularisedResMLPModel(ResMLPModel):
    """ResMLP trained to keep its support under mild evidence loss (paper, section 3.3).

    Same network, first weights, batches, budget and early stopping (on plain validation log-loss)
    as ``resmlp``; only the loss differs:

        CE(x, y) + alpha (KL(p‖p̃) + KL(p̃‖p)) + beta mean max(0, (m(x) − m(x̃)) / (|m(x)| + 1e-8))

    where x̃ is x with a few random groups moved part of the way to the baseline. The paper's
    eq. 11 prints beta inside the bracket of alpha; read that way the margin term would weigh
    alpha·beta = 0.05 instead of 0.1. The project's protocol takes the three terms side by side.
    """

    family = "fr_resmlp"
    PARAMS: ClassVar[dict[str, Param]] = ResMLPModel.PARAMS | {
        "alpha": Param(0.5, "weight of the symmetric Kullback-Leibler term", low=0.0),
        "beta": Param(0.1, "weight of the margin term", low=0.0),
        "min_groups": Param(1, "fewest groups degraded in a row", low=1),
        "max_groups": Param(3, "most groups degraded in a row", low=1),
        "min_severity": Param(0.1, "least share of the way to the baseline", low=0.0, high=1.0),
        "max_severity": Param(0.5, "largest share of the way to the baseline", low=0.0, high=1.0),
    }

    @classmethod
    def batch_loss(
        cls,
        network: nn.Module,
        x: torch.Tensor,
        y: torch.Tensor,
        params: dict[str, Any],
        degrade: "Degradation",
    ) -> torch.Tensor:
        """Return the loss of one batch with both regularising terms."""
        # One pass over both states: half the calls, and each state has its own dropout.
        logits = network(torch.cat([x, degrade(x)]))
        return fragility_loss(
            logits[: len(x)], logits[len(x) :], y, alpha=params["alpha"], beta=params["beta"]
        )


def fragility_loss(
    logits: torch.Tensor,
    degraded_logits: torch.Tensor,
    y: torch.Tensor,
    *,
    alpha: float,
    beta: float,
) -> torch.Tensor:
    """Return the training loss of FR-ResMLP (paper, eq. 11, terms side by side).

    Args:
        logits: [n, C] of the rows as they are.
        degraded_logits: [n, C] of the degraded rows.
        y: int64 [n], class codes.
        alpha: weight of KL(p‖p̃) + KL(p̃‖p), mean over rows.
        beta: weight of the mean normalised margin loss. The margin is that of the class predicted
            for the row as it is; the denominator is a constant for the gradient.

    Returns:
        a scalar.
    """
    log_p = functional.log_softmax(logits, dim=1)
    log_q = functional.log_softmax(degraded_logits, dim=1)
    nominal = functional.nll_loss(log_p, y)
    divergence = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(dim=1).mean()
    label = logits.detach().argmax(dim=1)
    margin = _margin(log_p, label)
    collapse = (margin - _margin(log_q, label)) / (margin.detach().abs() + _EPSILON)
    return nominal + alpha * divergence + beta * torch.relu(collapse).mean()


def _margin(log_p: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    # The index kernels without a deterministic backward on a GPU are avoided: masks only.
    own = functional.one_hot(label, log_p.shape[1]).bool()
    best_other = log_p.masked_fill(own, -math.inf).max(dim=1).values
    return log_p.masked_fill(~own, 0.0).sum(dim=1) - best_other


class Degradation:
    """Moves a few random groups of every row part of the way to the baseline.

    Draws come from NumPy on the CPU, so they are the same on every device.
    """

    def __init__(self, data: TrainingData, params: dict[str, Any], device: torch.device, seed: int):
        self._random = np.random.default_rng(seed)
        self._params = params
        self._n_groups = len(data.groups)
        membership = np.zeros((self._n_groups, data.X_train.shape[1]), dtype=np.float32)
        for g, columns in enumerate(data.groups):
            membership[g, columns] = 1.0
        self._membership = torch.from_numpy(membership).to(device)
        self._baseline = torch.from_numpy(np.asarray(data.baseline, np.float32)).to(device)
        self._device = device

    def severities(self, n: int) -> np.ndarray:
        """Return the share of the way to the baseline, float32 [n, G]; 0 where untouched."""
        low = min(self._params["min_groups"], self._n_groups)
        high = min(self._params["max_groups"], self._n_groups)
        counts = self._random.integers(low, high + 1, size=n)
        ranks = self._random.random((n, self._n_groups)).argsort(axis=1).argsort(axis=1)
        size = self._random.uniform(
            self._params["min_severity"], self._params["max_severity"], size=(n, 1)
        )
        return np.where(ranks < counts[:, None], size, 0.0).astype(np.float32)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return degraded copies of rows x [n, d]."""
        severity = torch.from_numpy(self.severities(len(x))).to(self._device)
        return torch.lerp(x, self._baseline.expand_as(x), severity @ self._membership)


class _Training:
    """One run of gradient steps with early stopping on the validation log-loss."""

    def __init__(
        self,
        family: type[_NeuralModel],
        network: nn.Module,
        data: TrainingData,
        params: dict[str, Any],
        device: torch.device,
        *,
        batch_seed: int,
    ):
        self.family = family
        self.network = network
        self.params = params
        self.device = device
        self.x, self.y = self._tensors(data.X_train, data.y_train)
        self.x_valid, self.y_valid = self._tensors(data.X_valid, data.y_valid)
        n = len(self.y)
        self.batch = batch_size(n, params)
        self.epochs = max(1, min(params["max_epochs"], params["max_row_passes"] // n))
        self.order = np.random.default_rng(batch_seed)
        self.degrade: Any = None
        if "alpha" in params:
            _check_degradation(params, data)
            self.degrade = Degradation(data, params, device, batch_seed + 1)
        self.optimiser = torch.optim.AdamW(
            network.parameters(),
            lr=params["learning_rate"],
            weight_decay=params["weight_decay"],
        )
        self.history: list[dict[str, Any]] = []
        self.epoch_seconds: list[float] = []
        self.best_epoch = -1

    def _tensors(self, x: np.ndarray, y: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.from_numpy(np.array(x, dtype=np.float32, order="C"))
        codes = torch.from_numpy(np.array(y, dtype=np.int64))
        return rows.to(self.device), codes.to(self.device)

    def run(self) -> None:
        """Train, and leave the weights of the best epoch in the network."""
        log.info(
            "%s: %d rows, batch %d, at most %d epochs, %d parameters, device %s",
            self.family.family,
            len(self.y),
            self.batch,
            self.epochs,
            sum(p.numel() for p in self.network.parameters()),
            self.device,
        )
        best_loss, best_weights = math.inf, None
        for epoch in range(self.epochs):
            start = time.perf_counter()
            train_loss = self._epoch()
            valid_nll = self._valid_nll()
            seconds = time.perf_counter() - start
            if not math.isfinite(train_loss) or not math.isfinite(valid_nll):
                raise ModelError(
                    f"{self.family.family}: the loss is no longer finite in epoch {epoch + 1}; "
                    "lower learning_rate"
                )
            self.history.append({"epoch": epoch, "train_loss": train_loss, "valid_nll": valid_nll})
            self.epoch_seconds.append(seconds)
            log.info(
                "%s: epoch %d/%d, train loss %.5f, valid NLL %.5f, %.1f s",
                self.family.family,
                epoch + 1,
                self.epochs,
                train_loss,
                valid_nll,
                seconds,
            )
            if valid_nll < best_loss:
                best_loss, self.best_epoch = valid_nll, epoch
                best_weights = {k: v.detach().clone() for k, v in self.network.state_dict().items()}
            elif epoch - self.best_epoch >= self.params["patience"]:
                break
        self.network.load_state_dict(best_weights)

    def _epoch(self) -> float:
        self.network.train()
        order = torch.from_numpy(self.order.permutation(len(self.y))).to(self.device)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for start in range(0, len(order), self.batch):
            rows = order[start : start + self.batch]
            self.optimiser.zero_grad(set_to_none=True)
            loss = self.family.batch_loss(
                self.network, self.x[rows], self.y[rows], self.params, self.degrade
            )
            loss.backward()
            self.optimiser.step()
            total += loss.detach().double() * len(rows)
        return float(total) / len(order)

    def _valid_nll(self) -> float:
        self.network.eval()
        total = 0.0
        with torch.no_grad():
            for start in range(0, len(self.y_valid), _EVALUATION_ROWS):
                part = slice(start, start + _EVALUATION_ROWS)
                total += float(
                    functional.cross_entropy(
                        self.network(self.x_valid[part]), self.y_valid[part], reduction="sum"
                    )
                )
        return total / len(self.y_valid)

    def facts(self) -> dict[str, Any]:
        """Return what the run found."""
        return {
            "best_iteration": self.best_epoch,
            "n_iterations": len(self.history),
            "max_iterations": self.epochs,
            "batch_size": self.batch,
            "n_parameters": sum(p.numel() for p in self.network.parameters()),
            "valid_nll": self.history[self.best_epoch]["valid_nll"],
            "device": self.device.type,
        }


def batch_size(n_rows: int, params: dict[str, Any]) -> int:
    """Return the training batch: the power of two nearest n_rows / rows_per_batch, bounded."""
    wanted = 2 ** round(math.log2(max(1.0, n_rows / params["rows_per_batch"])))
    return int(min(max(wanted, params["min_batch"]), params["max_batch"], n_rows))


def _check_degradation(params: dict[str, Any], data: TrainingData) -> None:
    if not data.groups:
        raise ModelError("fr_resmlp needs the groups of the coordinates; none were given")
    for what in ("groups", "severity"):
        if params[f"min_{what}"] > params[f"max_{what}"]:
            raise ModelError(f"fr_resmlp: min_{what} is above max_{what}")


def _usable_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(
            f"device {name!r} cannot be used: {str(error).splitlines()[0]}; use 'cpu'"
        ) from error
    return device


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if before == threads:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _deterministic_torch(threads: int, device: torch.device) -> Iterator[None]:
    """Fix threads and kernels and keep the caller's random state untouched."""
    if device.type == "cuda":
        # cuBLAS is reproducible only with a workspace of fixed size, read when it starts.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    was_strict = torch.are_deterministic_algorithms_enabled()
    devices = [device] if device.type == "cuda" else []
    with _torch_threads(threads), torch.random.fork_rng(devices=devices):
        torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(was_strict)
