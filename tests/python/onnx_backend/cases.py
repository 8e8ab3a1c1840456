"""ONNX's node cases: runs them, and counts by operator what passes and what the rest needs."""

import collections
import dataclasses
import functools
import warnings
from collections.abc import Iterable, Sequence

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from .backend import HeddleBackend
from heddle.onnx.definitions import full_name
from heddle.onnx.table import Missing

ROUNDING = "the rounding of NumPy's f16"
RANDOM_NUMBERS = "random numbers that can be compared"
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


@dataclasses.dataclass(frozen=True)
class Result:
    case: str
    operator: str  # the operator that the case tests
    nodes: frozenset[str]  # the operators that the model uses
    missing: tuple[str, ...] = ()  # what the case needs and the backend lacks
    error: str = ""  # why a case fails although nothing is missing

    @property
    def passed(self) -> bool:
        return not self.missing and not self.error


@functools.cache
def node_cases() -> dict[str, list[TestCase]]:
    """The cases by operator. Cases of an operator's definition by others ("_expanded") belong to that operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # warnings of the cases' own arithmetic
        cases = load_model_tests(kind="node")
    operators, by_operator = {}, collections.defaultdict(list)
    for case in cases:
        whole, expanded, _ = case.name.partition("_expanded")
        if not expanded:
            (node,) = case.model.graph.node
            operators[whole] = node.op_type
        by_operator[operators[whole]].append(case)
    return dict(sorted(by_operator.items()))


def array_of(value):
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def draws(case: TestCase, inputs: list[np.ndarray]) -> bool:
    """Whether the case's results depend on random numbers."""
    names = {node.op_type for node in case.model.graph.node}
    return bool(names & RANDOM) or ("Dropout" in names and len(inputs) > 2 and bool(inputs[1] and inputs[2]))


def in_f64(model: ModelProto) -> ModelProto:
    """A copy of the model with f64 in place of f16."""
    wide = ModelProto()
    wide.CopyFrom(model)
    for value in (*wide.graph.input, *wide.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for attribute in (attribute for node in wide.graph.node for attribute in node.attribute):
        if attribute.name in ("to", "dtype") and attribute.i == TensorProto.FLOAT16:
            attribute.i = TensorProto.DOUBLE
        elif attribute.t.data_type == TensorProto.FLOAT16:
            attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(np.float64)))
    return wide


def compare(case: TestCase, inputs: list[np.ndarray], computed: Sequence[np.ndarray], wanted: list[np.ndarray]) -> None:
    """Raises AssertionError unless the outputs are within the case's tolerances of what it wants.

    In f16 these tolerances are one unit in the last place, and the wanted values carry NumPy's rounding of every step.
    Where outputs and wanted values are both within the tolerances of the model in f64, rounding alone sets them apart:
    Missing says so.
    """
    try:
        Runner.assert_similar_outputs(wanted, computed, case.rtol, case.atol)
    except AssertionError:
        if not any(value.dtype == np.float16 for value in wanted):
            raise
        exact = HeddleBackend.run_model(in_f64(case.model), [wider(value) for value in inputs])
        for near in (computed, wanted):
            Runner.assert_similar_outputs(exact, [wider(value) for value in near], case.rtol, case.atol)
        raise Missing(ROUNDING) from None


def wider(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float64) if value.dtype == np.float16 else value


def run_case(operator: str, case: TestCase) -> Result:
    result = Result(case.name, operator, frozenset(map(full_name, case.model.graph.node)))
    try:
        model = HeddleBackend.prepare(case.model)
        for inputs, outputs in case.data_sets:
            arrays, wanted = [array_of(value) for value in inputs], [array_of(value) for value in outputs]
            computed = model.run(arrays)
            if draws(case, arrays):
                assert [(x.shape, x.dtype) for x in computed] == [(x.shape, x.dtype) for x in wanted]
                raise Missing(RANDOM_NUMBERS)
            compare(case, arrays, computed, wanted)
            again = [model.run(arrays) for _ in range(2)][-1]  # by a captured graph, if the model has one
            for first, other in zip(computed, again, strict=True):
                assert first.dtype == other.dtype and first.shape == other.shape, "another call differs"
                assert first.tobytes() == other.tobytes(), "another call differs"
    except Missing as missing:
        return dataclasses.replace(result, missing=missing.what)
    except Exception as error:  # noqa: BLE001 (whatever it is, the case fails with it)
        return dataclasses.replace(result, error=f"{type(error).__name__}: {error}")
    return result


@functools.cache
def results_of(operator: str) -> tuple[Result, ...]:
    return tuple(run_case(operator, case) for case in node_cases()[operator])


def all_results() -> list[Result]:
    return [result for operator in node_cases() for result in results_of(operator)]


def count_missing(results: Iterable[Result]) -> collections.Counter[str]:
    """How many cases need each thing that is missing; the most frequent first."""
    counts = collections.Counter(what for result in results for what in result.missing)
    return collections.Counter(dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))))
