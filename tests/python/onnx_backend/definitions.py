"""Operators that ONNX's specification defines by others: replaces their nodes by these definitions.

onnx's own inliner of such operators forgets the defaults of attributes, and stops at nodes that leave out inputs. It
does well with functions that a model brings along, so that a node's definition becomes one of these first.
"""

from collections.abc import Iterator

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, inliner

from .table import TABLE

OWN_DOMAIN = ("", "ai.onnx")
DEFINITIONS = "definitions"  # domain of the functions that replace nodes


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
        if attribute.type == AttributeProto.GRAPH:
            yield from graphs_of(attribute.g)


def known_types(model: ModelProto) -> dict[str, TypeProto]:
    types = {"": TypeProto()}  # "": type of an omitted input
    for graph in graphs_of(onnx.shape_inference.infer_shapes(model).graph):
        types |= {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)}
        for tensor in graph.initializer:
            types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    return types


def definition(node: NodeProto, version: int, types: dict[str, TypeProto]) -> FunctionProto | None:
    """The function that defines the node's operator, or None; adds the defaults of omitted attributes to the node."""
    if not onnx.defs.has(node.op_type, version, node.domain):
        return None
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    given = {attribute.name for attribute in node.attribute}
    defaults = [attribute.default_value for name, attribute in schema.attributes.items() if name not in given]
    complete = NodeProto()
    complete.CopyFrom(node)
    complete.attribute.extend(default for default in defaults if default.name)
    if schema.has_function:
        chosen = max(v for v in schema.function_opset_versions if v <= version)
        body = schema.get_function_with_opset_version(chosen)
    elif schema.has_context_dependent_function and all(name in types for name in node.input):
        chosen = max(v for v in schema.context_dependent_function_opset_versions if v <= version)
        inputs = [types[name].SerializeToString() for name in node.input]
        body = schema.get_context_dependent_function_with_opset_version(chosen, complete.SerializeToString(), inputs)
    else:
        return None
    node.CopyFrom(complete)
    return FunctionProto.FromString(body)


def inlined(model: ModelProto) -> ModelProto:
    """A copy of the model in which operators that the table lacks are replaced by their definitions, if any."""
    result = ModelProto()
    result.CopyFrom(model)
    while True:
        types, functions = known_types(result), []
        for node in [node for graph in graphs_of(result.graph) for node in graph.node]:
            if full_name(node) in TABLE:
                continue
            function = definition(node, opset(result, node.domain), types)
            if function is not None:
                function.domain, function.name = DEFINITIONS, f"{node.op_type}_{len(functions)}"
                node.domain, node.op_type = function.domain, function.name
                functions.append(function)
        if not functions:
            return result
        imports = {entry.domain: entry.version for function in functions for entry in function.opset_import}
        imports |= {entry.domain: entry.version for entry in result.opset_import} | {DEFINITIONS: 1}
        del result.opset_import[:]
        result.opset_import.extend(onnx.helper.make_opsetid(*entry) for entry in imports.items())
        for function in functions:  # the inliner requires the model's versions
            del function.opset_import[:]
            function.opset_import.extend(result.opset_import)
        result.functions.extend(functions)
        result = inliner.inline_local_functions(result)
