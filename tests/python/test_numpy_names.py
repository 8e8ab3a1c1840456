"""What NumPy's arrays and its module have, under the same names and with the same values."""

import numpy as np
import pytest

import heddle

A = np.array([[1.5, -2.25, 3.0], [0.0, 4.75, -1.5]], dtype=np.float32)

METHODS = {
    "std": [(), (0,), {"axis": 1, "ddof": 1}, {"keepdims": True}],
    "sum": [(), {"axis": 0}, {"dtype": "f8"}],
    "mean": [(), {"axis": (0, 1)}, {"axis": 1, "keepdims": True}],
    "max": [(), {"axis": 0}],
    "min": [(), {"axis": 1}],
    "prod": [(), {"axis": 1}],
    "any": [(), {"axis": 0}],
    "all": [(), {"axis": 0}],
    "ravel": [()],
    "flatten": [()],
    "cumsum": [(), (0,), {"axis": 1}],
    "cumprod": [(), (1,)],
    "squeeze": [()],
    "swapaxes": [(0, 1)],
    "clip": [(-1, 2), {"min": 0}, {"max": 1}],
    "round": [(), (1,), (-1,)],
    "argsort": [(), {"axis": 0}, {"axis": None}],
}


@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    for given in METHODS[name]:
        args, kwargs = ((), given) if isinstance(given, dict) else (given, {})
        if name == "clip" and kwargs:  # NumPy 1 has other names
            want = np.clip(A, kwargs.get("min"), kwargs.get("max"))
        else:
            want = getattr(A, name)(*args, **kwargs)
        got = getattr(heddle.array(A), name)(*args, **kwargs)
        assert tuple(got.shape) == want.shape
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "std", "prod", "any", "all", "cumsum", "ravel", "squeeze", "round", "argsort"])
def test_functions_of_numpy(name):
    np.testing.assert_allclose(np.asarray(getattr(np, name)(heddle.array(A))), getattr(np, name)(A), rtol=1e-6)


def test_out_is_filled_and_returned():
    x = heddle.array(A)
    for name, shape in [("sum", ()), ("std", ()), ("cumsum", (6,)), ("round", (2, 3))]:
        out = heddle.zeros(shape)
        assert getattr(x, name)(out=out) is out
        np.testing.assert_allclose(np.asarray(out), getattr(A, name)(), rtol=1e-6)
        with pytest.raises(TypeError, match=f"{name}: out is a int; want an NDArray or None"):
            getattr(x, name)(out=3)
    assert heddle.any(x > 4).item() is True and (x > 4).any(out=heddle.zeros((), dtype="bool")).item() is True


def test_sort_is_in_place():
    x, a = heddle.array(A), A.copy()
    assert x.sort() is None and a.sort() is None and x.tolist() == a.tolist()
    x.sort(0)
    a.sort(0)
    assert x.tolist() == a.tolist()


def test_methods_record_gradients():
    x = heddle.array(A)
    x.requires_grad = True
    (x.clip(-1, 2).cumsum() * x.flatten()).sum().backward()
    assert x.grad.shape == (2, 3)
    assert x.dot(heddle.array(A).T).shape == (2, 2) and x.ravel().requires_grad


def test_numbers_are_formatted():
    x = heddle.array([1.25])
    assert f"{x:.3f}" == "1.250" and f"{heddle.array(3):d}" == "3" and f"{x}" == str(x)
    with pytest.raises(TypeError, match=r"format: an array of shape \(2, 3\) takes no format '.1f'"):
        f"{heddle.array(A):.1f}"
    assert round(x) == 1 and isinstance(round(x), int) and round(x, 1).tolist() == [np.float32(1.2)]
    assert round(heddle.array(A), 1).tolist() == A.round(1).tolist()


def test_item_and_astype():
    x = heddle.array(A)
    assert x.item(4) == 4.75 and x.item(-1) == -1.5 and x.item(0, 1) == -2.25 and x.item((1, 1)) == 4.75
    with pytest.raises(IndexError):
        x.item(6)
    assert x.astype("f32", copy=False) is x and x.astype("f32") is not x and x.astype("f64", copy=False).dtype == heddle.f64


def test_dtypes():
    assert heddle.zeros(2, dtype="f8").dtype == heddle.f64 and heddle.zeros(2, dtype="i4").dtype == heddle.i32
    assert heddle.zeros(2, dtype="i8").dtype == heddle.int8  # a name of Heddle's: 8 bits
    assert np.dtype(heddle.array(A).dtype) == np.float32 and np.dtype(heddle.i64) == np.int64


def test_functions():
    x, y = heddle.array(A), heddle.array(A * np.float32(1 + 1e-6))
    for name in ("concatenate", "vstack", "hstack"):
        assert getattr(heddle, name)([x, y]).tolist() == getattr(np, name)([np.asarray(x), np.asarray(y)]).tolist()
    assert heddle.vstack([[1.0, 2.0], [3.0, 4.0]]).shape == (2, 2) and heddle.hstack([[1.0], [2.0]]).shape == (2,)
    special = np.array([1, np.inf, -np.inf, np.nan, 0], dtype=np.float32)
    for a in (special, special[::-1].copy()):
        for equal_nan in (False, True):
            want = np.isclose(a, special, equal_nan=equal_nan).tolist()
            assert heddle.isclose(heddle.array(a), heddle.array(special), equal_nan=equal_nan).tolist() == want
    assert heddle.allclose(x, y) is True and heddle.allclose(x, y + 1) is False
    assert x[heddle.newaxis].shape == (1, 2, 3)
    np.testing.assert_allclose(np.asarray(heddle.linalg.norm(x)), np.linalg.norm(A), rtol=1e-6)
    heddle.random.seed(5)
    first = heddle.random.normal(1, 2, (3,)).tolist()
    heddle.random.seed(5)
    assert heddle.random.normal(1, 2, (3,)).tolist() == first
    assert heddle.random.rand(2, 3).shape == (2, 3) and heddle.random.uniform().shape == ()
    drawn = heddle.random.integers(3, size=100)
    assert drawn.dtype == heddle.i64 and set(drawn.tolist()) == {0, 1, 2}


def test_no_grad_is_a_decorator():
    x = heddle.ones(2)
    x.requires_grad = True

    @heddle.no_grad()
    def twice(y, *, factor=2):
        """Doubles."""
        return y * factor

    assert not twice(x).requires_grad and (x * 2).requires_grad and twice.__doc__ == "Doubles."
    assert twice(x, factor=3).tolist() == [3, 3]
