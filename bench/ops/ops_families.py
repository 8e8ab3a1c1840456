"""The peer of ops_bench --families. A line "ROWS COLUMNS LAYOUT" makes the operands; a line "CALLS EXPRESSION" prints
microseconds a call of the expression, in which x and y are f32, i holds whole numbers below 1,000 and m is a mask."""
import sys
import time

import numpy as np
import torch


def operands(rows, columns, layout):
    generator = torch.Generator().manual_seed(1)
    width = 2 * columns if layout == "strided" else columns
    x, y = (torch.rand(rows, width, generator=generator) * 0.8 + 0.1 for _ in "xy")
    if layout == "strided":
        x, y = x[:, ::2], y[:, ::2]
    if layout == "broadcast":
        y = y[:1]
    i = torch.randint(0, min(1000, rows * columns), (rows, columns), generator=generator)
    a, b = (torch.rand(1000, 32, 32, generator=generator) for _ in "ab")
    return {"x": x, "y": y, "i": i, "m": x > 0.5, "n": x.numpy(), "rows": rows, "columns": columns, "size": rows * columns,
            "flat": x.reshape(-1), "whole": i.reshape(-1), "a": a, "b": b, "torch": torch, "np": np, "F": torch.nn.functional}


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.set_grad_enabled(False)
    scope = {}
    for line in sys.stdin:
        words = line.split(None, 2)
        if words[-1].strip() in ("plain", "strided", "broadcast"):
            scope = operands(int(words[0]), int(words[1]), words[2].strip())
            print("ready", flush=True)
            continue
        calls, code = line.split(None, 1)
        function = eval(f"lambda: {code}", scope)  # pylint: disable=eval-used
        start = time.perf_counter()
        for _ in range(int(calls)):
            function()
        print((time.perf_counter() - start) / int(calls) * 1e6, flush=True)


if __name__ == "__main__":
    main()
