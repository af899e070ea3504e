"""How much of the certify stage is not the model: ratios measured in one process.

    python benchmarks/certify_overhead.py results/quick adult --models lr rf xgboost

For every model family of a finished run, on the same cases:

- overhead: certify's time outside the model over its whole time, each the median of the repeats;
- against one call: certify's whole time over one call predicting the same rows;
- against a loop: a loop asking the model for one state at a time, over certify, both a case;
- peak memory of the process after certifying, and after stressing, ten times the cases.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from cfc.certificate import certify
from cfc.models.registry import load_model
from cfc.prepared import Prepared
from cfc.protocol import PRESETS
from cfc.provenance import loaded_versions
from cfc.stress import StressSettings, stress_cases

PEAK_CASES = 20_000


def seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def one_row_at_a_time(X, groups, baseline, predict, path) -> None:
    """Ask for every state of a certificate in a call of its own, as the algorithm is printed."""
    for x, order in zip(X, path, strict=True):
        predict(x[None])
        for _, index in groups:
            state = x.copy()
            state[index] = baseline[index]
            predict(state[None])
        state = x.copy()
        for number in order[: min(10, len(groups))]:
            index = groups.indices[number]
            state[index] = baseline[index]
            predict(state[None])
        for top in (1, 3, len(groups)):
            index = np.concatenate([groups.indices[g] for g in order[:top]])
            for severity in (0.25, 0.5, 0.75, 1.0):
                state = x.copy()
                state[index] += np.float32(severity) * (baseline[index] - state[index])
                predict(state[None])


def measure(run: Path, dataset: str, family: str, cases: int, repeats: int) -> dict:
    folder = run / "preprocess" / dataset
    prepared = Prepared.read(
        folder / "seed0.parquet", folder / "seed0.json", folder / "seed0.baselines.parquet"
    )
    model = load_model(run / "train" / dataset / family / "seed0.model")
    protocol = PRESETS["paper"]
    rows = prepared.rows("test")
    rows = np.resize(rows, cases)
    X, baseline = prepared.X[rows], prepared.baseline("mean")
    call = (prepared.groups, baseline, model.predict_proba)
    total, inside, single = [], [], []
    asked = []

    def recorded(rows):
        asked.append(rows.copy())
        return model.predict_proba(rows)

    certify(X, prepared.groups, baseline, recorded, protocol)  # warm-up
    # the same rows: repeated ones would be cheaper for trees
    states = np.concatenate(asked)
    for _ in range(repeats):
        start = time.perf_counter()
        result = certify(X, *call, protocol)
        total.append(time.perf_counter() - start)
        inside.append(result.model_seconds)
        single.append(seconds(lambda: model.predict_proba(states)))
    few = 10
    loop = seconds(lambda: one_row_at_a_time(X[:few], *call, result.order[:few])) / few
    before = peak_mb()
    many = np.resize(prepared.rows("test"), PEAK_CASES)
    certify(prepared.X[many], *call, protocol)
    after_certify = peak_mb()
    settings = StressSettings({"mask": (0.2,), "swap": (0.2,)}, {"mask": 2, "swap": 2})
    stress_cases(
        prepared.X[many],
        *call,
        settings,
        seed=0,
        case_ids=prepared.row_id[many],
        noise_scale=prepared.noise_scale,
        donors=prepared.donors,
    )
    whole, model_time = statistics.median(total), statistics.median(inside)
    return {
        "family": family,
        "rows_per_case": result.rows_per_case,
        "overhead_share": round(1 - model_time / whole, 3),
        "over_one_call": round(whole / statistics.median(single), 2),
        "loop_over_certify": round(loop / (whole / cases)),
        "peak_mb": {"before": before, "certify": after_certify, "stress": peak_mb()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for family in options.models:
        facts = measure(options.run, options.dataset, family, options.cases, options.repeats)
        print(json.dumps(facts), flush=True)
    print(json.dumps({"dataset": options.dataset, "cases": options.cases, "seed": 0}))
    print(json.dumps(loaded_versions()))


if __name__ == "__main__":
    main()
