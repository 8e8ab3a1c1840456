"""Compares the backend with ONNX's node cases."""

import argparse
import sys

from .cases import node_cases, results_of
from .report import page

EPILOG = """\
Needs heddle and onnx; run it in tests/python, or put that folder into PYTHONPATH.

  python -m onnx_backend                         a line for each operator: cases, passed, missing, wrong
  python -m onnx_backend Conv MaxPool --cases    each case of these operators, and what it needs
  python -m onnx_backend --markdown >../../docs/onnx.md
"""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m onnx_backend",
        description="Runs ONNX's node cases with heddle. The exit status is 1 if a case gives a wrong result.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="ONNX's name of an operator; none: all")
    parser.add_argument("--cases", action="store_true", help="a line for each case")
    parser.add_argument("--markdown", action="store_true", help="write the page docs/onnx.md instead")
    arguments = parser.parse_args()
    if arguments.markdown and arguments.operators:
        parser.error("--markdown is about all operators")
    unknown = [name for name in arguments.operators if name not in node_cases()]
    if unknown:
        parser.error(f"there are no cases for {unknown[0]!r}; operators begin with a capital, as in Conv")
    return arguments


def outcome(result) -> str:
    return "passes" if result.passed else result.error.strip() or "needs " + ", ".join(result.missing)


def main() -> int:
    arguments = parse()
    if arguments.markdown:
        sys.stdout.write(page())
        return 0
    wrong = 0
    for operator in arguments.operators or node_cases():
        results = results_of(operator)
        wrong += sum(bool(result.error) for result in results)
        counts = [len(results)] + [sum(map(test, results)) for test in (lambda r: r.passed, lambda r: bool(r.missing))]
        print(f"{operator:28} {counts[0]:4} cases {counts[1]:4} pass {counts[2]:4} need what is missing")
        for result in results:
            if arguments.cases or result.error:
                print(f"    {result.case}: {outcome(result)}")
    if wrong:
        print(f"{wrong} cases give wrong results", file=sys.stderr)
    return 1 if wrong else 0


sys.exit(main())
