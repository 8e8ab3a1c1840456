"""Elementwise mathematics: powers, logarithms, trigonometry, rounding, remainders, bits, classes of numbers."""
import itertools

import numpy as np

from numpy_case import DTYPES, EXPRESSIONS, FLOATS, Case, expressions, random, seen, strided

WITH_NUMBER = expressions(2, "that of x")
BINARY = {name: one for name, one in expressions(2).items() if name not in WITH_NUMBER}
FLOATING = expressions(1, "that of x; f64 for integers and bool")
CLASSES = expressions(1, "bool")
STEPS = {name: one for name, one in expressions(1, "that of x").items() if name not in FLOATING}
assert len(BINARY) >= 29 and len(FLOATING) >= 27 and len(STEPS) >= 10 and len(CLASSES) >= 5, "the registry has lost expressions"
assert len(WITH_NUMBER) >= 6, "the registry has lost expressions"
assert len(FLOATING) + len(STEPS) + len(CLASSES) + len(BINARY) + len(WITH_NUMBER) == len(EXPRESSIONS), "an expression is of an operator that no list above takes"
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
ROUNDED = ["floor_divide", "remainder"]
QUOTIENTS = [*ROUNDED, "fmod"]
SHAPES = [(), (7,), (2, 3, 5), (0, 4), (260, 33)]
PAIRS = [((), ()), ((3, 4), (4,)), ((3, 1), (1, 4)), ((0, 3), (3,)), ((37,), (37,)), ((130, 57), (130, 1))]
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-30, 3e38, 1e5, np.inf, -np.inf, np.nan])


def unary(rng):
    for (name, f), dtype, shape in itertools.product(FLOATING.items(), FLOATS, SHAPES):
        for x in strided(rng, shape, dtype, low=f.low, high=f.high):
            wide = seen(x).astype(np.float64)
            expected = np.asarray(f(wide)).astype(dtype)
            # Near a zero of the function the error is relative to the function's slope.
            yield Case(name, [x], expected, scale=1.0 if dtype != np.float16 else 0.0)
    for (name, f), shape in itertools.product(STEPS.items(), SHAPES):
        for dtype in f.dtypes:
            for x in strided(rng, shape, dtype):
                yield Case(name, [x], f(seen(x)).astype(dtype))
    for (name, f), dtype in itertools.product(CLASSES.items(), DTYPES):
        x = random(rng, (31,), dtype)
        yield Case(name, [x], f(x if dtype != np.bool_ else x.astype(np.uint8)))


def with_number(rng):
    for (name, f), dtype, shape, number in itertools.product(WITH_NUMBER.items(), FLOATS, SHAPES, (0.01, 0.5, 1.0, 2.5)):
        for x in strided(rng, shape, dtype, low=f.low, high=f.high):
            expected = f(seen(x).astype(np.float64), number)
            yield Case(name, [x], np.asarray(expected).astype(dtype), {f.arguments[1]: number}, scale=1.0)


def special_values(rng):
    with np.errstate(all="ignore"):
        for dtype in (np.float32, np.float64):
            x = SPECIAL.astype(dtype)
            for name, f in FLOATING.items():
                if name != "lgamma":
                    yield Case(name, [x], f(x.astype(np.float64)).astype(dtype), scale=1e-7 if name == "erfc" else 0.0)
            for name, f in {**STEPS, **CLASSES}.items():
                if dtype in f.dtypes:
                    yield Case(name, [x], f(x))
            a, b = np.meshgrid(x, x)
            for name, f in BINARY.items():
                if dtype in f.dtypes and name not in ROUNDED:
                    yield Case(name, [a, b], f(a, b))
            # Avoids quotients that a float cannot represent, for which NumPy is inexact.
            small = np.abs(x) < 1e10
            a, b = np.meshgrid(x[small & (np.abs(x) != 1e-30)], x)
            for name in ROUNDED:
                yield Case(name, [a, b], BINARY[name](a, b))
            yield Case("nan_to_num", [x], np.nan_to_num(x))
            yield Case("nan_to_num", [x], np.nan_to_num(x, nan=2.5, posinf=7.0, neginf=-1.5),
                       {"nan": 2.5, "posinf": 7.0, "neginf": -1.5})


def operands(rng, f, shapes, dtypes):
    """An operand of each shape and dtype, in the range of the expression."""
    for shape, dtype in zip(shapes, dtypes, strict=True):
        if dtype == np.bool_ or dtype in FLOATS:
            yield random(rng, shape, dtype, low=f.low, high=f.high)
        else:
            yield rng.integers(max(int(f.low), np.iinfo(dtype).min), int(f.high), shape, endpoint=True).astype(dtype)


def binary(rng):
    with np.errstate(all="ignore"):
        for (name, f), shapes in itertools.product(BINARY.items(), PAIRS):
            # NumPy computes some functions of small integers in f16; Heddle in f64.
            for dtype in FLOATS if f.result.startswith("common; f64") else f.dtypes:
                a, b = operands(rng, f, shapes, (dtype, dtype))
                yield Case(name, [a, b], f(a, b), scale=1.0)
        for name, dtype in itertools.product(QUOTIENTS, INTEGERS):
            info = np.iinfo(dtype)
            values = np.array([info.min, info.min + 1, 0, 1, 2, 3, 7, info.max - 1, info.max, info.max // 2], dtype)
            a, b = np.meshgrid(values, values)
            if info.min < 0:
                a, b = np.concatenate([a, a]), np.concatenate([b, -b])
            yield Case(name, [a, b], BINARY[name](a, b))
        for dtype in FLOATS:
            a, b = np.meshgrid(np.array([0, -0.0, 1, -2, 1000, np.inf, -np.inf, np.nan], dtype), np.array([0, 3, np.inf, -np.inf], dtype))
            yield Case("nextafter", [a, b], np.nextafter(a, b))
        for a, b in itertools.product(strided(rng, (6, 8), np.float32), strided(rng, (6, 8), np.float32)):
            yield Case("atan2", [a, b], np.arctan2(seen(a), seen(b)))


def shifts(rng):
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        values = np.array([info.min, 0, 1, 5, info.max], dtype)
        a, b = np.meshgrid(values, np.array([0, 1, 3, info.bits - 1, info.bits, info.bits + 1, info.max], dtype))
        for name in ("bitwise_left_shift", "bitwise_right_shift"):
            yield Case(name, [a, b], BINARY[name](a, b))


def bools_of_mixed_dtypes(rng):
    for (name, f), one, other in itertools.product(expressions(2, "bool").items(), DTYPES, DTYPES):
        a, b = operands(rng, f, ((40,), (40,)), (one, other))
        yield Case(name, [a, b], f(a, b))


def cases(rng):
    for group in (unary, with_number, special_values, binary, shifts, bools_of_mixed_dtypes):
        yield from group(rng)
