"""What `cfc.audit` costs: beyond the model, in memory, and beside other explanations.

python benchmarks/audit_overhead.py            # ratios of one run, on this machine
python benchmarks/audit_overhead.py --memory   # 100,000 cases x 14 groups, peak memory

Needs the boosters (`pip install '.[models]'`); `shap` and `captum` are compared where installed.
Ratios are of processor time of all threads inside one process; nothing is asserted.
"""

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

N_GROUPS, N_NUMERIC, LEVELS = 14, 8, 8


def table(n: int, seed: int):
    """Return n rows of eight numbers and six nominal columns of eight levels, and labels."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    columns = {f"x{i}": rng.normal(size=n) for i in range(N_NUMERIC)}
    names = np.array([f"level {k}" for k in range(LEVELS)])
    codes = {f"c{i}": rng.integers(0, LEVELS, n) for i in range(N_GROUPS - N_NUMERIC)}
    columns |= {name: names[code] for name, code in codes.items()}
    score = columns["x0"] + columns["x1"] * (codes["c0"] > 3) + (codes["c1"] == 2)
    return pd.DataFrame(columns), (score + rng.normal(0, 0.5, n) > 0.5).astype(int)


def pipeline(model):
    """Return a Pipeline of scaler, one-hot encoder and a model."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    steps = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(sparse_output=False), make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(steps, model)


def models() -> dict:
    """Return the models that can be made here, by name."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    found = {
        "logistic regression": LogisticRegression(max_iter=500),
        "random forest": RandomForestClassifier(100, min_samples_leaf=5, n_jobs=1, random_state=0),
    }
    try:
        from xgboost import XGBClassifier

        found["xgboost"] = XGBClassifier(n_estimators=300, max_depth=6, n_jobs=1)
    except ImportError:
        print("xgboost is not installed: left out")
    try:
        from lightgbm import LGBMClassifier

        found["lightgbm"] = LGBMClassifier(n_estimators=300, num_leaves=31, n_jobs=1, verbose=-1)
    except ImportError:
        print("lightgbm is not installed: left out")
    return found


def overhead(n_cases: int) -> None:
    """Print, for each model, an audit's time beyond the model: to set up, and for the cases."""
    from dataclasses import replace

    import cfc
    from cfc.auditing.targets import target_of

    X, y = table(6000, 0)
    rows, _ = table(n_cases, 1)
    print(f"\n{n_cases} cases, {N_GROUPS} groups; seconds of processor time")
    print(f"{'model':22}{'space':14}{'model':>9}{'set-up':>9}{'beyond the model, cases':>26}")
    for name, model in models().items():
        fitted = pipeline(model).fit(X, y)
        for space in ("transformed", "columns"):
            target = target_of(fitted, background=X, rows=rows, space=space)
            spent = [0.0]

            def predict(matrix, ask=target.predict, spent=spent):
                start = time.process_time()
                answer = ask(matrix)
                spent[0] += time.process_time() - start
                return answer

            asked = replace(target, predict=predict)

            def beyond(cases, asked=asked, spent=spent):
                spent[0] = 0.0
                start = time.process_time()
                cfc.audit(asked, cases, background=X, progress=False)
                return time.process_time() - start - spent[0]

            beyond(rows.head(1))  # what is imported on first use
            start = time.process_time()
            target_of(fitted, background=X, rows=rows, space=space)
            setup = time.process_time() - start + beyond(rows.head(1))
            share = (beyond(rows) - beyond(rows.head(1))) / spent_on(beyond, rows, spent)
            print(f"{name:22}{space:14}{spent[0]:9.2f}{setup:9.2f}{share:26.1%}")


def spent_on(beyond, rows, spent) -> float:
    """Return the seconds inside the model of one more audit."""
    beyond(rows)
    return spent[0]


def beside_others(n_cases: int = 20) -> None:
    """Print the cost of other explanations of a case over that of a hard certificate."""
    import cfc

    X, y = table(6000, 0)
    fitted = pipeline(models()["random forest"]).fit(X, y)
    Z, last = fitted[:-1].transform(X), fitted[-1]
    rows = table(1000, 1)[0]
    start = time.process_time()
    audit = cfc.audit(fitted, rows, background=X, exposure=False, progress=False)
    own = (time.process_time() - start) / len(rows)
    cases = fitted[:-1].transform(rows.head(n_cases))
    print(f"\none certificate, random forest: {1e3 * own:.2f} ms; others over it")
    index = audit.facts["groups"]["indices"]
    try:
        import shap
    except ImportError:
        print("shap is not installed: left out")
    else:
        names = audit.facts["groups"]["names"]
        mean = Z.mean(axis=0, keepdims=True)
        grouped = shap.utils._legacy.DenseData(mean, names, [np.array(i) for i in index])
        explainer = shap.KernelExplainer(last.predict_proba, grouped)
        start = time.process_time()
        explainer.shap_values(cases, silent=True)
        print(f"shap KernelExplainer, grouped: {(time.process_time() - start) / n_cases / own:.0f}")
    try:
        import torch
        from captum.attr import FeatureAblation
    except ImportError:
        print("captum is not installed: left out")
    else:
        mask = np.empty(Z.shape[1], dtype=np.int64)
        for number, members in enumerate(index):
            mask[members] = number

        def forward(batch):
            return torch.from_numpy(last.predict_proba(batch.numpy()))

        method = FeatureAblation(forward)
        start = time.process_time()
        method.attribute(
            torch.from_numpy(cases),
            baselines=torch.from_numpy(Z.mean(axis=0, keepdims=True)),
            target=1,
            feature_mask=torch.from_numpy(mask)[None],
        )
        cost = (time.process_time() - start) / n_cases / own
        print(f"captum FeatureAblation, grouped, {n_cases} cases in a call: {cost:.1f}")


def memory(n_cases: int) -> None:
    """Print time and peak memory of a large audit with exposure."""
    import cfc

    X, y = table(6000, 0)
    fitted = pipeline(models()["xgboost"]).fit(X, y)
    rows, _ = table(n_cases, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    start = time.process_time()
    audit = cfc.audit(fitted, rows, background=X)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{len(audit)} cases: {seconds:.0f} s, peak {peak:.2f} GB ({before:.2f} GB before)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    if options.memory:
        memory(100_000)
    else:
        overhead(options.cases)
        beside_others()


if __name__ == "__main__":
    main()
