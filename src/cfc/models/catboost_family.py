"""CatBoost: ``catboost``."""

import json
import tempfile
from pathlib import Path
from typing import Any, ClassVar, Self

import catboost
import numpy as np

from cfc.models.base import Model, Param, TrainingData, column_order, expect

# Time of day and a random identifier; the curve is kept in the history instead.
_VOLATILE_METADATA = ("train_finish_time", "model_guid", "training", "output_options")


class CatBoostModel(Model):
    """Gradient-boosted symmetric trees of CatBoost, stopped early on validation log-loss.

    Trains on the CPU even where there is a GPU: its GPU trees differ and are not reproducible.
    The file is stripped of the time and the random identifier that CatBoost writes.
    """

    family = "catboost"
    predictor_dtype = "float64"
    model_file = "model.cbm"
    magic = b"CBM1"
    library = "catboost"
    PARAMS: ClassVar[dict[str, Param]] = {
        "iterations": Param(500, "most boosting rounds", low=1),
        "early_stopping_rounds": Param(50, "rounds without improvement before a stop", low=1),
        "learning_rate": Param(0.1, "shrinkage of every tree", low=1e-6, high=1.0),
        "depth": Param(6, "depth of a symmetric tree", low=1, high=16),
        "l2_leaf_reg": Param(3.0, "L2 penalty on leaf values", low=0.0),
        "subsample": Param(0.8, "share of rows drawn for a tree", low=1e-3, high=1.0),
    }

    def __init__(self, classifier: catboost.CatBoostClassifier, **base: Any):
        super().__init__(**base)
        self.classifier = classifier
        self._order = column_order(classifier.classes_, self.n_classes)

    @classmethod
    def _fit(
        cls, data: TrainingData, params: dict[str, Any], *, seed: int, threads: int, device: str
    ) -> Self:
        rest = dict(params)
        patience = rest.pop("early_stopping_rounds")
        classifier = catboost.CatBoostClassifier(
            **rest,
            loss_function="Logloss" if data.n_classes == 2 else "MultiClass",
            boosting_type="Plain",
            bootstrap_type="MVS",
            od_type="Iter",
            od_wait=patience,
            use_best_model=True,
            task_type="CPU",
            random_seed=cls.library_seed(seed),
            thread_count=threads,
            allow_writing_files=False,
            logging_level="Silent",
        )
        train = catboost.Pool(np.asfortranarray(data.X_train), data.y_train)
        valid = catboost.Pool(np.asfortranarray(data.X_valid), data.y_valid)
        classifier.fit(train, eval_set=valid)
        losses = next(iter(classifier.get_evals_result()["validation"].values()))
        best = int(classifier.best_iteration_)
        return cls(
            _from_cbm(_strip(_to_cbm(classifier))),
            n_classes=data.n_classes,
            n_features=data.X_train.shape[1],
            params=params,
            facts={
                "best_iteration": best,
                "n_iterations": len(losses),
                "n_trees": int(classifier.tree_count_),
                "valid_nll": float(losses[best]),
                "device": "cpu",
            },
            history=[{"iteration": i, "valid_nll": float(v)} for i, v in enumerate(losses)],
        )

    def _predict_proba(self, X: np.ndarray) -> np.ndarray:
        # Column order is what the library reads without a second copy.
        p = self.classifier.predict_proba(np.asfortranarray(X), thread_count=self.threads)
        return np.ascontiguousarray(p[:, self._order])

    def _to_bytes(self) -> bytes:
        return _to_cbm(self.classifier)

    @classmethod
    def _from_bytes(cls, content: bytes, base: dict[str, Any]) -> Self:
        classifier = _from_cbm(content)
        expect(len(classifier.feature_names_) == base["n_features"], "it has other coordinates")
        return cls(classifier, **base)


def _to_cbm(classifier: catboost.CatBoostClassifier) -> bytes:
    with tempfile.TemporaryDirectory(prefix="cfc-catboost-") as folder:
        path = Path(folder, "model.cbm")
        classifier.save_model(str(path), format="cbm")
        return path.read_bytes()


def _from_cbm(content: bytes) -> catboost.CatBoostClassifier:
    classifier = catboost.CatBoostClassifier()
    classifier.load_model(blob=content)
    return classifier


def _strip(content: bytes) -> bytes:
    """Return a cbm file without what differs between two equal fits."""
    classifier = _from_cbm(content)
    metadata = classifier.get_metadata()
    for key in _VOLATILE_METADATA:
        if key in metadata.keys():  # noqa: SIM118 - the proxy has no __contains__
            del metadata[key]
    params = json.loads(metadata["params"])
    for section in ("system_options", "flat_params"):
        params.get(section, {}).pop("thread_count", None)
    metadata["params"] = json.dumps(params, sort_keys=True)
    return _to_cbm(classifier)
