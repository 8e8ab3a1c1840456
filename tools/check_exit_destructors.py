#!/usr/bin/env python3
"""No library of the project has an object that is destroyed at exit, before the default engine is shut down: the last
ops and the errors that nobody has seen may use it. Registries and caches are made by `new`, and never destroyed.

    tools/check_exit_destructors.py BUILD        reads the object files of an optimised build; prints where such objects
                                                 are made; fails if there are any
    tools/check_exit_destructors.py --self-test  compiles one of each kind and looks whether it is found
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

MODULES = ["capi", "comm", "engine", "kvstore", "ndarray", "net", "nn", "operators"]

# Beginnings of the names of functions that may make such an object; with the reason.
ALLOWED = {
    "heddle::default_engine(": "its destructor shuts the default engine down",
    "heddle::trace::start(": "its destructor stops the trace",
    "heddle::trace::start_from_environment(": "its destructor stops the trace",
}
# The standard library's, in each file that includes <iostream>. It flushes std::cout.
STREAMS = "std::ios_base::Init::~Init()"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def makers(object_file):
    """The functions of an object file that register a destructor to be called at exit."""
    if "__cxa_atexit" not in output("nm", "-u", object_file):
        return []
    found, function, destructor = [], "?", ""
    for line in output("objdump", "-drC", "--no-show-raw-insn", object_file).splitlines():
        if begin := re.match(r"^[0-9a-f]+ <(.+)>:$", line):
            function = begin.group(1)
        elif named := re.search(r"\bR_\w+\s+(.*::~\w+\(\))", line):
            destructor = named.group(1)
        elif re.search(r"\bR_\w+\s+__cxa_atexit\b", line):
            if destructor != STREAMS:
                found.append(re.sub(r" \[clone .*\]$", "", function))
            destructor = ""
    return found


def check(build):
    objects = [path for module in MODULES for path in sorted((build / module).glob("CMakeFiles/**/*.o"))]
    if not objects:
        sys.exit(f"{build} has no object files of {', '.join(MODULES)}")
    wrong = [(path, function) for path in objects for function in makers(path) if not function.startswith(tuple(ALLOWED))]
    for path, function in wrong:
        print(f"{path.relative_to(build)}: {function}: makes an object that is destroyed at exit")
    if wrong:
        sys.exit("Make it by `new` and never destroy it: `static const T& all = *new T;`; or make a constant constexpr.")
    print(f"{len(objects)} object files")


SAMPLES = {  # source: the function that is found, or None
    "#include <string>\nconst std::string& f() { static const std::string s(20, 'a'); return s; }": "f[abi:cxx11]()",
    "#include <string>\nconst std::string& f() { static const auto& s = *new std::string(20, 'a'); return s; }": None,
    "#include <string>\nstd::string s(20, 'a');": "_GLOBAL__sub_I__Z1sB5cxx11",
    "#include <iostream>": None,
    "#include <string>\nconstexpr std::string s = \"short\";\nstd::string f() { return s + s; }": None,
}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        for source, expected in SAMPLES.items():
            (Path(folder) / "a.cc").write_text(source)
            subprocess.run(["g++", "-std=c++20", "-O2", "-c", "a.cc"], cwd=folder, check=True)
            found = makers(Path(folder) / "a.o")
            if found != ([expected] if expected else []):
                sys.exit(f"found {found}, not {expected}, in:\n{source}")
    print(f"{len(SAMPLES)} samples")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        self_test()
    else:
        check(Path(sys.argv[1]).resolve())
