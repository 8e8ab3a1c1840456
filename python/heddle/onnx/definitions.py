"""Operators that ONNX's specification defines by others: replaces their nodes by these definitions.

onnx's own inliner of such operators forgets the defaults of attributes, and stops at nodes that leave out inputs. It
does well with functions that a model brings along, so that a node's definition becomes one of these first.
"""

from collections.abc import Iterator
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, inliner

import heddle
from heddle.onnx.table import OWN_DOMAIN, TABLE

DEFINITIONS = "definitions"  # domain of the functions that replace nodes
MOST_NODES = 1_000_000  # of a model whose functions are replaced by their bodies


def opset(model: ModelProto, domain: str = "") -> int:
    """The version of the domain's operators that the model uses."""
    same = OWN_DOMAIN if domain in OWN_DOMAIN else (domain,)
    return next((entry.version for entry in model.opset_import if entry.domain in same), 0)


def full_name(node: NodeProto) -> str:
    """The operator's name in the table: with its domain, unless that is ONNX's own."""
    return node.op_type if node.domain in OWN_DOMAIN else f"{node.domain}.{node.op_type}"


def graphs_of(graph: GraphProto) -> Iterator[GraphProto]:
    """The graph, and those in attributes of its nodes."""
    yield graph
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        for inner in (attribute.g, *attribute.graphs) if attribute.type in GRAPHS else ():
            yield from graphs_of(inner)


GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def plain_attributes(node: NodeProto) -> dict[str, Any]:
    """The attributes that are numbers, texts, or lists of them."""
    heavy = (*GRAPHS, AttributeProto.TENSOR, AttributeProto.TENSORS, AttributeProto.UNDEFINED)
    return {
        attribute.name: plain(onnx.helper.get_attribute_value(attribute))
        for attribute in node.attribute
        if attribute.type not in heavy and not attribute.ref_attr_name
    }


def plain(value: Any) -> Any:
    """Bytes as text; sequences as lists."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def known_types(model: ModelProto) -> dict[str, TypeProto]:
    types = {"": TypeProto()}  # "": type of an omitted input
    for graph in graphs_of(onnx.shape_inference.infer_shapes(model).graph):
        types |= {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)}
        for tensor in graph.initializer:
            types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    return types


def newest(versions: list[int], most: int) -> int:
    """The newest version up to `most`."""
    return max((version for version in versions if version <= most), default=versions[0])


def definition(node: NodeProto, version: int, types: dict[str, TypeProto]) -> FunctionProto | None:
    """The function that defines the node's operator, or None; adds the defaults of omitted attributes to the node."""
    if not onnx.defs.has(node.op_type, version, node.domain):
        return None
    schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)  # whose stub lacks functions
    given = {attribute.name for attribute in node.attribute}
    defaults = [attribute.default_value for name, attribute in schema.attributes.items() if name not in given]
    complete = NodeProto()
    complete.CopyFrom(node)
    complete.attribute.extend(default for default in defaults if default.name)
    if schema.has_function:
        body = schema.get_function_with_opset_version(newest(schema.function_opset_versions, version))
    elif schema.has_context_dependent_function and all(name in types for name in node.input):
        chosen = newest(schema.context_dependent_function_opset_versions, version)
        inputs = [types[name].SerializeToString() for name in node.input]
        body = schema.get_context_dependent_function_with_opset_version(chosen, complete.SerializeToString(), inputs)
    else:
        return None
    node.CopyFrom(complete)
    function: FunctionProto = FunctionProto.FromString(body)
    return function


def has_entry(node: NodeProto, version: int) -> bool:
    """Whether the table computes the node."""
    entry = TABLE.get(full_name(node))
    if entry is None or version < entry.since:
        return False
    wanted = max((i for i, name in enumerate(node.output, 1) if name), default=0)
    return entry.computes(plain_attributes(node), wanted)


def undefined(model: ModelProto) -> list[NodeProto]:
    """The nodes that the table does not compute."""
    return [
        node
        for graph in graphs_of(model.graph)
        for node in graph.node
        if not has_entry(node, opset(model, node.domain))
    ]


def check_functions(model: ModelProto) -> None:
    """Raises Error for functions that call themselves, or that make more nodes than a computer can hold."""
    bodies = {(function.domain, function.name): function for function in model.functions}
    counts: dict[tuple[str, str], int] = {}
    open_: set[tuple[str, str]] = set()

    def nodes_of(key: tuple[str, str]) -> int:
        if key not in bodies:
            return 1
        if key in open_:
            raise heddle.Error(f"function {key[1]} calls itself")
        if key not in counts:
            open_.add(key)
            counts[key] = sum(nodes_of((node.domain, node.op_type)) for node in all_nodes(bodies[key].node))
            open_.remove(key)
        return counts[key]

    nodes = (node for graph in graphs_of(model.graph) for node in graph.node)
    if sum(nodes_of((node.domain, node.op_type)) for node in nodes) > MOST_NODES:
        raise heddle.Error(f"its functions stand for more than {MOST_NODES} nodes")


def all_nodes(nodes: Any) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type in GRAPHS:
                for graph in (attribute.g, *attribute.graphs):
                    yield from all_nodes(graph.node)


def inlined(model: ModelProto) -> ModelProto:
    """The model, or a copy in which functions, and operators that the table lacks, are replaced by their definitions."""
    check_functions(model)
    if not model.functions and not undefined(model):
        return model
    result = ModelProto()
    result.CopyFrom(model)
    if result.functions:
        result = inliner.inline_local_functions(result)
    while nodes := undefined(result):
        types, functions = known_types(result), list[FunctionProto]()
        for node in nodes:
            function = definition(node, opset(result, node.domain), types)
            if function is not None:
                function.domain, function.name = DEFINITIONS, f"{node.op_type}_{len(functions)}"
                node.domain, node.op_type = function.domain, function.name
                functions.append(function)
        if not functions:
            break
        imports = {entry.domain: entry.version for function in functions for entry in function.opset_import}
        imports |= {entry.domain: entry.version for entry in result.opset_import} | {DEFINITIONS: 1}
        del result.opset_import[:]
        result.opset_import.extend(onnx.helper.make_opsetid(*entry) for entry in imports.items())
        for function in functions:  # the inliner requires the model's versions
            del function.opset_import[:]
            function.opset_import.extend(result.opset_import)
        result.functions.extend(functions)
        result = inliner.inline_local_functions(result)
    return result
