"""Parts, orders of axes and elements, repetition, padding, diagonals, series."""
import itertools

import numpy as np

from numpy_case import DTYPES, Case, random, seen, strided, sum_dtype


def parts(name, given, pieces, attributes, more=()):
    for number, piece in enumerate(pieces):
        yield Case(name, [given, *more], piece, {**attributes, "result": number})


def splits(rng):
    for x in strided(rng, (6, 4), np.float32):
        y = seen(x)
        for axis, count in itertools.product((0, 1, -1), (1, 2)):
            yield from parts("split", x, np.split(y, count, axis), {"indices_or_sections": count, "axis": axis})
        for at in ([], [1], [0, 3, 3, 9], [-2, 4]):
            indices = np.array(at, np.int64)
            yield from parts("split", x, np.split(y, at, 0), {"axis": 0}, [indices])
        yield from parts("unstack", x, np.moveaxis(y, 1, 0), {"axis": 1})
        yield from parts("chunk", x, [y[:2], y[2:4], y[4:]], {"chunks": 3})
        yield from parts("chunk", x, [y[:2], y[2:4], y[4:]], {"chunks": 3, "axis": -2})
        yield Case("split", [x], None, {"indices_or_sections": 5})
    x = random(rng, (0, 3), np.int32)
    yield from parts("split", x, np.split(x, 2), {"indices_or_sections": 2})


def orders(rng):
    for x in strided(rng, (2, 3, 4), np.float32):
        y = seen(x)
        for a, b in itertools.product(range(-3, 3), repeat=2):
            yield Case("swapaxes", [x], y.swapaxes(a, b), {"axis1": a, "axis2": b})
            yield Case("moveaxis", [x], np.moveaxis(y, a, b), {"source": a, "destination": b})
        yield Case("moveaxis", [x], np.moveaxis(y, (0, 2), (1, 0)), {"source": (0, 2), "destination": (1, 0)})
        for axis in [(), (0,), (1, -1), (0, 1, 2)]:
            yield Case("flip", [x], np.flip(y, axis or None), {"axis": axis})
        for k, axes in itertools.product(range(-2, 5), [(0, 1), (1, 0), (2, 0), (-1, 1)]):
            yield Case("rot90", [x], np.rot90(y, k, axes), {"k": k, "axes": axes})
        for shift in (0, 1, -5, 100):
            yield Case("roll", [x], np.roll(y, shift), {"shift": shift})
            yield Case("roll", [x], np.roll(y, shift, 1), {"shift": shift, "axis": 1})
        yield Case("roll", [x], np.roll(y, (1, -2), (2, 0)), {"shift": (1, -2), "axis": (2, 0)})
        yield Case("roll", [x], np.roll(y, 3, (2, 0)), {"shift": 3, "axis": (2, 0)})
    yield Case("moveaxis", [random(rng, (2, 3), np.float32)], None, {"source": (0, 0), "destination": (0, 1)})
    for shape in [(), (3,), (2, 3), (2, 3, 4), (0,)]:
        x = random(rng, shape, np.float64)
        for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
            yield Case(name, [x], getattr(np, name)(x))


def repetition(rng):
    for dtype in DTYPES:
        for x in strided(rng, (2, 3), dtype):
            y = seen(x)
            for reps in [(2,), (1,), (2, 3), (0, 2), (2, 1, 3), (3, 1, 1, 2)]:
                yield Case("tile", [x], np.tile(y, reps), {"reps": reps})
            for count, axis in itertools.product((0, 1, 3), (0, 1, -1)):
                yield Case("repeat", [x], np.repeat(y, count, axis), {"repeats": count, "axis": axis})
            yield Case("repeat", [x], np.repeat(y, 2), {"repeats": 2})
            counts = np.array([2, 0, 1])
            yield Case("repeat", [x, counts], np.repeat(y, counts, 1), {"axis": 1})
    yield Case("repeat", [random(rng, (3,), np.float32), np.array([1, 2])], None)
    yield Case("repeat", [random(rng, (3,), np.float32)], None, {"repeats": -1})
    yield Case("tile", [random(rng, (), np.float32)], np.tile(np.float32(0), 0).reshape(0).astype(np.float32), {"reps": 0})
    arrays = [random(rng, shape, np.float32) for shape in [(3,), (2, 1), (4, 1, 1)]]
    for number, array in enumerate(np.broadcast_arrays(*arrays)):
        yield Case("broadcast_arrays", arrays, array, {"result": number})
    for indexing in ("xy", "ij"):
        for sizes in [(2,), (2, 3), (2, 3, 4), (0, 3)]:
            arrays = [random(rng, (size,), np.int32) for size in sizes]
            for number, array in enumerate(np.meshgrid(*arrays, indexing=indexing)):
                yield Case("meshgrid", arrays, array, {"result": number, "indexing": indexing})


def padding(rng):
    for x in strided(rng, (4, 5), np.float32):
        y = seen(x)
        for before, after in [((1, 2), (0, 3)), ((0, 0), (0, 0)), ((7, 11), (9, 0))]:
            widths = list(zip(before, after))
            attributes = {"before": before, "after": after}
            yield Case("pad", [x], np.pad(y, widths, constant_values=2.5), {**attributes, "value": 2.5})
            for mode in ("edge", "reflect", "wrap"):
                if mode == "wrap" and max(before) > 4:
                    continue  # NumPy 1.24 pads wrongly if the width is not a whole number of periods
                yield Case("pad", [x], np.pad(y, widths, mode), {**attributes, "mode": mode})
        yield Case("pad", [x], np.pad(y, 1, "edge"), {"before": 1, "mode": "edge"})
    for dtype in DTYPES:
        x = random(rng, (3,), dtype)
        yield Case("pad", [x], np.pad(x, (2, 1)), {"before": 2, "after": 1})
    empty = random(rng, (0, 2), np.float32)
    yield Case("pad", [empty], np.pad(empty, ((1, 2), (0, 0))), {"before": (1, 0), "after": (2, 0)})
    yield Case("pad", [empty], None, {"before": (1, 0), "after": (2, 0), "mode": "edge"})
    yield Case("pad", [x], None, {"before": -1})


def diagonals(rng):
    for dtype, shape in itertools.product(DTYPES, [(3, 4), (4, 3), (2, 3, 3), (0, 3)]):
        for x in strided(rng, shape, dtype):
            y = seen(x)
            for k in (-5, -1, 0, 1, 5):
                yield Case("tril", [x], np.tril(y, k), {"k": k})
                yield Case("triu", [x], np.triu(y, k), {"k": k})
                yield Case("diagonal", [x], np.diagonal(y, k), {"offset": k})
                yield Case("diagonal", [x], np.diagonal(y, k, -1, 0), {"offset": k, "axis1": -1, "axis2": 0})
                total = np.asarray(np.trace(y.astype(np.float64) if dtype == np.float16 else y, k))
                yield Case("matrix_trace", [x], total.astype(sum_dtype(dtype)), {"offset": k}, scale=8.0)
                if len(shape) == 2:
                    yield Case("diag", [x], np.diag(y, k), {"k": k})
    for x in strided(rng, (3,), np.int8):
        for k in (-2, 0, 3):
            yield Case("diag", [x], np.diag(seen(x), k), {"k": k})
    yield Case("diagonal", [random(rng, (2, 2), np.float32)], None, {"axis1": 1, "axis2": -1})


def series(rng):
    for start, stop, num, endpoint in itertools.product((0.0, -1.5), (2.0, -3.25), (0, 1, 2, 7, 50), (0, 1)):
        attributes = {"start": start, "stop": stop, "num": num, "endpoint": endpoint}
        for name, dtype in (("f32", np.float32), ("f64", np.float64)):
            yield Case("linspace", [], np.linspace(start, stop, num, bool(endpoint), dtype=dtype), {**attributes, "dtype": name}, scale=1.0)
            yield Case("logspace", [], np.logspace(start, stop, num, bool(endpoint), 2.0, dtype=dtype),
                       {**attributes, "dtype": name, "base": 2.0})
    for dtype in DTYPES:
        x = random(rng, (2, 3), dtype)
        yield Case("full_like", [x], np.full_like(x, 3), {"fill_value": 3})
        yield Case("ones_like", [x], np.ones_like(x))


def cases(rng):
    for family in (splits, orders, repetition, padding, diagonals, series):
        yield from family(rng)
