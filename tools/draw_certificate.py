"""Draw one certificate of a finished run.

python tools/draw_certificate.py results/quick/certify/adult/xgboost/seed0.parquet --out case.svg
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))


def main() -> None:
    from cfc.artifacts import read_metadata, read_table
    from cfc.figures.certificate import draw_certificate

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="certificate file of one unit")
    parser.add_argument("--case", type=int, help="case id; default: the most fragile confident one")
    parser.add_argument("--out", type=Path, default=Path("certificate.svg"), help="SVG, PNG or PDF")
    options = parser.parse_args()
    frame = read_table(options.file).to_pandas()
    if options.case is None:
        frame = frame[frame["confidence"] >= 0.9].sort_values("u", ascending=False)
    else:
        frame = frame[frame["case_id"] == options.case]
    if frame.empty:
        parser.error(
            f"{options.file} holds no certificate of case {options.case}"
            if options.case is not None
            else f"{options.file} holds no case with confidence of 0.9 or more"
        )
    facts = read_metadata(options.file)
    figure = draw_certificate(frame.iloc[0].to_dict(), facts["groups"]["names"], facts["classes"])
    figure.savefig(
        options.out, dpi=150, metadata={"Date": None} if options.out.suffix == ".svg" else None
    )
    print(f"case {frame.iloc[0]['case_id']} -> {options.out}")


if __name__ == "__main__":
    main()
