#!/usr/bin/env python3
"""Finds names that are defined twice: two types, or two inline functions, of one name break the one-definition rule.

    tools/check_types.py [ROOT]       prints file:line: the name and where else it is defined; fails if there is any
    tools/check_types.py --self-test  looks whether each kind of name is found

The linker does not report them: it takes one of two equally named destructors, and destroys the other type's objects with it.
A module's name may be defined once in all modules, and in no program that is linked with them; a name of the tool `heddle` once in
its files. Names in anonymous namespaces
and inside functions belong to their file. A function is known by its name and the types of its parameters.
"""

import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

MODULES = ["engine", "ndarray", "operators", "nn", "comm", "kvstore", "capi"]
PROGRAMS = ["examples", "bench", "tools", "tests"]
ONE_PROGRAM = "tools/heddle/"
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
# Groups of files of which CMake compiles only one.
ALTERNATIVES = [
    {"arena_none.cc", "arena_tbb.cc"},
    {"cuda_thread.h", "emulated_thread.h"},
    {"cuda_atomics.h", "emulated_atomics.h"},
    {"real_seeds.cc", "emulated_seeds.cc"},
]

# Comments, preprocessor lines and literals; group 1 holds what is kept.
NOISE = re.compile(
    r"""//(?:[^\n\\]|\\.)*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.)*|\bR"([^(\s]*)\(.*?\)\1"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'|"(?:[^"\\\n]|\\.)*\"""",
    re.S | re.M,
)
TOKEN = re.compile(r"\w+|::|->|\[\[|\]\]|\S")
TYPE_WORDS = {"class", "struct", "union", "enum"}
NOT_A_FUNCTION = {"requires", "noexcept", "alignas", "decltype", "__attribute__", "explicit"}
OPENS, CLOSES = {"(": 1, "[": 1, "[[": 1}, {")": 1, "]": 1, "]]": 1}


def tokens_of(text):
    """(token, line) of each, without comments, literals and preprocessor lines."""
    blank = NOISE.sub(lambda match: " " + "\n" * match[0].count("\n") + ('""' if match[0][0] in 'R"' else " "), text)
    line, at = 1, 0
    for match in TOKEN.finditer(blank):
        line += blank.count("\n", at, match.start())
        at = match.start()
        yield match[0], line


def without_template(head):
    """The tokens behind all template<...>, and whether there was one."""
    found = False
    while head[:1] == ["template"] and head[1:2] == ["<"]:
        depth = at = 1
        while depth and at + 1 < len(head):
            at += 1
            depth += {"<": 1, ">": -1}.get(head[at], 0)
        head, found = head[at + 1 :], True
    return head, found


def top_level(head):
    """(index, token) of what stands in no parentheses or brackets; an opening parenthesis itself does."""
    depth = 0
    for at, token in enumerate(head):
        depth -= token in CLOSES
        if depth == 0:
            yield at, token
        depth += token in OPENS


def type_name(head):
    """The name of the type that this head, which ends before {, defines; None if it defines none."""
    words = list(top_level(head))
    for place, (at, token) in enumerate(words):
        if token == "=" or token == "(" and head[at - 1] not in NOT_A_FUNCTION:
            return None
        if token not in TYPE_WORDS:
            continue
        rest = [word for _, word in words[place + 1 :]]
        name = []
        for index, word in enumerate(rest):
            if word in {"class", "struct", "[[", "]]", ")", "(", "alignas", "final"}:
                continue
            if word == ":" or word == "(":
                break
            name.append(word)
        joined = "".join(name)
        return None if re.search(r"\w+\s+\w+", " ".join(name)) and "<" not in joined else joined or None
    return None


def parameter_types(tokens):
    """The text of each parameter without its name and default."""
    parts, depth, part = [], 0, []
    for token in tokens:
        depth += (token in OPENS or token in "<{") - (token in CLOSES or token in ">}")
        if token == "," and depth == 0:
            parts.append(part)
            part = []
        else:
            part.append(token)
    for part in [*parts, part]:
        if "=" in part:
            part = part[: part.index("=")]
        if len(part) > 1 and re.match(r"[a-z_]\w*$", part[-1]) and part[-2] not in {"::", "const", "unsigned"}:
            part = part[:-1]
        yield " ".join(part)


def function_name(head, is_template):
    """Name(types) of the inline function that this head defines; None if it defines none."""
    if not is_template and not {"inline", "constexpr", "consteval"} & set(head):
        return None
    for at, token in top_level(head):
        if token == "=" and head[at - 1] != "operator" and "operator" not in head[max(0, at - 3) : at]:
            return None
        if token != "(" or at == 0 or head[at - 1] in NOT_A_FUNCTION or head[at - 1] == "operator":
            continue
        start = at
        while start > 0:
            if head[start - 1] == ">" and head[start] == "::":  # Of<T>::twice
                while head[start - 1] != "<":
                    start -= 1
            elif not re.match(r"\w|::|~", head[start - 1]) or (start != at and "::" not in head[start - 1 : start + 1] and head[start] != "<"):
                break
            start -= 1
        if "operator" in head[:at]:
            start = head.index("operator")
        depth = end = 0
        for end in range(at, len(head)):
            depth += (head[end] in OPENS) - (head[end] in CLOSES)
            if depth == 0:
                break
        return "".join(head[start:at]) + "(" + ", ".join(parameter_types(head[at + 1 : end])) + ")"
    return None


def definitions(text):
    """(kind, qualified name, line) of each type and inline function that other files could define too."""
    scopes, head, started, skipped = [], [], 0, 0
    for token, line in tokens_of(text):
        if skipped:  # inside a function or an initialiser
            skipped += (token == "{") - (token == "}")
            if skipped == 0:
                head = []
        elif token == "{":
            words, is_template = without_template(head)
            head = []
            prefix = "::".join(name for name in scopes if name)
            hidden = None in scopes
            if words[:1] == ["namespace"] or words[:2] == ["inline", "namespace"]:
                name = "".join(words[words.index("namespace") + 1 :])
                scopes.append(name or None)
            elif words[:1] == ["extern"]:
                scopes.append("")
            elif name := type_name(words):
                if not hidden:
                    yield "type", f"{prefix}::{name}", started
                scopes.append(name)
            else:
                name = function_name(words, is_template)
                if name and not hidden:
                    yield "function", f"{prefix}::{name}", started
                skipped = 1
        elif token == "}":
            if scopes:
                scopes.pop()
            head = []
        elif token == ";":
            head = []
        elif token == ":" and head and head[-1] in {"public", "private", "protected"}:
            head = []
        else:
            if not head:
                started = line
            head.append(token)


def alternatives(*files):
    return any(group.issuperset(Path(file).name for file in files) for group in ALTERNATIVES)


def problems(root):
    places = defaultdict(list)
    for folder in [*MODULES, *PROGRAMS]:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in SUFFIXES and file.is_file():
                name = file.relative_to(root).as_posix()
                for kind, qualified, line in definitions(file.read_text(encoding="utf-8")):
                    places[kind, qualified].append((name, line))
    for (kind, qualified), found in sorted(places.items()):
        if found[0][0].split("/")[0] not in MODULES:
            found = [place for place in found if place[0].startswith(ONE_PROGRAM)]
        for other, other_line in found[1:]:
            first, line = found[0]
            if other != first and not alternatives(first, other):
                yield f"{other}:{other_line}: the {kind} {qualified} is defined at {first}:{line} too"


GOOD = {
    "engine/src/a.h": """#pragma once
namespace heddle { struct A { struct Inner {}; int x{}; }; struct Forward; enum class Kind : int { one }; }
namespace heddle::detail {
template <typename T, typename = std::enable_if_t<true>> struct Of { T value; };
template <> struct Of<int> { int value; };
inline int twice(int value) { struct Local {}; return 2 * value; }
template <typename T> T twice(T value) { return 2 * value; }
template <typename T> T Of<T>::twice() { return value; }
class alignas(64) [[nodiscard]] Wide final : public A { public: Wide() : a_{1} {} private: int a_; };
}
""",
    "comm/src/b.cc": """#include <string>  // struct A {
#include "x.h"
const char* text = "struct A {"; char brace = '{'; constexpr int kMany = 1'000'000; const char* raw = R"(struct A {)";
namespace heddle { struct Forward; struct B { struct Inner {}; }; }
namespace heddle::detail {
namespace { struct A {}; class Wide {}; inline int twice(int value) { return value; } }
inline double twice(double value) { return 2 * value; }
template <typename T> T Other<T>::twice() { return value; }
template <> struct Of<long> { int value; };
int twice_of_all(struct A& a) { struct Wide {}; return 0; }
constexpr auto kTwice = [](int value) { return 2 * value; };
}
""",
    "tests/engine/a_test.cc": "namespace { struct A {}; }\nstruct B {};\n",
    "tests/comm/a_test.cc": "struct B {};\n",
    "tools/heddle/a.h": "namespace heddle::tool { struct Setting {}; }\n",
    "tools/heddle/b.cc": "namespace heddle::tool { namespace { struct Setting {}; } }\n",
}

# Texts that are added to comm/src/b.cc, and the message that each must give.
BAD = [
    ("namespace heddle {\nstruct A {\n};\n}", "type heddle::A is"),
    ("namespace heddle { class A : public B { int x; }; }", "type heddle::A is"),
    ("namespace heddle { enum class Kind { other }; }", "type heddle::Kind is"),
    ("namespace heddle { enum Kind : short { other }; }", "type heddle::Kind is"),
    ("namespace heddle { union A { int x; }; }", "type heddle::A is"),
    ("namespace heddle { struct A::Inner { }; }", "type heddle::A::Inner is"),
    ("namespace heddle { namespace detail { class alignas(8) Wide {}; } }", "type heddle::detail::Wide is"),
    ("namespace heddle::detail { struct [[nodiscard]] Wide final : A {}; }", "type heddle::detail::Wide is"),
    ("namespace heddle::detail { template <typename T> class Of { }; }", "type heddle::detail::Of is"),
    ("namespace heddle::detail { template <> struct Of<int> { }; }", "type heddle::detail::Of<int> is"),
    ("namespace heddle::detail { inline int twice(int other) { return other; } }", "function heddle::detail::twice(int) is"),
    ("namespace heddle::detail { constexpr int twice(int) { return 2; } }", "function heddle::detail::twice(int) is"),
    ("namespace heddle::detail { template <class T> T twice(T one = {}) { return one; } }", "heddle::detail::twice(T) is"),
    ("namespace heddle::detail { template <class T> T Of<T>::twice() { return value; } }", "heddle::detail::Of<T>::twice() is"),
    ('extern "C" { namespace heddle { struct A {}; } }', "type heddle::A is"),
]


def problems_with(name, addition):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in GOOD.items():
            target = Path(folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text + (addition if path == name else ""), encoding="utf-8")
        return list(problems(Path(folder)))


def self_test():
    wrong = [f"a good tree is blamed: {problem}" for problem in problems_with("", "")]
    for addition, expected in BAD:
        for name in ("comm/src/b.cc", "tests/engine/a_test.cc"):
            found = problems_with(name, addition)
            if len(found) != 1 or not found[0].startswith(name) or expected not in found[0]:
                wrong.append(f"in {name}: not found: {expected}\n  but: {found}")
    found = problems_with("tools/heddle/b.cc", "namespace heddle::tool { struct Setting { int x; }; }")
    if len(found) != 1 or "type heddle::tool::Setting is" not in found[0]:
        wrong.append(f"in tools/heddle/b.cc: {found}")
    print("\n".join(wrong) or f"{len(BAD) + 1} names defined twice found, a good tree passed")
    return bool(wrong)


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if any(argument.startswith("-") for argument in sys.argv[1:]):
        print(__doc__)
        return sys.argv[1:] not in (["-h"], ["--help"])
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(problems(root))
    print("\n".join(found) or "no type and no inline function is defined twice")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
