#!/usr/bin/env python3
"""Real launchers start ranks, which meet, reduce and hear of each other's end: Open MPI's and MPICH's mpirun, torchrun, and
`heddle launch` through an sshd of this test's own; and ranks that see what pods of a StatefulSet see.

    launchers_test.py PROGRAM HEDDLE [--only NAME]...

PROGRAM is rank_program, HEDDLE the program heddle. What is not installed is said to be left out; if nothing is, the exit code
is 77. Slurm has slurm_test.py."""

import argparse
import contextlib
import getpass
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from jobs import PATIENCE, SKIPPED, Failure, found, free_port, run_tests


def variables(**more):
    """The environment without variables that take precedence over the launcher's own."""
    decides = ("HEDDLE_R", "HEDDLE_S", "HEDDLE_L", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMI", "SLURM_", "DMLC_",
               "HOSTNAME")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(decides)}, **more}


def run(words, **more):
    """Runs a command; all processes that it has started end with it."""
    with subprocess.Popen(words, env=variables(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def works(*words):
    return bool(found(words[0])) and run(list(words)).returncode == 0


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
        self.start = []

    def missing(self):
        for python in ("/usr/bin/python3", sys.executable):
            if not works(python, "-c", "import torch.distributed.run"):
                continue
            self.start = [python, "-m", "torch.distributed.run", "--standalone", "--no_python"]
            return None if works(*self.start, "--nproc_per_node", "1", "true") else "torchrun that works with this Python"
        return "PyTorch"

    def __call__(self, program, _):
        expect_done([*self.start, "--nproc_per_node", "3", program, "sweep"], 3)


class Pods:
    """Ranks with host names of pods; pod 0's is in their /etc/hosts."""
    INSIDE = ("unshare", "-r", "-u", "-m", "sh", "-c",
              'hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"', "pod")

    def missing(self):
        return None if works(*self.INSIDE, "job-0", "/etc/hosts", "true") else "way to give a process a host name"

    def __call__(self, program, _):
        with tempfile.TemporaryDirectory(prefix="heddle-pods-") as place, contextlib.ExitStack() as stack:
            hosts = os.path.join(place, "hosts")
            with open(hosts, "w", encoding="ascii") as file:
                file.write("127.0.0.1 localhost job-0.ranks job-1.ranks job-2.ranks\n")
            first = free_port()
            inherited = variables(HEDDLE_SERVICE="ranks", HEDDLE_REPLICAS="3", HEDDLE_COMM_INTERFACE="lo",
                                  HEDDLE_COMM_PORTS=f"{first}-{min(first + 20, 65535)}")
            pods = []
            for pod in range(3):
                pods.append(stack.enter_context(subprocess.Popen([*self.INSIDE, f"job-{pod}", hosts, program, "sweep"],
                                                                 env=inherited, stdout=subprocess.PIPE, text=True)))
                stack.callback(pods[-1].kill)
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
        absent = next((name for name in ("sshd", "ssh", "ssh-keygen", "pgrep") if not found(name)), None)
        if absent:
            return absent
        with tempfile.TemporaryDirectory(prefix="heddle-ssh-") as place, self.server(pathlib.Path(place)) as (ssh, log):
            return None if works(ssh, "127.0.0.1", "true") else f"login at a server of one's own: {log()}"

    @contextlib.contextmanager
    def server(self, place):
        """Runs an sshd; yields a script that runs ssh with its keys and port, and the server's log."""
        facts = {"port": free_port(), "place": place, "user": getpass.getuser()}
        for key in ("host_key", "rank_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / key], check=True)
        (place / "sshd_config").write_text(SSHD.format(**facts))
        (place / "ssh_config").write_text(SSH.format(**facts))
        script = place / "ssh"
        script.write_text(f"#!/bin/sh\nexec {found('ssh')} -F {place}/ssh_config \"$@\"\n")
        script.chmod(0o755)
        if os.getuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # privilege separation directory of root's sshd
        with open(place / "sshd.log", "w") as log:
            sshd = subprocess.Popen([found("sshd"), "-D", "-e", "-f", place / "sshd_config"], stderr=log)
        try:
            end = time.monotonic() + PATIENCE
            while not (place / "sshd.pid").exists() and sshd.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            yield str(script), (place / "sshd.log").read_text
        finally:
            sshd.terminate()
            sshd.wait()

    def __call__(self, program, heddle):
        with tempfile.TemporaryDirectory(prefix="heddle-ssh-") as place, self.server(pathlib.Path(place)) as (ssh, _):
            # Rank 0 is started directly, as on any "localhost"; the others by ssh.
            start = [heddle, "launch", "--ssh", ssh, "--hosts", "localhost:1,127.0.0.1:2"]
            refused = run([*start, "--", program, "sweep"], HEDDLE_COMM_KEYS=place + "/none")
            if refused.returncode == 0 or "heddle keygen" not in refused.stdout:
                raise Failure(f"hosts without keys are not told to make some: {refused.stdout}\n{refused.stderr}")
            keys = {"HEDDLE_COMM_KEYS": place + "/keys"}
            run([heddle, "keygen"], **keys)
            done = expect_done([*start, "--", program, "sweep"], 3, **keys)
            if not all(f"[{rank}] done" in done.stdout for rank in range(3)):
                raise Failure(f"lines are not prefixed by rank: {done.stdout}")
            expect_done([*start, "--env", "HEDDLE_COMM_BACKEND=tcp", "--", program, "sweep"], 3, **keys)
            self.an_end_far_away_ends_all(start, "exit 42", 42)
            self.an_end_far_away_ends_all(start, "kill -9 $$", 128 + 9)

    def an_end_far_away_ends_all(self, start, end, code):
        length = f"{10 * PATIENCE}.{os.getpid()}"
        done = run([*start, "--", "sh", "-c", f'if [ "$HEDDLE_RANK" = 2 ]; then {end}; fi; exec sleep {length}'])
        if done.returncode != code:
            raise Failure(f"rank 2: {end}; launch ended with {done.returncode}: {done.stderr}")
        patience = time.monotonic() + PATIENCE
        while run(["pgrep", "-f", f"sleep {length}"]).returncode == 0:
            if time.monotonic() > patience:
                raise Failure(f"ranks are left after: {end}")
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
        try:
            missing = launchers[name].missing()
        except (OSError, KeyError, subprocess.SubprocessError) as error:
            missing = f"answer whether it is there: {error}"
        if missing:
            print(f"left out: {name}: there is no {missing}")
        else:
            tests.append((name, lambda launcher=launchers[name]: launcher(os.path.abspath(options.program),
                                                                           os.path.abspath(options.heddle))))
    return run_tests(tests, subprocess.TimeoutExpired) if tests else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
