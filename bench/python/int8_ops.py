#!/usr/bin/env python3
"""Layers in 8-bit integers beside their own f32, and beside PyTorch's quantized layers, in one process in turns.

    HEDDLE_WORKERS=1 PYTHONPATH=build/release/python build/venv-torch-new/bin/python bench/python/int8_ops.py [--filter TEXT]

Both take f32 and give f32. PyTorch's part is quantize_per_tensor, the layer, dequantize, by its engine for x86 (torch.ao); a build without it
leaves the column empty. Each figure is the smallest time of --rounds rounds; a ratio above 1: Heddle in 8 bits is faster.
"""

import argparse
import os
import sys
import time

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "268435456"}
if not set(KEEP_MEMORY) <= set(os.environ):
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP_MEMORY})

import numpy as np  # noqa: E402
import torch  # noqa: E402

import heddle  # noqa: E402

CASES = {
    "dense 512 -> 512, batch 64": ((64, 512), ("Dense", 512, 512)),
    "dense 1024 -> 4096, batch 256": ((256, 1024), ("Dense", 1024, 4096)),
    "dense 1024 -> 4096, batch 1": ((1, 1024), ("Dense", 1024, 4096)),
    "conv2d 3 x 3, 64 channels, 56 x 56, batch 8": ((8, 64, 56, 56), ("Conv2d", 64, 64, 3, 1)),
    "conv2d 3 x 3, 256 channels, 14 x 14, batch 8": ((8, 256, 14, 14), ("Conv2d", 256, 256, 3, 1)),
    "conv2d 1 x 1, 64 -> 256 channels, 56 x 56, batch 8": ((8, 64, 56, 56), ("Conv2d", 64, 256, 1, 0)),
    "conv2d 3 x 3, 32 channels, 28 x 28, batch 100": ((100, 32, 28, 28), ("Conv2d", 32, 32, 3, 1)),
}


def made(kind, inputs, outputs, kernel=None, padding=None):
    """The layer in f32 and in 8 bits, and PyTorch's in f32."""
    if kind == "Dense":
        return [heddle.Dense(inputs, outputs) for _ in range(2)], torch.nn.Linear(inputs, outputs)
    return ([heddle.Conv2d(inputs, outputs, kernel, padding=padding) for _ in range(2)],
            torch.nn.Conv2d(inputs, outputs, kernel, padding=padding))  # fmt: skip


def of_torch(layer, x):
    """PyTorch's layer in 8 bits; None where this build has no such engine."""
    try:
        torch.backends.quantized.engine = "x86" if "x86" in torch.backends.quantized.supported_engines else "onednn"
        from torch.ao.quantization import get_default_qconfig, prepare, convert, QuantStub, DeQuantStub

        net = torch.nn.Sequential(QuantStub(), layer, DeQuantStub()).eval()
        net.qconfig = get_default_qconfig(torch.backends.quantized.engine)
        prepare(net, inplace=True)
        net(x)
        convert(net, inplace=True)
        net(x)
        return net
    except (AttributeError, ImportError, RuntimeError) as error:
        print(f"PyTorch in 8 bits: {str(error).splitlines()[0]}", file=sys.stderr)
        return None


def smallest(calls, rounds):
    times = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, call in enumerate(calls):
            if call is None:
                continue
            begin = time.perf_counter()
            call()
            times[i] = min(times[i], time.perf_counter() - begin)
    return [1e3 * one for one in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("HEDDLE_WORKERS", os.cpu_count())))
    print(f"{'':52} {'f32 ms':>9} {'8 bits ms':>9} {'ratio':>6} {'PyTorch ms':>10} {'ratio':>6}")
    for name, (shape, arguments) in CASES.items():
        if options.filter not in name:
            continue
        values = np.random.default_rng(1).standard_normal(shape, np.float32)
        x, y = heddle.array(values), torch.from_numpy(values.copy())
        (plain, other), layer = made(*arguments)
        other = heddle.Sequential(other)
        other.train(False)
        heddle.quantize(other, [x])
        theirs = of_torch(layer, y)
        with heddle.no_grad(), torch.no_grad():
            calls = [lambda: plain(x).wait(), lambda: other(x).wait(), theirs and (lambda: theirs(y))]
            own, eight, peer = smallest(calls, options.rounds)
        print(f"{name:52} {own:9.3f} {eight:9.3f} {own / eight:6.2f} {peer:10.3f} {peer / eight:6.2f}")


if __name__ == "__main__":
    main()
