#!/usr/bin/env python3
"""The spellings of docs/from_keras.md, as programs.

  keras_page.py generate PAGE SIDE OUT   a program of one side: keras, python (Heddle's Python) or cpp
  keras_page.py check PROGRAM...         runs a command in an empty directory
  keras_page.py self-test                looks whether faults of a page are found

Each section is a program: its blocks of code and the rows of its tables, from the top. Blocks are in the language "py" for Keras,
"python" and "cpp". A table whose first columns are called "Keras", "Python" and "C++" has a side in each column; a row has one or
more pieces of code in each. A row with a dash on one side has no piece there. Each section begins with the blocks of the section
"The names in the tables". In C++ a block with a "struct" at the beginning of a line stands at file scope.
"""
import os
import re
import subprocess
import sys
import tempfile

SIDES = {"keras": "py", "python": "python", "cpp": "cpp"}
COLUMNS = ["Keras", "Python", "C++"]
SHARED = "The names in the tables"
NOTHING = "–"
PROLOGUE = """\
#include <iostream>
#include <memory>
#include <vector>

#include <heddle/heddle.h>
using namespace heddle;
"""


def rows(lines):
    """(number of the line, pieces of Keras, of Python, of C++) of each row of a table, given (number, line)."""
    in_table = False
    for number, line in lines:
        if not line.startswith("|"):
            in_table = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if cells[:3] == COLUMNS:
            in_table = True
        elif in_table and not re.fullmatch(r"[-: ]*", cells[0]):
            yield number, *(re.findall(r"`([^`]+)`", cell.replace("\\|", "|")) for cell in cells[:3]), cells


def sections(page, text, side):
    """{title: [(number of the first line, code)]} of one side."""
    index, found, title, block = list(SIDES).index(side), {}, "", None
    plain = []
    for number, line in enumerate(text.split("\n"), 1):
        if block is None and line.startswith("## "):
            title = line[3:]
        if line.startswith("```"):
            if block is None:
                block = (number + 1, line[3:], [])
            else:
                if block[1] == SIDES[side]:
                    found.setdefault(title, []).append((block[0], "\n".join(block[2])))
                block = None
        elif block is not None:
            block[2].append(line)
        plain.append((number, "" if block is not None else line))
    titles = {number: line[3:] for number, line in plain if line.startswith("## ")}
    for number, *pieces, cells in rows(plain):
        for cell, of in zip(cells, pieces):
            if not of and cell != NOTHING:
                sys.exit(f"{page}:{number}: a cell has neither code nor {NOTHING}: {cell}")
        title = titles[max(at for at in titles if at < number)]
        found.setdefault(title, []).extend((number, piece) for piece in pieces[index])
    ordered = [(title, sorted(codes, key=lambda code: code[0])) for title, codes in found.items()]
    return dict(sorted(ordered, key=lambda part: part[1][0][0]))


def python_program(page, text, side):
    parts = sections(page, text, side)
    shared = parts.pop(SHARED, [])
    lines = ["def run(shared, section):", "    names = {}", "    for line, code in shared + section:",
             f"        exec(compile('\\n' * (line - 1) + code, {page!r}, 'exec'), names)", "", f"shared = {shared!r}"]
    for title, codes in parts.items():
        lines += [f"# {title}", f"run(shared, {codes!r})"]
    return "\n".join([*lines, ""])


def cpp_program(page, text):
    parts, lines, calls = sections(page, text, "cpp"), [PROLOGUE], []
    shared = parts.pop(SHARED, [])
    for count, (title, codes) in enumerate(parts.items()):
        body = []
        for line, code in shared + codes:
            if re.search(r"^struct ", code, re.MULTILINE):
                lines.append(f'#line {line} "{page}"\n{code}')
            else:
                body.append(f'#line {line} "{page}"\n  {code.rstrip(";")};')
        lines += [f"// {title}", f"void section{count}() {{", *body, "}"]
        calls.append(f"  section{count}();")
    return "\n".join([*lines, "int main() {", *calls, "}", ""])


def generate(page, text, side):
    return cpp_program(page, text) if side == "cpp" else python_program(page, text, side)


def check(command):
    with tempfile.TemporaryDirectory() as directory:
        command = [os.path.abspath(word) if os.path.exists(word) else word for word in command]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode} after printing\n{done.stdout}{done.stderr}")


def self_test():
    table = "| Keras | Python | C++ | |\n|---|---|---|---|\n"
    page = (f"## {SHARED}\n```py\nx = 1\n```\n```python\nx = 2\n```\n```cpp\nint x = 3;\n```\n```cpp\nstruct A {{}};\n```\n"
            f"## One\n{table}| `y = x`, `f \\| 2` | `z = x` | `g(x);` | `no` |\n| `only()` | {NOTHING} | {NOTHING} | |\n")
    keras, python, cpp = (generate("p.md", page, side) for side in SIDES)
    assert "(3, 'x = 1')" in keras and "(17, 'y = x'), (17, 'f | 2'), (18, 'only()')" in keras and "no" not in keras
    assert "(6, 'x = 2')" in python and "(17, 'z = x')" in python and "only" not in python
    assert cpp.index("struct A {};") < cpp.index("void section0()") < cpp.index("int x = 3;") < cpp.index('#line 17 "p.md"\n  g(x);')
    assert "no" not in cpp and "int x" not in python
    try:
        generate("p.md", f"## One\n{table}| `a` | b | `c` | |\n", "cpp")
    except SystemExit as error:
        assert "p.md:4: " in str(error)
    else:
        sys.exit("self-test: a cell without code is not found")
    wrong = generate("p.md", f"## One\n{table}| `a` | `raise KeyError` | `c` | |\n", "python")
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "p.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(wrong)
        try:
            check([sys.executable, path])
        except SystemExit as error:
            assert '"p.md", line 4' in str(error), error
        else:
            sys.exit("self-test: a piece that raises is not found")
    print("faults of a page are found")


def main(arguments):
    if arguments == ["self-test"]:
        self_test()
    elif len(arguments) >= 2 and arguments[0] == "check":
        check(arguments[1:])
    elif len(arguments) == 4 and arguments[0] == "generate" and arguments[2] in SIDES:
        with open(arguments[1], encoding="utf-8") as file:
            program = generate(arguments[1], file.read(), arguments[2])
        with open(arguments[3], "w", encoding="utf-8") as file:
            file.write(program)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
