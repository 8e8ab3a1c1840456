"""Ops of a Heddle engine that an asyncio loop completes: timers, sockets, files.

The engine decides when an op's turn has come, and the loop does the work. The loop never waits for the
engine.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import heddle

Vars = heddle.Var | heddle.NDArray | Sequence[heddle.Var | heddle.NDArray]


class LoopOps:
    """Pushes ops that an asyncio loop completes. Any thread except the loop's own may push."""

    def __init__(self, engine: heddle.Engine, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop
        self._tasks: set[asyncio.Task[object]] = set()  # strong references: a loop keeps only weak ones to its tasks

    def push(
        self,
        start: Callable[[], Coroutine[Any, Any, object]],
        *,
        read: Vars = (),
        mutate: Vars = (),
        name: str | None = None,
    ) -> None:
        """Queues an op that ends when the coroutine that start() returns has ended.

        start() is called inside the op: it may take the memory of arrays that the op declares. The coroutine
        runs on the loop, outside the op, so it must not ask for that memory itself. An exception out of it
        fails the op. The op keeps no worker meanwhile.
        """

        def begin(completion: heddle.Completion) -> None:
            coroutine = start()
            try:
                self._loop.call_soon_threadsafe(self._start, coroutine, completion)
            except RuntimeError:  # the loop is closed
                coroutine.close()
                raise

        self._engine.push_async(begin, read=read, mutate=mutate, name=name)

    def _start(self, coroutine: Coroutine[Any, Any, object], completion: heddle.Completion) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(lambda ended: self._end(ended, completion))

    def _end(self, task: asyncio.Task[object], completion: heddle.Completion) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            completion.fail(heddle.Cancelled("the loop has cancelled the coroutine"))
        elif (error := task.exception()) is not None:
            completion.fail(error)
        else:
            completion.done()
