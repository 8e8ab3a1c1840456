"""The table: which function computes which ONNX operator.

A function takes the node's inputs as arrays, None for one that is left out, and the node's attributes as keyword-only
arguments with the defaults of ONNX's specification. A list stands for several outputs. An argument `outputs` is the
number of outputs that the node has. What a function cannot do with heddle's operators it refuses with Missing.

    @operator("Clip", since=11)
    def clip(x, low=None, high=None): ...
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from onnx import TensorProto
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

import heddle

DTYPES = {
    TensorProto.FLOAT: heddle.f32,
    TensorProto.DOUBLE: heddle.f64,
    TensorProto.FLOAT16: heddle.f16,
    TensorProto.BFLOAT16: heddle.bf16,
    TensorProto.INT8: heddle.i8,
    TensorProto.UINT8: heddle.u8,
    TensorProto.INT16: heddle.i16,
    TensorProto.UINT16: heddle.u16,
    TensorProto.INT32: heddle.i32,
    TensorProto.UINT32: heddle.u32,
    TensorProto.UINT64: heddle.u64,
    TensorProto.INT64: heddle.i64,
    TensorProto.BOOL: heddle.bool_,
}


class Missing(BackendIsNotSupposedToImplementIt):
    """The model needs something that heddle does not have. ONNX's own test runner skips a case for it."""

    def __init__(self, *what: str) -> None:
        super().__init__("; ".join(what))
        self.what = what


def dtype_name(number: int) -> str:
    return TensorProto.DataType.Name(number).lower()


def dtype_of(number: int) -> heddle.DType:
    """heddle's dtype for a number of TensorProto.DataType."""
    if number not in DTYPES:
        raise Missing(f"dtype {dtype_name(number)}")
    return DTYPES[number]


def ints(array: heddle.NDArray | None) -> list[int] | None:
    """The values of an input that is a parameter, such as a shape or axes. Waits for them."""
    return None if array is None else array.reshape(-1).tolist()


@dataclasses.dataclass(frozen=True)
class Entry:
    name: str
    since: int
    function: Callable[..., Any]

    def _keywords(self) -> dict[str, Any]:
        parameters = inspect.signature(self.function).parameters.values()
        return {
            parameter.name: parameter.default
            for parameter in parameters
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.name != "out"  # of heddle's operators
        }

    @functools.cached_property
    def attributes(self) -> dict[str, Any]:
        """Names and defaults; inspect.Parameter.empty for a required attribute."""
        return {name: default for name, default in self._keywords().items() if name != "outputs"}

    @functools.cached_property
    def wants_outputs(self) -> bool:
        return "outputs" in self._keywords()

    def __call__(
        self, inputs: Sequence[heddle.NDArray | None], attributes: dict[str, Any], outputs: int
    ) -> list[heddle.NDArray]:
        if unknown := sorted(attributes.keys() - self.attributes.keys()):
            raise Missing(f"{self.name}: attribute {unknown[0]}")
        extra = {"outputs": outputs} if self.wants_outputs else {}
        result = self.function(*inputs, **attributes, **extra)
        results = result if isinstance(result, list) else [result]
        if len(results) < outputs:
            raise Missing(f"{self.name}: output {len(results) + 1}")
        return results[:outputs]


TABLE: dict[str, Entry] = {}


def operator(name: str, since: int = 1) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters a function in the table for an ONNX operator, from opset `since` on."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        assert name not in TABLE, name
        TABLE[name] = Entry(name, since, function)
        return function

    return enter
