"""The default device, and what follows the arrays beside it: on cpu(1), and on a GPU where there is one."""

import copy
import pickle
import threading

import numpy as np
import pytest

import heddle

pytestmark = pytest.mark.parametrize("device", [heddle.cpu(1), *([heddle.gpu(0)] if heddle.gpu_count() else [])], ids=str)


def test_a_block_makes_arrays_on_its_device(device):
    with device as entered:
        assert entered == device == heddle.default_device()
        made = [
            heddle.array([1.0, 2.0]),
            heddle.array(np.ones(2)),
            heddle.array(3),
            heddle.asarray([1, 2]),
            heddle.empty(2),
            heddle.zeros(2),
            heddle.ones((2, 2), "f64"),
            heddle.full((2,), 7),
            heddle.arange(3),
            heddle.eye(2),
            heddle.linspace(0, 1, 3),
            heddle.uniform((2,)),
            heddle.random.randn(2),
            heddle.random.permutation(3),
            heddle.add([1.0, 2.0], [3.0, 4.0]),
            heddle.concat([[1.0], np.ones(2, np.float32)]),
            heddle.vstack([[1.0], [2.0]]),
            heddle.block([[1.0], [2.0]]),
            heddle.array_api.ones(2),
            heddle.array_api.eye(2),
            heddle.array_api.asarray([1, 2]),
        ]
        assert heddle.Dense(None, 3)(heddle.ones((1, 2), device="cpu")).device == heddle.cpu()  # where its first input is
        net = heddle.Dense(2, 3)
        made += [one.value for one in net.state()]
        assert heddle.array_api.__array_namespace_info__().default_device() == device
    assert [x.device for x in made] == [device] * len(made)
    assert heddle.default_device() == heddle.cpu() == heddle.zeros(2).device


def test_what_says_its_device_is_there(device):
    here = heddle.ones(2)
    with device:
        assert heddle.zeros(2, device="cpu").device == heddle.cpu()
        assert heddle.array([1.0], device=heddle.cpu()).device == heddle.cpu()
        assert heddle.asarray([1.0], device="cpu").device == heddle.cpu()
        assert heddle.empty(2, device="cpu").device == heddle.cpu()
        assert heddle.Dense(2, 3, device="cpu").state()[0].value.device == heddle.cpu()
        assert heddle.array(here).device == heddle.asarray(here).device == heddle.cpu()
        assert (here + np.ones(2)).device == heddle.add(here, [1.0, 2.0]).device == heddle.cpu()
        assert heddle.zeros_like(here).device == heddle.empty_like(here).device == heddle.cpu()
        out = heddle.empty(2, device="cpu")
        heddle.full((2,), 3, out=out)
        assert out.tolist() == [3, 3]
        assert heddle.add([1.0, 2.0], [3.0, 4.0], out=out) is out
        assert out.tolist() == [4, 6]
    assert heddle.asarray(here, device=device).device == device


def test_blocks_and_threads(device):
    def made_there():
        with heddle.cpu(3):
            seen.append(heddle.default_device())
        seen.append(heddle.default_device())

    with device:
        with heddle.cpu(2):
            assert heddle.default_device() == heddle.cpu(2)
        assert heddle.default_device() == device
        seen = []
        thread = threading.Thread(target=made_there)
        thread.start()
        thread.join()
        assert seen == [heddle.cpu(3), heddle.cpu(0)]
        first, second = heddle.cpu(4), heddle.cpu(5)
        first.__enter__()  # as two coroutines of one thread do
        second.__enter__()
        first.__exit__(None, None, None)
        assert heddle.default_device() == second
        second.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="has not entered the block"):
        device.__exit__(None, None, None)
    with pytest.raises(ZeroDivisionError), device:
        1 // 0
    assert heddle.default_device() == heddle.cpu()


def test_set_default_device(device):
    seen = []

    def whole_thread():
        heddle.set_default_device(str(device))
        seen.append(heddle.zeros(2).device)
        with heddle.cpu():
            seen.append(heddle.zeros(2).device)

    thread = threading.Thread(target=whole_thread)
    thread.start()
    thread.join()
    assert seen == [device, heddle.cpu()] and heddle.zeros(2).device == heddle.cpu()
    with pytest.raises(TypeError, match="set_default_device: device is a int"):
        heddle.set_default_device(1)
    with pytest.raises(heddle.InvalidArgument, match="there is no device of that name"):
        heddle.set_default_device("tpu")


def test_lists_and_numpy_arrays_go_to_the_device_beside_them(device):
    x = heddle.array([[1.0, 2.0], [3.0, 4.0]], device=device)
    one = np.ones((2, 2), np.float32)
    there = [
        x + one,
        one * x,
        np.float32(2) * x,
        heddle.add(one, x),
        heddle.where([[True, False], [False, True]], x, one),
        heddle.concat([one, x]),
        heddle.concat([x, [[5.0, 6.0]]], axis=0),
        heddle.stack([x, one]),
        heddle.einsum("ij,jk->ik", [x, one]),
        heddle.meshgrid([x[0], [1.0, 2.0]])[1],
        heddle.take(x, [1, 0], axis=0),
        heddle.vstack([x, [5.0, 6.0]]),
        heddle.hstack([[[5.0], [6.0]], x]),
        heddle.block([[x, one], [one, x]]),
        heddle.isclose(one, x),
        x.clip(np.zeros(2), one),
        x[[1]],
        x[np.array([True, False])],
    ]
    assert [y.device for y in there] == [device] * len(there)
    assert heddle.concat([one, x]).tolist() == [[1, 1], [1, 1], [1, 2], [3, 4]]
    assert heddle.block([[x, one], [one, x]]).tolist() == [[1, 2, 1, 1], [3, 4, 1, 1], [1, 1, 1, 2], [1, 1, 3, 4]]
    assert heddle.allclose(x, [[1.0, 2.0], [3.0, 4.0]]) and not heddle.allclose(one, x)
    x[[0]] = np.array([[7, 8]], np.float32)
    x[1] = [5, 6]
    x += one
    assert x.tolist() == [[8, 9], [6, 7]]
    places = heddle.array([3, 2, 1, 3, 4, 5], device=device)
    places[places] = 0
    assert places.tolist() == [3, 0, 0, 0, 0, 0]
    with pytest.raises(ValueError):
        x + heddle.ones(2)  # an array of heddle stays where it is


def test_seeds_gradients_and_metrics_go_to_the_device(device):
    x = heddle.array([1.0, 2.0], device=device)
    x.requires_grad = True
    (x * x).backward([1.0, 10.0])
    assert x.grad.device == device and x.grad.tolist() == [2, 40]
    heddle.backward(x * 3, np.ones(2, np.float32))
    assert x.grad.tolist() == [5, 43]
    optimizer, weight = heddle.Optimizer("sgd", lr=1.0), heddle.ones(2, device=device)
    optimizer.update(0, weight, [1.0, 2.0])
    assert weight.tolist() == [0, -1]
    if device.kind == "cpu":  # metrics are computed there
        metric = heddle.Accuracy()
        metric.update(heddle.array([[0.0, 1.0], [1.0, 0.0]], device=device), [1, 1])
        assert metric.value() == 0.5


def test_modules_take_lists_and_numpy_arrays_to_their_device(device):
    net = heddle.Sequential(heddle.Dense(2, 3), heddle.Dense(3, 1)).to(device)
    x = np.ones((4, 2), np.float32)
    assert net(x).device == net([[1.0, 2.0]]).device == net.run(x)[0].device == device
    assert net(x).tolist() == net(heddle.array(x, device=device)).tolist()
    assert net.summary((4, 2)).rows[0].outputs == [(4, 1)]
    assert heddle.MultiHeadAttention(4, 2).to(device)(np.ones((1, 3, 4), np.float32)).device == device
    assert heddle.Relu()(heddle.ones(2, device=device)).device == device


def test_models_of_layers_on_a_device(device):
    x = heddle.Input((None, 2), name="x")
    h = heddle.Dense(2, 3, device=device)(x)
    y = heddle.add(heddle.relu(h) * 2, heddle.ones(3, device=device))
    assert y.shape == (2, 3)
    model = heddle.Model(x, [y, heddle.Sequential(heddle.Dense(2, 1)).to(device)(x)])
    assert [one.device for one in model(np.ones((4, 2), np.float32))] == [device] * 2


def test_values_text_and_copies(device):
    for value, dtype in [(1.5, "f32"), (-2.25, "bf16"), (-7, "i32"), (2**64 - 1, "u64"), (True, "bool"), (False, "bool")]:
        x = heddle.array(value, dtype=dtype, device=device)
        assert x.item() == value and type(x.item()) is type(value)
        assert float(x) == float(value) and bool(x) is bool(value)
        assert x.dtype == heddle.bool_ or int(x) == int(value)
    assert [10, 20, 30][heddle.array(2, device=device)] == 30
    x = heddle.array([1.25, 2.5], device=device)
    assert f"{x[0]:.2f}" == "1.25" and f"{x}" == str(x) == "[1.25 2.5 ]" and repr(x) == "array([1.25 2.5 ], dtype=f32)"
    assert round(x[1]) == 2 and x.item(1) == 2.5 and [float(one) for one in x] == [1.25, 2.5]
    with pytest.raises(ValueError, match="only one with one element has a value"):
        float(x)
    x.requires_grad = True
    again = copy.deepcopy(x)
    assert again.device == device and again.requires_grad and again.tolist() == [1.25, 2.5]
    again = pickle.loads(pickle.dumps(x))
    assert again.device == device and again.requires_grad and again.tolist() == [1.25, 2.5]


def test_a_value_is_waited_for_without_the_gil(device):
    # The op is a Python function: the value never comes if the thread that waits keeps the GIL.
    for read, wanted in [(float, 3), (int, 3), (bool, True), (str, "3.0"), (lambda x: x.item(), 3)]:
        x = heddle.zeros((), device="cpu")
        heddle.default_engine().push(lambda x=x: x.numpy().fill(3), mutate=[x])
        assert read(x.to(device)) == wanted


def test_a_pickle_of_a_gpu_that_is_not_there_is_loaded_on_the_cpu(device):
    text = pickle.dumps(heddle.array([1.0, 2.0], device=device)).replace(str(device).encode(), b"gpu(9)")
    again = pickle.loads(text)
    assert again.device == heddle.cpu() and again.tolist() == [1, 2]


MEMORY = """
import heddle
before = heddle.gpu_memory_stats("gpu(0)")
x = heddle.zeros((4096, 1024), device="gpu(0)")
x.wait()
size, during = x.nbytes, heddle.gpu_memory_stats()
assert during.in_use >= before.in_use + size, during
assert str(during) == f"GpuMemoryStats(in_use={during.in_use}, cached={during.cached}, free={during.free})"
del x
heddle.wait_all()
heddle.ones(2, device="gpu(0)").wait()  # behind what frees the memory on the GPU's stream
kept = heddle.gpu_memory_stats()
assert kept.in_use < size <= kept.cached, kept
heddle.gpu_memory_trim()
assert heddle.gpu_memory_stats().cached < size, heddle.gpu_memory_stats()
"""


def test_gpu_memory(device, run):
    for call in (heddle.gpu_memory_stats, heddle.gpu_memory_trim):
        with pytest.raises(heddle.InvalidArgument, match=f"{call.__name__}: device is cpu"):
            call("cpu")
        with pytest.raises(heddle.InvalidArgument, match=f"{call.__name__}: device is gpu.99."):
            call("gpu(99)")
    if device.kind == "gpu":
        done = run(MEMORY)
        assert done.returncode == 0, done.stderr
