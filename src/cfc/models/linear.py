"""Logistic regression: the linear family, ``lr``."""

import logging
import warnings
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import ThreadpoolController

from cfc.models.base import Model, Param, TrainingData, column_order, expect
from cfc.models.sklearn_files import dumps, loads

log = logging.getLogger(__name__)
# BLAS rounds a row's sums differently in calls of different heights. Every product is therefore
# taken over this many rows, the last block filled up with zeros.
BLOCK_ROWS = 256


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


class LogisticRegressionModel(Model):
    """Multinomial logistic regression with an L2 penalty, fitted by L-BFGS in float64.

    Fitting and prediction use one BLAS thread whatever is asked for, because sums split over
    threads round differently. For two classes the penalty acts on one weight vector.
    """

    family = "lr"
    predictor_dtype = "float64"
    model_file = "model.skops"
    magic = b"PK"
    library = "scikit-learn"
    PARAMS: ClassVar[dict[str, Param]] = {
        "C": Param(1.0, "inverse strength of the L2 penalty", low=1e-12),
        "max_iter": Param(1000, "most L-BFGS iterations", low=1),
        "tol": Param(1e-4, "stop when the largest gradient component is below this", low=0.0),
    }

    def __init__(self, estimator: LogisticRegression, **base: Any):
        super().__init__(**base)
        self.estimator = estimator
        order = column_order(estimator.classes_, self.n_classes)
        coef, intercept = estimator.coef_, estimator.intercept_
        if self.n_classes > 2:
            coef, intercept = coef[order], intercept[order]
        self._weights = np.ascontiguousarray(coef.T, dtype=np.float64)
        self._intercept = np.asarray(intercept, dtype=np.float64)

    @classmethod
    def _fit(
        cls, data: TrainingData, params: dict[str, Any], *, seed: int, threads: int, device: str
    ) -> Self:
        estimator = LogisticRegression(
            C=params["C"], max_iter=params["max_iter"], tol=params["tol"], solver="lbfgs"
        )
        with _thread_pools().limit(limits=1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # reported below, with what to do
            estimator.fit(data.X_train.astype(np.float64), data.y_train)
        n_iter = int(np.max(estimator.n_iter_))
        converged = n_iter < params["max_iter"]
        if not converged:
            log.warning(
                "lr stopped after max_iter=%d iterations without converging; raise max_iter",
                params["max_iter"],
            )
        return cls(
            estimator,
            n_classes=data.n_classes,
            n_features=data.X_train.shape[1],
            params=params,
            facts={"n_iter": n_iter, "is_converged": converged, "device": "cpu"},
        )

    def _predict_proba(self, X: np.ndarray) -> np.ndarray:
        n = len(X)
        out = np.empty((n, self.n_classes))
        block = np.zeros((BLOCK_ROWS, self.n_features))
        with _thread_pools().limit(limits=1, user_api="blas"):
            for start in range(0, n, BLOCK_ROWS):
                rows = X[start : start + BLOCK_ROWS]
                block[: len(rows)] = rows
                out[start : start + len(rows)] = self._block_proba(block)[: len(rows)]
        return out

    def _block_proba(self, block: np.ndarray) -> np.ndarray:
        z = block @ self._weights
        z += self._intercept
        if self.n_classes == 2:
            p = np.empty((len(block), 2))
            # The smaller of the two is computed, not the difference to one, so that a
            # probability far below the rounding of 1 keeps its digits.
            e = np.exp(-np.abs(z[:, 0]))
            small, large = e / (1.0 + e), 1.0 / (1.0 + e)
            is_one = z[:, 0] >= 0
            p[:, 1] = np.where(is_one, large, small)
            p[:, 0] = np.where(is_one, small, large)
            return p
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=1, keepdims=True)
        return z

    def _to_bytes(self) -> bytes:
        return dumps(self.estimator)

    @classmethod
    def _from_bytes(cls, content: bytes, base: dict[str, Any]) -> Self:
        estimator = loads(content, expected=LogisticRegression, trusted=[])
        rows = 1 if base["n_classes"] == 2 else base["n_classes"]
        expect(
            np.shape(estimator.coef_) == (rows, base["n_features"])
            and np.shape(estimator.intercept_) == (rows,),
            "the weights do not have the described shape",
        )
        return cls(estimator, **base)
