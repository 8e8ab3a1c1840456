#!/usr/bin/env python3
"""Jobs of real processes on this host, what goes wrong with them, and that nothing of them is left.

    ranks_test.py PROGRAM [--backend shm] [--hosts 1] [--kills 10] [--stops 2] [--seed 1] [--only NAME]

PROGRAM is rank_program. Signals come at random moments; `--kills 300 --stops 100` is the long mode."""

import argparse
import os
import random
import signal
import sys
import time

from jobs import Failure, Job, error_of, expect, finished, run_tests, with_report

LOST_WITHIN = 2.0  # seconds, as the documentation promises survivors


def plain(scenario):
    def run(options):
        for size in (1, 2, 3, 4, 8) if scenario == "sweep" else (2, 4):
            with options.job(scenario, size, HEDDLE_COMM_TIMEOUT="1.5" if scenario == "compute-long" else "10") as job:
                with_report(job, lambda: (job.end(), finished(job)))
    return run


def lost(scenario, code):
    """The last rank exits on its own."""
    def run(options):
        for size in (2, 3, 4):
            with options.job(scenario, size) as job:
                def check():
                    job.end({size - 1: code})
                    finished(job)
                    for rank in job.ranks[:-1]:
                        error_of(rank, ["PeerLost"])
                        expect(rank.first("shrunk") == f"shrunk {size - 1}", f"rank {rank.number} has not gone on")
                with_report(job, check)
    return run


def mismatch(options):
    for size in (2, 3, 5):
        with options.job("mismatch", size) as job:
            def check():
                job.end()
                for rank in job.ranks:
                    text = error_of(rank, ["CommMismatch"])[1]
                    expect("rank 1 " in text and text.count("rank_program.cc:") == 2, text)
            with_report(job, check)


def two_hosts(options):
    for size in (4, 6):
        with Job(options.program, "two-hosts", size, hosts=2) as job:
            def check():
                job.end()
                finished(job)
                for rank in job.ranks:
                    expect(rank.first("backends") == "backends tcp shm", "a host's ranks do not share its memory")
            with_report(job, check)


def split_death(options):
    with options.job("split-death", 4) as job:
        def check():
            job.end({3: -signal.SIGKILL})
            for rank in job.ranks[:-1]:
                error_of(rank, ["PeerLost"])
            expect(job.ranks[1].first("shrunk") == "shrunk 1", "the half of the dead rank has not gone on")
        with_report(job, check)


def kills(options):
    latest = []
    for _ in range(options.kills):
        size = options.random.randint(2, 5)
        victim = options.random.randrange(size)
        with options.job("loop", size) as job:
            def check():
                job.until(lambda: all(rank.first("going") for rank in job.ranks), "calls are answered")
                time.sleep(options.random.uniform(0, 0.03))  # a random moment
                job.ranks[victim].process.kill()
                when = time.monotonic()
                job.end({victim: -signal.SIGKILL})
                for rank in job.ranks:
                    if rank.number != victim:
                        at, text = error_of(rank, ["PeerLost"])
                        latest.append(at - when)
                        expect(at - when < LOST_WITHIN, f"rank {rank.number} heard of it after {at - when:.3f} s")
                        expect(rank.first("shrunk") == f"shrunk {size - 1}", f"rank {rank.number} has not gone on")
            with_report(job, check)
    print(f"  {options.kills} kills; the last survivor heard after {max(latest, default=0) * 1000:.0f} ms at most")


def kills_in_shrink(options):
    """Ranks die one after another while the survivors agree."""
    for _ in range(options.kills):
        size = options.random.randint(3, 6)
        victims = options.random.sample(range(size), options.random.randint(2, size - 1))
        left = size - len(victims)
        with options.job("survive", size, SURVIVORS=str(left)) as job:
            def check():
                job.until(lambda: all(rank.first("going") for rank in job.ranks), "calls are answered")
                for victim in victims:
                    job.ranks[victim].process.kill()
                    time.sleep(options.random.choice((0, 0.001, 0.003, 0.01, 0.03)))  # a random moment
                job.end({victim: -signal.SIGKILL for victim in victims})
                survivors = [rank for rank in job.ranks if rank.number not in victims]
                finished(job, victims)
                for rank in survivors:
                    expect(f"shrunk {left}" in rank.lines, f"rank {rank.number} has not gone on with {left}")
            with_report(job, check)


def comebacks(options):
    """Ranks die and are restarted, sometimes all but one."""
    for again in range(max(options.kills // 5, 2)):
        size, meetings = options.random.randint(2, 4), 2
        environment = {"MEETINGS": str(meetings), "SHRINK": str(again % 2), "HEDDLE_COMM_TIMEOUT": "20"}
        with options.job("regrow", size, **environment) as job:
            def check():
                for _ in range(meetings):
                    job.until(lambda: all(rank.first("going") for rank in job.ranks), "calls are answered")
                    for rank in job.ranks:
                        rank.lines.clear()
                    job.replace(options.random.sample(range(size), options.random.randint(1, size - 1)))
                job.end()
                finished(job)
                for rank in job.ranks:
                    expect(rank.first("grown") == f"grown {size}", f"rank {rank.number} has not met the others")
            with_report(job, check)


def growth(options):
    """The job grows; the existing ranks get an error in the middle of their calls."""
    with options.job("regrow", 2, MEETINGS="1", GROW="4", HEDDLE_COMM_TIMEOUT="20") as job:
        def check():
            job.until(lambda: job.ranks[1].first("error"), "the others are told that one grows")
            error_of(job.ranks[1], ["CommAborted"])
            job.ranks += [job.start(number, 4) for number in (2, 3)]
            job.end()
            finished(job)
            for rank in job.ranks:
                expect("grown 4" in rank.lines, f"rank {rank.number} has not met all")
        with_report(job, check)


def stops(options):
    """A rank is stopped, declared lost, and continues too late."""
    timeout, latest = 2.0, []
    for _ in range(options.stops):
        size = options.random.randint(2, 4)
        victim = options.random.randrange(size)
        with options.job("loop", size, HEDDLE_COMM_TIMEOUT=str(timeout)) as job:
            def check():
                job.until(lambda: all(rank.first("going") for rank in job.ranks), "calls are answered")
                time.sleep(options.random.uniform(0, 0.03))
                stopped = job.ranks[victim]
                stopped.process.send_signal(signal.SIGSTOP)
                when = time.monotonic()
                others = [rank for rank in job.ranks if rank is not stopped]
                job.until(lambda: not any(rank.open for rank in others), "the others go on")
                for rank in others:
                    at, _ = error_of(rank, ["PeerSilent"])
                    latest.append(at - when)
                    expect(at - when < timeout + LOST_WITHIN, f"rank {rank.number} heard of it after {at - when:.3f} s")
                    expect(rank.first("shrunk") == f"shrunk {size - 1}", f"rank {rank.number} has not gone on")
                stopped.process.send_signal(signal.SIGCONT)
                job.end()
                error_of(stopped, ["PeerSilent", "PeerLost", "CommAborted"])
                expect(stopped.first("refused"), "the stopped rank went on without the others")
            with_report(job, check)
    print(f"  {options.stops} stops of {timeout} s; the last one heard after {max(latest, default=0) * 1000:.0f} ms at most")


def paused(options):
    """A whole job that is stopped and continued, as by Ctrl-Z, gets no error, however long it was stopped."""
    with options.job("loop", 3, HEDDLE_COMM_TIMEOUT="1.5") as job:
        def check():
            for _ in range(2):
                job.until(lambda: all(rank.first("going") for rank in job.ranks), "calls are answered")
                for rank in job.ranks:
                    rank.process.send_signal(signal.SIGSTOP)
                time.sleep(4)  # longer than the timeout
                job.read(0)
                before = [rank.count("going") for rank in job.ranks]
                for rank in job.ranks:
                    rank.process.send_signal(signal.SIGCONT)
                job.until(lambda: all(rank.count("going") > count + 2 or rank.first("error")
                                      for rank, count in zip(job.ranks, before)), "calls are answered again")
                expect(not any(rank.first("error") for rank in job.ranks), "a pause was taken for silence")
        with_report(job, check)


TESTS = {
    "sweep": plain("sweep"),
    "compute-long": plain("compute-long"),
    "fork": plain("fork"),
    "two": plain("two"),
    "two-hosts": two_hosts,
    "leave": lost("leave", 0),
    "exit": lost("exit", 0),
    "mismatch": mismatch,
    "split-death": split_death,
    "kills": kills,
    "kills-in-shrink": kills_in_shrink,
    "comebacks": comebacks,
    "growth": growth,
    "stops": stops,
    "paused": paused,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--backend", default="shm")
    parser.add_argument("--hosts", type=int, default=1, help="ranks act as if they were on so many hosts")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--stops", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", choices=TESTS)
    options = parser.parse_args()
    options.random = random.Random(options.seed)
    options.job = lambda scenario, size, **environment: Job(
        options.program, scenario, size, options.hosts, HEDDLE_COMM_BACKEND=options.backend, **environment)
    names_before = set(os.listdir("/dev/shm"))
    code = run_tests([(name, lambda test=TESTS[name]: test(options)) for name in options.only or TESTS])
    left = {name for name in set(os.listdir("/dev/shm")) - names_before if "heddle" in name}
    if left:
        print(f"FAIL  left in /dev/shm: {left}")
    return 1 if left else code


if __name__ == "__main__":
    sys.exit(main())
