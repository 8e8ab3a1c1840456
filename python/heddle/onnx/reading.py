"""Reads the file of a model. What a file says of itself, such as sizes and paths, is checked before it is used."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, numpy_helper

import heddle
from heddle import NDArray
from heddle.onnx.definitions import graphs_of
from heddle.onnx.table import DTYPES, dtype_name

ALIGNMENT = 64  # bytes, of mapped memory that kernels read
LIGHT = 1024  # bytes of an initializer that onnx's inference of shapes may read


@dataclasses.dataclass(frozen=True)
class File:
    """A model's file: its name in messages, and the folder of its external data; None for a model from bytes."""

    name: str
    folder: pathlib.Path | None
    mapped: bool

    def error(self, what: str) -> heddle.Error:
        return heddle.Error(f"heddle.onnx.load: {self.name}: {what}")


def read(source: Any, mapped: bool) -> tuple[ModelProto, File]:
    """The model in a file, in bytes, or in a ModelProto."""
    if isinstance(source, ModelProto):
        model = ModelProto()
        model.CopyFrom(source)
        return model, File("the model", None, mapped)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return parsed(bytes(source), File("the model in bytes", None, mapped))
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"load: source is a {type(source).__name__}; want a path, or the bytes of a model")
    path = pathlib.Path(os.fsdecode(source))
    file = File(str(path), path.resolve().parent, mapped)
    try:
        return parsed(path.read_bytes(), file)
    except OSError as error:
        raise file.error(error.strerror or str(error)) from error


def parsed(data: bytes, file: File) -> tuple[ModelProto, File]:
    try:
        model = ModelProto.FromString(data)
    except Exception as error:  # of the package protobuf, which has no types
        raise file.error(f"is no ONNX model, or is cut off or damaged ({len(data)} bytes)") from error
    if not model.ir_version or not model.HasField("graph") or not model.opset_import:
        raise file.error(f"is no ONNX model, or is cut off ({len(data)} bytes): it has no version, graph or opset")
    return model, file


def described(tensor: TensorProto) -> str:
    return f"tensor '{tensor.name}'" if tensor.name else "the tensor of an attribute"


def check_tensor(tensor: TensorProto, file: File) -> int:
    """The tensor's size in bytes. Raises Error for sizes that are negative or too large for memory."""
    if any(n < 0 for n in tensor.dims):
        raise file.error(f"{described(tensor)} has a negative size: {tuple(tensor.dims)}")
    size: int = math.prod(tensor.dims) * np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize
    if size >= 2**63 or math.prod(max(n, 1) for n in tensor.dims) >= 2**63:
        raise file.error(f"{described(tensor)} has more elements than memory: {tuple(tensor.dims)}")
    return size


def array_of(tensor: TensorProto, file: File) -> np.ndarray[Any, Any]:
    """The values of a tensor whose dtype heddle has."""
    size = check_tensor(tensor, file)
    if tensor.data_location == TensorProto.EXTERNAL:
        return external(tensor, size, file)
    if tensor.HasField("raw_data") and len(tensor.raw_data) != size:
        raise file.error(f"{described(tensor)} has {len(tensor.raw_data)} bytes; {tuple(tensor.dims)} wants {size}")
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError) as error:
        raise file.error(f"{described(tensor)} is damaged: {error}") from error


def shortened(text: str, most: int = 100) -> str:
    return text if len(text) <= most else text[:most] + "..."


def external(tensor: TensorProto, size: int, file: File) -> np.ndarray[Any, Any]:
    """A tensor that another file in the model's folder has; mapped into memory if its place allows that."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location, what = entries.get("location", ""), described(tensor)
    if file.folder is None:
        raise file.error(f"{what} is in the file '{location}'; load the model by its path, beside which that is")
    try:
        path = (file.folder / location).resolve()
        held = path.stat().st_size if path.is_file() else None
    except (OSError, ValueError, RuntimeError) as error:  # a name that is too long, has a zero byte, or links in a circle
        raise file.error(f"{what} is in '{shortened(location)}': {getattr(error, 'strerror', None) or error}") from error
    if not location or pathlib.PurePath(location).is_absolute() or not path.is_relative_to(file.folder):
        raise file.error(f"{what} is in '{location}', outside of the model's folder; want a file in that")
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries.get("length") or size)
    except ValueError as error:
        raise file.error(f"{what} has an offset or a length that is no number: {error}") from error
    if held is None:
        raise file.error(f"{what} is in '{location}', which is no file in {file.folder}")
    if length != size or offset < 0 or offset + size > held:
        raise file.error(
            f"{what} has {length} bytes at {offset} of '{location}', which has {held}; {tuple(tensor.dims)} wants {size}"
        )
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    if not size:
        return np.zeros(tuple(tensor.dims), dtype)
    if file.mapped and offset % ALIGNMENT == 0:
        pages = np.memmap(path, np.uint8, "c", offset, (size,))  # "c": changes would stay in this process
        return pages.view(dtype).reshape(tuple(tensor.dims))
    return np.fromfile(path, dtype, size // dtype.itemsize, offset=offset).reshape(tuple(tensor.dims))


def to_heddle(values: np.ndarray[Any, Any]) -> NDArray:
    """An array with these values on the default device. On the CPU it stays on the pages of a mapped file."""
    if isinstance(values, np.memmap) and values.dtype.kind != "b" and values.dtype.isbuiltin == 1:
        return heddle.from_dlpack(np.asarray(values)).to(heddle.default_device())
    return heddle.array(values)


def weights_of(graph: GraphProto, file: File) -> dict[str, NDArray]:
    """The initializers that heddle has dtypes for. Large ones leave the graph, which keeps their shapes."""
    arrays = {}
    for tensor in graph.initializer:
        if not tensor.name or tensor.name in arrays:
            raise file.error(f"two initializers have the name '{tensor.name}'; want one of each, and a name")
        if tensor.data_type not in DTYPES:
            continue
        values = array_of(tensor, file)
        arrays[tensor.name] = to_heddle(values)
        if values.nbytes > LIGHT:
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(field)
            tensor.data_location = TensorProto.DEFAULT
            del tensor.external_data[:]
    return arrays


def tensors_of(graph: GraphProto) -> Iterator[TensorProto]:
    """Tensors in attributes of the graph's nodes."""
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        if attribute.type == AttributeProto.TENSOR:
            yield attribute.t
        yield from attribute.tensors


def check_names(graph: GraphProto, outer: frozenset[str], file: File) -> None:
    """Raises Error for a value that is read before it is computed, or that is computed twice."""
    seen: set[str] = {tensor.name for tensor in graph.initializer}
    given = [value.name for value in graph.input]
    if len(given) != len(set(given)):
        raise file.error(f"two inputs have one name, of {', '.join(given)}")
    seen.update(given)
    for i, node in enumerate(graph.node):
        who = f"node '{node.name or i}' ({node.op_type})"
        for name in node.input:
            if name and name not in seen and name not in outer:
                raise file.error(f"{who} reads '{name}', which no node before it computes")
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs) if attribute.type == AttributeProto.GRAPH else ():
                check_names(inner, outer | seen, file)
        for name in filter(None, node.output):
            if name in seen:
                raise file.error(f"{who} computes '{name}', which exists already")
            seen.add(name)
    for value in graph.output:
        if value.name not in seen and value.name not in outer:
            raise file.error(f"its output '{value.name}' is computed by no node")


def check_model(model: ModelProto, file: File) -> None:
    """Raises Error for what is wrong with the whole file."""
    newest = onnx.defs.onnx_opset_version()
    for entry in model.opset_import:
        if entry.domain in ("", "ai.onnx") and not 1 <= entry.version <= newest:
            raise file.error(f"it has opset {entry.version}; the package onnx {onnx.__version__} knows 1 to {newest}")
    for graph in graphs_of(model.graph):
        for tensor in (*graph.initializer, *tensors_of(graph)):
            if tensor.data_type in DTYPES:
                check_tensor(tensor, file)
            elif tensor.data_type not in TensorProto.DataType.values():
                raise file.error(f"{described(tensor)} has the unknown dtype {dtype_name(tensor.data_type)}")
    check_names(model.graph, frozenset(), file)
