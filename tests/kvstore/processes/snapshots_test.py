#!/usr/bin/env python3
"""Servers that are stopped or killed under workers and started again from their snapshots, and the commands for snapshots.

    snapshots_test.py WORKER HEDDLE

WORKER is store_worker, HEDDLE the program heddle."""

import json
import os
import queue
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request

from cluster import FEW

PATIENCE = 120  # seconds, far more than a job takes on a loaded machine
ROUNDS = "150"


def environment(**more):
    decides = ("HEDDLE_R", "HEDDLE_S", "HEDDLE_L", "HEDDLE_JOB", "RANK", "WORLD_SIZE", "LOCAL_", "OMPI_", "PMI", "SLURM_", "DMLC_")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(decides)}, **more}


PROCESSES = []  # processes of the current test


def start(words, **options):
    PROCESSES.append(subprocess.Popen(words, stderr=subprocess.PIPE, text=True, **options))
    return PROCESSES[-1]


class Server:
    """A thread reads the log: a server blocks while its log's pipe is full."""

    def __init__(self, heddle, folder, address="127.0.0.1:0", inside=()):
        words = [*inside, heddle, "server", "--listen", address, "--metrics", "127.0.0.1:0", "--log-format", "json", "--snapshots",
                 folder, "--snapshot-interval", "50ms"]
        self.process = start(words, env=environment(), stdout=subprocess.DEVNULL)
        self.lines = queue.Queue()
        self.events = []
        threading.Thread(target=self.read, daemon=True).start()
        started = self.event("started")
        self.address, self.metrics = started["address"], started["metrics"]

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=PATIENCE) as page:
            lines = page.read().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"heddle_server_{name}"))

    def read(self):
        for line in self.process.stderr:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def event(self, name):
        """Waits for the next event of that name, or, with None, for the end of the log, which ends with the process."""
        while (event := self.lines.get()) is not None:
            self.events.append(event)
            if event["event"] == name:
                return event
        self.lines.put(None)
        if name is None:
            return None
        raise AssertionError(f"the server ended without {name}: {self.events[-5:]}")

    def end(self, *signals):
        """Sends the signals. SIGTERM drains the server; a second one ends it even if there are workers."""
        for number, one in enumerate(signals):
            self.process.send_signal(one)
            if one == signal.SIGTERM and number == 0:
                self.event("signal")
        self.event(None)
        return self.process.wait(PATIENCE)


def start_workers(heddle, worker, store, address, job="default", rounds=ROUNDS, **variables):
    words = [heddle, "launch", "-n", "2", "--", worker, store, rounds, "0", "15"]
    return start(words, env=environment(HEDDLE_SERVERS=address, HEDDLE_JOB=job, **variables), stdout=subprocess.PIPE)


def open_file(path):
    """Creates the file for which workers with HEDDLE_LAST_ROUND=path wait, so that they outlive their server."""
    with open(path, "w", encoding="utf-8"):
        pass


def under_way(server):
    """Waits until both workers have joined, and a snapshot has their large value of 3.2 MB."""
    for _ in range(2):
        server.event("worker_joined")
    while int(server.event("snapshot_written")["bytes"]) < 3_000_000:
        pass


def run(heddle, *words):
    done = subprocess.run([heddle, "server", *words], env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.returncode, done.stdout + done.stderr


def stopped(heddle, worker, store, folder):
    """A stopping server writes a last snapshot: workers continue with the next server, and no push is lost."""
    first = Server(heddle, folder)
    workers = start_workers(heddle, worker, store, first.address, HEDDLE_LAST_ROUND=folder + "-last")
    under_way(first)
    assert first.end(signal.SIGTERM, signal.SIGTERM) == 1
    open_file(folder + "-last")
    code, text = run(heddle, "verify", folder)
    assert code == 0 and "job default" in text and ": good, server 0 of 1" in text, text
    second = Server(heddle, folder, first.address)
    assert second.event("snapshot_loaded")["jobs"] == "1", second.events
    out, err = workers.communicate(timeout=PATIENCE)
    assert workers.returncode == 0 and out.count("done") == 2, out + err
    assert second.end(signal.SIGTERM) == 0
    third = Server(heddle, folder)
    assert third.event("snapshot_loaded")["jobs"] == "0", third.events
    assert third.end(signal.SIGTERM) == 0


def killed(heddle, worker, store, folder):
    """A killed server loses pushes since its last snapshot: workers continue, or get an error at once."""
    first = Server(heddle, folder)
    workers = start_workers(heddle, worker, store, first.address, HEDDLE_LAST_ROUND=folder + "-last")
    under_way(first)
    first.end(signal.SIGKILL)
    open_file(folder + "-last")
    second = Server(heddle, folder, first.address)
    out, err = workers.communicate(timeout=PATIENCE)
    told = "was restored from a snapshot of" in err and "start the job anew from its last checkpoint" in err
    assert (workers.returncode == 0 and out.count("done") == 2) or told, out + err
    again = start_workers(heddle, worker, store, first.address, job="anew", rounds="5")
    out, err = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, out + err
    second.end(signal.SIGTERM, signal.SIGTERM)


def goes_on(heddle, worker, store, server, folder, mend, why):
    """While snapshots fail, workers are served, and log and metrics show it; a later snapshot succeeds."""
    failed = server.event("snapshot_failed")
    assert failed["folder"] == folder and why in failed["why"], failed
    others = start_workers(heddle, worker, store, server.address, job="others", rounds="5")
    out, err = others.communicate(timeout=PATIENCE)
    assert others.returncode == 0 and out.count("done") == 2, out + err
    server.event("snapshot_failed")
    assert server.metric("snapshots_failed_total") >= 2, server.events[-5:]
    mend()
    server.event("snapshot_written")


def finish(workers, server, folder):
    open_file(folder + "-last")
    out, err = workers.communicate(timeout=PATIENCE)
    assert workers.returncode == 0 and out.count("done") == 2, out + err
    assert server.end(signal.SIGTERM) == 0, server.events[-5:]


# A file system of 8 MB that another file almost fills.
SMALL_DISK = ("unshare", *(() if os.getuid() == 0 else ("-r",)), "-m", "sh", "-c",
              'mount -t tmpfs -o size=8m heddle "$1" && head -c 7500000 /dev/zero >"$1/full" && shift && exec "$@"', "disk")


def full_disk(heddle, worker, store, folder):
    os.mkdir(folder)
    inside = (*SMALL_DISK, folder)
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        print("left out: there is no way to have a small disk", flush=True)
        return
    server = Server(heddle, folder, inside=inside)
    workers = start_workers(heddle, worker, store, server.address, HEDDLE_LAST_ROUND=folder + "-last")
    goes_on(heddle, worker, store, server, folder, lambda: os.remove(f"/proc/{server.process.pid}/root{folder}/full"),
            "No space left on device")
    finish(workers, server, folder)


def small_files(heddle, worker, store, folder):
    """Files have a size limit; a process that exceeds it gets SIGXFSZ, which ends it unless it is ignored."""
    server = Server(heddle, folder, inside=("sh", "-c", 'ulimit -S -f 2000 && exec "$@"', "limit"))
    workers = start_workers(heddle, worker, store, server.address, HEDDLE_LAST_ROUND=folder + "-last")
    most = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)[1]
    goes_on(heddle, worker, store, server, folder,
            lambda: resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, most)), "File too large")
    finish(workers, server, folder)


def no_folder(heddle, worker, store, folder):
    """A file replaces the folder: permissions would not stop root, as which tests may run."""
    server = Server(heddle, folder)
    workers = start_workers(heddle, worker, store, server.address, HEDDLE_LAST_ROUND=folder + "-last")
    under_way(server)
    os.rename(folder, folder + "-away")
    open_file(folder)

    def mend():
        os.remove(folder)
        os.rename(folder + "-away", folder)

    goes_on(heddle, worker, store, server, folder, mend, "Not a directory")
    finish(workers, server, folder)
    code, text = run(heddle, "verify", folder)
    assert code == 0 and ": good, server 0 of 1" in text, text


def commands(heddle, worker, store, folder):
    """verify finds damage; restore writes snapshots for other numbers of servers, which verify accepts."""
    server = Server(heddle, folder)
    workers = start_workers(heddle, worker, store, server.address, HEDDLE_LAST_ROUND=folder + "-last")
    under_way(server)
    server.end(signal.SIGTERM, signal.SIGTERM)
    workers.kill()
    workers.communicate()
    before = folder
    for number in ("3", "2", "1"):
        after = folder + number
        code, text = run(heddle, "restore", before, "--servers", number, "--out", after)
        assert code == 0 and text.count("wrote ") == int(number), text
        code, text = run(heddle, "verify", after)
        assert code == 0 and text.count(": good, ") == int(number), text
        before = after
    code, text = run(heddle, "restore", before, "--servers", "1", "--out", before)
    assert code == 1 and "has snapshots of 1 servers already" in text, text
    two_folders(heddle, folder + "3")
    victim = sorted(name for name in os.listdir(before) if name.endswith(".snapshot"))[0]
    with open(os.path.join(before, victim), "r+b") as file:
        file.seek(1000)
        byte = file.read(1)[0]
        file.seek(1000)
        file.write(bytes([byte ^ 1]))
    code, text = run(heddle, "verify", before)
    assert code == 1 and f"{os.path.join(before, victim)}, byte " in text, text
    code, text = run(heddle, "restore", before, "--servers", "2", "--out", before + "x")
    assert code == 1 and "has no good snapshot of server 0 of 1" in text, text


def two_folders(heddle, folder):
    """A job's snapshots are in two folders, one of which also has a damaged file with the name of a good one."""
    other = folder + "-other"
    os.mkdir(other)
    names = sorted(name for name in os.listdir(folder) if name.endswith(".snapshot"))
    assert len(names) == 3, names
    shutil.copy(os.path.join(folder, names[0]), other)
    with open(os.path.join(other, names[0]), "r+b") as file:
        file.truncate(1000)
    os.rename(os.path.join(folder, names[1]), os.path.join(other, names[1]))
    code, text = run(heddle, "restore", folder, "--servers", "2", "--out", folder + "-x")
    assert code == 1 and "has no good snapshot of server 1 of 3" in text, text
    code, text = run(heddle, "restore", folder, other, "--servers", "2", "--out", folder + "-x")
    assert code == 0 and text.count("wrote ") == 2 and "the one before is taken" in text, text
    code, text = run(heddle, "verify", folder + "-x")
    assert code == 0 and text.count(": good, ") == 2, text


def main():
    worker, heddle = sys.argv[1:]
    good = True
    signal.alarm(5 * PATIENCE)  # ends the test if a server stops logging
    tests = [(stopped, "dist_sync"), (killed, "dist_ssp:1"), (full_disk, "dist_sync"), (small_files, "dist_sync"), (commands, "dist_sync")]
    if not FEW:
        tests += [(stopped, "dist_async"), (killed, "dist_sync"), (no_folder, "dist_async")]
    for test, store in tests:
        folder = tempfile.mkdtemp(prefix="heddle-snapshots-")
        try:
            test(heddle, worker, store, os.path.join(folder, "in"))
            print(f"ok  {test.__name__}, {store}", flush=True)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            good = False
            print(f"BAD {test.__name__}, {store}: {str(error)[-4000:]}", flush=True)
        finally:
            for process in PROCESSES:
                process.kill()
            PROCESSES.clear()
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
