"""Makes code that is ready to run of a model's graph, and finds all that a model needs and heddle lacks."""

import collections
from collections.abc import Iterator
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TypeProto

import heddle.onnx.operators  # noqa: F401 (fills the table)
from heddle import NDArray
from heddle.onnx.definitions import (
    DEFINITIONS,
    full_name,
    graphs_of,
    has_entry,
    known_types,
    opset,
    plain,
    plain_attributes,
)
from heddle.onnx.reading import File, array_of, to_heddle, weights_of
from heddle.onnx.running import Code, Node
from heddle.onnx.table import DTYPES, TABLE, Missing, dtype_name

# Defaults of attributes in opsets before one.
OLD_DEFAULTS: dict[str, tuple[int, dict[str, Any]]] = {
    name: (13, {"axis": 1}) for name in ("Softmax", "LogSoftmax", "Hardmax")
}
Problem = tuple[str, str]  # what is missing, and where
MOST_NAMES = 3  # nodes that a message names for one thing that is missing


def name_of(node: NodeProto, place: int) -> str:
    """The node's name; without one, what it computes."""
    return node.name or next(filter(None, node.output), f"{place}")


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
    elif attribute.type in (AttributeProto.SPARSE_TENSOR, AttributeProto.TENSORS, AttributeProto.GRAPHS):
        return f"attribute {attribute.name} of type {AttributeProto.AttributeType.Name(attribute.type).lower()}"
    elif attribute.name in ("to", "dtype", "output_dtype"):
        number = attribute.i
    return None if not number or number in DTYPES else f"dtype {dtype_name(number)}"


def node_missing(node: NodeProto, model: ModelProto) -> Iterator[str | None]:
    name, version = full_name(node), opset(model, node.domain)
    entry = TABLE.get(name)
    if entry is None:
        yield f"operator {name}"
        return
    if version < entry.since:
        yield f"operator {name} before opset {entry.since}"
    elif not has_entry(node, version):
        yield f"operator {name} with these attributes"
    yield from map(attribute_missing, node.attribute)
    given = plain_attributes(node) | {attribute.name: None for attribute in node.attribute if is_heavy(attribute)}
    yield from entry.missing(given)
    least, most = entry.inputs
    count = len(node.input)
    if not least <= count <= most:
        yield f"{name} with {count} inputs"


def is_heavy(attribute: AttributeProto) -> bool:
    return attribute.type in (AttributeProto.GRAPH, AttributeProto.TENSOR)


def problems(model: ModelProto) -> Iterator[Problem]:
    """All that a model without functions needs and heddle lacks, as far as that shows without running it."""
    for graph in graphs_of(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if what := type_missing(value.type):
                yield what, f"value '{value.name}'"
        for tensor in graph.initializer:
            if tensor.data_type not in DTYPES:
                yield f"dtype {dtype_name(tensor.data_type)}", f"initializer '{tensor.name}'"
        for sparse in graph.sparse_initializer:
            yield "sparse tensors", f"initializer '{sparse.values.name}'"
        for i, node in enumerate(graph.node):
            for lacking in node_missing(node, model):
                if lacking:
                    yield lacking, f"node '{name_of(node, i)}'"


def missing_of(model: ModelProto) -> list[str]:
    """What problems() has found, each thing once."""
    return sorted({what for what, _ in problems(model)})


def check_supported(model: ModelProto, file: File) -> None:
    """Raises Missing with everything that heddle lacks for the model, and where the model has it."""
    places = collections.defaultdict(list)
    for what, where in problems(model):
        places[what].append(where)
    if not places:
        return
    lines = []
    for what, wheres in sorted(places.items()):
        distinct = list(dict.fromkeys(wheres))
        rest = len(distinct) - MOST_NAMES
        lines.append(f"{what}: {', '.join(distinct[:MOST_NAMES])}{f' and {rest} more' if rest > 0 else ''}")
    message = f"heddle.onnx.load: {file.name} needs what heddle does not have:\n  " + "\n  ".join(lines)
    raise Missing(*sorted(places), message=message)


def attribute_value(attribute: AttributeProto, model: ModelProto, file: File) -> Any:
    if attribute.type == AttributeProto.GRAPH:
        return code_of(attribute.g, model, file)
    if attribute.type == AttributeProto.TENSOR:
        return array_of(attribute.t, file)
    return plain(onnx.helper.get_attribute_value(attribute))


def cast_likes(model: ModelProto) -> None:
    """Makes Cast of CastLike where the dtype is known, so that constants which it converts stay constants."""
    nodes = [node for graph in graphs_of(model.graph) for node in graph.node if full_name(node) == "CastLike"]
    types = known_types(model) if nodes else {}
    for node in nodes:
        type_ = types.get(node.input[1]) if len(node.input) == 2 else None
        if type_ is not None and type_.tensor_type.elem_type in DTYPES:
            del node.input[1:]
            node.op_type = "Cast"
            node.attribute.append(onnx.helper.make_attribute("to", type_.tensor_type.elem_type))


def code_of(graph: GraphProto, model: ModelProto, file: File) -> Code:
    """The graph as code. Its constants are arrays of heddle."""
    constants: dict[str, NDArray] = weights_of(graph, file)
    nodes = []
    for i, node in enumerate(graph.node):
        attributes = {one.name: attribute_value(one, model, file) for one in node.attribute}
        entry, version = TABLE[full_name(node)], opset(model, node.domain)
        if entry.name in OLD_DEFAULTS and version < OLD_DEFAULTS[entry.name][0]:
            attributes = OLD_DEFAULTS[entry.name][1] | attributes
        if node.domain == DEFINITIONS:
            raise file.error(f"node '{name_of(node, i)}' has the domain '{DEFINITIONS}', which is heddle's own")
        nodes.append(Node(name_of(node, i), entry, list(node.input), list(node.output), attributes, version))
    given = [value.name for value in graph.input if value.name not in constants]
    return Code(given, [value.name for value in graph.output], nodes, constants)


__all__ = ["check_supported", "code_of", "missing_of", "problems", "to_heddle"]
