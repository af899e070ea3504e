"""Copy the tables and figures of a finished run to a reference folder, with where they came from.

python tools/save_reference.py results/quick results/reference/quick --command "make quick ..."

The folder of a recourse benchmark is copied profile by profile:

python tools/save_reference.py results/paper/recourse results/reference/recourse --command "..."
"""

import argparse
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))


def main() -> None:
    from cfc.artifacts import read_metadata, write_json

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--command", required=True, help="the exact command that made the run")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the data used")
    options = parser.parse_args()
    units = sorted(options.run.glob("evaluate/*/*/seed*.parquet"))
    evaluated = sorted(options.run.glob("*/evaluation/*.candidates.parquet"))
    if evaluated:
        save_recourse(options, evaluated)
        return
    if not units:
        parser.error(f"{options.run} has no evaluated unit")
    copy_results(options.run, options.reference)
    if (options.run / "verdict.md").is_file():
        shutil.copyfile(options.run / "verdict.md", options.reference / "verdict.md")
    certified = sorted(options.run.glob("certify/*/*/seed*.parquet"))
    facts = [read_metadata(file) for file in certified]
    trained = [read_metadata(f) for f in sorted(options.run.glob("train/*/*/seed*.parquet"))]
    versions: dict[str, str] = {}
    for fact in facts + trained:
        versions |= fact["versions"]
    datasets = sorted({fact["dataset"] for fact in facts})
    write_json(
        {
            "command": options.command,
            "units": [f"{f['dataset']}/{f['model']}/seed{f['seed']}" for f in facts],
            "protocols": sorted({f["protocol_hash"] for f in facts}),
            "protocol": facts[0]["protocol"],
            "versions": versions,
            "data": data_facts(options.data, datasets),
            "certificates": {
                f"{f['dataset']}/{f['model']}/seed{f['seed']}": {
                    k: f[k] for k in ("config_hash", "code_hash", "inputs")
                }
                for f in facts
            },
        },
        options.reference / "provenance.json",
    )
    write_rows(options, options.run.glob("*/*/*/seed*.parquet"))
    print(f"{len(units)} units -> {options.reference}")


def copy_results(run: Path, reference: Path) -> None:
    for kind, ends in (("tables", (".md", ".parquet")), ("figures", (".svg",))):
        target = reference / kind
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted((run / kind).iterdir()):
            if file.suffix in ends:
                shutil.copyfile(file, target / file.name)


def data_facts(folder: Path, datasets: list[str]) -> dict[str, dict]:
    from cfc.artifacts import read_json

    found = [read_json(f) for d in datasets for f in sorted(folder.glob(f"*/{d}.json"))]
    return {s["dataset"]: {k: s[k] for k in ("sha256", "rows", "source")} for s in found}


def write_rows(options, files: Iterable[Path]) -> None:
    # what `tools/compare_reference.py` compares: rows, not bytes, as files also name their code
    from cfc.artifacts import rows_hash, write_json

    names = {file.relative_to(options.run).as_posix(): rows_hash(file) for file in sorted(files)}
    write_json(names, options.reference / "rows.json")


def save_recourse(options, evaluated: list[Path]) -> None:
    from cfc.artifacts import read_metadata, write_json

    profiles: dict[str, dict] = {}
    versions: dict[str, str] = {}
    for file in evaluated:
        profile, dataset = file.parts[-3], file.name.split(".")[0]
        fact = read_metadata(file)
        trained = read_metadata(file.parents[1] / f"bases/{dataset}.parquet")
        versions |= fact["versions"] | trained["versions"]
        own = {k: fact[k] for k in ("config_hash", "code_hash", "inputs")}
        profiles.setdefault(profile, {})[dataset] = own
    for profile in profiles:
        copy_results(options.run / profile, options.reference / profile)
    datasets = sorted({d for own in profiles.values() for d in own})
    write_json(
        {
            "command": options.command,
            "evaluations": profiles,
            "versions": versions,
            "data": data_facts(options.data, datasets),
        },
        options.reference / "provenance.json",
    )
    stages = ("data", "bases", "bank", "candidates", "evaluation", "certificates", "audit")
    write_rows(options, (f for s in stages for f in options.run.glob(f"*/{s}/**/*.parquet")))
    print(f"{len(evaluated)} evaluations -> {options.reference}")


if __name__ == "__main__":
    main()
