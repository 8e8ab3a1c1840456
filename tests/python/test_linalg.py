"""Products, linear algebra and random distributions from Python, and the array API's extension linalg."""

import math

import numpy as np
import pytest

import heddle
from heddle import array_api as xp

EXTENSION = """
cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv qr
slogdet solve svd svdvals tensordot trace vecdot vector_norm
""".split()

A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]], np.float32)


def test_names_of_the_extension():
    assert [name for name in vars(xp.linalg) if not name.startswith("_")] == EXTENSION


@pytest.mark.skipif(np.__version__ < "2.1", reason="NumPy has no array API")
@pytest.mark.parametrize(
    "call",
    [
        lambda la, x: la.cholesky(x), lambda la, x: la.cholesky(x, upper=True), lambda la, x: la.cross(x, x[::-1]),
        lambda la, x: la.det(x), lambda la, x: la.diagonal(x, offset=1), lambda la, x: la.eigh(x).eigenvalues,
        lambda la, x: la.eigvalsh(x), lambda la, x: la.inv(x), lambda la, x: la.matmul(x, x),
        lambda la, x: la.matrix_norm(x), lambda la, x: la.matrix_norm(x, ord=1), lambda la, x: la.matrix_norm(x, ord=-2),
        lambda la, x: la.matrix_norm(x, ord=math.inf, keepdims=True), lambda la, x: la.matrix_norm(x, ord="nuc"),
        lambda la, x: la.matrix_power(x, -2), lambda la, x: la.matrix_rank(x), lambda la, x: la.matrix_transpose(x[:2]),
        lambda la, x: la.outer(x[0], x[1]), lambda la, x: la.pinv(x[:2]), lambda la, x: abs(la.qr(x).R),
        lambda la, x: la.slogdet(x).logabsdet, lambda la, x: la.slogdet(-x).sign, lambda la, x: la.solve(x, x[0]),
        lambda la, x: la.svd(x[:2]).S, lambda la, x: abs(la.svd(x, full_matrices=False).U), lambda la, x: la.svdvals(x),
        lambda la, x: la.tensordot(x, x), lambda la, x: la.tensordot(x, x[:2], axes=((1,), (1,))),
        lambda la, x: la.tensordot(x, x, axes=1), lambda la, x: la.trace(x), lambda la, x: la.trace(x, offset=-1),
        lambda la, x: la.vecdot(x, x, axis=-2), lambda la, x: la.vector_norm(x), lambda la, x: la.vector_norm(x, axis=1, ord=3),
    ],
)
def test_the_extension_agrees_with_numpy(call):
    want, got = np.asarray(call(np.linalg, A)), call(xp.linalg, heddle.array(A))
    assert got.shape == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=1e-5)


def test_lists_of_results_are_tuples():
    q, r = heddle.qr(heddle.array(A))
    np.testing.assert_allclose((q @ r).numpy(), A, rtol=1e-5)
    p, lower, upper = heddle.lu(heddle.array(A[::-1].copy()))
    np.testing.assert_allclose((p @ lower @ upper).numpy(), A[::-1], rtol=1e-5)


def test_einsum():
    x = heddle.array(A)
    np.testing.assert_allclose(heddle.einsum("ij,jk->ki", [x, x]).numpy(), (A @ A).T, rtol=1e-6)
    assert heddle.einsum("ii", [x]).item() == 9
    with pytest.raises(ValueError, match="einsum: 'ij,j': 1 operands; wanted 2"):
        heddle.einsum("ij,j", [x])
    with pytest.raises(TypeError, match="equation"):
        heddle.einsum(3, [x])
    with pytest.raises(ValueError, match="tensordot"):
        heddle.tensordot(x, x, 2, a_axes=[0])


def test_gradients():
    x = heddle.array(A)
    x.requires_grad = True
    heddle.slogdet(x)[1].backward()
    np.testing.assert_allclose(x.grad.numpy(), np.linalg.inv(A).T, rtol=1e-5)


def test_a_singular_matrix_is_named():
    x = heddle.zeros((4, 2, 2)) + heddle.eye(2)
    x[2] = 1
    y = heddle.inv(x)
    with pytest.raises(heddle.Error, match=r"inv: matrix 2 is singular: element \(1, 1\)"):
        y.wait()
    with pytest.raises(heddle.Error, match="inv: matrix 2"):
        (y + 1).sum().item()


def test_distributions():
    a, b = heddle.Generator(3), heddle.Generator(3)
    for draw in (
        lambda g: heddle.gamma((2, 3), [0.5, 1.0, 8.0], generator=g),
        lambda g: heddle.poisson(5, 3.5, generator=g),
        lambda g: heddle.binomial((4,), 10, 0.25, dtype="i32", generator=g),
        lambda g: heddle.categorical(heddle.zeros((2, 5)), generator=g),
        lambda g: heddle.multinomial([1.0, 0.0, 2.0], 2, generator=g),
        lambda g: heddle.choice(10, (3,), replace=False, generator=g),
        lambda g: heddle.shuffle(heddle.arange(6), generator=g),
    ):
        assert draw(a).tolist() == draw(b).tolist()
    assert a.position == b.position > 0
    assert sorted(heddle.shuffle(heddle.arange(6)).tolist()) == [0, 1, 2, 3, 4, 5]
    assert set(heddle.multinomial([1.0, 0.0, 2.0], 2).tolist()) == {0, 2}
    with pytest.raises(ValueError, match="beta: a is -1"):
        heddle.beta(2, -1, 2)


def test_tolerances_of_each_matrix():
    rng = np.random.default_rng(1)
    for values in (rng.normal(size=(2, 3, 4)), np.stack([np.diag([4.0, 2.0, 1.0]), np.zeros((3, 3))]), rng.normal(size=(3, 2)), np.zeros((2, 0, 3))):
        for dtype, tolerances in (("f4", np.array([0.3, 0.6])), ("f8", np.array(0.4)), ("f8", np.array([[0.1], [0.9]]))):
            x, rtol = values.astype(dtype), tolerances.astype(dtype)
            wide = np.broadcast_shapes(x.shape[:-2], rtol.shape)
            each = [(a, float(t)) for a, t in zip(np.broadcast_to(x, wide + x.shape[-2:]).reshape(math.prod(wide), *x.shape[-2:]), np.broadcast_to(rtol, wide).ravel(), strict=True)]
            rank = xp.linalg.matrix_rank(heddle.array(x), rtol=heddle.array(rtol))
            inverse = xp.linalg.pinv(heddle.array(x), rtol=heddle.array(rtol))
            assert rank.shape == wide and rank.dtype == heddle.i64
            assert inverse.shape == wide + x.shape[:-3:-1] and inverse.dtype == heddle.array(x).dtype
            want = [xp.linalg.matrix_rank(heddle.array(a.copy()), rtol=t).item() for a, t in each]
            assert rank.reshape(-1).tolist() == want
            for got, (a, t) in zip(inverse.numpy().reshape(math.prod(wide), *x.shape[:-3:-1]), each, strict=True):
                np.testing.assert_allclose(got, xp.linalg.pinv(heddle.array(a.copy()), rtol=t).numpy(), rtol=1e-4, atol=1e-5)
    for function in (xp.linalg.matrix_rank, xp.linalg.pinv):
        assert function(heddle.array(A), rtol=np.float32(0.5)).shape == function(heddle.array(A), rtol=1).shape
        with pytest.raises(TypeError, match=f"{function.__name__}: rtol is a str; want a float, an array or None"):
            function(heddle.array(A), rtol="a")
        with pytest.raises(TypeError, match=f"{function.__name__}: rtol has dtype i64; want a floating one"):
            function(heddle.array(A), rtol=heddle.array([1]))
