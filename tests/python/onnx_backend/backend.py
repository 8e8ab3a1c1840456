"""The backend: runs an ONNX model with heddle's operators."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto, numpy_helper
from onnx.backend.base import Backend, BackendRep

import heddle

from . import (  # noqa: F401 (they fill the table)
    control,
    detection,
    elementwise,
    indexing,
    quantization,
    random_numbers,
    recurrent,
    reductions,
    resizing,
    sampling,
    shapes,
    text,
    training,
    transposed,
    windows,
)
from .definitions import full_name, graphs_of, inlined, opset
from .table import DTYPES, TABLE, Missing, dtype_name


def type_missing(type_: TypeProto) -> str | None:
    kind = type_.WhichOneof("value")
    if kind == "tensor_type":
        number = type_.tensor_type.elem_type
        return None if number in DTYPES else f"dtype {dtype_name(number)}"
    return f"type {kind.removesuffix('_type')}" if kind else None


def attribute_missing(attribute: AttributeProto) -> str | None:
    number = None
    if attribute.type == AttributeProto.TENSOR:
        number = attribute.t.data_type
    elif attribute.name in ("to", "dtype"):
        number = attribute.i
    return None if not number or number in DTYPES else f"dtype {dtype_name(number)}"


def node_missing(node: NodeProto, model: ModelProto) -> Iterator[str | None]:
    name = full_name(node)
    if name not in TABLE:
        yield f"operator {name}"
    elif opset(model, node.domain) < TABLE[name].since:
        yield f"operator {name} before opset {TABLE[name].since}"
    yield from map(attribute_missing, node.attribute)


def missing(model: ModelProto) -> list[str]:
    """Operators and dtypes that the model needs and the backend lacks, as far as that shows without running it."""
    return missing_of_inlined(inlined(model))


def missing_of_inlined(model: ModelProto) -> list[str]:
    found = set()
    for graph in graphs_of(model.graph):
        found |= {type_missing(value.type) for value in (*graph.input, *graph.output, *graph.value_info)}
        found |= {f"dtype {dtype_name(t.data_type)}" for t in graph.initializer if t.data_type not in DTYPES}
        found |= {what for node in graph.node for what in node_missing(node, model)}
    return sorted(what for what in found if what)


def attribute_value(attribute: AttributeProto, outer: dict[str, heddle.NDArray]) -> Any:
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.type == AttributeProto.GRAPH:  # the subgraph sees the values of the outer graph
        return lambda *inputs: run_graph(value, inputs, outer | initial(value))
    if attribute.type == AttributeProto.STRINGS:
        return [text.decode() for text in value]
    return value.decode() if isinstance(value, bytes) else value


def initial(graph: GraphProto) -> dict[str, heddle.NDArray]:
    return {tensor.name: heddle.array(numpy_helper.to_array(tensor)) for tensor in graph.initializer}


def run_graph(
    graph: GraphProto, inputs: Sequence[heddle.NDArray | None], values: dict[str, heddle.NDArray | None]
) -> list[heddle.NDArray]:
    """Pushes the ops of all nodes. `values` has the initial values by name; the computed ones are added to it."""
    initialized = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in initialized]
    if len(inputs) != len(names):
        raise ValueError(f"{len(inputs)} inputs; wanted: {len(names)}: {', '.join(names)}")
    values.update(zip(names, inputs, strict=True))
    for node in graph.node:
        attributes = {attribute.name: attribute_value(attribute, values) for attribute in node.attribute}
        arrays = [values[name] if name else None for name in node.input]
        results = TABLE[full_name(node)](arrays, attributes, len(node.output))
        values.update(zip(node.output, results, strict=True))
    return [values[output.name] for output in graph.output]


class HeddleModel(BackendRep):
    """A model that is ready to run. Raises Missing if it needs an operator or a dtype that the backend lacks."""

    def __init__(self, model: ModelProto) -> None:
        model = inlined(model)
        if what := missing_of_inlined(model):
            raise Missing(*what)
        self._graph = model.graph
        self._initial = initial(self._graph)

    def run(self, inputs: Sequence[Any], **_: Any) -> tuple[np.ndarray, ...]:
        """Runs the model, and waits for its outputs. Inputs may be arrays of NumPy or of heddle."""
        outputs = run_graph(self._graph, [heddle.asarray(x) for x in inputs], dict(self._initial))
        return tuple(output.numpy() for output in outputs)


class HeddleBackend(Backend):
    """ONNX's interface of backends."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **_: Any) -> bool:
        return cls.supports_device(device) and not missing(model)

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> HeddleModel:
        super().prepare(model, device, **kwargs)  # checks the model
        if not cls.supports_device(device):
            raise Missing(f"device {device}")
        return HeddleModel(model)

    @classmethod
    def run_node(
        cls, node: NodeProto, inputs: Sequence[Any], device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[np.ndarray, ...]:
        """Runs one operator of the opset `opset_version`, by default of onnx's latest."""
        super().run_node(node, inputs, device, outputs_info, **kwargs)  # checks the node
        arrays = [np.asarray(x) for x in inputs]
        types = [onnx.helper.np_dtype_to_tensor_dtype(x.dtype) for x in arrays]
        names = [name for name in node.input if name]
        given = [
            onnx.helper.make_tensor_value_info(*of) for of in zip(names, types, map(np.shape, arrays), strict=True)
        ]
        results = [onnx.helper.make_value_info(name, TypeProto()) for name in node.output if name]
        imports = [onnx.helper.make_opsetid(node.domain, kwargs.get("opset_version", onnx.defs.onnx_opset_version()))]
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "node", given, results), opset_imports=imports)
        return HeddleModel(model).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"
