#!/usr/bin/env python3
"""Jobs of real processes that encrypt, with the keys that heddle keygen makes.

    tls_test.py PROGRAM HEDDLE

PROGRAM is rank_program, HEDDLE the program heddle."""

import os
import signal
import subprocess
import sys
import tempfile

from jobs import Job, error_of, expect, finished, free_port, run_tests, with_report


def run(command, **variables):
    return subprocess.run(command, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)


def launch(program, heddle, **variables):
    place = f"tcp:127.0.0.1:{free_port()}"
    return run([heddle, "launch", "-n", "3", "--", "env", f"HEDDLE_RENDEZVOUS={place}", program, "two"],
               HEDDLE_COMM_BACKEND="tcp", **variables)


def launched(program, heddle, keys):
    done = launch(program, heddle, HEDDLE_COMM_KEYS=keys, HEDDLE_COMM_ENCRYPT="1")
    expect(done.returncode == 0 and done.stdout.count("done") == 3, done.stdout)


def refused(program, heddle, keys):
    """Nothing starts without keys, or with a key file that others can read."""
    with tempfile.TemporaryDirectory() as empty:
        done = launch(program, heddle, HEDDLE_COMM_KEYS=empty, HEDDLE_COMM_ENCRYPT="1")
        expect(done.returncode != 0 and "heddle keygen" in done.stdout, done.stdout)
    os.chmod(f"{keys}/comm.key", 0o640)
    done = launch(program, heddle, HEDDLE_COMM_KEYS=keys, HEDDLE_COMM_ENCRYPT="1")
    os.chmod(f"{keys}/comm.key", 0o600)
    expect(done.returncode != 0 and "can be read by others" in done.stdout, done.stdout)


def lost(program, heddle, keys):
    """A rank that is killed or stopped is detected as over unencrypted connections."""
    for signum, kind in ((signal.SIGKILL, "PeerLost"), (signal.SIGSTOP, "PeerSilent")):
        with Job(program, "loop", 3, HEDDLE_COMM_BACKEND="tcp", HEDDLE_COMM_KEYS=keys, HEDDLE_COMM_ENCRYPT="1",
                 HEDDLE_COMM_TIMEOUT="3" if signum == signal.SIGSTOP else "10") as job:
            def check():
                job.until(lambda: all(rank.first("going") for rank in job.ranks), "calls are answered")
                job.ranks[1].process.send_signal(signum)
                others = [job.ranks[0], job.ranks[2]]
                job.until(lambda: all(rank.first("error") for rank in others), "the others hear of it")
                for rank in others:
                    error_of(rank, [kind])
            with_report(job, check)


def sweep(program, heddle, keys):
    with Job(program, "sweep", 3, HEDDLE_COMM_BACKEND="tcp", HEDDLE_COMM_KEYS=keys, HEDDLE_COMM_ENCRYPT="1") as job:
        with_report(job, lambda: (job.end(), finished(job)))


def main():
    program, heddle = sys.argv[1:]
    with tempfile.TemporaryDirectory() as parent:
        keys = f"{parent}/keys"
        made = run([heddle, "keygen", "--out", keys])
        if made.returncode != 0 or not made.stdout.startswith("sha256:"):
            print(f"FAIL  keygen: {made.stdout}")
            return 1
        return run_tests([(test.__name__, lambda test=test: test(program, heddle, keys))
                          for test in (launched, refused, lost, sweep)])


if __name__ == "__main__":
    sys.exit(main())
