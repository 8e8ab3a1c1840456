"""Operators that compute each element by itself, and linear algebra."""

import functools
import math

import heddle
from heddle import NDArray

from .table import dtype_of, operator

SAME = {
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
SAME_SINCE_7 = {
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
    operator(_name)(_function)
for _name, _function in SAME_SINCE_7.items():
    operator(_name, since=7)(_function)


@operator("Identity")
def identity(x):
    return x


@operator("IsInf")
def is_inf(x, *, detect_negative=1, detect_positive=1):
    if detect_negative and detect_positive:
        return heddle.isinf(x)
    if detect_negative or detect_positive:
        return heddle.equal(x, math.inf if detect_positive else -math.inf)
    return heddle.zeros(x.shape, "bool")


@operator("Shrink")
def shrink(x, *, bias=0.0, lambd=0.5):
    return heddle.where(x < -lambd, x + bias, heddle.where(x > lambd, x - bias, heddle.zeros_like(x)))


@operator("Clip", since=11)
def clip(x, low=None, high=None):
    x = x if low is None else heddle.maximum(x, low)
    return x if high is None else heddle.minimum(x, high)


@operator("Cast", since=6)
def cast(x, *, to, saturate=1, round_mode="up"):
    return heddle.cast(x, dtype_of(to))  # the other attributes only affect dtypes of at most 8 bits


@operator("CastLike")
def cast_like(x, like, *, saturate=1, round_mode="up"):
    return heddle.cast(x, like.dtype)


@operator("Max", since=8)
def maximum(*arrays):
    return functools.reduce(heddle.maximum, arrays)


@operator("Min", since=8)
def minimum(*arrays):
    return functools.reduce(heddle.minimum, arrays)


@operator("Sum", since=8)
def add_up(*arrays):
    return functools.reduce(heddle.add, arrays)


@operator("Mean", since=8)
def mean(*arrays):
    return add_up(*arrays) / len(arrays)


@operator("Pow", since=7)
def power(base, exponent):
    return heddle.cast(heddle.power(base, exponent), base.dtype)


@operator("Div", since=7)
def divide(a, b):
    if a.dtype.is_floating:
        return heddle.divide(a, b)
    return heddle.floor_divide(a - heddle.fmod(a, b), b)  # division rounded towards 0


@operator("Mod")
def remainder(a, b, *, fmod=0):
    return heddle.fmod(a, b) if fmod else heddle.remainder(a, b)


@operator("BitShift")
def bit_shift(x, by, *, direction):
    return heddle.bitwise_left_shift(x, by) if direction == "LEFT" else heddle.bitwise_right_shift(x, by)


@operator("Gemm", since=7)
def gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):  # noqa: N803 (names of the specification)
    product = heddle.matmul(a.T if transA else a, b.T if transB else b)
    product = product if alpha == 1 else product * alpha
    return product if c is None else product + (c if beta == 1 else c * beta)


@operator("ai.onnx.ml.Binarizer")
def binarizer(x, *, threshold=0.0):
    return heddle.cast(x > threshold, x.dtype)


@operator("Einsum", since=12)
def einsum(*arrays, equation):
    return heddle.einsum(equation, list(arrays))


@operator("Det", since=11)
def det(x):
    return heddle.det(x)
