#!/usr/bin/env python3
"""Keys that are limited to jobs, with processes: keygen, a server, workers, a list that changes.

    keys_test.py STORE_WORKER HEDDLE

Processes of one host show no keys to each other over the transport net: these use zmq, at an address other than loopback.
Exit status 77, skipped: the host has no such address.
"""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import cluster
from cluster import Process, metric, wait_until

ADDRESS = ""


def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ""
        address = probe.getsockname()[0]
        return "" if address.startswith("127.") else address


class Site(contextlib.ExitStack):
    """A server and the keys of its host and of workers."""

    def __init__(self):
        super().__init__()
        folder = pathlib.Path(self.enter_context(tempfile.TemporaryDirectory()))
        self.server_keys, self.worker_keys = folder / "server", folder / "worker"
        self.server_line = self.keygen(self.server_keys)
        self.worker_line = self.keygen(self.worker_keys, "--roles", "worker", "--jobs", "team-a-*,eval")
        self.allow(self.worker_line)
        self.write(self.worker_keys, [self.worker_line, self.server_line])
        self.server = self.enter_context(Process(
            [cluster.HEDDLE, "server", "--listen", ADDRESS + ":0", "--transport", "zmq", "--keys", str(self.server_keys),
             "--metrics", "127.0.0.1:0", "--log-format", "json"]))
        self.started = self.server.event("started")

    @staticmethod
    def keygen(folder, *options):
        printed = subprocess.run([cluster.HEDDLE, "keygen", "--out", str(folder), *options], capture_output=True, text=True, check=True)
        return printed.stdout.splitlines()[0]

    @staticmethod
    def write(folder, lines):
        draft = folder / "draft"
        draft.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        draft.chmod(0o600)
        os.replace(draft, folder / "comm.allowed")

    def allow(self, line):
        """Makes this the line of the workers' key on the server."""
        self.write(self.server_keys, [self.server_line, line])

    def limited_to(self, jobs):
        return self.worker_line.replace("jobs:team-a-*,eval", "jobs:" + jobs)

    def worker(self, job, *words):
        return self.enter_context(Process([cluster.WORKER, "dist_async", *words], HEDDLE_SERVERS=self.started["address"],
                                          HEDDLE_STORE_TRANSPORT="zmq", HEDDLE_COMM_KEYS=str(self.worker_keys), HEDDLE_JOB=job))

    def unauthorized(self):
        return metric(self.started["metrics"], "server_unauthorized_total")[0]


class Keys(unittest.TestCase):
    def refused(self, worker, job):
        self.assertEqual(worker.end(), 1, worker.text())
        self.assertIn(f"its key may not join job '{job}': see jobs: in the server's comm.allowed", worker.text())

    def test_a_key_joins_only_its_jobs(self):
        with Site() as site:
            self.assertIn("  roles:worker  jobs:team-a-*,eval  ", site.worker_line)
            for job in ("team-a-1", "eval"):
                worker = site.worker(job, "3")
                self.assertEqual(worker.end(), 0, worker.text())
            self.assertEqual(site.unauthorized(), 0)
            self.refused(site.worker("payroll", "3"), "payroll")
            event = site.server.event("worker_refused", job="payroll")
            self.assertIn("may not join job 'payroll'", event["why"])
            self.assertEqual(site.unauthorized(), 1)

    def test_a_list_that_changes_puts_workers_out(self):
        with Site() as site:
            worker = site.worker("team-a-1", "1000000", "0", "1")
            wait_until(lambda: metric(site.started["metrics"], "server_pushes_total")[0] > 5)
            site.allow(site.limited_to("eval"))
            self.refused(worker, "team-a-1")
            site.allow(site.worker_line)
            again = site.worker("eval", "3")
            self.assertEqual(again.end(), 0, again.text())

    def test_a_wrong_line_is_named_and_changes_nothing(self):
        with Site() as site:
            site.allow(site.limited_to("eval,,x"))
            site.server.event("message", saying=f"{site.server_keys}/comm.allowed:2: 'jobs:eval,,x'; want names of jobs")
            worker = site.worker("team-a-1", "3")
            self.assertEqual(worker.end(), 0, worker.text())
            with Process([cluster.HEDDLE, "server", "--check-config", "--listen", ADDRESS + ":0", "--keys", str(site.server_keys)]) as check:
                self.assertEqual(check.end(), 2)
                self.assertIn("comm.allowed:2: 'jobs:eval,,x'; want names of jobs", check.text() + "".join(check.out))


if __name__ == "__main__":
    cluster.programs(*sys.argv[1:3])
    ADDRESS = own_address()
    if not ADDRESS:
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
