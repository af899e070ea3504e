"""Cost of asking a Pipeline with raw columns: levels looked up against the Pipeline as it is.

An audit asks for states of a row that differ from it in few columns. Here: all one-step removals of
`--cases` rows of an adult-like table, in one call, through the target and through the Pipeline's
own ``predict_proba`` on the decoded frame; and, to see what is left, the last step alone on a ready
matrix. Processor time, best of `--repeats`, ratios from one process on one thread.

    python benchmarks/raw_columns.py
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from cfc.auditing.targets import target_of


def table(n: int, seed: int = 0) -> pd.DataFrame:
    """Return n rows of 6 numbers and 8 nominal columns, 100 levels in all."""
    rng = np.random.default_rng(seed)
    columns: dict = {f"number {i}": rng.normal(size=n) for i in range(6)}
    for i, size in enumerate((9, 16, 7, 15, 6, 5, 2, 40)):
        levels = np.array([f"level {j} of {i}" for j in range(size)], dtype=object)
        columns[f"nominal {i}"] = levels[rng.integers(0, size, n)]
    return pd.DataFrame(columns)


def pipeline(model) -> object:
    numbers = [f"number {i}" for i in range(6)]
    nominal = [f"nominal {i}" for i in range(8)]
    steps = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
            ("nominal", OneHotEncoder(handle_unknown="ignore", sparse_output=False), nominal),
        ]
    )
    return make_pipeline(steps, model)


def best(function, *arguments, repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        function(*arguments)
        seconds.append(time.process_time() - start)
    return min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    train = table(5000)
    y = (train["number 0"] + (train["nominal 0"] == "level 1 of 0") > 0.5).to_numpy()
    models = {"logistic": LogisticRegression(max_iter=1000)}
    models["forest of 100"] = RandomForestClassifier(100, max_leaf_nodes=256, random_state=0)
    models["hist gradient boosting"] = HistGradientBoostingClassifier()
    try:
        import xgboost

        models["xgboost 300 x 6"] = xgboost.XGBClassifier(n_estimators=300, max_depth=6, n_jobs=1)
    except ModuleNotFoundError:
        pass
    print("us a row                  plain  target  gain  last step alone  target / last step")
    for name, model in models.items():
        fitted = pipeline(model).fit(train, y)
        target = target_of(fitted, background=train, space="columns")
        rows = target.encode(table(options.cases, seed=1))
        states = np.repeat(rows[:, None], 1 + rows.shape[1], axis=1)
        for i in range(rows.shape[1]):
            states[:, 1 + i, i] = rows[0, i]
        states = states.reshape(-1, rows.shape[1])
        frame = target.decode(states)
        assert np.allclose(target.predict(states), fitted.predict_proba(frame), atol=1e-12)
        matrix = fitted[:-1].transform(frame)
        inner = target_of(fitted[-1], background=matrix[:100])
        matrix = np.ascontiguousarray(matrix, dtype=inner.dtype)

        def plain(states, target=target, fitted=fitted):
            return fitted.predict_proba(target.decode(states))

        scale = 1e6 / len(states)
        slow = best(plain, states, repeats=options.repeats) * scale
        fast = best(target.predict, states, repeats=options.repeats) * scale
        bare = best(inner.predict, matrix, repeats=options.repeats) * scale
        print(
            f"{name:24} {slow:6.2f} {fast:7.2f} {slow / fast:5.1f} {bare:16.2f} {fast / bare:19.2f}"
        )


if __name__ == "__main__":
    main()
