#!/usr/bin/env python3
"""The two spellings of docs/from_numpy.md, NumPy's and Heddle's, evaluated and compared.

  numpy_page.py generate PAGE OUT.cc           a program that evaluates all Heddle spellings and writes their results
  numpy_page.py check PAGE OPERATORS PROGRAM   runs it, evaluates the NumPy spellings, and compares each pair
  numpy_page.py self-test                      plants faults in pairs and looks whether they are found

A row of a table whose first columns are called "NumPy" and "Heddle" has as many pieces of code on one side as on the other. The
page's one block in C++ and its one in Python make the arrays, anew for each piece. A piece that changes something in place
changes `a`; one that saves a file changes that file. Shapes, dtypes and values must be equal, and both results must be views of
`a` or neither. The third column says what differs, in words that are checked too:

  `f32, not f64`       the dtype is the first, and NumPy's the second
  a view, not a copy   or the other way round
  signs may differ     of vectors, so sizes are compared

Pieces that draw from `rng` must have one shape and look like draws from one distribution. Each operator of the page OPERATORS
must have a NumPy spelling there, which the test operators.numpy evaluates, or be in a Heddle spelling, or in WITHOUT below.
"""
import ast
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import namedtuple

Pair = namedtuple("Pair", "line index numpy heddle remark")

# The C++ spelling of an operator, if it is not the operator's name followed by a parenthesis.
SPELLINGS = {"std": "stddev(", "add_": "+= ", "subtract_": "-= ", "multiply_": "*= ", "divide_": "/= ", "remainder_": "%= ", "bitwise_and_": "&= ", "bitwise_or_": "|= ", "bitwise_xor_": "^= ",
    "bitwise_left_shift_": "<<= ", "bitwise_right_shift_": ">>= ", "assign_": ".assign(",
             "fill_": ".fill(", "remainder_": "%= ", "bitwise_and_": "&= ", "bitwise_or_": "|= ", "bitwise_xor_": "^= ",
             "bitwise_left_shift_": "<<= ", "bitwise_right_shift_": ">>= "}
WITHOUT_FAMILIES = {"Neural networks", "Normalisation", "Losses", "Row-sparse arrays", "Layers", "Attention", "Recurrent networks"}  # except operators that have a row
WITHOUT = {"digamma", "lu", "expm", "truncated_normal",  # in SciPy, not in NumPy
           "copy_to"}  # NumPy has only one device

PROLOGUE = """#include <array>
#include <cmath>
#include <fstream>
#include <iostream>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <heddle/heddle.h>
using namespace heddle;

namespace {

struct File {};

struct Output {
  std::string name;
  const NDArray& a;
  int parts = 0;

  void operator()(const NDArray& x) {
    save_npy("result." + name + "." + std::to_string(parts++) + ".npy", contiguous(x));
    if (x.storage() == a.storage()) std::ofstream("result." + name + ".view");
  }
  void operator()(const std::vector<NDArray>& list) { for (const NDArray& x : list) (*this)(x); }
  template <std::size_t N> void operator()(const std::array<NDArray, N>& list) { for (const NDArray& x : list) (*this)(x); }
  void operator()(const Dims& dims) {
    (*this)(array(std::vector<std::int64_t>(dims.begin(), dims.end()), {dims.size()}));
  }
  void operator()(DType dtype) { (*this)(zeros({0}, dtype)); }
  void operator()(const std::string& text) { (*this)(std::vector<std::uint8_t>(text.begin(), text.end())); }
  void operator()(File) {}
  template <class T> void operator()(const std::vector<T>& values) {
    (*this)(array(values, {static_cast<std::int64_t>(values.size())}));
  }
  template <class T> requires std::is_arithmetic_v<T> void operator()(T value) {
    constexpr DType kType = std::is_same_v<T, bool> ? DType::boolean : std::is_integral_v<T> ? DType::i64 : DType::f64;
    (*this)(full({}, value, kType));
  }
};

template <class Row> void evaluate(const char* name) {
  Row row;
  Output output{name, row.a};
  try {
    output(row.run());
  } catch (const std::exception& error) {
    std::cout << name << " " << error.what() << std::endl;
  }
}
"""


def rows(text):
    """Yields (line, NumPy's pieces, Heddle's pieces, remark) of each row of the tables of spellings."""
    in_table = False
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("|"):
            in_table = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if cells[:2] == ["NumPy", "Heddle"]:
            in_table = True
        elif in_table and not re.fullmatch(r"[-: ]*", cells[0]):
            pieces = [re.findall(r"`([^`]+)`", cell.replace("\\|", "|")) for cell in cells[:2]]
            yield number, *pieces, cells[2] if len(cells) > 2 else ""


def pairs(text):
    found = []
    for line, numpy, heddle, remark in rows(text):
        if len(numpy) != len(heddle) or not numpy:
            sys.exit(f"line {line}: {len(numpy)} pieces of NumPy and {len(heddle)} of Heddle")
        found += [Pair(line, index, *both, remark) for index, both in enumerate(zip(numpy, heddle))]
    return found


def block(text, language):
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        sys.exit(f"{len(found)} blocks in {language}; there must be one")
    return found[0]


def changed_by(statement):
    """The array that a statement changes."""
    return re.match(r"\w+", statement)[0]


def result_of(heddle):
    """The statements that give the result of a Heddle spelling."""
    if heddle.startswith("save_"):
        return f"{heddle}; return File{{}};"
    # designated initialisers such as {.begin = 1} are not assignments
    if re.search(r"\.(assign|fill)\(| ([-+*/%&|^]|<<|>>)?= ", re.sub(r"\{[^{}]*\}", "", heddle)):
        return f"{heddle}; return {changed_by(heddle)};"
    return f"return {heddle};"


def generate(page, text):
    lines = [PROLOGUE, "struct Arrays {", block(text, "cpp"), "};", ""]
    calls = []
    for line, index, _, heddle, _ in pairs(text):
        name = f"{line}_{index}"
        lines += [f"struct Row{name} : Arrays {{", f'#line {line} "{page}"', f"  auto run() {{ {result_of(heddle)} }}", "};"]
        calls.append(f'  evaluate<Row{name}>("{name}");')
    return "\n".join([*lines, "", "}  // namespace", "", "int main() {", *calls, "}", ""])


def close(np, one, other):
    if one.dtype.kind in "fc" or other.dtype.kind in "fc":
        single = np.float32 in (one.dtype, other.dtype)
        return np.allclose(one, other, rtol=1e-5 if single else 1e-10, atol=1e-6 if single else 1e-12, equal_nan=True)
    return np.array_equal(one, other)


def alike(np, one, other):
    """The two-sample Kolmogorov-Smirnov test at a significance of 1e-4."""
    places = np.concatenate([one, other])
    below = [np.searchsorted(np.sort(x), places, "right") / x.size for x in (one, other)]
    return np.abs(below[0] - below[1]).max() <= 2.23 * math.sqrt(1 / one.size + 1 / other.size)


def dtype_of(name):
    """NumPy's name of a dtype of Heddle."""
    return re.sub(r"^([fiu])(\d+)$", lambda m: {"f": "float", "i": "int", "u": "uint"}[m[1]] + m[2], name)


def parts_of(np, value):
    """A result of NumPy as arrays."""
    if isinstance(value, (tuple, list)) and any(isinstance(item, (np.ndarray, np.generic)) for item in value) or hasattr(value, "_fields"):
        return [np.asarray(item) for item in value]
    if isinstance(value, np.dtype):
        return [np.empty(0, value)]
    if isinstance(value, str):
        return [np.frombuffer(value.encode(), np.uint8)]
    return [np.asarray(value)]


def evaluate(np, code, arrays):
    """(parts, whether one of them is a view of a) of NumPy's spelling."""
    scope = {"np": np, "math": math}
    exec(arrays, scope)  # pylint: disable=exec-used
    try:
        value = eval(compile(ast.parse(code, mode="eval"), code, "eval"), scope)  # pylint: disable=eval-used
        if value is None:
            value = scope["a"]
    except SyntaxError:
        exec(code, scope)  # pylint: disable=exec-used
        value = scope[changed_by(code)]
    parts = parts_of(np, value)
    views = value if isinstance(value, (tuple, list)) else [value]
    return parts, any(isinstance(part, np.ndarray) and np.may_share_memory(part, scope["a"]) for part in views)


def compare(np, pair, ours, theirs, views):
    """The problem of a pair, or None. views: whether ours and theirs are views of `a`."""
    if len(ours) != len(theirs):
        return f"{len(ours)} arrays, NumPy {len(theirs)}"
    said = re.search(r"`(\w+), not (\w+)`", pair.remark)
    for one, other in zip(ours, theirs):
        if one.shape != other.shape:
            return f"shape {one.shape}, NumPy {other.shape}"
        want = tuple(map(dtype_of, said.groups())) if said else (other.dtype.name, other.dtype.name)
        if (one.dtype.name, other.dtype.name) != want:
            return f"dtype {one.dtype}, NumPy {other.dtype}"
        if "rng" in pair.numpy:
            if not alike(np, one.ravel(), other.ravel()):
                return "another distribution"
        elif not close(np, *map(np.abs if "signs may differ" in pair.remark else np.asarray, (one, other))):
            return f"values\n{one}\nNumPy\n{other}"
    want = {"a view, not a copy": (True, False), "a copy, not a view": (False, True)}
    for words, both in want.items():
        if words in pair.remark:
            return None if views == both else f"{words} was said, but views are {views}"
    return None if views[0] == views[1] else f"is a view: {views[0]}, NumPy {views[1]}"


def faults(np, text, program):
    """What is wrong with the page's pairs."""
    arrays, found = block(text, "python"), []
    with tempfile.TemporaryDirectory() as folder:
        ours_at, theirs_at = os.path.join(folder, "heddle"), os.path.join(folder, "numpy")
        os.mkdir(ours_at), os.mkdir(theirs_at)
        done = subprocess.run([os.path.abspath(program)], cwd=ours_at, capture_output=True, text=True, check=False)
        if done.returncode != 0 or done.stdout:
            return [f"{program} ended with {done.returncode}:\n{done.stdout}{done.stderr}"]
        os.chdir(theirs_at)
        for pair in pairs(text):
            theirs, view = evaluate(np, pair.numpy, arrays)
            if pair.heddle.startswith("save_"):
                file = re.search(r'"([^"]+)"', pair.heddle)[1]
                ours, theirs = (read(np, os.path.join(at, file)) for at in (ours_at, theirs_at))
                views = (False, False)
            else:
                name = os.path.join(ours_at, f"result.{pair.line}_{pair.index}")
                ours = [np.load(f"{name}.{part}.npy") for part in range(100) if os.path.exists(f"{name}.{part}.npy")]
                views = (os.path.exists(name + ".view"), view)
            wrong = compare(np, pair, ours, theirs, views)
            if wrong:
                found.append(f"line {pair.line}: {pair.numpy}  |  {pair.heddle}: {wrong}")
        os.chdir("/")
    return found


def read(np, path):
    """The arrays of a file."""
    loaded = np.loadtxt(path, delimiter=",") if path.endswith(".csv") else np.load(path)
    return [loaded] if isinstance(loaded, np.ndarray) else [loaded[name] for name in sorted(loaded)]


def missing(text, operators):
    """The operators that no spelling has, neither here nor on their own page."""
    spellings, family, found = " ".join(pair.heddle for pair in pairs(text)), "", []
    for line in operators.split("\n"):
        if line.startswith("In NumPy: ") and found and found[-1].endswith(f" {name}"):
            found.pop()
        elif line.startswith("## "):
            family = line[3:]
        elif line.startswith("### ") and family not in WITHOUT_FAMILIES:
            name = line[4:]
            word = SPELLINGS.get(name, name + "(")
            pattern = (r"(?<!\w)" if word[0].isalpha() else "") + re.escape(word)
            if name not in WITHOUT and not re.search(pattern, spellings):
                found.append(f"no spelling has the operator {name}")
    return found


def self_test(np):
    a = np.arange(3.0)
    plain, single = Pair(1, 0, "x", "x", ""), Pair(1, 0, "x", "x", "`f32, not f64`")
    neither, ours_only = (False, False), (True, False)
    cases = [
        (plain, [a], [a], neither, None), (plain, [a], [a + 1e-6], neither, "values"), (plain, [a], [a[:2]], neither, "shape"),
        (plain, [a], [a, a], neither, "arrays"), (plain, [a], [a.astype(int)], neither, "dtype"),
        (plain, [a.astype("f4")], [a], neither, "dtype"), (single, [a.astype("f4")], [a], neither, None),
        (single, [a], [a], neither, "dtype"), (plain, [a], [a], ours_only, "view"),
        (plain._replace(remark="a view, not a copy"), [a], [a], ours_only, None),
        (plain._replace(remark="a view, not a copy"), [a], [a], neither, "view"),
        (plain._replace(remark="signs may differ"), [a], [-a], neither, None),
        (plain._replace(numpy="rng.x"), [np.arange(1000.0)], [np.arange(1000.0)[::-1]], neither, None),
        (plain._replace(numpy="rng.x"), [np.arange(1000.0)], [np.arange(1000.0) + 150], neither, "distribution"),
    ]
    for number, (pair, ours, theirs, views, want) in enumerate(cases):
        got = compare(np, pair, ours, theirs, views)
        if (want is None) != (got is None) or want and want not in got:
            sys.exit(f"self-test {number}: {got}, wanted {want}")
    page = "| NumPy | Heddle |\n|---|---|\n| `a \\| b`, `c` | `abs(a)`, `a += b` |\n"
    if [tuple(pair)[:4] for pair in pairs(page)] != [(3, 0, "a | b", "abs(a)"), (3, 1, "c", "a += b")]:
        sys.exit(f"self-test: {pairs(page)}")
    if missing(page, "## A\n### abs\n### add_\n### bs\n### cs\nIn NumPy: `c`.\n## Layers\n### x\n") != ["no spelling has the operator bs"]:
        sys.exit("self-test: a missing operator is not found")
    print(f"{len(cases) + 2} planted faults are judged as they should be")


def main(arguments):
    if arguments == ["self-test"]:
        import numpy  # pylint: disable=import-outside-toplevel
        return self_test(numpy)
    if len(arguments) < 3 or arguments[0] not in ("generate", "check"):
        sys.exit(__doc__)
    with open(arguments[1], encoding="utf-8") as file:
        text = file.read()
    if arguments[0] == "generate":
        with open(arguments[2], "w", encoding="utf-8") as file:
            file.write(generate(arguments[1], text))
        return None
    import numpy  # pylint: disable=import-outside-toplevel
    with open(arguments[2], encoding="utf-8") as file:
        found = missing(text, file.read())
    found += faults(numpy, text, arguments[3])
    if found:
        sys.exit("\n".join(found))
    print(f"{arguments[1]}: {len(pairs(text))} pairs of spellings give the same")
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
