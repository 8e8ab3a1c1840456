"""The table: which function computes which ONNX operator.

A function takes the node's inputs as arrays, None for one that is left out, and the node's attributes as keyword-only
arguments with the defaults of ONNX's specification. A list stands for several outputs. An argument `outputs` is the
number of outputs that the node has, `opset` the version of its domain. What a function cannot do with heddle's
operators it refuses with Missing.

    @operator("Clip", since=11)
    def clip(x, low=None, high=None): ...
"""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from onnx import TensorProto

import heddle
from heddle.onnx import running

Array = heddle.NDArray
Result = heddle.NDArray | list[heddle.NDArray]
Attributes = Mapping[str, Any]

DTYPES: dict[int, heddle.DType] = {
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
OWN_DOMAIN = ("", "ai.onnx")


class Missing(heddle.Error):
    """The model needs something that heddle does not have: each thing is in `what`."""

    def __init__(self, *what: str, message: str = "") -> None:
        super().__init__(message or "; ".join(what))
        self.what = what


def dtype_name(number: int) -> str:
    """ONNX's name of a number of TensorProto.DataType."""
    return TensorProto.DataType.Name(number).lower() if number in TensorProto.DataType.values() else f"{number}"


def dtype_of(number: int) -> heddle.DType:
    """heddle's dtype for a number of TensorProto.DataType."""
    if number not in DTYPES:
        raise Missing(f"dtype {dtype_name(number)}")
    return DTYPES[number]


def ints(array: Array | None) -> Any:
    """The values of an input that is a parameter, such as a shape or axes, as a list; None for None."""
    return None if array is None else running.values(array).reshape(-1).tolist()


def number(array: Array) -> Any:
    """The value of an input that is a parameter and has one element."""
    return running.values(array).item()


# Says whether nodes with these attributes and this number of outputs are computed by an entry.
Test = Callable[[Attributes, int], bool]
# Says what an entry lacks for nodes with these attributes.
Lack = Callable[[Attributes], Iterator[str]]


@dataclasses.dataclass(frozen=True)
class Entry:
    """The function of an operator, and what is known of it before it is called."""

    name: str
    since: int
    function: Callable[..., Any]
    native: tuple[str, ...] = ()  # heddle's operators one of which computes the node; (): several together do
    when: Test | None = None  # None: always; ONNX's definition of the operator is used for other nodes, if it has one
    lacks: Lack | None = None
    pure: bool = True  # False: the result is not the same each time
    dynamic: bool = False  # the results' shapes depend on the inputs' values
    reads: int | None = None  # so many inputs matter by their values, the others by shape and dtype; None: all

    @functools.cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.function).parameters.values())

    @functools.cached_property
    def _keywords(self) -> dict[str, Any]:
        return {
            parameter.name: parameter.default
            for parameter in self._parameters
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.name != "out"  # of heddle's operators
        }

    @functools.cached_property
    def attributes(self) -> dict[str, Any]:
        """Names and defaults; inspect.Parameter.empty for a required attribute."""
        return {name: default for name, default in self._keywords.items() if name not in ("outputs", "opset")}

    @functools.cached_property
    def inputs(self) -> tuple[int, float]:
        """How many inputs a node has at least, and at most."""
        given = [p for p in self._parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        least = sum(parameter.default is parameter.empty for parameter in given)
        several = any(p.kind is p.VAR_POSITIONAL for p in self._parameters)
        return least, float("inf") if several else len(given)

    @functools.cached_property
    def optional(self) -> list[bool]:
        """Whether each input may be left out, and at last whether further ones may."""

        def may(parameter: inspect.Parameter) -> bool:
            left_out = parameter.default is None or type(None) in typing.get_args(parameter.annotation)
            return left_out or parameter.annotation in (parameter.empty, Any)

        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        further = [p for p in self._parameters if p.kind is p.VAR_POSITIONAL]
        return [may(p) for p in self._parameters if p.kind in kinds] + [all(map(may, further))]

    def missing(self, attributes: Attributes) -> Iterator[str]:
        """What the entry lacks for a node with these attributes."""
        for unknown in sorted(attributes.keys() - self.attributes.keys()):
            yield f"{self.name}: attribute {unknown}"
        if self.lacks is not None:
            yield from self.lacks(attributes)

    def computes(self, attributes: Attributes, outputs: int) -> bool:
        """Whether such a node is computed by this entry rather than by ONNX's definition."""
        return self.when is None or self.when(attributes, outputs)

    def __call__(
        self, inputs: Sequence[Array | None], attributes: Attributes, outputs: int, opset: int = 0
    ) -> list[Array]:
        for i, array in enumerate(inputs):
            if array is None and not self.optional[min(i, len(self.optional) - 1)]:
                raise heddle.InvalidArgument(f"input {i} is left out; want an array")
        extra: dict[str, int] = {"outputs": outputs} if "outputs" in self._keywords else {}
        if "opset" in self._keywords:
            extra["opset"] = opset
        result = self.function(*inputs, **attributes, **extra)
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        if len(results) < outputs:
            raise Missing(f"{self.name}: output {len(results) + 1}")
        return results[:outputs]


TABLE: dict[str, Entry] = {}
F = TypeVar("F", bound=Callable[..., Any])


def operator(
    name: str,
    since: int = 1,
    *,
    native: str | tuple[str, ...] = (),
    when: Test | None = None,
    lacks: Lack | None = None,
    pure: bool = True,
    dynamic: bool = False,
    reads: int | None = None,
) -> Callable[[F], F]:
    """Enters a function in the table for an ONNX operator, from opset `since` on. Entry says what the options mean."""

    def enter(function: F) -> F:
        assert name not in TABLE, name
        names = (native,) if isinstance(native, str) else native
        TABLE[name] = Entry(name, since, function, names, when, lacks, pure, dynamic, reads)
        return function

    return enter
