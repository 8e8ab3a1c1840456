"""Operators and layers of networks against what is kept of PyTorch's values. torch_compare.py compares with PyTorch itself."""

import pytest

import torch_cases
from heddle import _heddle
from torch_cases import check

# Families that are compared with NumPy. Many of their operators have a row all the same.
COMPARED_WITH_NUMPY = {
    "Creation", "Elementwise", "Elementwise mathematics", "In place", "Indexing", "Layers", "Linear algebra", "Products", "Random numbers",
    "Reductions", "Row-sparse arrays", "Scans", "Shapes, joining and copies", "Sorting and searching", "Statistics",
}  # fmt: skip
WITHOUT_A_ROW = {
    "ctc_beam_search": "PyTorch has no decoder",
    **{
        name: "compared with sums of integers, in tests/operators/networks/quantized_test.cc"
        for name in ("quantized_linear", "QuantizedDense")
        + tuple(f"{kind}{axes}d" for kind in ("quantized_conv", "QuantizedConv") for axes in (1, 2, 3))
    },
}


@pytest.mark.parametrize("name", torch_cases.TABLE)
def test_values_and_gradients_are_those_of_pytorch(name):
    if not torch_cases.exists(torch_cases.TABLE[name]):
        pytest.skip(f"heddle has no {torch_cases.TABLE[name].needs}")
    assert len(check.kept_lines(name)) == check.KEPT_CASES, f"torch_compare.py --write --operator {name} was not run"
    differences = check.compare_with_kept(name)
    assert not differences, f"{len(differences)} cases:\n" + "\n".join(differences[:5])


def test_every_operator_and_layer_of_networks_has_a_row():
    names = [name for name, *_rest, family in _heddle._operator_table() if family not in COMPARED_WITH_NUMPY]
    names += [name for name, _arguments in _heddle._layer_table()]
    missing = set(names) - set(torch_cases.TABLE) - set(WITHOUT_A_ROW)
    assert not missing, f"tests/python/torch_cases has no row for {sorted(missing)}; table.py says how to add one"
    assert not set(WITHOUT_A_ROW) & set(torch_cases.TABLE)


def test_nothing_is_kept_without_a_row():
    assert {file.stem for file in check.KEPT.glob("*.txt")} <= set(torch_cases.TABLE)


def test_a_wrong_value_is_found():
    seed, line = next((s, v) for s, v in check.kept_lines("softmax").items() if len(v.split()) == 4)
    words = line.split()
    number, mark, exponent = words[2].partition("e")
    wrong = " ".join([*words[:2], f"{int(number) + 4}{mark}{exponent}", words[3]])
    assert check.same_line(line, line) and not check.same_line(line, wrong)
    check.kept_lines("softmax")[seed] = wrong
    try:
        assert [found for found in check.compare_with_kept("softmax") if f"seed {seed}," in found and "gradient" in found]
    finally:
        check.kept_lines("softmax")[seed] = line
