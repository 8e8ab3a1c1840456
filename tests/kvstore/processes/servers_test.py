#!/usr/bin/env python3
"""Jobs of real processes: workers and servers that `heddle launch --servers` starts.

    servers_test.py WORKER HEDDLE

WORKER is store_worker, HEDDLE the program heddle."""

import os
import signal
import subprocess
import sys
import tempfile

PATIENCE = 120  # seconds, far more than a job takes on a loaded machine


def environment():
    decides = ("HEDDLE_R", "HEDDLE_S", "HEDDLE_L", "HEDDLE_JOB", "RANK", "WORLD_SIZE", "LOCAL_", "OMPI_", "PMI", "SLURM_", "DMLC_")
    return {name: value for name, value in os.environ.items() if not name.startswith(decides)}


def run(words, **more):
    with subprocess.Popen(words, env={**environment(), **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, out, err


def expect(name, words, code, text, workers=0, **more):
    returned, out, err = run(words, **more)
    good = returned == code and text in out + err and out.count("done") == workers
    print(f"{'ok ' if good else 'BAD'} {name}")
    if not good:
        print(f"exit {returned}, expected {code} and '{text}'\n{out}\n{err[-4000:]}")
    return good


def fake_ssh(folder):
    """Replaces ssh by a script that runs the command on this host, in its own session, as sshd does."""
    path = os.path.join(folder, "ssh")
    with open(path, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift 2\nexec setsid --wait sh -c "$*"\n')
    os.chmod(path, 0o700)
    return path


def ended_by(number, words):
    """Returns True if a job of two workers ends on this signal, before the grace period is over."""
    logs = {"HEDDLE_SERVER_LOG_LEVEL": "info", "HEDDLE_SERVER_LOG_FORMAT": "json"}
    with subprocess.Popen(words, env={**environment(), **logs}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            lines = []
            while sum('"worker_joined"' in line for line in lines) < 4:  # each of two workers joins two servers
                lines.append(process.stderr.readline())
                if not lines[-1]:
                    break
            process.send_signal(number)
            rest = process.communicate(timeout=PATIENCE)[1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    good = process.returncode == 128 + number and rest.count('"how":"stopped"') == 2
    print(f"{'ok ' if good else 'BAD'} {signal.Signals(number).name} ends a job with servers")
    if not good:
        print(process.returncode, "".join(lines)[-2000:], rest[-4000:])
    return good


def main():
    worker, heddle = sys.argv[1:3]
    launch = [heddle, "launch"]
    if sys.argv[3:] == ["--zmq"]:
        return 0 if expect("over ZeroMQ", [*launch, "-n", "2", "--servers", "1", "--", worker, "dist_sync", "5"], 0, "done", 2,
                           HEDDLE_STORE_TRANSPORT="zmq", HEDDLE_SERVER_TRANSPORT="zmq") else 1
    patient = [*launch, "--grace", str(10 * PATIENCE)]  # no process is killed after a grace period
    good = []
    for store in ("dist_sync", "dist_async", "dist_ssp:1"):
        good.append(expect(f"{store}: exact sums", [*launch, "-n", "3", "--servers", "2", "--", worker, store, "20"], 0, "done", 3))
        good.append(expect(f"{store}: a worker is killed and comes back",
                           [*launch, "-n", "2", "--servers", "2", "--restarts", "1", "--", worker, store, "20", "7"], 0,
                           "it is started again", 2))
    good.append(expect("no servers", [worker, "dist_sync", "1"], 1, "HEDDLE_SERVERS=HOST:PORT,... names them"))
    good.append(expect("no such consistency", [worker, "dist_often", "1"], 1, "'often' is no consistency"))
    good.append(expect("a worker is killed", [*patient, "-n", "2", "--servers", "2", "--", worker, "dist_sync", "20", "7"], 128 + signal.SIGKILL,
                       "was killed by signal 9"))
    for number in (signal.SIGINT, signal.SIGHUP):
        good.append(ended_by(number, [*patient, "-n", "2", "--servers", "2", "--", worker, "dist_sync", "1000000"]))
    with tempfile.TemporaryDirectory() as folder:
        ssh = fake_ssh(folder)
        for hosts in ("127.0.0.2:1,127.0.0.3:1", "localhost:1,127.0.0.3:1"):
            good.append(expect(f"servers on {hosts}",
                               [*launch, "--ssh", ssh, "--hosts", hosts, "--servers", "3", "--", worker, "dist_sync", "20"], 0, "done", 2))
        good.append(expect("a worker of another host is killed",
                           [*patient, "--ssh", ssh, "--hosts", "127.0.0.2:1,127.0.0.3:1", "--servers", "2", "--", worker, "dist_sync", "20", "7"],
                           128 + signal.SIGKILL, f"exit code {128 + signal.SIGKILL}"))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
