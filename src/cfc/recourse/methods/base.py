"""What a recourse method is: one base model in, one candidate for each request out.

A method of one's own is a subclass of `Method` in a file, named in the configuration by
``recourse.own_methods: {name: path/to/file.py:ClassName}``. It sees a `Problem` (the base network,
the data, random streams) and no changed model: those are trained by other jobs.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from cfc.models.base import Param, checked_params
from cfc.recourse.data import RecourseData
from cfc.recourse.nets import Net, Stack
from cfc.recourse.seeds import SeedPlan

__all__ = ["Answer", "Method", "Param", "Problem", "nearest_rows"]


@dataclass
class Problem:
    """Everything a method may look at for one base model.

    Attributes:
        data: the data set; methods use train and update rows, tuning uses validation rows.
        base: number of the base model.
        net: the base network; ``net.logits(X) >= 0`` means favourable.
        seeds: where random streams come from.
        ensemble: networks for methods that vote (`Method.needs_ensemble`), else None.
        mutable: bool [p], features a method may change; the benchmark lets all change, and only
            methods that say so look at it.
        cache: what instances with other parameters on the same problem can share.
    """

    data: RecourseData
    base: int
    net: Net
    seeds: SeedPlan
    ensemble: Stack | None = None
    mutable: np.ndarray | None = None
    cache: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self):
        if self.mutable is None:
            self.mutable = np.ones(self.data.n_features, dtype=bool)

    @property
    def X_train(self) -> np.ndarray:
        """Training rows, float32 [n, p]."""
        return self.data.X["train"]

    @property
    def favourable(self) -> np.ndarray:
        """Training rows the base network accepts (whatever their label), float32 [k, p]."""
        if "favourable" not in self.cache:
            self.cache["favourable"] = self.X_train[self.net.accepts(self.X_train)]
        return self.cache["favourable"]

    def rng(self, purpose: str = "method", row_id: int = 0, stream: int = 0):
        """Return the random generator of a request, the same in any order and batch.

        Args:
            purpose: ``method``, or a name of one's own.
            row_id: the request's row id; 0 for draws a base model makes once.
            stream: tells several generators of one request apart.
        """
        return self.seeds.rng(purpose, self.base, level_index=stream, replicate=int(row_id))


@dataclass
class Answer:
    """Candidates of n requests.

    Attributes:
        points: float [n, p]; a row of NaN says the method has no candidate.
        remarks: one mapping a request of JSON values worth keeping, such as a certificate;
            ``{"status": "timeout"}`` with a NaN row says that a budget was used up.
    """

    points: np.ndarray
    remarks: list[dict[str, Any]] | None = None


class Method(ABC):
    """A recourse method bound to one base model and one setting of its parameters.

    Attributes:
        name: key in tables and configuration.
        title: printed name.
        PARAMS: parameters and their defaults.
        GRID: parameter -> values tried on validation rows of the first base model; the winner is
            used for all base models.
        is_batched: `generate` takes all requests at once for speed; its answers must not depend on
            which requests come together.
        needs_ensemble: the problem must bring BetaRCE's voters.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    PARAMS: ClassVar[dict[str, Param]] = {}
    GRID: ClassVar[dict[str, tuple]] = {}
    is_batched: ClassVar[bool] = False
    needs_ensemble: ClassVar[bool] = False

    def __init__(self, problem: Problem, params: Mapping[str, Any] | None = None):
        self.problem = problem
        self.params = checked_params(f"method {self.name}", self.PARAMS, params or {})
        self.prepare()

    def prepare(self) -> None:  # noqa: B027
        """Do the work a base model needs once (radius, threshold, certified rows)."""

    @abstractmethod
    def generate(self, X: np.ndarray, row_ids: np.ndarray) -> np.ndarray | Answer:
        """Return one candidate for each request.

        Args:
            X: float32 [n, p], rows the base network refuses; n is 1 unless `is_batched`.
            row_ids: int64 [n], stable numbers for `Problem.rng`.

        Returns:
            float [n, p] in the standardised space, NaN rows where there is no candidate, or an
            `Answer`. Whether a candidate is accepted is checked by the caller.
        """

    def facts(self) -> dict[str, float]:
        """Return numbers of this base model worth a row in the tables."""
        return {}


def nearest_rows(x: np.ndarray, rows: np.ndarray, order: int = 2) -> np.ndarray:
    """Return positions of rows [n, p] by their L1 or L2 distance to x [p], ties by position."""
    difference = np.abs(rows.astype(np.float64) - x.astype(np.float64))
    distance = difference.sum(axis=1) if order == 1 else (difference**2).sum(axis=1)
    return np.argsort(distance, kind="stable")


def no_candidate(n: int, p: int) -> np.ndarray:
    """Return n rows that say there is no candidate."""
    return np.full((n, p), np.nan)
