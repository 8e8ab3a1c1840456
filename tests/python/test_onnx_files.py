"""Files of ONNX models: damaged and hostile ones, weights in other files, and models that are saved."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import heddle
import heddle.onnx
from onnx_texts import FOLDER, NET, bytes_of, load, parse


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


@pytest.mark.parametrize("layer", ["Rnn", "Gru", "Lstm"])
def test_a_saved_model_goes_on_behind_recurrent_layers(layer, tmp_path):
    x = heddle.Input((None, None, 3))
    inner = heddle.Input((None, None, 4))
    block = heddle.Model(inner, heddle.Sequential(heddle.Dense(4, 4), getattr(heddle, layer)(4, 4))(inner))
    h = heddle.relu(getattr(heddle, layer)(3, 4)(x))
    h = heddle.Sequential(heddle.Dense(4, 4), getattr(heddle, layer)(4, 4))(h) * 2
    h = heddle.concat([block(h) + h, getattr(heddle, layer)(4, 2)(h)], axis=2)
    net = heddle.Model(x, [heddle.Dense(6, 2)(h), h * 2])
    net.train(False)
    heddle.onnx.save(net, tmp_path / "net.onnx")
    model, data = heddle.onnx.load(tmp_path / "net.onnx"), np.random.default_rng(5)
    given = data.normal(size=(2, 5, 3)).astype(np.float32)
    for computed, wanted in zip(model(given), net(heddle.array(given)), strict=True):
        np.testing.assert_allclose(computed.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"last_only": True, "layers": 2}])
@pytest.mark.parametrize("shape", [(0, 5, 3), (0, 0, 3), (2, 5, 3)])
def test_saved_recurrent_layers_take_no_examples(options, shape, tmp_path):
    net = heddle.Sequential(heddle.Gru(3, 4, **options))
    heddle.onnx.save(net, tmp_path / "net.onnx", (None, None, 3))
    x = heddle.ones(shape)
    np.testing.assert_allclose(heddle.onnx.load(tmp_path / "net.onnx")(x).numpy(), net(x).numpy(), rtol=1e-5, atol=1e-6)


def test_the_use_of_a_last_state_cannot_be_saved(tmp_path):
    x = heddle.Input((None, None, 3))
    results = heddle.Lstm(3, 4)(x)
    y, h, c = heddle.Lstm(3, 4).run(x) if not isinstance(results, tuple) else results
    for outputs in (y, heddle.relu(h)), (c,), (heddle.concat([h, c], axis=0),):
        with pytest.raises(heddle.onnx.Missing, match="cannot write the use of a recurrent layer's last state"):
            heddle.onnx.save(heddle.Model(x, list(outputs)), tmp_path / "net.onnx")
    assert list(tmp_path.iterdir()) == []


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
