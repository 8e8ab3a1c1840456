"""Arrays on GPUs: devices, exchange with other libraries, operands of the host. On the emulated GPU, or on a real one."""

import copy
import pickle

import numpy as np
import pytest

import heddle

pytestmark = pytest.mark.skipif(heddle.gpu_count() == 0, reason="no GPU")


def there(values, dtype=None):
    return heddle.array(values, dtype=dtype, device="gpu(0)")


class Lends:
    """An array of another library: it lends the memory of an array of heddle by DLPack."""

    def __init__(self, array):
        self.array, self.streams = array, []

    def __dlpack__(self, *, stream=None, **kwargs):
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, **kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Interface:
    def __init__(self, interface, owner=None):
        self.__cuda_array_interface__ = interface
        self.owner = owner


def test_arrays_are_made_and_moved():
    x = there([[1.0, 2.0], [3.0, 4.0]])
    assert str(x.device) == "gpu(0)" and x.device.kind == "gpu"
    assert heddle.zeros((2,), device="gpu(0)").tolist() == [0, 0]
    assert heddle.empty((2,), device=heddle.gpu(0)).device == heddle.gpu(0)
    assert x.to("gpu(0)") is x or x.to("gpu(0)").tolist() == x.tolist()
    assert x.to("cpu").device == heddle.cpu()
    assert x.tolist() == [[1, 2], [3, 4]] and x.sum().item() == 10 and float(x[1, 1]) == 4
    assert copy.deepcopy(x).device == x.device
    again = pickle.loads(pickle.dumps(x))
    assert again.device == x.device and again.tolist() == x.tolist()
    assert "gpu(0)" in repr(x) or "[[1" in str(x)
    with pytest.raises(BufferError, match=r"the array is on gpu\(0\); copy it to the CPU first: x.to\('cpu'\)"):
        x.numpy()
    with pytest.raises(BufferError):
        np.asarray(x)


def test_lists_and_numpy_arrays_follow_the_array_beside_them():
    x = there([[1.0, 2.0], [3.0, 4.0]])
    one = np.ones(2, np.float32)
    assert (x + one).tolist() == (one + x).tolist() == [[2, 3], [4, 5]]
    assert heddle.add(x, one).device == heddle.gpu(0)
    assert heddle.take(x, [1, 0], axis=0).tolist() == [[3, 4], [1, 2]]
    assert x[[1]].tolist() == [[3, 4]] and x[np.array([True, False])].tolist() == [[1, 2]]
    x[[0]] = np.array([[7, 8]], np.float32)
    x[1] = [5, 6]
    x += one
    assert x.tolist() == [[8, 9], [6, 7]]
    with pytest.raises(ValueError):
        x + heddle.ones(2)  # an array of heddle stays where it is


def test_dlpack_tells_the_stream():
    x = there([1.0, 2.0, 3.0]) * 2
    assert x.__dlpack_device__() == (2, 0)
    other = Lends(x)
    y = heddle.from_dlpack(other)
    assert y.device == heddle.gpu(0) and y.tolist() == [2, 4, 6]
    assert len(other.streams) == 1 and other.streams[0] > 2  # the compute stream of the GPU
    y += 1
    assert x.tolist() == [3, 5, 7]
    copied = heddle.from_dlpack(Lends(x), copy=True)
    copied += 1
    assert x.tolist() == [3, 5, 7] and copied.tolist() == [4, 6, 8]
    assert heddle.from_dlpack(Lends(x), device="cpu").device == heddle.cpu()
    for stream in (None, 1, -1):
        assert heddle.from_dlpack(x.__dlpack__(stream=stream, max_version=(1, 1))).tolist() == [3, 5, 7]
    with pytest.raises(ValueError, match="__dlpack__: stream is 0"):
        x.__dlpack__(stream=0)
    with pytest.raises(ValueError, match="stream is for arrays of a GPU"):
        heddle.ones(2).__dlpack__(stream=1)


def test_dlpack_goes_to_the_device_that_is_wanted():
    x = there([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).T * 2
    for copied in (np.from_dlpack(x, device="cpu"), np.from_dlpack(x, device="cpu", copy=True)):
        assert copied.tolist() == [[2, 8], [4, 10], [6, 12]]
        copied += 1
    assert x.tolist() == [[2, 8], [4, 10], [6, 12]]
    for version in (None, (1, 1)):
        capsule = x.__dlpack__(dl_device=(1, 0), max_version=version)
        assert heddle.from_dlpack(capsule).device == heddle.cpu()
    with pytest.raises(BufferError, match=r"the array is on gpu\(0\), not on cpu\(0\), which needs a copy"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(ValueError, match="stream is for arrays of a GPU"):
        x.__dlpack__(dl_device=(1, 0), stream=1)
    for wrong in [(2, heddle.gpu_count()), (2, -1), (4, 0), (1, 1)]:
        with pytest.raises(BufferError, match="there is no device"):
            x.__dlpack__(dl_device=wrong)
    capsule = heddle.ones(2).__dlpack__(dl_device=(2, 0), stream=1, max_version=(1, 1))
    assert heddle.from_dlpack(capsule).device == heddle.gpu(0)
    pinned = heddle.ones(2).__dlpack__(dl_device=(3, 0))
    assert heddle.from_dlpack(pinned).device == heddle.cpu_pinned()
    assert heddle.from_dlpack(heddle.zeros((0, 2), device="gpu(0)").__dlpack__()).device == heddle.gpu(0)
    empty = heddle.zeros((0, 2), device="gpu(0)")
    assert heddle.from_dlpack(Lends(empty)).device == heddle.gpu(0)
    leaf = there([1.0])
    leaf.requires_grad = True
    assert heddle.from_dlpack(leaf.__dlpack__(dl_device=(1, 0))).tolist() == [1]


class LendsWithoutStream(Lends):
    """A library from before streams in DLPack."""

    def __dlpack__(self):
        return self.array.__dlpack__()


class LendsWithoutDevice:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        assert "stream" not in kwargs
        return self.array.__dlpack__(**kwargs)


def test_producers_that_know_no_streams():
    x = there([1.0, 2.0]) + 1
    for producer in (LendsWithoutStream, LendsWithoutDevice):
        assert heddle.from_dlpack(producer(x)).tolist() == [2, 3]
        copied = heddle.from_dlpack(producer(x), copy=True)
        copied += 1
        assert x.tolist() == [2, 3]


def test_memory_of_an_array_of_another_engine():
    ours = heddle.Engine(workers=1)
    with ours:
        x = heddle.full((1000,), 0, device="gpu(0)")
        for _ in range(20):
            x = x + 1
    y = heddle.from_dlpack(Lends(x))
    assert (y * 2).tolist() == [40] * 1000
    del y


def test_cuda_array_interface():
    x = there([[1, 2, 3], [4, 5, 6]], dtype="i32")
    found = x.__cuda_array_interface__
    assert found["shape"] == (2, 3) and found["typestr"] == "<i4" and found["version"] == 3 and found["strides"] is None
    assert found["data"][1] is False and found["stream"] > 2
    assert x.T.__cuda_array_interface__["strides"] == (4, 12)
    assert x[:, 1:].__cuda_array_interface__["data"][0] == found["data"][0] + 4
    assert not hasattr(heddle.ones(2), "__cuda_array_interface__")
    assert not hasattr(there([1.0], dtype="bf16"), "__cuda_array_interface__")
    for view in (x, x.T, x[:, 1:], x[::-1]):
        y = heddle.from_dlpack(Interface(view.__cuda_array_interface__, x))
        assert y.tolist() == view.tolist() and y.device == x.device
    y = heddle.from_dlpack(Interface(found, x))
    y *= 2
    y.wait()  # x does not know of ops on y
    assert x.tolist() == [[2, 4, 6], [8, 10, 12]]
    made = heddle.array(Interface(found, x))
    made += 1
    assert x.tolist() == [[2, 4, 6], [8, 10, 12]] and made.device == heddle.gpu(0)
    assert heddle.array(Interface(found, x), dtype="f32").dtype == heddle.f32


def test_wrong_cuda_array_interfaces():
    x = there([1.0, 2.0])
    good = x.__cuda_array_interface__
    for changed, error, text in [
        ({"typestr": "<c8"}, TypeError, "no dtype for '<c8'"),
        ({"typestr": ">f4"}, TypeError, "no dtype for '>f4'"),
        ({"mask": x}, ValueError, "masked"),
        ({"strides": (3,)}, ValueError, "no multiple"),
        ({"strides": (4, 4)}, ValueError, "another number of strides"),
        ({"data": (1, 2, 3)}, TypeError, "data"),
        ({"data": (np.ones(2).ctypes.data, False)}, ValueError, "no GPU's"),
        ({"stream": 0}, ValueError, "stream is 0"),
        ({"data": (good["data"][0], True)}, ValueError, "read-only"),
    ]:
        with pytest.raises(error, match=text):
            heddle.from_dlpack(Interface({**good, **changed}, x), copy=False if text == "read-only" else None)
    assert heddle.from_dlpack(Interface({**good, "data": (good["data"][0], True)}, x), copy=True).tolist() == [1, 2]
    with pytest.raises(TypeError):
        heddle.from_dlpack(Interface("text"))


def test_orders_of_streams():
    x = there([1.0, 2.0])
    x.order_before(1)
    x.order_after(1)
    assert (x + 1).tolist() == [2, 3]
    with pytest.raises(ValueError, match="order_before: stream is 0"):
        x.order_before(0)
    with pytest.raises(ValueError, match="streams are for arrays of a GPU"):
        heddle.ones(2).order_after(1)


def test_stores_on_gpus():
    store = heddle.KVStore("local")
    store.init(0, there([0.0, 0.0]))
    store.push(0, [there([1.0, 2.0]), heddle.ones(2)])
    out = heddle.zeros(2, device="gpu(0)")
    store.pull(0, out)
    assert out.tolist() == [2, 3]
