"""Products: every dtype, layouts, broadcasting, NumPy's einsum for many equations."""
import itertools

import numpy as np

from numpy_case import DTYPES, Case, random, seen, strided

EQUATIONS = {
    "ij->ji": [(3, 4)], "ij": [(3, 4)], "ji": [(3, 4)], "ij->": [(3, 4)], "ii": [(3, 3)], "ii->i": [(3, 3)],
    "iji->j": [(3, 2, 3)], "...ii->...i": [(2, 3, 3)], "...->...": [(2, 3)], "i...->...": [(2, 3, 4)], "->": [()],
    "ij,jk->ik": [(3, 4), (4, 5)], "ij,jk": [(3, 4), (4, 5)], "ij,kj->ki": [(3, 4), (5, 4)], "i,i": [(7,), (7,)],
    "i,j->ij": [(3,), (4,)], "i,j->ji": [(3,), (4,)], "ij,ij->ij": [(3, 4), (3, 4)], "ij,ij->i": [(3, 4), (3, 4)],
    "ij,ij->": [(3, 4), (3, 4)], "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)], "bij,bjk->kbi": [(2, 3, 4), (2, 4, 5)],
    "...ij,...jk->...ik": [(2, 1, 3, 4), (5, 4, 2)], "...ij,jk": [(2, 3, 4), (4, 2)], "i...,i...->i...": [(3, 1, 4), (3, 5, 1)],
    "abcd,cdef->abef": [(2, 3, 2, 3), (2, 3, 3, 2)], "abc,cd,ab->d": [(2, 3, 4), (4, 5), (2, 3)], "ij,jk,kl,lm->im": [(2, 3), (3, 4), (4, 2), (2, 5)],
    "i,ij,j": [(3,), (3, 4), (4,)], "ij,k->ij": [(3, 4), (5,)], ",ij->ij": [(), (3, 4)], "ij,->ji": [(3, 4), ()],
    "ii,ii->i": [(3, 3), (3, 3)], "ij,jk->ik ": [(3, 0), (0, 5)], "ij,jk,ki->": [(2, 3), (3, 4), (4, 2)], "aA,Ab->ab": [(2, 3), (3, 2)],
    "bhqd,bhkd->bhqk": [(2, 2, 3, 4), (2, 2, 5, 4)], "...a,...b,...c->...abc": [(2, 2), (2, 3), (2, 2)], "ijk,ilm,njm,nlk,abc->": [(2, 3, 2), (2, 2, 3), (2, 3, 3), (2, 2, 2), (2, 2, 2)],
}


def exact(x):
    """x for exact sums: floats as f64, integers and bools unchanged."""
    return x.astype(np.float64) if np.issubdtype(x.dtype, np.floating) else x


def einsum(rng):
    for (equation, shapes), dtype in itertools.product(EQUATIONS.items(), DTYPES):
        inputs = [random(rng, shape, dtype, low=-1, high=1) for shape in shapes]
        expected = np.einsum(equation, *map(exact, inputs)).astype(dtype)
        yield Case("einsum", inputs, expected, {"equation": equation.replace(" ", "")}, scale=100.0)
    for a, b in itertools.product(strided(rng, (3, 4), np.float64), strided(rng, (4, 5), np.float64)):
        yield Case("einsum", [a, b], np.einsum("ij,jk->ki", seen(a), seen(b)), {"equation": "ij,jk->ki"}, scale=10.0)
    for x in strided(rng, (4, 4), np.float32):
        yield Case("einsum", [x], np.einsum("ii->i", seen(x)), {"equation": "ii->i"})


def mixed(rng):
    a, b = random(rng, (3, 4), np.int32), random(rng, (4, 2), np.float32)
    for name, f in {"dot": np.dot, "outer": np.outer, "kron": np.kron}.items():
        yield Case(name, [a, b], f(a.astype(np.float64), b.astype(np.float64)).astype(np.float64), scale=10.0)


def vecdot(a, b, axis):
    return np.moveaxis(a, axis, -1) * np.moveaxis(b, axis, -1)


def products(rng):
    for dtype in DTYPES:
        def f(function, *arrays):
            return np.asarray(function(*map(exact, arrays))).astype(dtype)

        def make(*shape):
            return random(rng, shape, dtype, low=-1, high=1)

        for a, b in (((), ()), ((), (3,)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (2, 4, 3)), ((2, 3, 4), (5, 4, 2)), ((3, 0), (0, 2))):
            x, y = make(*a), make(*b)
            yield Case("dot", [x, y], f(np.dot, x, y), scale=10.0)
        for a, b in (((), (3,)), ((4,), (4,)), ((3, 4), (4,)), ((2, 3, 4), (5, 4)), ((3, 0), (2, 0))):
            x, y = make(*a), make(*b)
            yield Case("inner", [x, y], f(np.inner, x, y), scale=10.0)
        for a, b in (((), (3,)), ((4,), (2, 3)), ((0,), (2,)), ((2, 3), (3, 2))):
            x, y = make(*a), make(*b)
            yield Case("outer", [x, y], f(np.outer, x, y), scale=1.0)
            if dtype != np.bool_:
                yield Case("kron", [x, y], f(np.kron, x, y), scale=1.0)
        for a, b, axis in (((4,), (4,), -1), ((3, 4), (4,), -1), ((3, 4), (3, 4), 0), ((2, 1, 4), (3, 4), -1), ((2, 0), (2, 0), -1)):
            for x in strided(rng, a, dtype, low=-1, high=1):
                y = make(*b)
                total = vecdot(exact(seen(x)), exact(y), axis)
                expected = total.any(-1) if dtype == np.bool_ else total.sum(-1)
                yield Case("vecdot", [x, y], np.asarray(expected).astype(dtype), {"axis": axis}, scale=10.0)
        for a, b, axis in (((3,), (3,), -1), ((4, 3), (3,), -1), ((3, 4), (3, 4), 0), ((2, 1, 3), (4, 3), -1)):
            if dtype == np.bool_ or np.issubdtype(dtype, np.unsignedinteger):
                continue
            x, y = make(*a), make(*b)
            yield Case("cross", [x, y], f(lambda p, q: np.cross(p, q, axis=axis), x, y), {"axis": axis}, scale=10.0)
        for a, b, axes in (((2, 3, 4), (3, 4, 5), 2), ((2, 3), (3, 2), 1), ((2,), (3,), 0)):
            x, y = make(*a), make(*b)
            yield Case("tensordot", [x, y], f(lambda p, q: np.tensordot(p, q, axes), x, y), {"axes": axes}, scale=10.0)
        for a, b, of_a, of_b in (((2, 3, 4), (4, 5, 3), (1, 2), (2, 0)), ((2, 3), (3, 2), (-1,), (0,)), ((3, 4, 5), (4, 3, 2), (1, 0), (0, 1))):
            x, y = make(*a), make(*b)
            yield Case("tensordot", [x, y], f(lambda p, q: np.tensordot(p, q, (of_a, of_b)), x, y),
                       {"a_axes": of_a, "b_axes": of_b}, scale=10.0)


def cases(rng):
    for group in (einsum, mixed, products):
        yield from group(rng)
