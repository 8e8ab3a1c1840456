#!/usr/bin/env python3
"""A scheduler, servers and workers as processes: they find each other, die, and go on.

    scheduler_test.py WORKER HEDDLE

WORKER is store_worker, HEDDLE the program heddle."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

PATIENCE = 120  # seconds; far beyond what anything takes on a loaded machine
WORKER = HEDDLE = ""


def environment(**more):
    decides = ("HEDDLE_R", "HEDDLE_S", "HEDDLE_L", "HEDDLE_JOB", "RANK", "WORLD_SIZE", "LOCAL_", "OMPI_", "PMI", "SLURM_", "DMLC_")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(decides)}, **more}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def metric(address, name):
    """The values of all series of that name."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE) as page:
        text = page.read().decode()
    return [float(value) for value in re.findall(rf"^heddle_{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)]


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it does not come about")
        time.sleep(0.02)


class Process:
    """A process whose lines of stderr are kept; as a context it is killed at the end."""

    def __init__(self, words, **variables):
        self.process = subprocess.Popen(words, env=environment(**variables), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.lines, self.out, self.changed = [], [], threading.Condition()
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stderr, self.lines), (self.process.stdout, self.out))]
        for reader in self.readers:
            reader.start()

    def read(self, stream, lines):
        for line in stream:
            with self.changed:
                lines.append(line)
                self.changed.notify_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.end()
        self.process.stdout.close()
        self.process.stderr.close()

    def kill(self):
        self.process.kill()
        self.end()

    def end(self):
        """The exit status."""
        status = self.process.wait(PATIENCE)
        for reader in self.readers:
            reader.join(PATIENCE)
        return status

    def text(self):
        return "".join(self.lines)

    def event(self, name, **fields):
        """The first line of the log of this event with these fields; waits for it."""

        def found():
            for line in self.lines:
                if line.startswith("{"):
                    event = json.loads(line)
                    if event["event"] == name and all(event.get(key) == value for key, value in fields.items()):
                        return event
            return None

        with self.changed:
            if not self.changed.wait_for(found, PATIENCE):
                raise AssertionError(f"no event {name} {fields}:\n{''.join(self.lines)}")
            return found()


class Cluster(contextlib.ExitStack):
    """A scheduler, and what the test starts beside it."""

    def __init__(self, servers, *options):
        super().__init__()
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        self.address = f"127.0.0.1:{free_port()}"
        self.words = [HEDDLE, "scheduler", "--listen", self.address, "--servers", str(servers), "--state", self.folder + "/state",
                      "--metrics", "127.0.0.1:0", "--log-format", "json", *options]
        self.start_scheduler()

    def start_scheduler(self):
        self.scheduler = self.enter_context(Process(self.words))
        self.metrics = self.scheduler.event("started")["metrics"]

    def server(self, *options):
        return self.enter_context(Process([HEDDLE, "server", "--listen", "127.0.0.1:0", "--scheduler", self.address, "--metrics",
                                           "off", "--log-format", "json", *options]))

    def worker(self, *words, **variables):
        return self.enter_context(Process([WORKER, *words], HEDDLE_STORE_SCHEDULER=self.address, **variables))

    def workers(self, count, *words):
        return [self.worker(*words, HEDDLE_RANK=str(rank), HEDDLE_SIZE=str(count), HEDDLE_RENDEZVOUS="tcp:127.0.0.1:1")
                for rank in range(count)]

    def metric(self, name):
        return metric(self.metrics, "scheduler_" + name)

    def wait_for(self, name, values):
        wait_until(lambda: self.metric(name) == values)


class SchedulerTest(unittest.TestCase):
    def check_done(self, workers):
        for worker in workers:
            status = worker.end()
            self.assertEqual((status, worker.out), (0, ["done\n"]), worker.text())

    def test_numbers_and_ranks_are_assigned(self):
        with Cluster(2, "--workers", "3") as cluster:
            servers = [cluster.server(), cluster.server()]
            workers = [cluster.worker("dist_sync", "20") for _ in range(3)]
            self.check_done(workers)
            self.assertEqual(cluster.metric("servers_here"), [2])
            for server in servers:
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.end(), 0, server.text())
            cluster.scheduler.process.send_signal(signal.SIGTERM)
            self.assertEqual(cluster.scheduler.end(), 0)

    def test_who_has_not_come_is_named(self):
        with Cluster(2, "--start-timeout", "500ms") as cluster:
            server = cluster.server("--number", "1")
            worker, = cluster.workers(1, "dist_sync", "1")
            for process in (server, worker):
                self.assertEqual(process.end(), 1)
                self.assertIn("the servers have not all come: waiting for 0.5 s for server 0 of 2", process.text())

    def test_a_number_has_one_process(self):
        with Cluster(1, "--server-timeout", "300ms") as cluster:
            cluster.server("--number", "0")
            cluster.wait_for("servers_here", [1])
            second = cluster.server("--number", "0")
            self.assertEqual(second.end(), 1)
            self.assertIn("server 0 is there already", second.text())

    def test_a_job_goes_on_without_its_scheduler_and_with_the_next_one(self):
        with Cluster(2) as cluster:
            for _ in range(2):
                cluster.server("--replicas", "2")
            workers = cluster.workers(2, "dist_sync", "300")
            cluster.wait_for("workers_here", [2])
            cluster.scheduler.kill()
            cluster.start_scheduler()
            cluster.wait_for("servers_here", [2])
            self.check_done(workers)
            self.assertEqual(cluster.metric("lost_total"), [0])

    def test_a_server_that_is_killed_is_replaced_by_its_backup_and_comes_back(self):
        with Cluster(2) as cluster:
            servers = [cluster.server("--number", str(number), "--replicas", "2") for number in range(2)]
            workers = cluster.workers(2, "dist_sync", "600")
            cluster.wait_for("workers_here", [2])
            cluster.wait_for("shard_copies", [2, 2])
            servers[0].kill()
            cluster.scheduler.event("shard_failed_over", shard="0")
            cluster.server("--number", "0", "--replicas", "2")
            cluster.scheduler.event("shard_handed_back", shard="0")
            self.check_done(workers)
            self.assertEqual(cluster.metric("lost_total"), [0])

    def test_without_a_backup_the_loss_is_told(self):
        with Cluster(1) as cluster:
            server = cluster.server("--number", "0", "--metrics", "127.0.0.1:0")
            workers = cluster.workers(2, "dist_sync", "100000")
            wait_until(lambda: metric(server.event("started")["metrics"], "server_rounds_total")[0] > 2)
            server.kill()
            cluster.server("--number", "0")
            cluster.scheduler.event("shard_lost", shard="0")
            for worker in workers:
                self.assertEqual(worker.end(), 1)
                self.assertIn("it has been started anew, without what it held", worker.text())

    def test_dmlc_names_all_roles(self):
        root = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(free_port()), "DMLC_NUM_SERVER": "2", "DMLC_NUM_WORKER": "2"}
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(Process([HEDDLE, "server"], DMLC_ROLE=role, **root))
                       for role in ("scheduler", "server", "server")]
            workers = [stack.enter_context(Process([WORKER, "dist_sync", "20"], DMLC_ROLE="worker", **root)) for _ in range(2)]
            self.check_done(workers)
            for server in servers:  # they end with the job
                self.assertEqual(server.end(), 0, server.text())

    def test_a_state_file_that_is_damaged_is_refused(self):
        with Cluster(1) as cluster:
            cluster.server("--number", "0")
            cluster.wait_for("begun", [1])
            second = cluster.enter_context(Process([*cluster.words[:3], "127.0.0.1:0", *cluster.words[4:]]))
            self.assertEqual(second.end(), 1)
            self.assertIn("another scheduler that is running uses it", second.text())
            cluster.scheduler.kill()
            with open(cluster.folder + "/state", "r+b") as file:
                file.seek(30)
                file.write(b"\xff\xff")
            again = cluster.enter_context(Process(cluster.words))
            self.assertEqual(again.end(), 1)
            self.assertIn("state is damaged: its checksum is wrong", again.text())

    def test_settings_that_cannot_be(self):
        for words, text in ((["server", "--replicas", "2"], "copies need a scheduler"),
                            (["server", "--scheduler", "a"], "--scheduler: 'a': want HOST:PORT"),
                            (["scheduler", "--servers", "257"], "--servers: '257': want a number from 1 to 256"),
                            (["scheduler", "--grace", "5s"], "--grace: 5s is more than server-timeout, 3s"),
                            (["scheduler", "--state", "/none/a"], "--state: there is no directory /none")):
            with Process([HEDDLE, *words]) as process:
                self.assertEqual(process.end(), 2)
                self.assertIn(text, process.text())
        for variables, text in (({"DMLC_ROLE": "boss"}, "DMLC_ROLE: 'boss': want scheduler, server or worker"),
                                ({"DMLC_ROLE": "server"}, "DMLC_PS_ROOT_URI is not set, but DMLC_ROLE is 'server'")):
            with Process([HEDDLE, "server"], **variables) as process:
                self.assertNotEqual(process.end(), 0)
                self.assertIn(text, process.text())


if __name__ == "__main__":
    WORKER, HEDDLE = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
