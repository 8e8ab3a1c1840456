"""heddle.onnx: models of PyTorch's exporter, captured graphs, training, and files that are damaged or hostile."""

import pathlib
import shutil
import subprocess
import sys
import threading

import numpy as np
import onnx
import onnx.parser
import onnx.reference
import pytest
from onnx import TensorProto, helper, numpy_helper

import heddle
import heddle.onnx

FOLDER = pathlib.Path(__file__).parent / "onnx_models"
MODELS = ["resnet", "lstm", "transformer", "transformer_23"]


def parse(text, opset=20):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> model {text}')


def bytes_of(text, opset=20):
    return parse(text, opset).SerializeToString()


def load(text, opset=20, **options):
    return heddle.onnx.load(bytes_of(text, opset), **options)


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

NET = """(float[n, 3] x) => (float[n, 2] y)
  <float[3, 4] w1 = {1, -2, 3, -4, 5, -6, 7, -8, 9, -1, 2, -3}, float[4] b1 = {0, 1, 0, 1},
   float[2, 4] w2 = {1, 0, -1, 2, 1, 1, 1, 1}, float[2] b2 = {0, 0}, float scale = {0.1}> {
  m = MatMul(x, w1)  s = Mul(m, scale)  h = Add(s, b1)  r = Relu(h)  y = Gemm<transB = 1>(r, w2, b2)
}"""


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


# Files.


def with_external(folder, **changes):
    """A model whose weights are in another file; changes of what its entry says."""
    weight = np.arange(4096, dtype=np.float32)
    model = parse("(float[4096] x) => (float[4096] y) { y = Add(x, w) }".replace("w)", "x)"))
    tensor = numpy_helper.from_array(weight, "w")
    model.graph.initializer.append(tensor)
    model.graph.node[0].input[1] = "w"
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    model = onnx.load(path, load_external_data=False)
    entries = {entry.key: entry for entry in model.graph.initializer[0].external_data}
    for key, value in changes.items():
        entries[key].value = value
    path.write_bytes(model.SerializeToString())
    return path, weight


def test_weights_in_another_file(tmp_path):
    path, weight = with_external(tmp_path)
    x = np.ones(4096, np.float32)
    model, read = heddle.onnx.load(path), heddle.onnx.load(path, mapped=False)
    trained = heddle.onnx.load(path, trainable=True)
    (tmp_path / "weights.bin").unlink()
    for one in (model, read, trained):
        assert (one(x).numpy() == weight + 1).all()
    data = path.read_bytes()
    with pytest.raises(heddle.Error, match="load the model by its path"):
        heddle.onnx.load(data)
    with pytest.raises(heddle.Error, match="'weights.bin', which is no file"):
        heddle.onnx.load(path)


def test_external_data_stays_in_the_folder_and_in_its_file(tmp_path):
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(65536))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    for location in ("../secret.bin", str(tmp_path / "secret.bin"), "link.bin", "", "a/../../secret.bin"):
        path, _ = with_external(folder, location=location)
        with pytest.raises(heddle.Error, match="outside of the model's folder") as error:
            heddle.onnx.load(path)
        assert str(path) in str(error.value)
    for changes in ({"offset": "-4"}, {"length": "4"}, {"offset": "9" * 30}, {"length": "many"}):
        path, _ = with_external(folder, **changes)
        with pytest.raises(heddle.Error, match="tensor 'w' has"):
            heddle.onnx.load(path)
    path, _ = with_external(folder)
    (folder / "weights.bin").write_bytes(b"short")
    with pytest.raises(heddle.Error, match="which has 5"):
        heddle.onnx.load(path)


def test_damaged_files_are_named(tmp_path):
    data = (FOLDER / "lstm.onnx").read_bytes()
    path = tmp_path / "cut.onnx"
    for length in [0, 1, 7, 100, 5000, len(data) // 2, len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(heddle.Error, match="cut.onnx"):
            heddle.onnx.load(path)
    with pytest.raises(heddle.Error, match="absent.onnx"):
        heddle.onnx.load(tmp_path / "absent.onnx")
    with pytest.raises(heddle.Error, match=str(tmp_path)):
        heddle.onnx.load(tmp_path)
    with pytest.raises(TypeError, match="source is a int"):
        heddle.onnx.load(3)


def test_changed_bytes_never_crash(tmp_path):
    """Each file either runs or is refused with an error of heddle."""
    data, random = bytes_of(NET), np.random.default_rng(7)
    x, refused = np.ones((2, 3), np.float32), 0
    for _ in range(300):
        changed = bytearray(data)
        for place in random.integers(0, len(data), 3):
            changed[place] = random.integers(0, 256)
        try:
            model = heddle.onnx.load(bytes(changed))
            model(*[x for _ in model.inputs])
            heddle.wait_all()
        except (heddle.Error, heddle.AggregateError):
            refused += 1
    assert refused > 100


def hostile(change):
    model = parse("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    change(model)
    return model.SerializeToString()


def test_hostile_sizes_and_graphs_are_refused():
    def sizes(*dims):
        def change(model):
            del model.graph.initializer[0].dims[:]
            model.graph.initializer[0].dims.extend(dims)

        return change

    def calls_itself(model):
        node = helper.make_node("f", ["x"], ["y"], domain="own")
        function = helper.make_function("own", "f", ["x"], ["y"], [node], [helper.make_opsetid("own", 1)])
        model.functions.append(function)
        model.opset_import.append(helper.make_opsetid("own", 1))
        model.graph.node[0].CopyFrom(node)

    def doubles(model):
        opsets = [helper.make_opsetid("own", 1), helper.make_opsetid("", 20)]
        for i in range(40):
            name, domain = (f"f{i + 1}", "own") if i < 39 else ("Neg", "")
            nodes = [helper.make_node(name, [a], [b], domain=domain) for a, b in (("x", "t"), ("t", "y"))]
            model.functions.append(helper.make_function("own", f"f{i}", ["x"], ["y"], nodes, opsets))
        model.opset_import.append(opsets[0])
        model.graph.node[0].CopyFrom(helper.make_node("f0", ["x"], ["y"], domain="own"))

    def opset(version):
        return lambda model: setattr(model.opset_import[0], "version", version)

    def twice(model):
        model.graph.node.append(model.graph.node[0])

    def unknown(model):
        model.graph.node[0].input[1] = "nothing"

    def dtype(model):
        model.graph.initializer[0].data_type = 12345

    for change, error in (
        (sizes(-1), "negative size"),
        (sizes(2**40, 2**40), "more elements than memory"),
        (sizes(2**62, 8, 0), "more elements than memory"),
        (sizes(2**33), "tensor 'w'"),
        (sizes(3), "tensor 'w'"),
        (calls_itself, "function f calls itself"),
        (doubles, "more than 1000000 nodes"),
        (opset(10**6), "opset 1000000"),
        (opset(0), "opset 0"),
        (twice, "computes 'y', which exists already"),
        (unknown, "reads 'nothing', which no node before it computes"),
        (dtype, "unknown dtype 12345"),
        (lambda model: model.graph.output.add(name="z"), "output 'z' is computed by no node"),
    ):
        with pytest.raises(heddle.Error, match=error):
            heddle.onnx.load(hostile(change))


def test_constants_that_ask_for_too_much_memory_fail_in_the_call_alone():
    model = load("() => (float[n] y) { s = Constant<value_ints = [1099511627776, 4096]>()  y = ConstantOfShape(s) }")
    with pytest.raises(heddle.Error, match="asks for 18014398509481984 bytes"):
        model().wait()


def test_all_that_is_missing_is_listed_with_its_nodes():
    text = """(float[1, 4, 1] x, string[n] t) => (float[a, b, c, d] y) {
      <NAME> = DFT(x)  z = DFT(a0)  l = LSTM<hidden_size = 1, activations = ["Cube", "Square", "Tanh"]>(x, x, x)
      y = Identity(z)
    }""".replace("<NAME>", "a0")
    with pytest.raises(heddle.onnx.Missing) as error:
        load(text)
    message = str(error.value)
    for line in (
        "operator DFT: node 'a0', node 'z'",
        "dtype string: value 't'",
        "LSTM with activation Cube: node 'l'",
        "LSTM with activation Square: node 'l'",
    ):
        assert line in message, message
    assert "operator DFT" in error.value.what
    with pytest.raises(heddle.onnx.Missing, match="operator Elu before opset 6"):
        load("(float[2] x) => (float[2] y) { y = Elu(x) }", 5)
    with pytest.raises(heddle.onnx.Missing, match="Gelu: attribute unheard"):
        load("(float[2] x) => (float[2] y) { y = Gelu<unheard = 3>(x) }")
    with pytest.raises(heddle.onnx.Missing, match="Add with 1 inputs: node 'y'"):
        load("(float[2] x) => (float[2] y) { y = Add(x) }")


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


# Saving.


def layers_of_images():
    return heddle.Sequential(
        heddle.Conv2d(3, 8, 3, padding="same", bias=False),
        heddle.BatchNorm(8),
        heddle.Relu(),
        heddle.MaxPool2d(3, 2, 1, ceil_mode=True),
        heddle.Sequential(heddle.Conv2d(8, 8, 4, stride=2, padding=1, groups=2, relu=True), heddle.GroupNorm(2, 8)),
        heddle.AvgPool2d(2, 1, 1, count_include_pad=False),
        heddle.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1),
        heddle.InstanceNorm(4),
        heddle.LeakyRelu(0.2),
        heddle.Dropout(0.5),
        heddle.GlobalAvgPool(),
        heddle.Dense(4, 5),
    )


def layers_of_rows():
    dense = heddle.Dense(6, 6, relu=True)
    rest = [getattr(heddle, name)() for name in ("Gelu", "GeluTanh", "Silu", "Mish", "Selu", "Elu", "Celu", "Softplus")]
    more = [getattr(heddle, name)() for name in ("HardSwish", "HardSigmoid", "Relu6", "Tanh", "Sigmoid", "Softsign")]
    return heddle.Sequential(dense, heddle.LayerNorm(6), *rest, dense, heddle.RmsNorm(6), *more, heddle.Flatten())


def layers_of_sequences():
    return heddle.Sequential(
        heddle.Lstm(3, 4, layers=2, bidirectional=True, peepholes=True),
        heddle.Gru(8, 5, reset_after=False),
        heddle.Rnn(5, 4, relu=True, bidirectional=True, batch_first=False),
        heddle.Gru(8, 3, bias=False),
        heddle.Lstm(3, 4, layers=2, bidirectional=True, last_only=True),
        heddle.Dense(8, 2),
    )


@pytest.mark.parametrize(
    "make, shape",
    [(layers_of_images, (None, 3, 16, 16)), (layers_of_rows, (None, 4, 6)), (layers_of_sequences, (None, None, 3))],
)
def test_saved_modules_compute_the_same(make, shape, tmp_path):
    net, data = make(), np.random.default_rng(5)
    x = heddle.array(data.normal(size=(3, *(n or 7 for n in shape[1:]))).astype(np.float32))
    net(x)  # in training: running statistics change
    net.train(False)
    heddle.onnx.save(net, tmp_path / "net.onnx", shape)
    model = heddle.onnx.load(tmp_path / "net.onnx")
    for _ in range(3):
        np.testing.assert_allclose(model(x).numpy(), net(x).numpy(), rtol=1e-5, atol=1e-5)
    onnx.checker.check_model(onnx.load(tmp_path / "net.onnx"), full_check=True)
    assert str(model.inputs[0]).startswith("x: f32 (batch, ")


def test_a_saved_model_of_symbols(tmp_path):
    tokens, x = heddle.Input((None, 4), name="tokens", dtype="i64"), heddle.Input((None, 4, 3), name="x")
    inner = heddle.Input((None, 4, 3))
    block = heddle.Model(inner, heddle.tanh(heddle.Dense(3, 3)(inner)) * 2)
    h = heddle.Embedding(10, 3)(tokens) + block(x)
    h = heddle.concat([h, 1 - block(h)], axis=2)
    net = heddle.Model([tokens, x], [heddle.softmax(heddle.Dense(6, 2)(h), axis=-1), heddle.reshape(h, (-1, 6))])
    heddle.onnx.save(net, tmp_path / "net.onnx")
    model, data = heddle.onnx.load(tmp_path / "net.onnx"), np.random.default_rng(5)
    given = data.integers(0, 10, (2, 4)), data.normal(size=(2, 4, 3)).astype(np.float32)
    for computed, wanted in zip(model(*given), net(*map(heddle.array, given)), strict=True):
        np.testing.assert_allclose(computed.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
    assert [value.name for value in model.inputs] == ["tokens", "x"]


def test_what_cannot_be_saved_is_listed_and_nothing_is_written(tmp_path):
    class Own(heddle.Module):
        def forward(self, x):
            return x

    path = tmp_path / "net.onnx"
    net = heddle.Sequential(heddle.Lstm(2, 3, proj_size=2), heddle.AdaptiveAvgPool1d(3), heddle.PixelShuffle(2))
    with pytest.raises(
        heddle.onnx.Missing, match=r"cannot write adaptive pooling to \[3\], layer Lstm with proj_size, layer PixelShuffle"
    ):
        heddle.onnx.save(net, path, (None, 2, 2))
    with pytest.raises(heddle.onnx.Missing, match="heddle.onnx.save: "):
        heddle.onnx.save(Own(), path, (None, 2))
    with pytest.raises(TypeError, match="module is a int"):
        heddle.onnx.save(3, path)
    with pytest.raises(heddle.InvalidArgument, match="shape is None"):
        heddle.onnx.save(heddle.Sequential(heddle.Relu()), path)
    with pytest.raises(heddle.Error, match="absent"):
        heddle.onnx.save(heddle.Sequential(heddle.Relu()), tmp_path / "absent" / "net.onnx", (None,))
    assert not list(tmp_path.iterdir())
