#!/usr/bin/env python3
"""Compares what a library of the C ABI exports with what is written down.

  abi.py symbols LIBRARY BASELINE [--update]          the names of its functions
  abi.py stubs OUT.c UMBRELLA HEADER...               writes each function of the headers, which does nothing; UMBRELLA includes them
  abi.py types LIBRARY BASELINE [--update]            their types, by Debian's abigail-tools, without which it exits with 77 (skipped);
                                                      LIBRARY is made of the stubs
  abi.py closed LIBRARY                               whether it might take one of its own C++ names from another library
  abi.py without LIBRARY ARCHIVE                      whether nothing that ARCHIVE defines is in LIBRARY

What stands under a private version is for libraries of the same build, and does not count.
A function that is gone, or has other parameters, breaks programs that are linked with the library: raise SOVERSION, then
--update. One that is new only needs --update.
"""
import re
import shutil
import subprocess
import sys
import tempfile


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def symbols(library):
    lines = [line for line in output_of("nm", "-D", "--defined-only", library).splitlines() if "_PRIVATE_" not in line]
    exported = [line.split()[-1].split("@")[0] for line in lines if line.split()[-2] != "A"]
    if others := [name for name in exported if not name.startswith("heddle_")]:
        sys.exit(f"{library} exports {', '.join(others)}; only heddle_* is to be seen")
    return sorted(exported)


def check_symbols(library, baseline, update):
    exported = symbols(library)
    if update:
        with open(baseline, "w", encoding="utf-8") as file:
            file.write("\n".join(exported) + "\n")
    with open(baseline, encoding="utf-8") as file:
        known = file.read().split()
    gone, new = sorted({*known} - {*exported}), sorted({*exported} - {*known})
    if gone or new:
        sys.exit(f"gone: {', '.join(gone) or 'none'}; new: {', '.join(new) or 'none'}\n{__doc__}")
    print(f"{len(known)} functions, as written down")


def check_closed(library):
    """Fails if the loader could bind this library's C++ names to those of a program with a second engine."""
    relocated = [line.split()[-3] for line in output_of("readelf", "-rW", library).splitlines() if "6heddle" in line]
    if relocated:
        sys.exit(f"{library} leaves these to the loader: {', '.join(relocated)}\nexports.map.in: leave out what is thread-local or inline")
    print("no C++ name of its own is left to the loader")


def definitions(file, kinds):
    lines = (line.split() for line in output_of("nm", "--defined-only", file).splitlines())
    return {words[2] for words in lines if len(words) == 3 and words[1] in kinds}


def check_without(library, archive):
    # Inline functions may be in both; inline variables (u) must not be.
    of_archive = {name for name in definitions(archive, "TDBR") | definitions(archive, "u") if "6heddle" in name}
    constants = {name for name in of_archive if re.search(r"\dk[A-Z]|5tableE$", name)}
    both = (of_archive - constants) & definitions(library, "TDBRVWutdbr")
    if len(of_archive) < 100:
        sys.exit(f"{archive} has hardly any names: {len(of_archive)}")
    if both:
        sys.exit(f"{library} holds {len(both)} names of {archive}: {', '.join(sorted(both)[:10])} ...")
    print(f"none of {len(of_archive)} names of {archive} is in {library}")


def write_stubs(output, umbrella, headers):
    functions = []
    for header in headers:
        with open(header, encoding="utf-8") as file:
            functions += re.findall(r"HEDDLE_API (heddle_status\s+heddle_\w+\([^;]*\));", file.read())
    with open(output, "w", encoding="utf-8") as file:
        file.write(f"#include <{umbrella}>\n" + "".join(f"{one} {{ return 0; }}\n" for one in functions))


def check_types(library, baseline, update):
    for program in ("abidw", "abidiff"):
        if not shutil.which(program):
            print(f"there is no {program} (Debian's abigail-tools): types are not compared")
            sys.exit(77)
    options = ["--no-comp-dir-path", "--no-corpus-path", "--no-show-locs", "--no-architecture", "--no-elf-needed"]
    xml = output_of("abidw", *options, library)
    if update:
        with open(baseline, "w", encoding="utf-8") as file:
            file.write(xml)
    with tempfile.NamedTemporaryFile("w", suffix=".xml", encoding="utf-8") as file:
        file.write(xml)
        file.flush()
        done = subprocess.run(["abidiff", baseline, file.name], check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\n{__doc__}")
    print("the types are as written down")


def main(arguments):
    update = "--update" in arguments
    match [one for one in arguments if one != "--update"]:
        case ["symbols", library, baseline]:
            check_symbols(library, baseline, update)
        case ["stubs", output, umbrella, *headers]:
            write_stubs(output, umbrella, headers)
        case ["types", library, baseline]:
            check_types(library, baseline, update)
        case ["closed", library]:
            check_closed(library)
        case ["without", library, archive]:
            check_without(library, archive)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
