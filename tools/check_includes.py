#!/usr/bin/env python3
"""The rules of the house: which room may include which, and what no file may hold.

    tools/check_includes.py [ROOT]       prints file:line: what is wrong; fails if anything is
    tools/check_includes.py --self-test  breaks each rule in a tree of its own and looks whether it is found
"""

import re
import sys
import tempfile
from pathlib import Path

# A room may include the rooms named here, and itself.
ROOMS = {
    "engine": [],
    "ndarray": ["engine"],
    "operators": ["engine", "ndarray"],
    "comm": ["engine", "ndarray"],
    "kvstore": ["engine", "ndarray", "operators", "comm"],
}
# A room with too many files for one floor has several, from the lowest: a directory of src, or "." for what lies beside them.
# A file may include those of its own floor and of those named here.
FLOORS = {
    "ndarray": {
        "dtype": [],
        "arrays": ["dtype"],
        "files": ["dtype", "arrays"],
    },
    "operators": {
        "kernels": [],
        "cpu": ["kernels"],
        "cuda": ["kernels"],
        "autograd": ["kernels"],
        "ops": ["kernels", "autograd"],
        "nn": ["kernels", "autograd", "ops"],
    },
    "comm": {
        "net": [],
        "bootstrap": ["net"],
        "core": ["bootstrap"],
        "algorithms": ["bootstrap", "core"],
        "host": ["net", "bootstrap", "core", "algorithms"],
        "tcp": ["net", "bootstrap", "core", "algorithms"],
        "mpi": ["net", "bootstrap", "core", "algorithms", "tcp"],
        "device": ["bootstrap", "core", "tcp"],
        "communicator": ["net", "bootstrap", "core", "device"],
        "compression": ["core", "communicator"],
        "doctor": ["net", "bootstrap", "core", "tcp", "device"],
    },
}
GUESTS = ["python", "examples", "bench", "tools", "tests"]  # may include every room's public headers
SHARED = "tools/command_line"  # whose headers every program may include
SEAMS = {"cuda", "nccl", "mpi"}  # directories and files that may ask the compiler what it is
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
MOST_LINES, MOST_HEADER_LINES = 600, 150

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CONDITION = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif|elifdef|elifndef)\b(.*)")
# Names the compiler itself gives say what it is told to compile for; they switch no feature of ours.
COMPILER_NAME = re.compile(r"^(__(?!has_)\w+|NDEBUG|_OPENMP|defined|\d+L?)$")
STANDARD_HEADER = re.compile(r"^[a-z0-9_]+$")


class House:
    def __init__(self, root):
        self.root = root
        self.problems = []
        self.owner = {}  # "heddle/engine.h" -> "engine"
        for room in ROOMS:
            for header in sorted((root / room / "include").rglob("*.h")):
                name = header.relative_to(root / room / "include").as_posix()
                if name in self.owner:
                    self.say(header, 1, f"<{name}> is a header of the room {self.owner[name]} too")
                self.owner[name] = room

    def say(self, file, line, text):
        self.problems.append(f"{file.relative_to(self.root).as_posix()}:{line}: {text}")

    def check(self):
        for room in [*ROOMS, *GUESTS]:
            for file in sorted((self.root / room).rglob("*")):
                if file.suffix in SUFFIXES and file.is_file():
                    self.check_file(room, file)
            if room in ROOMS:
                self.check_listed(room)
        return self.problems

    def check_file(self, room, file):
        lines = file.read_text(encoding="utf-8").split("\n")
        self.check_shape(file, lines)
        in_seam = SEAMS & {part for name in file.relative_to(self.root).parts for part in re.split(r"[_.]", name)}
        public = room in ROOMS and (self.root / room / "include") in file.parents
        for number, line in enumerate(lines, 1):
            if match := INCLUDE.match(line):
                self.check_include(room, file, number, public, match[1] == "<", match[2])
            elif (match := CONDITION.match(line)) and not in_seam:
                self.check_condition(file, number, match[1])

    def check_shape(self, file, lines):
        count = len(lines) - (lines[-1] == "")
        if count > MOST_LINES:
            self.say(file, MOST_LINES + 1, f"{count} lines; a file has {MOST_LINES} at most")
        if file.suffix in {".h", ".cuh"}:
            if count > MOST_HEADER_LINES:
                self.say(file, MOST_HEADER_LINES + 1, f"{count} lines; a header has {MOST_HEADER_LINES} at most")
            if "#pragma once" not in lines:
                self.say(file, 1, "a header without #pragma once")

    def check_condition(self, file, number, text):
        names = [name for name in re.findall(r"\w+", text.split("//")[0]) if not COMPILER_NAME.match(name)]
        if names:
            self.say(file, number, f"a switch on {names[0]}: choose by file, not by the preprocessor")

    def check_include(self, room, file, number, public, angled, name):
        if name.startswith("heddle/"):
            self.check_public(room, file, number, angled, name)
        elif angled and self.is_private(room, file, name):
            self.say(file, number, f'write "{name}": angles are for public headers and other projects')
        elif angled:
            if public and not STANDARD_HEADER.match(name):
                self.say(file, number, f"a public header shows <{name}>, which is not of the standard library")
        elif public:
            self.say(file, number, f'a public header includes the private "{name}"')
        else:
            self.check_private(room, file, number, name)

    def check_public(self, room, file, number, angled, name):
        owner = self.owner.get(name)
        if not angled:
            self.say(file, number, f"write <{name}>: quotes are for the room's private headers")
        if owner is None:
            self.say(file, number, f"no room has a public header <{name}>")
        elif room in ROOMS and owner != room and owner not in ROOMS[room]:
            allowed = ", ".join(ROOMS[room]) or "no other room"
            self.say(file, number, f"{room} includes <{name}> of {owner}; it may include {allowed}")

    def is_private(self, room, file, name):
        parts = file.relative_to(self.root).parts
        rooms = [parts[1]] if room == "tests" and len(parts) > 2 else [room]
        return ".." in Path(name).parts or any((self.root / one / "src" / name).is_file() for one in rooms)

    def check_private(self, room, file, number, name):
        """A quoted header lies beside the file or in the private part of its own room (for tests: the tested room)."""
        parts = file.relative_to(self.root).parts
        own = [self.root / room / "src"] if room in ROOMS else [self.root / room, self.root / SHARED]
        if room == "tests":
            own = [self.root / "tests" / parts[1], self.root / "tests" / "support", self.root / parts[1] / "src"]
        found = [folder / name for folder in [file.parent, *own] if (folder / name).is_file()]
        if not found:
            self.say(file, number, f'"{name}" is no private header of {room}')
            return
        target = found[0].resolve()
        if not any(folder.resolve() in target.parents for folder in [*own, self.root / room]):
            self.say(file, number, f'"{name}" is a private header of another room')
        elif any((self.root / one / "include").resolve() in target.parents for one in ROOMS):
            self.say(file, number, f'"{name}" is a public header: write <heddle/...>')
        elif room in FLOORS:
            self.check_floor(room, file, number, target)

    def check_floor(self, room, file, number, target):
        source = (self.root / room / "src").resolve()

        def floor_of(path):
            return (path.relative_to(source).parts[:-1] or (".",))[0] if source in path.parents else "outside src"

        own, other = floor_of(file.resolve()), floor_of(target)
        known = FLOORS[room]
        if own not in known:
            self.say(file, number, f"{room} has no floor {own}")
        elif other != own and other not in known[own]:
            allowed = ", ".join(known[own]) or "no other"
            self.say(file, number, f"the floor {own} of {room} includes {target.name} of {other}; it may include {allowed}")

    def check_listed(self, room):
        """A header that no FILE_SET names is neither installed nor checked alone; a source not listed is dead."""
        cmake = self.root / room / "CMakeLists.txt"
        text = cmake.read_text(encoding="utf-8") if cmake.is_file() else ""
        for folder, pattern in (("include", "*.h"), ("src", "*.cc")):
            for file in sorted((self.root / room / folder).rglob(pattern)):
                name = file.relative_to(self.root / room).as_posix()
                if not re.search(rf"(?<!\S){re.escape(name)}(?![\w.])", text):
                    self.say(file, 1, f"{room}/CMakeLists.txt does not name {name}")


GOOD = {
    "engine/CMakeLists.txt": "heddle_room(engine SOURCES src/engine.cc HEADERS include/heddle/engine.h)\n",
    "engine/include/heddle/engine.h": "#pragma once\n#include <vector>\n",
    "engine/src/engine.cc": '#include <heddle/engine.h>\n#include <tbb/task_arena.h>\n#include "queue.h"\n',
    "engine/src/queue.h": "#pragma once\n#if defined(__AVX2__)\n#endif\n",
    "ndarray/CMakeLists.txt": "heddle_room(ndarray SOURCES src/arrays/view.cc HEADERS include/heddle/ndarray.h)\n",
    "ndarray/include/heddle/ndarray.h": "#pragma once\n#include <heddle/engine.h>\n",
    "ndarray/src/arrays/view.cc": "#include <heddle/ndarray.h>\n",
    "ndarray/src/arrays/cuda/pool.h": "#pragma once\n#ifdef HEDDLE_POOL\n#endif\n",
    "comm/CMakeLists.txt": "heddle_room(comm SOURCES src/tcp/mesh.cc)\n",
    "comm/src/core/backend.h": "#pragma once\n",
    "comm/src/tcp/mesh.cc": '#include "core/backend.h"\n#include "tcp/mesh.h"\n#include "net/socket.h"\n',
    "comm/src/tcp/mesh.h": "#pragma once\n",
    "comm/src/net/socket.h": "#pragma once\n",
    "tests/engine/engine_test.cc": '#include <doctest/doctest.h>\n#include <heddle/engine.h>\n#include "queue.h"\n',
    "bench/support.h": "#pragma once\n",
    "bench/a.cc": '#include <heddle/ndarray.h>\n#include "command_line.h"\n#include "support.h"\n',
    "tools/command_line/command_line.h": "#pragma once\n",
}

# What each change to the good tree must be answered with.
BAD = [
    ("engine/src/engine.cc", "#include <heddle/ndarray.h>\n", "engine/src/engine.cc:1: engine includes <heddle/ndarray.h> of ndarray"),
    ("engine/src/engine.cc", '\n#include "heddle/engine.h"\n', "engine/src/engine.cc:2: write <heddle/engine.h>"),
    ("engine/src/engine.cc", "#include <heddle/gone.h>\n", "engine/src/engine.cc:1: no room has a public header <heddle/gone.h>"),
    ("ndarray/src/arrays/view.cc", '#include "queue.h"\n', 'ndarray/src/arrays/view.cc:1: "queue.h" is no private header of ndarray'),
    ("ndarray/src/arrays/view.cc", '#include "../../../engine/src/queue.h"\n', "ndarray/src/arrays/view.cc:1: \"../../../engine/src/queue.h\" is a private header of another room"),
    ("comm/src/net/socket.h", '#pragma once\n#include "tcp/mesh.h"\n', "socket.h:2: the floor wire of comm includes mesh.h of tcp; it may include no other"),
    ("comm/src/core/backend.h", '#pragma once\n#include "tcp/mesh.h"\n', "backend.h:2: the floor . of comm includes mesh.h of tcp; it may include meet"),
    ("comm/src/net/socket.h", "#pragma once\n#include <tcp/mesh.h>\n", 'socket.h:2: write "tcp/mesh.h"'),
    ("comm/src/net/socket.h", '#pragma once\n#include "../tcp/mesh.h"\n', "socket.h:2: the floor wire of comm includes mesh.h"),
    ("comm/src/net/tls/key.h", '#pragma once\n#include "tcp/mesh.h"\n', "key.h:2: the floor wire of comm includes mesh.h"),
    ("comm/src/net/copy.cu", '#include "tcp/mesh.h"\n', "copy.cu:1: the floor wire of comm includes mesh.h"),
    ("comm/probe.cc", '#include "core/backend.h"\n', "probe.cc:1: comm has no floor outside src"),
    ("engine/src/engine.cc", '#include "../include/heddle/engine.h"\n', "engine.cc:1: \"../include/heddle/engine.h\" is a public header"),
    ("bench/a.cc", "#include <../engine/src/queue.h>\n", 'a.cc:1: write "../engine/src/queue.h"'),
    ("comm/src/attic/old.h", '#pragma once\n#include "core/backend.h"\n', "old.h:2: comm has no floor attic"),
    ("bench/a.cc", '#include "../engine/src/queue.h"\n', "bench/a.cc:1: \"../engine/src/queue.h\" is a private header of another room"),
    ("tests/ndarray/view_test.cc", '#include "../../engine/src/queue.h"\n', "tests/ndarray/view_test.cc:1: \"../../engine/src/queue.h\" is a private"),
    ("ndarray/include/heddle/ndarray.h", '#pragma once\n#include "pool.h"\n', "ndarray.h:2: a public header includes the private"),
    ("engine/include/heddle/engine.h", "#pragma once\n#include <tbb/task_arena.h>\n", "engine.h:2: a public header shows <tbb/task_arena.h>"),
    ("engine/include/heddle/engine.h", "#pragma once\n#include <zmq.h>\n", "engine.h:2: a public header shows <zmq.h>"),
    ("engine/include/heddle/engine.h", "#pragma once\n#include <cuda_runtime.h>\n", "engine.h:2: a public header shows <cuda_runtime.h>"),
    ("engine/include/heddle/engine.h", "#pragma once\n#include <dnnl.hpp>\n", "engine.h:2: a public header shows <dnnl.hpp>"),
    ("engine/include/heddle/engine.h", "#pragma once\n#include <dmlc/logging.h>\n", "engine.h:2: a public header shows <dmlc/logging.h>"),
    ("engine/include/heddle/engine.h", "#include <vector>\n", "engine.h:1: a header without #pragma once"),
    ("engine/include/heddle/engine.h", "#pragma once\n" + "//\n" * 150, "engine.h:151: 151 lines; a header has 150 at most"),
    ("engine/src/engine.cc", "//\n" * 601, "engine.cc:601: 601 lines; a file has 600 at most"),
    ("engine/src/engine.cc", "#ifdef USE_CUDA\n#endif\n", "engine.cc:1: a switch on USE_CUDA"),
    ("engine/src/engine.cc", "#if __GNUC__ && defined(HEDDLE_TBB)\n#endif\n", "engine.cc:1: a switch on HEDDLE_TBB"),
    ("engine/src/engine.cc", "#if 1\n#elif __has_include(<tbb/tbb.h>)\n#endif\n", "engine.cc:2: a switch on __has_include"),
    ("engine/src/forgotten.cc", "\n", "engine/CMakeLists.txt does not name src/forgotten.cc"),
    ("ndarray/include/heddle/new.h", "#pragma once\n", "ndarray/CMakeLists.txt does not name include/heddle/new.h"),
    ("ndarray/include/heddle/engine.h", "#pragma once\n", "is a header of the room engine too"),
]


def problems_with(change):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**GOOD, **change}.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return House(Path(folder)).check()


def self_test():
    wrong = [f"a good tree is blamed: {problem}" for problem in problems_with({})]
    for room, floors in FLOORS.items():
        for at, (floor, below) in enumerate(floors.items()):
            wrong += [f"{room}: {floor} looks up, to {one}" for one in below if one not in list(floors)[:at]]
    for name, text, expected in BAD:
        problems = problems_with({name: text})
        if not any(expected in problem for problem in problems):
            wrong.append(f"not found: {expected}\n  but: {problems}")
    print("\n".join(wrong) or f"{len(BAD)} broken rules found, a good tree passed")
    return bool(wrong)


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if any(argument.startswith("-") for argument in sys.argv[1:]):
        print(__doc__)
        return sys.argv[1:] not in (["-h"], ["--help"])
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = House(root).check()
    print("\n".join(problems) or "every file keeps the rules of the house")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
