"""Say where the results of a run are, with its main table.

python tools/show_run.py results/demo
"""

import sys
from pathlib import Path


def main(folder: Path) -> None:
    table = folder / "tables" / "brittle_aggregate.md"
    if not table.is_file():
        sys.exit(f"{folder} has no finished tables; run snakemake first")
    # up to the second heading: the headline label rule; the file holds all of them
    print("## ".join(table.read_text(encoding="utf-8").split("## ")[:2]))
    print(f"All label rules, both signs, intervals and notes: {table}\n")
    print("Results of this run:")
    print(f"  tables   {folder / 'tables'}/  (Parquet, CSV, Markdown, HTML)")
    print(f"  figures  {folder / 'figures'}/  (SVG, PNG)")
    page = folder / "explore.html"
    if page.is_file():
        print(f"  cases    {page}  (interactive; open in a browser)")
    report = folder / "report.html"
    if report.is_file():
        print(f"  report   {report}  (open in a browser)")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
