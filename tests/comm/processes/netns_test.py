#!/usr/bin/env python3
"""Two hosts: network namespaces of their own with a wire (veth) between them, which is cut while ranks call.

    netns_test.py PROGRAM [--cuts 3] [--seed 1] [--keys DIR]

PROGRAM is rank_program. Runs in a user namespace, so nobody has to be root; exits with 77 where that is forbidden, or
where there is no iproute2."""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time

from jobs import SKIPPED, Job, error_of, expect, finished, run_tests, with_report

NEAR, FAR, PORT = "10.251.7.1", "10.251.7.2", 23456
LOST_WITHIN = 8.0  # seconds; a host that does not answer is lost after 2 s


def inside():
    """Re-executes this program in a network namespace, unless it is in one; skips the test if that is not allowed."""
    if os.environ.get("HEDDLE_NETNS_TEST"):
        return
    allowed = shutil.which("ip") and subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", "ip link add x type veth peer name y"],
        capture_output=True).returncode == 0
    if not allowed:
        print("skipped: no network namespaces here (iproute2, and user namespaces that are allowed)")
        sys.exit(SKIPPED)
    os.environ["HEDDLE_NETNS_TEST"] = "1"
    os.execvp("unshare", ["unshare", "--user", "--map-root-user", "--net", sys.executable, *sys.argv])


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class TwoHosts:
    """This namespace is the near host; the far host's namespace exists while a process waits in it."""

    def __init__(self, keys):
        self.protection = {"HEDDLE_COMM_KEYS": keys} if keys else {"HEDDLE_COMM_INSECURE": "1"}

    def __enter__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(self.holder.pid))
        ip("addr", "add", NEAR + "/24", "dev", "near")
        for words in (["ip", "addr", "add", FAR + "/24", "dev", "far"], ["ip", "link", "set", "far", "up"],
                      ["ip", "link", "set", "lo", "up"]):
            subprocess.run([*self.there(), *words], check=True)
        ip("link", "set", "lo", "up")
        self.wire(True)
        return self

    def __exit__(self, *_):
        # deletes it now, since the kernel removes a namespace some time after its last process has ended
        ip("link", "del", "near")
        self.holder.stdin.close()
        self.holder.wait()
        self.holder.stdout.close()

    def there(self):
        return ["nsenter", "--net=/proc/%d/ns/net" % self.holder.pid]

    def wire(self, up):
        ip("link", "set", "near", "up" if up else "down")

    def job(self, program, scenario, size, **environment):
        """A job whose first half of ranks is on the near host; the hosts share no memory."""
        hosts = {**self.protection, **environment}
        return Job(program, scenario, size, hosts=2, meeting=f"tcp:{NEAR}:{PORT}",
                   prefix=lambda number: [] if number * 2 // size == 0 else self.there(), **hosts)


def runs(options, hosts):
    for size in (2, 3, 4):
        with hosts.job(options.program, "sweep", size) as job:
            with_report(job, lambda: (job.end(), finished(job)))


def cuts(options, hosts):
    latest = []
    for _ in range(options.cuts):
        size = options.random.randint(2, 5)
        with hosts.job(options.program, "loop", size) as job:
            def check():
                job.until(lambda: all(rank.first("going") for rank in job.ranks), "calls are answered")
                time.sleep(options.random.uniform(0, 0.03))  # a random moment
                hosts.wire(False)
                when = time.monotonic()
                job.end()
                near = [rank for rank in job.ranks if rank.number * 2 // size == 0]
                for rank in job.ranks:
                    at, _ = error_of(rank, ["PeerLost", "PeerSilent"])
                    latest.append(at - when)
                    expect(at - when < LOST_WITHIN, f"rank {rank.number} heard of it after {at - when:.3f} s")
                    left = len(near) if rank in near else size - len(near)
                    expect(rank.first("shrunk") == f"shrunk {left}", f"rank {rank.number} has not gone on")
            try:
                with_report(job, check)
            finally:
                hosts.wire(True)
    print(f"  {options.cuts} cuts; the last rank heard after {max(latest, default=0) * 1000:.0f} ms at most")


def main():
    inside()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cuts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keys", help="what heddle keygen has made: the two hosts encrypt")
    options = parser.parse_args()
    options.random = random.Random(options.seed)

    def between_hosts(test):
        with TwoHosts(options.keys) as hosts:
            test(options, hosts)

    return run_tests([(test.__name__, lambda test=test: between_hosts(test)) for test in (runs, cuts)])


if __name__ == "__main__":
    sys.exit(main())
