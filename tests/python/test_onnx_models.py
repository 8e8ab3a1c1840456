"""heddle.onnx: models of PyTorch's exporter, captured graphs, training, and old operator sets."""

import shutil
import subprocess
import sys
import threading

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto

import heddle
import heddle.onnx
from onnx_texts import FOLDER, NET, load, parse

MODELS = ["resnet", "lstm", "transformer", "transformer_23"]


def outputs_of(model, inputs):
    return [output.numpy(copy=True) for output in model.run(*inputs)]


class Calls:
    """The calls of a model with expected outputs, as make.py wrote them."""

    def __init__(self, name):
        self.path = FOLDER / f"{name}.onnx"
        arrays = np.load(FOLDER / f"{name}.npz")
        model = onnx.load(self.path)
        names = [[value.name for value in values] for values in (model.graph.input, model.graph.output)]
        self.count = len({key.partition(".")[0] for key in arrays})
        self.inputs, self.outputs = (
            [[arrays[f"{i}.{key}"] for key in keys] for i in range(self.count)] for keys in names
        )

    def check(self, model, i):
        for computed, wanted in zip(outputs_of(model, self.inputs[i]), self.outputs[i], strict=True):
            np.testing.assert_allclose(computed, wanted, rtol=1e-5, atol=1e-5)


@pytest.fixture(params=MODELS)
def calls(request):
    return Calls(request.param)


def test_exported_models_compute_what_pytorch_does(calls):
    model = heddle.onnx.load(calls.path)
    assert calls.count >= 2
    for _ in range(4):
        for i in range(calls.count):
            calls.check(model, i)
    assert model.captured and model.reason == "" and model.captures == calls.count
    eager = heddle.onnx.load(calls.path, capture=False)
    for i in range(calls.count):
        calls.check(eager, i)
        calls.check(eager, i)
        for a, b in zip(outputs_of(eager, calls.inputs[i]), outputs_of(model, calls.inputs[i]), strict=True):
            assert (a == b).all()
    assert not eager.captured and "capture=False" in eager.reason


def test_a_model_outlives_its_file(calls, tmp_path):
    path = tmp_path / "model.onnx"
    shutil.copy(calls.path, path)
    model = heddle.onnx.load(str(path))
    path.unlink()
    calls.check(model, 0)
    calls.check(heddle.onnx.load(calls.path.read_bytes()), 0)


def test_threads_call_one_model(calls):
    model, errors = heddle.onnx.load(calls.path, graphs=2), []  # less graphs than shapes: they are captured anew

    def work(first):
        try:
            for k in range(12):
                calls.check(model, (first + k) % calls.count)
        except Exception as error:  # noqa: BLE001 (it is reported by the test's thread)
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert model.captures >= 2


def test_any_number_of_workers_gives_the_same_bits(calls):
    results = []
    for workers in (1, 2, 4):
        with heddle.Engine(workers=workers):
            model = heddle.onnx.load(calls.path)
        results.append([outputs_of(model, calls.inputs[0]) for _ in range(3)])  # on the engine of load
    for result in results[1:]:
        for run, first in zip(result, results[0], strict=True):
            assert all((a == b).all() for a, b in zip(run, first, strict=True))


def test_other_batch_sizes():
    calls = Calls("resnet")
    model, (images,) = heddle.onnx.load(calls.path), calls.inputs[1]
    (whole,) = outputs_of(model, [images])
    for n in (1, 3, 4):
        (part,) = outputs_of(model, [images[:n]])
        np.testing.assert_allclose(part, whole[:n], rtol=1e-4, atol=1e-5)


def test_inputs_come_in_order_or_by_name():
    model = load("(float[n, 2] a, float[2] b) => (float[n, 2] y, float[n, 2] z) { y = Add(a, b)  z = Sub(a, b) }")
    a, b = np.array([[1, 2]], np.float32), np.array([3, 4], np.float32)
    for given in (model(a, b), model(a, b=b), model(b=b, a=a), model(heddle.array(a), [3.0, 4.0])):
        assert isinstance(given, tuple)
        assert given[0].tolist() == [[4, 6]] and given[1].tolist() == [[-2, -2]]
    assert [str(value) for value in model.inputs] == ["a: f32 (n, 2)", "b: f32 (2,)"]
    assert model.outputs[1] == heddle.onnx.Value("z", ("n", 2), heddle.f32)
    assert "y: f32 (n, 2)" in repr(model)


def test_wrong_inputs_are_named():
    model = load("(float[n, 2] a, int64[k] b) => (float[n, 2] y) { y = Gather(a, b) }")
    a, b = np.ones((3, 2), np.float32), np.array([1])
    for error, given, named in (
        (r"no input 'b'; want a: f32 \(n, 2\), b: i64 \(k,\)", (a,), {}),
        (r"3 inputs; want 2: a: f32 \(n, 2\)", (a, b, b), {}),
        (r"there is no input 'c'", (a,), {"c": b}),
        (r"input 'a' came twice", (a, b), {"a": a}),
        (r"input 'a' is f64 \(3, 2\); want a: f32 \(n, 2\)", (a.astype(np.float64), b), {}),
        (r"input 'a' is f32 \(3, 3\); want a: f32 \(n, 2\)", (np.ones((3, 3), np.float32), b), {}),
        (r"input 'a' is f32 \(3,\)", (np.ones(3, np.float32), b), {}),
        (r"input 'b' is a str", (a, "text"), {}),
    ):
        with pytest.raises(heddle.InvalidArgument, match=error):
            model(*given, **named)
    assert model(a, b).shape == (1, 2)


def test_an_error_of_one_call_is_not_one_of_the_next():
    model = load("(float[n, 2] a, int64[k] b) => (float[k, 2] y) { y = Gather(a, b) }")
    a = heddle.ones((3, 2))
    for _ in range(3):
        bad = model(a, np.array([7, 0]))
        good = model(a, np.array([1, 0]))
        with pytest.raises(heddle.InvalidIndex, match="index 7"):
            bad.wait()
        assert good.tolist() == [[1, 1], [1, 1]]
    assert model.captured


def test_outputs_are_arrays_of_their_own():
    model = load(
        "(float[2] x) => (float[2] y, float[2] z, float[2] w) <float[2] k = {1, 2}> "
        "{ y = Identity(x)  z = Identity(k)  w = Add(x, k) }"
    )
    x = heddle.zeros(2)
    for _ in range(4):
        y, z, w = model(x)
        for one in (y, z, w):
            one[...] = 9
        assert x.tolist() == [0, 0]
        assert [one.tolist() for one in model(x)] == [[0, 0], [1, 2], [1, 2]]


def test_graphs_are_kept_for_the_shapes_used_last():
    model = load("(float[n] x) => (float[n] y) { y = Neg(x) }", graphs=2)
    for n in (1, 2, 1, 2, 3, 3, 1, 1):  # 1 is dropped for 3
        assert model(np.ones(n, np.float32)).shape == (n,)
    assert model.captures == 4
    model.reset()
    assert not model.captured
    for graphs, error in ((0, heddle.InvalidArgument), ("2", TypeError)):
        with pytest.raises(error, match="graphs"):
            heddle.onnx.load(b"", graphs=graphs)


CONTROL = """(int64 trips, float[2] x, bool c) => (float[2] y) {
  limit = Constant<value_int = 3>()
  a = Loop(WHICH, "", x) <body = twice (int64 i, bool go, float[2] a) => (bool on, float[2] b) {
    one = Cast<to = 1>(i)  b = Add(a, one)  on = Identity(go)
  }>
  y = If(CONDITION) <
    then_branch = left () => (float[2] l) { l = Neg(a) }, else_branch = right () => (float[2] r) { r = Identity(a) }
  >
}"""


def test_control_flow_by_constants_is_captured_and_by_values_is_not():
    x, trips = np.array([1, 2], np.float32), np.int64(3)
    constant = (
        CONTROL.replace("WHICH", "limit")
        .replace("CONDITION", "no")
        .replace("limit =", "no = Constant<value = bool {0}>()  limit =")
    )
    model = load(constant)
    for _ in range(3):
        assert model(trips, x, np.bool_(True)).tolist() == [4, 5]
    assert model.captured, model.reason
    for which, condition, node in (("trips", "no", "Loop"), ("limit", "c", "If")):
        model = load(constant.replace("Loop(limit", f"Loop({which}").replace("If(no", f"If({condition}"))
        assert model.reason == ""
        for _ in range(3):
            assert model(trips, x, np.bool_(False)).tolist() == [4, 5]
        assert not model.captured
        assert f"({node})" in model.reason and "values" in model.reason
        assert "not captured: node" in heddle.onnx.summary(model)


def test_shapes_that_depend_on_values_run_operator_by_operator():
    model = load(
        "(float[n] x) => (int64[k] y) { p = NonZero(x)  m = Constant<value_ints = [-1]>()  y = Reshape(p, m) }"
    )
    for values in ([0, 1, 0, 2], [1, 1, 0, 0], [0, 0, 0, 0], [3, 3, 3, 3]):
        assert model(np.array(values, np.float32)).tolist() == np.flatnonzero(values).tolist()
    assert not model.captured and "NonZero" in model.reason


def test_shapes_are_computed_once_for_inputs_of_a_shape():
    text = """(float[n, m] x) => (float[k] y) {
      s = Shape(x)  p = ReduceProd<keepdims = 1>(s)  z = ConstantOfShape(s)  q = NonZero(z)  t = Shape(q)
      r = Reshape(x, p)  f = Cast<to = 1>(t)  g = ReduceSum<keepdims = 0>(f)  y = Add(r, g)
    }"""
    model = load(text)
    for shape in ((2, 3), (3, 2), (4, 1), (2, 3), (3, 2), (4, 1)):
        assert model(np.ones(shape, np.float32)).tolist() == [3.0] * int(np.prod(shape))
    assert model.captures == 3


def test_random_numbers_are_new_in_each_call():
    model = load("(float[n] x) => (float[n] y) { y = RandomNormalLike(x) }")
    heddle.manual_seed(1)
    seen = [tuple(model(np.ones(3, np.float32)).tolist()) for _ in range(5)]
    assert len(set(seen)) == 5 and model.captured
    heddle.manual_seed(1)
    assert tuple(model(np.ones(3, np.float32)).tolist()) in seen


# Training.


def test_parameters_have_the_gradients_of_the_same_net():
    model = load(NET, trainable=True)
    parameters = {parameter.name: parameter.value for parameter in model.parameters()}
    assert list(parameters) == ["w1", "b1", "w2", "b2"] and model.trainable
    x = heddle.array(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))

    def loss_of(w1, b1, w2, b2):
        return heddle.square(heddle.matmul(heddle.relu(heddle.matmul(x, w1) * 0.1 + b1), w2.T) + b2).sum()

    own = [heddle.array(value.numpy()) for value in parameters.values()]
    for one in own:
        one.requires_grad = True
    loss_of(*own).backward()
    for _ in range(2):  # the first call of a shape and another
        heddle.square(model(x)).sum().backward()
        for value, wanted in zip(parameters.values(), own, strict=True):
            np.testing.assert_allclose(value.grad.numpy(), wanted.grad.numpy(), rtol=1e-4, atol=1e-5)
            value.grad = None
    with heddle.no_grad():
        results = [model(x).tolist() for _ in range(3)]
    assert results[0] == results[2] and model.captured
    with pytest.raises(heddle.Error, match="trainable=True"):
        load(NET).parameters()


@pytest.mark.parametrize("captured", [False, True])
def test_an_exported_model_learns(captured):
    model = heddle.onnx.load(FOLDER / "transformer.onnx", trainable=True)
    names = [parameter.name for parameter in model.parameters()]
    assert {"embedding.weight", "fc.bias"} <= set(names)
    trainer = heddle.Trainer(model.parameters(), "adam", {"lr": 3e-3})

    def step(tokens, padding, labels):
        loss = heddle.cross_entropy(model(tokens, padding).reshape(-1, 5), labels)
        loss.backward()
        trainer.step()
        return loss

    call = trainer.capture(step) if captured else step
    random = np.random.default_rng(3)
    tokens = random.integers(0, 200, (4, 6))
    batch = tokens, np.zeros((4, 6), bool), (tokens % 5).reshape(-1)
    losses = [call(*map(heddle.array, batch)) for _ in range(30)]
    assert losses[-1].item() < 0.3 * losses[0].item()
    with heddle.no_grad():
        after = [model(*batch[:2]).numpy().argmax(-1) for _ in range(3)]
    assert all((one == tokens % 5).mean() > 0.9 for one in after)


def test_gradients_of_exported_models(calls):
    """Along its gradient a loss changes as fast as the gradient is long."""
    model = heddle.onnx.load(calls.path, trainable=True)
    parameters = [parameter.value for parameter in model.parameters()]

    def loss():
        return heddle.mean(heddle.square(model.run(*calls.inputs[0])[0] - 0.5))

    calls.check(model, 0)
    loss().backward()
    assert all(value.grad is not None for value in parameters), [
        p.name for p in model.parameters() if p.value.grad is None
    ]
    gradients = [value.grad.copy() for value in parameters]
    length = sum((gradient * gradient).sum().item() for gradient in gradients) ** 0.5
    assert length > 0
    with heddle.no_grad():
        values = []
        for step in (2e-3, -2e-3):
            before = [value.copy() for value in parameters]
            for value, gradient in zip(parameters, gradients, strict=True):
                value[...] = value + gradient * (step / length)
            values.append(loss().item())
            for value, old in zip(parameters, before, strict=True):
                value[...] = old
    assert (values[0] - values[1]) / 4e-3 == pytest.approx(length, rel=0.05)


def test_gradients_of_inputs():
    model = load("(float[n] x) => (float[n] y) { y = Mul(x, x) }")
    for _ in range(3):
        x = heddle.array([1.0, 2.0, 3.0])
        x.requires_grad = True
        model(x).sum().backward()
        assert x.grad.tolist() == [2, 4, 6]


def test_a_first_call_in_a_capture_is_refused():
    model, x, engine = load("(float[n] x) => (float[n] y) { y = Neg(x) }"), heddle.ones(3), heddle.current_engine()
    with pytest.raises(heddle.Error, match="make it before the capture"):
        engine.capture(lambda: model(x))
    assert model(x).tolist() == [-1, -1, -1]
    results = []
    graph = engine.capture(lambda: results.append(model(x)))
    graph.launch()
    assert results[0].tolist() == [-1, -1, -1]


# What is joined and prepared.


def test_norms_and_additions_are_joined_with_what_is_before_them():
    text = """(float[n, 2, 5] x) => (float[n, 3, 5] y, float[n, 3, 4] z)
      <float[3, 2, 3] w = {1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6, 1, 0, 1, 0, 1, 0}, float[3] s = {1, 2, 3},
       float[3] b = {0, 1, 0}, float[3] m = {0.5, 0, 1}, float[3] v = {1, 4, 9},
       float[5, 4] p = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2}, float[4] q = {1, 2, 3, 4}> {
      c = Conv<pads = [1, 1]>(x, w)  n = BatchNormalization(c, s, b, m, v)  y = Relu(n)
      k = MatMul(y, p)  l = Add(q, k)  z = Relu(l)
    }"""
    model, plain = load(text), load(text, trainable=True)
    assert len(model._code.nodes) == 2
    x = np.sin(np.arange(20, dtype=np.float32)).reshape(2, 2, 5)
    for a, b in zip(model(x), plain(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
    reads_twice = text.replace("y = Relu(n)", "u = Relu(n)  y = Sub(u, c)")
    for a, b in zip(load(reads_twice)(x), load(reads_twice, trainable=True)(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


# Nodes of old opsets, with their opset, and what computes the same in a new one.
ROWS = "f = Flatten<axis = AXIS>(x)  g = NAME(f)  h = Shape(x)  y = Reshape(g, h)"
OLD = {
    "Softmax(x)": (11, ROWS.replace("AXIS", "1").replace("NAME", "Softmax")),
    "LogSoftmax<axis = 2>(x)": (12, ROWS.replace("AXIS", "2").replace("NAME", "LogSoftmax")),
    "Hardmax<axis = -2>(x)": (11, ROWS.replace("AXIS", "2").replace("NAME", "Hardmax")),
    "Clip<min = -0.5, max = 0.25>(x)": (
        6,
        "a = Constant<value_float = -0.5>()  b = Constant<value_float = 0.25>()  y = Clip(x, a, b)",
    ),
    "Pad<pads = [0, 1, 0, 2, 0, 0, 3, 0], value = 1.5>(x)": (
        10,
        "a = Constant<value_ints = [0, 1, 0, 2, 0, 0, 3, 0]>()  b = Constant<value_float = 1.5>()  y = Pad(x, a, b)",
    ),
    "Pad<pads = [0, 0, 1, 1, 0, 0, 1, 2], mode = 'reflect'>(x)": (
        2,
        "a = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 2]>()  y = Pad<mode = 'reflect'>(x, a)",
    ),
    "Slice<starts = [1, -2], ends = [3, 1000], axes = [1, 3]>(x)": (
        9,
        "a = Constant<value_ints = [1, -2]>()  b = Constant<value_ints = [3, 1000]>()"
        "  c = Constant<value_ints = [1, 3]>()  y = Slice(x, a, b, c)",
    ),
    "Slice<starts = [0, 1], ends = [1, 2]>(x)": (
        1,
        "a = Constant<value_ints = [0, 1]>()  b = Constant<value_ints = [1, 2]>()  y = Slice(x, a, b)",
    ),
    "TopK<k = 2, axis = 1>(x)": (9, "a = Constant<value_ints = [2]>()  y, z = TopK<axis = 1>(x, a)"),
    "BatchNormalization<epsilon = 0.01>(x, s, s, s, s)": (9, "y = BatchNormalization<epsilon = 0.01>(x, s, s, s, s)"),
    "BatchNormalization<spatial = 1>(x, s, s, s, s)": (7, "y = BatchNormalization(x, s, s, s, s)"),
    **{
        node: (
            opset,
            "a = Constant<value_floats = [1.0, 1.0, 2.0, 1.5]>()  y = Resize<nearest_mode = 'floor', "
            "coordinate_transformation_mode = 'asymmetric'>(x, \"\", a)",
        )
        for node, opset in (
            ("Upsample<scales = [1.0, 1.0, 2.0, 1.5]>(x)", 7),
            ("Upsample(x, t)", 9),
            ("Resize(x, t)", 10),
        )
    },
    "Sum(x, x, x)": (6, "y = Sum(x, x, x)"),
}


@pytest.mark.parametrize("node", OLD)
def test_old_opsets_compute_what_new_ones_do(node):
    (opset, new), results = OLD[node], "y, z" if node.startswith("TopK") else "y"
    types = "float[a, b, c, d] y, int64[a, b, c, d] z" if node.startswith("TopK") else "float[a, b, c, d] y"
    constants = "float[3] s = {0.5, 1.5, 2}, float[4] t = {1, 1, 2, 1.5}"
    old, new = (
        f"(float[2, 3, 3, 4] x) => ({types}) <{constants}> {{ {nodes} }}".replace("'", '"')
        for nodes in (f"{results} = {node}", new)
    )
    x = np.sin(np.arange(72, dtype=np.float32)).reshape(2, 3, 3, 4)
    model = load(old, opset)
    wanted = onnx.reference.ReferenceEvaluator(parse(new, 18)).run(None, {"x": x})
    for _ in range(3):
        for a, b in zip(model.run(x), wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, atol=1e-6)


def test_errors_name_the_model_and_the_node():
    model = load("(float[n] x, float[m] z) => (float[n] y) { y = Add(x, z) }")
    with pytest.raises(heddle.InvalidArgument, match=r"model the model in bytes: node 'y' \(Add\): add"):
        model(np.ones(2, np.float32), np.ones(3, np.float32))


def test_without_onnx_the_import_says_what_to_install():
    code = "import sys; sys.modules['onnx'] = None\nimport heddle\nassert 'heddle.onnx' not in sys.modules\nimport heddle.onnx"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: heddle.onnx needs the package onnx, which reads the files: pip install onnx" in done.stderr


def test_the_table_of_operators():
    table = heddle.onnx.operators()
    assert table["LSTM"] == (7, ("lstm",)) and table["Loop"] == (1, ())
    assert all(hasattr(heddle, name) for _, native in table.values() for name in native)
    assert TensorProto.FLOAT in heddle.onnx.table.DTYPES
