"""The array API standard 2024.12: names, signatures, and values against NumPy, which has the standard's names since 2.1."""

import inspect

import numpy as np
import pytest

import heddle
from heddle import array_api as xp

STANDARD = """
e inf nan newaxis pi
arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros zeros_like
astype can_cast finfo iinfo isdtype result_type
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
round sign signbit sin sinh square sqrt subtract tan tanh trunc
linalg take take_along_axis matmul matrix_transpose tensordot vecdot
broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack
argmax argmin count_nonzero nonzero searchsorted where unique_all unique_counts unique_inverse unique_values argsort sort
cumulative_prod cumulative_sum max mean min prod std sum var all any diff
__array_namespace_info__ __array_api_version__
""".split()

# Names without an operator. A name that gets one must be removed from this list.
MISSING = """
complex64 complex128 conj imag real
""".split()

X = np.array([[1.5, -2.0, 0.0], [4.0, 0.5, 3.0]], np.float32)


def test_names():
    assert [name for name in STANDARD if not hasattr(xp, name)] == [name for name in STANDARD if name in MISSING]
    assert set(MISSING) <= set(STANDARD)
    assert not [name for name in MISSING if hasattr(heddle, name)]
    public = {name for name in vars(xp) if not name.startswith("_")}
    assert public <= set(STANDARD)
    x = heddle.ones(2)
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueError, match="2019"):
        x.__array_namespace__(api_version="2019.12")


@pytest.mark.skipif(np.__version__ < "2.1", reason="NumPy has no array API")
def test_keywords_are_the_standards():
    for name in STANDARD:
        ours = getattr(xp, name, None)
        theirs = getattr(np, name, None)
        if not inspect.isfunction(ours) or not inspect.isfunction(theirs):
            continue
        for parameter in inspect.signature(ours).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY:
                assert parameter.name in ("dtype", "device", "copy", "axis", "keepdims", "correction", "endpoint", "k", "n", "prepend", "append", "include_initial", "axes", "indexing", "side", "sorter", "descending", "stable"), name


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x: xp.abs(x), lambda xp, x: xp.exp(x), lambda xp, x: xp.sqrt(xp.abs(x)), lambda xp, x: xp.square(x),
        lambda xp, x: xp.tanh(x), lambda xp, x: xp.negative(x), lambda xp, x: xp.positive(x), lambda xp, x: xp.pow(x, 2),
        lambda xp, x: xp.reciprocal(x + 10), lambda xp, x: xp.add(x, x), lambda xp, x: xp.divide(x, 2),
        lambda xp, x: xp.maximum(x, -x), lambda xp, x: xp.less(x, 1), lambda xp, x: xp.logical_not(x > 0),
        lambda xp, x: xp.isnan(x / x), lambda xp, x: xp.isinf(1 / x), lambda xp, x: xp.isfinite(1 / x),
        lambda xp, x: xp.clip(x, min=0), lambda xp, x: xp.clip(x, -1, 2), lambda xp, x: xp.clip(x, max=1),
        lambda xp, x: xp.where(x > 0, x, -x), lambda xp, x: xp.matmul(x, x.T), lambda xp, x: xp.vecdot(x, x), lambda xp, x: xp.tensordot(x, x.T, axes=1),
        lambda xp, x: xp.matrix_transpose(x), lambda xp, x: xp.permute_dims(x, (1, 0)), lambda xp, x: xp.flip(x),
        lambda xp, x: xp.flip(x, axis=-1), lambda xp, x: xp.moveaxis(xp.expand_dims(x, axis=0), 0, -1),
        lambda xp, x: xp.concat([x, x], axis=None), lambda xp, x: xp.concat([x, xp.astype(x, xp.float64)], axis=1),
        lambda xp, x: xp.stack([x, x], axis=-1), lambda xp, x: xp.unstack(x, axis=1)[2],
        lambda xp, x: xp.broadcast_arrays(x, x[0])[1], lambda xp, x: xp.broadcast_to(x[0], (4, 3)),
        lambda xp, x: xp.squeeze(x[:1], axis=0), lambda xp, x: xp.reshape(x, (3, 2)), lambda xp, x: xp.argmax(x),
        lambda xp, x: xp.argmax(x, axis=0), lambda xp, x: xp.argmin(x, axis=1, keepdims=True),
        lambda xp, x: xp.argmin(x, keepdims=True), lambda xp, x: xp.max(x, axis=1), lambda xp, x: xp.min(x),
        lambda xp, x: xp.mean(x, axis=0), lambda xp, x: xp.sum(x, axis=1, keepdims=True),
        lambda xp, x: xp.sum(x > 0), lambda xp, x: xp.var(x, axis=1), lambda xp, x: xp.std(x, correction=1),
        lambda xp, x: xp.count_nonzero(x, axis=0), lambda xp, x: xp.all(x, axis=1), lambda xp, x: xp.any(x),
        lambda xp, x: xp.arange(5), lambda xp, x: xp.arange(1, 9, 3), lambda xp, x: xp.full((2,), 3),
        lambda xp, x: xp.full_like(x, 2), lambda xp, x: xp.ones_like(x), lambda xp, x: xp.zeros_like(x, dtype=xp.int32),
        lambda xp, x: xp.sin(x), lambda xp, x: xp.atan2(x, x + 1), lambda xp, x: xp.floor(x), lambda xp, x: xp.round(x),
        lambda xp, x: xp.remainder(x, 3), lambda xp, x: xp.floor_divide(x, 2), lambda xp, x: xp.sign(x),
        lambda xp, x: xp.logical_and(x > 0, x < 2), lambda xp, x: xp.bitwise_xor(xp.asarray([5, 2]), xp.asarray([1, 7])),
        lambda xp, x: xp.hypot(x, x), lambda xp, x: xp.log1p(xp.abs(x)), lambda xp, x: xp.prod(x, axis=0),
        lambda xp, x: xp.cumulative_sum(x, axis=1), lambda xp, x: xp.cumulative_prod(x[0], include_initial=True),
        lambda xp, x: xp.cumulative_sum(xp.arange(4), include_initial=True), lambda xp, x: xp.diff(x, axis=0),
        lambda xp, x: xp.diff(x, n=2, prepend=x), lambda xp, x: xp.eye(3, 4, k=1, dtype=xp.float32), lambda xp, x: xp.tril(x),
        lambda xp, x: xp.triu(xp.stack([x, x]), k=1),
        lambda xp, x: xp.meshgrid(x[0], x[1], indexing="ij")[1], lambda xp, x: xp.meshgrid(x[0], x[1])[0], lambda xp, x: xp.roll(x, 2),
        lambda xp, x: xp.roll(x, (1, -1), axis=(0, 1)), lambda xp, x: xp.tile(x, (2, 1, 2)), lambda xp, x: xp.repeat(x, 2),
        lambda xp, x: xp.repeat(x, xp.asarray([2, 0, 1]), axis=1), lambda xp, x: xp.sort(x), lambda xp, x: xp.sort(x, axis=0),
        lambda xp, x: xp.argsort(x, axis=0), lambda xp, x: xp.nonzero(x)[1], lambda xp, x: xp.unique_values(xp.concat([x, x])),
        lambda xp, x: xp.take_along_axis(x, xp.argsort(x), axis=-1), lambda xp, x: xp.take_along_axis(x, xp.asarray([[1, 0, 1]]), axis=0),
        lambda xp, x: xp.searchsorted(xp.sort(x[0]), x), lambda xp, x: xp.searchsorted(x[0], x[1], side="right", sorter=xp.argsort(x[0])),
        lambda xp, x: xp.unique_all(xp.floor(x / 2)).indices, lambda xp, x: xp.unique_all(xp.floor(x / 2)).inverse_indices,
        lambda xp, x: xp.unique_counts(xp.floor(x / 2)).counts, lambda xp, x: xp.unique_inverse(xp.floor(x / 2)).values,
        lambda xp, x: xp.take(x, xp.asarray([2, 0]), axis=1), lambda xp, x: xp.asarray(x, dtype=xp.float64),
    ],
)
def test_values_agree_with_numpy(call):
    with np.errstate(all="ignore"):
        want = np.asarray(call(np, X))
    got = call(xp, heddle.array(X))
    assert got.shape == want.shape and got.dtype.numpy_name == want.dtype.name
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


def test_floats_of_python_are_f32():
    assert xp.arange(0, 1, 0.25).dtype == xp.float32 and xp.full((1,), 0.5).dtype == xp.float32
    assert xp.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert xp.linspace(2, 4, 4, endpoint=False).tolist() == [2, 2.5, 3, 3.5]
    assert xp.linspace(3, 5, 1).tolist() == [3]
    assert xp.ones((2, 3)).dtype == xp.zeros(1).dtype == xp.empty(1).dtype == xp.float32


def test_dtypes():
    assert xp.result_type(xp.float32, xp.float64) == xp.float64
    assert xp.result_type(xp.ones(1), 2) == xp.float32
    assert xp.can_cast(xp.int32, xp.int64) and not xp.can_cast(xp.float64, xp.float32)
    assert xp.isdtype(xp.int8, "integral") and xp.isdtype(xp.bool, ("bool", "numeric"))
    assert not xp.isdtype(xp.bool, "numeric") and xp.isdtype(xp.uint8, xp.uint8)
    assert xp.finfo(xp.float32).bits == 32 and xp.iinfo(xp.ones(1, dtype=xp.int8)).min == -128
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}
    x = xp.asarray([1, 2, 3])
    assert x[x > 1].tolist() == [2, 3] and xp.nonzero(x > 1)[0].tolist() == [1, 2] and xp.ones((1,) * 8).ndim == 8
    assert info.default_device() in info.devices()
    assert info.dtypes(kind="real floating") == {"float32": xp.float32, "float64": xp.float64}
    assert set(info.dtypes()) == set("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split())
    assert info.default_dtypes()["real floating"] == xp.float32


def test_copies():
    x = heddle.ones(3)
    assert xp.asarray(x) is x and xp.asarray(x, copy=False) is x
    assert xp.asarray(x, copy=True).var != x.var
    for refused in (lambda: xp.asarray([1], copy=False), lambda: xp.asarray(x, dtype=xp.float64, copy=False)):
        with pytest.raises(ValueError, match="copy"):
            refused()
    assert xp.astype(x, xp.float32, copy=False) is x
    assert xp.from_dlpack(x).var == x.var and xp.from_dlpack(np.ones(2), copy=True).dtype == xp.float64
    with pytest.raises(ValueError, match="contiguous"):
        xp.reshape(heddle.ones((2, 3)).T, (6,), copy=False)
    assert x.to_device("cpu") is not None and heddle.ones((4, 2, 3)).mT.shape == (4, 3, 2)
    with pytest.raises(ValueError, match="two axes"):
        x.mT  # noqa: B018


@pytest.mark.skipif(np.__version__ < "2.1", reason="NumPy has no array API")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "bool"])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min", "all", "any", "std", "var", "count_nonzero", "linalg.vector_norm"])
def test_reductions_along_no_axis_keep_every_element(name, dtype):
    def call(module, x, **options):
        for part in name.split("."):
            module = getattr(module, part)
        return module(x, axis=(), **options)

    for shape in ((2, 3), (), (0, 3), (1,) * 7 + (2,)):
        values = np.asarray(np.arange(np.prod(shape)).reshape(shape) - 2).astype(dtype)
        for options in ({}, {"keepdims": True}):
            got = call(xp, heddle.array(values), **options)
            assert got.shape == shape
            if name == "linalg.vector_norm":
                np.testing.assert_allclose(got.numpy(), np.abs(values.astype("f8")))
                continue
            want = np.asarray(call(np, values, **options))
            np.testing.assert_array_equal(got.numpy(), want)
            assert got.dtype.numpy_name == want.dtype.name, (got.dtype, want.dtype)


def test_reductions_of_nothing_and_of_one_element():
    assert xp.var(xp.zeros((0, 3)), axis=1).shape == (0,)
    assert np.isnan(xp.var(xp.ones(1), correction=2).item()) and np.isnan(xp.std(xp.ones(1), correction=1).item())
    x = heddle.array([1e4, 1e4 + 8], dtype="f16")  # the squares exceed f16's range
    assert xp.var(x).item() == 16 and xp.var(x).dtype == heddle.f16


@pytest.mark.skipif(np.__version__ < "2.1", reason="NumPy has no array API")
@pytest.mark.parametrize("dtype", [None, *"bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()])
@pytest.mark.parametrize("values", [np.array([100, 100]), np.array([200, 100], np.uint8), np.array([1.75, 3.5], np.float32), np.array([True, True])])
def test_sums_have_the_dtype_that_is_asked_for(values, dtype):
    ours = None if dtype is None else getattr(heddle, dtype if dtype != "bool" else "bool_")
    for call in (
        lambda xp, x, d: xp.sum(x, dtype=d), lambda xp, x, d: xp.prod(x, dtype=d), lambda xp, x, d: xp.cumulative_sum(x, dtype=d),
        lambda xp, x, d: xp.cumulative_prod(x, dtype=d), lambda xp, x, d: xp.cumulative_sum(x, dtype=d, include_initial=True),
        lambda xp, x, d: xp.linalg.trace(x[:, None] * x[None, :], dtype=d), lambda xp, x, d: xp.sum(x, axis=(), dtype=d),
    ):  # fmt: skip
        want, got = np.asarray(call(np, values, dtype)), call(xp, heddle.array(values), ours)
        assert got.dtype.numpy_name == want.dtype.name and got.shape == want.shape
        np.testing.assert_array_equal(got.numpy(), want)


def test_sums_of_halves():
    x = heddle.ones(4000, dtype="f16") + heddle.array(0.001, dtype="f16")  # 4000 x 1.000977; a sum in f16 stops at 2048
    assert xp.sum(x).dtype == xp.cumulative_sum(x).dtype == xp.prod(x).dtype == heddle.f16
    assert xp.sum(x).item() == xp.cumulative_sum(x)[-1].item() == 4004
    assert xp.sum(heddle.ones(3, dtype="bf16")).dtype == heddle.bf16
    assert xp.sum(x, dtype=xp.float32).item() == pytest.approx(4003.906)


def test_running_sums_check_their_axis():
    assert xp.cumulative_sum(xp.asarray(3)).tolist() == [3] and xp.cumulative_prod(xp.asarray(3), include_initial=True).tolist() == [1, 3]
    assert xp.cumulative_sum(xp.ones((2, 3)), axis=-2, include_initial=True).tolist() == [[0] * 3, [1] * 3, [2] * 3]
    with pytest.raises(ValueError, match="cumsum: axis 5"):
        xp.cumulative_sum(xp.ones((2, 3)), axis=5)
    with pytest.raises(ValueError, match="cumulative_prod: axis is None for an array of 2 axes"):
        xp.cumulative_prod(xp.ones((2, 3)))


def test_errors_name_function_and_argument():
    x = xp.asarray([1, 2])
    kinds = "want one of 'bool', 'signed integer', .*'numeric'"
    for error, text, call in (
        (IndexError, "searchsorted: sorter has index 9; want indices of the 2 elements", lambda: xp.searchsorted(x, x, sorter=xp.asarray([0, 9]))),
        (IndexError, "searchsorted: sorter has index -3", lambda: xp.searchsorted(x, x, sorter=[-3, 0])),
        (ValueError, "searchsorted: sorter has dtype f32 and shape", lambda: xp.searchsorted(x, x, sorter=xp.ones(2))),
        (ValueError, r"searchsorted: sorter .* shape \(1,\); want integers of x1's shape \(2,\)", lambda: xp.searchsorted(x, x, sorter=x[:1])),
        (ValueError, "searchsorted: side is 'foo'; want 'left' or 'right'", lambda: xp.searchsorted(x, x, side="foo")),
        (ValueError, f"isdtype: kind is 'foo'; {kinds}", lambda: xp.isdtype(xp.bool, "foo")),
        (ValueError, "isdtype: kind is 'foo'", lambda: xp.isdtype(xp.bool, ("bool", "foo"))),
        (TypeError, f"isdtype: kind is a int; {kinds}", lambda: xp.isdtype(xp.bool, 3)),
        (ValueError, "dtypes: kind is 'foo'", lambda: xp.__array_namespace_info__().dtypes(kind="foo")),
        (ValueError, "finfo: type is i8; want a floating dtype", lambda: xp.finfo(xp.int8)),
        (ValueError, "iinfo: type is bool; want an integer dtype", lambda: xp.iinfo(xp.bool)),
    ):
        with pytest.raises(error, match=text):
            call()
    assert xp.searchsorted(xp.asarray([3, 1]), x, sorter=[1, -2]).tolist() == [0, 1]
    assert xp.searchsorted(xp.ones(0), xp.ones(1), sorter=xp.zeros(0, dtype=xp.int64)).tolist() == [0]
    assert xp.isdtype(heddle.f16, "real floating") and xp.isdtype(heddle.bf16, "numeric") and not xp.isdtype(heddle.f16, "integral")
    assert xp.finfo(heddle.bf16).bits == 16 and xp.finfo(heddle.bf16).eps == 2**-7 and xp.finfo(heddle.f16).max == 65504


def test_results_are_the_standards():
    x, bytes_ = xp.asarray([[1.5, 2.5]]), xp.asarray([1, 2], dtype=xp.uint8)
    for copy in (xp.positive(x), xp.clip(x), xp.flip(x, axis=())):  # elementwise functions return a copy
        copy += 1
        assert copy.tolist() == [[2.5, 3.5]]
    assert x.tolist() == [[1.5, 2.5]]
    assert xp.squeeze(x, ()).shape == (1, 2)
    assert xp.expand_dims(x, 2).shape == xp.expand_dims(x, axis=-1).shape == (1, 2, 1)
    assert xp.arange(np.float64(2)).dtype == xp.float32 and isinstance(xp.meshgrid(x[0], x[0]), list)
    assert xp.result_type(bytes_, 300) == xp.uint8 and xp.result_type(True, xp.bool) == xp.bool and xp.result_type(1.0, x) == xp.float32
    assert xp.concat([xp.ones((0, 2)), xp.ones((0,))], axis=None).shape == (0,)
    for error, text, call in (
        (ValueError, "concat: arrays is empty", lambda: xp.concat([])), (ValueError, "stack: arrays is empty", lambda: xp.stack([])),
        (TypeError, "concat: arrays has a int", lambda: xp.concat([x, 1])), (ValueError, "take: axis is None", lambda: xp.take(x, bytes_)),
        (TypeError, "matrix_norm: ord is a list", lambda: xp.linalg.matrix_norm(x, ord=[1])),
        (TypeError, "vector_norm: ord is a str", lambda: xp.linalg.vector_norm(x, ord="x")),
        (ValueError, "tensordot: axes is", lambda: xp.linalg.tensordot(x, x, axes=((0,),))),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize("name", "add atan2 copysign divide equal floor_divide greater hypot less logaddexp maximum minimum multiply nextafter not_equal pow remainder subtract".split())
def test_numbers_of_python_stand_on_either_side(name):
    x = np.array([1.5, 2.5], np.float32)
    for call in (lambda module, x: getattr(module, name)(x, 2.0), lambda module, x: getattr(module, name)(2.0, x)):
        want, got = call(np, x), call(xp, heddle.array(x))
        assert got.dtype.numpy_name == want.dtype.name
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("k", [-(2**63), -4, -3, -1, 0, 2, 3, 2**70])
def test_diagonals_beyond_the_matrix_are_empty(k):
    assert xp.eye(3, k=k).tolist() == np.eye(3, k=max(-9, min(k, 9))).tolist()
    assert xp.eye(0, 2, k=k).shape == (0, 2)
