"""The small networks of the benchmark in NumPy: forward pass, gradient, files without pickle.

A network is ReLU layers and one logit; probability = sigmoid, favourable where the logit is at
least 0. Training is in `cfc.recourse.training`; nothing here needs torch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cfc.artifacts import atomic_path
from cfc.errors import ArtifactError, ModelError

BLOCK_BYTES = 32 << 20


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1/(1 + exp(−x)) in the dtype of x, without overflow."""
    from scipy.special import expit

    return expit(x)


def softplus(x: np.ndarray) -> np.ndarray:
    """Return ln(1 + exp(x)) in the dtype of x, without overflow."""
    return np.logaddexp(np.zeros((), dtype=x.dtype), x)


@dataclass(frozen=True)
class Net:
    """One network.

    Attributes:
        weights: float32 [out, in] of each layer; the last has out = 1.
        biases: float32 [out] of each layer.

    Raises:
        ModelError: layers do not fit together, or a number is not finite.
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]

    def __post_init__(self):
        for name in ("weights", "biases"):
            arrays = tuple(np.ascontiguousarray(a, dtype=np.float32) for a in getattr(self, name))
            object.__setattr__(self, name, arrays)
        shapes = [w.shape for w in self.weights]
        fits = len(self.weights) == len(self.biases) and shapes and shapes[-1][0] == 1
        fits = fits and all(
            w.ndim == 2 and b.shape == (w.shape[0],)
            for w, b in zip(self.weights, self.biases, strict=True)
        )
        fits = fits and all(a[0] == b[1] for a, b in pairwise(shapes))
        if not fits:
            raise ModelError(f"layers of shapes {shapes} do not make a network with one logit")
        if not all(np.isfinite(a).all() for a in (*self.weights, *self.biases)):
            raise ModelError("a network holds NaN or infinite weights; its training diverged")

    @property
    def hidden(self) -> tuple[int, ...]:
        """Sizes of the hidden layers."""
        return tuple(len(b) for b in self.biases[:-1])

    @property
    def n_features(self) -> int:
        """Number p of inputs."""
        return self.weights[0].shape[1]

    def logits(self, X: np.ndarray) -> np.ndarray:
        """Return the logits [n] of rows [n, p] in float32."""
        h = np.asarray(X, dtype=np.float32)
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = np.maximum(h @ w.T + b, 0)
        return h @ self.weights[-1][0] + self.biases[-1][0]

    def proba(self, X: np.ndarray) -> np.ndarray:
        """Return the probability of the favourable class [n] of rows [n, p] in float32."""
        return sigmoid(self.logits(X))

    def accepts(self, X: np.ndarray) -> np.ndarray:
        """Return whether rows [n, p] are favourable, bool [n]."""
        return self.logits(X) >= 0

    def gradient(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the logits [n] and their gradients [n, p] at rows [n, p].

        Computed in float64 when X is, else in float32. At a kink the unit counts as off, as in
        torch. A row's numbers do not depend on the rows beside it, to the last bit.
        """
        X = np.asarray(X)
        kind = np.float64 if X.dtype == np.float64 else np.float32
        weights = [w.astype(kind, copy=False) for w in self.weights]
        h, on = X.astype(kind, copy=False), []
        # einsum, not a matrix product: that rounds a row differently in batches of other heights
        for w, b in zip(weights[:-1], self.biases[:-1], strict=True):
            u = np.einsum("ni,oi->no", h, w) + b
            on.append(u > 0)
            h = np.maximum(u, 0)
        logit = np.einsum("ni,i->n", h, weights[-1][0]) + self.biases[-1][0]
        g = np.broadcast_to(weights[-1], (len(h), h.shape[1]))
        for w, active in zip(reversed(weights[:-1]), reversed(on), strict=True):
            g = np.einsum("no,oi->ni", g * active, w)
        return logit, g

    def doubles(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return weights and biases as float64, for linear programs."""
        return [w.astype(np.float64) for w in self.weights], [
            b.astype(np.float64) for b in self.biases
        ]

    def flat(self) -> np.ndarray:
        """Return every parameter, float32 [m], in the order W1, b1, W2, b2, ..."""
        pairs = zip(self.weights, self.biases, strict=True)
        return np.concatenate([a.ravel() for pair in pairs for a in pair])

    def with_flat(self, values: np.ndarray) -> "Net":
        """Return a network of the same shape with other parameters, in the order of `flat`."""
        weights, biases, start = [], [], 0
        for w, b in zip(self.weights, self.biases, strict=True):
            weights.append(values[start : start + w.size].reshape(w.shape))
            start += w.size
            biases.append(values[start : start + b.size])
            start += b.size
        if start != len(values):
            raise ModelError(f"{len(values)} parameters given for a network of {start}")
        return Net(tuple(weights), tuple(biases))


class Stack:
    """Networks of one shape, asked together.

    Args:
        nets: at least one, all of the same layer sizes.
    """

    def __init__(self, nets: Sequence[Net]):
        if len({(n.n_features, n.hidden) for n in nets}) != 1:
            raise ModelError("a stack takes one or more networks of one shape")
        self.weights = [np.stack(layer) for layer in zip(*(n.weights for n in nets), strict=True)]
        self.biases = [np.stack(layer) for layer in zip(*(n.biases for n in nets), strict=True)]

    def __len__(self) -> int:
        return len(self.biases[0])

    def logits(self, X: np.ndarray, members: slice | np.ndarray = slice(None)) -> np.ndarray:
        """Return the logits [M, n] of rows [n, p] under the chosen members, float32."""
        h = np.asarray(X, dtype=np.float32)
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = np.matmul(h, w[members].transpose(0, 2, 1))
            h += b[members][:, None, :]
            np.maximum(h, 0, out=h)
        out = np.matmul(h, self.weights[-1][members].transpose(0, 2, 1))
        return out[..., 0] + self.biases[-1][members]


def group_by_shape(nets: Sequence[Net]) -> list[list[int]]:
    """Return positions of the networks, one list for each layer shape, in order of appearance."""
    groups: dict[tuple, list[int]] = {}
    for i, net in enumerate(nets):
        groups.setdefault((net.n_features, net.hidden), []).append(i)
    return list(groups.values())


def logits_of(nets: Sequence[Net], X: np.ndarray) -> np.ndarray:
    """Return the logits [M, n] of rows [n, p] under any networks, float32, in bounded memory."""
    X = np.asarray(X, dtype=np.float32)
    out = np.empty((len(nets), len(X)), dtype=np.float32)
    for places in group_by_shape(nets):
        stack = Stack([nets[i] for i in places])
        widest = max(nets[places[0]].hidden, default=1)
        step = max(1, BLOCK_BYTES // (4 * widest * len(places)))
        for start in range(0, len(X), step):
            out[places, start : start + step] = stack.logits(X[start : start + step])
    return out


def save_nets(nets: Mapping[str, Net], path: str | Path) -> None:
    """Write networks by name to one safetensors file, atomically and byte-reproducibly."""
    from safetensors.numpy import save

    tensors = {}
    for name, net in nets.items():
        for layer, (w, b) in enumerate(zip(net.weights, net.biases, strict=True)):
            tensors[f"{name}/{layer}/weight"] = w
            tensors[f"{name}/{layer}/bias"] = b
    content = save(tensors)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def load_nets(path: str | Path) -> dict[str, Net]:
    """Read networks that `save_nets` wrote, by name, in the order of their names.

    Raises:
        ArtifactError: the file is missing, damaged or does not hold networks.
    """
    from safetensors.numpy import load

    try:
        tensors = load(Path(path).read_bytes())
        names = sorted({key.rsplit("/", 2)[0] for key in tensors})
        return {name: _net_of(tensors, name) for name in names}
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} does not exist") from error
    except Exception as error:
        # the library raises a type of its own; the user needs the file's name
        raise ArtifactError(
            f"{path} cannot be read as networks ({error}); delete it and rerun the stage"
        ) from error


def _net_of(tensors: Mapping[str, Any], name: str) -> Net:
    layers = range(sum(key.startswith(f"{name}/") for key in tensors) // 2)
    return Net(
        tuple(tensors[f"{name}/{k}/weight"] for k in layers),
        tuple(tensors[f"{name}/{k}/bias"] for k in layers),
    )


def shapes_of(n_features: int, hidden: Iterable[int]) -> list[tuple[int, int]]:
    """Return (out, in) of every layer of a network with one logit."""
    sizes = [n_features, *hidden, 1]
    return [(b, a) for a, b in pairwise(sizes)]
