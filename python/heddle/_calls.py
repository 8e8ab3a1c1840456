"""What is wrong with a call of a compiled function: the function, the argument, what came and what is wanted."""

import ast
import operator
import re
from collections.abc import Mapping
from typing import Any

from heddle._errors import InvalidArgument

_PLAIN = {"str": str, "bool": bool, "dict": dict, "list": list, "tuple": tuple, "Callable": object}


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _words(annotation: ast.expr) -> str:
    """The type as a user writes it."""
    return re.sub(r"\b(?:collections\.abc|heddle\._heddle|typing)\.", "", ast.unparse(annotation))


def _is_index(value: Any) -> bool:
    if isinstance(value, bool):
        return True
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _fits_sequence(items: list[ast.expr], value: Any) -> bool:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return False
    return all(_fits(items[0], one) for one in value)


def _fits_name(name: str, value: Any) -> bool:
    if name == "int":
        return _is_index(value)
    if name == "float":
        return isinstance(value, float) or _is_index(value)
    if name in _PLAIN:
        return isinstance(value, _PLAIN[name])
    if name in ("Any", "object"):
        return True
    if not name[:1].isupper() or name.endswith("Like") or name in ("Keys", "Vars", "Operand"):
        return True  # the function itself converts such arguments, and names them in its errors
    return any(kind.__name__ == name for kind in type(value).__mro__)


def _fits(annotation: ast.expr, value: Any) -> bool:
    if isinstance(annotation, ast.Constant):
        return annotation.value is None and value is None
    if isinstance(annotation, ast.BinOp):
        return _fits(annotation.left, value) or _fits(annotation.right, value)
    if isinstance(annotation, ast.Subscript):
        name = _words(annotation.value)
        inner = annotation.slice
        items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if name in ("Sequence", "list"):
            return _fits_sequence(items, value)
        if name in ("Mapping", "dict"):
            return isinstance(value, Mapping) and all(_fits(items[0], k) and _fits(items[1], v) for k, v in value.items())
        return True
    return _fits_name(_words(annotation), value)


def _signature(text: str) -> ast.FunctionDef:
    function = ast.parse(re.sub(r"\\\d+", "...", text) + ": ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function


def _wanted(annotation: ast.expr, value: Any) -> str:
    words = _words(annotation)
    if value is None:
        return f"{words}, not None" if words in ("Any", "object") else words
    if _is_index(value) and _fits(annotation, value):  # an int of the wanted type that is out of C++'s range
        return "one of 32 or 64 bits" + (", from 0" if _is_index(value) and value < 0 else "")
    return words


def _came(value: Any) -> str:
    if not _is_index(value) or isinstance(value, bool):
        return _kind(value)
    number = operator.index(value)
    return str(number) if number.bit_length() < 1000 else f"an int of {number.bit_length()} bits"


def _suspects(parameters: dict[str, ast.expr | None], given: dict[str, Any]) -> list[str]:
    """Names of arguments, the likeliest first: those of a wrong type, then ints that may not fit."""
    typed = [(name, parameters[name], value) for name, value in given.items()]
    wrong = [name for name, kind, value in typed if kind is not None and not _fits(kind, value)]
    ints = [name for name, _, value in typed if _is_index(value) and not -1 < operator.index(value) < 2**31]
    return [*wrong, *ints, *given]


def _text_without_utf8(value: Any) -> str | None:
    """A str in the value that UTF-8 has no bytes for, as it is escaped."""
    if isinstance(value, str):
        escaped = value.encode("utf-8", "backslashreplace").decode()
        return None if escaped == value else escaped
    if isinstance(value, Mapping):
        return _text_without_utf8([*value.keys(), *value.values()])
    if isinstance(value, (list, tuple)):
        return next((text for text in map(_text_without_utf8, value) if text is not None), None)
    return None


def _problem(name: str, arguments: ast.arguments, values: list[Any], named: dict[str, Any]) -> str | InvalidArgument:
    positional = [*arguments.posonlyargs, *arguments.args]
    if positional and positional[0].arg in ("self", "cls"):
        del positional[0]
        del values[:1]
    parameters = {a.arg: a.annotation for a in [*positional, *arguments.kwonlyargs]}
    if len(values) > len(positional) and arguments.vararg is None:
        return f"{name}() takes {len(positional)} positional arguments but {len(values)} were given"
    given = {a.arg: value for a, value in zip(positional, values, strict=False)}
    for key, value in named.items():
        if key in given:
            return f"{name}() got multiple values for argument '{key}'"
        if key not in parameters and arguments.kwarg is None:
            return f"{name}() got an unexpected keyword argument '{key}'"
        if key in parameters:
            given[key] = value
    for a in positional[: len(positional) - len(arguments.defaults)]:
        if a.arg not in given:
            return f"{name}() missing required argument: '{a.arg}'"
    for key, value in given.items():
        annotation = parameters[key]
        text = None if annotation is None or not _fits(annotation, value) else _text_without_utf8(value)
        if text is not None:
            has = "is" if isinstance(value, str) else "has"
            return InvalidArgument(f"{name}: {key} {has} '{text}', which is no text in UTF-8")
    for key in _suspects(parameters, given):
        annotation = parameters[key]
        if annotation is not None:
            return f"{name}: {key} is {_came(given[key])}; want {_wanted(annotation, given[key])}"
    return f"{name}: wrong arguments; want {name}{ast.unparse(arguments)}"


def refusal(function: Any, values: list[Any], named: dict[str, Any]) -> Exception:
    """The error for a call that the function's signature does not allow."""
    signature = _signature(function.__nb_signature__[-1][0])
    name = signature.name
    if name in ("__init__", "__new__"):
        name = function.__qualname__.rpartition(".")[0]
    problem = _problem(name, signature.args, values, named)
    return TypeError(problem) if isinstance(problem, str) else problem
