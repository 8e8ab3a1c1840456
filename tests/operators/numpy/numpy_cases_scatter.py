"""Elements at places that arrays name: gather, scatter, masks. Places come twice, and from the end."""
import itertools

import numpy as np

from numpy_case import DTYPES, Case, random, seen, strided

MODES = {"scatter": lambda old, new: new, "scatter_add": lambda old, new: old + new, "scatter_min": min, "scatter_max": max}


def places(rng, size, shape, dtype=np.int64):
    return rng.integers(-size, size, shape).astype(dtype) if size else np.zeros(shape, dtype)


def scattered(x, at, source, axis, mode):
    """The result of a scatter by loops, with f16 sums in f64."""
    y = x.astype(np.float64) if x.dtype == np.float16 else x.copy()
    for p in np.ndindex(at.shape):
        q = list(p)
        q[axis] = at[p]
        with np.errstate(all="ignore"):
            y[tuple(q)] = mode(y[tuple(q)], y.dtype.type(source[p]))
    return y.astype(x.dtype)


def gathers(rng):
    for dtype, axis, kind in itertools.product(DTYPES, (0, 1, -1), (np.int32, np.int64)):
        for x in strided(rng, (4, 3), dtype):
            y = seen(x)
            shape = list(y.shape)
            shape[axis] = 5
            for at in strided(rng, tuple(shape), kind):
                at = tuple(at) if isinstance(at, tuple) else at
                raw, view = at if isinstance(at, tuple) else (at, None)
                raw = places(rng, y.shape[axis], raw.shape, kind)
                at = (raw, view) if view else raw
                yield Case("take_along_axis", [x, at], np.take_along_axis(y, seen(at), axis), {"axis": axis})
                yield Case("gather", [x, at], np.take_along_axis(y, seen(at), axis), {"axis": axis})
            shape[1 - axis % 2] = 1
            at = places(rng, y.shape[axis], shape, kind)
            yield Case("take_along_axis", [x, at], np.take_along_axis(y, at, axis), {"axis": axis})
            part = y[:, :1] if axis == 0 else y[:1]
            yield Case("gather", [x, at], np.take_along_axis(part, at, axis), {"axis": axis})
    x, at = random(rng, (1, 3), np.float32), places(rng, 3, (4, 2))
    yield Case("take_along_axis", [x, at], np.take_along_axis(x, at, 1), {"axis": 1})
    yield Case("gather", [x, at], None, {"axis": 1})
    yield Case("take_along_axis", [x, np.array([[3]])], None, {"axis": 1})
    yield Case("gather", [x, at[0]], None, {"axis": 1})
    yield Case("gather", [x, np.zeros((0, 3), np.int64)], np.zeros((0, 3), np.float32), {"axis": 0})


def scatters(rng):
    for dtype, axis, (name, mode) in itertools.product(DTYPES, (0, 1), MODES.items()):
        for x in strided(rng, (4, 3), dtype):
            y = seen(x)
            for shape in [(4, 3), (2, 2), (3, 1), (0, 3)]:
                at = places(rng, y.shape[axis], shape)
                for source in strided(rng, shape, dtype) if dtype == np.float32 else [random(rng, shape, dtype)]:
                    yield Case(name, [x, at, source], scattered(y, at, seen(source), axis, mode), {"axis": axis}, scale=10.0)
            yield Case(name, [x, at], scattered(y, at, np.full(shape, 2), axis, mode), {"axis": axis, "source": 2}, scale=10.0)
    x, at = random(rng, (3, 2), np.float32), np.zeros((4, 1), np.int64)
    yield Case("scatter", [x, at], None, {"axis": 1, "source": 1})
    yield Case("scatter_add", [x, np.array([[3, 0]])], None, {"axis": 0, "source": 1})
    many, where = random(rng, (5, 700), np.float64), places(rng, 5, (300, 700))
    more = random(rng, (300, 700), np.float64)
    total = many.copy()
    np.add.at(total, (where, np.arange(700)), more)
    yield Case("scatter_add", [many, where, more], total, {"axis": 0}, scale=100.0)


def indexed(rng):
    for dtype, axis in itertools.product(DTYPES, (0, 1, -1)):
        for x in strided(rng, (4, 3), dtype):
            y = seen(x)
            for count in (0, 6):
                at = places(rng, y.shape[axis], (count,), np.int32)
                shape = list(y.shape)
                shape[axis] = count
                for source in strided(rng, tuple(shape), dtype) if dtype == np.float32 else [random(rng, shape, dtype)]:
                    values = np.moveaxis(seen(source), axis, 0)
                    total = np.moveaxis(y.astype(np.float64) if dtype == np.float16 else y.copy(), axis, 0).copy()
                    copied = np.moveaxis(y, axis, 0).copy()
                    for i, place in enumerate(at):
                        total[place] += values[i]
                        copied[place] = values[i]
                    yield Case("index_add", [x, at, source], np.moveaxis(total, 0, axis).astype(dtype), {"axis": axis}, scale=10.0)
                    yield Case("index_copy", [x, at, source], np.moveaxis(copied, 0, axis), {"axis": axis})
            flat = places(rng, y.size, (2, 4))
            values = random(rng, (2, 4), dtype)
            changed = y.copy()
            np.put(changed, flat, values)
            yield Case("put", [x, flat, values], changed)
            changed = y.copy()
            np.put(changed, flat, 1)
            yield Case("put", [x, flat], changed, {"values": 1})
    yield Case("put", [random(rng, (3,), np.float32), np.array([3])], None, {"values": 1})
    yield Case("index_add", [random(rng, (3,), np.float32), np.array([[1]]), random(rng, (1,), np.float32)], None)


def masks(rng):
    for dtype, shape in itertools.product(DTYPES, [(7,), (4, 5), (), (0, 3), (300, 300)]):
        if shape == (300, 300) and dtype != np.float32:
            continue
        for x in strided(rng, shape, dtype):
            y = seen(x)
            mask = random(rng, shape, np.bool_)
            yield Case("masked_select", [x, mask], y[mask])
            filled = y.copy()
            filled[mask] = 1
            yield Case("masked_fill", [x, mask], filled, {"value": 1})
            source = random(rng, (y.size + 1,), dtype)
            replaced = y.copy()
            replaced[mask] = source[: mask.sum()]
            yield Case("masked_scatter", [x, mask, source], replaced)
            if shape:
                for number, places_ in enumerate(np.nonzero(y)):
                    yield Case("nonzero", [x], places_, {"result": number})
            yield Case("argwhere", [x], np.argwhere(y))
    x, row = random(rng, (3, 4), np.float32), random(rng, (4,), np.bool_)
    yield Case("masked_select", [x, row], x[np.broadcast_to(row, x.shape)])
    yield Case("masked_select", [row.astype(np.int32), np.ones((2, 1), np.bool_)], np.tile(row.astype(np.int32), 2))
    yield Case("masked_scatter", [x, np.ones((3, 4), np.bool_), random(rng, (11,), np.float32)], None)
    yield Case("nonzero", [random(rng, (), np.float32)], None)


def extremes(rng):
    for dtype in DTYPES:
        for x in strided(rng, (4, 5), dtype):
            y = seen(x)
            for name in ("argmax", "argmin"):
                yield Case(name, [x], np.asarray(getattr(np, name)(y)))


def cases(rng):
    for family in (gathers, scatters, indexed, masks, extremes):
        yield from family(rng)
