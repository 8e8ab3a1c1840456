"""The kernels and ops of gpu_bench in PyTorch, under the same names. tools/gpu-check runs it where python3 can import torch."""

import statistics
import sys
import time

import torch

RUNS = 7
CALLS = 10  # between two events, as in gpu_bench


def device_seconds(call):
    """The median of the device's times for a call."""
    values = []
    for _ in range(RUNS + 1):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(CALLS):
            call()
        end.record()
        torch.cuda.synchronize()
        values.append(start.elapsed_time(end) / 1e3 / CALLS)
    return statistics.median(values[1:])


def show(name, value, unit, ratio=None):
    end = "" if ratio is None else f" {ratio:7.3f} of copy_within_device"
    print(f"{name:34} {value:12.4g} {unit:9}{end}", flush=True)


def kernels():
    free, _ = torch.cuda.mem_get_info()
    size = min(1 << 30, (free // 12) >> 20 << 20)
    x = torch.full((size // 4,), 1.5, device="cuda")
    y = torch.full_like(x, 1.5)
    for _ in range(500):  # GPUs that were idle are slow for some tenths of a second
        torch.neg(x, out=y)
    side = 1
    while 4 * side * side <= x.numel():
        side *= 2
    matrix, square = x[: side * side].view(side, side), 8.0 * side * side
    rate = 2.0 * size / device_seconds(lambda: y.copy_(x))
    show("copy_within_device", rate / 1e9, "GB/s")
    for name, moved, call in [
        ("relu", 2 * size, lambda: torch.relu(x)),
        ("exp", 2 * size, lambda: torch.exp(x)),
        ("add", 3 * size, lambda: x + y),
        ("add_number", 2 * size, lambda: x + 2.5),
        ("less", 2.25 * size, lambda: x < y),
        ("astype_f16", 1.5 * size, lambda: x.half()),
        ("copy", 2 * size, x.clone),
        ("copy_transposed", square, lambda: matrix.t().contiguous()),
        ("copy_every_second", 1.5 * size, lambda: x[::2].contiguous()),
        ("add_row", square, lambda: matrix + x[:side]),
        ("add_column", square, lambda: matrix + x[:side].view(side, 1)),
        ("sum", size, x.sum),
        ("softmax", square, lambda: torch.softmax(matrix, -1)),
    ]:
        try:
            got = moved / device_seconds(call)
            show(name, got / 1e9, "GB/s", got / rate)
        except RuntimeError as error:  # others may still be measured
            print(f"{name:34} FAILED: {error}", flush=True)


def ops():
    x, count = torch.full((256,), 1.5, device="cuda"), 2000
    pushed, ended, waited = [], [], []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        for _ in range(count):
            torch.neg(x)
        pushed.append(time.perf_counter() - start)
        torch.cuda.synchronize()
        ended.append(time.perf_counter() - start)
        start = time.perf_counter()
        torch.neg(x)
        torch.cuda.synchronize()
        waited.append(time.perf_counter() - start)
    show("small_op_push", statistics.median(pushed[1:]) / count * 1e9, "ns")
    show("small_op_end", statistics.median(ended[1:]) / count * 1e9, "ns")
    show("small_op_push_and_wait", statistics.median(waited[1:]) * 1e6, "us")


if __name__ == "__main__":
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}", flush=True)
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU")
    ops()
    kernels()
