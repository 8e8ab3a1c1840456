"""NDArray: construction, operators, indexing, memory."""

import copy
import pickle
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

import heddle

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_construction():
    assert heddle.array([1, 2]).dtype == heddle.i64
    assert heddle.array([1.5, 2]).dtype == heddle.f32
    assert heddle.array(True).dtype == heddle.bool_
    assert heddle.array(np.ones(2)).dtype == heddle.f64
    assert heddle.array([1, 2], dtype="float16").dtype == "f16"
    assert heddle.array([[1, 2], [3, 4]], dtype=np.int32).tolist() == [[1, 2], [3, 4]]
    assert heddle.zeros((2, 3)).shape == (2, 3)
    assert heddle.full((2,), 7, dtype="i32").tolist() == [7, 7]
    assert heddle.arange(3).tolist() == [0, 1, 2]
    assert heddle.eye(2).tolist() == [[1, 0], [0, 1]]
    assert heddle.array(X[:, ::-1, 1:].T).tolist() == X[:, ::-1, 1:].T.tolist()
    assert heddle.array(X.astype(">f4")).tolist() == X.tolist()
    with pytest.raises(TypeError):
        heddle.array("text")
    with pytest.raises(ValueError, match="no dtype"):
        heddle.array([1], dtype="f80")


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"])
def test_every_dtype_goes_to_numpy_and_back(name):
    x = heddle.array([0, 1, 1, 0], dtype=name)
    there = x.numpy()
    assert there.dtype.name == x.dtype.numpy_name
    assert heddle.array(there).dtype == x.dtype
    assert heddle.array(there).tolist() == x.tolist()
    again = pickle.loads(pickle.dumps(x))
    assert again.dtype is x.dtype and again.tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(x.dtype)) is x.dtype


def test_attributes():
    x = heddle.array(X)
    assert (x.shape, x.ndim, x.size, x.nbytes, len(x)) == ((2, 3, 4), 3, 24, 96, 2)
    assert x.device == heddle.cpu() and str(x.device) == "cpu(0)" and heddle.Device("cpu:1").index == 1
    assert x.T.shape == (4, 3, 2)
    assert [row.tolist() for row in x] == X.tolist()
    with pytest.raises(TypeError):
        len(heddle.array(1))
    with pytest.raises(TypeError):
        hash(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / (y + 1), lambda x, y: x**2,
        lambda x, y: 2 - x, lambda x, y: 1 / (x + 1), lambda x, y: -x, lambda x, y: +x, lambda x, y: abs(-x),
        lambda x, y: x < y, lambda x, y: x <= 3, lambda x, y: x > y, lambda x, y: x >= y, lambda x, y: x == y,
        lambda x, y: x != y, lambda x, y: x @ y.T, lambda x, y: ~(x > y), lambda x, y: x + np.float32(2),
        lambda x, y: np.float32(2) * x, lambda x, y: x + True, lambda x, y: 2**x,
    ],
)
def test_operators_agree_with_numpy(function):
    x, y = X[0], X[1, ::-1].copy()
    got = function(heddle.array(x), heddle.array(y))
    want = function(x, y)
    assert isinstance(got, heddle.NDArray)
    assert got.dtype.numpy_name == want.dtype.name
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_numpy_on_the_left_gives_an_array():
    got = X[0] + heddle.array(X[0])
    assert isinstance(got, heddle.NDArray)
    assert got.tolist() == (X[0] * 2).tolist()


def test_operands_that_are_none():
    x = heddle.ones(2)
    with pytest.raises(TypeError):
        x + "1"
    with pytest.raises(TypeError):
        x + [1, 2]
    assert (x == None) is False  # noqa: E711
    with pytest.raises(TypeError):
        ~heddle.ones(2) if False else x @ 2 if False else x + object()
    with pytest.raises(ValueError, match="wanted an integer.s or bool"):
        ~x
    with pytest.raises(ValueError, match="broadcast"):
        x + heddle.ones(3)


def test_in_place_operators_write_into_the_same_memory():
    x = heddle.array(X)
    view = x[0]
    same = x
    x += 1
    x *= heddle.array(2.0)
    x -= 1
    x /= 2
    assert same is x
    np.testing.assert_allclose(view.numpy(), (((X + 1) * 2 - 1) / 2)[0])
    y = heddle.arange(3, dtype="i32")
    with pytest.raises(ValueError):
        y += 0.5


@pytest.mark.parametrize(
    "key",
    [
        0, -1, (1, 2), (1, 2, 3), slice(None), slice(1, None), slice(None, None, -1), (slice(None), 1),
        (slice(None), slice(0, 3, 2)), (Ellipsis, 0), (0, Ellipsis), (None, 0), (slice(None), None, 1), Ellipsis, (),
        (slice(5, 2),), (0, slice(None), slice(None, None, -2)), np.int64(1), [1, 0, 1], np.array([[0, 1]]),
        (slice(None), [2, 0]), (Ellipsis, [3, 3, 0]),
    ],
)
def test_indexing_agrees_with_numpy(key):
    assert heddle.array(X)[key].tolist() == X[key].tolist()


def test_bad_indices():
    x = heddle.array(X)
    for key in (2, -3, (0, 3), (0, 0, 0, 0), (Ellipsis, Ellipsis), heddle.array([0.5]), ([0], [0], [0], [0])):
        with pytest.raises(IndexError):
            x[key]
    for key in ("a", 1.5):
        with pytest.raises(TypeError):
            x[key]
    with pytest.raises(TypeError):
        del x[0]


def test_assignment_agrees_with_numpy():
    for key, value in [(0, 1), ((slice(None), 1), 2.5), (Ellipsis, X * 2), ((1, slice(None, None, 2)), X[0, :2] + 1),
                       ((0, 0, 0), True), (X > 7, -1), (slice(None, None, -1), X)]:
        ours, theirs = heddle.array(X), X.copy()
        ours[heddle.array(key) if isinstance(key, np.ndarray) else key] = value
        theirs[key] = value
        assert ours.tolist() == theirs.tolist(), key
    x = heddle.array(X)
    x[0] += 1
    x[:, 1] *= x[:, 2]
    want = X.copy()
    want[0] += 1
    want[:, 1] *= want[:, 2]
    assert x.tolist() == want.tolist()
    x[0] = x[1]
    with pytest.raises(ValueError):
        x[0] = heddle.ones(5)


def test_assignment_through_a_mask_keeps_to_the_tape():
    leaf = heddle.ones(3)
    leaf.requires_grad = True
    y = leaf * 2
    with pytest.raises(heddle.Error, match="requires a gradient"):
        y[y > 0] = 0
    assert y.tolist() == [2, 2, 2]
    plain = heddle.ones(3)
    with pytest.raises(heddle.Error, match="gradient"):
        plain[plain > 0] = leaf.sum()
    with heddle.no_grad():
        y[y > 0] = leaf.sum()
    assert y.tolist() == [3, 3, 3] and not plain.requires_grad
    leaf[leaf > 0] = 5  # as leaf[:] = 5
    assert leaf.tolist() == [5, 5, 5]


def test_iteration():
    x = heddle.array(X)
    assert [row.tolist() for row in x] == X.tolist()
    assert list(heddle.ones(0)) == []
    assert 5 in heddle.arange(6) and 7 not in heddle.arange(6)
    with pytest.raises(TypeError, match="iter: an array without axes"):
        iter(heddle.array(5))
    with pytest.raises(TypeError):
        3 in heddle.array(3)  # noqa: B015


def test_the_dtype_float_is_f32_by_class_and_by_name():
    for dtype in (float, "float"):
        assert heddle.zeros(2, dtype=dtype).dtype == heddle.f32
        assert heddle.array([1, 2], dtype=dtype).dtype == heddle.f32
    assert heddle.array(np.ones(2, np.dtype("float"))).dtype == heddle.f64
    assert heddle.zeros(2, dtype=np.float64).dtype == heddle.f64
    for dtype in (int, "int"):
        assert heddle.zeros(2, dtype=dtype).dtype == heddle.i64
    with pytest.raises(TypeError, match="number"):
        heddle.full(2, "3")


def test_values_of_one_element():
    assert heddle.array(2.5).item() == 2.5 and float(heddle.array([2])) == 2.0
    assert int(heddle.array([[7.9]])) == 7 and heddle.array(True).item() is True
    assert [10, 20][heddle.array(1)] == 20
    assert bool(heddle.array([3])) and not heddle.array(0.0)
    with pytest.raises(ValueError, match="one element"):
        bool(heddle.ones(2))
    with pytest.raises(TypeError):
        [1][heddle.array(1.0)]


def test_text():
    assert str(heddle.array([1, 2])) == "[1 2]"
    assert repr(heddle.array([[1.5], [2]])) == "array([[1.5]\n       [2. ]], dtype=f32)"


def test_numpy_shares_memory():
    x = heddle.zeros((2, 3))
    view = x.numpy()
    view[0, 1] = 5
    assert x.tolist() == [[0, 5, 0], [0, 0, 0]]
    assert np.shares_memory(view, np.asarray(x)) and np.shares_memory(view, np.frombuffer(x, np.float32))
    assert not np.shares_memory(view, x.numpy(copy=True))
    assert not np.shares_memory(view, np.array(x))
    assert memoryview(x).format == "f" and memoryview(x).strides == (12, 4)
    assert memoryview(heddle.zeros((0, 1 << 62))).strides == (0, 4)  # strides of 2^64 bytes, which no step uses
    assert np.asarray(x.T).strides == (4, 12)
    del x
    view[1, 2] = 7  # the view keeps the memory alive
    assert view.tolist() == [[0, 5, 0], [0, 0, 7]]
    with pytest.raises(BufferError, match="bf16"):
        memoryview(heddle.zeros(2, dtype="bf16"))
    with pytest.raises(BufferError, match="contiguous"):
        np.frombuffer(heddle.zeros((2, 3)).T, np.float32)
    assert heddle.zeros(2, dtype="bf16").numpy().dtype == ml_dtypes.bfloat16


def test_orders_that_the_buffer_protocol_asks_for():
    testbuffer = pytest.importorskip("_testbuffer")
    any_order, columns = testbuffer.PyBUF_ANY_CONTIGUOUS, testbuffer.PyBUF_F_CONTIGUOUS
    rows = heddle.zeros((2, 3))
    for array, flags in [(rows, any_order), (rows.T, any_order), (rows.T, columns), (rows[0], columns)]:
        assert testbuffer.ndarray(array, getbuf=flags).shape == array.shape
    for array, flags in [(rows[:, ::2], any_order), (rows[:, ::-1], any_order), (rows, columns)]:
        with pytest.raises(BufferError):
            testbuffer.ndarray(array, getbuf=flags)


def test_no_buffer_is_kept_when_an_array_cannot_be_made():
    memory = np.ones((1,) * 20, np.float32)
    count = sys.getrefcount(memory)
    for _ in range(10):
        with pytest.raises(ValueError):
            heddle.array(memory)
    assert sys.getrefcount(memory) == count


def test_memory_of_a_leaf_is_read_only():
    x = heddle.ones(2)
    x.requires_grad = True
    assert not x.numpy().flags.writeable
    assert x.detach().numpy().flags.writeable


def test_an_op_uses_the_memory_of_arrays_that_it_declared(engine):
    with engine:
        x, y = heddle.ones(3), heddle.zeros(3)
        x += 1

        def run():
            source, target = np.asarray(x), np.asarray(y)
            assert not source.flags.writeable
            target[...] = source * 3

        engine.push(run, read=[x], mutate=[y])
        assert (y + 1).tolist() == [7, 7, 7]


def test_copies():
    x = heddle.array(X)
    for y in (x.copy(), copy.copy(x), copy.deepcopy(x), heddle.array(x)):
        y[...] = 0
        assert x.tolist() == X.tolist()
    assert heddle.asarray(x) is not None and np.shares_memory(heddle.asarray(x).numpy(), x.numpy())
    assert x.astype("i32").dtype == heddle.i32
    assert x.reshape(6, -1).shape == (6, 4) and x.reshape((24,)).shape == (24,)
    assert x.transpose(2, 0, 1).shape == (4, 2, 3)
    assert x.to("cpu(1)").device == heddle.cpu(1)
    assert x.sum().item() == X.sum() and x.mean(axis=1).tolist() == X.mean(axis=1).tolist()
    assert x.max(axis=(0, 2)).tolist() == X.max(axis=(0, 2)).tolist() and x.argmax(0).tolist() == X.argmax(0).tolist()
    leaf = heddle.ones(2)
    leaf.requires_grad = True
    assert copy.deepcopy(leaf).requires_grad and pickle.loads(pickle.dumps(leaf)).requires_grad


def test_errors_of_values_arrive_at_the_wait():
    x = heddle.arange(3)
    bad = heddle.take(x, heddle.array([7]))
    with pytest.raises(heddle.Error):
        bad.numpy()
    with pytest.raises(heddle.Error):
        str(bad + 1)


def test_dlpack_lends_the_same_memory():
    x = heddle.zeros((2, 3))
    lent = np.from_dlpack(x)
    assert np.shares_memory(lent, x.numpy())
    theirs = np.arange(6, dtype=np.float32)
    ours = heddle.from_dlpack(theirs)
    ours += 1
    ours.wait()
    assert theirs.tolist() == [1, 2, 3, 4, 5, 6]
    assert ours.__dlpack_device__() == (1, 0)
    assert heddle.from_dlpack(heddle.ones(2)).tolist() == [1, 1]


def test_dlpack_of_our_own_memory_keeps_the_var():
    x = heddle.zeros((2, 3))
    ways = [x, x.__dlpack__(), x.__dlpack__(max_version=(1, 1)), Lender(x)]
    for way in ways:
        y = heddle.from_dlpack(way)
        assert y.var == x.var and np.shares_memory(y.numpy(), x.numpy())
        for _ in range(100):  # both arrays have one var, so the ops are ordered
            x += 1
            y *= 2
            y /= 2
    assert x.tolist() == [[400] * 3] * 2
    part = heddle.from_dlpack(x.T[1:])
    assert part.shape == (2, 2) and part.strides == (1, 3)
    copied = heddle.from_dlpack(x, copy=True)
    assert copied.var != x.var and copied.tolist() == x.tolist()
    leaf = heddle.ones(2)
    leaf.requires_grad = True
    copied = heddle.from_dlpack(leaf)
    assert copied.var != leaf.var and not copied.requires_grad
    with pytest.raises(BufferError, match="read-only"):
        heddle.from_dlpack(leaf, copy=False)


class Lender:
    """An object of another library that lends an array's memory, and records the arguments of requests."""

    def __init__(self, array, takes=("max_version", "copy")):
        self.array, self.takes, self.asked = array, takes, []

    def __dlpack__(self, **keywords):
        if set(keywords) - set(self.takes):
            raise TypeError("unexpected keyword")
        self.asked.append(keywords)
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_options_of_from_dlpack_go_to_the_producer():
    x = np.ones(3, np.float32)
    for copy in (True, False):
        lender = Lender(x)
        ours = heddle.from_dlpack(lender, copy=copy)
        assert lender.asked == [{"max_version": (1, 1), "copy": copy}]
        assert np.shares_memory(ours.numpy(), x) is not copy
    old = Lender(x, takes=())
    assert not np.shares_memory(heddle.from_dlpack(old, copy=True).numpy(), x)
    assert old.asked == [{}]
    assert heddle.from_dlpack(x, device="cpu").device == heddle.cpu()
    there = heddle.from_dlpack(x, device="cpu(1)")
    assert there.device == heddle.cpu(1) and there.tolist() == [1, 1, 1]
    with pytest.raises((BufferError, ValueError), match="needs a copy"):
        heddle.from_dlpack(x, device="cpu(1)", copy=False)
    with pytest.raises(TypeError, match="copy"):
        heddle.from_dlpack(x, copy=1)


def test_dlpack_lets_go():
    class Memory(np.ndarray):
        pass

    theirs = np.arange(6, dtype=np.float32).view(Memory)
    gone = weakref.ref(theirs)
    ours = heddle.from_dlpack(theirs)
    del theirs
    assert gone() is not None
    view = ours[1:]
    del ours
    assert view.tolist() == [1, 2, 3, 4, 5]
    del view
    heddle.wait_all()
    assert gone() is None


def test_dlpack_capsules():
    x = heddle.ones(3)
    capsule = x.__dlpack__(max_version=(1, 1))
    assert "dltensor_versioned" in repr(capsule)
    heddle.from_dlpack(capsule)
    with pytest.raises(ValueError, match="consumed"):
        heddle.from_dlpack(capsule)
    assert "dltensor_versioned" not in repr(x.__dlpack__())
    copied = heddle.from_dlpack(x.__dlpack__(max_version=(1, 0), copy=True))
    copied += 1
    assert x.tolist() == [1, 1, 1] and copied.tolist() == [2, 2, 2]
    with pytest.raises(ValueError):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError):
        heddle.from_dlpack(3)


def test_dlpack_read_only():
    theirs = np.arange(3, dtype=np.float32)
    theirs.flags.writeable = False
    ours = heddle.from_dlpack(theirs)
    ours += 1
    assert theirs.tolist() == [0, 1, 2] and ours.tolist() == [1, 2, 3]
    with pytest.raises((ValueError, BufferError)):
        heddle.from_dlpack(theirs, copy=False)
    leaf = heddle.ones(2)
    leaf.requires_grad = True
    assert not np.from_dlpack(leaf).flags.writeable


def test_views_without_elements():
    for shape, key in [((2, 0), np.s_[::-1]), ((5, 0), 4), ((0, 3), np.s_[:, 1]), ((3, 0), np.s_[1:]), ((2, 0), np.s_[1, ::-1])]:
        assert heddle.zeros(shape)[key].shape == np.zeros(shape)[key].shape
    assert [row.shape for row in heddle.zeros((2, 0))] == [(0,), (0,)]


def test_masks_of_numpy_and_lists():
    for mask in (np.array([True, False, True]), [True, False, True], heddle.array([True, False, True])):
        x = heddle.zeros(3)
        x[mask] = 5
        assert x.tolist() == [5, 0, 5]


def test_masks_and_indices_read_and_write():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = heddle.array(a)
    assert x[x > 5].tolist() == a[a > 5].tolist() and x[a > 50].shape == (0,)
    assert x[[True, False, True]].tolist() == a[[True, False, True]].tolist()
    for key, value in [(np.s_[[2, 0]], 7), (np.s_[:, [0, -1, 0]], a[:, :3].copy()), (np.s_[1:, np.array([[1, 2], [3, 3]])], a[1:, :1, None].copy()), (np.s_[1, [0]], [5.0])]:
        x[key], a[key] = value, value
        assert x.tolist() == a.tolist(), key
    with pytest.raises(IndexError, match="mask"):
        x[heddle.ones(4) > 0]
    with pytest.raises(heddle.Error, match="index 3"):
        x[[3]] = 1
        x.wait()


def test_integer_operators():
    a, b = np.array([7, -7, 6], np.int32), np.array([2, 2, -4], np.int32)
    x, y = heddle.array(a), heddle.array(b)
    assert (x // y).tolist() == (a // b).tolist() and (x % y).tolist() == (a % b).tolist()
    assert (x & y).tolist() == (a & b).tolist() and (x | y).tolist() == (a | b).tolist()
    assert (x ^ y).tolist() == (a ^ b).tolist() and (~x).tolist() == (~a).tolist()
    assert (x << 2).tolist() == (a << 2).tolist() and (x >> 1).tolist() == (a >> 1).tolist()
    assert ((x > 0) & (x < 7)).tolist() == [False, False, True]
    assert (7 // heddle.array([2])).tolist() == [3] and (7 % heddle.array([4])).tolist() == [3]


def test_ints_beyond_64_bits_are_compared_by_functions_too():
    x, y = heddle.array([1, 2]), heddle.array([1.0, 2.0])
    for large in (2**64, 2**70, -(2**63) - 1):
        assert heddle.less(x, large).tolist() == [large > 0] * 2
        assert heddle.greater_equal(large, x).tolist() == [large > 0] * 2
        assert heddle.equal(y, large).tolist() == [False, False]
    assert heddle.add(y, 2**70).tolist() == [float(2**70)] * 2
    y *= 2**70
    assert y.tolist() == [float(2**70), float(2**71)]
    with pytest.raises(ValueError, match="an int above"):
        heddle.add(x, 2**70)
    assert heddle.less(x, 10**400).tolist() == [True, True]
    for call in (lambda: heddle.less(y, 10**400), lambda: y == 10**400, lambda: y.__iadd__(10**400)):
        with pytest.raises(OverflowError, match="int too large to convert to float"):
            call()


def test_all_operators_in_place():
    x = np.array([[7, -9], [12, 5]], np.int32)
    ours, view = heddle.array(x), None
    view = ours[0]
    for statement in ("x += 3", "x -= 1", "x *= 2", "x //= 3", "x %= 7", "x **= 2", "x <<= 2", "x >>= 1", "x |= 9",
                      "x ^= 5", "x &= 29"):
        of_numpy, of_ours = {"x": x}, {"x": ours}
        exec(statement, of_numpy)
        exec(statement, of_ours)
        assert of_ours["x"] is ours, statement
        assert ours.tolist() == of_numpy["x"].tolist(), statement
    assert view.tolist() == x[0].tolist()
    for statement in ("x //= 2.5", "x **= -1", "x &= 1.5", "x %= x[0]"):
        if statement == "x %= x[0]":
            exec(statement, {"x": ours})
            continue
        with pytest.raises((ValueError, TypeError)):
            exec(statement, {"x": ours})


def test_large_integers_keep_their_digits():
    top = 2**64 - 1
    x = heddle.array([top, 1], dtype="u64")
    assert x.tolist() == [top, 1]
    x[:] = [2**63, top - 1]
    assert x.tolist() == [2**63, top - 1]
    assert heddle.arange(2**62, 2**62 + 3, dtype="i64").tolist() == [2**62, 2**62 + 1, 2**62 + 2]
    assert heddle.arange(top, top - 5, -2, dtype="u64").tolist() == [top, top - 2, top - 4]
    assert heddle.arange(0, 1000, 300, dtype="u8").tolist() == [0, 255, 255, 255]
    signed = heddle.array([-1, 2**63 - 1], dtype="i64")
    for ours, theirs in [(signed < x, [True, True]), (x > signed, [True, True]), (signed == x, [False, False]), (x != signed, [True, True]),
                         (signed >= x, [False, False]), (signed[1] < heddle.array([2**63], dtype="u64"), [True])]:
        assert ours.tolist() == theirs
    assert (x < 2**64).tolist() == [True, True] and (x >= 2**70).tolist() == [False, False]
    assert (-(2**64) < signed).tolist() == [True, True] and (signed == 2**64).tolist() == [False, False]
    assert (heddle.array([1e30]) > 2**64).tolist() == [True]
    assert (heddle.array([1.0]) * 10**20).tolist() == [float(np.float32(1e20))]
    assert heddle.array([2**70], dtype="f64").tolist() == [2.0**70]
    for bad, dtype in ([300], "u8"), ([-1], "u64"), ([2**63], "i64"), ([-129], "i8"):
        with pytest.raises(ValueError, match="does not fit " + dtype):
            heddle.array(bad, dtype=dtype)
    with pytest.raises(ValueError, match="does not fit"):
        heddle.array([-1, 2**63])
    for bad in ([2**64], [-(2**63) - 1]):
        with pytest.raises(ValueError, match="does not fit"):
            heddle.array(bad)
    with pytest.raises(ValueError, match="does not fit u64"):
        heddle.array([-1, 2**64 - 1], dtype="u64")


def test_none_is_no_axis_where_there_is_no_such_default():
    for call in (heddle.sort, heddle.cumsum, heddle.softmax):
        with pytest.raises(TypeError, match=call.__name__):
            call(heddle.ones((2, 2)), axis=None)
    assert heddle.sum(heddle.ones((2, 2)), axis=None).item() == 4


def test_array_api_is_an_attribute():
    assert heddle.array_api is heddle.ones(1).__array_namespace__()


def test_nothing_equals_none():
    engine = heddle.default_engine()
    for one in (heddle.f32, heddle.cpu(), engine, engine.new_var()):
        assert not one == None and one != None and one not in (None, 3)  # noqa: E711


def test_bools_of_numpy_that_are_neither_0_nor_1():
    wrong = np.array([0, 255, 2, 1], "u1").view(bool)
    for x in [heddle.array(wrong), heddle.asarray(wrong), heddle.array([wrong])[0], heddle.array(wrong[::-1])[::-1]]:
        assert heddle.sum(x).item() == 3 and x.numpy().view("u1").tolist() == [0, 1, 1, 1]
    assert heddle.array(wrong, dtype="i32").tolist() == [0, 1, 1, 1]
    assert heddle.array(wrong[1]).numpy().view("u1").item() == 1
    x = heddle.arange(4)
    assert x[wrong].tolist() == [1, 2, 3]
    assert (heddle.ones(4, dtype="i32") + wrong).tolist() == [1, 2, 2, 2]
    assert heddle.count_nonzero(heddle.array(wrong)).item() == 3
    rebuilt = heddle.array(wrong).__reduce__()
    assert rebuilt[0](bytes([0, 255, 2, 1]), *rebuilt[1][1:]).numpy().view("u1").tolist() == [0, 1, 1, 1]


def test_from_dlpack_refuses_bools_that_are_neither_0_nor_1():
    wrong = np.array([0, 255, 1, 1], "u1").view(bool)
    for memory in [wrong, wrong[::-1], wrong.reshape(2, 2).T, wrong[1:2]]:
        with pytest.raises(heddle.InvalidArgument, match="from_dlpack: the memory holds a bool whose byte is above 1"):
            heddle.from_dlpack(memory)
    assert heddle.from_dlpack(wrong[::2]).tolist() == [False, True]
    assert heddle.from_dlpack(wrong.reshape(2, 2)[:, :1][1:]).tolist() == [[True]]


def test_dtypes_and_devices_equal_what_stands_for_them():
    x = heddle.ones(2)
    for same in (np.float32, np.dtype("f4"), "float32", "f32", float, heddle.float32):
        assert x.dtype == same and same == x.dtype and not x.dtype != same
    for other in (np.float64, np.dtype([("a", "i4")]), "no dtype", int, str, object, heddle.NDArray, None, 5):
        assert x.dtype != other and other != x.dtype and not x.dtype == other
    assert heddle.ones(1, dtype="i64").dtype == int and heddle.ones(1, dtype="bool").dtype == np.bool_
    assert x.device == "cpu" and "cpu(0)" == x.device and x.device != "cpu(1)" and x.device != "no device"
    assert x.device != None and not x.device == 0  # noqa: E711


def test_a_mask_with_a_side_of_0_chooses_nothing():
    for shape, sides in (((1,), (0,)), ((2, 3), (0, 3)), ((2, 3), (2, 0)), ((2, 3), (0, 0)), ((2, 3), (0,)), ((0, 3), (0, 3)), ((0, 3), (0,))):
        theirs, mask = np.arange(np.prod(shape)).reshape(shape), np.zeros(sides, bool)
        ours = heddle.array(theirs)
        assert ours[heddle.array(mask)].shape == theirs[mask].shape
        assert ours[..., heddle.array(mask)].shape == theirs[..., mask].shape if len(sides) == len(shape) else True
        ours[heddle.array(mask)] = 5
        ours[heddle.array(mask)] = heddle.zeros((0, *shape[len(sides) :]), dtype="i64")
        np.testing.assert_array_equal(ours.numpy(), theirs)
    for shape, sides in (((2, 3), (0, 4)), ((0, 3), (2, 0)), ((3,), (2,)), ((3,), (0, 0))):
        with pytest.raises(IndexError):
            heddle.zeros(shape)[heddle.zeros(sides, dtype="bool")]


def test_trace_refuses_an_array_and_names_the_operator():
    for x in (heddle.eye(2), np.eye(2)):
        with pytest.raises(TypeError, match=r"matrix_trace\(x\) is the sum of a diagonal"):
            heddle.trace(x)
    assert heddle.matrix_trace(heddle.eye(2)).item() == 2
