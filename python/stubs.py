#!/usr/bin/env python3
"""Writes python/heddle/_heddle.pyi, the types of the compiled module, from the module itself.

    PYTHONPATH=build/release/python python python/stubs.py            writes the file
    PYTHONPATH=build/release/python python python/stubs.py --check    fails if it is not what it would write

Classes come from nanobind's stub generator, operators from their registry.
"""

import inspect
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).parent
# heddle is imported from the build, not from this folder.
sys.path[:] = [folder for folder in sys.path if pathlib.Path(folder).resolve() != HERE.resolve()]

from nanobind.stubgen import StubGen  # noqa: E402

from heddle import _heddle, _numpy_methods  # noqa: E402

TARGET = HERE / "heddle" / "_heddle.pyi"

PROLOGUE = '''"""The types of the compiled module. Written by python/stubs.py."""

import os
from collections.abc import Callable, Generator as _Generator, Iterator, Mapping, Sequence
from typing import Any, Literal, Self

import numpy
import numpy.typing

NumpyArray = numpy.typing.NDArray[Any]
DTypeLike = DType | str | type[float] | type[int] | type[bool] | numpy.dtype[Any] | type[numpy.generic]
DeviceLike = Device | str
ArrayLike = NDArray | numpy.typing.NDArray[Any] | numpy.generic | Sequence[Any]
Operand = NDArray | numpy.typing.NDArray[Any] | numpy.generic | float
Vars = Var | NDArray | Sequence[Var | NDArray]
Keys = int | str | Sequence[int | str]
'''

# Signatures of type slots, which nanobind's stub generator does not know.
BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
COMPARISONS = "lt le gt ge eq ne".split()


def array_slots():
    for name in BINARY:
        yield f"def __{name}__(self, other: Operand, /) -> NDArray: ..."
        yield f"def __r{name}__(self, other: Operand, /) -> NDArray: ..."
    for name in "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor ilshift irshift".split():
        yield f"def __{name}__(self, other: Operand, /) -> NDArray: ..."
    for name in COMPARISONS:
        ignore = "  # type: ignore[override]" if name in ("eq", "ne") else ""
        kind = "object" if name in ("eq", "ne") else "Operand"
        yield f"def __{name}__(self, other: {kind}, /) -> NDArray: ...{ignore}"
    for name in ("neg", "pos", "abs", "invert"):
        yield f"def __{name}__(self) -> NDArray: ..."
    yield "def __bool__(self) -> bool: ..."
    yield "def __float__(self) -> float: ..."
    yield "def __int__(self) -> int: ..."
    yield "def __index__(self) -> int: ..."
    yield "def __len__(self) -> int: ..."
    yield "def __iter__(self) -> Iterator[NDArray]: ..."
    yield "def __getitem__(self, key: Any, /) -> NDArray: ..."
    yield "def __setitem__(self, key: Any, value: Operand | Sequence[Any], /) -> None: ..."
    yield "def __buffer__(self, flags: int, /) -> memoryview: ..."
    yield "def __await__(self) -> _Generator[Any, None, NDArray]: ..."
    yield "def __array_namespace__(self, *, api_version: str | None = None) -> Any: ..."
    yield "def __round__(self, ndigits: int | None = None) -> Any: ..."
    yield "def __format__(self, spec: str, /) -> str: ..."
    yield "__hash__: None  # type: ignore[assignment]"


def numpy_methods():
    """What heddle/_numpy_methods.py gives the class."""
    for method in _numpy_methods.METHODS:
        kinds = {name: getattr(kind, "__name__", kind) if isinstance(kind, type) else str(kind) for name, kind in method.__annotations__.items()}
        parts = []
        for name, parameter in inspect.signature(method).parameters.items():
            kind = re.sub(r"\b(typing|collections\.abc|heddle\._heddle)\.", "", kinds[name])
            default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
            parts.append("self" if name == "self" else f"{name}: {kind}{default}")
        result = "NDArray" if method.__annotations__["return"] is _heddle.NDArray else "None"
        yield f'def {method.__name__}({", ".join(parts)}) -> {result}:\n    """{method.__doc__}"""'


VAR_SLOTS = ["def __await__(self) -> _Generator[Any, None, Var]: ..."]

ENGINE_SLOTS = [
    "def push(self, fn: Callable[[], object], *, read: Vars = ..., mutate: Vars = ..., name: str | None = None, "
    "priority: int = 0, group: Group | None = None, skipped: Callable[[BaseException], object] | None = None, bytes: int = 0) -> None: ...",
    "def push_async(self, fn: Callable[[Completion], object], *, read: Vars = ..., mutate: Vars = ..., name: str | None = None, "
    "priority: int = 0, group: Group | None = None, skipped: Callable[[BaseException], object] | None = None, bytes: int = 0) -> None: ...",
    "def submit[**P, T](self, fn: Callable[P, T], /, *args: Any, read: Vars = ..., mutate: Vars = ..., "
    "name: str | None = None, priority: int = 0, group: Group | None = None, **kwargs: Any) -> Future[T]: ...",
    "def wait(self, var: Var | NDArray, timeout: float | None = None) -> bool: ...",
]

# Replacements of texts that the generator gets wrong; inside NDArray `numpy` is a method.
REPLACED = {
    " -> numpy.typing.NDArray[Any]": " -> NumpyArray",
    "def _shut_down(self)": "def _shut_down()",
    "def __eq__(self, other: Any, /) -> Symbol: ...": "def __eq__(self, other: Any, /) -> Symbol: ...  # type: ignore[override]",
    "def __ne__(self, other: Any, /) -> Symbol: ...": "def __ne__(self, other: Any, /) -> Symbol: ...  # type: ignore[override]",
    "def __exit__(self, *args) ": "def __exit__(self, *args: object) ",
    ") -> tuple: ...": ") -> tuple[Any, ...]: ...",
    " -> list: ...": " -> list[Any]: ...",
    ": list = ...": ": list[str] = ...",
    "Sequence[dict] ": "Sequence[dict[str, Any]] ",
    "**kwargs)": "**kwargs: Any)",
    "**params)": "**params: float)",
    "*args)": "*args: Any)",
}

TYPES = {
    "array": "ArrayLike",
    "array or number": "Operand | Sequence[Any]",
    "array or row-sparse array": "ArrayLike | RowSparse",
    "list of arrays": "Sequence[ArrayLike]",
    "row-sparse array": "RowSparse",
    "list of row-sparse arrays": "Sequence[RowSparse]",
    "number": "float",
    "float": "float",
    "int": "int",
    "bool": "bool",
    "string": "str",
    "list of ints": "int | Sequence[int]",
    "dtype": "DTypeLike",
    "device": "DeviceLike",
    "generator": "Generator",
}
RESULTS = {"": "None", "array": "NDArray", "row-sparse array": "RowSparse", "list of arrays": "tuple[NDArray, ...]"}


def parameters(arguments):
    """The arguments of an operator or a layer, as Python declares them."""
    parts = []
    for argument, kind, choices, default in arguments:
        none = kind.endswith(" or None")
        kind = kind.removesuffix(" or None")
        type_ = f"Literal[{', '.join(map(repr, choices))}]" if choices else TYPES[kind]
        if choices and kind != "string":  # a word may stand for the numbers
            type_ = f"{TYPES[kind]} | {type_}"
        if default == "None" or none:
            type_ += " | None"
        parts.append(f"{argument}: {type_}" + (f" = {default}" if default is not None else ""))
    return parts


def operator(name, arguments, result, documentation):
    parts = parameters(arguments)
    if result == "array":
        parts += ["*", "out: NDArray | None = None"]
    doc = textwrap.indent('"""' + documentation.replace("\\", "\\\\") + '"""', "    ")
    return f"def {name}({', '.join(parts)}) -> {RESULTS[result]}:\n{doc}\n"


def layer(name, arguments):
    """A class's constructor."""
    return f"def __init__({', '.join(['self', *parameters(arguments)])}) -> None: ..."


def put_into_class(text, name, lines, drop=()):
    """The class's body gets the lines at its end."""
    match = re.search(rf"^class {name}[:(].*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    body = match[0].rstrip("\n")
    for gone in drop:
        body = re.sub(rf"^    (?:@\w+\n    )?(?:def )?{gone}\b.*?(?=^    (?:def |@|\w+:|\w+ =)|\Z)", "", body, flags=re.MULTILINE | re.DOTALL)
    body = body.rstrip("\n") + "\n\n" + textwrap.indent("\n\n".join(lines), "    ") + "\n\n\n"
    return text[: match.start()] + body + text[match.end() :]


def written():
    generator = StubGen(module=_heddle, include_docstrings=True, include_private=True)
    generator.put(_heddle)
    text = generator.get()
    text = re.sub(r"^from \S+ import \([^)]*\)\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"^(?:from|import) .*\n", "", text, flags=re.MULTILINE)
    names = {entry[0] for entry in _heddle._operator_table()}
    for name in names:  # the generator's own guesses
        text = re.sub(rf"^def {name}\(.*?(?=^\S|\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
    slots = [*array_slots(), *numpy_methods()]
    known = [re.match(r"(?:def )?(\w+)", line)[1] for line in slots]
    text = put_into_class(text, "NDArray", slots, [*known, "__delitem__"])
    text = put_into_class(text, "Var", VAR_SLOTS)
    text = put_into_class(text, "no_grad", ["def __call__[**P, T](self, function: Callable[P, T], /) -> Callable[P, T]: ..."])
    text = put_into_class(text, "Engine", ENGINE_SLOTS, ["push", "push_async", "submit", "wait", "_push_for_submit"])
    for name, arguments in [*_heddle._layer_table(), *_heddle._metric_table()]:
        text = put_into_class(text, name, [layer(name, arguments)], ["__init__", "__slots__"])
    operators = [operator(*entry[:4]) for entry in _heddle._operator_table()]
    lines = [PROLOGUE.replace("import os\n", "import os\nfrom concurrent.futures import Future\n"), text.strip("\n"), "", *operators]
    text = "\n".join(lines)
    for wrong, right in REPLACED.items():
        text = text.replace(wrong, right)
    text = re.sub(r"\n{4,}", "\n\n\n", text)
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n") + "\n"


def main():
    text = written()
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text(encoding="utf-8") != text:
            sys.exit(f"{TARGET} is not current: run python/stubs.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        TARGET.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
