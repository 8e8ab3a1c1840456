"""x[key] with arrays of indices and masks among the keys, against NumPy: values, assignments, gradients."""

import numpy as np
import pytest

import heddle

PLACES, ROWS = 3, 2  # the index arrays of a key broadcast to (ROWS, PLACES)


def random_shape(rng, axes, empty=True):
    return tuple(int(n) for n in rng.integers(0 if empty and rng.random() < 0.1 else 1, 5, axes))


def random_slice(rng, size):
    def end():
        return None if rng.random() < 0.4 else int(rng.integers(-size - 1, size + 2))
    step = int(rng.choice([-2, -1, 1, 1, 2]))
    return slice(end(), end(), None if step == 1 and rng.random() < 0.5 else step)


def random_indices(rng, size):
    shape = [(PLACES,), (1,), (ROWS, 1), (ROWS, PLACES), (1, PLACES)][rng.integers(5)]
    dtype = rng.choice([np.int64, np.int32, np.int8, np.uint8, np.uint64])
    return rng.integers(0 if np.issubdtype(dtype, np.unsignedinteger) else -size, size, shape).astype(dtype)


def random_mask(rng, shape):
    """A mask with PLACES true elements or one, which broadcast with index arrays."""
    mask = np.zeros(int(np.prod(shape)), bool)
    mask[rng.permutation(mask.size)[: PLACES if mask.size >= PLACES and rng.random() < 0.7 else 1]] = True
    return mask.reshape(shape)


def random_key(rng, shape):
    """A tuple of random keys, often with arrays among them."""
    keys, axis, whole = [], 0, False
    while axis < len(shape):
        kind, size = rng.random(), shape[axis]
        if kind < 0.1:
            keys.append(None if kind < 0.07 else True if kind < 0.085 else np.array(True))
        elif kind < 0.2 and not whole:
            rest = int(rng.integers(0, len(shape) - axis + 1))
            keys.append(Ellipsis)
            axis, whole = axis + rest, True
        elif kind < 0.25:
            if not whole:
                break
        elif kind < 0.45 or size == 0:
            keys.append(random_slice(rng, size))
            axis += 1
        elif kind < 0.6:
            keys.append(int(rng.integers(-size, size)))
            axis += 1
        elif kind < 0.88:
            keys.append(random_indices(rng, size))
            axis += 1
        else:
            axes = int(rng.integers(1, min(2, len(shape) - axis) + 1))
            if 0 in shape[axis : axis + axes]:
                continue
            keys.append(random_mask(rng, shape[axis : axis + axes]))
            axis += axes
    return tuple(keys)


def ours(key):
    return tuple(heddle.array(k) if isinstance(k, np.ndarray) else k for k in key)


def cases(seed, count):
    rng = np.random.default_rng(seed)
    made = 0
    while made < count:
        shape = random_shape(rng, int(rng.integers(1, 5)))
        key = random_key(rng, shape)
        values = np.arange(int(np.prod(shape)), dtype=rng.choice([np.float32, np.int64, np.uint8])).reshape(shape)
        if values[key].ndim > 8:
            continue
        made += 1
        yield rng, values, key


def test_reads_agree_with_numpy():
    for _, values, key in cases(1, 3000):
        got, want = heddle.array(values)[ours(key)], values[key]
        assert got.shape == want.shape, (values.shape, key)
        assert np.array_equal(got.numpy(), want), (values.shape, key)


def test_reads_of_views_agree_with_numpy():
    for rng, values, key in cases(2, 600):
        turned = np.ascontiguousarray(values.T)
        assert np.array_equal(heddle.array(turned).T[ours(key)].numpy(), values[key]), (values.shape, key)


def random_value(rng, shape):
    """A value that broadcasts to the shape: a number, or an array in which axes are missing or have size 1."""
    if rng.random() < 0.3:
        return int(rng.integers(100, 200))
    given = [n if rng.random() < 0.7 else min(n, 1) for n in shape]
    given = given[int(rng.integers(0, len(given) + 1)) if rng.random() < 0.3 else 0 :]
    return rng.integers(100, 200, given)


def test_writes_agree_with_numpy():
    for rng, values, key in cases(3, 3000):
        value = random_value(rng, values[key].shape)
        x, want = heddle.array(values), values.copy()
        x[ours(key)] = heddle.array(value) if isinstance(value, np.ndarray) else value
        want[key] = value
        assert np.array_equal(x.numpy(), want), (values.shape, key, np.shape(value))


def test_changes_in_place_agree_with_numpy():
    for rng, values, key in cases(4, 1000):
        if values.dtype == np.uint8:
            values = values.astype(np.int64)
        value = np.asarray(random_value(rng, values[key].shape), values.dtype) if rng.random() < 0.5 else 2
        turned = np.ascontiguousarray(values.T)
        x, want = heddle.array(turned).T, values.copy()
        try:
            x[ours(key)] *= heddle.array(value) if isinstance(value, np.ndarray) else value
        except heddle.InvalidArgument:
            raise AssertionError((values.shape, key, np.shape(value)))
        want[key] *= value
        assert np.array_equal(x.numpy(), want), (values.shape, key, np.shape(value))


def test_gradients_add_up_what_is_read_twice():
    for rng, values, key in cases(5, 600):
        values = values.astype(np.float64)
        x = heddle.array(values)
        x.requires_grad = True
        y = x[ours(key)]
        weights = rng.integers(-4, 5, y.shape).astype(np.float64)
        (y * heddle.array(weights)).sum().backward()
        want = np.zeros_like(values)
        np.add.at(want, key, weights)
        got = np.zeros_like(values) if x.grad is None else x.grad.numpy()
        assert np.array_equal(got, want), (values.shape, key)


def test_a_value_from_the_array_itself_is_read_first():
    x = heddle.arange(6, dtype="i64")
    x[[0, 1, 2]] = x[3:0:-1]
    assert x.tolist() == [3, 2, 1, 3, 4, 5]
    x[x] = 0
    assert x.tolist() == [3, 0, 0, 0, 0, 0]


def test_masks_without_axes():
    for key in (True, False, np.True_, (0, False), (Ellipsis, True), (slice(None), np.array(False), 1)):
        values = np.arange(24.0).reshape(2, 3, 4)
        x = heddle.array(values)
        assert x[ours(key) if isinstance(key, tuple) else key].shape == values[key].shape, key
        x[ours(key) if isinstance(key, tuple) else key] = -1
        values[key] = -1
        assert np.array_equal(x.numpy(), values), key
    y = heddle.array(3.0)
    assert y[y > 0].tolist() == [3] and y[y < 0].shape == (0,)
    y[y > 0] = 5
    y[y < 0] = 7
    assert y.item() == 5


def test_keys_that_do_not_fit():
    x = heddle.zeros((2, 3, 4))
    for key, text in [
        (([0], [0], [0], [0]), "keys for 4 axes"),
        (([0, 1], [0, 1, 2]), "broadcast"),
        ((np.ones((2, 2), bool),), "mask of shape"),
        ((0, np.ones(4, bool)), "mask of shape"),
        (([0.5],), "integers, or bool for a mask"),
        ((Ellipsis, [0], Ellipsis), "ellipses"),
    ]:
        with pytest.raises(heddle.InvalidIndex, match=text):
            x[key]
        with pytest.raises(heddle.InvalidIndex, match=text):
            x[key] = 1
    with pytest.raises(ValueError, match="broadcast"):
        x[[0, 1], :, 0] = heddle.ones(2)
    with pytest.raises(ValueError, match="broadcast"):
        x[x > 0] = heddle.ones(3)
    with pytest.raises(ValueError, match="f64 does not fit i64"):
        y = heddle.arange(3, dtype="i64")
        y[y > 0] *= 0.5
    assert x[[]].shape == (0, 3, 4)


def test_an_index_out_of_range_is_an_error_of_the_op():
    for key in ([3], [-3], np.array([2**63], np.uint64), (slice(None), [0], [4])):
        x = heddle.zeros((2, 3, 4))
        with pytest.raises(IndexError, match=r"x\[...\]: index .* out of range"):
            x[key].wait()
        x[key] = 1
        with pytest.raises(IndexError, match=r"x\[...\]: index .* out of range"):
            x.wait()


def test_errors_of_keys_have_the_types_that_the_page_names():
    x = heddle.ones(2)
    for key in (5, (0, 0), [1.0], heddle.array([True])):
        with pytest.raises(heddle.InvalidIndex):
            x[key]
    for key in ("a", 1.0):
        with pytest.raises(TypeError):
            x[key]
    with pytest.raises(IndexError):
        x[2**70]


def test_scalars_of_numpy_beside_an_array():
    assert (heddle.ones(2) + np.float64(2)).dtype == heddle.f32 and (heddle.ones(2, "f16") + np.float64(2)).dtype == heddle.f16
    assert (heddle.ones(2, "f16") + np.float32(2)).dtype == heddle.f32


def test_assigned_lists_keep_the_digits_of_the_dtype():
    x = heddle.zeros(4, dtype="f64")
    x[:2] = [0.1, 1 / 3]
    assert x.tolist() == [0.1, 1 / 3, 0, 0]
    x[x > 0.2] = [0.7]
    x[[2, 3]] = [0.2, 2**53 - 1]
    assert x.tolist() == [0.1, 0.7, 0.2, 2**53 - 1]
    x[:] = [2**53 - 1, 2**70, 1, 0.3]
    assert x.tolist() == [2**53 - 1, 2**70, 1, 0.3]
    whole = heddle.zeros(2, dtype="i64")
    whole[:] = [2**53 + 1, 1]
    assert whole.tolist() == [2**53 + 1, 1]
    whole[:] = [16777217.0, 2.5]
    assert whole.tolist() == [16777217, 2]
    half = heddle.zeros(2, dtype="bf16")
    half[:] = [1.00390626, 1]  # rounded once; rounded to f32 first it would be a tie
    assert half.tolist() == [1.0078125, 1]
