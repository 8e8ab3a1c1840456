#!/usr/bin/env python3
"""Whether every public operator can be called by its name, and docs/operators.md is what the registry says.

Usage: operators_check.py PROGRAM ROOT

PROGRAM is heddle, ROOT the repository. A public operator is a function that the headers of ndarray and operators declare on
arrays, or a member of the classes below that makes, changes or views one.
"""
import collections
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

PROGRAM = ROOT = ""
MODULES = ["ndarray", "operators"]
CLASSES = {"NDArray", "ArrayMembers", "RowSparse", "Generator"}  # not layers and optimizers, which are classes in every language

# Operators whose name differs in C++.
BY_NAME = {
    "operator+": ["add"], "operator-": ["subtract", "negative"], "operator*": ["multiply"], "operator/": ["divide"],
    "operator<": ["less"], "operator<=": ["less_equal"], "operator>": ["greater"], "operator>=": ["greater_equal"],
    "operator==": ["equal"], "operator!=": ["not_equal"], "operator%": ["remainder"],
    "operator&": ["bitwise_and"], "operator|": ["bitwise_or"], "operator^": ["bitwise_xor"], "operator~": ["bitwise_invert"],
    "operator<<": ["bitwise_left_shift"], "operator>>": ["bitwise_right_shift"],  # or prints an array
    "operator&&": ["logical_and"], "operator||": ["logical_or"], "operator!": ["logical_not"],
    "operator+=": ["add_"], "operator-=": ["subtract_"], "operator*=": ["multiply_"], "operator/=": ["divide_"],
    "operator%=": ["remainder_"], "operator&=": ["bitwise_and_"], "operator|=": ["bitwise_or_"], "operator^=": ["bitwise_xor_"],
    "operator<<=": ["bitwise_left_shift_"], "operator>>=": ["bitwise_right_shift_"],
    "pow": ["power"], "ArrayMembers::pow": ["power"], "ArrayMembers::std": ["std"], "ArrayMembers::T": ["transpose"],
    "ArrayMembers::permute": ["transpose"], "ArrayMembers::unsqueeze": ["expand_dims"],
    "max": ["max", "maximum"], "min": ["min", "minimum"], "stddev": ["std"], "add_rows": ["add_rows_"], "sum": ["sum", "sum_row_sparse"],
    "NDArray::assign": ["assign_"], "NDArray::fill": ["fill_"], "NDArray::astype": ["cast"], "NDArray::slice": ["slice"],
    "NDArray::copy": ["copy"], "NDArray::copy_to": ["copy_to"], "NDArray::contiguous": ["contiguous"],
    "NDArray::operator=": ["assign_", "fill_"],
    "NDArray::view_as": ["reshape"], "NDArray::permuted": ["transpose"], "NDArray::broadcast_view": ["broadcast_to"],
    **{f"Generator::{name}": [name] for name in ("uniform", "normal", "bernoulli", "integers", "permutation")},
}
# Number of overloads of a function, default 1: a new overload may need an entry in the registry.
OVERLOADED = {"sum": 2, "retain": 2, "transpose": 2, "array_push": 2, "array": 19, "into": 3, "arange": 2, "max": 3, "min": 3, "operator-": 2, "operator&&": 4, "operator||": 4, "zeros": 2, "ones": 2, "ArrayMembers::reshape": 2, "ArrayMembers::transpose": 2, "ArrayMembers::pow": 2,
              "NDArray::view": 2, "NDArray::item": 2, "NDArray::backward": 2, "operator<<": 2, "from_dlpack": 4, "to_dlpack": 2, "to_dlpack_unversioned": 2,
              "NDArray::operator()": 3,
              "NDArray::NDArray": 3, "NDArray::operator[]": 3, "repeat": 2, "split": 2, "tensordot": 2, "backward": 3, "grad": 2}
TAPE = "the tape: marks and looks at handles, or is for those who write operators"
FILES = "files are no operators: it blocks"
LENT = "memory of other libraries is no operator: bindings have functions of their own"
HANDLE = "a part of the handle"
EXCEPTIONS = {
    "clip_grad_norm": "changes gradients of leaves", "clip_grad_value": "changes gradients of leaves",
    "into": "calls any of them", "call_operator_into": "calls one by its name",
    "array": "copies C++ values: other languages have buffers",
    "array_access": "makes the access list of an op", "array_push": "pushes a C++ function",
    "save_npy": FILES, "load_npy": FILES, "save_safetensors": FILES, "load_safetensors": FILES,
    "save_npz": FILES, "load_npz": FILES, "save_csv": FILES, "load_csv": FILES, "map_npy": FILES, "map_safetensors": FILES,
    "empty_like": "memory whose values are undetermined",
    "block": "concat of concat: no argument of an operator is a list of lists",
    "to_dlpack": LENT, "to_dlpack_unversioned": LENT, "from_dlpack": LENT, "dlpack_device": LENT, "order_before": LENT, "order_after": LENT, "ordered_stream": LENT,
    "set_requires_grad": TAPE, "requires_grad": TAPE, "is_leaf": TAPE, "grad": TAPE, "row_sparse_grad": TAPE, "clear_grad": TAPE,
    "lend_gradient_memory": TAPE, "backward": TAPE, "make_gradient": TAPE, "recording": TAPE, "record": TAPE,
    "on_gradient": TAPE, "save_for_backward": TAPE,
    "record_part": TAPE, "record_rows": TAPE,
    "NDArray::NDArray": "memory whose values are undetermined",
    "NDArray::view": "strides of any kind: bindings take them from other libraries",
    "NDArray::operator[]": "slice and squeeze, take and masked_select", "NDArray::operator()": "slice, squeeze and expand_dims, take and index_put",
    "NDArray::keyed": "slice, squeeze and expand_dims",
    "allclose": "blocks", "ArrayMembers::allclose": "blocks", "NDArray::backward": TAPE, "NDArray::grad": TAPE,
    "NDArray::detach": HANDLE, "NDArray::to_string": "prints", "NDArray::item": "blocks", "NDArray::to_vector": "blocks",
    "RowSparse::RowSparse": HANDLE, "RowSparse::rows": HANDLE, "RowSparse::values": HANDLE, "RowSparse::count": HANDLE,
    "RowSparse::trimmed": "blocks",
}


def call_sites():
    """Imports tools/check_call_sites.py, which parses headers."""
    spec = importlib.util.spec_from_file_location("check_call_sites", os.path.join(ROOT, "tools", "check_call_sites.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def functions_on_arrays(text):
    """The names of the functions on arrays in a header's text, each as often as it is declared."""
    reader = call_sites()
    for owner, name, words in reader.declarations(text):
        if owner == "" and reader.ARRAYS.search(words):
            yield name
        elif owner in CLASSES and (reader.ARRAYS.search(words) or reader.TOLD.search(words)):
            yield f"{owner}::{name}"


def problems(headers, registered):
    """The problems, given the texts of all headers and the names of all operators."""
    declared = collections.Counter(name for text in headers for name in functions_on_arrays(text))
    found, meant = [], set()
    for name, count in sorted(declared.items()):
        if count != OVERLOADED.get(name, 1):
            found.append(f"{name}: {count} functions of this name; operators_check.py expects {OVERLOADED.get(name, 1)}")
        if name in EXCEPTIONS:
            continue
        operators = BY_NAME.get(name, [name.removeprefix("ArrayMembers::")])
        meant.update(operators)
        found += [f"{name}: no operator {one} is registered" for one in operators if one not in registered]
    found += [f"{name}: is registered, but no public header has it" for name in sorted(registered - meant)]
    known = {*EXCEPTIONS, *OVERLOADED, *BY_NAME}
    return found + [f"operators_check.py names {name}; no public header has it" for name in sorted(known - declared.keys())]


def heddle(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True).stdout


def public_headers():
    for module in MODULES:
        for header in sorted(pathlib.Path(ROOT, module, "include").rglob("*.h")):
            text = header.read_text(encoding="utf-8")
            names = re.findall(r"^  X\((\w+), ", text, re.MULTILINE)
            text = re.sub(r"^#define.*(?:(?<=\\)\n.*)*", "", text, flags=re.MULTILINE)
            # A row of a table from which macros make declarations.
            yield text + "".join(f"namespace heddle {{ NDArray {name}(const NDArray& x, Where where = Where::current()); }}\n"
                                 for name in names)


class Operators(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.registered = {op["name"] for op in json.loads(heddle("operators", "--json"))}

    def test_every_public_operator_is_registered(self):
        self.assertEqual(problems(public_headers(), self.registered), [])

    def test_an_operator_that_is_missing_is_found(self):
        header = """namespace heddle { NDArray cube(const NDArray& x, Where where = Where::current());
            NDArray relu(const NDArray& x, int limit, Where where = Where::current());
            class Generator { public: NDArray poisson(Shape shape, Where where = Where::current()); };
            namespace some_detail { NDArray hidden(const NDArray& x); } }"""
        found = problems([*public_headers(), header], self.registered | {"sqare"})
        self.assertEqual(found, ["Generator::poisson: no operator Generator::poisson is registered",
                                 "cube: no operator cube is registered",
                                 "relu: 2 functions of this name; operators_check.py expects 1",
                                 "sqare: is registered, but no public header has it"])

    def test_the_page_is_what_the_program_writes(self):
        with open(os.path.join(ROOT, "docs", "operators.md"), encoding="utf-8") as page:
            self.assertEqual(page.read(), heddle("operators", "--markdown"),
                             "run: heddle operators --markdown >docs/operators.md")

    def test_the_list_has_all_operators_and_what_they_do(self):
        listed = heddle("operators")
        for op in json.loads(heddle("operators", "--json")):
            self.assertIn(f"\n  {op['signature']}\n      {op['documentation']}\n", listed)

    def test_the_page_of_layers_is_what_the_program_writes(self):
        with open(os.path.join(ROOT, "docs", "layers.md"), encoding="utf-8") as page:
            self.assertEqual(page.read(), heddle("layers", "--markdown"), "run: heddle layers --markdown >docs/layers.md")

    def test_layers_are_listed_with_their_shapes(self):
        by_name = {layer["name"]: layer for layer in json.loads(heddle("layers", "--json"))}
        dense = by_name["Dense"]
        self.assertEqual((dense["input"], dense["output"]), ("(batch..., in_features)", "(batch..., out_features)"))
        self.assertEqual([(array["name"], array["shape"], array["condition"]) for array in dense["arrays"]],
                         [("weight", "(out_features, in_features)", ""), ("bias", "(out_features)", "bias")])
        size, *_ = dense["arguments"]
        self.assertTrue(size["required"] and size["takes_none"])
        listed = heddle("layers")
        for layer in by_name.values():
            self.assertIn(f"  {layer['signature']}\n      {layer['documentation']}\n", listed)

    def test_the_page_of_metrics_is_what_the_program_writes(self):
        with open(os.path.join(ROOT, "docs", "prediction_metrics.md"), encoding="utf-8") as page:
            self.assertEqual(page.read(), heddle("metrics", "--markdown"), "run: heddle metrics --markdown >docs/prediction_metrics.md")

    def test_metrics_are_listed_with_what_they_take(self):
        by_name = {metric["name"]: metric for metric in json.loads(heddle("metrics", "--json"))}
        self.assertEqual([one["name"] for one in by_name["Accuracy"]["inputs"] if one["required"]][0], by_name["Accuracy"]["inputs"][0]["name"])
        listed = heddle("metrics")
        for metric in by_name.values():
            self.assertIn(f"{metric['signature']}\n    update({metric['inputs'][0]['name']}", listed)

    def test_json_says_what_bindings_need(self):
        by_name = {op["name"]: op for op in json.loads(heddle("operators", "--json"))}
        pool = {argument["name"]: argument for argument in by_name["avg_pool2d"]["arguments"]}
        self.assertEqual(pool["x"]["dtypes"], ["f32", "f64", "f16", "bf16"])
        self.assertTrue(pool["x"]["required"] and pool["x"]["differentiable"])
        self.assertEqual((pool["kernel_size"]["default"], pool["kernel_size"]["length"]), (2, 2))
        self.assertEqual((pool["stride"]["default"], pool["stride"]["takes_none"]), (None, True))
        self.assertIs(pool["count_include_pad"]["default"], True)
        self.assertEqual(by_name["init_weight"]["arguments"][1]["choices"], ["he", "xavier"])
        self.assertEqual((by_name["add_"]["in_place"], by_name["add_"]["results"]), (True, []))
        self.assertEqual(by_name["retain"]["results"], ["row-sparse array"])
        for op in by_name.values():
            for argument in op["arguments"]:
                self.assertEqual(argument["required"], "default" not in argument)
                self.assertRegex(argument["name"], re.compile(r"^[a-z][a-z0-9_]*$"))

    def test_help_names_the_command_and_both_forms_exclude_each_other(self):
        self.assertIn("heddle operators", heddle("--help"))
        both = subprocess.run([PROGRAM, "operators", "--json", "--markdown"], capture_output=True, text=True, check=False)
        self.assertEqual(both.returncode, 2)
        self.assertIn("--markdown and --json exclude each other", both.stdout + both.stderr)


if __name__ == "__main__":
    PROGRAM, ROOT = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
