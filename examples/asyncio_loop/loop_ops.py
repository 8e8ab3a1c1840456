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
    """Pushes ops to an engine that a loop completes. Any thread but the loop's own may push."""

    def __init__(self, engine: heddle.Engine, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop

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
        fails the op.

        The op keeps a worker of the engine until the coroutine has ended, because the package has no
        asynchronous ops yet. The engine needs a worker for each coroutine that may be under way at once, and
        some for the ops that compute. Ops on one clock, socket or file mutate a var of it: so there is one
        coroutine under way for each of these.
        """

        def run() -> None:
            asyncio.run_coroutine_threadsafe(start(), self._loop).result()

        self._engine.push(run, read=read, mutate=mutate, name=name)
