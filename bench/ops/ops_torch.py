"""The peer of ops_bench: the same operators in PyTorch. For every line "CASE CALLS" on stdin it prints microseconds a call."""
import sys
import time

import torch


def cases():
    generator = torch.Generator().manual_seed(1)

    def numbers(*shape, dtype=torch.float32):
        return torch.rand(*shape, generator=generator, dtype=dtype) * 2 - 1

    rows, square = numbers(256, 1000), numbers(1000, 1000)
    doubles, singles = numbers(512, 512, dtype=torch.float64), numbers(512, 512)
    systems = numbers(64, 32, 32, dtype=torch.float64) + 8 * torch.eye(32, dtype=torch.float64)
    large = numbers(200, 200, dtype=torch.float64) + 8 * torch.eye(200, dtype=torch.float64)
    heads = numbers(4, 8, 128, 64)
    return {
        "softmax": lambda: torch.softmax(rows, 1),
        "log_softmax": lambda: torch.log_softmax(rows, 1),
        "sum_axis_1": lambda: torch.sum(square, 1),
        "sum_axis_0": lambda: torch.sum(square, 0),
        "tanh": lambda: torch.tanh(square),
        "matmul_f32": lambda: torch.matmul(singles, singles),
        "matmul_f64": lambda: torch.matmul(doubles, doubles),
        "einsum_heads": lambda: torch.einsum("bhqd,bhkd->bhqk", heads, heads),
        "solve_batch": lambda: torch.linalg.solve(systems, systems),
        "inv": lambda: torch.linalg.inv(large),
        "svd": lambda: torch.linalg.svd(large),
        "eigh": lambda: torch.linalg.eigh(large),
        "qr": lambda: torch.linalg.qr(large),
    }


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.set_grad_enabled(False)
    functions = cases()
    for line in sys.stdin:
        name, calls = line.split()
        function, calls = functions[name], int(calls)
        start = time.perf_counter()
        for _ in range(calls):
            function()
        print((time.perf_counter() - start) / calls * 1e6, flush=True)


if __name__ == "__main__":
    main()
