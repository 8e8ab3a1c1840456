"""heddle.onnx at its edges: names that come twice, views, damaged indices and sizes, and what save writes where."""

import os
import threading

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper, numpy_helper

import heddle
import heddle.onnx

F32 = np.float32


def model_of(nodes, inputs, outputs, constants=None, opset=20):
    """inputs and outputs: names with shapes; None is any shape."""
    values = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in part.items()]
        for part in (inputs, outputs)
    ]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "edges", *values, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 9
    return model


def one_node(name, x, constants=(), outputs=1, **attributes):
    """A model of one node, whose first input is the graph's."""
    given = {f"c{i}": array for i, array in enumerate(constants) if array is not None}
    inputs = ["x", *(f"c{i}" if array is not None else "" for i, array in enumerate(constants))]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(name, inputs, results, **attributes)
    return model_of([node], {"x": [None] * np.ndim(x)}, dict.fromkeys(results), given)


def run(name, x, *constants, outputs=1, **attributes):
    results = heddle.onnx.load(one_node(name, x, constants, outputs, **attributes)).run(np.asarray(x, F32))
    return [result.numpy() for result in results]


def test_two_batch_norms_of_one_name_are_two():
    rng = np.random.default_rng(0)
    constants = {f"w{i}": rng.normal(size=(3, 3, 1, 1)).astype(F32) for i in (1, 2)}
    for i in (1, 2):
        constants |= {f"{part}{i}": rng.uniform(0.5, 2, size=3).astype(F32) for part in "sbmv"}
    nodes = []
    for i, (x, y) in ((1, ("x", "n")), (2, ("n", "y"))):
        nodes.append(helper.make_node("Conv", [x, f"w{i}"], [f"c{i}"], name="conv"))
        statistics = [f"{part}{i}" for part in "sbmv"]
        nodes.append(helper.make_node("BatchNormalization", [f"c{i}", *statistics], [y], name="norm"))
    model = model_of(nodes, {"x": [1, 3, 4, 4]}, {"y": [1, 3, 4, 4]}, constants)
    x = rng.normal(size=(1, 3, 4, 4)).astype(F32)
    (wanted,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(heddle.onnx.load(model)(x).numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_gradients_are_recorded_when_the_first_weight_is_frozen():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("MatMul", ["p", "v"], ["y"])]
    constants = {"w": np.ones((3, 4), F32), "v": np.ones((4, 2), F32)}
    model = heddle.onnx.load(model_of(nodes, {"x": ["b", 3]}, {"y": ["b", 2]}, constants), trainable=True)
    first, second = (one.value for one in model.parameters())
    first.requires_grad = False
    for _ in range(3):
        y = model(np.ones((2, 3), F32))
        assert y.requires_grad
    heddle.sum(y).backward()
    assert second.grad.tolist() == [[6.0, 6.0]] * 4
    assert not model.captured


def test_outputs_share_no_memory_with_inputs_and_weights():
    model = heddle.onnx.load(one_node("Flatten", np.zeros((1, 2, 2))))
    x = heddle.zeros((1, 2, 2))
    for _ in range(3):
        y, before = model(x), x.tolist()
        x[...] = x + 7.0
        assert y.tolist() == [before[0][0] + before[0][1]]
    nodes = [helper.make_node("Transpose", ["w"], ["v"]), helper.make_node("MatMul", ["x", "w"], ["y"])]
    both = model_of(nodes, {"x": ["a", 2]}, {"y": None, "v": None}, {"w": np.ones((2, 2), F32)})
    model = heddle.onnx.load(both, trainable=True)
    _, v = model(np.ones((1, 2), F32))
    with heddle.no_grad():
        model.parameters()[0].value[...] = 3.0
    assert v.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_body_with_initializers_of_its_own_is_captured():
    body = helper.make_graph(
        [
            helper.make_node("Reshape", ["s", "shape"], ["r"]),
            helper.make_node("Add", ["r", "one"], ["t"]),
            helper.make_node("Identity", ["c"], ["d"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, [2]),
        ],
        [numpy_helper.from_array(np.array([2]), "shape"), numpy_helper.from_array(F32(1), "one")],
    )
    node = helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)
    model = heddle.onnx.load(model_of([node], {"x": [2]}, {"y": [2]}, {"trips": np.int64(3)}))
    for _ in range(3):
        assert model(np.zeros(2, F32)).tolist() == [3.0, 3.0]
    assert model.captured, model.reason


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_is_heddle_s_own(mode, padding):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1, 2, 5, 6)).astype(F32)
    grid = rng.uniform(-1.6, 1.6, size=(1, 40, 3, 2)).astype(F32)
    (y,) = run("GridSample", x, grid, mode=mode, padding_mode=padding)
    wanted = heddle.grid_sample(heddle.array(x), heddle.array(grid), mode, padding)
    np.testing.assert_allclose(y, wanted.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("storage_order", [0, 1])
def test_indices_of_max_pool_are_those_of_the_whole_array(storage_order):
    x = np.random.default_rng(2).permutation(2 * 3 * 5 * 7).reshape(2, 3, 5, 7).astype(F32)
    options = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0], "storage_order": storage_order}
    y, index = run("MaxPool", x, outputs=2, **options)
    flat = x.swapaxes(2, 3).reshape(-1) if storage_order else x.reshape(-1)
    np.testing.assert_array_equal(flat[index], y)


SQUARE = np.arange(6, dtype=F32).reshape(2, 3)
IMAGE = np.ones((1, 1, 2, 2), F32)
DAMAGED = [
    ("Split", np.zeros(4), [np.array([3, 3])], {"outputs": 2}, "want parts whose sum is that"),
    ("Split", np.zeros(4), [np.array([1, 1])], {"outputs": 2}, "want parts whose sum is that"),
    ("Split", np.zeros(4), [np.array([5, -1])], {"outputs": 2}, "want parts whose sum is that"),
    ("Split", np.zeros(4), [], {"outputs": 2, "axis": 3}, "axis 3 of 1 axes; want -1 to 0"),
    ("ScatterElements", np.ones(4), [np.array([9]), np.ones(1, F32)], {"reduction": "mul"}, ""),
    ("ScatterElements", np.ones(4), [np.array([0]), np.ones(1, F32)], {"axis": 3}, "axis 3 of 1 axes"),
    ("GatherND", SQUARE, [np.array([[0, 4]])], {}, ""),
    ("GatherND", SQUARE, [np.array([[-3, 1]])], {}, ""),
    ("ScatterND", SQUARE, [np.array([[0, 4]]), np.ones(1, F32)], {}, ""),
    ("CumSum", SQUARE, [np.array(7)], {}, "axis 7 of 2 axes; want -2 to 1"),
    ("Flatten", SQUARE, [], {"axis": 7}, "axis 7 of 2 axes"),
    ("LayerNormalization", SQUARE, [np.ones(3, F32)], {"axis": 9}, "axis 9 of 2 axes"),
    ("ReduceSum", SQUARE, [np.array([5])], {}, "axis"),
    ("ReduceMax", SQUARE, [np.array([5])], {}, "axis"),
    ("ArgMax", SQUARE, [], {"axis": 5}, "axis 5 of 2 axes"),
    ("Unsqueeze", SQUARE, [np.array([5])], {}, "axis 5 of 3 axes"),
    ("Pad", SQUARE, [np.array([1, 1]), None, np.array([4])], {}, "axis 4 of 2 axes"),
    ("Pad", SQUARE, [np.array([1, 1])], {}, "want 4 numbers"),
    ("Pad", SQUARE, [np.array([1, 1, 1, 1])], {"mode": "mirror"}, "mode 'mirror'; want constant"),
    ("Slice", SQUARE, [np.array([0]), np.array([1]), np.array([8])], {}, "axis 8 of 2 axes"),
    ("Reshape", SQUARE, [np.array([0, 0, 0])], {}, "has a 0 for an axis that x (2, 3) does not have"),
    ("Resize", IMAGE, [None, np.array([1, 1, -1, 2], F32)], {}, "more than 0 and finite"),
    ("Resize", IMAGE, [None, np.array([1, 1, 0, 2], F32)], {}, "more than 0 and finite"),
    ("Resize", IMAGE, [None, np.array([1, 1, np.nan, 2], F32)], {}, "more than 0 and finite"),
    ("Resize", IMAGE, [None, np.array([1, 1, 2], F32)], {}, "want 4 numbers"),
    ("Resize", IMAGE, [None, np.array([1, 1, 2, 2], F32)], {"mode": "best"}, "mode is 'best'; want one of bicubic"),
    ("Resize", IMAGE, [None, np.array([1, 1, 2, 2], F32)], {"nearest_mode": "best"}, "nearest_mode is 'best'"),
    ("GridSample", IMAGE, [np.zeros((1, 1, 1, 2), F32)], {"padding_mode": "none"}, "padding_mode 'none'"),
    ("MaxPool", IMAGE, [], {"kernel_shape": [0, 2]}, "kernel [0, 2]"),
    ("AveragePool", IMAGE, [], {"kernel_shape": [2, 2], "auto_pad": "SOME"}, "auto_pad is 'SOME'"),
]


@pytest.mark.parametrize(("name", "x", "constants", "options", "message"), DAMAGED)
def test_indices_and_sizes_that_are_damaged_are_errors(name, x, constants, options, message):
    with pytest.raises(heddle.Error) as error:
        run(name, x, *constants, **options)
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["Relu", "Shape", "Flatten", "GlobalAveragePool", "Not"])
def test_a_required_input_that_is_left_out_is_an_error(name):
    model = model_of([helper.make_node(name, [""], ["y"])], {"x": [2]}, {"y": None})
    with pytest.raises(heddle.Error, match=name):
        heddle.onnx.load(model)(np.ones(2, F32))


@pytest.mark.parametrize("location", ["x" * 5000, "a\0b", "a/" * 3000])
def test_names_of_external_files_that_no_file_can_have_are_errors(tmp_path, location):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", location
    model = model_of([helper.make_node("Identity", ["w"], ["y"])], {}, {"y": None})
    model.graph.initializer.append(tensor)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(heddle.Error, match="tensor 'w' is in"):
        heddle.onnx.load(tmp_path / "m.onnx")


def test_a_range_of_many_numbers_is_not_folded():
    node = helper.make_node("Range", ["a", "b", "c"], ["y"])
    small, large = (
        model_of([node], {}, {"y": None}, {"a": np.float64(0), "b": np.float64(1), "c": np.float64(step)})
        for step in (0.25, 1e-9)
    )
    assert "nodes   1, 0 after" in heddle.onnx.load(small).summary()
    assert "nodes   1, 1 after" in heddle.onnx.load(large).summary()


def test_scalars_of_numpy_have_their_own_dtype():
    value = helper.make_tensor_value_info("x", TensorProto.DOUBLE, [])
    result = helper.make_tensor_value_info("y", TensorProto.DOUBLE, [])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "edges", [value], [result])
    model = heddle.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    assert model(np.float64(0.1)).item() == -0.1
    with pytest.raises(heddle.InvalidArgument, match="input 'x' is f32"):
        model(np.float32(0.1))


# Files that save writes.


def saved(path, module, *arguments):
    heddle.onnx.save(module, path, *arguments)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    return heddle.onnx.load(path)


FUNCTIONS = {
    "x * 2": lambda x: x * 2,
    "2.5 * x": lambda x: 2.5 * x,
    "x / 3": lambda x: x / 3,
    "2 - x": lambda x: 2 - x,
    "x ** 2": lambda x: x**2,
    "2 ** x": lambda x: 2**x,
    "power": lambda x: heddle.power(x, x),
    "exp": heddle.exp,
    "minimum(x, inf)": lambda x: heddle.minimum(x, float("inf")),
}


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i32", "i64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_saved_in_the_dtype_of_their_input(tmp_path, name, dtype):
    x = heddle.Input((None, 3), dtype=dtype)
    module = heddle.Model([x], [FUNCTIONS[name](x)])
    given = heddle.array([[1, 2, 3], [4, 3, 2]], dtype=dtype)
    y, wanted = saved(tmp_path / "m.onnx", module)(given), module(given)
    assert y.dtype == wanted.dtype
    np.testing.assert_allclose(y.numpy(), wanted.numpy(), rtol=1e-3)


@pytest.mark.parametrize("name", ["y", "x", "relu_1", "matmul_1", "dense_0.weight", "dense_0.bias", "f32 2.0"])
def test_inputs_keep_their_names_whatever_the_weights_are_called(tmp_path, name):
    x = heddle.Input((4, 4), name=name)
    module = heddle.Model([x], [heddle.relu(heddle.Dense(4, 4)(x)) * 2.0])
    model = saved(tmp_path / "m.onnx", module)
    assert [value.name for value in model.inputs] == [name]
    given = heddle.eye(4)
    np.testing.assert_allclose(model(**{name: given}).numpy(), module(given).numpy(), rtol=1e-5, atol=1e-6)


def test_convolutional_nets_are_saved_for_images_of_any_size(tmp_path):
    net = heddle.Sequential(heddle.Conv2d(3, 6, 5), heddle.MaxPool2d(2), heddle.GlobalAvgPool(), heddle.Dense(6, 2))
    net.train(False)
    model = saved(tmp_path / "m.onnx", net, (None, 3, None, None))
    assert model.outputs[0].shape == (None, 2)
    for shape in ((1, 3, 9, 12), (3, 3, 30, 20)):
        x = heddle.uniform(shape)
        np.testing.assert_allclose(model(x).numpy(), net(x).numpy(), rtol=1e-4, atol=1e-5)


def test_what_onnx_finds_invalid_is_an_error_of_heddle(monkeypatch, tmp_path):
    def refuse(*_arguments, **_options):
        raise onnx.checker.ValidationError("no")

    monkeypatch.setattr(onnx.checker, "check_model", refuse)
    with pytest.raises(heddle.Error, match="ONNX has no such model: no"):
        heddle.onnx.save(heddle.Sequential(heddle.Relu()), tmp_path / "m.onnx", (None, 3))
    assert not list(tmp_path.iterdir())


def test_save_keeps_symbolic_links_and_pipes(tmp_path):
    net, link, pipe = heddle.Sequential(heddle.Relu()), tmp_path / "link", tmp_path / "pipe"
    (tmp_path / "folder").mkdir()
    link.symlink_to("folder/m.onnx")
    heddle.onnx.save(net, link, (None, 3))
    assert link.is_symlink()
    data = (tmp_path / "folder" / "m.onnx").read_bytes()
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    heddle.onnx.save(net, pipe, (None, 3))
    assert pipe.is_fifo()
    reader.join()
    assert read == [data]
    with pytest.raises(heddle.Error, match="Is a directory"):
        heddle.onnx.save(net, tmp_path, (None, 3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link", "pipe"]
