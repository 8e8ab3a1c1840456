"""Futures of concurrent.futures and of asyncio for ops."""

import asyncio
import concurrent.futures
import functools
from collections.abc import Callable, Generator
from typing import Any

from heddle._errors import Cancelled


def _add_notes(to: BaseException | None, error: BaseException) -> None:
    """What the wait knows beside the error: the op that failed, and its line."""
    known = getattr(to, "__notes__", ())
    for note in getattr(error, "__notes__", ()):
        if to is not None and note not in known:
            to.add_note(note)


class OpFuture(concurrent.futures.Future[Any]):
    """The future of an op. Who asks for its result waits for the op, as for a var: the thread may run it itself."""

    def __init__(self, engine: Any) -> None:
        super().__init__()
        self._engine = engine
        self._var = engine.new_var()

    def _wait(self, timeout: float | None) -> None:
        if self.done() and (self.cancelled() or super().exception(0) is None):
            return
        try:
            self._engine.wait(self._var, timeout)
        except Exception as error:  # the future has the same error
            if not self.done():
                raise
            _add_notes(super().exception(0), error)

    def result(self, timeout: float | None = None) -> Any:
        """As that of any future; Ctrl-C ends it."""
        self._wait(timeout)
        return super().result(0 if timeout is not None else None)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As that of any future; Ctrl-C ends it."""
        self._wait(timeout)
        return super().exception(0 if timeout is not None else None)


def _run(future: OpFuture, keep: bool, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        if keep:
            raise Cancelled("the future of the op was cancelled")
        return
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:
        future.set_exception(error)
        # The future has the error. The engine needs it only if the op mutates vars, which it poisons.
        if keep:
            raise
    else:
        future.set_result(result)


def _skip(future: OpFuture, error: BaseException) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)


def submit(
    engine: Any,
    fn: Callable[..., Any],
    /,
    *args: Any,
    read: Any = (),
    mutate: Any = (),
    name: str | None = None,
    priority: int = 0,
    group: Any = None,
    **kwargs: Any,
) -> OpFuture:
    """Queues fn(*args, **kwargs) as an op and returns a concurrent.futures.Future of its result.

    read and mutate are as those of push. A future that is cancelled before its op has started cancels the op.
    """
    if not callable(fn):
        raise TypeError(f"submit: fn is a {type(fn).__name__}; want what is callable")
    future = OpFuture(engine)
    mutated = tuple(mutate) if isinstance(mutate, (list, tuple)) else () if mutate is None else (mutate,)
    keep = bool(mutated)
    engine._push_for_submit(
        functools.partial(_run, future, keep, fn, args, kwargs),
        read=read,
        mutate=(*mutated, future._var),
        name=name or getattr(fn, "__name__", "op"),
        priority=priority,
        group=group,
        skipped=functools.partial(_skip, future),
    )
    return future


_TURN = 0.001  # seconds that an event loop gives at a time to ops of schedulers without worker threads


def _resolve(future: asyncio.Future[Any], error: BaseException | None) -> None:
    if not future.done():
        future.set_result(error)


def _wake(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], error: BaseException | None = None) -> None:
    try:
        loop.call_soon_threadsafe(_resolve, future, error)
    except RuntimeError:  # the loop is closed: no task waits any more
        pass


def _await(engine_of: Callable[[Any], Any], self: Any) -> Generator[Any, None, Any]:
    """An op that reads the var wakes the event loop."""
    if engine_of(self).scheduler != "threaded":  # other schedulers run ops only in waits and pushes
        while not self.wait(_TURN):
            yield  # other tasks of the loop may have to run before the ops can
        return self
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    engine_of(self).push(
        functools.partial(_wake, loop, future),
        read=(self,),
        name="await",
        skipped=functools.partial(_wake, loop, future),
    )
    error = yield from future
    self.wait(0)  # raises the error that poisons the var, and counts it as seen
    if error is not None:
        raise error
    return self


def _install(engine: Any, var: Any, array: Any, array_namespace: Any) -> None:
    engine.submit = submit
    array.__array_namespace__ = array_namespace
    var.__await__ = lambda self: _await(lambda var: var.engine, self)
    array.__await__ = lambda self: _await(lambda array: array.engine, self)
