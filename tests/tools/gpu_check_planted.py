"""Tests tools/gpu-check with a program that loses an emulated GPU, fails and hangs (tests/engine/cuda/planted_test.cc).

    gpu_check_planted.py ROOT PROGRAM
"""

import os
import sys
import tempfile

from gpu_check_stages import Archive, expect


def main():
    root, program = sys.argv[1:]
    archive = Archive(root)
    (archive.folder / "bin/planted").symlink_to(os.path.abspath(program))
    (archive.folder / "programs.txt").write_text("planted|planted\n")
    archive.replace("HEDDLE_TEST_SECONDS=60", "HEDDLE_TEST_SECONDS=2")
    archive.environment["HEDDLE_EMULATED_GPU"] = "devices=1,memory_mb=64"
    expect(archive.run("--only", "tests"), 1, archive)
    print(archive.text)
    lost = "exit status 1; see tests.txt; in case 2, 'planted: loses the GPU'"
    expect(archive.result("planted"), ("failed", lost), archive)
    hangs = "exit status 1; see tests.txt; 'planted: fails alone', in case 5, 'planted: hangs'"
    expect(archive.result("planted#3"), ("failed", hangs), archive)
    expect(archive.result("planted#6"), ("passed", ""), archive)
    said = archive.file("tests.txt")
    for text in (
        "#2 has ended the program: a GPU is lost: ",
        "#3 planted: needs the GPU behind it\n#4 ",
        "#4 failed\n",
        "#5 has ended the program: it has run for 2 s\n",
        "#6 planted: passes last\n",
    ):
        expect(text if text in said else said, text, archive)


if __name__ == "__main__":
    os.environ.pop("LD_LIBRARY_PATH", None)
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        main()
