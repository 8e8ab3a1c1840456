"""Lists and tuples: arrays that are made of them, and operands that they are not."""

import numpy as np
import pytest

import heddle


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i32", None])
@pytest.mark.parametrize("kind", [list, tuple])
def test_floats_become_what_numpy_makes_of_them(kind, dtype):
    for values in [[1.5], [1 / 3, -0.0, 3e4, -2.0], [float(i) / 7 for i in range(5000)]]:
        x = heddle.array(kind(values), dtype=dtype)
        assert x.dtype == (heddle.f32 if dtype is None else getattr(heddle, dtype))
        wanted = np.array(values).astype(x.numpy().dtype) if dtype != "i32" else heddle.array(np.array(values)).astype("i32").numpy()
        assert x.shape == (len(values),) and x.numpy().tobytes() == wanted.tobytes()


def test_floats_beyond_f32_are_infinite_and_nan_stays():
    assert heddle.array([1e300, -1e300]).tolist() == [float("inf"), float("-inf")]
    assert np.isnan(heddle.array([float("nan"), 1.0]).numpy()).tolist() == [True, False]
    assert heddle.array([1e300], dtype="f64").tolist() == [1e300]


def test_lists_of_floats_and_others_keep_their_meaning():
    class Mine(float):
        pass

    assert heddle.array([1.0, 2]).dtype == heddle.f32 and heddle.array([1, 2]).dtype == heddle.i64
    assert heddle.array([Mine(2.5), 1.0]).tolist() == [2.5, 1.0] and heddle.array([[1.0], [2.0]]).shape == (2, 1)
    assert heddle.array([True, 1.0]).tolist() == [1.0, 1.0] and heddle.array([]).shape == (0,)
    with pytest.raises(TypeError, match="array: object is"):
        heddle.array([1.0, "2", None])


def test_lists_with_f64_arrays_are_f64():
    third = 1 / 3
    f64 = heddle.array([third], dtype="f64")
    for given in [[np.array([third])], (np.array([third]),), [[np.array(third)]], [f64], [[f64], [[1.0]]]]:
        x = heddle.array(given)
        assert x.dtype == heddle.f64 and x.reshape(-1)[0].item() == third
    for given in [[third], [np.float32(third), 1.0], [heddle.array([third])], [np.array([1]), [0.5]], [np.float64(third)]]:
        assert heddle.array(given).dtype == heddle.f32
    assert heddle.array([np.array([third])], dtype="f32").dtype == heddle.f32


def test_lists_and_texts_are_no_operands():
    number, row = heddle.array(2), heddle.array([1, 2, 3])
    repeated, extended = [1], [1]

    def repeat():
        nonlocal repeated
        repeated *= number

    def extend():
        nonlocal extended
        extended += row

    class Mine(list):
        pass

    calls = [lambda: number * [1, 2], lambda: [1, 2] * number, lambda: (1, 2) * number, lambda: "ab" * number, lambda: number * b"ab"]
    calls += [lambda: row + [1, 2, 3], lambda: row == [1, 2, 3], lambda: [1, 2, 3] == row, lambda: row != (1, 2, 3)]
    calls += [lambda: row < [1, 2, 3], lambda: number * Mine([1]), lambda: row == Mine([1]), repeat, extend]
    for call in calls:
        with pytest.raises(TypeError, match=r"an operand is a \w+; want an array or a number"):
            call()
    assert repeated == extended == [1]
    with pytest.raises(TypeError):
        row += [1, 2, 3]
    assert (row == heddle.array([1, 2, 3])).tolist() == [True] * 3

    class Reflected:
        def __rmul__(self, other):
            return "theirs"

        def __eq__(self, other):
            return "theirs"

    assert number * Reflected() == "theirs" and (number == Reflected()) == "theirs"
    assert not row == "a" and row != "a" and not row == None and "%d" % number == "2"  # noqa: E711
