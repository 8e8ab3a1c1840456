#!/usr/bin/env python3
"""A scheduler, servers and workers as processes: they find each other, are killed, and continue.

    scheduler_test.py WORKER HEDDLE

WORKER is store_worker, HEDDLE the program heddle."""

import contextlib
import signal
import sys
import unittest

import cluster
from cluster import Cluster, Process, free_port, metric, page, wait_until


class SchedulerTest(unittest.TestCase):
    def check_done(self, workers):
        for worker in workers:
            status = worker.end()
            self.assertEqual((status, worker.out), (0, ["done\n"]), worker.text())

    def test_numbers_and_ranks_are_assigned(self):
        with Cluster(2, "--workers", "3") as job:
            servers = [job.server(), job.server()]
            workers = [job.worker("dist_sync", "20") for _ in range(3)]
            self.check_done(workers)
            self.assertEqual(job.metric("servers_here"), [2])
            for server in servers:
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.end(), 0, server.text())
            job.scheduler.process.send_signal(signal.SIGTERM)
            self.assertEqual(job.scheduler.end(), 0)

    def test_who_has_not_come_is_named(self):
        with Cluster(2, "--start-timeout", "500ms") as job:
            server = job.server("--number", "1")
            worker, = job.workers(1, "dist_sync", "1")
            for process in (server, worker):
                self.assertEqual(process.end(), 1)
                self.assertRegex(process.text(), r"the servers have not all come: waiting for \d+\.\d s for server 0 of 2")

    def test_a_number_has_one_process(self):
        with Cluster(1, "--server-timeout", "1s") as job:
            job.server("--number", "0")
            job.wait_for("servers_here", [1])
            second = job.server("--number", "0")
            self.assertEqual(second.end(), 1)
            self.assertIn("server 0 is there already", second.text())

    def test_a_job_goes_on_without_its_scheduler_and_with_the_next_one(self):
        with Cluster(2) as job:
            for _ in range(2):
                job.server("--replicas", "2")
            workers = job.workers(2, "dist_sync", "75", "0", "20")
            job.wait_for("workers_here", [2])
            job.scheduler.kill()
            job.start_scheduler()
            job.wait_for("servers_here", [2])
            self.check_done(workers)
            self.assertEqual(job.metric("lost_total"), [0])

    def test_without_its_scheduler_a_server_is_not_ready_and_a_scheduler_with_another_file_is_no_end(self):
        with Cluster(1) as job:
            address = job.server("--metrics", "127.0.0.1:0").event("started")["metrics"]
            ready = lambda: page(address, "readyz")  # noqa: E731
            wait_until(lambda: ready() == (200, "ok\n"), lambda: str(ready()))
            job.scheduler.kill()
            wait_until(lambda: ready()[0] == 503 and ready()[1].startswith("no scheduler: "), lambda: str(ready()))
            right = job.words.index("--state") + 1
            file, job.words[right] = job.words[right], job.folder + "/typo"
            job.start_scheduler()
            wait_until(lambda: "it was started without their saved state" in ready()[1], lambda: str(ready()))
            job.scheduler.kill()
            job.words[right] = file
            job.start_scheduler()
            wait_until(lambda: ready() == (200, "ok\n"), lambda: str(ready()))

    def test_a_server_that_is_killed_is_replaced_by_its_backup_and_comes_back(self):
        with Cluster(2) as job:
            servers = [job.server("--number", str(number), "--replicas", "2") for number in range(2)]
            workers = job.workers(2, "dist_sync", "150", "0", "15")
            job.wait_for("workers_here", [2])
            job.wait_for("shard_copies", [2, 2])
            servers[0].kill()
            job.scheduler.event("shard_failed_over", shard="0")
            job.server("--number", "0", "--replicas", "2")
            job.scheduler.event("shard_handed_back", shard="0")
            self.check_done(workers)
            self.assertEqual(job.metric("lost_total"), [0])

    def test_without_a_backup_the_loss_is_told(self):
        with Cluster(1) as job:
            server = job.server("--number", "0", "--metrics", "127.0.0.1:0")
            workers = job.workers(2, "dist_sync", "100000")
            wait_until(lambda: metric(server.event("started")["metrics"], "server_rounds_total")[0] > 2)
            server.kill()
            job.server("--number", "0")
            job.scheduler.event("shard_lost", shard="0")
            for worker in workers:
                self.assertEqual(worker.end(), 1)
                self.assertIn("it has been started anew, without what it held", worker.text())

    def test_dmlc_names_all_roles(self):
        root = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(free_port()), "DMLC_NUM_SERVER": "2", "DMLC_NUM_WORKER": "2"}
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(Process([cluster.HEDDLE, "server"], DMLC_ROLE=role, **root))
                       for role in ("scheduler", "server", "server")]
            workers = [stack.enter_context(Process([cluster.WORKER, "dist_sync", "20"], DMLC_ROLE="worker", **root)) for _ in range(2)]
            self.check_done(workers)
            for server in servers:  # servers end with the job
                self.assertEqual(server.end(), 0, server.text())

    def test_a_state_file_that_is_damaged_is_refused(self):
        with Cluster(1) as job:
            job.server("--number", "0")
            job.wait_for("begun", [1])
            second = job.enter_context(Process([*job.words[:3], "127.0.0.1:0", *job.words[4:]]))
            self.assertEqual(second.end(), 1)
            self.assertIn("another scheduler that is running uses it", second.text())
            job.scheduler.kill()
            with open(job.folder + "/state", "r+b") as file:
                file.seek(30)
                file.write(b"\xff\xff")
            again = job.enter_context(Process(job.words))
            self.assertEqual(again.end(), 1)
            self.assertIn("state is damaged: its checksum is wrong", again.text())

    def test_settings_that_cannot_be(self):
        for words, text in ((["server", "--replicas", "2"], "copies need a scheduler"),
                            (["server", "--scheduler", "a"], "--scheduler: 'a': want HOST:PORT"),
                            (["scheduler", "--servers", "257"], "--servers: '257': want a number from 1 to 256"),
                            (["scheduler", "--grace", "5s"], "--grace: 5s is more than server-timeout, 3s"),
                            (["scheduler", "--state", "/none/a"], "--state: there is no directory /none")):
            with Process([cluster.HEDDLE, *words]) as process:
                self.assertEqual(process.end(), 2)
                self.assertIn(text, process.text())
        for variables, text in (({"DMLC_ROLE": "boss"}, "DMLC_ROLE: 'boss': want scheduler, server or worker"),
                                ({"DMLC_ROLE": "server"}, "DMLC_PS_ROOT_URI is not set, but DMLC_ROLE is 'server'")):
            with Process([cluster.HEDDLE, "server"], **variables) as process:
                self.assertNotEqual(process.end(), 0)
                self.assertIn(text, process.text())


if __name__ == "__main__":
    cluster.programs(*sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
