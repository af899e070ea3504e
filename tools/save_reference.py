"""Copy the tables and figures of a finished run to a reference folder, with where they came from.

python tools/save_reference.py results/quick results/reference/quick --command "make quick ..."
"""

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))


def main() -> None:
    from cfc.artifacts import read_json, read_metadata, rows_hash, write_json

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--command", required=True, help="the exact command that made the run")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the data used")
    options = parser.parse_args()
    units = sorted(options.run.glob("evaluate/*/*/seed*.parquet"))
    if not units:
        parser.error(f"{options.run} has no evaluated unit")
    for kind, ends in (("tables", (".md", ".parquet")), ("figures", (".svg",))):
        target = options.reference / kind
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted((options.run / kind).iterdir()):
            if file.suffix in ends:
                shutil.copyfile(file, target / file.name)
    if (options.run / "verdict.md").is_file():
        shutil.copyfile(options.run / "verdict.md", options.reference / "verdict.md")
    certified = sorted(options.run.glob("certify/*/*/seed*.parquet"))
    facts = [read_metadata(file) for file in certified]
    trained = [read_metadata(f) for f in sorted(options.run.glob("train/*/*/seed*.parquet"))]
    versions: dict[str, str] = {}
    for fact in facts + trained:
        versions |= fact["versions"]
    datasets = sorted({fact["dataset"] for fact in facts})
    sources = [
        read_json(file)
        for dataset in datasets
        for file in sorted(options.data.glob(f"*/{dataset}.json"))
    ]
    write_json(
        {
            "command": options.command,
            "units": [f"{f['dataset']}/{f['model']}/seed{f['seed']}" for f in facts],
            "protocols": sorted({f["protocol_hash"] for f in facts}),
            "protocol": facts[0]["protocol"],
            "versions": versions,
            "data": {
                s["dataset"]: {k: s[k] for k in ("sha256", "rows", "source")} for s in sources
            },
            "certificates": {
                f"{f['dataset']}/{f['model']}/seed{f['seed']}": {
                    k: f[k] for k in ("config_hash", "code_hash", "inputs")
                }
                for f in facts
            },
        },
        options.reference / "provenance.json",
    )
    # what `tools/compare_reference.py` compares: rows, not bytes, as files also name their code
    write_json(
        {
            file.relative_to(options.run).as_posix(): rows_hash(file)
            for file in sorted(options.run.glob("*/*/*/seed*.parquet"))
        },
        options.reference / "rows.json",
    )
    print(f"{len(units)} units -> {options.reference}")


if __name__ == "__main__":
    main()
