"""heddle.onnx on a device: on cpu(1), and on a GPU where there is one."""

import numpy as np
import onnx
import onnx.parser
import pytest

import heddle
import heddle.onnx

pytestmark = pytest.mark.parametrize("device", [heddle.cpu(1), *([heddle.gpu(0)] if heddle.gpu_count() else [])], ids=str)

NET = """(float[batch, 3] x) => (float[batch, 2] y, int64[batch] best) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {0.5, -0.5}>
  { p = MatMul(x, w)  s = Add(p, b)  y = Softmax(s)  best = ArgMax<axis = 1, keepdims = 0>(s) }"""
# What operators make beside the inputs, such as shapes and windows, is on the inputs' device.
SHAPES = """(float[n, 4] x) => (float[m] y) <int64[1] one = {1}, int64[4] pads = {0, 1, 0, 1}, float[2] scales = {1, 2},
    float half = {0.5}, int64 zero = {0}, int64 last = {4}, int64 step = {1}, int64[1] all = {-1}>
  { s = Shape(x)  i = Gather<axis = 0>(s, one)  r = Range(zero, last, step)  c = ConstantOfShape(s)  k = Add(x, c)
    p = Pad(k, pads)  z = Resize<mode = "nearest">(p, , scales)  t = Greater(z, half)  w = Where(t, z, half)
    e = Expand(r, i)  h = Cast<to = 1>(e)  f = ReduceSum<keepdims = 0>(h)  g = Add(w, f)  y = Reshape(g, all) }"""


def text(body, opset=18):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> model {body}').SerializeToString()


def test_a_model_computes_on_its_device(device):
    model = heddle.onnx.load(text(NET), device=str(device))
    assert model.device == device and heddle.onnx.load(text(NET)).device == heddle.cpu()
    x = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
    wanted = [y.tolist() for y in heddle.onnx.load(text(NET)).run(x)]
    for given in (x, x.tolist(), heddle.array(x, device=device), x, x):
        results = model.run(given)
        assert [y.device for y in results] == [device] * 2
        np.testing.assert_allclose(results[0].tolist(), wanted[0], rtol=1e-5)
        assert results[1].tolist() == wanted[1]
    assert model.captured and model.captures == 1 and model.reason == ""


def test_the_default_device_is_that_of_the_model(device):
    with device:
        model = heddle.onnx.load(text(NET))
    assert model.device == device and model(np.ones((2, 3), np.float32))[0].device == device
    assert heddle.default_device() == heddle.cpu()


def test_inputs_on_another_device(device):
    with pytest.raises(heddle.InvalidArgument, match=r"input 'x' is on cpu\(0\), the model on .*x.to\('"):
        heddle.onnx.load(text(NET), device=device)(heddle.ones((2, 3)))
    with pytest.raises(heddle.InvalidArgument, match="load.*device='"):
        heddle.onnx.load(text(NET))(heddle.ones((2, 3), device=device))
    with pytest.raises(TypeError, match="load: device is a int"):
        heddle.onnx.load(text(NET), device=1)
    with pytest.raises(heddle.InvalidArgument, match="no device of that name"):
        heddle.onnx.load(text(NET), device="tpu")


def test_shapes_that_a_model_computes(device):
    here, there = heddle.onnx.load(text(SHAPES)), heddle.onnx.load(text(SHAPES), device=device)
    for n in (1, 2, 2, 2):
        x = np.linspace(-1, 1, n * 4, dtype=np.float32).reshape(n, 4)
        y = there(x)
        assert y.device == device and y.tolist() == here(x).tolist()
    assert there.captured and there.reason == ""


def test_values_that_decide_on_the_path(device):
    body = """(float[n] x) => (float[m] y) { i = NonZero(x)  s = Squeeze(i, axes)  y = Gather(x, s) }"""
    model = heddle.onnx.load(text(body.replace("{ i", "<int64[1] axes = {0}> { i")), device=device)
    for _ in range(3):
        assert model([0.0, 2.0, 0.0, 3.0]).tolist() == [2, 3]
    assert not model.captured and "NonZero" in model.reason


def test_weights_in_another_file(device, tmp_path):
    weights = np.arange(512, dtype=np.float32).reshape(4, 128)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> net (float[n, 4] x) => (float[n, 128] y) <float[4, 128] w> { y = MatMul(x, w) }'
    )
    del model.graph.initializer[:], model.graph.value_info[:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save_model(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.bin", size_threshold=0)
    net = heddle.onnx.load(tmp_path / "net.onnx", device=device)
    y = net(np.ones((2, 4), np.float32))
    assert y.device == device and y.tolist() == (np.ones((2, 4), np.float32) @ weights).tolist()


def test_training(device):
    model = heddle.onnx.load(text(NET), device=device, trainable=True)
    trainer = heddle.Trainer(model.parameters(), "sgd", {"lr": 0.5})
    x, labels = np.eye(3, dtype=np.float32), heddle.array([0, 1, 0], device=device)
    losses = []
    for _ in range(5):
        loss = heddle.nll_loss(heddle.log(model(x)[0]), labels)
        loss.backward()
        trainer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0] and all(one.value.device == device for one in model.parameters())


def test_a_network_there_is_saved(device, tmp_path):
    net = heddle.Sequential(heddle.Dense(3, 4, relu=True), heddle.LayerNorm(4), heddle.BatchNorm(4), heddle.Dense(4, 2))
    heddle.onnx.save(net, tmp_path / "here.onnx", (None, 3))
    net.to(device)
    heddle.onnx.save(net, tmp_path / "there.onnx", (None, 3))
    assert (tmp_path / "there.onnx").read_bytes() == (tmp_path / "here.onnx").read_bytes()
    x = heddle.Input((None, 3), name="x")
    model = heddle.Model(x, heddle.softmax(heddle.Dense(3, 2)(x) * 2 + 1, axis=-1)).to(device)
    with device:  # nor does the default device matter
        heddle.onnx.save(model, tmp_path / "model.onnx")
    again = heddle.onnx.load(tmp_path / "model.onnx", device=device)
    given = heddle.array([[0.5, -1.0, 2.0]], device=device)
    assert heddle.allclose(again(given), model(given), 1e-5, 1e-6)
