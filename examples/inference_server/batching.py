"""Batches as ops of an engine.

Each request is an op that reads the var `turn`, and each batch is an op that mutates it. So requests that
come while a batch is computed wait in the engine until it has ended. Then they enter the next batch, unless
their group was cancelled or their deadline has passed: the engine does not run them then.
"""

import asyncio
import functools
import threading
from collections.abc import Callable

import numpy as np

import heddle
from metrics import Metrics


class Work:
    """A picture on its way through the engine. Only the loop's thread may touch its future."""

    __slots__ = ("picture", "group", "answer")

    def __init__(self, picture: np.ndarray, seconds: float, answer: asyncio.Future[np.ndarray]) -> None:
        self.picture = picture
        self.group = heddle.Group(timeout=seconds)
        self.answer = answer


class Batcher:
    """Forms batches of requests. Public methods are for the loop's thread."""

    def __init__(
        self,
        engine: heddle.Engine,
        predict: Callable[[np.ndarray], np.ndarray],
        metrics: Metrics,
        most_in_batch: int,
        most_waiting: int,
    ) -> None:
        self._engine, self._predict, self._metrics = engine, predict, metrics
        self._most_in_batch, self._most_waiting = most_in_batch, most_waiting
        self._turn = engine.new_var()
        # The next batch. Ops that read `turn` append to it, and the op that mutates `turn` takes all of it.
        self._entered: list[Work] = []
        self._lock = threading.Lock()  # guards the counters below; held while pushing, never while waiting
        self._waiting = 0  # requests that are accepted and not yet in a batch
        self._open = 0  # requests whose ops were pushed after the last batch's op
        self._batches = 0  # batches that are pushed and have not ended
        metrics.queue_length.set_function(lambda: self._waiting)

    def is_full(self) -> bool:
        with self._lock:
            return self._waiting >= self._most_waiting

    def reserve(self) -> bool:
        """Reserves a slot of the queue for submit(); False if the queue is full."""
        with self._lock:
            if self._waiting >= self._most_waiting:
                return False
            self._waiting += 1
            return True

    def _release(self) -> None:
        with self._lock:
            self._waiting -= 1

    def submit(self, picture: np.ndarray, seconds: float) -> Work:
        """Queues a picture whose slot is reserved. Its answer: a row of probabilities, or heddle.Cancelled."""
        loop = asyncio.get_running_loop()
        work = Work(picture, seconds, loop.create_future())
        with self._lock:
            self._engine.push(
                functools.partial(self._enter, work),
                read=self._turn,
                name="request",
                group=work.group,
                skipped=functools.partial(self._skip, loop, work),
            )
            self._open += 1
            if self._batches == 0 or self._open == self._most_in_batch:
                self._push_batch(loop)
        return work

    def _push_batch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._open = 0
        self._batches += 1
        self._engine.push(functools.partial(self._run, loop), mutate=self._turn, name="batch")

    def _enter(self, work: Work) -> None:
        self._release()
        self._entered.append(work)

    def _skip(self, loop: asyncio.AbstractEventLoop, work: Work, why: BaseException) -> None:
        self._release()
        self._metrics.dropped["late" if isinstance(why, heddle.DeadlineExceeded) else "gone"].inc()
        loop.call_soon_threadsafe(_settle, [work], why)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        works, self._entered = self._entered, []
        if works:
            self._metrics.batch_size.observe(len(works))
            result: np.ndarray | BaseException
            try:
                result = self._predict(np.stack([work.picture for work in works]))
            except Exception as error:
                result = error
            loop.call_soon_threadsafe(_settle, works, result)
        with self._lock:
            self._batches -= 1
            if self._open and self._batches == 0:
                self._push_batch(loop)


def _settle(works: list[Work], result: np.ndarray | BaseException) -> None:
    """Gives each request its row, or all of them the error. Clients that went away cancelled their futures."""
    for i, work in enumerate(works):
        if work.answer.done():
            continue
        if isinstance(result, BaseException):
            work.answer.set_exception(result)
        else:
            work.answer.set_result(result[i])
