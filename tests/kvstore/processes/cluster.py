"""Schedulers, servers and workers as processes, for tests. programs() says which programs they are."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from ports import free_port  # noqa: E402

# Sanitizers slow the start of programs, which dominates: then similar tests are skipped.
FEW = "HEDDLE_FEW_PROCESSES" in os.environ
alike = unittest.skipIf(FEW, "another test does the same with other settings")

PATIENCE = 120  # seconds, far more than any step takes on a loaded machine
WORKER = HEDDLE = ""


def programs(worker, heddle):
    global WORKER, HEDDLE
    WORKER, HEDDLE = worker, heddle


def environment(**more):
    decides = ("HEDDLE_R", "HEDDLE_S", "HEDDLE_L", "HEDDLE_JOB", "RANK", "WORLD_SIZE", "LOCAL_", "OMPI_", "PMI", "SLURM_", "DMLC_")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(decides)}, **more}


def metric(address, name):
    """Returns the values of all series of the metric."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE) as page:
        text = page.read().decode()
    return [float(value) for value in re.findall(rf"^heddle_{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)]


def page(address, name):
    """Returns the HTTP status and the body."""
    try:
        with urllib.request.urlopen(f"http://{address}/{name}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def wait_until(condition, found=lambda: ""):
    """found(): text that is appended to the message of a timeout."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it does not come about" + found())
        time.sleep(0.02)


class Process:
    """A process with its output; leaving the context kills it."""

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
        """Waits for the end; returns the exit status."""
        status = self.process.wait(PATIENCE)
        for reader in self.readers:
            reader.join(PATIENCE)
        return status

    def text(self):
        return "".join(self.lines)

    def alarms(self):
        """Returns the log's lines of level warning or error."""
        return [line for line in self.lines if line.startswith("{") and json.loads(line)["level"] in ("warning", "error")]

    def event(self, name, saying="", **fields):
        """Waits for the event with this text and these fields in the log; returns the first one."""

        def found():
            for line in self.lines:
                if line.startswith("{") and saying in line:
                    event = json.loads(line)
                    if event["event"] == name and all(event.get(key) == value for key, value in fields.items()):
                        return event
            return None

        with self.changed:
            if not self.changed.wait_for(found, PATIENCE):
                raise AssertionError(f"no event {name} {fields}:\n{''.join(self.lines)}")
            return found()


class Cluster(contextlib.ExitStack):
    """A scheduler, and the servers and workers that a test starts."""

    def __init__(self, servers, *options):
        super().__init__()
        self.started = []
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        self.address = f"127.0.0.1:{free_port()}"
        self.words = [HEDDLE, "scheduler", "--listen", self.address, "--servers", str(servers), "--state", self.folder + "/state",
                      "--metrics", "127.0.0.1:0", "--log-format", "json", *options]
        self.start_scheduler()

    def start(self, words, **variables):
        self.started.append(self.enter_context(Process(words, **variables)))
        return self.started[-1]

    def start_scheduler(self):
        self.scheduler = self.start(self.words)
        self.metrics = self.scheduler.event("started")["metrics"]

    def server(self, *options):
        return self.start([HEDDLE, "server", "--listen", "127.0.0.1:0", "--scheduler", self.address, "--metrics", "off",
                           "--log-format", "json", *options])

    def worker(self, *words, **variables):
        return self.start([WORKER, *words], HEDDLE_STORE_SCHEDULER=self.address, **variables)

    def workers(self, count, *words, **variables):
        return [self.worker(*words, HEDDLE_RANK=str(rank), HEDDLE_SIZE=str(count), **variables)
                for rank in range(count)]

    def metric(self, name):
        return metric(self.metrics, "scheduler_" + name)

    def wait_for(self, name, values):
        wait_until(lambda: self.metric(name) == values, lambda: f": {name} is {values}, it is {self.metric(name)}\n{self.texts()}")

    def texts(self):
        """Returns the stderr and the exit status of each process."""
        return "\n".join(f"{' '.join(one.process.args)}: {one.process.poll()}\n{one.text()}" for one in self.started)

    def wait_for_copies(self, servers):
        """Waits until all servers are registered, and each shard has two complete copies."""
        self.wait_for("servers_here", [servers])
        self.wait_for("shard_copies", [2] * servers)
