#!/usr/bin/env python3
"""Jobs that mpirun starts and whose data goes by MPI: right results, and what goes wrong with their ranks.

    mpi_test.py PROGRAM PLAIN [--kills 3] [--seed 1]

PROGRAM is rank_program with MPI in it, PLAIN the one of a build without. Exits with 77 where there is no mpirun of Open
MPI."""

import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from jobs import PATIENCE, SKIPPED, Failure, error_of, expect, run_tests

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "plm", "isolated"]


class Rank:
    """The output of one rank so far, with the interface of jobs.Rank."""

    def __init__(self, number, place):
        self.number, self.file = number, place / f"rank.{number}" / "stdout"

    @property
    def lines(self):
        return self.file.read_text().split("\n")[:-1] if self.file.exists() else []

    def first(self, word):
        return next((line for line in self.lines if line.split(" ")[0] == word), None)


class MpiJob:
    """A job under mpirun, whose ranks' output goes into files. Leaving the context ends it."""

    def __init__(self, program, scenario, size, *words, **environment):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="heddle-mpi-"))
        self.mark, self.ranks = f"HEDDLE_MPI_TEST={self.place}", []
        width = len(str(size - 1))
        self.ranks = [Rank(f"{number:0{width}}", self.place / "out") for number in range(size)]
        variables = {**os.environ, "HEDDLE_COMM_BACKEND": "mpi", "HEDDLE_MPI_TEST": str(self.place), **environment}
        exports = [word for name in ("HEDDLE_COMM_BACKEND", "HEDDLE_MPI_TEST", *environment) for word in ("-x", name)]
        self.log = open(self.place / "log", "w+")
        self.process = subprocess.Popen(
            [*MPIRUN, *words, "-n", str(size), *exports, "--output-filename", f"{self.place}/out:nojobid,nocopy", program,
             scenario], env=variables, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()  # mpirun then ends its ranks
            self.process.wait(PATIENCE)
        self.log.close()
        shutil.rmtree(self.place)

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            expect(time.monotonic() < end, f"not within {PATIENCE} s: {what}\n{self.report()}")
            time.sleep(0.01)

    def end(self, done, code=0):
        """Waits for the end; the ranks in `done` must have finished."""
        self.until(lambda: self.process.poll() is not None, "mpirun ends")
        if code is not None:
            expect(self.process.returncode == code, f"mpirun ended with {self.process.returncode}\n{self.report()}")
        for number in done:
            rank = self.ranks[number]
            expect(rank.first("done") and not rank.first("failed"), f"rank {number} is not done\n{self.report()}")
        expect(not self.processes(), f"left: {self.processes()}")

    def processes(self):
        """The process ids of the ranks, by rank."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # the process has ended, or belongs to another user
            number = next((word[21:] for word in words if word.startswith("OMPI_COMM_WORLD_RANK=")), None)
            if self.mark in words and number is not None:
                found[int(number)] = int(pid)
        return found

    def report(self):
        said = "\n".join(f"  rank {rank.number}: " + " | ".join(rank.lines[-4:]) for rank in self.ranks)
        self.log.seek(0)
        return said + "\n" + self.log.read()[-2000:]


def plain(scenario, sizes, **environment):
    def run(options):
        for size in sizes:
            with MpiJob(options.program, scenario, size, **environment) as job:
                job.end(range(size))
                if scenario == "large":
                    for rank in job.ranks:
                        expect(rank.first("backends") == "backends mpi mpi", f"rank {rank.number} is not on MPI")
    return run


def mismatch(options):
    with MpiJob(options.program, "mismatch", 3) as job:
        job.end(range(3))
        for rank in job.ranks:
            text = error_of(rank, ["CommMismatch"])[1]
            expect("rank 1 " in text and text.count("rank_program.cc:") == 2, text)


def leave(options):
    with MpiJob(options.program, "leave", 3) as job:
        job.end(range(3))
        for rank in job.ranks[:-1]:
            error_of(rank, ["PeerLost"])
            expect(rank.first("shrunk") == "shrunk 2", f"rank {rank.number} has not gone on")


def kills(options):
    """With --enable-recovery mpirun lets the survivors live, and MPI still works among them."""
    for _ in range(options.kills):
        size = options.random.randint(2, 4)
        victim = options.random.randrange(size)
        others = [number for number in range(size) if number != victim]
        with MpiJob(options.program, "loop", size, "--enable-recovery") as job:
            job.until(lambda: all(rank.first("going") for rank in job.ranks), "calls are answered")
            time.sleep(options.random.uniform(0, 0.03))  # a random moment
            os.kill(job.processes()[victim], signal.SIGKILL)
            job.end(others, code=None)
            for number in others:
                error_of(job.ranks[number], ["PeerLost"])
                expect(job.ranks[number].first("shrunk") == f"shrunk {size - 1}", f"rank {number} has not gone on")


def apart(options):
    """Two processes with a separate MPI_COMM_WORLD each."""
    place = tempfile.mkdtemp(prefix="heddle-mpi-")
    variables = {**os.environ, "HEDDLE_COMM_BACKEND": "mpi", "HEDDLE_SIZE": "2",
                 "HEDDLE_RENDEZVOUS": f"unix:{place}/meeting"}
    ranks = [subprocess.Popen([options.program, "sweep"], env={**variables, "HEDDLE_RANK": str(number)}, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
             for number in range(2)]
    try:
        for rank in ranks:
            text = rank.communicate(timeout=PATIENCE)[0]
            expect(rank.returncode == 1 and "both rank 0 of an MPI_COMM_WORLD" in text, text)
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
        shutil.rmtree(place)


def without(options):
    variables = {**os.environ, "HEDDLE_COMM_BACKEND": "mpi"}
    run = subprocess.run([options.plain, "sweep"], env=variables, text=True, capture_output=True, timeout=PATIENCE)
    expect(run.returncode == 1 and "failed InvalidArgument" in run.stdout and "-DHEDDLE_MPI=ON" in run.stdout, run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("plain")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.random = random.Random(options.seed)
    if not shutil.which("mpirun") or "Open MPI" not in subprocess.run(["mpirun", "--version"], capture_output=True,
                                                                      text=True).stdout:
        print("there is no mpirun of Open MPI")
        return SKIPPED
    tests = [("sweep", plain("sweep", (1, 2, 3, 4))), ("large", plain("large", (2, 3))), ("two", plain("two", (2, 4))),
             ("a rank computes", plain("compute-long", (2,), HEDDLE_COMM_TIMEOUT="0.5")), ("mismatch", mismatch),
             ("leave", leave), ("kills", kills), ("no world in common", apart)]
    if options.plain != options.program:
        tests.append(("a build without MPI", without))
    return run_tests([(name, lambda test=test: test(options)) for name, test in tests], subprocess.TimeoutExpired)


if __name__ == "__main__":
    sys.exit(main())
