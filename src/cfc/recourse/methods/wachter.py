"""Gradient search after Wachter et al., with the published loss and stopping rule."""

from typing import ClassVar

import numpy as np

from cfc.recourse.methods.base import Method, Param
from cfc.recourse.nets import sigmoid

_BETAS, _EPSILON = (0.9, 0.999), 1e-8


class Wachter(Method):
    """Minimises p·BCE(f(z), 1) + λ‖z − x‖₁ from the request until f(z) reaches 0.501.

    p is the number of features: the public implementation adds the scalar loss to a vector of p
    absolute differences before it sums, and the published numbers come out only that way. Steps
    are Adam's with the maximum of past second moments (AMSGrad). The probability is taken before a
    step, so a candidate lies one step past the crossing; a request that never crosses returns its
    last point, usually still refused.
    """

    name, title = "wachter", "Wachter"
    is_batched = True
    PARAMS: ClassVar[dict[str, Param]] = {
        "lam": Param(1.0, "weight λ of the distance", low=0.0),
        "lr": Param(0.01, "step size", low=1e-6),
        "target": Param(0.501, "probability that ends the search", low=0.5, high=1.0),
        "max_steps": Param(3000, "most steps of a request", low=1),
    }
    GRID: ClassVar[dict[str, tuple]] = {"lam": (0.01, 0.1, 1.0), "lr": (0.01, 0.02)}

    def generate(self, X: np.ndarray, row_ids: np.ndarray) -> np.ndarray:
        """Return the point of each request one step after its probability reached the target."""
        # the sign of z − x turns on the last digit where a coordinate comes back to its start
        net, start = self.problem.net, X.astype(np.float64)
        p, lam = X.shape[1], self.params["lam"]
        z, out = start.copy(), start.copy()
        steps = Adam(self.params["lr"], amsgrad=True)
        going = np.arange(len(z))
        for _ in range(self.params["max_steps"]):
            if not len(going):
                break
            logit, slope = net.gradient(z)
            proba = sigmoid(logit)
            grad = -p * (1 - proba)[:, None] * slope + lam * np.sign(z - start[going])
            z = steps.step(z, grad)
            out[going] = z
            rest = ~(proba >= self.params["target"])
            if not rest.all():
                z, going = z[rest], going[rest]
                steps.keep(rest)
        return out


class Adam:
    """Adam on an array [n, ...] whose rows are independent problems and may leave early.

    Args:
        lr: step size.
        amsgrad: divide by the largest second moment so far.
    """

    def __init__(self, lr: float, *, amsgrad: bool = False):
        self.lr, self.amsgrad, self.count = lr, amsgrad, 0
        self.first = self.second = self.most = None

    def step(self, z: np.ndarray, grad: np.ndarray) -> np.ndarray:
        """Return z after one step, in its dtype."""
        one, two = _BETAS
        if self.first is None:
            self.first, self.second, self.most = (np.zeros_like(z) for _ in range(3))
        self.count += 1
        self.first += (grad - self.first) * z.dtype.type(1 - one)
        self.second *= z.dtype.type(two)
        self.second += grad * grad * z.dtype.type(1 - two)
        second = self.second
        if self.amsgrad:
            np.maximum(self.most, self.second, out=self.most)
            second = self.most
        root = np.sqrt(second) / z.dtype.type((1 - two**self.count) ** 0.5)
        root += z.dtype.type(_EPSILON)
        return z - z.dtype.type(self.lr / (1 - one**self.count)) * (self.first / root)

    def keep(self, rows: np.ndarray) -> None:
        """Keep only these rows (bool [n]) of the state."""
        self.first, self.second, self.most = (a[rows] for a in (self.first, self.second, self.most))
