#!/usr/bin/env python3
"""Operators and layers of networks beside PyTorch, forward and with gradients, in one process in turns.

    HEDDLE_WORKERS=1 PYTHONPATH=build/release/python build/venv-torch-new/bin/python bench/python/network_ops.py [--filter TEXT]
    ... --precision bf16     autocast of both to bf16, PyTorch's images channels last; and Heddle's speed over its own f32

PyTorch runs eagerly with as many threads as Heddle has workers. Each figure is the smallest time of --rounds rounds; the ratio
is PyTorch's time divided by Heddle's: above 1 Heddle is faster.
"""

import argparse
import os
import sys
import time

# Without these PyTorch gets new pages from the system for every large result. The C library reads them when it starts.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "268435456"}
if not set(KEEP_MEMORY) <= set(os.environ):
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP_MEMORY})

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import heddle  # noqa: E402

CASES = {}


def case(name):
    return lambda make: CASES.setdefault(name, make)


def pair(*shape):
    values = np.random.default_rng(1).standard_normal(shape, np.float32)
    return heddle.array(values), torch.from_numpy(values.copy())


def layers(ours, theirs):
    """Layers whose sizes are alike; weights are not, which does not change the time."""
    return ours, theirs


@case("lstm 2 x 512, T 64, batch 32")
def _():
    x, y = pair(32, 64, 512)
    ours, theirs = layers(heddle.Lstm(512, 512, 2), torch.nn.LSTM(512, 512, 2, batch_first=True))
    return x, y, ours, lambda y: theirs(y)[0], [p.value for p in ours.parameters()], list(theirs.parameters())


@case("lstm 2 x 512, lengths of 6 to 64")
def _():
    x, y = pair(32, 64, 512)
    lengths = np.random.default_rng(2).integers(6, 33, 32)
    lengths[0] = 64
    ours, theirs = layers(heddle.Lstm(512, 512, 2), torch.nn.LSTM(512, 512, 2, batch_first=True))
    of_heddle, of_torch = heddle.array(lengths), torch.from_numpy(lengths)

    def call(y):
        packed = torch.nn.utils.rnn.pack_padded_sequence(y, of_torch, batch_first=True, enforce_sorted=False)
        return torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)[0]

    return x, y, lambda x: ours(x, lengths=of_heddle), call, [p.value for p in ours.parameters()], list(theirs.parameters())


@case("gru 512, T 64, batch 32")
def _():
    x, y = pair(32, 64, 512)
    ours, theirs = layers(heddle.Gru(512, 512), torch.nn.GRU(512, 512, batch_first=True))
    return x, y, ours, lambda y: theirs(y)[0], [p.value for p in ours.parameters()], list(theirs.parameters())


@case("transformer block 256, 8 heads, T 128, batch 16")
def _():
    x, y = pair(16, 128, 256)
    ours = heddle.TransformerBlock(256, 8, 1024, activation="relu")
    theirs = torch.nn.TransformerEncoderLayer(256, 8, 1024, 0.0, "relu", batch_first=True, norm_first=True)
    return x, y, ours, theirs, [p.value for p in ours.parameters()], list(theirs.parameters())


@case("causal attention, 8 heads of 64, T 2048")
def _():
    x, y = pair(1, 8, 2048, 64)
    return x, y, lambda x: heddle.attention(x, x, x, causal=True), lambda y: F.scaled_dot_product_attention(y, y, y, is_causal=True), [], []


def windows(name, ours, theirs, *shape):
    @case(name)
    def _():
        x, y = pair(*shape)
        return x, y, ours, theirs, [], []


def convolution(name, ours, theirs, shape, weight):
    @case(name)
    def _():
        x, y = pair(*shape)
        w, v = pair(*weight)
        return x, y, lambda x: ours(x, w, padding=1), lambda y: theirs(y, v, padding=1), [w], [v]


convolution("conv2d 3 x 3, 64 channels, 32 x 32, batch 16", heddle.conv2d, F.conv2d, (16, 64, 32, 32), (64, 64, 3, 3))
convolution("conv3d 3 x 3 x 3, 16 channels, 16^3, batch 4", heddle.conv3d, F.conv3d, (4, 16, 16, 16, 16), (16, 16, 3, 3, 3))
convolution("conv_transpose2d 3 x 3, 64 channels, 32 x 32", heddle.conv_transpose2d, F.conv_transpose2d, (16, 64, 32, 32), (64, 64, 3, 3))
convolution("conv2d 3 x 3, 64 channels, 56 x 56, batch 8", heddle.conv2d, F.conv2d, (8, 64, 56, 56), (64, 64, 3, 3))


def product(name, size):
    @case(name)
    def _():
        x, y = pair(size, size)
        w, v = pair(size, size)
        return x, y, lambda x: heddle.matmul(x, w), lambda y: torch.matmul(y, v), [w], [v]


product("matmul 512^3", 512)
product("matmul 2048^3", 2048)


@case("residual block, 64 channels, 56 x 56, batch 8")
def _():
    x, y = pair(8, 64, 56, 56)
    ours = heddle.Sequential(heddle.Conv2d(64, 64, 3, padding=1, bias=False), heddle.BatchNorm(64), heddle.Relu(),
                             heddle.Conv2d(64, 64, 3, padding=1, bias=False), heddle.BatchNorm(64))  # fmt: skip
    conv, norm = (lambda: torch.nn.Conv2d(64, 64, 3, padding=1, bias=False)), torch.nn.BatchNorm2d
    theirs = torch.nn.Sequential(conv(), norm(64), torch.nn.ReLU(inplace=True), conv(), norm(64))
    return (x, y, lambda x: heddle.relu(x + ours(x)), lambda y: F.relu(y + theirs(y)),
            [p.value for p in ours.parameters()], list(theirs.parameters()))  # fmt: skip


windows("max_pool2d 3, stride 2, (16, 64, 64, 64)", lambda x: heddle.max_pool2d(x, 3, 2, 1), lambda y: F.max_pool2d(y, 3, 2, 1), 16, 64, 64, 64)
windows("adaptive_avg_pool2d 1, (16, 64, 64, 64)", lambda x: heddle.adaptive_avg_pool2d(x, 1), lambda y: F.adaptive_avg_pool2d(y, 1), 16, 64, 64, 64)
windows("interpolate linear x 2, (16, 64, 32, 32)", lambda x: heddle.interpolate(x, scale=2.0, mode="linear"),
        lambda y: F.interpolate(y, scale_factor=2.0, mode="bilinear"), 16, 64, 32, 32)  # fmt: skip
windows("layer_norm of 256, 2,048 rows", lambda x: heddle.layer_norm(x), lambda y: F.layer_norm(y, (256,)), 2048, 256)
windows("gelu, (64, 256, 32, 32)", heddle.gelu, F.gelu, 64, 256, 32, 32)


@case("ctc_loss, T 200, batch 32, 100 classes")
def _():
    x, y = pair(200, 32, 100)
    targets = np.random.default_rng(3).integers(1, 100, (32, 40))
    a = [heddle.array(targets), heddle.full(32, 200, dtype="i64"), heddle.full(32, 40, dtype="i64")]
    b = [torch.from_numpy(targets), torch.full((32,), 200), torch.full((32,), 40)]
    return x, y, lambda x: heddle.ctc_loss(heddle.log_softmax(x), *a), lambda y: F.ctc_loss(F.log_softmax(y, -1), *b), [], []


def forward_of_heddle(call, x):
    with heddle.no_grad():
        call(x).wait()


def gradients_of_heddle(call, x, weights):
    heddle.grad([call(x).sum()], [x, *weights])[-1].wait()
    x.wait()
    heddle.wait_all()


def forward_of_torch(call, y):
    with torch.inference_mode():
        call(y)


def gradients_of_torch(call, y, weights):
    torch.autograd.grad(call(y).sum(), [y, *weights])


def fastest(runs, rounds):
    """The smallest time of each, which take turns."""
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        for i, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def in_bf16(ours, theirs):
    """The same calls with autocast to bf16."""

    def call(x):
        with heddle.autocast("bf16"):
            return ours(x)

    def torch_call(y):
        with torch.autocast("cpu", torch.bfloat16):
            return theirs(y)

    return call, torch_call


def compare_bf16(options):
    print("| What | Heddle bf16, forward | over its f32 | PyTorch bf16 | over its f32 | Ratio | with gradients | over its f32 | PyTorch bf16 | over its f32 | Ratio |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, make in CASES.items():
        if options.filter not in name:
            continue
        x, y, ours, theirs, weights, torch_weights = make()
        if y.ndim == 4 and not name.startswith(("causal", "gelu")):
            y = y.contiguous(memory_format=torch.channels_last)
            for weight in torch_weights:
                if weight.ndim == 4:
                    weight.data = weight.data.contiguous(memory_format=torch.channels_last)
        for leaf in [x, *weights]:
            leaf.requires_grad = True
        for leaf in [y, *torch_weights]:
            leaf.requires_grad_(True)
        call, torch_call = in_bf16(ours, theirs)
        forward = fastest([lambda: forward_of_heddle(call, x), lambda: forward_of_heddle(ours, x),
                           lambda: forward_of_torch(torch_call, y), lambda: forward_of_torch(theirs, y)], options.rounds)  # fmt: skip
        both = fastest([lambda: gradients_of_heddle(call, x, weights), lambda: gradients_of_heddle(ours, x, weights),
                        lambda: gradients_of_torch(torch_call, y, torch_weights), lambda: gradients_of_torch(theirs, y, torch_weights)], options.rounds)  # fmt: skip
        cells = []
        for h, h32, t, t32 in (forward, both):
            cells += [f"{h * 1e3:.2f}", f"{h32 / h:.2f}", f"{t * 1e3:.2f}", f"{t32 / t:.2f}", f"{t / h:.2f}"]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    options = parser.parse_args()
    workers = int(os.environ.get("HEDDLE_WORKERS", "1"))
    torch.set_num_threads(workers)
    print(f"PyTorch {torch.__version__}, {workers} threads, minima of {options.rounds} rounds in ms\n")
    if options.precision == "bf16":
        return compare_bf16(options)
    print("| What | Heddle, forward | PyTorch | Ratio | Heddle, with gradients | PyTorch | Ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, make in CASES.items():
        if options.filter not in name:
            continue
        x, y, ours, theirs, weights, torch_weights = make()
        for leaf in [x, *weights]:
            leaf.requires_grad = True
        for leaf in [y, *torch_weights]:
            leaf.requires_grad_(True)
        f1, f2 = fastest([lambda: forward_of_heddle(ours, x), lambda: forward_of_torch(theirs, y)], options.rounds)
        g1, g2 = fastest([lambda: gradients_of_heddle(ours, x, weights), lambda: gradients_of_torch(theirs, y, torch_weights)], options.rounds)
        print(f"| {name} | {f1 * 1e3:.2f} | {f2 * 1e3:.2f} | {f2 / f1:.2f} | {g1 * 1e3:.2f} | {g2 * 1e3:.2f} | {g2 / g1:.2f} |", flush=True)


if __name__ == "__main__":
    main()
