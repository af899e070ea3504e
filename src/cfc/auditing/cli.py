"""The command ``cfc``: audit, verify, show, report."""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from cfc import __version__
from cfc.errors import CfcError, ConfigError, DataError

OK, BAD_INPUT, USAGE, TOO_FRAGILE, NOT_VERIFIED, INCOMPLETE = 0, 1, 2, 3, 4, 5
EXIT_CODES = f"""exit codes:
  {OK}  done; for verify: nothing contradicts the file
  {BAD_INPUT}  an input is not valid; the message says which
  {USAGE}  the command line is not valid
  {TOO_FRAGILE}  audit: more than --max-fragile-share of the confident cases flip without one group
  {NOT_VERIFIED}  verify: a field, a row, the model, the data or the protocol differs
  {INCOMPLETE}  audit: the model failed or time ran out; what is done is kept, repeat to go on
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: words after ``cfc``; default: those of the process.

    Returns:
        the exit code.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except CfcError as error:
        print(f"cfc {options.command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        return OK
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INCOMPLETE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cfc",
        description="Which confident predictions rest on evidence that is about to fail?",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cfc {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, run, text):
        sub = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(run=run)
        return sub

    audit = command("audit", _audit, "certify the rows of a table under a model")
    _model_options(audit)
    audit.add_argument("--background", type=Path, metavar="FILE", help="training rows")
    audit.add_argument("--out", type=Path, required=True, metavar="FILE", help="Parquet to write")
    audit.add_argument("--html", type=Path, metavar="FILE", help="also write a page")
    audit.add_argument(
        "--groups", type=Path, metavar="FILE", help="groups of columns, YAML or JSON"
    )
    audit.add_argument("--ungrouped", choices=("error", "each", "fixed"), default="error")
    audit.add_argument("--protocol", default="audit", help="preset name, or a YAML or JSON file")
    audit.add_argument("--baseline", help="name of the baseline, in place of the protocol's")
    audit.add_argument("--space", choices=("transformed", "columns"))
    audit.add_argument("--nominal", nargs="+", default=[], metavar="COLUMN")
    audit.add_argument("--target", metavar="COLUMN", help="column of true labels in --data")
    audit.add_argument("--exposure", action=argparse.BooleanOptionalAction, default=None)
    audit.add_argument("--stress", action="store_true", help="held-out stress on confident cases")
    audit.add_argument("--rank-by", choices=("s", "u"))
    audit.add_argument("--seed", type=int, default=0)
    audit.add_argument("--max-rows", type=int, metavar="N")
    audit.add_argument("--max-seconds", type=float, metavar="S")
    audit.add_argument(
        "--max-fragile-share",
        type=float,
        metavar="SHARE",
        help=f"exit with {TOO_FRAGILE} if more of the confident cases flip on losing one group",
    )
    audit.add_argument("--quiet", action="store_true", help="no progress bar")

    check = command("verify", _verify, "recompute a certificate file and compare every field")
    check.add_argument("file", type=Path)
    _model_options(check)
    check.add_argument("--background", type=Path, metavar="FILE", help="training rows")

    show = command("show", _show, "print the card of one case")
    show.add_argument("file", type=Path)
    show.add_argument("case", nargs="?", help="the case's index; default: the most fragile one")
    show.add_argument("--json", action="store_true", help="the record as JSON")

    report = command("report", _report, "write a page of a certificate file")
    report.add_argument("file", type=Path)
    report.add_argument("--out", type=Path, metavar="FILE", help="default: FILE.html")
    report.add_argument("--data", type=Path, metavar="FILE", help="the rows, to show their values")
    report.add_argument("--index", metavar="COLUMN", help="column that names the cases")
    return parser


def _model_options(parser) -> None:
    parser.add_argument(
        "--model",
        required=True,
        help="model file (XGBoost .json .ubj, LightGBM .txt, CatBoost .cbm, skops .skops, "
        "TorchScript .pt), model folder, or package.module:name, file.py:name",
    )
    parser.add_argument("--data", type=Path, required=True, metavar="FILE", help="rows to audit")
    parser.add_argument("--index", metavar="COLUMN", help="column that names the cases")
    parser.add_argument("--drop", nargs="+", default=[], metavar="COLUMN", help="columns to ignore")
    parser.add_argument("--output", choices=("logits", "probabilities", "logit"))
    parser.add_argument(
        "--trust", nargs="+", default=[], metavar="TYPE", help="types skops may load"
    )
    parser.add_argument(
        "--plugin", type=Path, action="append", default=[], help="Python file with operators"
    )
    parser.add_argument("--json", action="store_true", help="summary as JSON on standard output")


def read_rows(path: Path, index: str | None = None, drop=()) -> Any:
    """Read a table of rows: Parquet, CSV, Feather or Arrow.

    Raises:
        DataError: it is missing, of another kind, damaged, or lacks a named column.
    """
    import pandas as pd

    readers = {
        ".parquet": pd.read_parquet,
        ".csv": pd.read_csv,
        ".feather": pd.read_feather,
        ".arrow": pd.read_feather,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: unknown kind of table; one of {', '.join(readers)}")
    if not path.is_file():
        raise DataError(f"{path} does not exist")
    try:
        frame = reader(path)
    except Exception as error:  # every reader has its own types; the user needs the file
        raise DataError(f"{path} cannot be read: {error}") from error
    missing = [c for c in [*drop, *([index] if index else [])] if c not in frame.columns]
    if missing:
        raise DataError(f"{path} has no column {', '.join(map(repr, missing))}")
    frame = frame.drop(columns=list(drop))
    return frame.set_index(index) if index else frame


def _load(options):
    from cfc.auditing.targets import load_model_file

    for plugin in options.plugin:
        _import_file(plugin)
    return load_model_file(options.model, trusted=tuple(options.trust))


def _import_file(path: Path) -> None:
    import runpy

    if not path.is_file():
        raise ConfigError(f"plugin {path} does not exist")
    runpy.run_path(str(path))


def _audit(options) -> int:
    from cfc.auditing.audit import AuditInterrupted, audit
    from cfc.auditing.grouping import read_groups_file

    model = _load(options)
    rows = read_rows(options.data, options.index, options.drop)
    labels = None
    if options.target:
        if options.target not in rows.columns:
            raise DataError(f"{options.data} has no column {options.target!r}")
        labels = rows.pop(options.target)
    background = None
    if options.background:
        background = read_rows(options.background)
        unused = [options.target, options.index, *options.drop]
        background = background.drop(columns=[c for c in unused if c in background.columns])
    protocol = options.protocol
    if Path(protocol).suffix in (".json", ".yaml", ".yml"):
        protocol = read_groups_file(protocol)
    partial = options.out.with_name(options.out.name + ".partial")
    try:
        result = audit(
            model,
            rows,
            protocol=protocol,
            background=background,
            groups=options.groups,
            ungrouped=options.ungrouped,
            baseline=options.baseline,
            y=labels,
            exposure=options.exposure,
            stress=options.stress,
            rank_by=options.rank_by,
            space=options.space,
            output=options.output,
            nominal=options.nominal,
            seed=options.seed,
            max_rows=options.max_rows,
            max_seconds=options.max_seconds,
            resume=partial,
            progress=False if options.quiet else None,
        )
    except AuditInterrupted as error:
        print(f"cfc audit: {error}", file=sys.stderr)
        return INCOMPLETE
    if not result.is_complete:
        done, wanted = result.facts["n_cases"], result.facts["n_expected"]
        print(
            f"cfc audit: time ran out after {done} of {wanted} cases; they are kept in {partial}, "
            "the same command goes on from there",
            file=sys.stderr,
        )
        return INCOMPLETE
    result.to_parquet(options.out)
    shutil.rmtree(partial, ignore_errors=True)
    if options.html:
        result.to_html(options.html)
    share = result.fragile_share()
    limit = options.max_fragile_share
    too_fragile = limit is not None and share > limit
    if options.json:
        facts = {"file": str(options.out), **result.summary_facts(), "too_fragile": too_fragile}
        print(json.dumps(facts, indent=1))
    else:
        print(result.summary())
        print(f"-> {options.out}" + (f", {options.html}" if options.html else ""))
    if too_fragile:
        print(
            f"cfc audit: {share:.1%} of the confident cases flip on losing one group, more than "
            f"{limit:.1%}",
            file=sys.stderr,
        )
        return TOO_FRAGILE
    return OK


def _verify(options) -> int:
    from cfc.auditing.verify import verify

    model = _load(options)
    rows = read_rows(options.data, options.index, options.drop)
    background = None if options.background is None else read_rows(options.background)
    if background is not None:
        unused = [options.index, *options.drop]
        background = background.drop(columns=[c for c in unused if c in background.columns])
    found = verify(options.file, model, rows, background=background, output=options.output)
    print(json.dumps(found.to_dict(), indent=1) if options.json else found)
    return OK if found.ok else NOT_VERIFIED


def _show(options) -> int:
    from cfc.auditing.audit import Audit

    result = Audit.from_parquet(options.file)
    case = options.case
    if case is None:
        case = result.top(1).index[0]
    elif str(result.table.schema.field("index").type) == "int64":
        if not case.lstrip("-").isdigit():
            raise DataError(f"no case {case!r}: the cases of {options.file} are numbered")
        case = int(case)
    if options.json:
        record = result.table.slice(result.position(case), 1).to_pylist()[0]
        print(json.dumps(record, indent=1))
    else:
        print(result.case(case))
    return OK


def _report(options) -> int:
    from cfc.auditing.audit import Audit

    rows = read_rows(options.data, options.index) if options.data else None
    result = Audit.from_parquet(options.file, rows)
    out = options.out or options.file.with_suffix(".html")
    result.to_html(out)
    print(f"-> {out}")
    return OK


if __name__ == "__main__":
    sys.exit(main())
