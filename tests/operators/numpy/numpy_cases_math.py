"""Elementwise mathematics: powers, logarithms, trigonometry, rounding, remainders, bits, classes of numbers."""
import itertools

import numpy as np

from numpy_case import DTYPES, EXPRESSIONS, FLOATS, Case, expressions, random, seen, strided

FLOATING = expressions("that of x; f64 for integers and bool")
STEPS = expressions("that of x")
CLASSES = expressions("bool")
assert len(FLOATING) >= 22 and len(STEPS) >= 5 and len(CLASSES) >= 4, "the registry has lost expressions"
assert len(FLOATING) + len(STEPS) + len(CLASSES) == len(EXPRESSIONS), "an expression is of an operator that no list above takes"
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
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
    for (name, f), dtype, shape in itertools.product(STEPS.items(), DTYPES, SHAPES):
        for x in strided(rng, shape, dtype) if dtype != np.bool_ else []:
            yield Case(name, [x], f(seen(x)).astype(dtype))
    for (name, f), dtype in itertools.product(CLASSES.items(), DTYPES):
        x = random(rng, (31,), dtype)
        yield Case(name, [x], f(x if dtype != np.bool_ else x.astype(np.uint8)))


def special_values(rng):
    with np.errstate(all="ignore"):
        for dtype in (np.float32, np.float64):
            x = SPECIAL.astype(dtype)
            for name, f in FLOATING.items():
                if name != "lgamma":
                    yield Case(name, [x], f(x.astype(np.float64)).astype(dtype), scale=1e-7 if name == "erfc" else 0.0)
            for name, f in {**STEPS, **CLASSES}.items():
                yield Case(name, [x], f(x))
            a, b = np.meshgrid(x, x)
            for name, f in {"fmod": np.fmod, "atan2": np.arctan2, "hypot": np.hypot, "logaddexp": np.logaddexp,
                            "nextafter": np.nextafter, "copysign": np.copysign}.items():
                yield Case(name, [a, b], f(a, b))
            # Avoids quotients that a float cannot represent, for which NumPy is inexact.
            small = np.abs(x) < 1e10
            a, b = np.meshgrid(x[small & (np.abs(x) != 1e-30)], x)
            for name, f in {"floor_divide": np.floor_divide, "remainder": np.remainder}.items():
                yield Case(name, [a, b], f(a, b))
            yield Case("nan_to_num", [x], np.nan_to_num(x))
            yield Case("nan_to_num", [x], np.nan_to_num(x, nan=2.5, posinf=7.0, neginf=-1.5),
                       {"nan": 2.5, "posinf": 7.0, "neginf": -1.5})


def binary(rng):
    functions = {"floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod}
    with np.errstate(all="ignore"):
        for (name, f), dtype, (a_shape, b_shape) in itertools.product(functions.items(), FLOATS + INTEGERS, PAIRS):
            a, b = random(rng, a_shape, dtype), random(rng, b_shape, dtype)
            yield Case(name, [a, b], f(a, b), scale=1.0)
        for (name, f), dtype in itertools.product(functions.items(), INTEGERS):
            info = np.iinfo(dtype)
            values = np.array([info.min, info.min + 1, 0, 1, 2, 3, 7, info.max - 1, info.max, info.max // 2], dtype)
            a, b = np.meshgrid(values, values)
            if info.min < 0:
                a, b = np.concatenate([a, a]), np.concatenate([b, -b])
            yield Case(name, [a, b], f(a, b))
        floating = {"atan2": np.arctan2, "hypot": np.hypot, "logaddexp": np.logaddexp, "copysign": np.copysign}
        for (name, f), dtype, (a_shape, b_shape) in itertools.product(floating.items(), FLOATS, PAIRS):
            a, b = random(rng, a_shape, dtype), random(rng, b_shape, dtype)
            yield Case(name, [a, b], f(a.astype(np.float64), b.astype(np.float64)).astype(dtype), scale=1.0)
        for dtype in FLOATS:
            a, b = np.meshgrid(np.array([0, -0.0, 1, -2, 1000, np.inf, -np.inf, np.nan], dtype), np.array([0, 3, np.inf, -np.inf], dtype))
            yield Case("nextafter", [a, b], np.nextafter(a, b))
        for a, b in itertools.product(strided(rng, (6, 8), np.float32), strided(rng, (6, 8), np.float32)):
            yield Case("atan2", [a, b], np.arctan2(seen(a), seen(b)))


def bits(rng):
    functions = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}
    for (name, f), dtype, (a_shape, b_shape) in itertools.product(functions.items(), INTEGERS + [np.bool_], PAIRS):
        a, b = random(rng, a_shape, dtype), random(rng, b_shape, dtype)
        yield Case(name, [a, b], f(a, b))
    for dtype in INTEGERS + [np.bool_]:
        x = random(rng, (31,), dtype)
        yield Case("bitwise_invert", [x], np.invert(x))
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        values = np.array([info.min, 0, 1, 5, info.max], dtype)
        a, b = np.meshgrid(values, np.array([0, 1, 3, info.bits - 1, info.bits, info.bits + 1, info.max], dtype))
        yield Case("bitwise_left_shift", [a, b], np.left_shift(a, b))
        yield Case("bitwise_right_shift", [a, b], np.right_shift(a, b))


def logic(rng):
    functions = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
    for (name, f), dtype, (a_shape, b_shape) in itertools.product(functions.items(), DTYPES, PAIRS):
        a, b = random(rng, a_shape, dtype), random(rng, b_shape, dtype)
        yield Case(name, [a, b], f(a, b))
    functions |= {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater}
    for (name, f), one, other in itertools.product(functions.items(), DTYPES, DTYPES):
        a, b = random(rng, (40,), one), random(rng, (40,), other)
        yield Case(name, [a, b], f(a, b))


def cases(rng):
    for group in (unary, special_values, binary, bits, logic):
        yield from group(rng)
