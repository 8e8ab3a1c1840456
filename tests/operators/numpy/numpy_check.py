"""numpy_check.py DRIVER [--every N]: runs the cases of every numpy_cases_*.py beside this file, or each Nth of them, and
compares with NumPy.

A case is the name of an operator, its inputs, arguments by keyword and the result that NumPy gives.
Integers and bools must be equal, f16 within its last bit, f32 within 1e-5 and f64 within 1e-12 of
each element.
"""
import importlib
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from numpy_case import VIEWS, load_expressions

TOLERANCE = {np.dtype(np.float16): 1e-3, np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}


def all_cases():
    here = pathlib.Path(__file__).parent
    for path in sorted(here.glob("numpy_cases_*.py")):
        yield from importlib.import_module(path.stem).cases(np.random.default_rng(20240607))


def line_of(case, number, folder):
    words = [case.operator, f"out={folder}/{number}.out.npy"]
    for index, given in enumerate(case.inputs):
        array, view = given if isinstance(given, tuple) else (given, "")
        path = f"{folder}/{number}.{index}.npy"
        np.save(path, array)
        words.append(f"in={path}:{view}" if view else f"in={path}")
    for key, value in case.attributes.items():
        text = ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
        words.append(f"{key}={text}")
    return " ".join(words)


def difference(case, result):
    expected = np.asarray(case.expected)
    if result.dtype != expected.dtype:
        return f"dtype {result.dtype}, expected {expected.dtype}"
    if result.shape != expected.shape:
        return f"shape {result.shape}, expected {expected.shape}"
    relative = TOLERANCE.get(expected.dtype, 0)
    absolute = relative * case.scale
    if np.allclose(result, expected, rtol=relative, atol=absolute, equal_nan=relative > 0):
        return None
    wide = np.float64
    worst = np.nanmax(np.abs(result.astype(wide) - expected.astype(wide)))
    return f"largest difference {worst}:\n{result}\nexpected\n{expected}"


def describe(case):
    shapes = []
    for given in case.inputs:
        array, view = given if isinstance(given, tuple) else (given, "")
        shapes.append(f"{array.dtype}{array.shape}{':' + view if view else ''}")
    return f"{case.operator}({', '.join(shapes)}, {case.attributes})"


def main():
    every = int(sys.argv[3]) if sys.argv[2:3] == ["--every"] else 1
    load_expressions(sys.argv[1])
    cases = list(all_cases())[::every]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        lines = [line_of(case, number, folder) for number, case in enumerate(cases)]
        script = pathlib.Path(folder, "cases")
        script.write_text("\n".join(lines) + "\n")
        run = subprocess.run([sys.argv[1], script], capture_output=True, text=True)
        answers = run.stdout.splitlines()
        if run.returncode != 0 or len(answers) != len(cases):
            sys.exit(f"driver ended with {run.returncode} after {len(answers)} of {len(cases)} cases\n{run.stderr}")
        for number, (case, answer) in enumerate(zip(cases, answers)):
            if case.expected is None:
                wrong = None if answer.startswith(f"error: {case.operator}: ") else f"{answer}, where NumPy refuses"
            else:
                wrong = answer if answer != "ok" else difference(case, np.load(f"{folder}/{number}.out.npy"))
            if wrong:
                failures += 1
                print(f"{describe(case)}: {wrong}")
    print(f"{len(cases)} cases with views {', '.join(VIEWS)}, {failures} wrong")
    sys.exit(1 if failures or not cases else 0)


if __name__ == "__main__":
    main()
