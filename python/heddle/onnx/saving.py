"""Writes modules as ONNX files: layers and elementwise operators, as they compute in inference."""

import json
import os
import pathlib
import struct
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import heddle
from heddle.onnx.table import DTYPES, Missing

OPSET = 23
IR_VERSION = 10
Description = dict[str, Any]

# heddle's operators and layers that are one operator of ONNX with one input and no attributes.
SAME_LAYERS = {
    **{name: name for name in ("Relu", "Tanh", "Sigmoid", "Gelu", "Mish", "Selu", "Softsign", "Softplus", "HardSwish")},
    **dict.fromkeys(("Identity", "Dropout", "ChannelDropout", "Dropout1d", "Dropout2d", "Dropout3d"), "Identity"),
    **dict.fromkeys(("AlphaDropout", "FeatureAlphaDropout", "GaussianDropout", "GaussianNoise"), "Identity"),
}
UNARY = {
    **{name: name.capitalize() for name in ("abs", "exp", "log", "sqrt", "tanh", "sigmoid", "relu", "gelu", "mish")},
    **{name: name.capitalize() for name in ("selu", "softsign", "sin", "cos", "erf", "floor", "ceil", "reciprocal")},
    "negative": "Neg",
    "hard_swish": "HardSwish",
}
BINARY = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "power": "Pow", "matmul": "MatMul"}
BINARY |= {"maximum": "Max", "minimum": "Min"}
RESULTS = {"Rnn": 2, "Gru": 2, "Lstm": 3}  # of layers that have several: the output and the last states
UNWRITTEN = ""  # in place of a value that has no name in the graph
OPERANDS = {"power": ("base", "exponent")}  # the arguments' names; a and b of the others
NUMBERS = {dtype.name: number for number, dtype in DTYPES.items()}
# Sizes that stand for those that vary, where one element is too few for a module's windows.
STAND_INS = ((2, 3), (16, 24), (64, 96), (256, 320))


def number_of(value: Any) -> Any:
    """A number that a description has; what is none as it is."""
    return float(value["float"]) if isinstance(value, dict) and "float" in value else value  # inf, -inf or nan


class Writer:
    """The graph of a module, node by node."""

    def __init__(self, inputs: dict[str, heddle.DType]) -> None:
        self.nodes: list[NodeProto] = []
        self.tensors: list[TensorProto] = []
        self.missing: list[str] = []
        self.dtypes = dict(inputs)  # of all values
        self._constants: dict[str, str] = {}  # what a constant is, and its name
        self._count = 0

    def free_name(self, wanted: str) -> str:
        """The name, changed if another value has it, such as an input that the caller has named."""
        while wanted in self.dtypes:
            wanted += "_"
        return wanted

    def node(self, name: str, inputs: Sequence[str], place: int = 0, **attributes: Any) -> str:
        """A node whose result, the output at this place, has the dtype of its first input."""
        self._count += 1
        output = self.free_name(f"{name.lower()}_{self._count}")
        self.nodes.append(helper.make_node(name, list(inputs), [*[""] * place, output], output, **attributes))
        self.dtypes[output] = self.dtypes[inputs[0]]
        return output

    def constant(self, what: str, values: Any) -> str:
        """An initializer; `what` is there once."""
        if what not in self._constants:
            name = self._constants[what] = self.free_name(what)
            self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(values).reshape(np.shape(values)), name))
            self.dtypes[name] = DTYPES[self.tensors[-1].data_type]
        return self._constants[what]

    def number(self, value: float, dtype: heddle.DType) -> str:
        return self.constant(f"{dtype.name} {value}", heddle.array(value, dtype=dtype, device="cpu").numpy())

    def cast(self, x: str, dtype: heddle.DType) -> str:
        if self.dtypes[x] == dtype:
            return x
        y = self.node("Cast", [x], to=NUMBERS[dtype.name])
        self.dtypes[y] = dtype
        return y

    def elementwise(self, name: str, onnx_name: str, operands: Sequence[str | float]) -> str:
        """An operator of arrays and numbers, all of which ONNX wants in the dtype that heddle computes in."""
        samples = [heddle.ones((1, 1), self.dtypes[x]) if isinstance(x, str) else x for x in operands]
        dtype = getattr(heddle, name)(*samples).dtype
        inputs = [self.cast(x, dtype) if isinstance(x, str) else self.number(x, dtype) for x in operands]
        return self.node(onnx_name, inputs)

    def module(self, description: Description, index: int, module: heddle.Module, path: str, x: str) -> str:
        entry = description["modules"][index]
        if "sequential" in entry:
            for (name, child), one in zip(children_of(module, entry["sequential"]), entry["sequential"], strict=True):
                x = self.module(description, one, child, f"{path}{name}.", x)
            return x
        if "model" in entry:
            return self.steps(description, entry["model"], module, path, [x])[0]
        return self.layer(entry.get("layer", "a class of its own"), entry.get("arguments", {}), module, path, x)

    def steps(
        self, description: Description, model: Description, module: heddle.Module, path: str, values: list[str]
    ) -> list[str]:
        """The outputs of a Model, whose steps are layers and operators."""
        values = list(values)
        used = dict.fromkeys(step["module"] for step in model["steps"] if "module" in step)
        children = dict(zip(used, module.children().items(), strict=False))
        for step in model["steps"]:
            if "operator" in step:
                values.append(self.operator(step["operator"], step["arguments"], values))
            else:
                name, child = children[step["module"]]
                values += self.call(description, step, child, f"{path}{name}.", values)
        return [self.written(values, i) for i in model["outputs"]]

    def call(
        self, description: Description, step: Description, child: heddle.Module, path: str, values: list[str]
    ) -> list[str]:
        """All results of a step that is a module."""
        entry = description["modules"][step["module"]]
        given = [self.written(values, i) for i in step["inputs"] if i is not None]
        if "model" in entry and len(given) == len(entry["model"]["inputs"]):
            return self.steps(description, entry["model"], child, path, given)
        if len(given) == 1 and step["inputs"][0] is not None:
            results = [self.module(description, step["module"], child, path, given[0])]
        else:
            self.missing.append("a layer with several inputs")
            results = given[:1]
        return results + [UNWRITTEN] * (results_of(description, step["module"]) - 1)

    def written(self, values: list[str], index: int) -> str:
        """The name of a value that is used; of another one if it has none."""
        if index >= len(values):  # behind an operator of several results, which is among the missing ones
            return values[0]
        if values[index] == UNWRITTEN:
            self.missing.append("the use of a recurrent layer's last state")
            return values[0]
        return values[index]

    def operator(self, name: str, arguments: Description, values: list[str]) -> str:
        def array(value: Any) -> str:
            if isinstance(value, dict) and "of" in value:
                return self.written(values, value["of"])
            self.missing.append(f"operator {name} with {value}")
            return values[0]

        if name in UNARY:
            return self.elementwise(name, UNARY[name], [array(arguments["x"])])
        if name in BINARY:
            given = [number_of(arguments[key]) for key in OPERANDS.get(name, ("a", "b"))]
            operands = [x if isinstance(x, (int, float)) else array(x) for x in given]
            return self.elementwise(name, BINARY[name], operands)
        if name in ("softmax", "log_softmax"):
            onnx_name = "Softmax" if name == "softmax" else "LogSoftmax"
            return self.node(onnx_name, [array(arguments["x"])], axis=arguments.get("axis", -1))
        if name == "concat" and "list" in arguments["arrays"]:
            parts = [self.written(values, i) for i in arguments["arrays"]["list"]]
            return self.node("Concat", parts, axis=arguments.get("axis", 0))
        if name == "reshape":
            shape = np.array(arguments["shape"]["integers"], np.int64)
            return self.node("Reshape", [array(arguments["x"]), self.constant(f"shape {shape.tolist()}", shape)])
        self.missing.append(f"operator {name}")
        return values[0]

    def layer(self, name: str, arguments: Description, module: heddle.Module, path: str, x: str) -> str:
        if name in SAME_LAYERS:
            return self.node(SAME_LAYERS[name], [x])
        if name not in LAYERS:
            self.missing.append(f"layer {name}")
            return x
        options = {key: value.get("integers") if isinstance(value, dict) else value for key, value in arguments.items()}
        weights = {one.name: one.value.detach().to("cpu").numpy() for one in module.state()}
        y = LAYERS[name](self, Layer(path, options, weights, self.dtypes[x]), x)
        return self.node("Relu", [y]) if options.get("relu") else y


def results_of(description: Description, index: int) -> int:
    """How many results a module of a description has."""
    entry = description["modules"][index]
    if "model" in entry:
        return len(entry["model"]["outputs"])
    return RESULTS.get(entry.get("layer", ""), 1)


def children_of(module: heddle.Module, wanted: list[int]) -> list[tuple[str, heddle.Module]]:
    children = list(module.children().items())
    if len(children) != len(wanted):
        raise heddle.Error("save: the layers of a Sequential have changed while it was written")
    return children


class Layer:
    """A layer's place, its options, its weights by their names, and its input's dtype."""

    def __init__(
        self, path: str, options: Description, weights: dict[str, np.ndarray[Any, Any]], dtype: heddle.DType
    ) -> None:
        self.path, self.options, self.weights, self.dtype = path, options, weights, dtype

    def weight(self, writer: Writer, name: str, size: int | None = None, default: float = 0.0) -> str:
        """The name of a weight; for one that the layer leaves out and that has a size, of so many times the default."""
        if name in self.weights:
            return writer.constant(self.path + name, self.weights[name])
        if size is None:
            return ""
        return writer.constant(self.path + name, heddle.full([size], default, dtype=self.dtype, device="cpu").numpy())


LAYERS: dict[str, Callable[[Writer, Layer, str], str]] = {}


def layers(*names: str) -> Callable[[Callable[[Writer, Layer, str], str]], Callable[[Writer, Layer, str], str]]:
    def enter(function: Callable[[Writer, Layer, str], str]) -> Callable[[Writer, Layer, str], str]:
        LAYERS.update(dict.fromkeys(names, function))
        return function

    return enter


@layers("Dense")
def dense(writer: Writer, layer: Layer, x: str) -> str:
    weight = writer.constant(f"{layer.path}weight", layer.weights["weight"].T)  # (in, out), as MatMul wants it
    y = writer.node("MatMul", [x, weight])
    return writer.node("Add", [y, layer.weight(writer, "bias")]) if "bias" in layer.weights else y


def window(layer: Layer, kernel: Sequence[int]) -> dict[str, Any]:
    """The attributes of ONNX for windows."""
    options, padding = layer.options, layer.options["padding"]
    dilations = options.get("dilation", [1] * len(kernel))
    if padding in ("same", "valid"):
        whole = [(k - 1) * d if padding == "same" else 0 for k, d in zip(kernel, dilations, strict=True)]
        pads = [n // 2 for n in whole] + [n - n // 2 for n in whole]
    else:
        pads = list(padding) * 2
    strides = [stride or k for stride, k in zip(options["stride"], kernel, strict=True)]
    return {"kernel_shape": list(kernel), "strides": strides, "pads": pads} | (
        {"dilations": list(dilations)} if "dilation" in options else {}
    )


@layers("Conv1d", "Conv2d", "Conv3d")
def convolution(writer: Writer, layer: Layer, x: str) -> str:
    weight, bias = layer.weight(writer, "weight"), layer.weight(writer, "bias")
    inputs = [name for name in (x, weight, bias) if name]
    return writer.node("Conv", inputs, group=layer.options["groups"], **window(layer, layer.options["kernel"]))


@layers("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
def transposed(writer: Writer, layer: Layer, x: str) -> str:
    options = layer.options
    inputs = [name for name in (x, layer.weight(writer, "weight"), layer.weight(writer, "bias")) if name]
    attributes = window(layer, options["kernel"]) | {"output_padding": options["output_padding"]}
    return writer.node("ConvTranspose", inputs, group=options["groups"], **attributes)


@layers("MaxPool1d", "MaxPool2d", "MaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d")
def pooling(writer: Writer, layer: Layer, x: str) -> str:
    attributes = window(layer, layer.options["kernel"]) | {"ceil_mode": int(layer.options["ceil_mode"])}
    if "count_include_pad" not in layer.options:
        return writer.node("MaxPool", [x], **attributes)
    return writer.node("AveragePool", [x], count_include_pad=int(layer.options["count_include_pad"]), **attributes)


@layers("AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d")
def adaptive_average(writer: Writer, layer: Layer, x: str) -> str:
    if set(layer.options["output_size"]) != {1}:
        writer.missing.append(f"adaptive pooling to {layer.options['output_size']}")
    return writer.node("GlobalAveragePool", [x])


@layers("AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d")
def adaptive_max(writer: Writer, layer: Layer, x: str) -> str:
    if set(layer.options["output_size"]) != {1}:
        writer.missing.append(f"adaptive pooling to {layer.options['output_size']}")
    return writer.node("GlobalMaxPool", [x])


@layers("GlobalAvgPool")
def global_average(writer: Writer, layer: Layer, x: str) -> str:
    return writer.node("Flatten", [writer.node("GlobalAveragePool", [x])])


@layers("GlobalMaxPool")
def global_max(writer: Writer, layer: Layer, x: str) -> str:
    return writer.node("Flatten", [writer.node("GlobalMaxPool", [x])])


@layers("Flatten")
def flatten(writer: Writer, layer: Layer, x: str) -> str:
    return writer.node("Flatten", [x])


@layers("Embedding")
def embedding(writer: Writer, layer: Layer, x: str) -> str:
    return writer.node("Gather", [layer.weight(writer, "weight"), x])


@layers("BatchNorm")
def batch_norm(writer: Writer, layer: Layer, x: str) -> str:
    size = layer.options["channels"]
    names = [("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)]
    given = [layer.weight(writer, name, size, default) for name, default in names]
    return writer.node("BatchNormalization", [x, *given], epsilon=layer.options["epsilon"])


@layers("InstanceNorm", "GroupNorm")
def group_norm(writer: Writer, layer: Layer, x: str) -> str:
    size, options = layer.options["channels"], {"epsilon": layer.options["epsilon"]}
    given = [x, layer.weight(writer, "weight", size, 1.0), layer.weight(writer, "bias", size)]
    if "groups" not in layer.options:
        return writer.node("InstanceNormalization", given, **options)
    return writer.node("GroupNormalization", given, num_groups=layer.options["groups"], **options)


@layers("LayerNorm")
def layer_norm(writer: Writer, layer: Layer, x: str) -> str:
    weight = layer.weight(writer, "weight", layer.options["features"], 1.0)
    inputs = [name for name in (x, weight, layer.weight(writer, "bias")) if name]
    return writer.node("LayerNormalization", inputs, epsilon=layer.options["epsilon"])


@layers("RmsNorm")
def rms_norm(writer: Writer, layer: Layer, x: str) -> str:
    return writer.node("RMSNormalization", [x, layer.weight(writer, "weight")], epsilon=layer.options["epsilon"])


def in_order(order: Sequence[int], weight: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The blocks of a weight's rows, one a gate, in ONNX's order."""
    parts = np.split(weight, len(order))
    return np.concatenate([parts[i] for i in order])


@layers("Rnn", "Lstm", "Gru")
def recurrent(writer: Writer, layer: Layer, x: str) -> str:
    options, weights = layer.options, layer.weights
    kind = "LSTM" if "peepholes" in options else "GRU" if "reset_after" in options else "RNN"
    order = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}[kind]
    directions = ["", "_reverse"] if options["bidirectional"] else [""]
    attributes: Description = {"hidden_size": options["hidden_size"]}
    attributes |= {"direction": "bidirectional" if options["bidirectional"] else "forward"}
    if options.pop("relu", False):  # inside the layer, not behind it
        attributes["activations"] = ["Relu"] * len(directions)
    if kind == "GRU":
        attributes["linear_before_reset"] = int(options["reset_after"])
    if options.get("proj_size"):
        writer.missing.append("layer Lstm with proj_size")

    def joined(i: int, kinds: Sequence[str], gates: Sequence[int]) -> str:
        names = [[f"{one}_l{i}{direction}" for one in kinds] for direction in directions]
        if names[0][0] not in weights:
            return ""
        whole = np.stack([np.concatenate([in_order(gates, weights[n]) for n in one]) for one in names])
        return writer.constant(f"{layer.path}{names[0][0]}", whole)

    def shaped(y: str, shape: list[int]) -> str:
        return writer.node("Reshape", [y, writer.constant(f"shape {shape}", np.array(shape))])

    width = len(directions) * options["hidden_size"]
    y = writer.node("Transpose", [x], perm=[1, 0, 2]) if options["batch_first"] else x
    for i in range(options["layers"]):
        last = i + 1 == options["layers"]
        biases, peepholes = joined(i, ("bias_ih", "bias_hh"), order), joined(i, ("weight_peepholes",), (0, 2, 1))
        inputs = [y, joined(i, ("weight_ih",), order), joined(i, ("weight_hh",), order), biases]
        inputs += ["", "", "", peepholes] if peepholes else []
        if last and options["last_only"]:
            h = writer.node(kind, inputs, place=1, **attributes)  # (directions, batch, hidden)
            y = writer.node("Transpose", [h], perm=[1, 0, 2])
            return shaped(y, [0, width])
        y = writer.node(kind, inputs, **attributes)  # (steps, directions, batch, hidden)
        y = writer.node("Transpose", [y], perm=[2, 0, 1, 3] if last and options["batch_first"] else [0, 2, 1, 3])
        y = shaped(y, [0, 0, width])
    return y


@layers("GeluTanh")
def gelu_tanh(writer: Writer, layer: Layer, x: str) -> str:
    return writer.node("Gelu", [x], approximate="tanh")


@layers("Silu")
def silu(writer: Writer, layer: Layer, x: str) -> str:
    return writer.node("Mul", [x, writer.node("Sigmoid", [x])])


@layers("LeakyRelu")
def leaky_relu(writer: Writer, layer: Layer, x: str) -> str:
    return writer.node("LeakyRelu", [x], alpha=layer.options["slope"])


@layers("Elu")
def elu(writer: Writer, layer: Layer, x: str) -> str:
    return writer.node("Elu", [x], alpha=layer.options["alpha"])


@layers("Celu")
def celu(writer: Writer, layer: Layer, x: str) -> str:
    return writer.node("Celu", [x], alpha=layer.options["alpha"])


@layers("HardSigmoid")
def hard_sigmoid(writer: Writer, layer: Layer, x: str) -> str:
    return writer.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5)


@layers("Relu6")
def relu6(writer: Writer, layer: Layer, x: str) -> str:
    return writer.node("Clip", [x, *(writer.number(n, layer.dtype) for n in (0.0, 6.0))])


def description_of(module: heddle.Module) -> Description:
    """What save_model writes of a module besides its arrays."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "module"
        try:
            heddle.save_model(path, module)
        except heddle.Error as error:
            raise Missing(str(error), message=f"heddle.onnx.save: {str(error).removeprefix('save_model: ')}") from error
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
    description: Description = json.loads(header["__metadata__"]["heddle.model"])
    return description


def result_symbols(
    module: heddle.Module, inputs: Sequence[tuple[str, int, Sequence[int | None]]]
) -> list[tuple[heddle.DType, list[int | None]]]:
    """The dtypes and shapes of the module's results, with None for sizes that vary."""

    def computed(batch: int, size: int) -> list[Any]:
        symbols = []
        for _, number, sizes in inputs:
            shape = [(size if axis else batch) if n is None else n for axis, n in enumerate(sizes)]
            symbols.append(heddle.Input(tuple(shape), dtype=DTYPES[number]))
        results = module(*symbols)
        return list(results) if isinstance(results, tuple) else [results]

    vary = any(None in sizes[1:] for _, _, sizes in inputs)
    for small, large in STAND_INS if vary else STAND_INS[-1:]:
        try:
            pairs = list(zip(computed(2, small), computed(3, large), strict=True))
        except heddle.Error:
            if (small, large) == STAND_INS[-1]:
                raise
            continue
        break
    return [(a.dtype, [n if n == m else None for n, m in zip(a.shape, b.shape, strict=True)]) for a, b in pairs]


def checked(model: ModelProto) -> ModelProto:
    """The model. Raises Error if ONNX's own check finds it invalid."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise heddle.Error(f"heddle.onnx.save: ONNX has no such model: {error}") from error
    return model


def model_of(module: heddle.Module, shape: Sequence[int | None] | None, dtype: Any) -> ModelProto:
    description = description_of(module)
    root = description["modules"][description["root"]]
    if "model" in root:
        inputs = [(one["name"], NUMBERS[one["dtype"]], one["shape"]) for one in root["model"]["inputs"]]
    elif shape is None:
        raise heddle.InvalidArgument("save: shape is None; want that of an input, with None for sizes that vary")
    else:
        inputs = [("x", NUMBERS[dtype_name(dtype)], list(shape))]
    names = [name for name, _, _ in inputs]
    if len(set(names)) < len(names) or "" in names:
        raise heddle.InvalidArgument(f"save: the inputs' names are {names}; want one of its own for each")
    writer = Writer({name: DTYPES[number] for name, number, _ in inputs})
    if "model" in root:
        outputs = writer.steps(description, root["model"], module, "", names)
    else:
        outputs = [writer.module(description, description["root"], module, "", "x")]
    if writer.missing:
        what = sorted(set(writer.missing))
        raise Missing(*what, message=f"heddle.onnx.save: cannot write {', '.join(what)}")
    results = []
    symbols = result_symbols(module, inputs)
    for i, (value, (result_dtype, sizes)) in enumerate(zip(outputs, symbols, strict=True)):
        name = writer.free_name("y" if len(outputs) == 1 else f"y{i}")
        writer.nodes.append(helper.make_node("Identity", [value], [name], name))
        results.append(helper.make_tensor_value_info(name, NUMBERS[result_dtype.name], sizes))
    given = [helper.make_tensor_value_info(name, number, named(sizes)) for name, number, sizes in inputs]
    graph = helper.make_graph(writer.nodes, "heddle", given, results, writer.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="heddle")
    model.ir_version = IR_VERSION
    return checked(model)


def dtype_name(dtype: Any) -> str:
    return heddle.empty((), dtype).dtype.name


def named(sizes: Sequence[int | None]) -> list[int | str]:
    return [(f"n{i}" if i else "batch") if size is None else size for i, size in enumerate(sizes)]


def save(
    module: heddle.Module, path: str | os.PathLike[str], shape: Sequence[int | None] | None = None, dtype: Any = "f32"
) -> None:
    """Writes a module as an ONNX file, as it computes in inference. A Sequential takes an input of this shape and dtype,
    where None is a size that varies; a Model knows its inputs.

    Raises Missing, which lists what ONNX does not have or this does not write, and then leaves the file as it was.
    """
    if not isinstance(module, heddle.Module):
        raise TypeError(f"save: module is a {type(module).__name__}; want a Module")
    data = model_of(module, shape, dtype).SerializeToString()
    whole = pathlib.Path(os.fsdecode(path))
    try:
        write(whole, data)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise heddle.Error(f"heddle.onnx.save: {whole}: {getattr(error, 'strerror', None) or error}") from error


def write(path: pathlib.Path, data: bytes) -> None:
    """Replaces the file as a whole; of a symbolic link that which it points to. A device or a pipe is written to."""
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    whole = path.resolve()
    part = whole.with_name(f"{whole.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(whole)
    finally:
        part.unlink(missing_ok=True)
