"""An HTTP server that answers with a network's predictions, computed in batches by ops of a Heddle engine."""

import argparse
import asyncio
import contextlib
import json
import math
import os
import pathlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import heddle
from batching import Batcher
from metrics import Metrics
from model import LABELS, PIXELS, SIDE, Model

EPILOG = """\
    pip install -r requirements.txt          # beside this file
    python train.py --out model.safetensors  # once: trains the network on Fashion-MNIST
    python server.py
    head -c 784 /dev/zero | curl --data-binary @- http://127.0.0.1:8080/predict
    python load.py --url http://127.0.0.1:8080

  POST /predict   a picture of 28 x 28 pixels: 784 bytes, or JSON: {"picture": [[0, 255, ...], ...]}.
                  The answer is JSON:
                  {"class": 9, "label": "Ankle boot", "probabilities": [...]}
  GET  /metrics   numbers for Prometheus
  GET  /healthz   200 once pictures are taken

  X-Deadline-Ms: 50 in a request says how long its client waits. What is not begun by then is not computed.

  200  answered
  400  no such picture, or no such deadline; 413: more than 64 KiB
  503  the queue is full: said before the body is read if it is full then, else when it has been. Retry-After: 1
  504  the deadline has passed
  500  the network has failed

When a client goes away, its picture is dropped unless its batch has begun. SIGTERM and Ctrl-C end the server
when all requests that it has accepted are answered.
"""
MOST_BYTES = 65536
LONGEST = 3600.0  # the longest deadline in seconds


class BadRequest(Exception):
    """The request makes no sense; the text says why."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


def deadline_of(request: Request, default: float) -> float:
    """The request's deadline in seconds from now."""
    text = request.headers.get("x-deadline-ms")
    if text is None:
        return default
    try:
        seconds = float(text) / 1000
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= LONGEST:
        raise BadRequest(f"X-Deadline-Ms is {text!r}; want milliseconds, from 0 to {LONGEST * 1000:.0f}")
    return seconds


async def body_of(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise BadRequest(f"the body has more than {MOST_BYTES} bytes", 413)
    return bytes(body)


def picture_of(content_type: str, body: bytes) -> np.ndarray:
    """The picture in the body, u8 (784)."""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        if len(body) != PIXELS:
            raise BadRequest(
                f"the body has {len(body)} bytes; want {PIXELS}, one a pixel, or JSON with its Content-Type"
            )
        return np.frombuffer(body, np.uint8)
    try:
        values = np.asarray(json.loads(body)["picture"], np.float64)
    except (ValueError, KeyError, TypeError) as error:
        raise BadRequest(f'the body is not {{"picture": ...}} with {SIDE} rows of {SIDE} numbers') from error
    if values.shape not in ((SIDE, SIDE), (PIXELS,)):
        raise BadRequest(f"picture has the shape {values.shape}; want ({SIDE}, {SIDE}) or ({PIXELS},)")
    if not ((values >= 0) & (values <= 255)).all():
        raise BadRequest("picture has numbers outside 0 .. 255")
    return np.rint(values).astype(np.uint8).reshape(PIXELS)


async def disconnected(request: Request) -> None:
    """Returns when the client has gone away. Call it after the body was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Predictions:
    """POST /predict"""

    def __init__(self, batcher: Batcher, metrics: Metrics, deadline: float) -> None:
        self._batcher, self._metrics, self._deadline = batcher, metrics, deadline
        self._refusal = PlainTextResponse("the queue is full\n", 503, {"Retry-After": "1"})

    async def answer(self, request: Request) -> Response:
        started = time.perf_counter()
        if self._batcher.is_full():
            outcome, response = "refused", self._refusal
        else:
            outcome, response = await self._compute(request, started)
        self._metrics.requests[outcome].inc()
        if outcome == "answered":
            self._metrics.latency.observe(time.perf_counter() - started)
        return response

    async def _compute(self, request: Request, started: float) -> tuple[str, Response]:
        """The outcome, by its name in the metrics, and the response."""
        try:
            end = started + deadline_of(request, self._deadline)
            async with asyncio.timeout(end - time.perf_counter()):
                body = await body_of(request)
            picture = picture_of(request.headers.get("content-type", ""), body)
            # Reserves only after the body has arrived: clients that send slowly occupy no slots.
            if not self._batcher.reserve():
                return "refused", self._refusal
            return await self._wait(request, picture, end - time.perf_counter())
        except BadRequest as bad:
            return "bad", PlainTextResponse(f"{bad}\n", bad.status)
        except ClientDisconnect:
            return "gone", Response(status_code=499)
        except TimeoutError:  # also heddle.DeadlineExceeded, which derives from TimeoutError
            return "late", PlainTextResponse("the deadline has passed\n", 504)
        except Exception as error:
            print(f"inference_server: {error!r}", file=sys.stderr, flush=True)
            return "failed", PlainTextResponse("the network has failed\n", 500)

    async def _wait(self, request: Request, picture: np.ndarray, seconds: float) -> tuple[str, Response]:
        work = self._batcher.submit(picture, seconds)
        gone = asyncio.ensure_future(disconnected(request))
        try:
            await asyncio.wait((work.answer, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if work.answer.done():
                return "answered", to_response(work.answer.result())
            if gone.done():
                work.group.cancel()  # no effect once the op has begun
                return "gone", Response(status_code=499)
            raise TimeoutError
        finally:
            gone.cancel()
            work.answer.cancel()


def to_response(row: np.ndarray) -> Response:
    best = int(row.argmax())
    return JSONResponse({"class": best, "label": LABELS[best], "probabilities": row.tolist()})


def make_app(
    engine: heddle.Engine, predict: Callable[[np.ndarray], np.ndarray], options: argparse.Namespace
) -> Starlette:
    metrics = Metrics()
    batcher = Batcher(engine, predict, metrics, options.batch, options.queue)
    predictions = Predictions(batcher, metrics, options.deadline / 1000)

    async def show_metrics(_: Request) -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def show_health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        # All requests are answered by now; batches of clients that went away may be left.
        await asyncio.to_thread(wait_for_the_rest, engine)

    routes = [
        Route("/predict", predictions.answer, methods=["POST"]),
        Route("/metrics", show_metrics),
        Route("/healthz", show_health),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def wait_for_the_rest(engine: heddle.Engine) -> None:
    """Waits for all ops. Those of late requests and of clients that went away have failed, which is no error."""
    try:
        engine.wait_all()
    except* heddle.Cancelled:
        pass


def serve(app: Starlette, host: str, port: int) -> None:
    """Serves until SIGTERM or Ctrl-C. Port 0: a free port, which the first line of stdout names."""
    config = uvicorn.Config(app, host, port, log_level="warning", access_log=False, timeout_keep_alive=60)
    # Uvicorn raises the signal again after its shutdown; ignored, so that the process exits with status 0.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    listener = config.bind_socket()
    listener.listen(config.backlog)
    address = listener.getsockname()
    print(f"listening at http://{address[0]}:{address[1]}", flush=True)
    uvicorn.Server(config).run(sockets=[listener])


def at_least(least: float, number: type = int) -> Callable[[str], float]:
    def parse(text: str) -> float:
        if not (value := number(text)) >= least:
            raise argparse.ArgumentTypeError(f"{text} is too small; want at least {least}")
        return value

    return parse


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="server.py",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="(default %(default)s)")
    add("--port", type=at_least(0), default=8080, help="0: a free one; it is printed (default %(default)s)")
    add(
        "--checkpoint",
        type=pathlib.Path,
        default=pathlib.Path("model.safetensors"),
        help="(default %(default)s)",
    )
    add(
        "--random-weights",
        action="store_true",
        help="instead of a checkpoint: answers are worthless, timings are not",
    )
    add(
        "--workers",
        type=at_least(1),
        default=os.cpu_count(),
        help="threads that compute (default: one a core)",
    )
    add("--batch", type=at_least(1), default=8, help="most pictures a batch (default %(default)s)")
    add(
        "--queue",
        type=at_least(1),
        default=16,
        help="most requests that wait for a batch (default %(default)s)",
    )
    add(
        "--deadline",
        type=at_least(0, float),
        default=1000,
        metavar="MS",
        help="of a request without X-Deadline-Ms (default %(default)s)",
    )
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    # Always threaded: `naive` and `fuzz` would run ops inside pushes, on the loop's thread.
    engine = heddle.Engine(scheduler="threaded", workers=options.workers)
    try:
        model = Model(engine, None if options.random_weights else options.checkpoint)
    except (OSError, heddle.Error) as error:
        print(f"server.py: {error}", file=sys.stderr)
        return 1
    serve(make_app(engine, model.predict, options), options.host, options.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
