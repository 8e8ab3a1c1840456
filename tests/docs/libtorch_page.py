#!/usr/bin/env python3
"""The spellings of docs/from_libtorch.md, as programs.

  libtorch_page.py generate PAGE SIDE OUT.cc   a program with the page's code of one side: heddle or libtorch
  libtorch_page.py check PROGRAM               runs it in an empty directory
  libtorch_page.py self-test                   looks whether faults of a page are found

A row of a table whose first columns are called "libtorch" and "Heddle" has as many pieces of code on one side as on the other. A
block of code in the language "cpp" is Heddle's, one in "c++" is libtorch's. Blocks with a "struct" stand at file scope, the others
are members of a struct: each piece of code runs as a member function of an object of its own. Tests compile and run Heddle's side.
The other side compiles where libtorch is installed: Debian's package libtorch-dev.
"""
import os
import re
import subprocess
import sys
import tempfile

SIDES = {"heddle": "cpp", "libtorch": "c++"}
PROLOGUE = {
    "heddle": "#include <iostream>\n#include <memory>\n#include <vector>\n\n#include <heddle/heddle.h>\nusing namespace heddle;\n",
    "libtorch": "#include <iostream>\n#include <vector>\n\n#include <torch/torch.h>\n#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>\n",
}


def blocks(text, language):
    """(number of the first line, code) of each block in the language."""
    for match in re.finditer(rf"^```{re.escape(language)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start(1)) + 1, match[1]


def pieces(text):
    """(number of the line, libtorch's pieces, Heddle's pieces) of each row."""
    in_table = False
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("|"):
            in_table = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if cells[:2] == ["libtorch", "Heddle"]:
            in_table = True
        elif in_table and not re.fullmatch(r"[-: ]*", cells[0]):
            yield number, *(re.findall(r"`([^`]+)`", cell.replace("\\|", "|")) for cell in cells[:2])


def generate(page, text, side):
    members, lines, calls = [], [PROLOGUE[side]], []
    for first, code in blocks(text, SIDES[side]):
        (lines if re.search(r"^struct ", code, re.MULTILINE) else members).append(f'#line {first} "{page}"\n{code}')
    lines += ["struct Names {", *members, "};", ""]
    for number, theirs, ours in pieces(text):
        if len(theirs) != len(ours) or not ours:
            sys.exit(f"{page}:{number}: {len(theirs)} pieces of libtorch and {len(ours)} of Heddle")
        for index, piece in enumerate(ours if side == "heddle" else theirs):
            name = f"Piece{number}_{index}"
            lines += [f"struct {name} : Names {{", f'#line {number} "{page}"', f"  void run() {{ {piece.rstrip(';')}; }}", "};"]
            calls.append(f"  {name}().run();")
    return "\n".join([*lines, "", "int main() {", *calls, "}", ""])


def check(program):
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run([os.path.abspath(program)], cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} ended with {done.returncode} after printing\n{done.stdout}{done.stderr}")


def self_test():
    table = "| libtorch | Heddle | |\n|---|---|---|\n"
    page = f"```cpp\nint x = 1;\n```\n```c++\nint y = 1;\n```\n```cpp\nstruct A {{}};\n```\n{table}| `y \\| 2`, `f(y)` | `x + 2`, `g(x);` | `no` |\n"
    ours, theirs = (generate("p.md", page, side) for side in SIDES)
    assert ours.index("struct A {};") < ours.index("struct Names {") < ours.index("int x = 1;") and "int y" not in ours
    assert '#line 2 "p.md"\nint x' in ours and '#line 12 "p.md"\n  void run() { x + 2; }' in ours and "{ g(x); }" in ours
    assert "{ y | 2; }" in theirs and "{ f(y); }" in theirs and "int x" not in theirs and "no" not in ours
    for wrong in ("| `a`, `b` | `c` | |\n", "| a | b | |\n"):
        try:
            generate("p.md", table + wrong, "heddle")
        except SystemExit as error:
            assert "p.md:3: " in str(error)
        else:
            sys.exit(f"self-test: a fault is not found: {wrong}")
    print("faults of a page are found")


def main(arguments):
    if arguments == ["self-test"]:
        self_test()
    elif len(arguments) == 2 and arguments[0] == "check":
        check(arguments[1])
    elif len(arguments) == 4 and arguments[0] == "generate" and arguments[2] in SIDES:
        with open(arguments[1], encoding="utf-8") as file:
            program = generate(arguments[1], file.read(), arguments[2])
        with open(arguments[3], "w", encoding="utf-8") as file:
            file.write(program)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
