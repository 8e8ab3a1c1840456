"""The example inference_server: answers, batches, deadlines, a full queue, the end, memory."""

import gzip
import http.client
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import heddle

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "inference_server"
LIMIT = 120  # seconds, for waits that should take less than one
PICTURES = np.random.default_rng(1).integers(0, 256, (40, 784), dtype=np.uint8)

# A server whose batches wait until a pipe is closed. The predicted class is the first pixel.
GATED = f"""
import os, sys
sys.path.insert(0, {str(FOLDER)!r})
import heddle, numpy, server
gate = int(os.environ["GATE"])
def predict(pictures):
    os.read(gate, 1)
    if pictures[0, 1] == 255: raise RuntimeError("no such picture")
    return numpy.eye(10, dtype=numpy.float32)[pictures[:, 0]]
options = server.parse()
engine = heddle.Engine(scheduler="threaded", workers=2)
server.serve(server.make_app(engine, predict, options), options.host, options.port)
"""


def until(condition):
    """Polls without a pause, since each condition() is slow."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "took too long"


class Server:
    def __init__(self, command, log, **popen):
        self.log, self.own = log, None
        with log.open("w") as stderr:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=stderr, text=True, **popen
            )
        try:
            line = self.process.stdout.readline()
            assert line.startswith("listening at http://"), log.read_text()
            self.port = int(line.rpartition(":")[2])
            self.own = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)  # a connection for metrics
            assert self.get("/healthz") == b"ok\n"
        except BaseException:
            self.close()
            raise

    def get(self, path):
        self.own.request("GET", path)
        return self.own.getresponse().read()

    def metrics(self):
        lines = [
            line.split() for line in self.get("/metrics").decode().splitlines() if not line.startswith("#")
        ]
        return {name: float(value) for name, value in lines}

    def ended(self, outcome):
        return self.metrics()[f'inference_requests_total{{outcome="{outcome}"}}']

    def dropped(self, why):
        return self.metrics()[f'inference_ops_dropped_total{{why="{why}"}}']

    def send(self, picture=bytes(784), headers=None):
        """Sends a request; returns the connection, whose answer is not read yet."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        connection.request("POST", "/predict", picture, headers or {})
        return connection

    def post(self, *arguments):
        return answer_of(self.send(*arguments))

    def end(self):
        """Ends the server by SIGTERM; returns its exit status."""
        self.process.terminate()
        return self.process.wait(LIMIT)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        if self.own:
            self.own.close()


def answer_of(connection):
    """The answer's status, headers and body."""
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, response.headers, body


class GatedServer(Server):
    def __init__(self, log, *options):
        gate, self.gate = os.pipe()
        try:
            command = [sys.executable, "-c", GATED, "--port", "0", "--deadline", str(LIMIT * 1000), *options]
            super().__init__(command, log, pass_fds=[gate], env={**os.environ, "GATE": str(gate)})
        finally:
            os.close(gate)

    def begin(self, picture=bytes(784)):
        """Sends a request, and returns when its batch has begun and waits at the gate."""
        before = self.metrics()["inference_batch_size_count"]
        connection = self.send(picture)
        until(lambda: self.metrics()["inference_batch_size_count"] == before + 1)
        return connection

    def queue(self, count, headers=None):
        """Sends requests, and returns when they wait for the next batch."""
        before = self.metrics()["inference_queue_length"]
        connections = [self.send(bytes([i % 10]) + bytes(783), headers) for i in range(count)]
        until(lambda: self.metrics()["inference_queue_length"] == before + count)
        return connections

    def open(self):
        if self.gate >= 0:
            os.close(self.gate)
        self.gate = -1

    def close(self):
        self.open()
        super().close()


@pytest.fixture
def gated(tmp_path):
    servers = []

    def start(*options):
        servers.append(GatedServer(tmp_path / "stderr", *options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def model(monkeypatch, tmp_path):
    """A checkpoint, and the expected answers of its network."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import model

    path = tmp_path / "model.safetensors"
    heddle.manual_seed(3)
    heddle.save_checkpoint(path, model.make_net().parameters())
    return path, model.Model(heddle.default_engine(), path)


def patient_server(checkpoint, folder):
    """A server that refuses nothing on a slow machine."""
    options = ["--port", "0", "--queue", "1000", "--deadline", str(LIMIT * 1000)]
    command = [sys.executable, FOLDER / "server.py", "--checkpoint", checkpoint, *options]
    return Server(command, folder / "stderr")


@pytest.fixture
def server(model, tmp_path):
    server = patient_server(model[0], tmp_path)
    yield server
    server.close()


def run(program, *options):
    command = [sys.executable, FOLDER / program, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)


def test_answers_are_those_of_the_model(server, model):
    wanted = model[1].predict(PICTURES)
    connections = [server.send(picture.tobytes()) for picture in PICTURES[:16]]
    answers = [answer_of(connection) for connection in connections]
    for picture in PICTURES[16:]:
        text = json.dumps({"picture": picture.reshape(28, 28).tolist()})
        answers.append(server.post(text, {"Content-Type": "application/json"}))
    assert {status for status, _, _ in answers} == {200}
    bodies = [json.loads(body) for _, _, body in answers]
    np.testing.assert_allclose([body["probabilities"] for body in bodies], wanted, rtol=1e-4, atol=1e-6)
    assert [body["class"] for body in bodies] == wanted.argmax(axis=1).tolist()
    assert bodies[0]["label"] == sys.modules["model"].LABELS[bodies[0]["class"]]
    assert server.ended("answered") == server.metrics()["inference_latency_seconds_count"] == len(PICTURES)
    assert server.end() == 0
    assert server.log.read_text() == ""


def test_bad_requests(server):
    json_type = {"Content-Type": "application/json; charset=utf-8"}
    for body, headers, status, text in [
        (bytes(783), {}, 400, b"783 bytes"),
        (bytes(70000), {}, 413, b"more than 65536"),
        (b"{", json_type, 400, b"28 rows"),
        (b"[1]", json_type, 400, b"28 rows"),
        (b'{"picture": [[1, 2], [3]]}', json_type, 400, b"28 rows"),
        (b'{"picture": [1, 2]}', json_type, 400, b"shape (2,)"),
        (json.dumps({"picture": [256] * 784}), json_type, 400, b"outside"),
        (json.dumps({"picture": [float("nan")] * 784}), json_type, 400, b"outside"),
        (bytes(784), {"X-Deadline-Ms": "soon"}, 400, b"want milliseconds"),
        (bytes(784), {"X-Deadline-Ms": "-1"}, 400, b"want milliseconds"),
        (bytes(784), {"X-Deadline-Ms": "nan"}, 400, b"want milliseconds"),
    ]:
        answer = server.post(body, headers)
        assert answer[0] == status and text in answer[2], answer
    assert server.ended("bad") == 11
    assert server.metrics()["inference_queue_length"] == 0


def test_requests_that_wait_become_batches(gated):
    server = gated("--batch", "4", "--queue", "16")
    first = server.begin()
    connections = server.queue(10)
    server.open()
    assert answer_of(first)[0] == 200
    answers = [answer_of(connection) for connection in connections]
    assert [json.loads(body)["class"] for _, _, body in answers] == list(range(10))
    metrics = server.metrics()
    assert metrics["inference_batch_size_sum"] == 11
    assert metrics["inference_batch_size_count"] == 4  # batches of 1, 4, 4 and 2
    assert metrics['inference_batch_size_bucket{le="2.0"}'] == 2


def test_a_full_queue_refuses_at_once(gated):
    server = gated("--queue", "3")
    first = server.begin()
    connections = server.queue(3)
    status, headers, _ = server.post()
    assert status == 503 and headers["Retry-After"] == "1"
    assert server.ended("refused") == 1
    server.open()
    assert [answer_of(connection)[0] for connection in [first, *connections]] == [200] * 4
    assert server.post()[0] == 200


def test_clients_that_send_slowly_hold_no_places(gated):
    server = gated("--queue", "3")
    server.open()
    slow = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT) for _ in range(6)]
    for connection in slow:
        connection.putrequest("POST", "/predict")
        connection.putheader("Content-Length", "784")
        connection.endheaders(bytes(100))
    assert [server.post()[0] for _ in range(5)] == [200] * 5
    for connection in slow:
        connection.send(bytes(684))
        assert answer_of(connection)[0] == 200
    assert server.metrics()["inference_queue_length"] == 0 and server.ended("refused") == 0


def test_what_is_too_late_is_answered_and_not_computed(gated):
    server = gated()
    first = server.begin()
    milliseconds, late = 20, 0
    while server.metrics()["inference_queue_length"] == 0:  # may be late before it is queued
        status, _, body = server.post(bytes(784), {"X-Deadline-Ms": str(milliseconds)})
        assert status == 504 and b"deadline" in body  # the batch before still waits at the gate
        milliseconds, late = milliseconds * 2, late + 1
    server.open()
    assert answer_of(first)[0] == 200
    until(lambda: server.dropped("late") == 1)
    assert server.post(bytes(784), {"X-Deadline-Ms": "0"})[0] == 504
    until(lambda: server.metrics()["inference_queue_length"] == 0)
    assert server.metrics()["inference_batch_size_sum"] == 1
    assert server.ended("late") == late + 1 and server.dropped("gone") == 0


def test_the_work_of_a_client_that_goes_away_is_dropped(gated):
    server = gated("--queue", "2")
    first = server.begin()
    for connection in server.queue(2):
        connection.close()
    until(lambda: server.ended("gone") == 2)
    assert server.post()[0] == 503  # slots of clients that left are not free yet, so the queue cannot grow
    server.open()
    assert answer_of(first)[0] == 200
    until(lambda: server.dropped("gone") == 2)
    assert server.post()[0] == 200
    assert server.metrics()["inference_batch_size_sum"] == 2
    assert server.end() == 0 and server.log.read_text() == ""


def test_a_client_that_goes_away_while_its_batch_is_computed(gated):
    server = gated()
    server.begin().close()
    until(lambda: server.ended("gone") == 1)
    server.open()
    assert server.post()[0] == 200
    assert server.dropped("gone") == 0


def test_a_batch_that_fails(gated):
    server = gated()
    connection = server.begin(bytes([0, 255]) + bytes(782))
    server.open()
    assert answer_of(connection)[0] == 500
    assert server.post()[0] == 200
    assert server.ended("failed") == 1
    assert server.log.read_text() == "inference_server: RuntimeError('no such picture')\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_accepted_requests_are_answered_at_the_end(gated, number):
    server = gated("--batch", "2")
    connections = [server.begin(), *server.queue(5)]
    server.process.send_signal(number)

    def is_closed():
        try:
            server.send().close()
        except ConnectionError:
            return True
        return False

    until(is_closed)
    server.open()
    assert [answer_of(connection)[0] for connection in connections] == [200] * 6
    assert server.process.wait(LIMIT) == 0
    assert server.log.read_text() == ""


def test_refusals_take_no_memory(gated):
    server = gated("--queue", "2")
    connections = [server.begin(), *server.queue(2)]
    one = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)

    def refuse(count):
        for _ in range(count):
            one.request("POST", "/predict", bytes(784))
            response = one.getresponse()
            assert response.status == 503 and response.read()

    refuse(1000)
    before = server.metrics()["process_resident_memory_bytes"]
    refuse(8000)  # the pictures alone would take 6 MB if they were kept
    assert server.metrics()["process_resident_memory_bytes"] - before < 3e6
    one.close()
    server.open()
    assert [answer_of(connection)[0] for connection in connections] == [200] * 3


def test_a_checkpoint_is_made_by_one_command(tmp_path):
    for part in ("train", "t10k"):
        for kind, size, start in (("images-idx3", 784, 16), ("labels-idx1", 1, 8)):
            with gzip.open(tmp_path / f"{part}-{kind}-ubyte.gz", "wb") as file:
                values = np.repeat(np.arange(200, dtype=np.uint8) % 2, size)  # alternately dark and light pictures
                file.write(bytes(start) + (values * (1 if size == 1 else 255)).tobytes())
    made = run("train.py", "--data", tmp_path, "--epochs", "8", "--out", tmp_path / "made.safetensors")
    assert made.returncode == 0, made.stderr
    assert "accuracy 1.0000 on 200 pictures" in made.stdout
    server = patient_server(tmp_path / "made.safetensors", tmp_path)
    try:
        assert [json.loads(server.post(bytes([shade] * 784))[2])["class"] for shade in (0, 255)] == [0, 1]
    finally:
        server.close()


def test_missing_files_and_bad_options(tmp_path):
    missing = tmp_path / "missing.safetensors"
    without = run("server.py", "--checkpoint", missing)
    assert without.returncode == 1 and f"make one with train.py --out {missing}" in without.stderr
    assert "dataset-fashion-mnist" in run("train.py", "--data", tmp_path).stderr
    assert "want at least 1" in run("server.py", "--queue", "0").stderr
    assert "Retry-After" in run("server.py", "--help").stdout
    assert "open loop" in run("load.py", "--help").stdout


def test_the_load_generator(server, tmp_path):
    url, table, picture = f"http://127.0.0.1:{server.port}", tmp_path / "table.md", tmp_path / "picture.png"
    options = ["--url", url, "--rates", "60", "40", "--seconds", "1", "--table", table]
    done = run("load.py", *options)
    assert done.returncode == 0, done.stderr
    assert table.read_text() == done.stdout
    rows = [
        [float(cell.strip(" %") or 0) for cell in line.split("|")[1:-1]]
        for line in done.stdout.splitlines()[2:]
    ]
    assert [row[0] for row in rows] == [40, 60]
    for offered, answered, refused, other, p50, p99, *_ in rows:
        assert offered / 2 < answered < offered * 2 and refused == 0 and other == 0 and 0 < p50 <= p99
    # The metrics also count the warm-up requests.
    assert server.ended("answered") >= sum(row[1] for row in rows)
    drawn = run("load.py", *options, "--picture", picture)
    if importlib.util.find_spec("matplotlib"):
        assert drawn.returncode == 0 and picture.read_bytes().startswith(b"\x89PNG")
    else:
        assert drawn.returncode == 1 and "pip install matplotlib" in drawn.stderr
    assert server.end() == 0
    assert "load.py: http" in run("load.py", *options).stderr
