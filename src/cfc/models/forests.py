"""Forests of scikit-learn: ``rf`` and ``extratrees``.

Leaves are bounded (``max_leaf_nodes``), best split first, so that the file and the memory of a
forest have a ceiling that does not grow with the number of rows: a leaf costs about
2 x (64 + 8 C) bytes, so 300 trees of 4,096 leaves and 7 classes take 0.3 GB in memory, and twice
that while they are read. On covertype (348,607 training rows), where every tree reaches the bound,
the file has 71 MB, fitting peaked at 1.1 GB and auditing at 1.4 GB. The bound costs accuracy there:
.889 (rf) and .828 (extratrees) on validation, against .914 and .858 with 8,192 leaves. On sets of
up to some 25,000 training rows it does not bind.
"""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from cfc.models.base import Model, Param, TrainingData, column_order, expect
from cfc.models.sklearn_files import check_tree, dumps, loads

# Rows sent through one tree before the next tree. A tree has to come into the cache anew for every
# chunk, so small chunks cost up to three times as much; the chunk bounds the memory of a call.
_CHUNK_ROWS = 32768
# skops leaves this type to the reader because its node numbers are followed unchecked;
# `check_tree` checks them.
_TRUSTED = ["sklearn.tree._tree.Tree"]


class _ForestModel(Model):
    """Averages class frequencies over trees; predicts with one thread, trees in fixed order."""

    is_forest = True
    predictor_dtype = "float64"
    model_file = "model.skops"
    magic = b"PK"
    library = "scikit-learn"
    estimator_class: ClassVar[type]
    PARAMS: ClassVar[dict[str, Param]] = {
        "n_estimators": Param(300, "trees", low=1),
        "max_leaf_nodes": Param(4096, "most leaves of a tree, best split first", low=2),
        "min_samples_leaf": Param(2, "fewest training rows of a leaf", low=1),
        "max_features": Param(
            "sqrt", "coordinates tried at a split", choices=("sqrt", "log2", "all")
        ),
    }

    def __init__(self, estimator: Any, **base: Any):
        super().__init__(**base)
        self.estimator = estimator
        self._order = column_order(estimator.classes_, self.n_classes)
        self._trees = [member.tree_ for member in estimator.estimators_]

    @classmethod
    def _fit(
        cls, data: TrainingData, params: dict[str, Any], *, seed: int, threads: int, device: str
    ) -> Self:
        settings = dict(params)
        if settings["max_features"] == "all":
            settings["max_features"] = None
        estimator = cls.estimator_class(
            **settings, n_jobs=threads, random_state=cls.library_seed(seed)
        )
        estimator.fit(data.X_train, data.y_train)
        estimator.set_params(n_jobs=1)
        trees = [member.tree_ for member in estimator.estimators_]
        facts = {
            "n_trees": len(trees),
            "mean_leaves": float(np.mean([t.n_leaves for t in trees])),
            "max_leaves": int(max(t.n_leaves for t in trees)),
            "max_depth": int(max(t.max_depth for t in trees)),
            "device": "cpu",
        }
        return cls(
            estimator,
            n_classes=data.n_classes,
            n_features=data.X_train.shape[1],
            params=params,
            facts=facts,
        )

    def _predict_proba(self, X: np.ndarray) -> np.ndarray:
        # The sum scikit-learn takes, in its order, without checking the input once a tree.
        out = np.zeros((len(X), self.n_classes))
        for start in range(0, len(X), _CHUNK_ROWS):
            rows = X[start : start + _CHUNK_ROWS]
            total = out[start : start + _CHUNK_ROWS]
            for tree in self._trees:
                total += tree.predict(rows)
        out /= len(self._trees)
        return np.ascontiguousarray(out[:, self._order])

    def _to_bytes(self) -> bytes:
        return dumps(self.estimator)

    @classmethod
    def _from_bytes(cls, content: bytes, base: dict[str, Any]) -> Self:
        estimator = loads(content, expected=cls.estimator_class, trusted=_TRUSTED)
        expect(len(estimator.estimators_) > 0, "the forest has no trees")
        for member in estimator.estimators_:
            check_tree(member.tree_, n_features=base["n_features"], n_classes=base["n_classes"])
        return cls(estimator, **base)


class RandomForestModel(_ForestModel):
    """Random forest: bootstrap rows, best of a few coordinates at each split."""

    family = "rf"
    estimator_class = RandomForestClassifier


class ExtraTreesModel(_ForestModel):
    """Extremely randomised trees: all rows, random thresholds on a few coordinates."""

    family = "extratrees"
    estimator_class = ExtraTreesClassifier
