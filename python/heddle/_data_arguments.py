"""Arguments of heddle.data as the compiled module takes them, with errors that name the function and the argument."""

from __future__ import annotations

import collections.abc as _abc
import os as _os
import typing as _typing

from heddle import _errors

Path = str | bytes | _os.PathLike[str]


def int_of(function: str, name: str, value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{function}: {name} is a {type(value).__name__}; want an int")
    result = int(_typing.cast(_typing.SupportsIndex, value).__index__())
    if not -(2**63) <= result < 2**63:
        raise _errors.InvalidArgument(f"{function}: {name} is {result}; want 64 bits")
    return result


def int32_of(function: str, name: str, value: object) -> int:
    result = int_of(function, name, value)
    if not -(2**31) <= result < 2**31:
        raise _errors.InvalidArgument(f"{function}: {name} is {result}; want 32 bits")
    return result


def list_of(function: str, name: str, values: object) -> list[object]:
    if isinstance(values, (str, bytes)) or not isinstance(values, _abc.Iterable):
        raise TypeError(f"{function}: {name} is a {type(values).__name__}; want a list")
    return list(values)


def seed_of(function: str, value: object) -> int:
    if isinstance(value, int) and 2**63 <= value < 2**64:
        return int(value)
    return int_of(function, "seed", value) % 2**64


def bool_of(function: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{function}: {name} is a {type(value).__name__}; want a bool")
    return value


def floats_of(function: str, name: str, values: object) -> list[float]:
    if isinstance(values, (int, float)) and not isinstance(values, bool):
        return [float(values)]
    try:
        return [float(value) for value in _typing.cast(_typing.Iterable[float], values)]
    except (TypeError, ValueError):
        raise TypeError(f"{function}: {name} is a {type(values).__name__}; want a number or a list of numbers") from None


def float_of(function: str, name: str, value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{function}: {name} is a {type(value).__name__}; want a number")
    return float(value)


def pair_of(function: str, name: str, value: object) -> tuple[int, int]:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return int_of(function, name, value[0]), int_of(function, name, value[1])
    side = int_of(function, name, value)
    return side, side


def path_of(function: str, path: object) -> bytes:
    if not isinstance(path, (str, bytes, _os.PathLike)):
        raise TypeError(f"{function}: path is a {type(path).__name__}; want a str or a Path")
    return _os.fsencode(path)


def paths_of(function: str, paths: object) -> list[bytes]:
    if isinstance(paths, (str, bytes, _os.PathLike)):
        raise TypeError(f"{function}: paths is one path; want a list of paths")
    return [path_of(function, path) for path in _typing.cast(_typing.Iterable[object], paths)]


def ints_of(function: str, name: str, values: _typing.Iterable[_typing.Any]) -> list[int]:
    return [int_of(function, name, value) for value in values]
