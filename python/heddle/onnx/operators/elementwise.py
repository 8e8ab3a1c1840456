"""Operators that compute each element by itself, and linear algebra."""

import functools
import math
from collections.abc import Callable
from typing import Any

import heddle
from heddle.onnx.running import is_constant, prepared
from heddle.onnx.table import Array, dtype_of, operator

SAME: dict[str, Callable[..., Array]] = {
    "Abs": heddle.abs,
    "Neg": heddle.negative,
    "Exp": heddle.exp,
    "Log": heddle.log,
    "Sqrt": heddle.sqrt,
    "Tanh": heddle.tanh,
    "Sigmoid": heddle.sigmoid,
    "Relu": heddle.relu,
    "Not": heddle.logical_not,
    "MatMul": heddle.matmul,
    "Reciprocal": heddle.reciprocal,
    "Sign": heddle.sign,
    "IsNaN": heddle.isnan,
    "Floor": heddle.floor,
    "Ceil": heddle.ceil,
    "Round": heddle.round,
    "Erf": heddle.erf,
    "Sin": heddle.sin,
    "Cos": heddle.cos,
    "Tan": heddle.tan,
    "Asin": heddle.asin,
    "Acos": heddle.acos,
    "Atan": heddle.atan,
    "Sinh": heddle.sinh,
    "Cosh": heddle.cosh,
    "Asinh": heddle.asinh,
    "Acosh": heddle.acosh,
    "Atanh": heddle.atanh,
    "BitwiseAnd": heddle.bitwise_and,
    "BitwiseOr": heddle.bitwise_or,
    "BitwiseXor": heddle.bitwise_xor,
    "BitwiseNot": heddle.bitwise_invert,
}
SAME_SINCE_7: dict[str, Callable[..., Array]] = {
    "Add": heddle.add,
    "Sub": heddle.subtract,
    "Mul": heddle.multiply,
    "Equal": heddle.equal,
    "Less": heddle.less,
    "LessOrEqual": heddle.less_equal,
    "Greater": heddle.greater,
    "GreaterOrEqual": heddle.greater_equal,
    "And": heddle.logical_and,
    "Or": heddle.logical_or,
    "Xor": heddle.logical_xor,
    "Where": heddle.where,
}
for _name, _function in SAME.items():
    operator(_name, native=_function.__name__)(_function)
for _name, _function in SAME_SINCE_7.items():
    operator(_name, since=7, native=_function.__name__)(_function)


@operator("Identity")
def identity(x: Array) -> Array:
    return x


@operator("IsInf")
def is_inf(x: Array, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    if detect_negative and detect_positive:
        return heddle.isinf(x)
    if detect_negative or detect_positive:
        return heddle.equal(x, math.inf if detect_positive else -math.inf)
    return heddle.zeros(x.shape, "bool")


@operator("Shrink")
def shrink(x: Array, *, bias: float = 0.0, lambd: float = 0.5) -> Array:
    return heddle.where(x < -lambd, x + bias, heddle.where(x > lambd, x - bias, heddle.zeros_like(x)))


@operator("Clip", since=6)
def clip(
    x: Array,
    low: Array | None = None,
    high: Array | None = None,
    *,
    max: float | None = None,  # noqa: A002 (names of the specification before opset 11)
    min: float | None = None,  # noqa: A002
) -> Array:
    least, most = min if low is None else low, max if high is None else high
    x = x if least is None else heddle.maximum(x, least)
    return x if most is None else heddle.minimum(x, most)


@operator("Cast", since=6)
def cast(x: Array, *, to: int, saturate: int = 1, round_mode: str = "up") -> Array:
    return heddle.cast(x, dtype_of(to))  # the other attributes only affect dtypes of at most 8 bits


@operator("CastLike", reads=1)
def cast_like(x: Array, like: Array, *, saturate: int = 1, round_mode: str = "up") -> Array:
    return heddle.cast(x, like.dtype)


@operator("Max", since=6)
def maximum(*arrays: Array) -> Array:
    return functools.reduce(heddle.maximum, arrays)


@operator("Min", since=6)
def minimum(*arrays: Array) -> Array:
    return functools.reduce(heddle.minimum, arrays)


@operator("Sum", since=6)
def add_up(*arrays: Array) -> Array:
    return functools.reduce(heddle.add, arrays)


@operator("Mean", since=6)
def mean(*arrays: Array) -> Array:
    return add_up(*arrays) / len(arrays)


@operator("Pow", since=7)
def power(base: Array, exponent: Array) -> Array:
    return heddle.cast(heddle.power(base, exponent), base.dtype)


@operator("Div", since=7)
def divide(a: Array, b: Array) -> Array:
    if a.dtype.is_floating:
        return heddle.divide(a, b)
    return heddle.floor_divide(a - heddle.fmod(a, b), b)  # division rounded towards 0


@operator("Mod")
def remainder(a: Array, b: Array, *, fmod: int = 0) -> Array:
    return heddle.fmod(a, b) if fmod else heddle.remainder(a, b)


@operator("BitShift")
def bit_shift(x: Array, by: Array, *, direction: str) -> Array:
    return heddle.bitwise_left_shift(x, by) if direction == "LEFT" else heddle.bitwise_right_shift(x, by)


def turned(x: Array) -> Any:
    """The transpose of a matrix, in memory."""
    return heddle.copy(x.T)


def product(x: Array, weight: Array, bias: Array | None = None, *, relu: bool = False) -> Any:
    """x times a matrix (in, out), plus bias (out), then relu."""
    return heddle.linear(x, prepared(turned, weight), bias, relu)


@operator("Gemm", since=7)
def gemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:  # noqa: N803 (names of the specification)
    a, row = a.T if transA else a, (b.shape[0 if transB else 1],)
    if (alpha, beta) == (1, 1) and a.dtype.is_floating and (c is None or c.shape == row) and (transB or is_constant(b)):
        return heddle.linear(a, b if transB else prepared(turned, b), c)
    y = heddle.matmul(a, b.T if transB else b)
    y = y if alpha == 1 else y * alpha
    return y if c is None else y + (c if beta == 1 else c * beta)


@operator("ai.onnx.ml.Binarizer")
def binarizer(x: Array, *, threshold: float = 0.0) -> Array:
    return heddle.cast(x > threshold, x.dtype)


@operator("Einsum", since=12)
def einsum(*arrays: Array, equation: str) -> Array:
    return heddle.einsum(equation, list(arrays))


@operator("Det", since=11)
def det(x: Array) -> Array:
    return heddle.det(x)
