"""Do our parity rows match the published digits? Breast cancer and diabetes, cheap methods.

Trains the base models and the changed models of both data sets with the published seeds (about a
minute of one core) and prints ours beside the paper's. Nearest neighbour, Wachter and RNCE must
agree to the printed digit; with --all the other methods are shown too.

    python benchmarks/recourse_parity.py --data ../shared/data
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

MUST_MATCH = ("kdtree", "wachter", "rnce")
# printed with one decimal for percentages, three for distances
DIGITS = {"base_validity_pct": 1, "empirical_robustness_pct": 1, "scaled_l1_distance": 3}


def dataset_rows(dataset: str, methods: list[str], data_dir: str, config: dict):
    """Return ours, mean and sd over base models, of each method and metric."""
    import numpy as np

    from cfc.data import DatasetSpec, acquire, read_dataset
    from cfc.recourse.data import prepare
    from cfc.recourse.families import FAMILIES, build_family, get_family, train_bases
    from cfc.recourse.families import train_ensemble as train_voters
    from cfc.recourse.generate import candidates_of, draw_requests, scaled_distance, tune
    from cfc.recourse.methods.base import Problem
    from cfc.recourse.methods.registry import get_method
    from cfc.recourse.nets import Stack, logits_of
    from cfc.recourse.seeds import SeedPlan

    spec = DatasetSpec.from_mapping(dataset, config["dataset_registry"][dataset])
    plan = SeedPlan("parity", dataset)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.parquet"
        acquire(spec, data_dir, table, Path(folder) / "facts.json")
        options = config["recourse"]["dataset_options"][dataset]
        data = prepare(read_dataset(table), spec, seed=plan.seed("split"), **options)
    bases, _ = train_bases(data, plan, 5)
    bank = {name: build_family(get_family(name), bases, data, plan) for name in FAMILIES}
    voters = train_voters(data, plan, bases, 32) if "betarce" in methods else {}
    for name in methods:
        kind, params, own = get_method(name), {}, []
        for base in bases:
            stack = Stack(voters[base.number]) if kind.needs_ensemble else None
            problem = Problem(data, base.number, base.net, plan, ensemble=stack)
            if base.number == 0 and kind.GRID:
                params, _ = tune(kind, problem, {}, kind.GRID)
            asked = draw_requests(data, base.net, plan, base.number)
            found = candidates_of(kind(problem, params), asked)
            valid = np.array([s == "ok" for s in found.status])
            covered = valid | np.array([s == "base_invalid" for s in found.status])
            robust = []
            for changed in bank.values():
                nets = [c.net for c in changed if c.base == base.number]
                robust.append((logits_of(nets, found.points[valid]) >= 0).mean())
            far = scaled_distance(found.points[valid], asked.X[valid], data.scale)
            own.append((100 * valid.sum() / covered.sum(), 100 * np.mean(robust), far.mean()))
        own = np.array(own)
        for metric, mean, sd in zip(DIGITS, own.mean(axis=0), own.std(axis=0, ddof=1), strict=True):
            yield name, metric, mean, sd


def main(arguments=None) -> int:
    import yaml

    from cfc.recourse.methods.registry import METHODS
    from cfc.recourse.reference import read_reference

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="../shared/data", help="folder with local copies")
    parser.add_argument("--datasets", nargs="+", default=["breast_cancer", "diabetes"])
    parser.add_argument("--all", action="store_true", help="all methods, not only the exact ones")
    chosen = parser.parse_args(arguments)
    config = {}
    for name in ("datasets", "recourse"):
        config |= yaml.safe_load((ROOT / f"config/{name}.yaml").read_text())
    paper = read_reference(ROOT / "config/reference/recourse_paper.csv")
    paper = paper[paper["table"] == "Table 6"].set_index(["dataset", "method", "metric"])
    missed = 0
    for dataset in chosen.datasets:
        start = time.process_time()
        methods = list(METHODS) if chosen.all else list(MUST_MATCH)
        for name, metric, mean, sd in dataset_rows(dataset, methods, chosen.data, config):
            printed = paper.loc[(dataset, name, metric)]
            digits = DIGITS[metric]
            ours, theirs = f"{mean:.{digits}f}", f"{printed['mean']:.{digits}f}"
            is_missed = name in MUST_MATCH and ours != theirs
            missed += is_missed
            print(
                f"{dataset:14} {name:18} {metric:26} {ours:>8} ± {sd:.{digits}f}"
                f"   paper {theirs:>8} ± {printed['sd']:.{digits}f}{'   DIFFERS' * is_missed}"
            )
        print(f"{dataset}: {time.process_time() - start:.0f} s of processor time")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
