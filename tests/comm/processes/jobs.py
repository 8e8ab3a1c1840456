"""Jobs of real processes, and what the tests that start them have in common."""

import os
import pathlib
import selectors
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from ports import free_port  # noqa: E402, F401

PATIENCE = 60  # seconds for any step; longer is a hang
SKIPPED = 77  # exit code of a test that cannot run here


class Failure(Exception):
    pass


def found(program):
    """The program's path, also in directories of root's PATH; None if it is not installed."""
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


class Rank:
    def __init__(self, number, process):
        self.number, self.process, self.lines, self.partial, self.open = number, process, [], b"", True

    def first(self, word):
        return next((line for line in self.lines if line.split(" ")[0] == word), None)

    def count(self, word):
        return sum(line.split(" ")[0] == word for line in self.lines)


class Job:
    """The rank processes of one scenario; leaving the context kills the remaining ones."""

    def __init__(self, program, scenario, size, hosts=1, meeting=None, prefix=lambda number: [], **environment):
        """`prefix`: words before the program, by rank. `meeting`: the rendezvous, by default a new unix socket."""
        self.place = tempfile.mkdtemp(prefix="heddle-ranks-")
        self.meeting = meeting or f"unix:{self.place}/meeting"
        self.selector, self.ranks = selectors.DefaultSelector(), []
        self.command, self.hosts, self.prefix, self.environment = [program, scenario], hosts, prefix, environment
        for number in range(size):
            self.ranks.append(self.start(number, size))

    def start(self, number, size):
        variables = {**os.environ, "HEDDLE_RANK": str(number), "HEDDLE_SIZE": str(size),
                     "HEDDLE_RENDEZVOUS": self.meeting, **self.environment}
        if self.hosts > 1:
            variables["HEDDLE_COMM_HOST"] = str(number * self.hosts // size)
        process = subprocess.Popen([*self.prefix(number), *self.command], stdout=subprocess.PIPE, env=variables,
                                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.set_blocking(process.stdout.fileno(), False)
        rank = Rank(number, process)
        self.selector.register(process.stdout, selectors.EVENT_READ, rank)
        return rank

    def replace(self, numbers):
        """Kills ranks, and starts new processes for them."""
        for number in numbers:
            self.ranks[number].process.kill()
        for number in numbers:
            old = self.ranks[number]
            old.process.wait()
            self.until(lambda: not old.open, "nothing more comes from the dead")
            old.process.stdout.close()
            self.ranks[number] = self.start(number, len(self.ranks))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.process.kill()
            rank.process.wait()
            rank.process.stdout.close()
        self.selector.close()
        shutil.rmtree(self.place)

    def read(self, seconds):
        for key, _ in self.selector.select(seconds):
            rank = key.data
            got = os.read(key.fd, 1 << 16)
            if not got:
                self.selector.unregister(key.fileobj)
                rank.open = False
            *lines, rank.partial = (rank.partial + got).split(b"\n")
            rank.lines += [line.decode(errors="replace") for line in lines]

    def until(self, condition, what, patience=PATIENCE):
        end = time.monotonic() + patience
        while not condition():
            if time.monotonic() > end:
                raise Failure(f"not within {patience} s: {what}")
            self.read(0.05)

    def end(self, expected=None):
        """Waits until all ranks have ended; `expected`: exit codes that are not 0, by rank."""
        self.until(lambda: not any(rank.open for rank in self.ranks), "all ranks end")
        for rank in self.ranks:
            code = rank.process.wait(PATIENCE)
            if code != (expected or {}).get(rank.number, 0):
                raise Failure(f"rank {rank.number} ended with {code}")
        self.nothing_left()

    def nothing_left(self):
        if os.listdir(self.place):
            raise Failure(f"left in the rendezvous' directory: {os.listdir(self.place)}")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if self.meeting.encode() in file.read():
                        raise Failure(f"process {pid} is left")
            except OSError:
                continue  # the process has ended, or belongs to another user

    def report(self):
        return "\n".join(f"  rank {rank.number}: " + " | ".join(rank.lines[-4:]) for rank in self.ranks)


def expect(condition, what):
    if not condition:
        raise Failure(what)


def error_of(rank, kinds):
    line = rank.first("error")
    expect(line, f"rank {rank.number} heard of no error")
    _, kind, when, text = line.split(" ", 3)
    expect(kind in kinds, f"rank {rank.number} got {kind}, not {' or '.join(kinds)}: {text}")
    return int(when) / 1e9, text


def finished(job, but=()):
    for rank in job.ranks:
        if rank.number not in but:
            expect(rank.first("done") and not rank.first("failed"), f"rank {rank.number} is not done")


def with_report(job, check):
    try:
        return check()
    except Failure as failure:
        raise Failure(f"{failure}\n{job.report()}") from None


def run_tests(tests, *errors):
    """Runs (name, function) pairs and prints results; returns the exit code. `errors`: other failures."""
    failures = 0
    for name, test in tests:
        begin = time.monotonic()
        try:
            test()
            print(f"ok    {name} ({time.monotonic() - begin:.1f} s)", flush=True)
        except (Failure, *errors) as failure:
            failures += 1
            print(f"FAIL  {name}: {failure}", flush=True)
    return 1 if failures else 0
