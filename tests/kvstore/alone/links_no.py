#!/usr/bin/env python3
"""links_no.py PROGRAM NAME...: fails if the program needs a shared library whose name has one of these in it."""
import subprocess
import sys

program, names = sys.argv[1], sys.argv[2:]
lines = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
assert any("libc.so" in line for line in lines), lines  # ldd has understood the program
if found := [line.split()[0] for line in lines if any(name in line for name in names)]:
    sys.exit(f"{program} needs {', '.join(found)}")
