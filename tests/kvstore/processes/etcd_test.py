#!/usr/bin/env python3
"""Schedulers that agree in an etcd of three members, servers and workers, as processes: members, schedulers and servers are
killed, and no push is lost.

    etcd_test.py WORKER HEDDLE

WORKER is store_worker, HEDDLE the program heddle. Needs the program etcd (Debian's etcd-server)."""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import scheduler_test  # noqa: E402
from cluster import FEW, alike  # noqa: E402
from scheduler_test import Process, free_port, metric, wait_until  # noqa: E402

ETCD = shutil.which("etcd")
NAME = "/heddle/test"


class Etcd(contextlib.ExitStack):
    """Members of one etcd on loopback."""

    def __init__(self, count, *options, scheme="http"):
        super().__init__()
        self.options = options
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        self.peers = [f"http://127.0.0.1:{free_port()}" for _ in range(count)]
        self.members_urls = [f"{scheme}://127.0.0.1:{free_port()}" for _ in range(count)]
        self.urls = ",".join(self.members_urls)
        self.members = [self.start(number) for number in range(count)]
        if scheme == "http":
            wait_until(lambda: self.leader() is not None)

    def start(self, number):
        everybody = ",".join(f"m{i}={peer}" for i, peer in enumerate(self.peers))
        peer, url = self.peers[number], self.members_urls[number]
        return self.enter_context(Process(
            [ETCD, "--name", f"m{number}", "--data-dir", f"{self.folder}/{number}", "--listen-peer-urls", peer,
             "--initial-advertise-peer-urls", peer, "--listen-client-urls", url, "--advertise-client-urls", url,
             "--initial-cluster", everybody, "--logger", "zap", "--log-level", "error", "--unsafe-no-fsync",
             *self.options]))

    def ask(self, number, path, **body):
        request = urllib.request.Request(self.members_urls[number] + path, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=5) as reply:
            return json.load(reply)

    def leader(self):
        """Returns the number of the member that leads etcd itself; None without a leader."""
        for number in range(len(self.peers)):
            try:
                status = self.ask(number, "/v3/maintenance/status")
            except OSError:
                continue
            if status.get("leader") == status["header"]["member_id"]:
                return number
        return None

    def get(self, key):
        """Asks member 0; returns None without such a key."""
        found = self.ask(0, "/v3/kv/range", key=base64.b64encode(key.encode()).decode()).get("kvs")
        return base64.b64decode(found[0]["value"]) if found else None

    def put(self, key, value):
        self.ask(0, "/v3/kv/put", key=base64.b64encode(key.encode()).decode(), value=base64.b64encode(value).decode())


class Cluster(contextlib.ExitStack):
    """Schedulers, servers and workers that find each other in an etcd."""

    def __init__(self, etcd):
        super().__init__()
        self.etcd = etcd

    def heddle(self, *words):
        return self.enter_context(Process([scheduler_test.HEDDLE, *words, "--etcd", self.etcd.urls, "--etcd-prefix", NAME,
                                           "--log-format", "json"]))

    def scheduler(self, *options):
        return self.heddle("scheduler", "--listen", "127.0.0.1:0", "--servers", "2", "--etcd-lease", "2s", "--metrics",
                           "127.0.0.1:0", *options)

    def server(self, number):
        return self.heddle("server", "--listen", "127.0.0.1:0", "--metrics", "off", "--replicas", "2",
                           "--number", str(number))

    def worker(self, rank, rounds):
        return self.enter_context(Process(
            [scheduler_test.WORKER, "dist_sync", str(rounds), "0", "25"], HEDDLE_STORE_ETCD=self.etcd.urls,
            HEDDLE_STORE_ETCD_PREFIX=NAME, HEDDLE_RANK=str(rank), HEDDLE_SIZE="2", HEDDLE_RENDEZVOUS="tcp:127.0.0.1:1"))


def of(scheduler, name):
    return metric(scheduler.event("started")["metrics"], "scheduler_" + name)


def leads(scheduler):
    return of(scheduler, "leads") == [1]


class EtcdTest(unittest.TestCase):
    def check_done(self, workers):
        for worker in workers:
            status = worker.end()
            self.assertEqual((status, worker.out), (0, ["done\n"]), worker.text())

    def test_sums_are_exact_whoever_is_killed(self):
        with Etcd(3) as etcd, Cluster(etcd) as cluster:
            schedulers = [cluster.scheduler(), cluster.scheduler()]
            wait_until(lambda: any(map(leads, schedulers)))
            servers = [cluster.server(number) for number in range(2)]
            workers = [cluster.worker(rank, 400 if FEW else 600) for rank in range(2)]

            def complete(scheduler):
                return leads(scheduler) and of(scheduler, "shard_copies") == [2, 2] and of(scheduler, "servers_here") == [2]

            wait_until(lambda: any(map(complete, schedulers)))
            leaders = []
            wait_until(lambda: leaders.append(etcd.leader()) or leaders[-1] is not None)
            etcd.members[leaders[-1]].kill()
            wait_until(lambda: etcd.leader() is not None)
            # The loss of the member may have ended the scheduler's lease, so another one may lead now.
            wait_until(lambda: any(map(complete, schedulers)))
            first = next(scheduler for scheduler in schedulers if leads(scheduler))
            second = next(scheduler for scheduler in schedulers if scheduler is not first)
            first.kill()
            wait_until(lambda: complete(second))
            self.assertTrue(all(worker.process.poll() is None for worker in workers))
            servers[0].kill()
            second.event("shard_failed_over", shard="0")
            cluster.server(0)
            wait_until(lambda: complete(second))
            self.check_done(workers)
            self.assertEqual(of(second, "lost_total"), [0])

    @alike
    def test_a_leader_without_etcd_steps_down_and_training_goes_on(self):
        with Etcd(1) as etcd, Cluster(etcd) as cluster:
            scheduler = cluster.scheduler()
            for number in range(2):
                cluster.server(number)
            workers = [cluster.worker(rank, 250) for rank in range(2)]
            wait_until(lambda: of(scheduler, "workers_here") == [2])
            etcd.members[0].process.send_signal(signal.SIGSTOP)
            scheduler.event("lost_leadership")
            scheduler.event("etcd_unreachable")
            wait_until(lambda: of(scheduler, "leads") == [0])
            etcd.members[0].process.send_signal(signal.SIGCONT)
            scheduler.event("etcd_reached")
            wait_until(lambda: leads(scheduler) and of(scheduler, "servers_here") == [2])
            self.check_done(workers)

    @alike
    def test_a_leader_that_ends_makes_way_at_once_and_its_state_is_found(self):
        with Etcd(1) as etcd, Cluster(etcd) as cluster:
            first = cluster.scheduler("--etcd-lease", "600s")
            first.event("became_leader")
            second = cluster.scheduler()
            self.assertEqual(second.event("standing_by")["leader"], first.event("started")["address"])
            servers = [cluster.server(number) for number in range(2)]
            wait_until(lambda: of(first, "begun") == [1])
            first.process.send_signal(signal.SIGTERM)
            self.assertEqual(first.end(), 0, first.text())
            second.event("became_leader")
            wait_until(lambda: of(second, "servers_here") == [2])
            self.assertEqual(of(second, "lost_total"), [0])
            self.assertTrue(all(server.process.poll() is None for server in servers))

            other = cluster.heddle("scheduler", "--listen", "127.0.0.1:0", "--servers", "3", "--metrics", "off")
            self.assertEqual(other.end(), 1)
            self.assertIn(f"etcd's key {NAME}/state is of 2 servers, not of 3; another cluster needs another prefix",
                          other.text())
            state = bytearray(etcd.get(NAME + "/state"))
            state[30] ^= 1
            etcd.put(NAME + "/state", bytes(state))
            third = cluster.scheduler()
            self.assertEqual(third.end(), 1)
            self.assertIn(f"etcd's key {NAME}/state is damaged: its checksum is wrong", third.text())

    @unittest.skipIf(shutil.which("openssl") is None, "openssl makes the certificates")
    def test_etcd_with_certificates(self):
        with tempfile.TemporaryDirectory() as folder:
            ca, key = folder + "/ca.pem", folder + "/key.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                            "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                            "-out", ca], check=True, capture_output=True)
            certificates = ["--cert-file", ca, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", ca]
            with Etcd(1, *certificates, scheme="https") as etcd, Cluster(etcd) as cluster:
                known = cluster.scheduler("--etcd-ca", ca, "--etcd-cert", ca, "--etcd-key", key)
                known.event("became_leader")
                stranger = cluster.scheduler("--etcd-ca", ca)
                self.assertIn(f"etcd {etcd.urls}: ", stranger.event("etcd_unreachable")["why"])
                unsure = cluster.scheduler()
                unsure.event("etcd_unreachable", saying="certificate")  # possibly after a timeout

    def test_what_is_wrong_is_said(self):
        nowhere = f"http://127.0.0.1:{free_port()}"
        with Process([scheduler_test.HEDDLE, "scheduler", "--listen", "127.0.0.1:0", "--metrics", "off", "--etcd", nowhere,
                      "--log-format", "json"]) as scheduler:
            why = scheduler.event("etcd_unreachable")["why"]
            self.assertIn(f"etcd {nowhere}: ", why)
            scheduler.process.send_signal(signal.SIGTERM)
            self.assertEqual(scheduler.end(), 0)
        with Process([scheduler_test.HEDDLE, "server", "--listen", "127.0.0.1:0", "--metrics", "off", "--etcd", nowhere,
                      "--log-format", "json"]) as server:
            self.assertIn(f"etcd {nowhere}: ", server.event("scheduler_unreachable")["why"])
        for words, text in ((["scheduler", "--etcd", "a:2379"], "--etcd: 'a:2379': want addresses of etcd's members"),
                            (["scheduler", "--etcd", nowhere, "--state", "a"], "--state: etcd is set, too (--etcd)"),
                            (["scheduler", "--etcd", nowhere, "--once", "yes"], "--once: with etcd, schedulers that stand"),
                            (["server", "--etcd", nowhere, "--scheduler", "a:1"], "--scheduler: etcd is set, too (--etcd)"),
                            (["server", "--etcd", nowhere, "--etcd-cert", "a"], "--etcd-cert: etcd-cert and etcd-key need")):
            with Process([scheduler_test.HEDDLE, *words]) as process:
                self.assertEqual(process.end(), 2)
                self.assertIn(text, process.text())


if __name__ == "__main__":
    scheduler_test.WORKER, scheduler_test.HEDDLE = sys.argv[1:3]
    if ETCD is None:
        print("etcd is not there (Debian's etcd-server): nothing is tested")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
