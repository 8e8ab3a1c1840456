#!/usr/bin/env python3
"""mpirun of Open MPI and of MPICH and srun start the workers of a store, which they learn of from a scheduler.

    store_launchers_test.py WORKER HEDDLE

WORKER is store_worker, HEDDLE the program heddle. What is not installed is left out; if nothing is, the exit code is 77."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

import cluster
from cluster import PATIENCE, Cluster, environment

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../comm/processes"))
from jobs import Failure, found  # noqa: E402
from slurm_test import Slurm  # noqa: E402

WORKERS, ROUNDS = 2, "4"
MPI = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "plm", "isolated"], "mpich": ["mpirun.mpich"]}
SLURM = ("munged", "slurmctld", "slurmd", "srun")


def train(start):
    """start(words, address of the scheduler) runs the command `words` as WORKERS workers."""
    with Cluster(2) as job:
        for number in ("0", "1"):
            job.server("--number", number)
        job.wait_for_copies(2)
        for store in ("dist_sync", "dist_async"):
            done = start([cluster.WORKER, store, ROUNDS], job.address)
            if done.returncode != 0 or done.stdout.count("done") != WORKERS:
                raise AssertionError(f"{store}: exit {done.returncode}\n{done.stdout}\n{done.stderr[-2000:]}\n{job.texts()[-4000:]}")


def by_mpi(words):
    def start(program, address):
        return subprocess.run([*words, "-n", str(WORKERS), *program], env=environment(HEDDLE_STORE_SCHEDULER=address), text=True,
                              capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, check=False)
    return lambda: train(start)


def by_slurm():
    with tempfile.TemporaryDirectory(prefix="heddle-slurm-", ignore_cleanup_errors=True) as place, contextlib.ExitStack() as stack:
        os.chmod(place, 0o755)  # munged requires a folder that others cannot write
        slurm = stack.enter_context(Slurm(pathlib.Path(place)))
        train(lambda program, address: slurm.run("srun", "-n", str(WORKERS), *program, HEDDLE_STORE_SCHEDULER=address))


def main():
    cluster.programs(*(os.path.abspath(word) for word in sys.argv[1:]))
    tests = {name: (words[:1], by_mpi(words)) for name, words in MPI.items()}
    tests["srun"] = (SLURM, by_slurm)
    good, ran = True, False
    for name, (needed, test) in tests.items():
        missing = [one for one in needed if not found(one)]
        if missing:
            print(f"left out: {name}: there is no {missing[0]}", flush=True)
            continue
        ran = True
        try:
            test()
            print(f"ok  {name}", flush=True)
        except (AssertionError, Failure, subprocess.TimeoutExpired) as error:
            good = False
            print(f"BAD {name}: {str(error)[-6000:]}", flush=True)
    return (0 if good else 1) if ran else 77


if __name__ == "__main__":
    sys.exit(main())
