#!/usr/bin/env python3
"""Memory and time of a training step of 12 transformer blocks, with all activations kept and with blocks that are recomputed.

    HEDDLE_WORKERS=1 PYTHONPATH=build/release/python build/venv-torch-new/bin/python bench/python/recompute.py

Blocks of 256 features and 8 heads, batch 16 of 256 steps, SGD. Each setting runs in a process of its own. Its memory is the growth
of the largest resident memory behind the first use of the library; PyTorch runs eagerly with torch.utils.checkpoint.
"""

import argparse
import os
import subprocess
import sys
import time

BLOCKS, FEATURES, HEADS, BATCH, STEPS = 12, 256, 8, 16, 256
SETTINGS = ("heddle", "heddle recompute", "pytorch", "pytorch recompute")


def resident_mebibytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))


def heddle_step(recompute):
    import heddle

    blocks = [heddle.TransformerBlock(FEATURES, HEADS, causal=True) for _ in range(BLOCKS)]
    trainer = heddle.Trainer(heddle.Sequential(*blocks).parameters(), "sgd", {"lr": 0.01})
    x = heddle.random.normal(size=(BATCH, STEPS, FEATURES))
    calls = [heddle.recompute(block) if recompute else block for block in blocks]

    def step():
        y = x
        for call in calls:
            y = call(y)
        loss = heddle.mean(heddle.square(y))
        loss.backward()
        trainer.step()
        return float(loss)

    return step


def torch_step(recompute, threads):
    import torch
    from torch.utils.checkpoint import checkpoint

    torch.set_num_threads(threads)
    layer = dict(dim_feedforward=4 * FEATURES, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    blocks = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(FEATURES, HEADS, **layer) for _ in range(BLOCKS))
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.01)
    x = torch.randn(BATCH, STEPS, FEATURES)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(STEPS)

    def step():
        optimizer.zero_grad()
        y = x
        for block in blocks:
            call = lambda y, block=block: block(y, src_mask=mask, is_causal=True)  # noqa: E731
            y = checkpoint(call, y, use_reentrant=False) if recompute else call(y)
        loss = y.square().mean()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def measure(setting, runs):
    threads = int(os.environ.get("HEDDLE_WORKERS", os.cpu_count()))
    recompute = setting.endswith("recompute")
    step = heddle_step(recompute) if setting.startswith("heddle") else torch_step(recompute, threads)
    before = resident_mebibytes()
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(resident_mebibytes() - before, min(times[1:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="measured steps; the fastest counts")
    parser.add_argument("--child", choices=SETTINGS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure(options.child, options.runs)
        return
    print(f"{BLOCKS} blocks, {FEATURES} features, batch {BATCH} x {STEPS}\n\n| | MiB | of all kept | s a step | of all kept |\n|---|---|---|---|---|")
    kept = None
    for setting in SETTINGS:
        command = [sys.executable, __file__, "--child", setting, "--runs", str(options.runs)]
        memory, seconds = map(float, subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split())
        if not setting.endswith("recompute"):
            kept = memory, seconds
        print(f"| {setting} | {memory:.0f} | {memory / kept[0]:.2f} | {seconds:.2f} | {seconds / kept[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
