#!/usr/bin/env python3
"""The code of a page of documentation, as programs that tests build and run.

  page.py parts PAGE OUT.cc        the page's C++ blocks as one program; each "## " section is a scope of its own
  page.py whole PAGE OUT.cc        the page's one block that is a whole program (it has a main function)
  page.py block PAGE LANGUAGE OUT  the page's one block in this language
  page.py check PAGE KIND COMMAND...  runs COMMAND in an empty directory; its output must be what the page shows

A block that begins with #include stands at file scope, before all others. Without one the #include and using lines of
the page's whole program do. A block in the language "text" is the output of the C++ block before it; "..." in it stands
for any text. KIND is "parts" or "whole".
"""
import os
import re
import subprocess
import sys
import tempfile


def blocks(page):
    """Yields (language, number of the first line, lines, section) of each fenced block."""
    language, first, lines, section = None, 0, [], 0
    with open(page, encoding="utf-8") as file:
        for number, line in enumerate(file.read().split("\n"), 1):
            if language is not None:
                if line == "```":
                    yield language, first, lines, section
                    language = None
                else:
                    lines.append(line)
                continue
            if line.startswith("```"):
                language, first, lines = line[3:], number + 1, []
            elif line.startswith("## "):
                section += 1


def is_whole(lines):
    return any(re.match(r"int main\(", line) for line in lines)


def parts(page):
    top, body, section_open, inherited = [], [], -1, []
    for language, first, lines, section in blocks(page):
        if language != "cpp":
            continue
        if is_whole(lines):
            inherited = [line for line in lines if line.startswith(("#include", "using "))]
            continue
        code = [f'#line {first} "{page}"', *lines]
        if lines and lines[0].startswith("#include"):
            top += code
            continue
        if section != section_open:
            body += ["}"] if section_open >= 0 else []
            body.append("{")
            section_open = section
        body += code
    return [*(top or inherited), "int main() {", *body, "}" if section_open >= 0 else "", "}"]


def the_one(found, what):
    if len(found) != 1:
        sys.exit(f"{len(found)} blocks are {what}; there must be one")
    return found[0]


def expected(page, kind):
    wanted, shown = kind == "whole", []
    current = None
    for language, _, lines, _ in blocks(page):
        if language in ("cpp", "c"):
            current = is_whole(lines)
        elif language == "text" and current == wanted:
            shown += lines
    return shown


def check(page, kind, command):
    command[0] = os.path.abspath(command[0])
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode != 0:
        sys.exit(f"{page}: {command[0]} ended with {done.returncode} after printing\n{done.stdout}")
    printed, shown = done.stdout.splitlines(), expected(page, kind)
    for line in range(max(len(printed), len(shown))):
        want = shown[line] if line < len(shown) else None
        got = printed[line] if line < len(printed) else None
        pattern = None if want is None else ".*".join(re.escape(piece) for piece in want.split("..."))
        if got is None or pattern is None or not re.fullmatch(pattern, got.rstrip()):
            sys.exit(f"{page}: line {line + 1} of the output\n  shown:   {want}\n  printed: {got}")
    print(f"{page}: {len(shown)} lines of output are as shown")


def write(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main(arguments):
    action, page = arguments[:2]
    if action == "parts":
        write(arguments[2], parts(page))
    elif action == "whole":
        found = [lines for language, _, lines, _ in blocks(page) if language == "cpp" and is_whole(lines)]
        write(arguments[2], the_one(found, f"whole programs of {page}"))
    elif action == "block":
        found = [lines for language, _, lines, _ in blocks(page) if language == arguments[2]]
        write(arguments[3], the_one(found, f"{arguments[2]} of {page}"))
    elif action == "check":
        check(page, arguments[2], arguments[3:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(sys.argv[1:])
