#!/usr/bin/env python3
"""Processes that train a CNN in PyTorch: heddle.torch beside DistributedDataParallel over gloo, and each for itself.

    PYTHONPATH=build/release/python build/venv-torch/bin/python bench/python/torch_ddp.py [--json FILE]

Subjects take turns, with new processes of one thread each for every round, after one round that is not measured. Each
process stays on a core of its own. Figures are medians, in images a second of all processes together.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "train" / "train_torch.py"
SUBJECTS = {"heddle.torch": ["--heddle"], "DDP over gloo": ["--ddp"], "alone": []}
FIRST = 5  # unmeasured first steps, which allocate and touch memory
# Without these settings glibc maps, faults in and unmaps every large tensor.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    "MALLOC_TOP_PAD_": str(1 << 28),
}


def start(stack, options, arguments, rank, place):
    core = sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]
    environment = {
        **os.environ,
        **MALLOC,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "HEDDLE_WORKERS": "1",
        "HEDDLE_RENDEZVOUS": f"unix:{place}/heddle",
        "TRAIN_TORCH_FILE": f"{place}/gloo",
    }
    job = {"RANK": rank, "WORLD_SIZE": options.ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": options.ranks}
    command = [sys.executable, PROGRAM, "--threads", "1", "--batch", str(options.batch), *arguments]
    if options.channels_last:
        command.append("--channels-last")
    process = subprocess.Popen(
        command,
        env={**environment, **{name: str(value) for name, value in job.items()}},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    stack.enter_context(process)
    stack.callback(process.kill)
    return process


def train(processes, steps):
    """Images a second of all processes, and the loss of the first."""
    for process in processes:
        process.stdin.write(f"{steps}\n")
        process.stdin.flush()
    answers = [process.stdout.readline().split() for process in processes]
    if not all(answers):
        sys.exit("a process has ended; its messages are above")
    return sum(float(rate) for rate, _ in answers), float(answers[0][1])


def one_round(options, arguments):
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        processes = [start(stack, options, arguments, rank, place) for rank in range(options.ranks)]
        train(processes, FIRST)
        return train(processes, options.steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--batch", type=int, default=64, help="images a step and process (default: 64)")
    parser.add_argument("--steps", type=int, default=40, help="steps a measured run (default: 40)")
    parser.add_argument("--runs", type=int, default=11, help="measured rounds (default: 11)")
    parser.add_argument("--channels-last", action="store_true", help="images and weights in this order")
    parser.add_argument("--json", type=argparse.FileType("w"), help="writes one JSON object a line")
    options = parser.parse_args()
    figures = {subject: [] for subject in SUBJECTS}
    for run in range(options.runs + 1):
        losses = {}
        for subject, arguments in SUBJECTS.items():
            rate, losses[subject] = one_round(options, arguments)
            if run:
                figures[subject].append(rate)
        ours, theirs = losses["heddle.torch"], losses["DDP over gloo"]
        if abs(ours - theirs) > 1e-3 * theirs:
            sys.exit(f"the losses differ: heddle.torch {ours}, DDP {theirs}")
    for subject, values in figures.items():
        median = statistics.median(values)
        kept = median / statistics.median(figures["alone"])
        print(f"{subject:14} {median:9,.0f} images/s ({min(values):,.0f} .. {max(values):,.0f}), {kept:6.1%} of alone")
        if options.json:
            row = {"bench": "torch_ddp", "case": "cnn", "subject": subject, "unit": "images/s", "median": median}
            print(json.dumps({**row, "min": min(values), "max": max(values), "runs": options.runs}), file=options.json)
    pairs = zip(figures["heddle.torch"], figures["DDP over gloo"], strict=True)
    ratios = [ours / theirs for ours, theirs in pairs]
    print(f"heddle.torch / DDP, round by round: {statistics.median(ratios):.3f} ({min(ratios):.3f} .. {max(ratios):.3f})")


if __name__ == "__main__":
    main()
