"""ONNX's node cases on the backend over heddle, and the backend itself."""

import pathlib
import subprocess
import sys

import numpy as np
import onnx.parser
import onnx.reference
import pytest
from onnx.backend.test.case.test_case import TestCase
from onnx_backend import TABLE, HeddleBackend, HeddleModel, Missing, cases, missing, native, report

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
    assert not TABLE.keys() - used - cases.RANDOM  # a test below covers RANDOM


@pytest.mark.parametrize("name", sorted(TABLE))
def test_attributes_have_the_names_and_defaults_of_the_specification(name):
    domain, _, own_name = name.rpartition(".")
    schema = onnx.defs.get_schema(own_name, domain)
    known = {
        attribute
        for version in onnx.defs.get_all_schemas_with_history()
        if version.name == own_name and version.domain == domain
        for attribute in version.attributes
    }
    for attribute, default in TABLE[name].attributes.items():
        assert attribute in known, f"{attribute} is no attribute of {name}"
        if attribute in schema.attributes and schema.attributes[attribute].default_value.name:
            wanted = onnx.helper.get_attribute_value(schema.attributes[attribute].default_value)
            wanted = wanted.decode() if isinstance(wanted, bytes) else wanted
            wanted = tuple(text.decode() for text in wanted) if isinstance(wanted, list) else wanted
            assert default == (pytest.approx(wanted) if isinstance(wanted, float) else wanted), attribute


@pytest.mark.parametrize("operator", native.OPERATORS)
def test_cases_run_by_operators_of_heddle_without_compositions(operator):
    composed = native.composed(operator)
    assert composed.keys() == native.known(operator).keys(), composed


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
    )  # exceeds `exact` by up to 8.6e-4, `near` by up to 9.6e-4
    assert result(near, 1e-5).passed
    assert result(above, 9e-4).missing == (cases.ROUNDING,)
    assert result(above, 8e-4).error
    assert result(near * 2, 9e-4).error
    monkeypatch.setitem(TABLE, "Mul", TABLE["Add"])  # a wrong result in f64 as well
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
    with pytest.raises(ValueError, match=r"2 inputs; want 1: x: f32 \(n, 3\)"):
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
    inner = parse(LOOP.replace("Identity(b)", "DFT(b)"))
    assert missing(inner) == ["operator DFT"]


def test_what_is_missing_is_said_before_anything_runs():
    model = parse("(complex64[2] x) => (float[2] z) { y = Cast<to = 1>(x)  z = DFT(y) }")
    assert missing(model) == ["dtype complex64", "operator DFT"] and not HeddleBackend.is_compatible(model)
    with pytest.raises(Missing, match="dtype complex64: value 'x'\n  operator DFT: node 'z'") as error:
        HeddleBackend.prepare(model)
    assert error.value.what == ("dtype complex64", "operator DFT")
    assert missing(parse("(float[2, 2, 2] x) => (float[a, b, c] y) { y = STFT(x, x) }", 20)) == ["operator STFT"]
    assert missing(parse("(float[2] x) => (float[2] y) { y = Elu(x) }", 5)) == ["operator Elu before opset 6"]
    with pytest.raises(Missing, match="device CUDA:0"):
        HeddleBackend.prepare(model, "CUDA:0")


def test_options_that_an_entry_refuses():
    node, x = "y = RNN<hidden_size = 1, {option}>(x, x, x)", np.ones((1, 1, 1), np.float32)
    with pytest.raises(Missing, match="RNN with activation Cube"):
        text = node.format(option='activations = ["Cube"]')
        HeddleBackend.run_model(parse(f"(float[1, 1, 1] x) => (float[1, 1, 1, 1] y) {{ {text} }}"), [x])


def test_integers_are_divided_exactly():
    division = parse("(int64[2] x, int64[2] y) => (int64[2] z) { z = Div(x, y) }")
    x = np.array([2**53 - 1, -(2**53)], np.int64)
    (z,) = HeddleBackend.run_model(division, [x, np.array([3, 3], np.int64)])
    assert z.tolist() == [(2**53 - 1) // 3, -(2**53 // 3)]
    (z,) = HeddleBackend.run_model(division, [x + 2, x])  # larger than floats represent
    assert z.tolist() == [1, 0]


# Options that no case of ONNX covers, compared with ONNX's reference: an operator with attributes, and its inputs.
F, I, INDICES = np.float32, np.int64, np.array([[2, 0, 2, 2]])
SEQUENCE = [np.ones(shape, F) * np.linspace(-1, 1, shape[-1], dtype=F) for shape in ((3, 2, 4), (1, 9, 4), (1, 9, 3))]
OPTIONS = {
    "ScatterElements<axis = 0, reduction = 'mul'>": [np.full((3, 5), 2, F), INDICES, F([[2, 3, 5, 7]])],
    "ScatterElements<axis = 1, reduction = 'mul'>": [np.ones((2, 4), F), INDICES - 1, F([[2, 3, 5, 7]])],
    "Unique<axis = 0, sorted = 0>": [F([[3, 0], [1, 2], [3, 0], [1, 1]])],
    "CumProd<exclusive = 1, reverse = 1>": [F([[1, 2, 3], [4, 5, 6]]), np.int64(-2)],
    "ConvTranspose<strides = [2, 1], pads = [1, 0, 0, 2], dilations = [1, 2]>": [
        *(np.cos(np.arange(np.prod(shape), dtype=F)).reshape(shape) for shape in ((2, 4, 3, 4), (4, 3, 2, 2), (3,)))
    ],
    "Conv<strides = [2, 1, 1], pads = [1, 0, 0, 0, 0, 2], dilations = [1, 1, 2], group = 2>": [
        np.sin(np.arange(480, dtype=F)).reshape(2, 4, 3, 4, 5),
        np.cos(np.arange(96, dtype=F)).reshape(6, 2, 2, 2, 2),
        np.arange(6, dtype=F),
    ],
    "Resize<mode = 'cubic', antialias = 1, axes = [1]>": [np.sin(np.arange(28, dtype=F))[None], None, F([0.4])],
    "Resize<mode = 'linear', exclude_outside = 1>": [F([[1, 5, 2], [3, 3, 9]]), None, F([1.5, 0.7])],
    "GridSample<mode = 'cubic', padding_mode = 'reflection'>": [
        np.sin(np.arange(48, dtype=F)).reshape(2, 2, 3, 4),
        np.linspace(-1.9, 1.7, 24, dtype=F).reshape(2, 2, 3, 2),
    ],
    "DeformConv<group = 2, strides = [1, 2]>": [
        np.sin(np.arange(64, dtype=F)).reshape(1, 4, 4, 4),
        np.cos(np.arange(32, dtype=F)).reshape(4, 2, 2, 2),
        np.linspace(-1, 1, 48, dtype=F).reshape(1, 8, 3, 2),
    ],
    "GRU<hidden_size = 3, linear_before_reset = 1>": SEQUENCE,
    "GRU<hidden_size = 3>": SEQUENCE,
    "TopK<axis = 0, largest = 0>": [F([[3, 1], [1, 1], [2, 0]]), I([2])],
    "QuantizeLinear<axis = 0>": [F([[-1, 300, 0.5], [1.5, 2.5, -999]]), F([1, 0.5]), np.int8([1, -1])],
}


@pytest.mark.parametrize("node", OPTIONS)
def test_options_of_no_case_as_in_the_reference(node):
    arrays = OPTIONS[node]
    given = [(f"x{i}", x) for i, x in enumerate(arrays) if x is not None]
    types = {"float32": "float", "float64": "double"}
    inputs = ", ".join(f"{types.get(x.dtype.name, x.dtype.name)}{list(np.shape(x)) or ''} {name}" for name, x in given)
    names = ", ".join('""' if x is None else f"x{i}" for i, x in enumerate(arrays))
    count = len(onnx.defs.get_schema(node.partition("<")[0]).outputs)
    outputs = [f"y{i}" for i in range(count)]
    text = ", ".join(outputs) + f" = {node} ({names})".replace("'", '"')
    model = parse(f"({inputs}) => ({', '.join('float ' + name for name in outputs)}) {{ {text} }}", 20)
    wanted = onnx.reference.ReferenceEvaluator(model).run(None, {name: x for name, x in given})
    computed = HeddleModel(model).run([x for _, x in given])
    for a, b in zip(computed, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_sequences_of_several_lengths():
    """Each sequence of a batch has the same result as alone, in both directions."""
    node = 'LSTM<hidden_size = 3, direction = "bidirectional">'
    model = parse(
        "(float[n, m, 4] x, float[2, 12, 4] w, float[2, 12, 3] r, float[2, 24] b, int32[m] n) => "
        f"(float[n, 2, m, 3] y, float[2, m, 3] h, float[2, m, 3] c) {{ y, h, c = {node}(x, w, r, b, n) }}"
    )
    random = np.random.default_rng(1)
    x, w, r, b = (random.normal(size=shape).astype(F) for shape in ((5, 3, 4), (2, 12, 4), (2, 12, 3), (2, 24)))
    lengths = np.array([5, 2, 3], np.int32)
    y, *states = HeddleBackend.run_model(model, [x, w, r, b, lengths])
    for i, length in enumerate(lengths):
        alone, *last = HeddleBackend.run_model(model, [x[:length, i : i + 1], w, r, b, lengths[i : i + 1]])
        np.testing.assert_allclose(y[:length, :, i], alone[:, :, 0], rtol=1e-5)
        assert not y[length:, :, i].any()
        for state, wanted in zip(states, last, strict=True):
            np.testing.assert_allclose(state[:, i], wanted[:, 0], rtol=1e-5)


def recurrent_model(kind, attributes, lengths=True, directions=1):
    rows = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind] * 3
    outputs = "y, h, c" if kind == "LSTM" else "y, h"
    types = ", ".join(f"float {one}" for one in outputs.split(", "))
    inputs = f"float[n, m, 4] x, float[{directions}, {rows}, 4] w, float[{directions}, {rows}, 3] r"
    more, given = (", int32[k] n", ', "", n') if lengths else ("", "")
    return parse(f"({inputs}{more}) => ({types}) {{ {outputs} = {kind}<hidden_size = 3{attributes}> (x, w, r{given}) }}")


def recurrent_inputs(kind, steps=4, batch=2, directions=1):
    random, rows = np.random.default_rng(1), {"RNN": 1, "GRU": 3, "LSTM": 4}[kind] * 3
    return [random.normal(size=s).astype(F) for s in ((steps, batch, 4), (directions, rows, 4), (directions, rows, 3))]


@pytest.mark.parametrize("attributes", ["", ", clip = 0.5", ', clip = 0.5, direction = "reverse"'])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_lengths_of_sequences_are_checked(kind, attributes):
    model, given = recurrent_model(kind, attributes), recurrent_inputs(kind)
    for lengths, message in (
        ([5, 1], r"lengths\[0\] is 5; want 0 to 4"),
        ([1, -1], r"lengths\[1\] is -1; want 0 to 4"),
        ([1], r"want integers \(2,\)"),
    ):
        with pytest.raises(heddle.Error, match=message):
            HeddleBackend.run_model(model, [*given, np.array(lengths, np.int32)])
    y, h, *_ = HeddleBackend.run_model(model, [*given, np.array([0, 4], np.int32)])
    assert not y[:, :, 0].any() and not h[:, 0].any() and y[:, :, 1].all()


@pytest.mark.parametrize("attributes", ["", ", clip = 0.5", ', clip = 0.5, direction = "bidirectional"'])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_sequences_without_steps(kind, attributes):
    directions = 2 if "bi" in attributes else 1
    model = recurrent_model(kind, attributes, lengths=False, directions=directions)
    y, *states = HeddleBackend.run_model(model, recurrent_inputs(kind, steps=0, directions=directions))
    assert y.shape == (0, directions, 2, 3)
    assert all(state.shape == (directions, 2, 3) and not state.any() for state in states)


def test_activations_of_any_case_and_bad_options_of_recurrent_operators():
    given = recurrent_inputs("LSTM")
    plain = HeddleBackend.run_model(recurrent_model("LSTM", "", lengths=False), given)
    same = recurrent_model("LSTM", ', activations = ["sigmoid", "TANH", "tanh"]', lengths=False)
    for a, b in zip(HeddleBackend.run_model(same, given), plain, strict=True):
        np.testing.assert_array_equal(a, b)
    y, h = HeddleBackend.run_model(recurrent_model("RNN", ", clip = 0.0", lengths=False), recurrent_inputs("RNN"))
    assert not y.any() and not h.any()
    for attributes, message in (
        (', activations = ["Sigmoid", "Tanh"]', r"activations are \['Sigmoid', 'Tanh'\]; want 3, 3 a direction"),
        (", clip = -1.0", r"clip is -1.0; want 0 or more"),
    ):
        with pytest.raises(heddle.InvalidArgument, match=message):
            HeddleBackend.run_model(recurrent_model("LSTM", attributes, lengths=False), given)


ACTIVATIONS = {  # of arrays, with alpha and beta
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "Softsign": lambda x, a, b: x / (1 + abs(x)),
    "Softplus": lambda x, a, b: np.log1p(np.exp(x)),
    "LeakyRelu": lambda x, a, b: np.where(x < 0, a * x, x),
    "ThresholdedRelu": lambda x, a, b: np.where(x > a, x, 0),
    "Elu": lambda x, a, b: np.where(x < 0, a * np.expm1(x), x),
    "Affine": lambda x, a, b: a * x + b,
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
}
TAKES = {"LeakyRelu": 1, "ThresholdedRelu": 1, "Elu": 1, "Affine": 2, "ScaledTanh": 2, "HardSigmoid": 2}
RECURRENT = [  # an operator, its options, and its activations in one direction
    ("RNN", "", ["Tanh"]),
    ("RNN", "clip = 0.5", ["Relu"]),
    *(("RNN", "", [name]) for name in ACTIVATIONS),
    ("GRU", "linear_before_reset = 0", ["Sigmoid", "Tanh"]),
    ("GRU", "linear_before_reset = 1", ["Sigmoid", "Tanh"]),
    ("GRU", "linear_before_reset = 0, clip = 0.7", ["Sigmoid", "Tanh"]),
    ("GRU", "linear_before_reset = 1", ["HardSigmoid", "Softsign"]),
    ("LSTM", "", ["Sigmoid", "Tanh", "Tanh"]),
    ("LSTM", "input_forget = 1", ["Sigmoid", "Tanh", "Tanh"]),
    ("LSTM", "clip = 0.6", ["Sigmoid", "Tanh", "Tanh"]),
    ("LSTM", "input_forget = 1, clip = 0.9", ["HardSigmoid", "ScaledTanh", "Affine"]),
]


def recurrent_oracle(kind, options, functions, x, w, r, b, h, c, p):
    """One direction of a node, for x (steps, batch, features): the output, and the last states."""
    hidden, clip = r.shape[1], options.get("clip", np.inf)
    f, g = (*[lambda z, of=of: of(np.clip(z, -clip, clip)) for of in functions], None)[:2]
    wb, rb = b.reshape(2, -1)
    outputs = []
    for now in x:
        part = lambda m, i: m[..., i * hidden : (i + 1) * hidden]
        a, u = now @ w.T + wb, h @ r.T + rb
        if kind == "RNN":
            h = f(a + u)
        elif kind == "GRU":
            z, reset = f(part(a, 0) + part(u, 0)), f(part(a, 1) + part(u, 1))
            before = (reset * h) @ r[2 * hidden :].T + rb[2 * hidden :]
            new = g(part(a, 2) + (reset * part(u, 2) if options.get("linear_before_reset") else before))
            h = (1 - z) * new + z * h
        else:
            pi, po, pf = p.reshape(3, -1)
            i = f(part(a, 0) + part(u, 0) + pi * c)
            keep = 1 - i if options.get("input_forget") else f(part(a, 2) + part(u, 2) + pf * c)
            c = keep * c + i * g(part(a, 3) + part(u, 3))
            h = f(part(a, 1) + part(u, 1) + po * c) * functions[2](c)  # not clipped, as in onnxruntime
        outputs.append(h)
    return np.stack(outputs), h, c


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind, options, names", RECURRENT)
def test_options_of_recurrent_networks(kind, options, names, direction):
    random, count = np.random.default_rng(3), 2 if direction == "bidirectional" else 1
    gates, hidden, steps, batch = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], 3, 4, 2
    alphas = [0.3 + 0.1 * i for i in range(sum(TAKES.get(name, 0) > 0 for name in names * count))]
    betas = [0.4 - 0.1 * i for i in range(sum(TAKES.get(name, 0) > 1 for name in names * count))]
    given = [random.normal(size=s).astype(F) for s in (
        (steps, batch, 2), (count, gates * hidden, 2), (count, gates * hidden, hidden), (count, 2 * gates * hidden),
        *[(count, batch, hidden)] * (2 if kind == "LSTM" else 1), *[(count, 3 * hidden)] * (kind == "LSTM"),
    )]  # fmt: skip
    attributes = [f"hidden_size = {hidden}", f'direction = "{direction}"']
    attributes += ["activations = [" + ", ".join(f'"{name}"' for name in names * count) + "]"]
    attributes += [options] if options else []
    attributes += [f"activation_alpha = {alphas}"] if alphas else []
    attributes += [f"activation_beta = {betas}"] if betas else []
    inputs = ["x", "w", "r", "b", '""', "h", "c", "p"][: len(given) + 1]
    types = ", ".join(
        f"float{list(a.shape)} {name}" for a, name in zip(given, [i for i in inputs if i != '""'], strict=True)
    )
    outputs = ["y", "yh", "yc"][: 3 if kind == "LSTM" else 2]
    model = parse(
        f"({types}) => ({', '.join('float ' + name for name in outputs)}) "
        f"{{ {', '.join(outputs)} = {kind}<{', '.join(attributes)}>({', '.join(inputs)}) }}",
        20,
    )
    found = HeddleModel(model).run(given)
    read = {name: float(value) for name, _, value in (one.partition(" = ") for one in options.split(", ") if one)}
    x, w, r, b, h, *more = (a.astype(np.float64) for a in given)
    wanted, rest = [], (iter(alphas), iter(betas))
    for i in range(count):
        functions = []
        for name in names:
            numbers = [next(rest[j]) if TAKES.get(name, 0) > j else None for j in (0, 1)]
            functions.append(lambda z, of=ACTIVATIONS[name], n=numbers: of(z, *n))
        turn = slice(None, None, -1 if direction == "reverse" or i else 1)
        cell = [m[i] for m in more] or [None, None]
        y, *last = recurrent_oracle(kind, read, functions, x[turn], w[i], r[i], b[i], h[i], *cell)
        wanted.append([y[turn], *last[: len(outputs) - 1]])
    for j, name in enumerate(outputs):
        expected = np.stack([one[j] for one in wanted], 1 if name == "y" else 0)
        np.testing.assert_allclose(found[j], expected, rtol=1e-4, atol=1e-5)


RANDOM = {  # an operator with attributes: the expected mean
    "RandomUniform<shape = [40, 50], low = 2.0, high = 4.0, SEED>": 3,
    "RandomUniformLike<dtype = 11, SEED>(x)": 0.5,
    "RandomNormal<shape = [40, 50], mean = 3.0, scale = 2.0, SEED>": 3,
    "RandomNormalLike<mean = -1.0, SEED>(x)": -1,
    "Multinomial<sample_size = 50, SEED>(x)": 1,  # mean of the numbers 0, 1 and 2
    "Bernoulli<dtype = 11, SEED>(p)": 0.25,
    "Dropout<SEED>(p, p1, t)": 0.25,
}


def test_random_numbers():
    assert cases.RANDOM <= {node.partition("<")[0] for node in RANDOM}
    x, p, p1, t = np.zeros((40, 3), F), np.full((40, 50), 0.25, F), np.float32(0.5), np.bool_(True)
    inputs = "float[40, 3] x, float[40, 50] p, float p1, bool t"
    for node, mean in RANDOM.items():
        seeds = ("seed = 1.0", "seed = 1.0", "seed = 2.0")
        nodes = [node.replace("SEED", seed) + ("" if "(" in node else "()") for seed in seeds]
        text = "  ".join(f"y{i} = {node}" for i, node in enumerate(nodes))
        model = parse(f"({inputs}) => (float[a, b] y0, float[a, b] y1, float[a, b] y2) {{ {text} }}", 22)
        y, again, other = HeddleModel(model).run([x, p, p1, t])
        assert (y == again).all() and (y != other).any(), node
        assert y.mean() == pytest.approx(mean, abs=0.15), node
        assert y.dtype == np.float64 if "dtype" in node else y.dtype in (np.float32, np.int32), node


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

    done = command("Abs", "DFT", "--cases")
    assert done.returncode == 0, done.stderr
    assert "test_abs: passes" in done.stdout and "test_dft: needs operator DFT" in done.stdout
    assert "Conv MaxPool --cases" in command("--help").stdout
    assert "no cases for 'conv'" in command("conv").stderr
