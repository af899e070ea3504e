"""Compare the results of a run with a reference, file by file.

python tools/compare_reference.py results/paper results/reference/paper

Rows are compared bit for bit; what a file says about its code, folder and versions is not. Only
files that are there are compared, so one recomputed unit is enough.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))


def main() -> int:
    from cfc.artifacts import read_json, rows_hash

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("reference", type=Path)
    options = parser.parse_args()
    reference = read_json(options.reference / "rows.json")
    found = {name: options.run / name for name in reference if (options.run / name).is_file()}
    if not found:
        parser.error(f"{options.run} holds no result that {options.reference} has")
    differing = [name for name, file in found.items() if rows_hash(file) != reference[name]]
    for name in differing:
        print(f"differs: {name}")
    print(f"{len(found) - len(differing)} of {len(found)} files have the same rows, bit for bit")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
