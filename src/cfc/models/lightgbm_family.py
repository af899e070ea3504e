"""LightGBM: ``lightgbm``."""

import re
from typing import Any, ClassVar, Self

import lightgbm
import numpy as np

from cfc.models.base import Model, Param, TrainingData, expect, two_columns


class LightGBMModel(Model):
    """Gradient-boosted trees of LightGBM, stopped early on validation log-loss.

    Only the trees up to the best iteration are kept. The model is always used as read back from
    its text, so the saved and the fitted model are one.
    """

    family = "lightgbm"
    predictor_dtype = "float64"
    model_file = "model.txt"
    magic = b"tree\n"
    library = "lightgbm"
    PARAMS: ClassVar[dict[str, Param]] = {
        "n_estimators": Param(300, "most boosting rounds", low=1),
        "early_stopping_rounds": Param(30, "rounds without improvement before a stop", low=1),
        "learning_rate": Param(0.1, "shrinkage of every tree", low=1e-6, high=1.0),
        "num_leaves": Param(31, "most leaves of a tree", low=2, high=131072),
        "min_data_in_leaf": Param(20, "fewest training rows of a leaf", low=1),
        "bagging_fraction": Param(0.8, "share of rows drawn for a round", low=1e-3, high=1.0),
        "feature_fraction": Param(0.8, "share of coordinates drawn for a tree", low=1e-3, high=1.0),
        "lambda_l2": Param(1.0, "L2 penalty on leaf values", low=0.0),
    }

    def __init__(self, text: str, **base: Any):
        super().__init__(**base)
        self._text = text
        self.booster = lightgbm.Booster(model_str=text)

    @classmethod
    def _fit(
        cls, data: TrainingData, params: dict[str, Any], *, seed: int, threads: int, device: str
    ) -> Self:
        rest = dict(params)
        rounds, patience = rest.pop("n_estimators"), rest.pop("early_stopping_rounds")
        settings = rest | {
            "objective": "binary" if data.n_classes == 2 else "multiclass",
            "metric": "binary_logloss" if data.n_classes == 2 else "multi_logloss",
            "bagging_freq": 1,
            "seed": cls.library_seed(seed),
            "num_threads": threads,
            "deterministic": True,
            "force_col_wise": True,  # the automatic choice is made by timing
            "verbosity": -1,
        }
        if data.n_classes > 2:
            settings["num_class"] = data.n_classes
        shared = {"verbosity": -1, "num_threads": threads}
        train = lightgbm.Dataset(data.X_train, data.y_train, params=shared)
        valid = lightgbm.Dataset(data.X_valid, data.y_valid, reference=train, params=shared)
        curve: dict[str, dict[str, list[float]]] = {}
        booster = lightgbm.train(
            settings,
            train,
            rounds,
            valid_sets=[valid],
            valid_names=["valid"],
            callbacks=[
                lightgbm.early_stopping(patience, verbose=False),
                lightgbm.record_evaluation(curve),
            ],
        )
        best = int(booster.best_iteration) or booster.current_iteration()
        losses = curve["valid"][settings["metric"]]
        text = booster.model_to_string(num_iteration=best)
        # The threads of the fit do not change the trees and must not change the file.
        text = re.sub(r"\[num_threads: \d+\]", "[num_threads: 1]", text)
        return cls(
            text,
            n_classes=data.n_classes,
            n_features=data.X_train.shape[1],
            params=params,
            facts={
                "best_iteration": best - 1,
                "n_iterations": len(losses),
                "n_trees": best * (1 if data.n_classes == 2 else data.n_classes),
                "valid_nll": float(losses[best - 1]),
                "device": "cpu",
            },
            history=[{"iteration": i, "valid_nll": float(v)} for i, v in enumerate(losses)],
        )

    def _predict_proba(self, X: np.ndarray) -> np.ndarray:
        # A float32 C-order array is read where it lies, row by row.
        p = self.booster.predict(X, num_threads=self.threads)
        return two_columns(p) if self.n_classes == 2 else p

    def _to_bytes(self) -> bytes:
        return self._text.encode()

    @classmethod
    def _from_bytes(cls, content: bytes, base: dict[str, Any]) -> Self:
        text = content.decode("utf-8")
        # The library reads a file cut short without complaint.
        expect("\nend of trees\n" in text and "\nend of parameters\n" in text, "it is cut short")
        model = cls(text, **base)
        per_round = 1 if base["n_classes"] == 2 else base["n_classes"]
        expect(model.booster.num_feature() == base["n_features"], "it has other coordinates")
        expect(
            model.booster.num_model_per_iteration() == per_round,
            "it has another number of classes",
        )
        return model
