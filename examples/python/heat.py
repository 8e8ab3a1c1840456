"""The heat equation on a square plate whose edge is kept at 0: examples/heat.cc with the slices of Python.

usage: heat.py [PICTURE.svg]
"""

import math
import sys

import heddle

POINTS, STEPS = 20, 30  # POINTS: along an edge; STEPS: in time
SPACE = 1 / (POINTS - 1)
TIME = SPACE**2 / 5


def exact(time: float) -> heddle.NDArray:
    """The exact solution: two products of sines, each of which keeps its shape and decays at its own rate."""
    x = heddle.linspace(0, math.pi, POINTS, dtype="f64")
    first = heddle.outer(heddle.sin(x), heddle.sin(x)) * math.exp(-2 * math.pi**2 * time)
    return first + heddle.outer(heddle.sin(x * 3), heddle.sin(x * 2)) * math.exp(-13 * math.pi**2 * time)


def color(value: float) -> str:
    """The colour of a value from -1.5 (blue) over 0 (white) to 1.5 (red)."""
    weak = f"{round(15 - min(abs(value) / 1.5, 1) * 15):x}"
    return f"#f{weak}{weak}" if value > 0 else f"#{weak}{weak}f"


def cells(u: heddle.NDArray, left: int) -> str:
    """The plate as squares of ten pixels."""
    rows = enumerate(u.tolist())
    places = ((10 * (left + j) + 32, 10 * i + 32, value) for i, row in rows for j, value in enumerate(row))
    return "".join(f"<path d='M{x} {y}h10v10h-10' fill='{color(value)}'/>\n" for x, y, value in places)


def main(path: str) -> int:
    u = exact(0)
    picture = cells(u, 0)
    for _ in range(STEPS):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u[1:-1, 1:-1] += (around - u[1:-1, 1:-1] * 4) * (TIME / SPACE**2)
    error = heddle.max(heddle.abs(u - exact(STEPS * TIME))).item()
    print(f"after {STEPS * TIME:.3f}: at most {error:.5f} from the exact solution")
    picture += cells(u, POINTS + 2)
    size = f"width='{20 * POINTS + 84}' height='{10 * POINTS + 64}'"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"<svg xmlns='http://www.w3.org/2000/svg' {size}>\n{picture}</svg>\n")
    return 0 if error < 0.01 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1] if len(sys.argv) > 1 else "heat.svg"))
