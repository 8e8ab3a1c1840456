"""Operators that rearrange elements or look them up."""
import itertools

import numpy as np

from numpy_case import DTYPES, FLOATS, Case, random, seen, strided

NAMES = {np.float32: "f32", np.float64: "f64", np.int32: "i32", np.int64: "i64", np.uint8: "u8", np.bool_: "bool", np.float16: "f16", np.int8: "i8",
         np.int16: "i16", np.uint16: "u16", np.uint32: "u32", np.uint64: "u64"}


def shapes(rng):
    for x in strided(rng, (4, 6, 2), np.float32):
        y = seen(x)
        for shape in [(48,), (2, 24), (-1, 4), (8, 3, -1), (4, 6, 2), (1, 48, 1)]:
            yield Case("reshape", [x], y.reshape(shape), {"shape": shape})
        for axis in range(4):
            yield Case("flatten", [x], y.reshape(*y.shape[:axis], -1), {"from_axis": axis})
        for axes in itertools.permutations(range(3)):
            yield Case("transpose", [x], y.transpose(axes), {"axes": axes})
        for axis in range(-4, 4):
            yield Case("expand_dims", [x], np.expand_dims(y, axis), {"axis": axis})
        for shape in [(4, 6, 2), (3, 4, 6, 2)]:
            yield Case("broadcast_to", [x], np.broadcast_to(y, shape), {"shape": shape})
    x = random(rng, (1, 3, 1, 2), np.int32)
    yield Case("squeeze", [x], x.squeeze())
    yield Case("squeeze", [x], x.squeeze((0,)), {"axis": (0,)})
    yield Case("squeeze", [x], x.squeeze((0, 2)), {"axis": (-2, 0)})
    yield Case("broadcast_to", [x], np.broadcast_to(x, (4, 3, 5, 2)), {"shape": (4, 3, 5, 2)})


def slices(rng):
    for x in strided(rng, (5, 7), np.float64):
        y = seen(x)
        for begin, end, step in itertools.product([None, 0, 2, -2, 9], [None, 1, 4, -1, -9], [1, 2, -1, -3]):
            attributes = {"axis": 1, "step": step}
            attributes |= {} if begin is None else {"start": begin}
            attributes |= {} if end is None else {"stop": end}
            yield Case("slice", [x], y[:, begin:end:step], attributes)


def joins(rng):
    for dtype, axis in itertools.product(DTYPES, [0, 1, -1]):
        arrays = [random(rng, shape, dtype) for shape in [(3, 4), (3, 4), (3, 4)]]
        yield Case("concat", arrays, np.concatenate(arrays, axis), {"axis": axis})
        yield Case("stack", arrays, np.stack(arrays, axis), {"axis": axis})
    parts = [random(rng, (2, 3), np.float32), random(rng, (0, 3), np.int32), random(rng, (5, 3), np.uint8)]
    yield Case("concat", parts, np.concatenate(parts), {"axis": 0})
    views = list(strided(rng, (4, 6), np.float32))
    yield Case("concat", views, np.concatenate([seen(view) for view in views], 1), {"axis": 1})
    yield Case("stack", views, np.stack([seen(view) for view in views], 2), {"axis": 2})


def lookups(rng):
    for x, dtype in itertools.product(strided(rng, (6, 5, 4), np.float32), [np.int32, np.int64]):
        y = seen(x)
        for axis, shape in itertools.product([0, 1, 2, -1], [(), (3,), (2, 3), (0,)]):
            at = rng.integers(-y.shape[axis], y.shape[axis], shape).astype(dtype)
            yield Case("take", [x, at], np.take(y, at, axis), {"axis": axis})
    for dtype in DTYPES:
        x, at = random(rng, (9, 3), dtype), rng.integers(0, 9, 50)
        yield Case("take", [x, at], np.take(x, at, 0), {"axis": 0})
    at = (rng.integers(0, 5, (4, 3)), "transposed")
    table = random(rng, (5, 2), np.float64)
    yield Case("take", [table, at], table[seen(at)], {"axis": 0})
    labels = rng.integers(0, 7, (3, 5)).astype(np.int32)
    yield Case("one_hot", [labels], np.eye(7, dtype=np.float32)[labels], {"num_classes": 7})


def rows(rng):
    for dtype, width in itertools.product(FLOATS, [(), (5,), (2, 3)]):
        table, at = random(rng, (30, *width), dtype), rng.integers(0, 30, (4, 5)).astype(np.int32)
        yield Case("embedding", [table, at], table[at])
        kept = rng.integers(0, 30, 12)
        expected = np.zeros_like(table)
        expected[kept] = table[kept]
        yield Case("retain", [table, kept], expected)
        inputs, total = [], np.zeros(table.shape, np.float64)
        for count in [40, 0, 700]:
            inputs += [rng.integers(0, 30, count), random(rng, (count, *width), dtype)]
            np.add.at(total, inputs[-2], inputs[-1].astype(np.float64))
        yield Case("row_sparse", inputs, total.astype(dtype), {"shape": table.shape}, scale=100.0)
    for view in strided(rng, (20, 4), np.float64):
        at = (rng.integers(0, 20, 6), "reversed")
        yield Case("embedding", [view, at], seen(view)[seen(at)])
        order = rng.permutation(20)
        yield Case("row_sparse", [order, view], seen(view)[np.argsort(order)], {"shape": (20, 4)})


def casts(rng):
    for source, target in itertools.product(DTYPES, DTYPES):
        x = np.abs(random(rng, (5, 3), source))
        yield Case("cast", [x], x.astype(target), {"dtype": NAMES[target]})


def cases(rng):
    for group in (shapes, slices, joins, lookups, rows, casts):
        yield from group(rng)
