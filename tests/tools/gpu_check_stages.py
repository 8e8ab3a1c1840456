"""Tests tools/gpu-check in an unpacked archive whose programs are shell scripts.

    gpu_check_stages.py ROOT [NAME]     ROOT: the clone; NAME: only this test
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOOD = {
    "gpu_device": "echo 'gpu(0): a script'",
    "gpu_bench": "echo copies 1",
    "gpu_differential": "echo compared; shift 3; echo lines >\"$1\"",
    "first_tests": "echo \"first $*\"",
    "second_tests": "echo second",
}
TESTS = "first|first_tests|--test-case=a name of several words*|--no-skip\nsecond|second_tests\n"


class Archive:
    def __init__(self, root, **programs):
        self.folder = Path(tempfile.mkdtemp(prefix="gpu-check-"))
        (self.folder / "bin").mkdir()
        shutil.copy(Path(root) / "tools/gpu-check", self.folder / "gpu-check")
        (self.folder / "programs.txt").write_text(TESTS)
        (self.folder / "about.txt").write_text("made by a test\n")
        (self.folder / "expected.txt").write_text("1 0 input f32 3 input 0\n")
        for name, text in {**GOOD, **programs}.items():
            path = self.folder / "bin" / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)
        self.script = self.folder / "gpu-check"
        self.out = self.folder / "results"
        self.environment = {}
        # Without Python and compute-sanitizer of this machine.
        self.tools = self.folder / "path"
        self.tools.mkdir()
        for tool in ("bash", "mkdir", "sleep", "cat"):
            (self.tools / tool).symlink_to(shutil.which(tool))

    def replace(self, text, by):
        script = self.script.read_text()
        if text not in script:
            sys.exit(f"gpu-check has no '{text}'")
        self.script.write_text(script.replace(text, by))

    def start(self, *options):
        command = [shutil.which("bash"), str(self.folder / "gpu-check"), "--out", str(self.out), *options]
        environment = {"PATH": str(self.tools), **self.environment}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *options):
        process = self.start(*options)
        try:
            self.text, _ = process.communicate(timeout=60)  # it has to end by itself
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            raise
        return process.returncode

    def result(self, check):
        """What the summary says of a check: ("passed", ""); nothing if it has no line."""
        for line in (self.out / "summary.txt").read_text().splitlines():
            found = re.match(r"(\S+) +(passed|failed|not run|out of time) +[0-9.]+ s *(.*)$", line)
            if found and found[1] == check:
                return found[2], found[3]
        return None

    def file(self, name):
        return (self.out / name).read_text()


def expect(what, wanted, archive):
    if what != wanted:
        sys.exit(f"got {what!r}, wanted {wanted!r}; the output:\n{archive.text}")


def gone(pid):
    """Whether the process has ended; one that nobody waits for is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_all_pass(root):
    archive = Archive(root)
    expect(archive.run(), 0, archive)
    for check in ("device", "first", "second", "differential", "benchmarks"):
        expect(archive.result(check), ("passed", ""), archive)
    expect(archive.result("torch"), ("not run", "there is no python3"), archive)
    expect("first --test-case=a name of several words* --no-skip\n" in archive.file("tests.txt"), True, archive)
    expect("made by a test" in archive.file("summary.txt"), True, archive)
    expect(archive.file("differential_lines.txt"), "lines\n", archive)
    files = {"summary", "device", "tests", "differential", "differential_lines", "benchmarks", "torch", "sanitizers"}
    expect({path.stem for path in archive.out.iterdir()}, files, archive)


def test_no_gpu(root):
    archive = Archive(root, gpu_device="exit 77", first_tests="exit 1")
    expect(archive.run(), 77, archive)
    expect("NOTHING WAS RUN" in archive.text, True, archive)
    expect(archive.result("first"), None, archive)


def test_gpu_that_does_not_work(root):
    archive = Archive(root, gpu_device="echo 'the driver is too old'; exit 1")
    expect(archive.run(), 1, archive)
    expect("the driver is too old" in archive.text, True, archive)
    expect(archive.result("first"), None, archive)


def test_a_failing_program_is_seen(root):
    for program, check in [("first_tests", "first"), ("gpu_differential", "differential"), ("gpu_bench", "benchmarks")]:
        archive = Archive(root, **{program: "echo planted; exit 3"})
        expect(archive.run(), 1, archive)
        expect(archive.result(check)[0], "failed", archive)
        expect(archive.result("second"), ("passed", ""), archive)
    archive = Archive(root, second_tests="kill -SEGV $$")
    expect(archive.run(), 1, archive)
    expect(archive.result("second")[0], "failed", archive)


def test_a_program_that_hangs_is_ended(root):
    hangs = "trap '' TERM; sleep 1000 & echo $! >\"${0%/*}/child\"; echo $$ >\"${0%/*}/own\"; while :; do sleep 1000; done"
    archive = Archive(root, first_tests=hangs)
    expect(archive.run("--seconds", "18"), 1, archive)
    expect(archive.result("first")[0], "out of time", archive)
    expect(archive.result("second"), ("passed", ""), archive)
    for name in ("child", "own"):
        expect(gone((archive.folder / "bin" / name).read_text().strip()), True, archive)


def test_what_a_program_leaves_running_is_ended(root):
    archive = Archive(root, first_tests="sleep 1000 & echo $! >\"${0%/*}/child\"")
    expect(archive.run("--only", "tests"), 0, archive)
    expect(gone((archive.folder / "bin/child").read_text().strip()), True, archive)


def test_the_whole_ends_in_time(root):
    sleeps = "exec sleep 1000"
    archive = Archive(root, first_tests=sleeps, second_tests=sleeps, gpu_differential=sleeps, gpu_bench=sleeps)
    expect(archive.run("--seconds", "5"), 1, archive)
    for check in ("first", "second", "differential", "benchmarks"):
        expect(archive.result(check)[0], "out of time", archive)


def test_results_are_there_before_the_end(root):
    archive = Archive(root, second_tests="echo unfinished; echo >\"${0%/*}/here\"; exec sleep 1000")
    os.mkfifo(archive.folder / "bin/here")
    process = archive.start()
    (archive.folder / "bin/here").read_text()  # until the second program is there
    expect("unfinished" in archive.file("tests.txt"), True, archive)
    expect(archive.result("first"), ("passed", ""), archive)
    process.send_signal(signal.SIGTERM)
    archive.text, _ = process.communicate(timeout=60)
    expect(process.returncode, 130, archive)


def test_only(root):
    archive = Archive(root, first_tests="exit 1")
    expect(archive.run("--only", "benchmarks"), 0, archive)
    expect(archive.result("benchmarks"), ("passed", ""), archive)
    expect(archive.result("first"), None, archive)


def test_missing_libraries(root):
    text = "echo \"$0: error while loading shared libraries: {}: cannot open shared object file\"; exit 127"
    archive = Archive(root, first_tests=text.format("libnccl.so.2"))
    expect(archive.run("--only", "tests"), 0, archive)
    expect(archive.result("first"), ("not run", "libnccl.so.2 is not here"), archive)
    archive = Archive(root, first_tests="echo; echo 'NOT RUN: NCCL is not found'; echo more")
    expect(archive.run("--only", "tests"), 0, archive)
    expect(archive.result("first"), ("not run", "NCCL is not found"), archive)
    archive = Archive(root, first_tests=text.format("libzip.so.4"))
    expect(archive.run("--only", "tests"), 1, archive)


def test_libraries_are_named_where_all_of_them_are(root):
    for cublas, all_here in (("13", True), ("11", False)):
        archive = Archive(root, first_tests="echo \"named: $HEDDLE_CUDA_LIBRARIES. found: $LD_LIBRARY_PATH.\"")
        archive.replace(" /usr/", " /none/")  # the libraries of this machine
        folders = [archive.folder / "blas", archive.folder / "solver"]
        for folder, names in zip(folders, ((f"libcublasLt.so.{cublas}", "libcublas.so.13"), ("libcusolver.so.12", "libnccl.so.2"))):
            folder.mkdir()
            for name in names:
                (folder / name).write_text("")
        path = ":".join(map(str, folders))
        archive.environment["LD_LIBRARY_PATH"] = path
        expect(archive.run("--only", "tests"), 0, archive)
        said = archive.file("tests.txt")
        expect(f"named: {path}. found: {path}." in said, all_here, archive)
        expect(f"named: . found: {path}:{path}." in said, not all_here, archive)


# A program with three numbered cases, as tests/engine/cuda/numbered_cases.h writes them.
CASES = """first=1
for option in "$@"; do case $option in --first=*) first=${option#*=} ;; esac; done
[ "$first" -gt 1 ] || { echo "#1 good one"; }
[ "$first" -gt 2 ] || { echo "#2 bad one"; %s; }
[ "$first" -gt 3 ] || echo "#3 last one"
echo "#end"
"""


def test_cases_behind_one_that_ends_the_program_run(root):
    ends = {
        "echo '#2 failed'; echo '#2 has ended the program: a GPU is lost'; exit 1": "failed",
        "kill -SEGV $$": "failed",
        "kill -TERM $$": "failed",
    }
    for text, result in ends.items():
        archive = Archive(root, first_tests=CASES % text)
        expect(archive.run("--only", "tests"), 1, archive)
        expect(archive.result("first")[0], result, archive)
        expect("in case 2, 'bad one'" in archive.result("first")[1], True, archive)
        expect(archive.result("first#3"), ("passed", ""), archive)
        expect("#3 last one\n" in archive.file("tests.txt"), True, archive)
        expect(archive.result("second"), ("passed", ""), archive)


def test_the_case_that_hangs_is_named(root):
    archive = Archive(root, first_tests=CASES % "exec sleep 1000")
    expect(archive.run("--seconds", "30", "--only", "tests"), 1, archive)
    expect(archive.result("first")[0], "out of time", archive)
    expect("in case 2, 'bad one'" in archive.result("first")[1], True, archive)
    expect(archive.result("first#3"), ("passed", ""), archive)


def test_cases_that_fail_are_named(root):
    archive = Archive(root, first_tests=CASES % "echo '#2 failed'" + "exit 1")
    expect(archive.run("--only", "tests"), 1, archive)
    expect(archive.result("first"), ("failed", "exit status 1; see tests.txt; 'bad one'"), archive)
    expect(archive.result("first#3"), None, archive)


def test_a_program_whose_first_case_always_ends_it_is_given_up(root):
    archive = Archive(root, first_tests="echo '#1 one'; exit 1")
    expect(archive.run("--only", "tests"), 1, archive)
    expect(archive.result("first")[0], "failed", archive)
    expect(archive.result("first#2")[0], "failed", archive)
    expect(archive.result("first#3"), None, archive)


def test_a_slow_device_stage_is_no_reason_to_stop(root):
    for text, result in (("exec sleep 1000", "out of time"), ("echo 'NOT WORKING: cudaLaunchHostFunc'; exit 3", "failed")):
        archive = Archive(root, gpu_device=text)
        archive.replace("attempt device 60", "attempt device 1")
        expect(archive.run(), 1, archive)
        expect(archive.result("device")[0], result, archive)
        expect(archive.result("second"), ("passed", ""), archive)


def test_wanted_stages_divide_the_time(root):
    archive = Archive(root, gpu_bench="sleep 2")
    expect(archive.run("--seconds", "9"), 1, archive)
    expect(archive.result("benchmarks")[0], "out of time", archive)
    expect(archive.run("--seconds", "9", "--only", "benchmarks"), 0, archive)


def test_sanitizers(root):
    def run(text):
        archive = Archive(root, gpu_sample_tests="echo samples", gpu_array_tests="echo arrays")
        (archive.tools / "compute-sanitizer").write_text(f"#!/bin/sh\n{text}\n")
        (archive.tools / "compute-sanitizer").chmod(0o755)
        return archive, archive.run("--only", "sanitizers")

    archive, status = run('case "$*" in *racecheck*) exit 99 ;; esac')
    expect(status, 1, archive)
    expect(archive.result("memcheck.samples"), ("passed", ""), archive)
    expect(archive.result("racecheck.samples")[0], "failed", archive)
    expect(archive.result("memcheck.memory"), ("passed", ""), archive)
    archive, status = run('case "$*" in *"memcheck --track-stream-ordered-races all"* | *racecheck*) ;; *) exit 99 ;; esac')
    expect(status, 0, archive)
    archive, status = run("echo Device not supported; exit 1")
    expect(status, 0, archive)
    expect(archive.result("memcheck.samples"), ("not run", "compute-sanitizer: Device not supported"), archive)


def test_wrong_command_lines(root):
    archive = Archive(root)
    for options in (["--nonsense"], ["--only", "nonsense"], ["--only"], ["--seconds", "0"], ["--pack"], ["--archive", "f"]):
        expect(archive.run(*options), 2, archive)
    expect(archive.run("--help"), 0, archive)
    expect("nine minutes" in archive.text, True, archive)


def main():
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        for name in sys.argv[2:] or tests:
            begin = time.monotonic()
            tests[name](sys.argv[1])
            print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    os.environ.pop("LD_LIBRARY_PATH", None)
    main()
