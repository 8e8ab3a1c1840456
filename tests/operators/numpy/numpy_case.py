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


@dataclasses.dataclass
class Expression:
    """The NumPy expression of an operator of x, from the registry of operators."""
    result: str  # the rule for its dtype, in words
    low: float  # range of valid x: from low to high
    high: float
    text: str

    def __call__(self, x):
        return eval(self.text, {"np": np, "math": math, "x": x})


EXPRESSIONS = {}  # by operator name


def load_expressions(driver):
    run = subprocess.run([driver, "--expressions"], capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        name, result, low, high, text = line.split("\t")
        EXPRESSIONS[name] = Expression(result, float(low), float(high), text)


def expressions(result):
    """The expressions of operators with this rule for the dtype."""
    return {name: one for name, one in EXPRESSIONS.items() if one.result == result}


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
