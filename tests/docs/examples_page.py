#!/usr/bin/env python3
"""Whether docs/examples.md shows what its programs are and draw.

  examples_page.py check PAGE PROGRAM...   in the root of the repository
  examples_page.py self-test               plants faults and looks whether they are found

A section links a program, examples/NAME.cc or examples/networks/NAME.cc, and shows pictures/NAME.svg and blocks of C++, each of which stands in the program,
at any indentation. PROGRAM, whose name is NAME, writes that picture, but for small differences between machines.
"""
import os
import re
import subprocess
import sys
import tempfile
import textwrap

MOST_BYTES = 40_000
PIXELS, LEVELS = 2.0, 1  # tolerances: for coordinates in pixels, for a digit of a colour
COLOR = re.compile(r"#([0-9a-f]{3,6})")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?|(?<=[a-zA-Z])-?\d+(?:\.\d+)?")


def has_lines(program, block):
    """Whether the block's lines are consecutive lines of the program, at any indentation."""
    lines, count = program.split("\n"), block.count("\n") + 1
    return any(textwrap.dedent("\n".join(lines[at:at + count])) == block for at in range(len(lines) - count + 1))


def same_picture(one, other):
    colors = [COLOR.findall(text) for text in (one, other)]
    if list(map(len, colors[0])) != list(map(len, colors[1])):
        return False
    digits = zip("".join(colors[0]), "".join(colors[1]))
    if any(abs(int(a, 16) - int(b, 16)) > LEVELS for a, b in digits):
        return False
    plain = [COLOR.sub("#", text) for text in (one, other)]
    if NUMBER.sub("0", plain[0]) != NUMBER.sub("0", plain[1]):
        return False
    numbers = [list(map(float, NUMBER.findall(text))) for text in plain]
    return all(abs(a - b) <= PIXELS for a, b in zip(*numbers))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def drawn_by(program):
    with tempfile.TemporaryDirectory() as folder:
        picture = os.path.join(folder, "picture.svg")
        subprocess.run([program, picture], check=True, stdout=subprocess.DEVNULL)
        return read(picture)


def check(page, programs):
    """What is wrong with the page, given the paths of programs by name."""
    folder, found, shown = os.path.dirname(page), [], set()
    for section in re.split(r"^## ", read(page), flags=re.MULTILINE)[1:]:
        picture = re.search(r"\]\(pictures/(\w+)\.svg\)", section)
        if not picture:
            continue
        name = picture[1]
        shown.add(name)
        sources = [os.path.join("examples", place, name + ".cc") for place in ("", "networks")]
        source = next(filter(os.path.isfile, sources), sources[0])
        path = os.path.join(folder, "pictures", name + ".svg")
        if f"(../{source})" not in section:
            found.append(f"{name}: the section has no link to {source}")
        blocks = re.findall(r"^```cpp\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL)
        found += [f"{name}: not in {source}:\n{block}" for block in blocks if not has_lines(read(source), block)]
        if not blocks:
            found.append(f"{name}: no line of the program is shown")
        if os.path.getsize(path) >= MOST_BYTES:
            found.append(f"{path} has {os.path.getsize(path)} bytes; at most {MOST_BYTES}")
        if name in programs and not same_picture(read(path), drawn_by(programs[name])):
            found.append(f"{path} is not what the program draws; run {programs[name]} {path}")
    return found + [f"no section shows the program {name}" for name in sorted(programs.keys() - shown)]


def self_test():
    dot = "<circle cx='10.5' cy='2' fill='#4e79a7'/><path d='M1 2h8v8h-8'/>"
    pictures = [(dot, True), (dot.replace("10.5", "11.9"), True), (dot.replace("10.5", "20"), False),
                (dot.replace("#4e7", "#4f7"), True), (dot.replace("#4e7", "#4e9"), False), (dot.replace("v8", "v18"), False),
                (dot + dot, False), (dot.replace("circle", "rect"), False)]
    for other, same in pictures:
        if same_picture(dot, other) != same:
            sys.exit(f"self-test: {dot} and {other} are {'not ' * same}the same")
    program = "int main() {\n  a();\n  if (b) {\n    c();\n  }\n}\n"
    for block, there in [("a();", True), ("if (b) {\n  c();\n}", True), ("a();\nc();", False), ("c()", False)]:
        if has_lines(program, block) != there:
            sys.exit(f"self-test: {block!r} is {'not ' * there}found")
    print(f"{len(pictures) + 4} planted faults are judged as they should be")


def main(arguments):
    if arguments == ["self-test"]:
        return self_test()
    if len(arguments) < 2 or arguments[0] != "check":
        sys.exit(__doc__)
    found = check(arguments[1], {os.path.basename(program): program for program in arguments[2:]})
    if found:
        sys.exit("\n".join(found))
    print(f"{arguments[1]} shows what {len(arguments) - 2} programs are and draw")
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
