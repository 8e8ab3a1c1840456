#!/usr/bin/env python3
"""Servers and schedulers are killed or drained while workers push: nothing is lost.

    survive_test.py WORKER HEDDLE

WORKER is store_worker, HEDDLE the program heddle."""

import contextlib
import os
import pathlib
import signal
import sys
import unittest

import cluster
from cluster import Cluster, Process, free_port, metric, wait_until

ROUNDS = ("150" if cluster.FEW else "300", "0", "20")  # long enough for all faults


def children(process):
    """Returns the command line of each child, by process id."""
    found = {}
    for one in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError):
            found[int(one)] = pathlib.Path(f"/proc/{one}/cmdline").read_text().split("\0")
    return found


def child(process, *words):
    """Returns the process id of the child whose command line has these words."""
    for number, all_words in children(process).items():
        if all(word in all_words for word in words) and "launch" not in all_words:
            return number
    return None


def server(job, number):
    return job.server("--number", str(number), "--metrics", "127.0.0.1:0")


def wait_for_pushes(servers):
    """Waits until workers push to each of the servers."""
    for one in servers:
        address = one.event("started")["metrics"]
        before = sum(metric(address, "server_pushes_total"))
        wait_until(lambda address=address, before=before: sum(metric(address, "server_pushes_total")) > before + 4)


class SurviveTest(unittest.TestCase):
    def check_done(self, job, workers):
        for worker in workers:
            status = worker.end()
            self.assertEqual((status, worker.out), (0, ["done\n"]), worker.text())
        self.assertEqual(job.metric("lost_total"), [0])

    def check_running(self, workers):
        for worker in workers:
            self.assertIsNone(worker.process.poll(), "the faults came too late: " + worker.text())

    def survive_kills(self, store, servers, placement="hash"):
        with Cluster(servers) as job:
            running = [server(job, number) for number in range(servers)]
            workers = job.workers(2, store, *ROUNDS, HEDDLE_STORE_PLACEMENT=placement)
            job.wait_for("workers_here", [2])
            for number in (0, servers - 1):
                job.wait_for_copies(servers)
                wait_for_pushes(running)
                running[number].kill()
                self.assertEqual(job.scheduler.event("shard_failed_over", shard=str(number))["level"], "warning")
                self.assertEqual(job.scheduler.event("server_gone", server=str(number))["level"], "warning")
                running[number] = server(job, number)
                job.scheduler.event("shard_handed_back", shard=str(number))
            job.wait_for_copies(servers)
            wait_for_pushes(running)
            job.scheduler.kill()
            wait_for_pushes(running)
            job.start_scheduler()
            job.wait_for_copies(servers)
            running[0].kill()
            job.scheduler.event("shard_failed_over", shard="0")
            self.check_running(workers)
            self.check_done(job, workers)

    def test_dist_sync_on_two_servers(self):
        self.survive_kills("dist_sync", 2)

    @cluster.alike
    def test_dist_async_on_three_servers(self):
        self.survive_kills("dist_async", 3, "round_robin")

    @cluster.alike
    def test_dist_ssp_on_two_servers(self):
        self.survive_kills("dist_ssp:2", 2, "greedy")

    def test_servers_are_exchanged_one_after_the_other_while_workers_push(self):
        with Cluster(2) as job:
            running, ended = [server(job, number) for number in range(2)], []
            workers = job.workers(2, "dist_sync", *ROUNDS)
            job.wait_for("workers_here", [2])
            for number in (0, 1):
                job.wait_for_copies(2)
                wait_for_pushes(running)
                running[number].process.send_signal(signal.SIGTERM)
                running[number].event("ended", how="drained")
                ended.append(running[number])
                job.scheduler.event("shard_handed_over", shard=str(number))
                running[number] = server(job, number)
                job.scheduler.event("shard_handed_back", shard=str(number))
            self.check_running(workers)
            self.check_done(job, workers)
            for one in ended:
                self.assertEqual(one.end(), 0, one.text())
            for one in (job.scheduler, *ended, *running):
                self.assertEqual(one.alarms(), [])

    def test_the_end_of_a_good_job_raises_no_alarm(self):
        for servers in (2, 3):
            words = [cluster.HEDDLE, "launch", "-n", "2", "--servers", str(servers), "--no-prefix", "--", cluster.WORKER, "dist_sync", "5"]
            logs = {f"HEDDLE_{who}_LOG_FORMAT": "json" for who in ("SERVER", "SCHEDULER")}
            with Process(words, **logs) as launch:
                self.assertEqual(launch.end(), 0, launch.text())
                self.assertEqual(launch.alarms(), [])

    def test_servers_that_are_told_to_end_after_their_job_raise_no_alarm(self):
        with Cluster(2) as job:
            running = [server(job, number) for number in range(2)]
            self.check_done(job, job.workers(2, "dist_sync", "5"))
            job.wait_for_copies(2)
            for one in running:
                one.process.send_signal(signal.SIGTERM)
            for one in running:
                self.assertEqual(one.end(), 0, one.text())
            job.wait_for("servers_here", [0])
            for one in (job.scheduler, *running):
                self.assertEqual(one.alarms(), [])
            self.assertEqual(job.metric("failovers_total"), [0])

    @cluster.alike
    def test_launch_starts_servers_and_scheduler_again(self):
        metrics = f"127.0.0.1:{free_port()}"
        words = [cluster.HEDDLE, "launch", "-n", "2", "--servers", "2", "--", cluster.WORKER, "dist_sync", *ROUNDS]
        with Process(words, HEDDLE_SCHEDULER_METRICS=metrics) as launch:

            def have(name, values):
                with contextlib.suppress(OSError):  # while the scheduler starts
                    return metric(metrics, "scheduler_" + name) == values
                return False

            def kill(what, *more, by=signal.SIGKILL):
                wait_until(lambda: have("workers_here", [2]) and have("shard_copies", [2, 2]))
                number = child(launch.process.pid, what, *more)
                os.kill(number, by)
                wait_until(lambda: child(launch.process.pid, what, *more) not in (None, number))

            for number in ("0", "1"):
                kill("server", "--number", number)
            kill("scheduler")
            kill("scheduler", by=signal.SIGTERM)
            kill("server", "--number", "1")
            self.assertEqual(launch.end(), 0, launch.text())
            self.assertEqual(sorted(line.split("] ")[1] for line in launch.out), ["done\n"] * 2)
            told = [line for line in launch.lines if line.startswith("heddle launch: ")]
            self.assertEqual(len(told), 5, launch.text())
            self.assertRegex(told[0], r"server 0 \(process \d+\) was killed by signal 9 \(Killed\); another server has a copy")
            self.assertRegex(told[2], r"scheduler \(process \d+\) was killed .* it is started anew with its state")
            self.assertRegex(told[3], r"scheduler \(process \d+\) ended with exit code 0; .* it is started anew with its state")

    def test_launch_ends_a_job_whose_server_dies_too_often_or_has_no_copy(self):
        for options, advice in ((["--servers", "2", "--server-restarts", "0"], "more often than --server-restarts allows"),
                                (["--servers", "1"], "With --servers 2 and --replicas 2 another server would have a copy")):
            with Process([cluster.HEDDLE, "launch", "-n", "1", *options, "--", cluster.WORKER, "dist_sync", "1000000"]) as launch:
                wait_until(lambda: child(launch.process.pid, "server", "--number"))
                os.kill(child(launch.process.pid, "server", "--number"), signal.SIGKILL)
                self.assertEqual(launch.end(), 128 + signal.SIGKILL, launch.text())
                self.assertIn(advice, launch.text())

    @cluster.alike
    def test_launch_waits_longer_each_time_for_a_server_that_dies_at_once(self):
        words = [cluster.HEDDLE, "launch", "-n", "1", "--servers", "2", "--server-restarts", "3", "--", cluster.WORKER, "dist_sync", "9"]
        with Process(words, HEDDLE_SERVER_MEMORY_LIMIT="much") as launch:  # an invalid limit, so no server starts
            self.assertEqual(launch.end(), 2, launch.text())
            for pause in (100, 200, 400):
                self.assertIn(f"ended with exit code 2; another server has a copy of its part, and it is started anew in {pause} ms\n",
                              launch.text())
            self.assertIn("It has died 4 times within a minute", launch.text())


if __name__ == "__main__":
    cluster.programs(*sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
