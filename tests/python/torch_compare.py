#!/usr/bin/env python3
"""Compares each operator and layer of a network with PyTorch, on random cases.

    PYTHONPATH=build/release/python build/venv-torch-new/bin/python tests/python/torch_compare.py
    ... torch_compare.py --operator conv2d --operator Dense --cases 200
    ... torch_compare.py --operator conv2d --seed 17 --cases 1      one case
    ... torch_compare.py --write                                    the values that CI compares with

Of each case, results, gradients and, in f64, second gradients are compared. A case is made of the operator's name and its
seed alone: the same numbers everywhere. Half of the cases are f32; they are compared with PyTorch in f64. Arguments of
Heddle are strided in two cases of three. A failure says which command runs its case alone. Operators of the table that this
build lacks are skipped and listed. The exit status is 1 if a case failed.

A row for a new operator goes into a file of tests/python/torch_cases; table.py there says how. Then --write it.
"""

import argparse
import concurrent.futures
import multiprocessing
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

CHUNK = 250  # cases of one operator that a process does in one piece
BATCH = 25  # cases that are pushed before the first is waited for


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operator", action="append", metavar="NAME", help="only this one; may be given several times")
    parser.add_argument("--cases", type=int, default=100, metavar="N", help="cases of each operator (100)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first case's seed (0)")
    parser.add_argument("--schedulers", default="threaded", metavar="LIST",
                        help="of the engine, with commas: threaded, naive, fuzz:SEED. The cases are divided among them.")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="processes (one for each core)")
    parser.add_argument("--failures", type=int, default=3, metavar="N", help="failures that are printed of each operator (3)")
    parser.add_argument("--list", action="store_true", help="lists the operators and layers of the table, and ends")
    parser.add_argument("--write", action="store_true", help="writes what CI compares with, into torch_cases/kept")
    return parser.parse_args()


def prepare():
    """Each process has one core: PyTorch gets one thread."""
    import torch

    torch.set_num_threads(1)


def run_chunk(name, scheduler, seeds):
    import heddle
    from torch_cases import check

    kind, _, seed = scheduler.partition(":")
    failures = []
    with heddle.Engine(workers=1, scheduler=kind, **({"seed": int(seed)} if seed else {})):
        for first in range(0, len(seeds), BATCH):
            for number, found in check.compare(name, seeds[first : first + BATCH]):
                if found:
                    failures.append((number, check.describe(name, number), found))
    return failures


def write(name):
    from torch_cases import check

    import torch

    kept = check.kept_lines(name)
    new = [check.kept_line(name, seed) for seed in range(check.KEPT_CASES)]
    lines = [kept[s] if check.same_line(kept.get(s), line) else line for s, line in enumerate(new)]
    if lines == list(kept.values()):
        return False
    check.KEPT.mkdir(exist_ok=True)
    (check.KEPT / f"{name}.txt").write_text(f"# PyTorch {torch.__version__.split('+')[0]}\n" + "\n".join(lines) + "\n")
    return True


def main():
    options = arguments()
    # The processes' engines are made in run_chunk.
    os.environ.setdefault("HEDDLE_WORKERS", "1")
    import torch_cases

    names = options.operator or list(torch_cases.TABLE)
    unknown = [name for name in names if name not in torch_cases.TABLE]
    if unknown:
        sys.exit(f"no row for {', '.join(unknown)}; --list lists those there are")
    if options.list:
        for name in names:
            print(name, "" if torch_cases.exists(torch_cases.TABLE[name]) else "(not in this build)")
        return 0
    try:
        import torch
    except ImportError:
        sys.exit("this Python has no PyTorch; tools/test --nightly installs one into build/venv-torch-new")

    skipped = [name for name in names if not torch_cases.exists(torch_cases.TABLE[name])]
    pool = concurrent.futures.ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn"), prepare)
    begin = time.monotonic()
    if options.write:
        written, wrong = [], []
        for name, future in [(name, pool.submit(write, name)) for name in names]:
            try:
                written += [name] if future.result() else []
            except Exception as error:  # noqa: BLE001: the other operators are written all the same
                wrong.append(name)
                print(f"{name}: {type(error).__name__}: {error}")
        print(f"{len(written)} of {len(names)} files written", *written)
        return 1 if wrong else 0
    print(f"PyTorch {torch.__version__}, {options.cases} cases of each operator from seed {options.seed}", flush=True)
    schedulers = options.schedulers.split(",")
    tasks = {}
    for name in names:
        if name in skipped:
            continue
        for i, first in enumerate(range(options.seed, options.seed + options.cases, CHUNK)):
            seeds = range(first, min(first + CHUNK, options.seed + options.cases))
            if len(schedulers) > 1 and options.cases <= CHUNK:  # too few to divide by chunks
                for j, scheduler in enumerate(schedulers):
                    part = seeds[j :: len(schedulers)]
                    tasks[pool.submit(run_chunk, name, scheduler, part)] = (name, scheduler, len(part))
            else:
                scheduler = schedulers[i % len(schedulers)]
                tasks[pool.submit(run_chunk, name, scheduler, seeds)] = (name, scheduler, len(seeds))
    return report(options, tasks, skipped, begin)


def report(options, tasks, skipped, begin):
    total, done, failed, said = sum(t[2] for t in tasks.values()), 0, {}, begin
    for future in concurrent.futures.as_completed(tasks):
        name, scheduler, count = tasks[future]
        done += count
        for seed, what, found in future.result():
            failed[name] = failed.get(name, 0) + 1
            if failed[name] > options.failures:
                continue
            print(f"FAILED {what}, scheduler {scheduler}")
            for line in found:
                print(f"    {line}")
            extra = "" if scheduler == "threaded" else f" --schedulers {scheduler}"
            print(f"    again: {sys.executable} tests/python/torch_compare.py --operator {name} --seed {seed} --cases 1{extra}", flush=True)
        if time.monotonic() - said > 20:
            said = time.monotonic()
            print(f"{done} of {total} cases, {done / (said - begin):.0f} a second, {sum(failed.values())} failed", flush=True)
    if skipped:
        print("not in this build:", ", ".join(skipped))
    for name, count in sorted(failed.items()):
        print(f"{name}: {count} failed")
    seconds = time.monotonic() - begin
    print(f"{done} cases in {seconds:.0f} s, {sum(failed.values())} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
