"""What the cases are made of."""
import dataclasses
import math
import subprocess
from typing import Any

import numpy as np

# Each makes a strided view of a contiguous array; the driver has the same names.
VIEWS = {
    "transposed": lambda x: x.transpose(),
    "reversed": lambda x: x[..., ::-1],
    "strided": lambda x: x[::2],
    "indexed": lambda x: x[-1],
    "tail": lambda x: x[1:],
    "columns": lambda x: x[..., 1:],
}
DTYPES = [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_, np.float16, np.int8, np.int16, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float32, np.float64, np.float16]


def sum_dtype(dtype):
    """The dtype of sums and products."""
    if dtype in FLOATS:
        return dtype
    return np.uint64 if np.issubdtype(dtype, np.unsignedinteger) else np.int64


def numpy_dtype(name):
    """The dtype with this name of Heddle's; None for bf16, which NumPy does not have."""
    if name == "bf16":
        return None
    kind, width = name.rstrip("0123456789"), name.lstrip("abcdefghijklmnopqrstuvwxyz")
    return np.dtype({"f": "float", "i": "int", "u": "uint"}.get(kind, kind) + width).type


@dataclasses.dataclass
class Expression:
    """The NumPy expression of an operator on elements, from the registry of operators."""
    arguments: list  # names
    dtypes: list  # that the operator takes
    result: str  # the rule for its dtype, in words
    low: float  # range of valid elements: from low to high
    high: float
    text: str

    def __call__(self, *values):
        return eval(self.text, {"np": np, "math": math, **dict(zip(self.arguments, values, strict=True))})


EXPRESSIONS = {}  # by operator name


def load_expressions(driver):
    run = subprocess.run([driver, "--expressions"], capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        name, arguments, dtypes, result, low, high, text = line.split("\t")
        known = [dtype for dtype in map(numpy_dtype, dtypes.split(",")) if dtype]
        EXPRESSIONS[name] = Expression(arguments.split(","), known, result, float(low), float(high), text)


def expressions(operands, result=""):
    """The expressions of operators with so many operands, whose rule for the dtype begins so."""
    return {name: one for name, one in EXPRESSIONS.items() if len(one.arguments) == operands and one.result.startswith(result)}


@dataclasses.dataclass
class Case:
    operator: str
    inputs: list  # arrays, or pairs (array, name of a view)
    expected: Any  # None: the operator must raise an error
    attributes: dict = dataclasses.field(default_factory=dict)
    scale: float = 0.0  # size of terms that may cancel in a sum; the tolerance of f32 and f64 is relative to it


def seen(given):
    """The array of an input, after its views. Names of views are joined by "+"."""
    if not isinstance(given, tuple):
        return given
    array, views = given
    for view in views.split("+"):
        array = VIEWS[view](array)
    return array


def random(rng, shape, dtype, low=-4.0, high=4.0):
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0 if np.issubdtype(dtype, np.unsignedinteger) else -9, 10, shape).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)


def strided(rng, shape, dtype, **limits):
    """Inputs of this shape in every memory layout: contiguous arrays and pairs (array, view)."""
    yield random(rng, shape, dtype, **limits)
    if len(shape) > 1:
        yield random(rng, shape[::-1], dtype, **limits), "transposed"
    if len(shape) > 0:
        yield random(rng, shape, dtype, **limits), "reversed"
        yield random(rng, (2 * shape[0], *shape[1:]), dtype, **limits), "strided"
