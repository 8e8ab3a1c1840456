#!/usr/bin/env python3
"""What calls from Python cost: ops against a thread pool, operators on tiny arrays against NumPy, C++ and PyTorch,
DLPack, the import.

    PYTHONPATH=build/release/python python bench/python/dispatch.py [--cxx PROGRAM] [--torch PYTHON] [--json FILE]

Subjects take turns; each figure is the median of seven runs after a warm-up, with the smallest beside it.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import heddle

RUNS = 7


def nothing():
    pass


def subjects():
    engine = heddle.Engine(workers=1)
    var = engine.new_var()
    pool = ThreadPoolExecutor(1)
    x, y = heddle.ones(1), heddle.ones(1)
    a, b = np.ones(1, np.float32), np.ones(1, np.float32)

    def push_and_wait(count):
        for _ in range(count):
            engine.push(nothing, mutate=[var])
            engine.wait(var)

    def submit_and_result(count):
        for _ in range(count):
            pool.submit(nothing).result()

    def push_many(count):
        for _ in range(count):
            engine.push(nothing, mutate=[var])
        engine.wait(var)

    def submit_many(count):
        for future in [pool.submit(nothing) for _ in range(count)]:
            future.result()

    def add(count):
        for _ in range(count):
            z = x + y
        z.wait()

    def add_function(count):
        for _ in range(count):
            z = heddle.add(x, y)
        z.wait()

    def add_numpy(count):
        for _ in range(count):
            a + b

    lent = heddle.ones(3)
    address = lent.numpy().ctypes.data

    def round_trip(count):
        for _ in range(count):
            back = heddle.from_dlpack(lent.__dlpack__(max_version=(1, 1)))
        assert back.numpy().ctypes.data == address

    def from_dlpack(count):
        for _ in range(count):
            heddle.from_dlpack(lent)

    def lend_to_numpy(count):
        for _ in range(count):
            np.from_dlpack(lent)

    return {
        ("push, wait", "heddle"): (push_and_wait, 2000),
        ("push, wait", "ThreadPoolExecutor"): (submit_and_result, 2000),
        ("pushes, wait", "heddle"): (push_many, 5000),
        ("pushes, wait", "ThreadPoolExecutor"): (submit_many, 5000),
        ("x + y of one element", "heddle"): (add, 5000),
        ("x + y of one element", "numpy"): (add_numpy, 5000),
        ("add(x, y) of one element", "heddle"): (add_function, 5000),
        ("__dlpack__ and from_dlpack", "heddle"): (round_trip, 5000),
        ("from_dlpack(x)", "heddle"): (from_dlpack, 5000),
        ("np.from_dlpack(x)", "heddle"): (lend_to_numpy, 5000),
    }


def timed(function, count):
    begin = time.perf_counter_ns()
    function(count)
    return (time.perf_counter_ns() - begin) / count


def import_time(module):
    begin = time.perf_counter_ns()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter_ns() - begin


def resident(module):
    """Resident KiB of a process that has imported the module."""
    program = f"import {module}\nfor l in open('/proc/self/status'):\n if l.startswith('VmRSS'): print(l.split()[1])"
    return float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)


TORCH = """
import time, torch
torch.set_num_threads(1)
x, y = torch.ones(1), torch.ones(1)
for _ in range(2):
    begin = time.perf_counter_ns()
    for _ in range(5000): x + y
    print((time.perf_counter_ns() - begin) / 5000)
"""


def printed_by(command):
    """The last number that the command prints."""
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=argparse.FileType("w"), help="writes one JSON object a line")
    parser.add_argument("--cxx", metavar="PROGRAM", help="build/release/bin/add_bench: x + y in C++")
    parser.add_argument("--torch", metavar="PYTHON", help="one that can import torch: x + y in PyTorch")
    options = parser.parse_args()
    cases = subjects()
    programs = {}
    if options.cxx:
        programs["x + y of one element", "heddle, C++"] = [options.cxx, "5000"]
    if options.torch:
        programs["x + y of one element", "torch"] = [options.torch, "-c", TORCH]
    figures = {case: [] for case in [*cases, *programs]}
    for run in range(RUNS + 1):
        for case, (function, count) in cases.items():
            figure = timed(function, count)
            if run:
                figures[case].append(figure)
        for case, command in programs.items():
            figure = printed_by(command)
            if run:
                figures[case].append(figure)
    units = dict.fromkeys(figures, "ns")
    for module in ("heddle", "numpy", "json"):
        figures["import", module] = [import_time(module) for _ in range(RUNS)]
        figures["resident after import", module] = [resident(module) for _ in range(RUNS)]
        units["resident after import", module] = "KiB"
    for (case, subject), values in figures.items():
        median, unit = statistics.median(values), units.get((case, subject), "ns")
        print(f"{case:28} {subject:20} {median:14,.0f} {unit:4} least {min(values):14,.0f}")
        if options.json:
            row = {"bench": "python", "case": case, "subject": subject, "unit": unit, "median": median}
            print(json.dumps({**row, "min": min(values), "max": max(values), "runs": RUNS}), file=options.json)


if __name__ == "__main__":
    main()
