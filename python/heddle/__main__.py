"""`python -m heddle` is the program heddle: `python -m heddle --help` lists its commands."""

import os
import pathlib
import sys


def main() -> None:
    """Becomes the program that stands beside this file, with the same arguments."""
    program = pathlib.Path(__file__).parent / "bin" / "heddle"
    if not os.access(program, os.X_OK):
        sys.exit(f"{program} is not there: this package was built without it (-DHEDDLE_TOOLS=OFF)")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
