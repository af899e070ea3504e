"""XGBoost: ``xgboost``."""

from typing import Any, ClassVar, Self

import numpy as np
import xgboost

from cfc.models.base import Model, Param, TrainingData, expect, two_columns


class XGBoostModel(Model):
    """Gradient-boosted trees of XGBoost, stopped early on validation log-loss.

    Only the trees up to the best iteration are kept. Probabilities are float32, as the library
    computes them: they reach 1.0 exactly at a raw margin near 17.
    """

    family = "xgboost"
    predictor_dtype = "float32"
    model_file = "model.ubj"
    magic = b"{L"
    library = "xgboost"
    PARAMS: ClassVar[dict[str, Param]] = {
        "n_estimators": Param(300, "most boosting rounds", low=1),
        "early_stopping_rounds": Param(30, "rounds without improvement before a stop", low=1),
        "learning_rate": Param(0.1, "shrinkage of every tree", low=1e-6, high=1.0),
        "max_depth": Param(6, "depth of a tree", low=1, high=30),
        "min_child_weight": Param(1.0, "least sum of hessians in a leaf", low=0.0),
        "subsample": Param(0.8, "share of rows drawn for a round", low=1e-3, high=1.0),
        "colsample_bytree": Param(0.8, "share of coordinates drawn for a tree", low=1e-3, high=1.0),
        "reg_lambda": Param(1.0, "L2 penalty on leaf values", low=0.0),
    }

    def __init__(self, content: bytes, **base: Any):
        super().__init__(**base)
        self._content = content
        self.booster = xgboost.Booster({"nthread": 1})
        self.booster.load_model(bytearray(content))
        self._booster_threads = 1

    @classmethod
    def _fit(
        cls, data: TrainingData, params: dict[str, Any], *, seed: int, threads: int, device: str
    ) -> Self:
        rest = dict(params)
        rounds, patience = rest.pop("n_estimators"), rest.pop("early_stopping_rounds")
        settings = rest | {
            "objective": "binary:logistic" if data.n_classes == 2 else "multi:softprob",
            "eval_metric": "logloss" if data.n_classes == 2 else "mlogloss",
            "tree_method": "hist",
            "seed": cls.library_seed(seed),
            "nthread": threads,
            "verbosity": 0,
        }
        if data.n_classes > 2:
            settings["num_class"] = data.n_classes
        train = xgboost.QuantileDMatrix(data.X_train, data.y_train, nthread=threads)
        valid = xgboost.QuantileDMatrix(data.X_valid, data.y_valid, nthread=threads, ref=train)
        curve: dict[str, dict[str, list[float]]] = {}
        booster = xgboost.train(
            settings,
            train,
            rounds,
            evals=[(valid, "valid")],
            early_stopping_rounds=patience,
            evals_result=curve,
            verbose_eval=False,
        )
        best = int(booster.best_iteration)
        losses = curve["valid"][settings["eval_metric"]]
        kept = booster[: best + 1]
        kept.set_attr(best_iteration=None, best_score=None)
        return cls(
            bytes(kept.save_raw("ubj")),
            n_classes=data.n_classes,
            n_features=data.X_train.shape[1],
            params=params,
            facts={
                "best_iteration": best,
                "n_iterations": len(losses),
                "n_trees": (best + 1) * (1 if data.n_classes == 2 else data.n_classes),
                "valid_nll": float(losses[best]),
                "device": "cpu",
            },
            history=[{"iteration": i, "valid_nll": float(v)} for i, v in enumerate(losses)],
        )

    def _predict_proba(self, X: np.ndarray) -> np.ndarray:
        if self.threads != self._booster_threads:
            self.booster.set_param({"nthread": self.threads})
            self._booster_threads = self.threads
        # No DMatrix is built, and none whose cached prediction could be returned.
        p = self.booster.inplace_predict(X, validate_features=False)
        return two_columns(p) if self.n_classes == 2 else p

    def _to_bytes(self) -> bytes:
        return self._content

    @classmethod
    def _from_bytes(cls, content: bytes, base: dict[str, Any]) -> Self:
        model = cls(content, **base)
        booster = model.booster
        expect(booster.num_features() == base["n_features"], "it has other coordinates")
        probe = booster.inplace_predict(np.zeros((1, base["n_features"]), dtype=np.float32))
        wanted = (1,) if base["n_classes"] == 2 else (1, base["n_classes"])
        expect(probe.shape == wanted, "it has another number of classes")
        return model
