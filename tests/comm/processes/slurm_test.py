#!/usr/bin/env python3
"""A Slurm of one node, started for this test, runs jobs of Heddle: srun's two tasks meet and reduce, in a batch script too,
and hear of each other's end.

    slurm_test.py PROGRAM [--keep]

PROGRAM is rank_program. Exits with 77 where Slurm or munge is not installed. Nothing outside a temporary folder is
touched, and nothing is left running."""

import argparse
import contextlib
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from jobs import PATIENCE, SKIPPED, Failure, found, free_port, run_tests

CONFIGURATION = """
ClusterName=heddle
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={first_port}
SlurmdPort={second_port}
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=2
SlurmctldParameters=enable_configless
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


class Slurm:
    def __init__(self, place):
        self.place, self.daemons = place, []
        self.environment = {**os.environ, "SLURM_CONF": str(place / "slurm.conf")}

    def configure(self):
        for folder in ("state", "spool"):
            (self.place / folder).mkdir()
        (self.place / "munge.key").write_bytes(os.urandom(1024))
        (self.place / "munge.key").chmod(0o600)
        text = CONFIGURATION.format(host=socket.gethostname().split(".")[0], user=pwd.getpwuid(os.getuid()).pw_name,
                                    place=self.place, cpus=max(2, os.cpu_count()), first_port=free_port(),
                                    second_port=free_port())
        (self.place / "slurm.conf").write_text(text)
        # Disables control groups, for which this file is required.
        (self.place / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nIgnoreSystemd=yes\n")

    def start(self, *words):
        log = open(self.place / (pathlib.Path(words[0]).name + ".out"), "w")
        self.daemons.append(subprocess.Popen(words, env=self.environment, stdout=log, stderr=subprocess.STDOUT,
                                             stdin=subprocess.DEVNULL))

    def __enter__(self):
        try:
            self.start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start_all(self):
        self.configure()
        self.start(found("munged"), "--foreground", f"--key-file={self.place}/munge.key", "--force",
                   f"--socket={self.place}/munge.socket", f"--pid-file={self.place}/munge.pid",
                   f"--log-file={self.place}/munge.log", f"--seed-file={self.place}/munge.seed")
        self.until(lambda: (self.place / "munge.socket").exists(), "munged listens")
        self.start(found("slurmctld"), "-D", "-i")
        self.start(found("slurmd"), "-D", "-N", socket.gethostname().split(".")[0])
        self.until(lambda: "idle" in self.run("sinfo", "-h", "-o", "%t").stdout, "the node is idle")

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end or any(daemon.poll() is not None for daemon in self.daemons):
                raise Failure(f"not so: {what}\n{self.logs()}")
            time.sleep(0.1)

    def logs(self):
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}"
                         for log in sorted(self.place.glob("*.log")) + sorted(self.place.glob("*.out")))

    def run(self, *words, **more):
        return subprocess.run(words, env={**self.environment, **more}, capture_output=True, text=True,
                              timeout=PATIENCE, stdin=subprocess.DEVNULL, cwd=self.place)


def expect(condition, what, run, slurm):
    if not condition:
        raise Failure(f"{what}: exit {run.returncode}\n{run.stdout}\n{run.stderr}\n{slurm.logs()}")


def tasks_meet(slurm, program):
    run = slurm.run("srun", "-n", "2", program, "sweep")
    expect(run.returncode == 0 and run.stdout.count("done") == 2, "two tasks of srun", run, slurm)


def a_batch_script(slurm, program):
    output = slurm.place / "batch.out"
    script = slurm.place / "batch.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH --ntasks=2 --output={output}\nsrun {program} sweep\n")
    run = slurm.run("sbatch", "--wait", str(script))
    text = output.read_text() if output.exists() else ""
    expect(run.returncode == 0 and text.count("done") == 2, f"a batch script, which printed: {text}", run, slurm)


def an_end_is_told(slurm, program):
    """The last task exits; the other one gets an error and continues alone."""
    run = slurm.run("srun", "-n", "2", program, "exit")
    told = "error PeerLost" in run.stdout and "shrunk 1" in run.stdout
    expect(told and run.returncode == 0, "a task that ends", run, slurm)


def over_tcp(slurm, program):
    run = slurm.run("srun", "-n", "2", program, "sweep", HEDDLE_COMM_BACKEND="tcp")
    expect(run.returncode == 0 and run.stdout.count("done") == 2, "two tasks over TCP", run, slurm)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder")
    options = parser.parse_args()
    missing = [name for name in ("munged", "slurmctld", "slurmd", "srun", "sbatch") if not found(name)]
    if missing:
        print(f"skipped: not installed: {', '.join(missing)} (Debian: slurm-wlm, munge)")
        return SKIPPED
    program = os.path.abspath(options.program)
    place = pathlib.Path(tempfile.mkdtemp(prefix="heddle-slurm-"))
    place.chmod(0o755)  # munged requires a folder that others cannot write
    with contextlib.ExitStack() as stack:
        if not options.keep:
            stack.callback(shutil.rmtree, place, True)
        try:
            slurm = stack.enter_context(Slurm(place))
        except Failure as failure:
            print(f"FAIL  Slurm does not start: {failure}")
            return 1
        return run_tests([(test.__name__, lambda test=test: test(slurm, program))
                          for test in (tasks_meet, a_batch_script, an_end_is_told, over_tcp)],
                         subprocess.TimeoutExpired)


if __name__ == "__main__":
    sys.exit(main())
