#!/usr/bin/env python3
"""Real launchers start ranks, which meet, reduce and hear of each other's end: Open MPI's and MPICH's mpirun, torchrun, and
`heddle launch` through an sshd of this test's own; and ranks that see what pods of a StatefulSet see.

    launchers_test.py PROGRAM HEDDLE [--only NAME]...

PROGRAM is rank_program, HEDDLE the program heddle. What is not installed is said to be left out; if nothing is, the exit code
is 77. Slurm has slurm_test.py."""

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

from jobs import PATIENCE, Failure, run_tests

SKIPPED = 77


def found(program):
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def run(words, **more):
    """`more`: variables; those that would decide before the launcher's own are not handed on."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("HEDDLE_R", "HEDDLE_S"))}
    return subprocess.run(words, env={**ours, **more}, capture_output=True, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL)


def expect_done(words, ranks, **more):
    done = run(words, **more)
    if done.returncode != 0 or done.stdout.count("done") != ranks:
        raise Failure(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}")
    return done


class Mpi:
    def __init__(self, command, *options):
        self.command, self.options = command, options

    def missing(self):
        return None if found(self.command) else self.command

    def __call__(self, program, _):
        start = [self.command, *self.options]
        expect_done([*start, "-n", "3", program, "sweep"], 3)
        expect_done([*start, "-n", "2", "sh", "-c", f"'{program}' sweep && '{program}' sweep; exit $?"], 4)
        expect_done([*start, "-n", "2", program, "sweep"], 2, HEDDLE_COMM_BACKEND="tcp")
        told = run([*start, "-n", "2", program, "exit"])
        if "error PeerLost" not in told.stdout or "shrunk 1" not in told.stdout:
            raise Failure(f"a rank that ends is not missed: {told.stdout}\n{told.stderr}")


class Torchrun:
    """PyTorch's own launcher, whatever its script is called; Debian's 1.13 does not start with Python 3.11."""

    def __init__(self):
        self.python = next((path for path in ("/usr/bin/python3", sys.executable)
                            if run([path, "-c", "import torch.distributed.run"]).returncode == 0), None)
        self.start = [self.python, "-m", "torch.distributed.run", "--no_python"]

    def missing(self):
        if not self.python:
            return "PyTorch"
        if run([*self.start, "--nproc_per_node", "1", "true"]).returncode != 0:
            return "a PyTorch whose torchrun works with this Python"
        return None

    def __call__(self, program, _):
        expect_done([*self.start, "--nproc_per_node", "3", program, "sweep"], 3)


class Pods:
    """Host names of their own, and pod 0's in what they have for a name server."""
    SCRIPT = 'hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'

    def missing(self):
        inside = ["unshare", "-r", "-u", "-m", "sh", "-c", self.SCRIPT, "pod", "job-0", "/etc/hosts", "true"]
        return None if found("unshare") and run(inside).returncode == 0 else "way to give a process a host name"

    def __call__(self, program, _):
        with tempfile.TemporaryDirectory(prefix="heddle-pods-") as place, socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            probe.close()
            hosts = os.path.join(place, "hosts")
            with open(hosts, "w", encoding="ascii") as file:
                file.write("127.0.0.1 localhost job-0.ranks job-1.ranks job-2.ranks\n")
            variables = {**os.environ, "HEDDLE_SERVICE": "ranks", "HEDDLE_REPLICAS": "3", "HEDDLE_COMM_INTERFACE": "lo",
                         "HEDDLE_COMM_PORTS": f"{port}-{min(port + 20, 65535)}"}
            pods = [subprocess.Popen(["unshare", "-r", "-u", "-m", "sh", "-c", self.SCRIPT, "pod", f"job-{pod}", hosts,
                                      program, "sweep"], env=variables, stdout=subprocess.PIPE, text=True)
                    for pod in range(3)]
            for number, pod in enumerate(pods):
                said, _ = pod.communicate(timeout=PATIENCE)
                if pod.returncode != 0 or "done" not in said:
                    raise Failure(f"pod {number} ended with {pod.returncode}: {said}")


SSHD = """
ListenAddress 127.0.0.1
Port {port}
HostKey {place}/host_key
AuthorizedKeysFile {place}/rank_key.pub
PidFile {place}/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""

SSH = """
Host *
  Port {port}
  User {user}
  IdentityFile {place}/rank_key
  IdentitiesOnly yes
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  LogLevel ERROR
"""


class Ssh:
    def missing(self):
        return next((name for name in ("sshd", "ssh", "ssh-keygen") if not found(name)), None)

    @contextlib.contextmanager
    def server(self):
        """The script that is ssh with this server's keys and port, and the folder it is in."""
        place = pathlib.Path(tempfile.mkdtemp(prefix="heddle-ssh-"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            facts = {"port": probe.getsockname()[1], "place": place, "user": pwd.getpwuid(os.getuid()).pw_name}
        for key in ("host_key", "rank_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / key], check=True)
        (place / "sshd_config").write_text(SSHD.format(**facts))
        (place / "ssh_config").write_text(SSH.format(**facts))
        script = place / "ssh"
        script.write_text(f"#!/bin/sh\nexec {found('ssh')} -F {place}/ssh_config \"$@\"\n")
        script.chmod(0o755)
        if os.getuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # where root's sshd locks itself in
        with open(place / "sshd.log", "w") as log:
            sshd = subprocess.Popen([found("sshd"), "-D", "-e", "-f", place / "sshd_config"], stderr=log)
        try:
            end = time.monotonic() + PATIENCE
            while run([str(script), "localhost", "true"]).returncode != 0:
                if time.monotonic() > end or sshd.poll() is not None:
                    raise Failure(f"sshd does not answer: {(place / 'sshd.log').read_text()}")
                time.sleep(0.05)
            yield str(script), place
        finally:
            sshd.terminate()
            sshd.wait()
            shutil.rmtree(place)

    def __call__(self, program, heddle):
        with self.server() as (ssh, place):
            start = [heddle, "launch", "--ssh", ssh, "--hosts", "localhost:2,127.0.0.1:1"]
            refused = run([*start, "--", program, "sweep"], HEDDLE_COMM_KEYS=str(place / "none"))
            if refused.returncode == 0 or "heddle keygen" not in refused.stdout:
                raise Failure(f"hosts without keys are not told to make some: {refused.stdout}\n{refused.stderr}")
            os.environ["HEDDLE_COMM_KEYS"] = str(place / "keys")
            run([heddle, "keygen"])
            done = expect_done([*start, "--", program, "sweep"], 3)
            if not all(f"[{rank}] done" in done.stdout for rank in range(3)):
                raise Failure(f"lines are not prefixed by rank: {done.stdout}")
            expect_done([*start, "--env", "HEDDLE_COMM_BACKEND=tcp", "--", program, "sweep"], 3)
            code = run([*start, "--", "sh", "-c", "exit $((40 + HEDDLE_RANK))"]).returncode
            if code not in (40, 41, 42):
                raise Failure(f"the exit code of the rank that fails first is lost: {code}")
            self.one_death_ends_all(start)

    def one_death_ends_all(self, start):
        mark = f"heddle-launchers-test-{os.getpid()}"
        script = f': {mark}; if [ "$HEDDLE_RANK" = 1 ]; then kill -9 $$; fi; sleep {10 * PATIENCE}'
        done = run([*start, "--", "sh", "-c", script])
        if done.returncode != 128 + 9:
            raise Failure(f"a rank died of signal 9, and launch ended with {done.returncode}: {done.stderr}")
        end = time.monotonic() + PATIENCE
        while run(["pgrep", "-f", f": {mark};"]).returncode == 0:
            if time.monotonic() > end:
                raise Failure("ranks are left on the hosts")
            time.sleep(0.05)


def main():
    launchers = {"openmpi": Mpi("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "plm", "isolated"),
                 "mpich": Mpi("mpirun.mpich"), "torchrun": Torchrun(), "pods": Pods(), "ssh": Ssh()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("heddle")
    parser.add_argument("--only", action="append", choices=launchers, help="this one; again for more")
    options = parser.parse_args()
    tests = []
    for name in options.only or launchers:
        missing = launchers[name].missing()
        if missing:
            print(f"left out: {name}: there is no {missing}")
        else:
            tests.append((name, lambda launcher=launchers[name]: launcher(os.path.abspath(options.program),
                                                                           os.path.abspath(options.heddle))))
    return run_tests(tests, subprocess.TimeoutExpired) if tests else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
