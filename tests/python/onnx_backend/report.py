"""The page docs/onnx.md: what passes of ONNX's node cases, and what the rest needs."""

import collections
from collections.abc import Sequence

import onnx

from .cases import RANDOM_NUMBERS, ROUNDING, Result, all_results, count_missing, node_cases, results_of
from heddle.onnx.table import TABLE

PAGE = """\
# ONNX

This page is for those who want to run ONNX models with Heddle, or who look for the next operator to write. It counts
which of the node cases of onnx {version} pass, within ONNX's tolerances, on the backend in `tests/python/onnx_backend`.
`python -m onnx_backend --markdown` writes the page, and a test fails if it is out of date. [Python](python.md#onnx)
shows how to use the backend.

**{passed} of {cases} cases pass.** The other {rest} need something that is missing. {wrong}

- The backend's table has {entries} of ONNX's operators: those of Heddle, and short compositions of them. Others are
  replaced by their definitions in ONNX's specification where it has one, as for `Attention`. Then what such a
  definition lacks is missing.
- `If`, `Loop` and `Scan` are Python: Heddle needs no operators for control flow. So are the steps of `RNN`, `GRU` and
  `LSTM`, and the choice of `NonMaxSuppression`.
- The cases of a definition itself ("_expanded") are counted with the operator that is defined.
- A case is left out only for what the code finds: an operator that is not in the table, a dtype that Heddle does not
  have, or an option that an entry of the table refuses. A case that needs none of these has to pass.
- "{rounding}": a result in f16 and the values that ONNX wants are both within the tolerances of what the
  model gives in f64, but not of each other.
- "{random_numbers}": with one seed Heddle draws other numbers than NumPy, which ONNX wants there.

Contents: [What is missing](#what-is-missing) · [Operators](#operators)

## What is missing

*Alone* counts the cases that lack nothing else. Options are found out when a case runs, so that a case that lacks an
operator or a dtype is not counted with them.

{missing}

## Operators

{operators}
"""


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def operator_row(operator: str, results: Sequence[Result]) -> list[object]:
    counts = count_missing(results)
    needs = [f"{what} ({count})" for what, count in counts.items() if not what.startswith("dtype ")]
    dtypes = [f"{what.removeprefix('dtype ')} ({count})" for what, count in counts.items() if what.startswith("dtype ")]
    if dtypes:
        needs.append(("dtype " if len(dtypes) == 1 else "dtypes ") + ", ".join(dtypes))
    if wrong := sum(bool(result.error) for result in results):
        needs.append(f"wrong results ({wrong})")
    return [f"`{operator}`", len(results), sum(result.passed for result in results), "; ".join(needs) or "-"]


def page() -> str:
    results = all_results()
    passed = sum(result.passed for result in results)
    wrong = sum(bool(result.error) for result in results)
    alone = collections.Counter(result.missing[0] for result in results if len(result.missing) == 1)
    missing = [[what, count, alone[what]] for what, count in count_missing(results).items()]
    return PAGE.format(
        version=onnx.__version__,
        rounding=ROUNDING,
        random_numbers=RANDOM_NUMBERS,
        cases=len(results),
        passed=passed,
        rest=len(results) - passed - wrong,
        wrong=f"Wrong results: {wrong}." if wrong else "None gives a wrong result.",
        entries=len(TABLE),
        missing=table(["Missing", "Cases", "Alone"], missing),
        operators=table(
            ["Operator", "Cases", "Pass", "What the rest needs"],
            [operator_row(operator, results_of(operator)) for operator in node_cases()],
        ),
    )
