#!/usr/bin/env python3
"""What calls from Python cost: ops against a thread pool, operators on tiny arrays against NumPy, the import.

    PYTHONPATH=build/release/python python bench/python/dispatch.py [--json FILE]

Subjects take turns; each figure is the median of seven runs after a warm-up, in nanoseconds.
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

    return {
        ("push, wait", "heddle"): (push_and_wait, 2000),
        ("push, wait", "ThreadPoolExecutor"): (submit_and_result, 2000),
        ("pushes, wait", "heddle"): (push_many, 5000),
        ("pushes, wait", "ThreadPoolExecutor"): (submit_many, 5000),
        ("x + y of one element", "heddle"): (add, 5000),
        ("x + y of one element", "numpy"): (add_numpy, 5000),
        ("add(x, y) of one element", "heddle"): (add_function, 5000),
    }


def timed(function, count):
    begin = time.perf_counter_ns()
    function(count)
    return (time.perf_counter_ns() - begin) / count


def import_time(module):
    begin = time.perf_counter_ns()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter_ns() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=argparse.FileType("w"), help="writes one JSON object a line")
    options = parser.parse_args()
    cases = subjects()
    figures = {case: [] for case in cases}
    for run in range(RUNS + 1):
        for case, (function, count) in cases.items():
            figure = timed(function, count)
            if run:
                figures[case].append(figure)
    for module in ("heddle", "numpy", "json"):
        figures["import", module] = [import_time(module) for _ in range(RUNS)]
    for (case, subject), values in figures.items():
        median = statistics.median(values)
        print(f"{case:28} {subject:20} {median:14,.0f} ns")
        if options.json:
            row = {"bench": "python", "case": case, "subject": subject, "unit": "ns", "median": median}
            print(json.dumps({**row, "min": min(values), "max": max(values), "runs": RUNS}), file=options.json)


if __name__ == "__main__":
    main()
