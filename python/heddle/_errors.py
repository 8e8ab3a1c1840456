"""The exceptions of Heddle. Those of a Python function in an op are raised as they are, with a note that names the op."""

from collections.abc import Sequence as _Sequence


class Error(RuntimeError):
    """Base of the errors that Heddle itself raises."""


class InvalidArgument(Error, ValueError):
    """A bad argument, found at the call, or a bad element of one, found by the op."""


class InvalidIndex(InvalidArgument, IndexError):
    """A key of x[key] that does not fit the array, or an index out of range, which the op finds."""


class OutOfMemory(Error, MemoryError):
    """Memory for an array or a kernel is missing."""


class Cancelled(Error):
    """The op's group was cancelled before the op started."""


class DeadlineExceeded(Cancelled, TimeoutError):
    """The deadline of the op's group passed before the op started."""


class WouldDeadlock(Error):
    """A wait inside an op that could only end after that op itself."""


class UndeclaredAccess(Error):
    """An op touched data that it did not declare (HEDDLE_CHECK=1)."""


class DroppedCompletion(Error):
    """An asynchronous op ended without a result."""


class CommError(Error):
    """Base of the errors of communication."""


class CommMismatch(CommError):
    """Ranks made different calls."""


class PeerLost(CommError):
    """A rank's process has ended, or the rank left while others needed it."""


class PeerSilent(PeerLost):
    """A rank has sent no heartbeat in time."""


class RemoteFailure(CommError):
    """The op that computes another rank's input has failed there."""


class CommAborted(CommError):
    """The communicator was aborted."""


class AggregateError(ExceptionGroup[Exception]):
    """The errors of wait_all: one for each op that failed and that no wait has reported."""

    @classmethod
    def _of(cls, text: str, errors: list[BaseException]) -> BaseException:
        if all(isinstance(error, Exception) for error in errors):
            return cls(text, errors)  # type: ignore[arg-type]
        return BaseExceptionGroup(text, errors)

    def derive(self, excs: _Sequence[Exception]) -> "AggregateError":  # type: ignore[override]
        return AggregateError(self.message, excs)


class StoreError(Error):
    """A server of a key-value store is lost or has refused a request."""
