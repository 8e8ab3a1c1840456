"""Operators: signatures, arguments and errors of the functions made from the registry."""

import inspect

import numpy as np
import pytest

import heddle
from heddle import _heddle


def test_every_operator_has_a_signature_and_documentation():
    table = _heddle._operator_table()
    assert len(table) >= 80
    for name, arguments, result, documentation, _family in table:
        function = getattr(heddle, name)
        signature = inspect.signature(function)
        out = ["out"] if result == "array" else []
        assert list(signature.parameters) == [argument[0] for argument in arguments] + out, name
        assert not out or signature.parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY, name
        assert inspect.getdoc(function).startswith(documentation.split("\n")[0]), name
        for argument, _kind, _choices, default in arguments:
            empty = signature.parameters[argument].default is inspect.Parameter.empty
            assert empty == (default is None), (name, argument)
        assert function.__name__ == name and function.__module__ == "heddle"


def test_arguments():
    x = heddle.array([[1.0, 2.0], [3.0, 4.0]])
    want = np.exp(x.numpy()) / np.exp(x.numpy()).sum(axis=0)
    np.testing.assert_allclose(heddle.softmax(x, axis=0).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(heddle.softmax(x, 0).numpy(), want, rtol=1e-6)
    assert heddle.sum(x, axis=[0, 1]).item() == 10
    assert heddle.sum(x, keepdims=True).shape == (1, 1)
    assert heddle.add(2, x).tolist() == [[3, 4], [5, 6]]
    assert heddle.add(x, np.ones(2, np.float32)).tolist() == [[2, 3], [4, 5]]
    assert heddle.concat([x, x], axis=1).shape == (2, 4)
    assert heddle.zeros(shape=3, dtype="i8").dtype == heddle.i8
    assert heddle.arange(2, 5).tolist() == [2, 3, 4]
    assert heddle.where(x > 2, x, 0).tolist() == [[0, 0], [3, 4]]


def test_out_is_the_array_that_gets_the_result():
    x, y = heddle.array([[1.0, 4.0], [9.0, 16.0]]), heddle.zeros((2, 2))
    assert heddle.sqrt(x, out=y) is y
    assert y.tolist() == [[1, 2], [3, 4]]
    assert heddle.sum(x, axis=0, out=y[1]).tolist() == [10, 20]
    assert y.tolist() == [[1, 2], [10, 20]]
    heddle.add(x, x.T, out=x)
    assert x.tolist() == [[2, 13], [13, 32]]
    assert heddle.add(x, 1, out=None).tolist() == [[3, 14], [14, 33]]
    wide = heddle.zeros((2, 2), dtype="f64")
    heddle.multiply(x, 0.5, out=wide)
    assert wide.tolist() == [[1, 6.5], [6.5, 16]]
    heddle.ones((2, 2), out=y)
    assert y.tolist() == [[1, 1], [1, 1]]


def test_what_out_cannot_be():
    x = heddle.ones((2, 2))
    with pytest.raises(TypeError, match="exp: out is a ndarray; wanted: heddle.NDArray or None"):
        heddle.exp(x, out=np.ones((2, 2), np.float32))
    with pytest.raises(ValueError, match=r"exp: out has shape \(2,\), the result \(2, 2\)"):
        heddle.exp(x, out=heddle.ones(2))
    with pytest.raises(ValueError, match="exp: a result of dtype f32 does not fit i32"):
        heddle.exp(x, out=heddle.ones((2, 2), dtype="i32"))
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        heddle.topk(x, 1, out=x)
    with pytest.raises(TypeError):
        heddle.add(x, x, x)
    x.requires_grad = True
    with pytest.raises(heddle.Error, match="multiply: an array requires a gradient"):
        heddle.multiply(x, 2, out=heddle.ones((2, 2)))
    with heddle.no_grad():
        assert heddle.multiply(x, 2, out=heddle.ones((2, 2))).tolist() == [[2, 2], [2, 2]]


def test_out_against_numpy():
    random = np.random.default_rng(5)
    for name in "add subtract multiply maximum arctan2 hypot".split():
        ours = getattr(heddle, {"arctan2": "atan2"}.get(name, name))
        for shape in ((7,), (3, 5), (2, 3, 4)):
            a, b = (random.standard_normal(shape).astype(np.float32) for _ in "ab")
            memory = np.zeros(tuple(2 * n for n in shape), np.float32)
            place = tuple(slice(None, None, 2) for _ in shape)
            target = heddle.array(memory)
            getattr(np, name)(a, b, out=memory[place])
            ours(heddle.array(a), heddle.array(b), out=target[place])
            np.testing.assert_allclose(target.numpy(), memory, rtol=1e-6)


def test_bad_arguments():
    x = heddle.ones((2, 2))
    with pytest.raises(TypeError, match="unexpected keyword argument 'axs'"):
        heddle.softmax(x, axs=0)
    with pytest.raises(TypeError, match="missing required argument: 'x'"):
        heddle.softmax()
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        heddle.softmax(x, x=x)
    with pytest.raises(TypeError, match="positional arguments"):
        heddle.exp(x, x, x)
    with pytest.raises(TypeError, match="exp: x is a str; wanted: array"):
        heddle.exp("x")
    with pytest.raises(TypeError, match="axis is a float"):
        heddle.softmax(x, axis=0.5)
    with pytest.raises(ValueError, match="matmul"):
        heddle.matmul(x, heddle.ones((3, 3)))
    with pytest.raises(heddle.InvalidArgument):
        heddle.softmax(x, axis=7)
    with pytest.raises(TypeError):
        heddle.sum(x, axis="all")
    with pytest.raises(ValueError, match="full: fill_value is an int below"):
        heddle.full(2, -(2**70))


def test_generators():
    a, b = heddle.Generator(7), heddle.Generator(7)
    assert heddle.uniform((3,), generator=a).tolist() == heddle.uniform((3,), generator=b).tolist()
    assert a.position == b.position > 0
    heddle.manual_seed(1)
    first = heddle.normal(4).tolist()
    heddle.manual_seed(1)
    assert heddle.normal(4).tolist() == first


def test_row_sparse_arrays():
    rows = heddle.row_sparse(heddle.array([2, 0]), heddle.array([[1.0], [2.0]]), (4, 1))
    assert rows.shape == (4, 1) and rows.dtype == heddle.f32
    assert heddle.to_dense(rows).tolist() == [[2], [0], [1], [0]]


def test_lists_of_arrays():
    x = heddle.arange(6).reshape((3, 2))
    parts = heddle.split(x, [1])
    assert isinstance(parts, tuple) and [part.tolist() for part in parts] == [[[0, 1]], [[2, 3], [4, 5]]]
    assert [part.shape for part in heddle.split(x, 3)] == [(1, 2)] * 3
    assert heddle.unstack(heddle.zeros((0, 2))) == ()
    columns, rows = heddle.meshgrid([heddle.arange(2), heddle.arange(3)])
    assert columns.shape == rows.shape == (3, 2) and rows[:, 0].tolist() == [0, 1, 2]


def test_ops_name_the_python_line(tmp_path):
    path = tmp_path / "trace.json"
    with heddle.trace(path):
        x = heddle.ones(3)
        line = inspect.currentframe().f_lineno + 1
        y = heddle.exp(x)
        y.wait()
    if heddle.default_engine().scheduler == "threaded":
        assert f"test_operators.py:{line}" in path.read_text()


INTEGERS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]


@pytest.mark.parametrize("a", ["bool", *INTEGERS, "f16", "f32", "f64"])
def test_promotion_of_all_pairs_is_numpys(a):
    for b in ["bool", *INTEGERS, "f16", "f32", "f64"]:
        x, y = heddle.ones(2, dtype=a), heddle.ones(2, dtype=b)
        assert (x * y).dtype.numpy_name == (x.numpy() * y.numpy()).dtype.name, (a, b)
        assert (x < y).dtype == heddle.bool_
        for number in (True, 2, 2.5):
            assert (x * number).dtype.numpy_name == (x.numpy() * number).dtype.name, (a, number)
    for total in ("sum", "prod", "cumsum", "cumprod"):
        assert getattr(heddle, total)(x).dtype.numpy_name == getattr(np, total)(x.numpy()).dtype.name, (a, total)


@pytest.mark.parametrize("name", INTEGERS)
def test_the_ends_of_integers(name):
    x = heddle.zeros(3, dtype=name)
    info = np.iinfo(x.dtype.numpy_name)
    ends = np.array([info.min, info.max, 1], x.dtype.numpy_name)
    y = heddle.array(ends)
    assert y.tolist() == ends.tolist() and int(y[1]) == y[1].item() == info.max
    assert heddle.full(2, info.max, dtype=name).tolist() == [info.max] * 2
    assert (x + info.max).tolist() == [info.max] * 3 and (y == info.max).tolist() == [False, True, False]
    assert (x <= info.max).tolist() == [True] * 3
    if info.min > -(2**63):
        assert (x < info.min - 1).tolist() == [False] * 3
    assert (y + y).tolist() == (ends + ends).tolist() and (y * y).tolist() == (ends * ends).tolist()
    assert heddle.clip(y, 0, info.max - 1).tolist() == np.clip(ends, 0, info.max - 1).tolist()
    assert str(y) == str(ends) and heddle.sort(y).tolist() == np.sort(ends).tolist()
    assert y.max().item() == info.max and y.min().item() == info.min
    with pytest.raises(ValueError, match=f"does not fit {name}|above|below"):
        x + (info.max + 1)
    with pytest.raises(ValueError, match=f"does not fit {name}|below"):
        x + (info.min - 1)


def test_what_an_op_refuses_leaves_the_target_as_it_was():
    for call, error in [
        (lambda out: heddle.one_hot(heddle.array([0, 5]), 3, out=out), IndexError),
        (lambda out: heddle.take(heddle.ones((4, 3)), heddle.array([0, 4]), 0, out=out), IndexError),
        (lambda out: heddle.power_(out, heddle.array([[2, 2, 2], [2, 2, -1]])), ValueError),
    ]:
        memory = np.full((2, 3), 7, np.int64 if error is ValueError else np.float32)
        out = heddle.from_dlpack(memory)
        call(out)
        with pytest.raises(error):
            out.wait()
        assert (memory == 7).all()


def test_lists_of_arrays_that_numpy_cannot_have():
    assert heddle.zeros((0, 1 << 62)).tolist() == [] and heddle.zeros((2, 0)).tolist() == [[], []]


def test_blocks_and_arrays_like_others():
    a, v = np.arange(4.0).reshape(2, 2), np.array([7.0, 8.0])
    for nested in ([[a, a], [a, a]], [a, a], a, [[a], [v]], [v, 1.0], [[[a, a]], [[a, a]]]):

        def ours(one):
            return [ours(x) for x in one] if isinstance(one, list) else heddle.array(np.asarray(one), dtype="f64")

        got, want = heddle.block(ours(nested)), np.block(nested)
        assert tuple(got.shape) == want.shape and np.array_equal(got.numpy(), want)
    with pytest.raises(ValueError, match="block: arrays has an empty list"):
        heddle.block([[], [heddle.ones(2)]])
    with pytest.raises(ValueError, match=r"block: arrays has lists of depths \[0, 1\] side by side"):
        heddle.block([[heddle.ones(2)], heddle.ones(2)])
    like = heddle.empty_like(heddle.ones((2, 3), dtype="f16"))
    assert tuple(like.shape) == (2, 3) and like.dtype == "f16" and heddle.empty_like(like, dtype="i8").dtype == "i8"
    with pytest.raises(TypeError, match="empty_like: x is a int; want an NDArray"):
        heddle.empty_like(3)


def test_pad_keeps_the_digits_of_its_value():
    large = 2**53 + 1
    assert heddle.pad(heddle.array([1], dtype="i64"), 1, value=large).tolist() == [large, 1, large]
    assert heddle.pad(heddle.array([1], dtype="u64"), 1, value=2**64 - 1).tolist() == [2**64 - 1, 1, 2**64 - 1]
    assert heddle.pad(heddle.array([1], dtype="i64"), 1, value=2.7).tolist() == [2, 1, 2]
    assert heddle.pad(heddle.array([1], dtype="i8"), (1,), (0,), value=300).tolist() == [127, 1]
    assert heddle.pad(heddle.array([0.5]), 1, value=0.25).tolist() == [0.25, 0.5, 0.25]


def test_split_at_no_index():
    x = heddle.arange(3)
    for none in [[], np.array([])]:
        (part,) = heddle.split(x, none)
        assert part.tolist() == [0, 1, 2]


def test_lists_of_floats_beside_f64_arrays():
    x = heddle.array([0.1, 1 / 3], dtype="f64")
    digits = [0.1, 1 / 3]
    assert heddle.isin(x, digits).tolist() == [True, True]
    assert heddle.maximum(heddle.zeros(2, dtype="f64"), digits).tolist() == digits
    assert heddle.maximum(digits, np.zeros(2)).tolist() == digits
    assert heddle.where(heddle.array([True, True]), digits, x).tolist() == digits
    assert heddle.solve(heddle.eye(2, dtype="f64"), digits).tolist() == digits
    assert heddle.concat([x, digits]).tolist() == digits * 2
    assert heddle.quantile(heddle.arange(11, dtype="f64"), [0.1]).tolist() == [1.0]
    assert heddle.take(x, [1]).tolist() == [1 / 3]
    assert heddle.maximum(heddle.zeros(2), digits).dtype == heddle.f32
