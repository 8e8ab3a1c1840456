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


class Writer:
    """The graph of a module, node by node."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.tensors: list[TensorProto] = []
        self.missing: list[str] = []
        self._count = 0

    def node(self, name: str, inputs: Sequence[str], **attributes: Any) -> str:
        self._count += 1
        output = f"{name.lower()}_{self._count}"
        self.nodes.append(helper.make_node(name, list(inputs), [output], output, **attributes))
        return output

    def constant(self, name: str, values: Any) -> str:
        """An initializer; one of this name is there once."""
        if all(tensor.name != name for tensor in self.tensors):
            self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

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
        values, used = list(values), dict.fromkeys(step["module"] for step in model["steps"] if "module" in step)
        children = dict(zip(used, module.children().items(), strict=False))
        for step in model["steps"]:
            if "module" in step and len(step["inputs"]) == 1:
                name, child = children[step["module"]]
                given = values[step["inputs"][0]]
                values.append(self.module(description, step["module"], child, f"{path}{name}.", given))
            elif "operator" in step:
                values.append(self.operator(step["operator"], step["arguments"], values))
            else:
                self.missing.append("a layer with several inputs")
                values.append(values[0])
        return [values[i] for i in model["outputs"]]

    def operator(self, name: str, arguments: Description, values: list[str]) -> str:
        def array(value: Any) -> str:
            if isinstance(value, dict) and "of" in value:
                return values[value["of"]]
            if isinstance(value, (int, float)):
                return self.constant(f"number {float(value)}", np.float32(value))
            self.missing.append(f"operator {name} with {value}")
            return ""

        if name in UNARY:
            return self.node(UNARY[name], [array(arguments["x"])])
        if name in BINARY:
            return self.node(BINARY[name], [array(arguments["a"]), array(arguments["b"])])
        if name in ("softmax", "log_softmax"):
            onnx_name = "Softmax" if name == "softmax" else "LogSoftmax"
            return self.node(onnx_name, [array(arguments["x"])], axis=arguments.get("axis", -1))
        if name == "concat" and "list" in arguments["arrays"]:
            parts = [values[i] for i in arguments["arrays"]["list"]]
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
        weights = {one.name: one.value.numpy() for one in module.state()}
        y = LAYERS[name](self, Layer(path, options, weights), x)
        return self.node("Relu", [y]) if options.get("relu") else y


def children_of(module: heddle.Module, wanted: list[int]) -> list[tuple[str, heddle.Module]]:
    children = list(module.children().items())
    if len(children) != len(wanted):
        raise heddle.Error("save: the layers of a Sequential have changed while it was written")
    return children


class Layer:
    """A layer's place, its options, and its weights by their names."""

    def __init__(self, path: str, options: Description, weights: dict[str, np.ndarray[Any, Any]]) -> None:
        self.path, self.options, self.weights = path, options, weights

    def weight(self, writer: Writer, name: str, size: int | None = None, default: float = 0.0) -> str:
        """The name of a weight; for one that the layer leaves out and that has a size, of so many times the default."""
        if name in self.weights:
            return writer.constant(self.path + name, self.weights[name])
        return "" if size is None else writer.constant(f"{self.path}{name}", np.full(size, default, np.float32))


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
    return writer.node("Clip", [x, *(writer.constant(f"number {n}", np.float32(n)) for n in (0.0, 6.0))])


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


def model_of(module: heddle.Module, shape: Sequence[int | None] | None, dtype: Any) -> ModelProto:
    description, writer = description_of(module), Writer()
    root = description["modules"][description["root"]]
    numbers = {heddle_dtype.name: number for number, heddle_dtype in DTYPES.items()}
    if "model" in root:
        inputs = [(one["name"], numbers[one["dtype"]], one["shape"]) for one in root["model"]["inputs"]]
        outputs = writer.steps(description, root["model"], module, "", [name for name, _, _ in inputs])
    else:
        if shape is None:
            raise heddle.InvalidArgument("save: shape is None; want that of an input, with None for sizes that vary")
        inputs = [("x", numbers[dtype_name(dtype)], list(shape))]
        outputs = [writer.module(description, description["root"], module, "", "x")]
    if writer.missing:
        what = sorted(set(writer.missing))
        raise Missing(*what, message=f"heddle.onnx.save: cannot write {', '.join(what)}")
    names = ["y"] if len(outputs) == 1 else [f"y{i}" for i in range(len(outputs))]
    for name, value in zip(names, outputs, strict=True):
        writer.nodes.append(helper.make_node("Identity", [value], [name], name))
    given = [helper.make_tensor_value_info(name, number, named(sizes)) for name, number, sizes in inputs]
    symbols = [heddle.Input(tuple(sizes), dtype=DTYPES[number]) for _, number, sizes in inputs]
    computed = module(*symbols)
    results = [
        helper.make_tensor_value_info(name, numbers[symbol.dtype.name], [None if n < 0 else n for n in symbol.shape])
        for name, symbol in zip(names, computed if isinstance(computed, tuple) else (computed,), strict=True)
    ]
    graph = helper.make_graph(writer.nodes, "heddle", given, results, writer.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="heddle")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model)
    return model


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
    part = whole.with_name(f"{whole.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(whole)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise heddle.Error(f"heddle.onnx.save: {whole}: {error.strerror or error}") from error
