"""ONNX's node cases on the backend over heddle, and the backend itself."""

import pathlib
import subprocess
import sys

import numpy as np
import onnx.parser
import pytest
from onnx.backend.test.case.test_case import TestCase
from onnx_backend import TABLE, HeddleBackend, Missing, cases, missing, report

import heddle

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "onnx.md"


def parse(text, opset=18):
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> model {text}')


@pytest.mark.parametrize("operator", cases.node_cases())
def test_node_cases_that_need_nothing_missing_pass(operator):
    errors = [f"{result.case}: {result.error}" for result in cases.results_of(operator) if result.error]
    assert not errors, "\n\n".join(errors)


def test_the_page_counts_what_passes():
    written, current = PAGE.read_text(encoding="utf-8").splitlines(), report.page().splitlines()
    differing = sorted(set(written) ^ set(current))
    assert written == current, "write the page again (python -m onnx_backend --help):\n" + "\n".join(differing)


def test_each_entry_of_the_table_is_in_a_case_that_passes():
    used = {name for result in cases.all_results() if result.passed for name in result.nodes}
    assert not TABLE.keys() - used


@pytest.mark.parametrize("name", sorted(TABLE))
def test_attributes_have_the_names_and_defaults_of_the_specification(name):
    schema = onnx.defs.get_schema(name)
    known = {
        attribute
        for version in onnx.defs.get_all_schemas_with_history()
        if version.name == name and not version.domain
        for attribute in version.attributes
    }
    for attribute, default in TABLE[name].attributes.items():
        assert attribute in known, f"{attribute} is no attribute of {name}"
        if attribute in schema.attributes and schema.attributes[attribute].default_value.name:
            wanted = onnx.helper.get_attribute_value(schema.attributes[attribute].default_value)
            wanted = wanted.decode() if isinstance(wanted, bytes) else wanted
            assert default == (pytest.approx(wanted) if isinstance(wanted, float) else wanted), attribute


def test_a_wrong_result_is_found(monkeypatch):
    (case,) = cases.node_cases()["Abs"]
    assert cases.run_case("Abs", case).passed
    monkeypatch.setitem(TABLE, "Abs", TABLE["Neg"])
    assert "Not equal to tolerance" in cases.run_case("Abs", case).error


def test_f16_is_compared_with_f64_where_rounding_decides(monkeypatch):
    x = np.linspace(1, 2, 50, dtype=np.float16)
    model = parse("(float16[50] x) => (float16[50] y) { y = Mul(x, x) }")

    def result(wanted, rtol):
        return cases.run_case("Mul", TestCase("half", "half", None, None, model, [([x], [wanted])], "node", rtol, 0))

    exact = x.astype(np.float64) ** 2
    near = x * x
    above = np.where(
        near >= exact, near, np.nextafter(near, np.float16(9))
    )  # at most 8.6e-4 from exact, 9.6e-4 from near
    assert result(near, 1e-5).passed
    assert result(above, 9e-4).missing == (cases.ROUNDING,)
    assert result(above, 8e-4).error
    assert result(near * 2, 9e-4).error
    monkeypatch.setitem(TABLE, "Mul", TABLE["Add"])  # wrong in f64 as well
    assert result(near, 9e-4).error


def test_a_model_of_several_nodes():
    model = parse(
        "(float[n, 3] x) => (float[n, 2] y, int64[1] columns) <float[2, 3] w = {1, 2, 3, 4, 5, 6}>"
        "{ h = Gemm<transB = 1>(x, w)  y = LeakyRelu(h)  s = Shape<start = 1>(y)  columns = Identity(s) }"
    )
    y, columns = HeddleBackend.run_model(model, [heddle.array([[1.0, 0, 0], [0, -1, 0]])])
    np.testing.assert_allclose(y, [[1, 4], [-0.02, -0.05]], rtol=1e-6)
    assert columns.tolist() == [2]
    prepared = HeddleBackend.prepare(model, "CPU")
    assert prepared.run([np.zeros((4, 3), np.float32)])[0].shape == (4, 2)
    with pytest.raises(ValueError, match="2 inputs; wanted: 1: x"):
        prepared.run([1, 2])


def test_one_node():
    node = onnx.helper.make_node("Concat", ["a", "b"], ["y"], axis=-1)
    (y,) = HeddleBackend.run_node(node, [np.ones((1, 2), np.int32), np.zeros((1, 1), np.int32)])
    assert y.tolist() == [[1, 1, 0]] and y.dtype == np.int32


LOOP = """(int64 trips, float[2] x) => (float[2] y, float[n, 2] steps) {
  limit = Constant<value_float = 20.0>()
  y, steps = Loop(trips, "", x) <body = twice (int64 i, bool c, float[2] a) => (bool go, float[2] b, float[2] d) {
    b = Add(a, a)  d = Identity(b)  largest = ReduceMax<keepdims = 0>(b)  go = Less(largest, limit)
  }>
}"""


def test_control_flow():
    model, x = parse(LOOP), np.array([1, 2], np.float32)
    y, steps = HeddleBackend.run_model(model, [np.int64(2), x])
    assert y.tolist() == [4, 8] and steps.tolist() == [[2, 4], [4, 8]]
    y, steps = HeddleBackend.run_model(model, [np.int64(99), x])
    assert y.tolist() == [16, 32] and len(steps) == 4
    with pytest.raises(Missing, match="Loop with outputs of no step"):
        HeddleBackend.run_model(model, [np.int64(0), x])
    inner = parse(LOOP.replace("Identity(b)", "Det(b)"))
    assert missing(inner) == ["operator Det"]


def test_what_is_missing_is_said_before_anything_runs():
    model = parse("(uint16[2] x) => (float[2] z) { y = Cast<to = 1>(x)  z = Det(y) }")
    assert missing(model) == ["dtype uint16", "operator Det"] and not HeddleBackend.is_compatible(model)
    with pytest.raises(Missing, match="dtype uint16; operator Det"):
        HeddleBackend.prepare(model)
    assert missing(parse("(float[2] x) => (float[2] y) { y = Bernoulli(x) }", 20)) == ["operator RandomUniformLike"]
    assert missing(parse("(float[2] x) => (float[2] y) { y = Softmax(x) }", 11)) == ["operator Softmax before opset 13"]
    with pytest.raises(Missing, match="device CUDA:0"):
        HeddleBackend.prepare(model, "CUDA:0")


def test_options_that_an_entry_refuses():
    volume = parse("(float[1, 1, 3, 3, 3] x) => (float[1, 1, 1, 1, 1] y) { y = MaxPool<kernel_shape = [3, 3, 3]>(x) }")
    with pytest.raises(Missing, match="MaxPool along 3 axes"):
        HeddleBackend.run_model(volume, [np.zeros((1, 1, 3, 3, 3), np.float32)])
    division = parse("(int64[2] x, int64[2] y) => (int64[2] z) { z = Div(x, y) }")
    x = np.array([2**53 - 1, -(2**53)], np.int64)
    (z,) = HeddleBackend.run_model(division, [x, np.array([3, 3], np.int64)])
    assert z.tolist() == [(2**53 - 1) // 3, -(2**53 // 3)]
    (z,) = HeddleBackend.run_model(division, [x + 2, x])  # beyond what floats hold
    assert z.tolist() == [1, 0]


def test_errors_of_the_model_are_not_missing_things():
    model = parse("(float[2] x, float[3] y) => (float[n] z) { z = Add(x, y) }")
    with pytest.raises(heddle.InvalidArgument, match="add"):
        HeddleBackend.run_model(model, [np.zeros(2, np.float32), np.zeros(3, np.float32)])


def test_the_command(tmp_path):
    def command(*arguments):
        return subprocess.run(
            [sys.executable, "-B", "-m", "onnx_backend", *arguments],
            cwd=pathlib.Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    done = command("Abs", "Det", "--cases")
    assert done.returncode == 0, done.stderr
    assert "test_abs: passes" in done.stdout and "test_det_2d: needs operator Det" in done.stdout
    assert "Conv MaxPool --cases" in command("--help").stdout
    assert "no cases for 'conv'" in command("conv").stderr
