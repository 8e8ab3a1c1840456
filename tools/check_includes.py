#!/usr/bin/env python3
"""The rules of the source tree: which module may include which, and what no file may hold.

    tools/check_includes.py [ROOT]       prints file:line: what is wrong; fails if anything is
    tools/check_includes.py --self-test  breaks each rule in a tree of its own and looks whether it is found
"""

import re
import sys
import tempfile
from pathlib import Path

# Each module, and the modules that it may include besides itself.
MODULES = {
    "engine": [],
    "ndarray": ["engine"],
    "operators": ["engine", "ndarray"],
    "net": ["engine"],
    "comm": ["engine", "ndarray", "net"],
    "nn": ["engine", "ndarray", "operators"],
    "kvstore": ["engine", "ndarray", "operators", "nn", "net", "comm"],
    "capi": ["engine", "ndarray", "operators", "nn", "net", "comm", "kvstore"],
}
# The layers of a module, from the lowest: a folder of src, or "." for files outside of the folders; with the other
# layers whose files a layer may include.
LAYERS = {
    "engine": {
        "gpu": [],
        "base": [],
        "trace": ["base"],
        "op": ["base", "trace"],
        "stream": ["gpu", "base", "trace", "op"],
        "core": ["base", "trace", "op", "stream"],
        "diagnostics": ["base", "trace", "op", "stream", "core"],
        "graph": ["base", "trace", "op", "stream", "core"],
        "scheduler": ["base", "trace", "op", "stream", "core", "diagnostics", "graph"],
        "api": ["base", "trace", "op", "stream", "core", "diagnostics", "graph", "scheduler"],
        "c": ["base", "trace", "op", "stream", "core", "diagnostics", "graph", "scheduler", "api"],
    },
    "ndarray": {
        "dtype": [],
        "arrays": ["dtype"],
        "random": ["dtype", "arrays"],
        "files": ["dtype", "arrays"],
        "exchange": ["dtype", "arrays"],
    },
    # Files of a family: *kernels.h and *functors.h are in the layer "kernels", cpu.cc and the folder cpu in "cpu of a family", files
    # with rules and kernels in "rule and kernel".
    "operators": {
        "core": [],
        "autograd": ["core"],
        "kernels": ["core"],
        "cpu": ["core"],
        "cpu of a family": ["core", "cpu", "kernels"],
        "cuda": ["core"],
        "cuda of a family": ["core", "cuda", "kernels"],
        "families": ["core", "autograd", "kernels"],
        "rule and kernel": ["core", "autograd", "kernels", "cpu", "cpu of a family", "families"],
    },
    "nn": {
        "module": [],
        "layers": ["module"],
        "model": ["module", "layers"],
        "metrics": ["module", "layers"],
        "logging": ["module", "layers", "model"],
        "compression": ["module", "layers", "model"],
        "training": ["module"],
        "data": [],
    },
    "net": {
        "connection": [],
        "security": ["connection"],
        "transport": ["connection", "security"],
        "zmq": ["connection", "security", "transport"],
    },
    "comm": {
        "bootstrap": [],
        "core": ["bootstrap"],
        "algorithms": ["bootstrap", "core"],
        "host": ["bootstrap", "core", "algorithms"],
        "tcp": ["bootstrap", "core", "algorithms"],
        "mpi": ["bootstrap", "core", "algorithms", "tcp"],
        "device": ["bootstrap", "core", "tcp"],
        "communicator": ["bootstrap", "core", "device"],
        "compression": ["core", "communicator"],
        "doctor": ["bootstrap", "core", "tcp", "device", "communicator"],
    },
    # api, stores, training and fit are the library heddle::kvstore, the others heddle::servers.
    "kvstore": {
        "stores": [],
        "training": ["stores"],
        "fit": ["training", "stores"],
        "api": ["stores"],
        "wire": [],
        "membership": ["wire"],
        "client": ["wire", "membership", "stores"],
        "snapshot": ["wire", "client"],
        "server": ["wire", "membership", "snapshot", "stores"],
    },
}
# Folders of private headers that other modules may include, (user, folder): owner. Connections; files that survive a
# crash; placement of keys; snapshots; layers of a store, for its benchmark; handles and errors of the C ABI.
LENT = {
    **{(module, layer): "net" for module in ("comm", "kvstore", "tools", "bench") for layer in ("connection", "security", "transport")},
    ("kvstore", "zmq"): "net",
    ("kvstore", "files"): "ndarray",
    ("capi", "c"): "engine",
    # Where an op takes memory; what CUDA keeps for a thread.
    ("comm", "arrays"): "ndarray",
    ("comm", "stream"): "engine",
    # What kernels may use, for nvcc and for the emulated GPU; libraries of NVIDIA.
    **{(module, "gpu"): "engine" for module in ("ndarray", "operators", "nn", "comm", "kvstore", "bench", "emulated_gpu", "gpu_arrays")},
    **{(tests, layer): "operators" for tests in ("emulated_gpu", "gpu_arrays") for layer in ("cuda", "families")},
    **{("tools", layer): "kvstore" for layer in ("client", "snapshot")},
    **{("bench", layer): "kvstore" for layer in ("client", "wire")},
}
GUESTS = ["python", "examples", "bench", "tools", "tests"]  # folders that may include every module's public headers
SHARED = "tools/command_line"  # every program may include its headers
PROGRAM = "tools/heddle"  # its files, and tests of tools, include headers by their path in this folder
SEAMS = {"cuda", "nccl", "mpi"}  # names of folders and files that may use the compiler's macros
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
MOST_LINES, MOST_HEADER_LINES, MOST_FILES = 600, 150, 40

# Words that an engineer of the field does not know as names: say key, index, slot, call site, shard assignment; registration; own ...
PRIVATE_WORDS = {"forgive", "wish", "wishes", "stranger", "strangers", "enlist", "depart", "reassure", "reassured", "mine", "settle", "settled", "unsettled", "touched"}
# Types, functions, and members.
DECLARED = re.compile(r"\b(?:class|struct|enum)\s+(?:class\s+)?(\w+)|\b(\w+)\s*\(|\b(\w+_)\b")
NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CONDITION = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif|elifdef|elifndef)\b(.*)")
# Macros that the compiler defines describe its target; conditions on them do not switch a feature of Heddle.
COMPILER_NAME = re.compile(r"^(__(?!has_)\w+|NDEBUG|_OPENMP|defined|\d+L?)$")
STANDARD_HEADER = re.compile(r"^[a-z0-9_]+$")
C_STANDARD_HEADER = re.compile(r"^(stddef|stdint)\.h$")  # allowed in public headers in a folder c


class Tree:
    def __init__(self, root):
        self.root = root
        self.problems = []
        self.owner = {}  # "heddle/engine.h" -> "engine"
        for module in MODULES:
            for header in sorted((root / module / "include").rglob("*.h")):
                name = header.relative_to(root / module / "include").as_posix()
                if name in self.owner:
                    self.say(header, 1, f"<{name}> is a header of the module {self.owner[name]} too")
                self.owner[name] = module

    def say(self, file, line, text):
        self.problems.append(f"{file.relative_to(self.root).as_posix()}:{line}: {text}")

    def check(self):
        for module in [*MODULES, *GUESTS]:
            for file in sorted((self.root / module).rglob("*")):
                if file.suffix in SUFFIXES and file.is_file():
                    self.check_file(module, file)
            if module in MODULES:
                self.check_listed(module)
            self.check_folders(self.root / module)
        return self.problems

    def check_folders(self, top):
        """Of files that are written by hand: beside sources also Python and shell."""
        for folder in [top, *sorted(top.rglob("*"))]:
            if not folder.is_dir() or "__pycache__" in folder.parts or "node_modules" in folder.parts:
                continue
            count = sum(1 for file in folder.iterdir() if file.is_file() and file.suffix in {*SUFFIXES, ".py", ".c", ".sh"})
            if count > MOST_FILES:
                self.say(folder, 1, f"{count} files; a folder has {MOST_FILES} at most")

    def check_file(self, module, file):
        lines = file.read_text(encoding="utf-8").split("\n")
        self.check_shape(file, lines)
        in_seam = SEAMS & {part for name in file.relative_to(self.root).parts for part in re.split(r"[_.]", name)}
        public = module in MODULES and (self.root / module / "include") in file.parents
        if module in MODULES:
            self.check_words(file, lines)
        for number, line in enumerate(lines, 1):
            if match := INCLUDE.match(line):
                self.check_include(module, file, number, public, match[1] == "<", match[2])
            elif (match := CONDITION.match(line)) and not in_seam:
                self.check_condition(file, number, match[1])

    def check_words(self, file, lines):
        for number, line in enumerate(lines, 1):
            code = re.sub(r'"(?:\\.|[^"\\])*"', "", line.split("//")[0])
            for match in DECLARED.finditer(code):
                name = next(filter(None, match.groups()))
                if words := PRIVATE_WORDS & {part.lower() for part in NAME_PARTS.findall(name)}:
                    self.say(file, number, f"{name}: '{', '.join(sorted(words))}' is no term of the field")

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

    def check_include(self, module, file, number, public, angled, name):
        if name.startswith("heddle/"):
            self.check_public(module, file, number, angled, name)
        elif angled and self.is_private(module, file, name):
            self.say(file, number, f'write "{name}": angles are for public headers and other projects')
        elif angled:
            in_c = file.parent.name == "c" and C_STANDARD_HEADER.match(name)
            if public and not in_c and not STANDARD_HEADER.match(name):
                self.say(file, number, f"a public header shows <{name}>, which is not of the standard library")
        elif public:
            self.say(file, number, f'a public header includes the private "{name}"')
        else:
            self.check_private(module, file, number, name)

    def check_public(self, module, file, number, angled, name):
        owner = self.owner.get(name)
        if not angled:
            self.say(file, number, f"write <{name}>: quotes are for the module's private headers")
        if owner is None:
            self.say(file, number, f"no module has a public header <{name}>")
        elif module in MODULES and owner != module and owner not in MODULES[module]:
            allowed = ", ".join(MODULES[module]) or "no other module"
            self.say(file, number, f"{module} includes <{name}> of {owner}; it may include {allowed}")

    def is_private(self, module, file, name):
        parts = file.relative_to(self.root).parts
        modules = [parts[1]] if module == "tests" and len(parts) > 2 else [module]
        return ".." in Path(name).parts or any((self.root / one / "src" / name).is_file() for one in modules)

    def check_private(self, module, file, number, name):
        """A quoted header lies beside the file or in the private part of its own module (for tests: the tested module)."""
        parts = file.relative_to(self.root).parts
        own = [self.root / module / "src"] if module in MODULES else [self.root / module, self.root / SHARED]
        own += [self.root / PROGRAM] * (module == "tools") + [self.root / "python/src"] * (module == "python")
        if module == "tests":
            tested = self.root / (PROGRAM if parts[1] == "tools" else f"{parts[1]}/src")
            own = [self.root / "tests" / parts[1], self.root / "tests" / "support", tested, self.root / SHARED]
        user = parts[1] if module == "tests" else module
        if lender := LENT.get((user, name.split("/")[0])):
            own.append(self.root / lender / "src")
        found = [folder / name for folder in [file.parent, *own] if (folder / name).is_file()]
        if not found:
            self.say(file, number, f'"{name}" is no private header of {module}')
            return
        target = found[0].resolve()
        if not any(folder.resolve() in target.parents for folder in [*own, self.root / module]):
            self.say(file, number, f'"{name}" is a private header of another module')
        elif any((self.root / one / "include").resolve() in target.parents for one in MODULES):
            self.say(file, number, f'"{name}" is a public header: write <heddle/...>')
        elif module in LAYERS:
            self.check_layer(module, file, number, target)

    def check_layer(self, module, file, number, target):
        source = (self.root / module / "src").resolve()

        def layer_of(path):
            if source not in path.parents:
                return "outside src"
            folder, *inside = path.relative_to(source).parts[:-1] or (".",)
            if folder != "families":
                return folder
            for device in ("cpu", "cuda"):
                if path.stem == device or device in inside:
                    return f"{device} of a family"
            if path.stem.endswith(("kernels", "functors")):
                return "kernels"
            return "rule and kernel" if "\nHEDDLE_CPU_KERNELS(" in path.read_text(encoding="utf-8") else folder

        if source not in target.parents:
            return  # LENT by another module
        own, other = layer_of(file.resolve()), layer_of(target)
        known = LAYERS[module]
        if own not in known:
            self.say(file, number, f"{module} has no layer {own}")
        elif other != own and other not in known[own]:
            allowed = ", ".join(known[own]) or "no other"
            self.say(file, number, f"the layer {own} of {module} includes {target.name} of {other}; it may include {allowed}")

    def check_listed(self, module):
        """A header that no FILE_SET names is neither installed nor checked alone; a source not listed is dead. A pattern lists, too."""
        cmake = self.root / module / "CMakeLists.txt"
        text = cmake.read_text(encoding="utf-8") if cmake.is_file() else ""
        patterns = re.findall(r"(?:src|include)/[\w/]*\*\.(?:cc|h)", text)
        deep = re.findall(r"GLOB_RECURSE[^)]*", text)
        patterns = [re.escape(one).replace(r"\*", ".*" if any(one in glob for glob in deep) else "[^/]*") for one in patterns]
        for folder, pattern in (("include", "*.h"), ("src", "*.cc")):
            for file in sorted((self.root / module / folder).rglob(pattern)):
                name = file.relative_to(self.root / module).as_posix()
                if not re.search(rf"(?<!\S){re.escape(name)}(?![\w.])", text) and not any(re.fullmatch(one, name) for one in patterns):
                    self.say(file, 1, f"{module}/CMakeLists.txt does not name {name}")


GOOD = {
    "engine/CMakeLists.txt": "heddle_module(engine SOURCES src/api/engine.cc HEADERS include/heddle/engine.h include/heddle/c/engine.h)\n",
    "engine/include/heddle/engine.h": "#pragma once\n#include <vector>\n",
    "engine/src/api/engine.cc": '#include <heddle/engine.h>\n#include <tbb/task_arena.h>\n#include "base/queue.h"\n',
    "engine/include/heddle/c/engine.h": "#pragma once\n#include <stdint.h>\n",
    "engine/src/base/queue.h": "#pragma once\n#if defined(__AVX2__)\n#endif\n",
    "ndarray/CMakeLists.txt": "heddle_module(ndarray SOURCES src/arrays/view.cc HEADERS include/heddle/ndarray.h)\n",
    "ndarray/include/heddle/ndarray.h": "#pragma once\n#include <heddle/engine.h>\n",
    "ndarray/src/arrays/view.cc": "#include <heddle/ndarray.h>\n",
    "ndarray/src/arrays/cuda/pool.h": "#pragma once\n#ifdef HEDDLE_POOL\n#endif\n",
    "operators/CMakeLists.txt": "file(GLOB_RECURSE families src/families/*.cc)\n",
    "operators/src/core/kernel.h": "#pragma once\n",
    "operators/src/cpu/loop.h": "#pragma once\n",
    "operators/src/families/scan/kernels.h": "#pragma once\n",
    "operators/src/families/scan/cpu.cc": '#include "cpu/loop.h"\n#include "families/scan/kernels.h"\n',
    "operators/src/families/scan/scan.h": "#pragma once\n",
    "operators/src/families/scan/cpu/lines.h": "#pragma once\n",
    "operators/src/families/scan/scan.cc": '#include "core/kernel.h"\n#include "families/scan/kernels.h"\n',
    "comm/CMakeLists.txt": "heddle_module(comm SOURCES src/tcp/mesh.cc)\n",
    "comm/src/core/backend.h": "#pragma once\n",
    "comm/src/tcp/mesh.cc": '#include "core/backend.h"\n#include "tcp/mesh.h"\n#include "bootstrap/socket.h"\n',
    "comm/src/tcp/mesh.h": "#pragma once\n",
    "comm/src/bootstrap/socket.h": "#pragma once\n",
    "tests/engine/engine_test.cc": '#include <doctest/doctest.h>\n#include <heddle/engine.h>\n#include "base/queue.h"\n',
    "bench/support.h": "#pragma once\n",
    "bench/a.cc": '#include <heddle/ndarray.h>\n#include "command_line.h"\n#include "support.h"\n',
    "tools/command_line/command_line.h": "#pragma once\n",
    "tools/heddle/server/log.h": "#pragma once\n",
    "tools/heddle/server/plan.cc": '#include "client/placement.h"\n#include "server/log.h"\n',
    "kvstore/CMakeLists.txt": "heddle_module(kvstore)\n",
    "kvstore/src/client/placement.h": "#pragma once\n",
    "kvstore/src/stores/store.h": "#pragma once\n",
    "tests/tools/log_test.cc": '#include "server/log.h"\n#include "client/placement.h"\n',
}

# Changes to the good tree, and the message that each must give.
BAD = [
    ("engine/src/base/wishes.h", "#pragma once\nclass AdminWish;  // wish\nint stranger_;\n", "wishes.h:2: AdminWish: 'wish' is no term of the field"),
    ("engine/src/base/wishes.h", "#pragma once\nclass Wished;  // wish\nint stranger_;\n", "wishes.h:3: stranger_: 'stranger' is no term of the field"),
    ("engine/src/api/engine.cc", "#include <heddle/ndarray.h>\n", "engine/src/api/engine.cc:1: engine includes <heddle/ndarray.h> of ndarray"),
    ("engine/src/api/engine.cc", '\n#include "heddle/engine.h"\n', "engine/src/api/engine.cc:2: write <heddle/engine.h>"),
    ("engine/src/api/engine.cc", "#include <heddle/gone.h>\n", "engine/src/api/engine.cc:1: no module has a public header <heddle/gone.h>"),
    ("ndarray/src/arrays/view.cc", '#include "queue.h"\n', 'ndarray/src/arrays/view.cc:1: "queue.h" is no private header of ndarray'),
    ("ndarray/src/arrays/view.cc", '#include "../../../engine/src/base/queue.h"\n', "ndarray/src/arrays/view.cc:1: \"../../../engine/src/base/queue.h\" is a private header of another module"),
    ("comm/src/bootstrap/socket.h", '#pragma once\n#include "tcp/mesh.h"\n', "socket.h:2: the layer bootstrap of comm includes mesh.h of tcp; it may include no other"),
    ("comm/src/core/backend.h", '#pragma once\n#include "tcp/mesh.h"\n', "backend.h:2: the layer core of comm includes mesh.h of tcp; it may include bootstrap"),
    ("comm/src/bootstrap/socket.h", "#pragma once\n#include <tcp/mesh.h>\n", 'socket.h:2: write "tcp/mesh.h"'),
    ("comm/src/bootstrap/socket.h", '#pragma once\n#include "../tcp/mesh.h"\n', "socket.h:2: the layer bootstrap of comm includes mesh.h"),
    ("comm/src/bootstrap/tls/key.h", '#pragma once\n#include "tcp/mesh.h"\n', "key.h:2: the layer bootstrap of comm includes mesh.h"),
    ("comm/src/bootstrap/copy.cu", '#include "tcp/mesh.h"\n', "copy.cu:1: the layer bootstrap of comm includes mesh.h"),
    ("comm/probe.cc", '#include "core/backend.h"\n', "probe.cc:1: comm has no layer outside src"),
    ("engine/src/api/engine.cc", '#include "../include/heddle/engine.h"\n', "engine.cc:1: \"../include/heddle/engine.h\" is a public header"),
    ("bench/a.cc", "#include <../engine/src/base/queue.h>\n", 'a.cc:1: write "../engine/src/base/queue.h"'),
    ("comm/src/attic/old.h", '#pragma once\n#include "core/backend.h"\n', "old.h:2: comm has no layer attic"),
    ("bench/a.cc", '#include "../engine/src/base/queue.h"\n', "bench/a.cc:1: \"../engine/src/base/queue.h\" is a private header of another module"),
    ("tests/ndarray/view_test.cc", '#include "../../engine/src/base/queue.h"\n', "tests/ndarray/view_test.cc:1: \"../../engine/src/base/queue.h\" is a private"),
    ("ndarray/include/heddle/ndarray.h", '#pragma once\n#include "pool.h"\n', "ndarray.h:2: a public header includes the private"),
    ("engine/include/heddle/engine.h", "#pragma once\n#include <tbb/task_arena.h>\n", "engine.h:2: a public header shows <tbb/task_arena.h>"),
    ("engine/include/heddle/engine.h", "#pragma once\n#include <stdint.h>\n", "engine.h:2: a public header shows <stdint.h>"),
    ("engine/include/heddle/engine.h", "#pragma once\n#include <zmq.h>\n", "engine.h:2: a public header shows <zmq.h>"),
    ("engine/include/heddle/engine.h", "#pragma once\n#include <cuda_runtime.h>\n", "engine.h:2: a public header shows <cuda_runtime.h>"),
    ("engine/include/heddle/engine.h", "#pragma once\n#include <dnnl.hpp>\n", "engine.h:2: a public header shows <dnnl.hpp>"),
    ("engine/include/heddle/engine.h", "#pragma once\n#include <dmlc/logging.h>\n", "engine.h:2: a public header shows <dmlc/logging.h>"),
    ("tools/heddle/server/plan.cc", '#include "stores/store.h"\n', 'plan.cc:1: "stores/store.h" is no private header of tools'),
    ("tests/engine/engine_test.cc", '#include "server/log.h"\n', 'engine_test.cc:1: "server/log.h" is no private header of tests'),
    ("engine/include/heddle/engine.h", "#include <vector>\n", "engine.h:1: a header without #pragma once"),
    ("engine/include/heddle/engine.h", "#pragma once\n" + "//\n" * 150, "engine.h:151: 151 lines; a header has 150 at most"),
    ("engine/src/api/engine.cc", "//\n" * 601, "engine.cc:601: 601 lines; a file has 600 at most"),
    ("engine/src/api/engine.cc", "#ifdef USE_CUDA\n#endif\n", "engine.cc:1: a switch on USE_CUDA"),
    ("engine/src/api/engine.cc", "#if __GNUC__ && defined(HEDDLE_TBB)\n#endif\n", "engine.cc:1: a switch on HEDDLE_TBB"),
    ("engine/src/api/engine.cc", "#if 1\n#elif __has_include(<tbb/tbb.h>)\n#endif\n", "engine.cc:2: a switch on __has_include"),
    ("engine/src/forgotten.cc", "\n", "engine/CMakeLists.txt does not name src/forgotten.cc"),
    ("operators/src/families/scan/scan.cc", '#include "cpu/loop.h"\n', "scan.cc:1: the layer families of operators includes loop.h of cpu"),
    ("operators/src/cpu/loop.h", '#pragma once\n#include "families/scan/scan.h"\n', "loop.h:2: the layer cpu of operators includes scan.h of families"),
    ("operators/src/cpu/loop.h", '#pragma once\n#include "families/scan/cpu/lines.h"\n', "loop.h:2: the layer cpu of operators includes lines.h of cpu of a family"),
    ("operators/src/core/kernel.h", '#pragma once\n#include "families/scan/kernels.h"\n', "kernel.h:2: the layer core of operators includes kernels.h of kernels"),
    ("operators/src/rules/forgotten.cc", "\n", "operators/CMakeLists.txt does not name src/rules/forgotten.cc"),
    ("ndarray/include/heddle/new.h", "#pragma once\n", "ndarray/CMakeLists.txt does not name include/heddle/new.h"),
    ("ndarray/include/heddle/engine.h", "#pragma once\n", "is a header of the module engine too"),
]


def problems_with(change):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**GOOD, **change}.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Tree(Path(folder)).check()


def self_test():
    wrong = [f"a good tree is blamed: {problem}" for problem in problems_with({})]
    for module, layers in LAYERS.items():
        for at, (layer, below) in enumerate(layers.items()):
            wrong += [f"{module}: {layer} looks up, to {one}" for one in below if one not in list(layers)[:at]]
    for name, text, expected in BAD:
        problems = problems_with({name: text})
        if not any(expected in problem for problem in problems):
            wrong.append(f"not found: {expected}\n  but: {problems}")
    crowd = {f"engine/src/base/part_{i}.h": "#pragma once\n" for i in range(MOST_FILES + 1)}
    if not any("a folder has" in problem for problem in problems_with(crowd)):
        wrong.append("not found: a folder with too many files")
    print("\n".join(wrong) or f"{len(BAD) + 1} broken rules found, a good tree passed")
    return bool(wrong)


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if any(argument.startswith("-") for argument in sys.argv[1:]):
        print(__doc__)
        return sys.argv[1:] not in (["-h"], ["--help"])
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    problems = Tree(root).check()
    print("\n".join(problems) or "every file keeps the rules")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
