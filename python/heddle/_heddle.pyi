"""The types of the compiled module. Written by python/stubs.py."""

import os
from concurrent.futures import Future
from collections.abc import Callable, Generator as _Generator, Iterator, Mapping, Sequence
from typing import Any, Literal, Self

import numpy
import numpy.typing

NumpyArray = numpy.typing.NDArray[Any]
DTypeLike = DType | str | type[float] | type[int] | type[bool] | numpy.dtype[Any] | type[numpy.generic]
DeviceLike = Device | str
ArrayLike = NDArray | numpy.typing.NDArray[Any] | numpy.generic | Sequence[Any]
Operand = NDArray | numpy.typing.NDArray[Any] | numpy.generic | float
Vars = Var | NDArray | Sequence[Var | NDArray]
Keys = int | str | Sequence[int | str]

class DType:
    """The type of an array's elements."""

    @property
    def name(self) -> str: ...

    @property
    def itemsize(self) -> int:
        """Bytes an element."""

    @property
    def is_floating(self) -> bool: ...

    @property
    def numpy_name(self) -> str: ...

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """NumPy's, for np.dtype(x.dtype); TypeError for bf16, which NumPy lacks."""

    def __repr__(self) -> str: ...

    def __str__(self) -> str: ...

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> str: ...

f32: DType = ...

float32: DType = ...

f64: DType = ...

float64: DType = ...

i32: DType = ...

int32: DType = ...

i64: DType = ...

int64: DType = ...

u8: DType = ...

uint8: DType = ...

bool_: DType = ...

f16: DType = ...

float16: DType = ...

bf16: DType = ...

bfloat16: DType = ...

i8: DType = ...

int8: DType = ...

i16: DType = ...

int16: DType = ...

u16: DType = ...

uint16: DType = ...

u32: DType = ...

uint32: DType = ...

u64: DType = ...

uint64: DType = ...

class Device:
    """Where data lives and ops run."""

    def __init__(self, name: str) -> None: ...

    @property
    def kind(self) -> str: ...

    @property
    def index(self) -> int: ...

    def __repr__(self) -> str: ...

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple[object, ...]: ...

def cpu(index: int = 0) -> Device:
    """A device on the machine's memory."""

def gpu(index: int = 0) -> Device:
    """A GPU."""

def cpu_pinned() -> Device:
    """Page-locked memory of the CPU."""

def gpu_count() -> int:
    """How many GPUs this process may use."""

class Group:
    """
    Ops that are cancelled together, by a call or because their deadline has passed.
    """

    def __init__(self, timeout: float | None = None) -> None: ...

    def cancel(self) -> None:
        """
        Ops of the group that have not started fail with Cancelled when their turn comes.
        """

    def set_timeout(self, seconds: float | None) -> None:
        """
        The group counts as cancelled so many seconds from now on; None removes the deadline.
        """

    @property
    def cancelled(self) -> bool:
        """The group was cancelled, or its deadline has passed."""

def cancelled() -> bool:
    """
    Inside an op: whether the op's group is cancelled by now, so that it may stop early.
    """

class Var:
    """A handle by which the engine knows a piece of data."""

    def wait(self, timeout: float | None = None) -> bool:
        """As Engine.wait."""

    @property
    def engine(self) -> Engine: ...

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __await__(self) -> _Generator[Any, None, Var]: ...


class Binding:
    """A slot with the value that one launch gives it."""

class Slot:
    """A value that the ops of a graph read and that each launch is given."""

    @property
    def value(self) -> object:
        """The value in this launch; only inside an op of the graph."""

    def bind(self, value: object | None) -> Binding:
        """An argument of launch: the value in that launch."""

class Graph:
    """Ops that were captured once and are launched many times."""

    def launch(self, *bindings: Binding) -> None:
        """Queues the graph's ops as one op."""

    def set(self, slot: Slot, value: object | None) -> None:
        """The slot's value for all later launches that bind none."""

    def __len__(self) -> int: ...

class Completion:
    """Ends an op of Engine.push_async, on any thread."""

    def done(self) -> None:
        """The op has done its work. Of done and fail the first call counts."""

    def fail(self, exception: BaseException) -> None:
        """The op has failed with this exception, which poisons what it mutates."""

class Engine:
    """
    Runs ops: functions with the vars that they read and those that they mutate.
    """

    def __init__(self, workers: int | None = None, scheduler: str | None = None, *, seed: int | None = None, watchdog: float | None = None, spin: float | None = None, max_ops: int | None = None, max_bytes: int | None = None) -> None:
        """
        What is not given is read from the environment: HEDDLE_WORKERS, HEDDLE_SCHEDULER and so on.
        """

    def new_var(self) -> Var: ...

    def wait_all(self) -> None:
        """
        Blocks until every op pushed so far is done; raises AggregateError with all errors that no wait has raised.
        """

    def clear_error(self, var: Var | NDArray) -> None:
        """Removes the poison of a var or an array."""

    def error_of(self, var: Var | NDArray) -> BaseException | None:
        """The error that poisons the var or array now. Does not wait."""

    def capture(self, fn: Callable[[], object]) -> Graph:
        """Records what fn() pushes, instead of running it, as a graph."""

    def slot(self) -> Slot:
        """A value that each launch is given; only inside capture."""

    def describe_pending(self) -> str:
        """The ops that run and those that wait, as text."""

    def pending_dot(self) -> str:
        """The same as a DOT graph."""

    @property
    def workers(self) -> int: ...

    @property
    def scheduler(self) -> str: ...

    def __enter__(self) -> Engine:
        """Arrays that this thread makes in the block belong to this engine."""

    def __exit__(self, *args: object) -> None: ...

    def __eq__(self, other: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def push(self, fn: Callable[[], object], *, read: Vars = ..., mutate: Vars = ..., name: str | None = None, priority: int = 0, group: Group | None = None, skipped: Callable[[BaseException], object] | None = None, bytes: int = 0) -> None: ...

    def push_async(self, fn: Callable[[Completion], object], *, read: Vars = ..., mutate: Vars = ..., name: str | None = None, priority: int = 0, group: Group | None = None, skipped: Callable[[BaseException], object] | None = None, bytes: int = 0) -> None: ...

    def submit[**P, T](self, fn: Callable[P, T], /, *args: Any, read: Vars = ..., mutate: Vars = ..., name: str | None = None, priority: int = 0, group: Group | None = None, **kwargs: Any) -> Future[T]: ...

    def wait(self, var: Var | NDArray, timeout: float | None = None) -> bool: ...


def default_engine() -> Engine:
    """The process's engine, made at first use."""

def current_engine() -> Engine:
    """The engine that new arrays of this thread belong to."""

def is_capturing() -> bool: ...

def _shut_down() -> None: ...

class NDArray:
    """
    An n-dimensional array whose values the engine computes. Every call returns at once; wait(), item(), numpy() and printing block until the values are there.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""

    @property
    def dtype(self) -> DType: ...

    @property
    def device(self) -> Device: ...

    @property
    def ndim(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def is_contiguous(self) -> bool: ...

    @property
    def T(self) -> NDArray:
        """The axes reversed; a view."""

    @property
    def mT(self) -> NDArray:
        """The last two axes exchanged; a view."""

    @property
    def var(self) -> Var:
        """What the engine orders ops on this array by."""

    @property
    def engine(self) -> Engine: ...

    @property
    def requires_grad(self) -> bool:
        """Whether backward() accumulates a gradient here or passes one on."""

    @requires_grad.setter
    def requires_grad(self, value: bool, /) -> None: ...

    @property
    def grad(self) -> NDArray | RowSparse | None:
        """The accumulated gradient."""

    @grad.setter
    def grad(self, value: None, /) -> None: ...

    def clear_grad(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        """
        Blocks until the values are computed; raises an error of the ops that computed them.
        """

    def item(self, *index: int | tuple[int, ...]) -> int | float | bool:
        """
        The value of an array with one element, or of the element with this index; one int counts in the flattened array.
        """

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def backward(self, seed: NDArray | None = None, keep_tape: bool = False, create_graph: bool = False) -> None:
        """
        Adds the gradient of this array to that of every leaf that it was computed from. With create_graph gradients can be computed with and have gradients; clear_grad() ends their hold on what they came from.
        """

    def copy(self) -> NDArray:
        """A new contiguous array."""

    def __copy__(self) -> NDArray: ...

    def __deepcopy__(self, memo: Any) -> NDArray: ...

    def detach(self) -> NDArray:
        """The same data, outside any tape."""

    def contiguous(self) -> NDArray: ...

    def astype(self, dtype: DTypeLike, copy: bool = True) -> NDArray:
        """
        A copy of another dtype; copy=False: the array itself if it has that dtype.
        """

    def to(self, device: DeviceLike) -> NDArray:
        """This array, or a copy on another device."""

    def to_device(self, device: DeviceLike, /, *, stream: Any = None) -> NDArray:
        """to(), by the name of the array API standard."""

    def fill(self, value: float) -> None: ...

    def reshape(self, *shape: int | Sequence[int]) -> NDArray: ...

    def transpose(self, *axes: int | Sequence[int]) -> NDArray: ...

    def argmax(self, axis: int | None = None) -> NDArray: ...

    def argmin(self, axis: int | None = None) -> NDArray: ...

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: DTypeLike | None = None, out: NDArray | None = None) -> NDArray: ...

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: DTypeLike | None = None, out: NDArray | None = None) -> NDArray: ...

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: DTypeLike | None = None, out: NDArray | None = None) -> NDArray: ...

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, dtype: DTypeLike | None = None, out: NDArray | None = None) -> NDArray: ...

    def numpy(self, copy: bool = False) -> NumpyArray:
        """
        Waits, and gives the array's memory as a NumPy array, without a copy unless asked for. Ops that are pushed later do not wait for what NumPy does with it.
        """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumpyArray: ...

    def tolist(self) -> Any: ...

    def __reduce__(self) -> tuple[Any, ...]: ...

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any: ...

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

    def order_before(self, stream: int) -> None:
        """
        What a CUDA stream of another library gets from now on runs after all ops so far on this array of a GPU.
        """

    def order_after(self, stream: int) -> None:
        """
        Later ops on this array of a GPU run after what a CUDA stream of another library has now.
        """

    def __dlpack_device__(self) -> tuple[int, int]: ...

    __array_ufunc__: None = None

    def __add__(self, other: Operand, /) -> NDArray: ...

    def __radd__(self, other: Operand, /) -> NDArray: ...

    def __sub__(self, other: Operand, /) -> NDArray: ...

    def __rsub__(self, other: Operand, /) -> NDArray: ...

    def __mul__(self, other: Operand, /) -> NDArray: ...

    def __rmul__(self, other: Operand, /) -> NDArray: ...

    def __truediv__(self, other: Operand, /) -> NDArray: ...

    def __rtruediv__(self, other: Operand, /) -> NDArray: ...

    def __floordiv__(self, other: Operand, /) -> NDArray: ...

    def __rfloordiv__(self, other: Operand, /) -> NDArray: ...

    def __mod__(self, other: Operand, /) -> NDArray: ...

    def __rmod__(self, other: Operand, /) -> NDArray: ...

    def __pow__(self, other: Operand, /) -> NDArray: ...

    def __rpow__(self, other: Operand, /) -> NDArray: ...

    def __matmul__(self, other: Operand, /) -> NDArray: ...

    def __rmatmul__(self, other: Operand, /) -> NDArray: ...

    def __and__(self, other: Operand, /) -> NDArray: ...

    def __rand__(self, other: Operand, /) -> NDArray: ...

    def __or__(self, other: Operand, /) -> NDArray: ...

    def __ror__(self, other: Operand, /) -> NDArray: ...

    def __xor__(self, other: Operand, /) -> NDArray: ...

    def __rxor__(self, other: Operand, /) -> NDArray: ...

    def __lshift__(self, other: Operand, /) -> NDArray: ...

    def __rlshift__(self, other: Operand, /) -> NDArray: ...

    def __rshift__(self, other: Operand, /) -> NDArray: ...

    def __rrshift__(self, other: Operand, /) -> NDArray: ...

    def __iadd__(self, other: Operand, /) -> NDArray: ...

    def __isub__(self, other: Operand, /) -> NDArray: ...

    def __imul__(self, other: Operand, /) -> NDArray: ...

    def __itruediv__(self, other: Operand, /) -> NDArray: ...

    def __ifloordiv__(self, other: Operand, /) -> NDArray: ...

    def __imod__(self, other: Operand, /) -> NDArray: ...

    def __ipow__(self, other: Operand, /) -> NDArray: ...

    def __iand__(self, other: Operand, /) -> NDArray: ...

    def __ior__(self, other: Operand, /) -> NDArray: ...

    def __ixor__(self, other: Operand, /) -> NDArray: ...

    def __ilshift__(self, other: Operand, /) -> NDArray: ...

    def __irshift__(self, other: Operand, /) -> NDArray: ...

    def __lt__(self, other: Operand, /) -> NDArray: ...

    def __le__(self, other: Operand, /) -> NDArray: ...

    def __gt__(self, other: Operand, /) -> NDArray: ...

    def __ge__(self, other: Operand, /) -> NDArray: ...

    def __eq__(self, other: object, /) -> NDArray: ...  # type: ignore[override]

    def __ne__(self, other: object, /) -> NDArray: ...  # type: ignore[override]

    def __neg__(self) -> NDArray: ...

    def __pos__(self) -> NDArray: ...

    def __abs__(self) -> NDArray: ...

    def __invert__(self) -> NDArray: ...

    def __bool__(self) -> bool: ...

    def __float__(self) -> float: ...

    def __int__(self) -> int: ...

    def __index__(self) -> int: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[NDArray]: ...

    def __getitem__(self, key: Any, /) -> NDArray: ...

    def __setitem__(self, key: Any, value: Operand | Sequence[Any], /) -> None: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...

    def __await__(self) -> _Generator[Any, None, NDArray]: ...

    def __array_namespace__(self, *, api_version: str | None = None) -> Any: ...

    def __round__(self, ndigits: int | None = None) -> Any: ...

    def __format__(self, spec: str, /) -> str: ...

    __hash__: None  # type: ignore[assignment]

    def std(self, axis: int | Sequence[int] | None = None, dtype: Any = None, out: NDArray | None = None, ddof: int = 0, keepdims: bool = False) -> NDArray:
        """The standard deviation; ddof: what is taken from the number of elements before it divides."""

    def prod(self, axis: int | Sequence[int] | None = None, dtype: Any = None, out: NDArray | None = None, keepdims: bool = False) -> NDArray:
        """The product."""

    def any(self, axis: int | Sequence[int] | None = None, out: NDArray | None = None, keepdims: bool = False) -> NDArray:
        """Whether any element is not 0."""

    def all(self, axis: int | Sequence[int] | None = None, out: NDArray | None = None, keepdims: bool = False) -> NDArray:
        """Whether every element is not 0."""

    def ravel(self) -> NDArray:
        """One axis; a view where that is possible."""

    def flatten(self) -> NDArray:
        """One axis, always a copy. heddle.flatten(x), for layers, keeps the first axis."""

    def cumsum(self, axis: int | None = None, dtype: Any = None, out: NDArray | None = None) -> NDArray:
        """Sums up to each element; None: of the flattened array."""

    def cumprod(self, axis: int | None = None, dtype: Any = None, out: NDArray | None = None) -> NDArray:
        """Products up to each element; None: of the flattened array."""

    def squeeze(self, axis: int | Sequence[int] | None = None) -> NDArray:
        """A view without these axes, which have size 1; None: without all such."""

    def swapaxes(self, axis1: int, axis2: int) -> NDArray:
        """A view with two axes exchanged."""

    def clip(self, min: Any = None, max: Any = None, out: NDArray | None = None) -> NDArray:
        """min where x < min, max where x > max; None: no bound."""

    def round(self, decimals: int = 0, out: NDArray | None = None) -> NDArray:
        """Rounded to so many digits behind the point; of a half, to the even one."""

    def dot(self, b: ArrayLike, out: NDArray | None = None) -> NDArray:
        """The sum over the last axis of x and the last but one of b, or its only one."""

    def argsort(self, axis: int | None = -1) -> NDArray:
        """Where the elements of the sorted array stand; None: of the flattened array."""

    def sort(self, axis: int = -1) -> None:
        """Sorts in place, as NumPy's method does. heddle.sort(x) returns a sorted array."""


class RowSparse:
    """Some rows of a large array; the others are 0."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def rows(self) -> NDArray: ...

    @property
    def values(self) -> NDArray: ...

    @property
    def count(self) -> NDArray: ...

def from_dlpack(x: Any, copy: bool | None = None, device: DeviceLike | None = None) -> NDArray:
    """
    An array on the memory of another library's array, without a copy. Read-only memory is copied, unless copy is False. The memory of an array of this package keeps its var.
    """

def array(object: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> NDArray:
    """
    A new array with the values of a number, nested lists, a NumPy array or an array. Floats of Python become f32.
    """

def asarray(object: Any, dtype: DTypeLike | None = None) -> NDArray:
    """
    The array itself if it is one of that dtype, else array(object, dtype).
    """

def empty(shape: int | Sequence[int], dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> NDArray:
    """An array of undetermined values."""

def _rebuild(*args: Any) -> NDArray: ...

class Generator:
    """A seed and how many random numbers have been drawn."""

    def __init__(self, seed: int = 0) -> None: ...

    @property
    def seed(self) -> int: ...

    @property
    def position(self) -> int:
        """Save it and the seed to resume."""

    @position.setter
    def position(self, value: int, /) -> None: ...

    def split(self, parts: int) -> list[Generator]:
        """
        Generators with seeds of their own, which follow from this one's seed and position; the next split gives others.
        """

    def jumped(self, times: int = 1) -> Generator:
        """
        A copy that is times * 2**40 blocks further on: one for each rank of a job. jumped(0) is a copy.
        """

def manual_seed(seed: int) -> None:
    """Reseeds this thread's generator."""

_operators: list[str] = ...

def _operator_table() -> list[Any]: ...

def _grad(outputs: list[NDArray], inputs: list[NDArray], seeds: list[NDArray], keep_tape: bool, create_graph: bool, allow_unused: bool) -> list[NDArray | None]: ...

def _recompute(function: Callable[[list[NDArray]], list[NDArray]], inputs: list[NDArray]) -> list[NDArray]: ...

def on_gradient(array: NDArray, hook: Callable[[NDArray], NDArray | None]) -> None:
    """
    Calls hook(gradient) with the complete gradient of a leaf, or of an array computed from one, in every pass to come; what it returns takes the gradient's place, None leaves it. The array keeps the hook: a hook that refers to the array, other than by weakref, keeps both for ever, since Python's collector does not see through arrays.
    """

def save_for_backward(array: NDArray) -> NDArray:
    """
    The array for the gradient of an operator of your own to use, detached; second gradients depend on it.
    """

def record(name: str, output: NDArray, inputs: Sequence[NDArray], gradient: Callable[[NDArray], NDArray | Sequence[NDArray | None]], saved: Sequence[NDArray] = ()) -> NDArray:
    """
    Puts an operator of your own on the tape: output was computed from inputs in no_grad(), gradient(g) gives a gradient for each input, saved are the arrays that it uses. Returns output.
    """

class autocast:
    """
    In the block, products of f32 arrays that this thread computes are of bf16 or f16, with sums in f32; parameters and their gradients stay f32.
    """

    def __init__(self, dtype: DTypeLike = 'bf16') -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...

class no_grad:
    """In the block, operators of this thread record nothing for backward()."""

    def __init__(self) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...

    def __call__[**P, T](self, function: Callable[P, T], /) -> Callable[P, T]: ...


class find_nan:
    """
    In the block, backward() and grad() of this thread raise Error where the first gradient with NaN was computed, and name the operator and the line of its call.
    """

    def __init__(self) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...

class Metric:
    """
    A number about predictions, accumulated over batches: update() never waits, value() does. Thread-safe.
    """

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Adds a batch: the arrays that the class names."""

    def value(self) -> float:
        """The metric of all batches, for one with a single number."""

    def result(self) -> NDArray:
        """The metric of all batches, without waiting for it."""

    def state(self) -> NDArray:
        """
        What is known of all batches, the live array: all_reduce() sums those of several ranks.
        """

    def merge(self, state: NDArray) -> None:
        """Adds the batches of another metric's state."""

    def reset(self) -> None:
        """Forgets all batches, and errors."""

    def __repr__(self) -> str: ...

class Accuracy(Metric):
    """
    The part of the predictions that are right: scores (..., C), classes, or binary ones above `threshold`.

    update(predictions, labels)
    """

    def __init__(self, threshold: float = 0.5, ignore: int = -1, classes: int | None = None) -> None: ...


class TopKAccuracy(Metric):
    """
    The part of the labels that are among the `k` classes with the largest scores (..., C).

    update(scores, labels)
    """

    def __init__(self, k: int = 5, ignore: int = -1) -> None: ...


class ConfusionMatrix(Metric):
    """
    How often each label (row) was predicted as each class (column): (C, C); with `normalize` the sums of rows, of columns, or of all are 1.

    update(predictions, labels)
    """

    def __init__(self, normalize: Literal['none', 'labels', 'predictions', 'all'] = 'none', threshold: float = 0.5, ignore: int = -1, classes: int | None = None) -> None: ...


class Precision(Metric):
    """
    The part of what was predicted that is right: the mean over the classes that occur, over all predictions, or of each class.

    update(predictions, labels)
    """

    def __init__(self, average: Literal['macro', 'micro', 'none'] = 'macro', threshold: float = 0.5, ignore: int = -1, classes: int | None = None) -> None: ...


class Recall(Metric):
    """
    The part of the labels that was found, averaged as Precision.

    update(predictions, labels)
    """

    def __init__(self, average: Literal['macro', 'micro', 'none'] = 'macro', threshold: float = 0.5, ignore: int = -1, classes: int | None = None) -> None: ...


class F1(Metric):
    """
    The harmonic mean of precision and recall, averaged as Precision.

    update(predictions, labels)
    """

    def __init__(self, average: Literal['macro', 'micro', 'none'] = 'macro', threshold: float = 0.5, ignore: int = -1, classes: int | None = None) -> None: ...


class EditDistance(Metric):
    """
    The edits that turn rows of integers into those of the targets, divided by the number of the targets' elements: a word or character error rate. Rows end at their length, or before the first negative number.

    update(predictions, targets, prediction_lengths=None, target_lengths=None)
    """

    def __init__(self, normalize: bool = True) -> None: ...


class Auc(Metric):
    """
    The area under the ROC curve of scores and labels 0 and 1, with ties: exact from all scores, or of scores in [0, 1] in so many bins.

    update(scores, labels)
    """

    def __init__(self, bins: int = 0) -> None: ...


class MeanMetric(Metric):
    """
    The mean of all elements, weighted if there are weights: of losses, by the sizes of their batches.

    update(values, weights=None)
    """

    def __init__(self) -> None: ...


class Perplexity(Metric):
    """
    exp of the mean cross entropy of logits (..., C) and labels (...), or of a mean cross entropy and the number of labels that it is the mean of.

    update(logits, labels=None)
    """

    def __init__(self, ignore: int = -1) -> None: ...


class MeanSquaredError(Metric):
    """
    The mean of (y - target)^2 over all elements; with `root` its root.

    update(y, target)
    """

    def __init__(self, root: bool = False) -> None: ...


class R2(Metric):
    """
    The coefficient of determination of (N), or the mean of those of the columns of (N, D). NaN if targets spread less than a millionth of their mean, which sums in f64 do not show.

    update(y, target)
    """

    def __init__(self) -> None: ...


def _metric_table() -> list[Any]: ...

class Parameter:
    """A name and an array."""

    def __init__(self, name: str, value: NDArray) -> None: ...

    @property
    def name(self) -> str: ...

    @property
    def value(self) -> NDArray: ...

class Module:
    """
    A function on arrays with parameters, buffers and modules inside. Classes in Python define forward(). A module, or an array that requires a gradient, is registered under its name by being assigned to an attribute.
    """

    def __init__(self) -> None: ...

    def __setattr__(self, name: str, value: Any, /) -> None: ...

    def __delattr__(self, name: str, /) -> None: ...

    def child(self, name: str, module: Module) -> Module:
        """Registers a module, and returns it."""

    def parameter(self, name: str, value: NDArray) -> NDArray:
        """
        Registers an array that is trained, whose requires_grad is set, and returns it.
        """

    def buffer(self, name: str, value: NDArray, saved: bool = True) -> NDArray:
        """
        Registers an array that forward() changes, and returns it. With saved, state() has it.
        """

    def parameters(self) -> list[Parameter]:
        """What is trained: all parameters but frozen ones."""

    def state(self) -> list[Parameter]:
        """All parameters and saved buffers: what a checkpoint has to hold."""

    def children(self) -> dict[str, Module]: ...

    def train(self, on: bool = True) -> None:
        """Training or inference; training at first."""

    @property
    def training(self) -> bool: ...

    def freeze(self, on: bool = True) -> None:
        """
        Parameters require no gradient from then on. Make the trainer afterwards.
        """

    def to(self, device: DeviceLike) -> Module:
        """
        Moves parameters, buffers and gradients to a device, with all arrays that share their memory.
        Make the trainer afterwards.
        """

    def autocast(self, dtype: DTypeLike | None = 'bf16') -> Module:
        """
        Calls of this module compute products in bf16 or f16, and return f32; f32: not, whatever is around; None: as around them. Returns the module.
        """

    @property
    def autocast_dtype(self) -> DType | None: ...

    def __repr__(self) -> str: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """
        What forward() returns; of a layer with several results the first, of a Model all.
        """

    def run(self, *args: Any, **kwargs: Any) -> tuple[NDArray, ...]:
        """All results of a call."""

    def before_call(self, hook: Callable[[Module, tuple[NDArray, ...]], None]) -> HookHandle:
        """
        Calls hook(module, inputs) before each call. A module that was made by load_model, or by another language, has its parameters and children for the hook, and cannot be called.
        """

    def after_call(self, hook: Callable[[Module, tuple[NDArray, ...], tuple[NDArray, ...]], Any]) -> HookHandle:
        """
        Calls hook(module, inputs, outputs) after each call. What it returns, if not None, replaces the outputs.
        """

    def summary(self, *inputs: ArrayLike | tuple[int, ...]) -> ModuleSummary:
        """
        Calls the module once, in inference, and says what each module in it holds, computes and costs. An input is an array, or the shape of one of zeros.
        """

    def to_svg(self, *inputs: ArrayLike | tuple[int, ...]) -> str:
        """
        A picture of the layers and operators: a box for each with its output's shape and parameters. With inputs the module is called once, in inference, for its shapes.
        """

    def svg(self, path: str | os.PathLike[str], *inputs: ArrayLike | tuple[int, ...]) -> None:
        """Writes to_svg() to a file."""

def _step_memory(net: Module, state: Callable[[], dict[str, NDArray]], step: Callable[[], Any]) -> tuple[Any, ...]: ...

class ModuleRow:
    """A line of a summary: numbers of one module and of those inside it."""

    @property
    def path(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def calls(self) -> int: ...

    @property
    def outputs(self) -> list[tuple[int, ...]]:
        """Shapes of the last call's results."""

    @property
    def parameters(self) -> int: ...

    @property
    def trained(self) -> int: ...

    @property
    def multiply_adds(self) -> int: ...

    @property
    def state_bytes(self) -> int: ...

    @property
    def output_bytes(self) -> int: ...

class ModuleSummary:
    """What a module holds, computes and costs; printed, a table."""

    @property
    def rows(self) -> list[ModuleRow]: ...

    def __repr__(self) -> str: ...

class HookHandle:
    """Names a hook of a module."""

    def remove(self) -> None:
        """The hook is not called again."""

class Sequential(Module):
    """Modules one after the other."""

    def __init__(self, *modules: Module) -> None: ...

    def add(self, module: Module) -> None: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Module: ...

class Symbol:
    """
    Stands for an array that a Model will compute. Layers, operators of heddle and infix operators take it; its methods are operators too.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an example, in which a size that is not known is 2."""

    @property
    def dtype(self) -> DType: ...

    @property
    def ndim(self) -> int: ...

    @property
    def T(self) -> Symbol: ...

    def __abs__(self) -> Symbol: ...

    def __bool__(self) -> bool: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __hash__(self) -> int: ...

    def __getattr__(self, name: str, /) -> Any: ...

    def __repr__(self) -> str: ...

    def __add__(self, other: Any, /) -> Symbol: ...

    def __radd__(self, other: Any, /) -> Symbol: ...

    def __sub__(self, other: Any, /) -> Symbol: ...

    def __rsub__(self, other: Any, /) -> Symbol: ...

    def __mul__(self, other: Any, /) -> Symbol: ...

    def __rmul__(self, other: Any, /) -> Symbol: ...

    def __truediv__(self, other: Any, /) -> Symbol: ...

    def __rtruediv__(self, other: Any, /) -> Symbol: ...

    def __pow__(self, other: Any, /) -> Symbol: ...

    def __rpow__(self, other: Any, /) -> Symbol: ...

    def __matmul__(self, other: Any, /) -> Symbol: ...

    def __rmatmul__(self, other: Any, /) -> Symbol: ...

    def __floordiv__(self, other: Any, /) -> Symbol: ...

    def __rfloordiv__(self, other: Any, /) -> Symbol: ...

    def __mod__(self, other: Any, /) -> Symbol: ...

    def __rmod__(self, other: Any, /) -> Symbol: ...

    def __eq__(self, other: Any, /) -> Symbol: ...  # type: ignore[override]

    def __ne__(self, other: Any, /) -> Symbol: ...  # type: ignore[override]

    def __lt__(self, other: Any, /) -> Symbol: ...

    def __le__(self, other: Any, /) -> Symbol: ...

    def __gt__(self, other: Any, /) -> Symbol: ...

    def __ge__(self, other: Any, /) -> Symbol: ...

    def __neg__(self) -> Symbol: ...

    __array_ufunc__: None = None

def Input(shape: Sequence[int | None], name: str = 'x', dtype: DTypeLike = 'f32') -> Symbol:
    """An input of a Model. A size that is None may differ from call to call."""

class Model(Module):
    """
    Computes symbols of inputs: a module made of layers and operators, without a class of its own.
    """

    def __init__(self, inputs: Symbol | Sequence[Symbol], outputs: Symbol | Sequence[Symbol]) -> None: ...

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs, in the order of arguments."""

def save_model(path: str | os.PathLike[str], module: Module) -> None:
    """
    Writes a layer, a Sequential or a Model with all its state to one file, which load_model makes again.
    """

def load_model(path: str | os.PathLike[str]) -> Module:
    """The module that save_model wrote, made anew without its code."""

class Relu(Module):
    """max(x, 0)."""

    def __init__(self) -> None: ...


class Tanh(Module):
    """The hyperbolic tangent."""

    def __init__(self) -> None: ...


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def __init__(self) -> None: ...


class Gelu(Module):
    """
    x times the distribution function of the normal distribution (Hendrycks and Gimpel, arXiv:1606.08415).
    """

    def __init__(self) -> None: ...


class GeluTanh(Module):
    """
    The approximation of gelu by tanh, with which GPT-2 and BERT were trained.
    """

    def __init__(self) -> None: ...


class Silu(Module):
    """
    x * sigmoid(x), also called swish (Ramachandran et al., arXiv:1710.05941).
    """

    def __init__(self) -> None: ...


class Mish(Module):
    """x * tanh(log(1 + exp(x))) (Misra, BMVC'20)."""

    def __init__(self) -> None: ...


class Selu(Module):
    """
    The activation of self-normalising networks (Klambauer et al., NIPS'17).
    """

    def __init__(self) -> None: ...


class Softsign(Module):
    """x / (1 + |x|)."""

    def __init__(self) -> None: ...


class LogSigmoid(Module):
    """log(sigmoid(x)), exact for large negative x."""

    def __init__(self) -> None: ...


class Relu6(Module):
    """x between 0 and 6."""

    def __init__(self) -> None: ...


class HardTanh(Module):
    """x between -1 and 1."""

    def __init__(self) -> None: ...


class HardSigmoid(Module):
    """x / 6 + 1/2 between 0 and 1."""

    def __init__(self) -> None: ...


class HardSwish(Module):
    """x * hard_sigmoid(x) (Howard et al., ICCV'19)."""

    def __init__(self) -> None: ...


class TanhShrink(Module):
    """x - tanh(x), near 0 by its series."""

    def __init__(self) -> None: ...


class LeakyRelu(Module):
    """x, or `slope` times x where it is negative."""

    def __init__(self, slope: float = 0.01) -> None: ...


class Elu(Module):
    """
    x, or `alpha` * (exp(x) - 1) where it is negative (Clevert et al., ICLR'16).
    """

    def __init__(self, alpha: float = 1.0) -> None: ...


class Celu(Module):
    """
    As elu, with a continuous derivative for any `alpha` (Barron, arXiv:1704.07483).
    """

    def __init__(self, alpha: float = 1.0) -> None: ...


class Softplus(Module):
    """log(1 + exp(`beta` x)) / `beta`, a smooth relu."""

    def __init__(self, beta: float = 1.0) -> None: ...


class HardShrink(Module):
    """x, or 0 where it is within +-`limit`."""

    def __init__(self, limit: float = 0.5) -> None: ...


class SoftShrink(Module):
    """x moved by `limit` towards 0, or 0 where it is within +-`limit`."""

    def __init__(self, limit: float = 0.5) -> None: ...


class MultiHeadAttention(Module):
    """
    Attention of x to itself or to a memory. Its `projected` rows of queries, keys and values are features + 2 * kv_heads * features / heads; kv_heads None: heads. Inside is out_proj, Dense(features, features). `dropout` is that of weights, drawn from the calling thread's generator; `generator` draws initial values alone.

    (batch, length, features) -> (batch, length, features)
    """

    def decode(self, x: ArrayLike, cache: AttentionCache, memory: ArrayLike | None = None) -> NDArray:
        """
        What a call with the whole sequence so far gives for its last tokens, x, which are added to the cache. Needs a causal layer.
        """

    def __init__(self, features: int, heads: int, kv_heads: int | None = None, bias: bool = True, causal: bool = False, rotary: bool = False, dropout: float = 0.0, init: Literal['he', 'xavier'] = 'xavier', device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class SinusoidalPositions(Module):
    """
    Adds sines and cosines of positions: sin(p / base^(2 i / features)) to feature 2 i, the cosine to 2 i + 1.

    (batch..., length, features) -> (batch..., length, features)
    """

    def __init__(self, base: float = 10000.0) -> None: ...


class LearnedPositions(Module):
    """
    Adds the first rows of the weight, one for each step.

    (batch..., steps, features) -> (batch..., steps, features)
    """

    def __init__(self, length: int, features: int, stddev: float = 0.02, device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class TransformerBlock(Module):
    """
    x plus its attention to itself, plus that to a memory if there is one, plus two linear maps with an activation between them. feed_forward, the features between the maps, is 4 * features for None. Inside are self_attn, multihead_attn (with `memory`), linear1, linear2, norm1, norm2 and norm3 (with `memory`). `generator` draws initial values alone; dropout draws from the calling thread's generator.

    (batch, length, features) -> (batch, length, features)
    """

    def decode(self, x: ArrayLike, cache: AttentionCache, memory: ArrayLike | None = None) -> NDArray:
        """
        What a call with the whole sequence so far gives for its last tokens, x, which are added to the cache. Needs a causal layer.
        """

    def __init__(self, features: int, heads: int, feed_forward: int | None = None, kv_heads: int | None = None, causal: bool = False, rotary: bool = False, memory: bool = False, norm_first: bool = True, rms_norm: bool = False, activation: Literal['gelu', 'gelu_tanh', 'relu', 'silu'] = 'gelu', dropout: float = 0.0, bias: bool = True, init: Literal['he', 'xavier'] = 'xavier', device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class QuantizedDense(Module):
    """
    x @ weight.T + bias in 8-bit integers; quantize() makes it.

    (batch..., in_features) -> (batch..., out_features)
    """

    def __init__(self, in_features: int | None, out_features: int, bias: bool = True, relu: bool = False, device: DeviceLike | None = None) -> None: ...


class QuantizedConv1d(Module):
    """
    Convolves sequences in 8-bit integers; quantize() makes it.

    (batch, in_channels, length) -> (batch, out_channels, length')
    """

    def __init__(self, in_channels: int | None, out_channels: int, kernel: int | Sequence[int], stride: int | Sequence[int] = 1, padding: int | Sequence[int] | Literal['same', 'valid'] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, relu: bool = False, device: DeviceLike | None = None) -> None: ...


class QuantizedConv2d(Module):
    """
    Convolves images in 8-bit integers; quantize() makes it.

    (batch, in_channels, height, width) -> (batch, out_channels, height', width')
    """

    def __init__(self, in_channels: int | None, out_channels: int, kernel: int | Sequence[int], stride: int | Sequence[int] = 1, padding: int | Sequence[int] | Literal['same', 'valid'] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, relu: bool = False, device: DeviceLike | None = None) -> None: ...


class QuantizedConv3d(Module):
    """
    Convolves volumes in 8-bit integers; quantize() makes it.

    (batch, in_channels, depth, height, width) -> (batch, out_channels, depth', height', width')
    """

    def __init__(self, in_channels: int | None, out_channels: int, kernel: int | Sequence[int], stride: int | Sequence[int] = 1, padding: int | Sequence[int] | Literal['same', 'valid'] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, relu: bool = False, device: DeviceLike | None = None) -> None: ...


class Conv1d(Module):
    """
    Convolves sequences: each result is a weighted sum of a window.

    (batch, in_channels, length) -> (batch, out_channels, length')
    """

    def __init__(self, in_channels: int | None, out_channels: int, kernel: int | Sequence[int], stride: int | Sequence[int] = 1, padding: int | Sequence[int] | Literal['same', 'valid'] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, relu: bool = False, init: Literal['he', 'xavier'] = 'he', device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class Conv2d(Module):
    """
    Convolves images: each result is a weighted sum of a window.

    (batch, in_channels, height, width) -> (batch, out_channels, height', width')
    """

    def __init__(self, in_channels: int | None, out_channels: int, kernel: int | Sequence[int], stride: int | Sequence[int] = 1, padding: int | Sequence[int] | Literal['same', 'valid'] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, relu: bool = False, init: Literal['he', 'xavier'] = 'he', device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class Conv3d(Module):
    """
    Convolves volumes: each result is a weighted sum of a window.

    (batch, in_channels, depth, height, width) -> (batch, out_channels, depth', height', width')
    """

    def __init__(self, in_channels: int | None, out_channels: int, kernel: int | Sequence[int], stride: int | Sequence[int] = 1, padding: int | Sequence[int] | Literal['same', 'valid'] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, relu: bool = False, init: Literal['he', 'xavier'] = 'he', device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class ConvTranspose1d(Module):
    """
    Adds a weighted window to its result for each element of sequences; also called deconvolution.

    (batch, in_channels, length) -> (batch, out_channels, length')
    """

    def __init__(self, in_channels: int | None, out_channels: int, kernel: int | Sequence[int], stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, init: Literal['he', 'xavier'] = 'he', device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class ConvTranspose2d(Module):
    """
    Adds a weighted window to its result for each element of images; also called deconvolution.

    (batch, in_channels, height, width) -> (batch, out_channels, height', width')
    """

    def __init__(self, in_channels: int | None, out_channels: int, kernel: int | Sequence[int], stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, init: Literal['he', 'xavier'] = 'he', device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class ConvTranspose3d(Module):
    """
    Adds a weighted window to its result for each element of volumes; also called deconvolution.

    (batch, in_channels, depth, height, width) -> (batch, out_channels, depth', height', width')
    """

    def __init__(self, in_channels: int | None, out_channels: int, kernel: int | Sequence[int], stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, bias: bool = True, init: Literal['he', 'xavier'] = 'he', device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class Dense(Module):
    """
    x @ weight.T + bias.

    (batch..., in_features) -> (batch..., out_features)
    """

    def __init__(self, in_features: int | None, out_features: int, bias: bool = True, relu: bool = False, init: Literal['he', 'xavier'] = 'he', device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class Embedding(Module):
    """
    Indices -> rows of the weight.

    (indices...) -> (indices..., features)
    """

    def __init__(self, rows: int, features: int, stddev: float = 1.0, sparse_grad: bool = False, padding_index: int | None = None, device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class EmbeddingBag(Module):
    """
    Bags of indices, (bags, length) or in one axis with offsets -> the sum, mean or maximum of the rows of each.

    (indices...) -> (bags, features)
    """

    def __init__(self, rows: int, features: int, mode: Literal['sum', 'mean', 'max'] = 'mean', stddev: float = 1.0, sparse_grad: bool = False, padding_index: int | None = None, device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class Flatten(Module):
    """
    Makes a row of each element of the batch.

    (batch, size, ...) -> (batch, size * ...)
    """

    def __init__(self) -> None: ...


class Dropout(Module):
    """In training zeroes each element with this probability."""

    def __init__(self, probability: float) -> None: ...


class ChannelDropout(Module):
    """
    In training zeroes each channel with this probability.

    (batch, channels, ...) -> (batch, channels, ...)
    """

    def __init__(self, probability: float) -> None: ...


class Dropout1d(Module):
    """
    ChannelDropout of signals.

    (batch, channels, length) -> (batch, channels, length)
    """

    def __init__(self, probability: float) -> None: ...


class Dropout2d(Module):
    """
    ChannelDropout of images.

    (batch, channels, height, width) -> (batch, channels, height, width)
    """

    def __init__(self, probability: float) -> None: ...


class Dropout3d(Module):
    """
    ChannelDropout of volumes.

    (batch, channels, depth, height, width) -> (batch, channels, depth, height, width)
    """

    def __init__(self, probability: float) -> None: ...


class AlphaDropout(Module):
    """
    As Dropout, behind Selu: keeps the mean 0 and the variance 1 (Klambauer et al., NeurIPS'17).
    """

    def __init__(self, probability: float) -> None: ...


class FeatureAlphaDropout(Module):
    """
    AlphaDropout of whole channels.

    (batch, channels, ...) -> (batch, channels, ...)
    """

    def __init__(self, probability: float) -> None: ...


class GaussianDropout(Module):
    """
    In training multiplies by normal numbers around 1, as varied as those of Dropout.
    """

    def __init__(self, probability: float) -> None: ...


class GaussianNoise(Module):
    """In training adds normal numbers around 0 with this standard deviation."""

    def __init__(self, stddev: float) -> None: ...


class MaxPool1d(Module):
    """
    The largest of each window; stride 0 means kernel.

    (batch, channels, length) -> (batch, channels, length')
    """

    def __init__(self, kernel: int | Sequence[int], stride: int | Sequence[int] = 0, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> None: ...


class AvgPool1d(Module):
    """
    The mean of each window; stride 0 means kernel.

    (batch, channels, length) -> (batch, channels, length')
    """

    def __init__(self, kernel: int | Sequence[int], stride: int | Sequence[int] = 0, padding: int | Sequence[int] = 0, count_include_pad: bool = True, ceil_mode: bool = False) -> None: ...


class MaxPool2d(Module):
    """
    The largest of each window; stride 0 means kernel.

    (batch, channels, height, width) -> (batch, channels, height', width')
    """

    def __init__(self, kernel: int | Sequence[int], stride: int | Sequence[int] = 0, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> None: ...


class AvgPool2d(Module):
    """
    The mean of each window; stride 0 means kernel.

    (batch, channels, height, width) -> (batch, channels, height', width')
    """

    def __init__(self, kernel: int | Sequence[int], stride: int | Sequence[int] = 0, padding: int | Sequence[int] = 0, count_include_pad: bool = True, ceil_mode: bool = False) -> None: ...


class MaxPool3d(Module):
    """
    The largest of each window; stride 0 means kernel.

    (batch, channels, depth, height, width) -> (batch, channels, depth', height', width')
    """

    def __init__(self, kernel: int | Sequence[int], stride: int | Sequence[int] = 0, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> None: ...


class AvgPool3d(Module):
    """
    The mean of each window; stride 0 means kernel.

    (batch, channels, depth, height, width) -> (batch, channels, depth', height', width')
    """

    def __init__(self, kernel: int | Sequence[int], stride: int | Sequence[int] = 0, padding: int | Sequence[int] = 0, count_include_pad: bool = True, ceil_mode: bool = False) -> None: ...


class AdaptiveMaxPool1d(Module):
    """
    The largest of each of `output_size` windows, which cover the input.

    (batch, channels, length) -> (batch, channels, length')
    """

    def __init__(self, output_size: int | Sequence[int]) -> None: ...


class AdaptiveAvgPool1d(Module):
    """
    The mean of each of `output_size` windows, which cover the input.

    (batch, channels, length) -> (batch, channels, length')
    """

    def __init__(self, output_size: int | Sequence[int]) -> None: ...


class AdaptiveMaxPool2d(Module):
    """
    The largest of each of `output_size` windows, which cover the input.

    (batch, channels, height, width) -> (batch, channels, height', width')
    """

    def __init__(self, output_size: int | Sequence[int]) -> None: ...


class AdaptiveAvgPool2d(Module):
    """
    The mean of each of `output_size` windows, which cover the input.

    (batch, channels, height, width) -> (batch, channels, height', width')
    """

    def __init__(self, output_size: int | Sequence[int]) -> None: ...


class AdaptiveMaxPool3d(Module):
    """
    The largest of each of `output_size` windows, which cover the input.

    (batch, channels, depth, height, width) -> (batch, channels, depth', height', width')
    """

    def __init__(self, output_size: int | Sequence[int]) -> None: ...


class AdaptiveAvgPool3d(Module):
    """
    The mean of each of `output_size` windows, which cover the input.

    (batch, channels, depth, height, width) -> (batch, channels, depth', height', width')
    """

    def __init__(self, output_size: int | Sequence[int]) -> None: ...


class GlobalMaxPool(Module):
    """
    The largest element of each channel.

    (batch, channels, ...) -> (batch, channels)
    """

    def __init__(self) -> None: ...


class GlobalAvgPool(Module):
    """
    The mean of each channel.

    (batch, channels, ...) -> (batch, channels)
    """

    def __init__(self) -> None: ...


class Upsample(Module):
    """
    Resamples the axes behind the channels to `size` or by `scale`, by 2 if both are None.

    (batch, channels, ...) -> (batch, channels, ...)
    """

    def __init__(self, size: int | Sequence[int] | None = None, scale: float | None = None, mode: Literal['nearest', 'nearest-exact', 'linear', 'cubic', 'area'] = 'nearest', align_corners: bool = False) -> None: ...


class PixelShuffle(Module):
    """
    Makes blocks of factor x factor pixels of channels.

    (batch..., channels, height, width) -> (batch..., channels / factor^2, height * factor, width * factor)
    """

    def __init__(self, factor: int) -> None: ...


class PixelUnshuffle(Module):
    """
    Makes channels of blocks of factor x factor pixels.

    (batch..., channels, height, width) -> (batch..., channels * factor^2, height / factor, width / factor)
    """

    def __init__(self, factor: int) -> None: ...


class Identity(Module):
    """Returns x itself: a layer that does nothing."""

    def __init__(self) -> None: ...


class Unflatten(Module):
    """
    Splits an axis into axes of these sizes, of which one may be -1.

    (...) -> (..., sizes..., ...)
    """

    def __init__(self, axis: int, sizes: int | Sequence[int]) -> None: ...


class ZeroPad(Module):
    """
    Adds zeros around the axes behind the channels; `after` is as `before` if it is None.

    (batch, channels, ...) -> (batch, channels, ...)
    """

    def __init__(self, before: int | Sequence[int], after: int | Sequence[int] | None = None) -> None: ...


class ReflectionPad(Module):
    """
    As ZeroPad, with the array mirrored at its edge elements.

    (batch, channels, ...) -> (batch, channels, ...)
    """

    def __init__(self, before: int | Sequence[int], after: int | Sequence[int] | None = None) -> None: ...


class ReplicationPad(Module):
    """
    As ZeroPad, with the elements at the edge.

    (batch, channels, ...) -> (batch, channels, ...)
    """

    def __init__(self, before: int | Sequence[int], after: int | Sequence[int] | None = None) -> None: ...


class CircularPad(Module):
    """
    As ZeroPad, with the elements at the other end.

    (batch, channels, ...) -> (batch, channels, ...)
    """

    def __init__(self, before: int | Sequence[int], after: int | Sequence[int] | None = None) -> None: ...


class LayerNorm(Module):
    """
    Moves each row to mean 0 and scales it to variance 1, then weights it.

    (batch..., features) -> (batch..., features)
    """

    def __init__(self, features: int | None, epsilon: float = 1e-05, weight: bool = True, bias: bool = True, device: DeviceLike | None = None) -> None: ...


class RmsNorm(Module):
    """
    Scales each row to a mean square of 1, then weights it.

    (batch..., features) -> (batch..., features)
    """

    def __init__(self, features: int | None, epsilon: float = 1e-06, device: DeviceLike | None = None) -> None: ...


class GroupNorm(Module):
    """
    Normalises each group of channels of each element of the batch.

    (batch, channels, ...) -> (batch, channels, ...)
    """

    def __init__(self, groups: int, channels: int | None, epsilon: float = 1e-05, weight: bool = True, bias: bool = True, device: DeviceLike | None = None) -> None: ...


class InstanceNorm(Module):
    """
    Normalises each channel of each element of the batch.

    (batch, channels, ...) -> (batch, channels, ...)
    """

    def __init__(self, channels: int | None, epsilon: float = 1e-05, weight: bool = False, bias: bool = False, device: DeviceLike | None = None) -> None: ...


class BatchNorm(Module):
    """
    Normalises each channel over the batch, in inference by running statistics.

    (batch, channels, ...) -> (batch, channels, ...)
    """

    def __init__(self, channels: int | None, epsilon: float = 1e-05, momentum: float = 0.1, weight: bool = True, bias: bool = True, device: DeviceLike | None = None) -> None: ...


class Rnn(Module):
    """
    h = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh) for each step, or max(0, .) if `relu`.

    (batch, steps, input_size) -> (batch, steps, directions * hidden_size)
    """

    def __init__(self, input_size: int | None, hidden_size: int, layers: int = 1, relu: bool = False, bidirectional: bool = False, bias: bool = True, dropout: float = 0.0, batch_first: bool = True, last_only: bool = False, device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class Lstm(Module):
    """
    Long short-term memory: the operator lstm, in `layers` on top of each other.

    (batch, steps, input_size) -> (batch, steps, directions * state_size)
    """

    def __init__(self, input_size: int | None, hidden_size: int, layers: int = 1, bidirectional: bool = False, bias: bool = True, dropout: float = 0.0, batch_first: bool = True, last_only: bool = False, proj_size: int = 0, peepholes: bool = False, device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class Gru(Module):
    """
    Gated recurrent units: the operator gru, in `layers` on top of each other.

    (batch, steps, input_size) -> (batch, steps, directions * hidden_size)
    """

    def __init__(self, input_size: int | None, hidden_size: int, layers: int = 1, bidirectional: bool = False, bias: bool = True, dropout: float = 0.0, batch_first: bool = True, last_only: bool = False, reset_after: bool = True, device: DeviceLike | None = None, generator: Generator | None = None) -> None: ...


class AttentionCache:
    """
    The keys and values of the first tokens of sequences that are made token by token. For one layer, and one thread at a time.
    """

    def __init__(self) -> None: ...

    @property
    def key(self) -> NDArray | None:
        """(batch, kv_heads, capacity, features / heads)."""

    @property
    def value(self) -> NDArray | None: ...

    @property
    def length(self) -> int: ...

def _layer_table() -> list[Any]: ...

class SummaryWriter:
    """
    Writes numbers, histograms, pictures, texts and graphs of a run to a new file in a folder, for TensorBoard. Arrays are read by ops: no call waits for them but flush() and close(). Thread-safe.
    """

    def __init__(self, path: str | os.PathLike[str], suffix: str = '') -> None: ...

    def scalar(self, tag: str, value: ArrayLike | float, step: int) -> None:
        """A number, or the element of an array with one."""

    def histogram(self, tag: str, values: ArrayLike, step: int) -> None:
        """
        The distribution of an array's elements. NaN and infinities do not count.
        """

    def image(self, tag: str, image: ArrayLike, step: int, channels_last: bool = False) -> None:
        """
        A picture (H, W), (C, H, W) or, with channels_last, (H, W, C), with 1, 3 or 4 channels; several, with an axis in front, side by side. u8, or numbers from 0 to 1.
        """

    def text(self, tag: str, markdown: str, step: int) -> None: ...

    def hyperparameters(self, values: Mapping[str, bool | float | str], metrics: Sequence[str] = ...) -> None:
        """
        The arguments of this run, and the tags of scalars by which runs are compared. Once a run.
        """

    def graph(self, module: Module, *inputs: ArrayLike | tuple[int, ...]) -> None:
        """
        The layers and operators of a module, which is called once, in inference, if there are inputs.
        """

    def flush(self) -> None:
        """
        Waits until all records so far are in the file; raises the first error since the last flush().
        """

    def close(self) -> None:
        """flush(), then closes the file."""

    @property
    def path(self) -> str:
        """Of the file."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object | None, error: object | None, traceback: object | None, /) -> None: ...

class Communicator:
    """Ranks that call the same collectives in the same order."""

    def __init__(self, backend: str = '', algorithm: str = '', timeout: float = 0.0, reproducible: bool = False) -> None:
        """The ranks of the job that this process was launched in."""

    @staticmethod
    def local(size: int, algorithm: str = '', reproducible: bool = False) -> list[Communicator]:
        """
        Communicators of `size` ranks in this process, by rank, each to be used by a thread of its own.
        """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def backend(self) -> str: ...

    @property
    def var(self) -> Var: ...

    def shared_array(self, shape: int | Sequence[int], dtype: DTypeLike | None = None) -> NDArray:
        """
        An array in memory that all ranks on a host reduce without a copy; of undetermined values.
        """

    def flight_recorder(self) -> str:
        """The latest 1,024 calls, as text."""

    def split(self, colour: int, key: int = 0) -> Communicator:
        """
        Collective. A communicator of the ranks of one colour, ordered by key; None for a negative colour.
        """

    def abort(self, why: str) -> None: ...

    def shrink(self) -> Communicator:
        """
        Collective over the ranks that are alive: a communicator of these. Aborts this one.
        """

    def grow(self, size: int = 0, timeout: float = 0.0) -> Communicator:
        """
        Collective over the live processes and new ones, which make a Communicator(): one of `size` ranks, 0: as many as before. Aborts this one.
        """

    def all_reduce(self, array: NDArray, out: NDArray | None = None, op: str = 'sum') -> None:
        """Sets out, or the array itself, to the reduction over all ranks."""

    def reduce_scatter(self, array: NDArray, out: NDArray, op: str = 'sum') -> None:
        """Sets rank r's out to part r of the reduction."""

    def all_gather(self, array: NDArray, out: NDArray) -> None:
        """Sets part r of out to rank r's array."""

    def broadcast(self, array: NDArray, root: int) -> None:
        """In place."""

    def reduce(self, array: NDArray, root: int, op: str = 'sum') -> None:
        """In place, on root only."""

    def all_to_all(self, array: NDArray, out: NDArray) -> None:
        """Sends part r of the array to rank r."""

    def send(self, array: NDArray, to: int) -> None: ...

    def recv(self, array: NDArray, from_: int) -> None: ...

    def barrier(self) -> None: ...

    def wait(self) -> None:
        """Blocks until all calls so far have ended."""

class KVStore:
    """
    Keys to arrays: in this process, on all ranks, or on servers. Thread-safe.
    """

    def __init__(self, type: str = 'local', communicator: Communicator | None = None, compression: str = '', pull_compression: str = '', placement: str = '') -> None:
        """"local", "allreduce", "dist_sync", "dist_async" or "dist_ssp:S"."""

    @property
    def type(self) -> str: ...

    @property
    def rank(self) -> int: ...

    @property
    def workers(self) -> int: ...

    def init(self, key: int | str, value: NDArray) -> None:
        """Stores a copy."""

    def push(self, key: Keys, value: NDArray | Sequence[NDArray] | RowSparse, lr: float | None = None, grad_scale: float = 1.0) -> None:
        """
        The sum of the values replaces what is stored; with an optimizer it is a gradient, times grad_scale, that updates it. Without one lr and grad_scale have no effect. A list of keys has a list of one value each.
        """

    def pull(self, key: Keys, out: NDArray | Sequence[NDArray]) -> None:
        """
        Copies what is stored into out. A list of keys has a list of one array each.
        """

    def push_pull(self, key: Keys, value: NDArray | Sequence[NDArray], out: NDArray | Sequence[NDArray], lr: float | None = None, grad_scale: float = 1.0) -> None: ...

    def pull_rows(self, key: int | str, rows: NDArray) -> RowSparse: ...

    def assign(self, key: int | str, value: NDArray) -> None: ...

    def set_optimizer(self, name: str, **params: float) -> None:
        """All pushes from now on go through this optimizer."""

    def optimizer_state(self) -> dict[str, NDArray]:
        """For a checkpoint; empty without one."""

    def set_optimizer_state(self, state: Mapping[str, NDArray]) -> None: ...

    def residuals(self) -> dict[str, NDArray]:
        """
        What compression has left out of this worker's pushes; empty without compression.
        """

    def set_residuals(self, residuals: Mapping[str, NDArray]) -> None: ...

    def clear_errors(self) -> None: ...

    def barrier(self) -> None:
        """Blocks until all workers have called it."""

class Optimizer:
    """
    Keeps the state of any number of weights, each under a key. Thread-safe.
    """

    def __init__(self, name: str, **params: float) -> None:
        """
        By name, such as adamw (see optimizers()); params that differ from the defaults.
        """

    @property
    def name(self) -> str: ...

    @property
    def params(self) -> dict[str, float]: ...

    def update(self, key: int | str, weight: NDArray, grad: NDArray | RowSparse, lr: float | None = None, grad_scale: float = 1.0, decay_scale: float = 1.0) -> None:
        """Pushes one op that updates the weight in place."""

    def state(self) -> dict[str, NDArray]: ...

    def set_state(self, state: Mapping[str, NDArray]) -> None: ...

    def clear_errors(self) -> None:
        """
        To go on after an error: removes the poison of the state, a trainer's of its parameters too, and drops a trainer's gradients.
        """

def optimizers() -> dict[str, dict[str, float]]:
    """The names of all optimizers, with their parameters and defaults."""

class LossScaler:
    """
    Keeps small gradients of f16 above its smallest number: backward(scaler.scale(loss)), and Trainer(..., scaler=scaler). A step whose gradients have inf or NaN changes nothing.
    """

    def __init__(self, scale: float = 65536.0, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000) -> None: ...

    def scale(self, loss: NDArray) -> NDArray:
        """The loss times the scale, in f32."""

    def unscale(self, parameters: Sequence[Parameter]) -> None:
        """
        Divides the gradients by the scale, for clip_grad_norm() before Trainer.step().
        """

    @property
    def current(self) -> NDArray:
        """The scale."""

    @property
    def skipped(self) -> NDArray:
        """How many steps have changed nothing."""

    def state(self) -> dict[str, NDArray]: ...

    def set_state(self, state: Mapping[str, NDArray]) -> None: ...

    def clear_errors(self) -> None:
        """
        To go on after an error: removes the poison of the state, a trainer's of its parameters too, and drops a trainer's gradients.
        """

class CapturedStep:
    """
    A training step that Trainer.capture() has made. Called as the function, with arrays. Thread-safe: it has its trainer's lock.
    """

    def __call__(self, *batch: ArrayLike) -> Any:
        """
        Runs the step for a batch, and returns copies of what the function returns.
        """

    def reset(self) -> None:
        """
        Forgets all graphs: after a change, in what the function reads, that calls do not see.
        """

    @property
    def graphs(self) -> int: ...

    @property
    def captures(self) -> int: ...

class Trainer:
    """
    Parameters, an optimizer in a store, and a learning rate for every step. Thread-safe.
    """

    def __init__(self, parameters: Sequence[Parameter], optimizer: str = 'sgd', params: Mapping[str, float] = {}, schedule: object | None = None, store: KVStore | None = None, groups: Sequence[dict[str, Any]] = [], scaler: LossScaler | None = None) -> None: ...

    def step(self, grad_scale: float | NDArray = 1.0) -> None:
        """
        Updates every parameter by its gradient, and clears the gradients. A scale that is an array, one element of f32 or f64, is read when the updates run: in a captured step it may change from launch to launch.
        """

    def capture(self, step: Callable[..., Any]) -> CapturedStep:
        """
        A step that runs as a captured graph: step(*batch) computes a loss, and calls backward() and this trainer's step(). For each combination of shapes the first call runs it as it is, the second captures it, and later ones launch the graph without calling it.
        """

    @property
    def steps(self) -> int: ...

    @property
    def learning_rate(self) -> float:
        """Of the next step."""

    def state(self) -> dict[str, NDArray]: ...

    def set_state(self, state: Mapping[str, NDArray]) -> None: ...

    def clear_errors(self) -> None:
        """
        To go on after an error: removes the poison of the state, a trainer's of its parameters too, and drops a trainer's gradients.
        """

def constant_schedule(lr: float) -> Callable[[int], float]:
    """lr at every step."""

def step_schedule(lr: float, every: int, factor: float = 0.1) -> Callable[[int], float]:
    """Falls by `factor` each `every` steps."""

def cosine_schedule(lr: float, steps: int, final_lr: float = 0.0) -> Callable[[int], float]:
    """Half a cosine from lr to final_lr."""

def cosine_restarts_schedule(lr: float, steps: int, final_lr: float = 0.0, factor: float = 1.0) -> Callable[[int], float]:
    """
    Cosines that begin anew, each `factor` times as long as the one before.
    """

def polynomial_schedule(lr: float, steps: int, power: float = 1.0, final_lr: float = 0.0) -> Callable[[int], float]:
    """From lr to final_lr; power 1 is a line."""

def one_cycle_schedule(max_lr: float, steps: int, rise: float = 0.3, first_divisor: float = 25.0, last_divisor: float = 10000.0, linear: bool = False) -> Callable[[int], float]:
    """Up to max_lr and down to almost 0."""

def join_schedules(steps: int, first: object, rest: object) -> Callable[[int], float]:
    """`first` for `steps` steps, then `rest` from its step 0."""

def scale_schedule(schedule: object, factor: float) -> Callable[[int], float]:
    """The rates of `schedule` times `factor`."""

def warm_up(steps: int, schedule: object) -> Callable[[int], float]:
    """The first `steps` rates of `schedule` times (step + 1) / steps."""

def clip_grad_norm(parameters: Sequence[Parameter], max_norm: float, refuse_nonfinite: bool = False) -> NDArray:
    """
    Scales all gradients to a common 2-norm of max_norm at most; returns the norm before.
    """

def clip_grad_value(parameters: Sequence[Parameter], max_value: float) -> None:
    """Clips each element of the gradients into [-max_value, max_value]."""

class AverageWeights:
    """
    Moving averages of parameters; `with average:` computes with them. Thread-safe.
    """

    def __init__(self, parameters: Sequence[Parameter], decay: float = 0.999, warm_up: bool = False) -> None: ...

    def update(self) -> None:
        """average += (1 - decay) * (parameter - average): one op for all."""

    def swap(self) -> None:
        """Exchanges the values of parameters and averages."""

    @property
    def swapped(self) -> bool: ...

    def averages(self) -> list[Parameter]: ...

    def state(self) -> dict[str, NDArray]: ...

    def set_state(self, state: Mapping[str, NDArray]) -> None: ...

    def __enter__(self) -> object: ...

    def __exit__(self, *args: object) -> None: ...

class FitRun:
    """
    A training that runs, as callbacks see it. On the thread of fit() alone.
    """

    @property
    def net(self) -> Module: ...

    @property
    def trainer(self) -> Trainer: ...

    @property
    def epoch(self) -> int:
        """Of this epoch, from 0."""

    @property
    def epochs(self) -> int: ...

    @property
    def batch(self) -> int:
        """How many batches of this epoch are done."""

    @property
    def batches(self) -> int:
        """Of an epoch; -1: not known yet."""

    @property
    def step(self) -> int:
        """How many steps the trainer has done."""

    @property
    def examples(self) -> int: ...

    @property
    def rank(self) -> int: ...

    @property
    def ranks(self) -> int: ...

    @property
    def history(self) -> dict[str, list[float]]:
        """Of the epochs so far."""

    @property
    def value_names(self) -> list[str]: ...

    @property
    def stopping(self) -> bool: ...

    @property
    def resumes(self) -> bool:
        """
        Whether fit() was given `resume`; without a file there the run is at its beginning.
        """

    @property
    def resumed_from(self) -> str:
        """The checkpoint that the run goes on from; '': none."""

    def has_state(self, callback: Callback) -> bool:
        """Whether the checkpoint had a state of this callback, which is set."""

    @property
    def saving(self) -> bool:
        """Whether a save is under way."""

    def value(self, name: str) -> NDArray:
        """
        A scalar that nobody waits for: batch_loss, or loss or a metric of the batches of this epoch so far.
        """

    def later(self, names: Sequence[str], use: Callable[[dict[str, float]], Any]) -> None:
        """
        Calls use() with the values as of now, between two later steps, when they are computed.
        """

    def stop(self, reason: str = '') -> None:
        """Ends the training after this step, or this epoch."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Saves a checkpoint to resume from, while the training goes on. All ranks call it, at the same event, since each gives its part: a call on rank 0 alone waits for ever.
        """

    def finish_saves(self) -> bool: ...

class Callback:
    """
    What a program does at certain points of fit(): a class that derives from it defines some of the methods.
    """

    def __init__(self) -> None: ...

    def on_train_begin(self, run: FitRun) -> None: ...

    def on_last_step(self, run: FitRun) -> None: ...

    def on_train_end(self, run: FitRun) -> None: ...

    def on_epoch_begin(self, run: FitRun) -> None: ...

    def on_epoch_end(self, run: FitRun, values: Mapping[str, float]) -> None: ...

    def on_batch_begin(self, run: FitRun) -> None: ...

    def on_batch_end(self, run: FitRun) -> None: ...

    def on_validation_begin(self, run: FitRun) -> None: ...

    def on_validation_end(self, run: FitRun) -> None: ...

    def on_interrupt(self, run: FitRun) -> None: ...

    def state(self) -> dict[str, Any]:
        """
        Numbers, texts and arrays that a resumed run gives to set_state(), arrays as NDArrays. The same on all ranks.
        """

    def state_of_rank(self) -> dict[str, Any]:
        """Arrays of which each rank has its own, in what set_state() gets too."""

    def set_state(self, state: dict[str, Any]) -> None: ...

    def clear_errors(self) -> None:
        """
        Called when fit() has refused a batch, before its error is raised: clears the errors of the arrays of state(), and waits for them. Others, which on_batch_end has changed, are for the class.
        """

class Progress(Callback):
    """Prints epoch, batch, speed, time left and values."""

    def __init__(self, lines: int = 5) -> None: ...

class CsvLogger(Callback):
    """Writes a line for each epoch to a file."""

    def __init__(self, path: str | os.PathLike[str]) -> None: ...

class TensorBoard(Callback):
    """Writes the values of each epoch for TensorBoard."""

    def __init__(self, path: str | os.PathLike[str], every_steps: int = 0, histograms: int = 0, graph: bool = False) -> None: ...

class ModelCheckpoint(Callback):
    """
    Saves checkpoints: {epoch}, {step} and {val_loss} in the path are numbers.
    """

    def __init__(self, path: str | os.PathLike[str], monitor: str = '', mode: str = 'auto', every_epochs: int = 1, every_steps: int = 0, keep: int = 0, on_interrupt: bool = True) -> None: ...

class EarlyStopping(Callback):
    """Ends the training when a value gets no better."""

    def __init__(self, monitor: str = 'val_loss', mode: str = 'auto', min_delta: float = 0.0, patience: int = 0, restore_best: bool = False, baseline: float | None = None) -> None: ...

class LearningRateScheduler(Callback):
    """
    Sets the rate of each epoch to schedule(epoch, rate). Not beside a ReduceOnPlateau.
    """

    def __init__(self, schedule: Callable[[int, float], float]) -> None: ...

class ReduceOnPlateau(Callback):
    """
    Multiplies rates by a factor when a value gets no better. One in a fit(), not beside a LearningRateScheduler.
    """

    def __init__(self, monitor: str = 'val_loss', mode: str = 'auto', factor: float = 0.1, min_delta: float = 0.0001, min_lr: float = 0.0, patience: int = 10, cooldown: int = 0) -> None: ...

def _fit(net: object, trainer: object, data: object | None, validation: object | None, loss: object | None, metrics: list[Any], callbacks: list[Any], options: dict[str, Any]) -> tuple[Any, ...]: ...

def _evaluate(net: object, data: object | None, loss: object | None, metrics: list[Any], batch: int, outputs: Sequence[str], labels: int) -> dict[str, float]: ...

def _predict(net: object, data: object | None, batch: int, inputs: int) -> list[Any]: ...

def _fold_batch_norms(net: Module) -> tuple[list[tuple[str, str]], list[tuple[str, str]], str]: ...

def _quantize(net: Module, batches: Sequence[Sequence[NDArray]], percentile: float, max_error: float, skip: Sequence[str]) -> tuple[list[tuple[str, str, float, int, float]], list[tuple[str, str]], int, int, str]: ...

class _Pruning:
    """What heddle.Pruning derives from."""

    def __init__(self, net: Module, sparsity: float = 0.5, whole: bool = True, keep: int = 0, of: int = 0, only: Sequence[str] = ()) -> None: ...

    def prune(self, sparsity: float) -> None:
        """Chooses anew, and applies the masks."""

    def apply(self) -> None:
        """Makes 0 what the masks have 0 for."""

    def keep_zeros(self) -> None:
        """What is 0 now is to stay 0."""

    def masks(self) -> list[Parameter]: ...

    def state(self) -> dict[str, NDArray]: ...

    def set_state(self, state: Mapping[str, NDArray]) -> None: ...

    def _report(self) -> tuple[list[tuple[str, int, int]], str]: ...

class KeepPruned(Callback):
    """Applies the masks after each step of fit()."""

    def __init__(self, pruning: _Pruning) -> None: ...

class GradualPruning(Callback):
    """
    Sparsity grows between two steps of the trainer, fast at first; the masks are applied after each step.
    """

    def __init__(self, pruning: _Pruning, final_sparsity: float = 0.8, initial_sparsity: float = 0.0, begin: int = 0, end: int = 1000, every: int = 100) -> None: ...

class ExampleRandom:
    """
    Random numbers of one example in one epoch: the same ones whenever it is read.
    """

    def __init__(self, seed: int, epoch: int, index: int) -> None: ...

    def uniform(self) -> float:
        """A float in [0, 1)."""

    def integer(self, below: int) -> int:
        """An int, 0 to below - 1."""

    def bits(self) -> int:
        """64 random bits, as in numpy.random.default_rng(random.bits())."""

    @property
    def seed(self) -> int:
        """That of the loader."""

    @property
    def epoch(self) -> int:
        """The epoch, from 0: for changes that grow with the training."""

    @property
    def index(self) -> int:
        """The example's number in the loader's dataset."""

class _Dataset:
    def _size(self) -> int: ...

    def _length(self, index: int) -> int: ...

    def _read(self, index: int) -> tuple[NDArray, ...]: ...

    def _arrays(self) -> list[tuple[DType, tuple[int | None, ...]]]: ...

def _object_dataset(object: object, size: int, arrays: Any, varying: bool, length: Any, read_with: Any) -> _Dataset: ...

def _derived_dataset(dataset: _Dataset, size: int, arrays: Any, length: Any) -> _Dataset: ...

def _array_dataset(arrays: list[ArrayLike]) -> _Dataset: ...

def _subset(dataset: _Dataset, indices: Sequence[int]) -> _Dataset: ...

def _concat_dataset(datasets: list[_Dataset]) -> _Dataset: ...

def _map_dataset(dataset: _Dataset, fn: object, arrays: Any, draws: bool) -> _Dataset: ...

class _Augmentation:
    def __init__(self, area: Sequence[float], resize: Sequence[int], padding: int, crop: Sequence[int], centre: bool, flip: float, mean: Sequence[float], std: Sequence[float], erase: float) -> None: ...

    def _apply(self, image: ArrayLike, seed: int, epoch: int, index: int) -> NDArray: ...

class _Loader:
    def _size(self) -> int: ...

    def _start(self, epoch: int, first: int) -> None: ...

    def _next(self, waits: bool) -> tuple[NDArray, ...]: ...

    def _drop(self) -> None: ...

    def _epoch(self) -> int: ...

    def _position(self) -> int: ...

    def _skipped(self) -> int: ...

    def _indices(self, epoch: int, batch: int) -> list[int]: ...

    def _arrays(self) -> list[tuple[DType, tuple[int | None, ...]]]: ...

def _make_loader(dataset: _Dataset, batch: int, shuffle: bool, seed: int, rank: int, ranks: int, drop_remainder: bool, drop_last: bool, ahead: int, bucket_by_length: int, pad: Sequence[float], pad_multiple: int, arrays: Sequence[int], augment: _Augmentation | None, augment_array: int, skip_bad: bool) -> _Loader: ...

def _read_image(path: bytes, channels: int, max_pixels: int) -> NDArray: ...

def _decode_image(file: bytes, channels: int, max_pixels: int) -> NDArray: ...

def _image_files(paths: list[bytes], labels: list[int], channels: int, size: tuple[int, int], max_pixels: int) -> _Dataset: ...

def _image_folder(folder: bytes, channels: int, size: tuple[int, int], max_pixels: int) -> tuple[_Dataset, list[bytes], list[bytes], list[int]]: ...

def _load_idx(path: bytes) -> NDArray: ...

def _csv_dataset(path: bytes, delimiter: str, header: bool, features: list[str], label: str, feature_dtype: DTypeLike, label_dtype: DTypeLike) -> tuple[_Dataset, list[str], list[str]]: ...

class _Vocabulary:
    def __init__(self, unit: int, tokens: list[bytes], unknown: int) -> None: ...

    def _encode(self, text: bytes) -> list[int]: ...

    def _decode(self, ids: Sequence[int]) -> bytes: ...

    def _tokens(self) -> list[bytes]: ...

def _vocabulary_of(unit: int, text: bytes, least: int, most: int) -> _Vocabulary: ...

class _Tokenizer:
    def __init__(self, path: bytes) -> None: ...

    def _encode(self, text: bytes) -> list[int]: ...

    def _decode(self, ids: Sequence[int]) -> bytes: ...

    def _size(self) -> int: ...

def _train_tokenizer(text: bytes, prefix: bytes, size: int) -> None: ...

def _text_lines(paths: list[bytes], encoder: _Vocabulary) -> _Dataset: ...

def _text_lines_of(paths: list[bytes], encoder: _Tokenizer) -> _Dataset: ...

def _sequence_dataset(sequence: ArrayLike, length: int, stride: int) -> _Dataset: ...

def _read_audio(path: bytes, mono: bool, rate: int) -> tuple[NDArray, int]: ...

def _audio_files(paths: list[bytes], labels: list[int], mono: bool, rate: int) -> _Dataset: ...

def _record_file(path: bytes) -> _Dataset: ...

def _image_records(path: bytes, channels: int, size: tuple[int, int], max_pixels: int, labels: int) -> _Dataset: ...

class _RecordWriter:
    def __init__(self, path: bytes) -> None: ...

    def _write(self, record: bytes) -> None: ...

    def _write_image(self, image: bytes, label: float, id: int) -> None: ...

    def _close(self) -> None: ...

class _InputSplit:
    def __init__(self, uri: str, part: int, parts: int, records: bool) -> None: ...

    def _next(self) -> bytes | None: ...

    def _restart(self) -> None: ...

class CheckpointSave:
    """One save of a CheckpointWriter. Thread-safe."""

    def done(self) -> bool:
        """Whether the file is complete, or the save has failed."""

    def wait(self) -> None:
        """Blocks until it is done; raises its error."""

    def error(self) -> str:
        """The text of its error; empty: none so far."""

class CheckpointWriter:
    """Writes checkpoints while the training goes on. Thread-safe."""

    def __init__(self, most: int = 1) -> None:
        """So many saves may be under way; one more waits for the oldest."""

    def save(self, path: str | os.PathLike[str], parameters: Sequence[Parameter] = ..., trainer: Trainer | None = None, generators: dict[str, Generator] = ..., counters: dict[str, int] = ..., arrays: dict[str, NDArray] = ..., notes: dict[str, str] = ...) -> CheckpointSave:
        """Saves what save_checkpoint() called now would save; returns at once."""

    def wait(self) -> None:
        """
        Blocks until all saves are done; raises the first error that no call has raised.
        """

    def idle(self) -> bool: ...

def save_safetensors(path: str | os.PathLike[str], arrays: dict[str, NDArray], metadata: dict[str, str] = ..., checksums: bool = False) -> None:
    """
    Blocks. Replaces the file at once: a crash leaves the old one or the new one.
    """

def load_safetensors(path: str | os.PathLike[str], device: DeviceLike | None = None) -> dict[str, NDArray]:
    """The arrays of a file."""

def load_safetensors_metadata(path: str | os.PathLike[str]) -> dict[str, str]: ...

def _load_weights(parameters: list[Parameter], arrays: dict[str, NDArray], rename: dict[str, str], ignore: list[str], strict: bool, unreadable: dict[str, str]) -> tuple[list[str], list[str], list[str], list[str]]: ...

def _map_weights(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray], dict[str, str]]: ...

def save_checkpoint(path: str | os.PathLike[str], parameters: Sequence[Parameter] = ..., trainer: Trainer | None = None, generators: dict[str, Generator] = ..., counters: dict[str, int] = ..., arrays: dict[str, NDArray] = ..., notes: dict[str, str] = ...) -> None:
    """Everything that a training run needs to go on. Blocks."""

def load_checkpoint(path: str | os.PathLike[str], parameters: Sequence[Parameter] = ..., trainer: Trainer | None = None, generators: dict[str, Generator] = ..., counters: dict[str, int] = ..., arrays: dict[str, NDArray] = ...) -> tuple[dict[str, NDArray], dict[str, str]]:
    """
    Fills parameters, trainer, generators, the dict of counters, and the arrays that have the saved shape and dtype in place; returns all arrays and the notes.
    """

def save_residuals(path: str | os.PathLike[str], trainer: Trainer) -> None:
    """
    What compression has left out, beside the checkpoint at `path`, before it is saved. All workers call it.
    """

def save_npy(path: str | os.PathLike[str], array: ArrayLike) -> None:
    """Blocks. A .npy file of NumPy; not for bf16. Replaces the file at once."""

def load_npy(path: str | os.PathLike[str], device: DeviceLike | None = None) -> NDArray:
    """The array of a .npy file."""

def map_npy(path: str | os.PathLike[str]) -> NDArray:
    """
    The array of a .npy file on the file's own pages, read when they are touched; changes stay in this process.
    """

def map_safetensors(path: str | os.PathLike[str]) -> dict[str, NDArray]:
    """As map_npy, for all arrays of a .safetensors file."""

def save_npz(path: str | os.PathLike[str], arrays: dict[str, NDArray], compressed: bool = False) -> None:
    """Blocks. A .npz file of NumPy; not for bf16. Replaces the file at once."""

def load_npz(path: str | os.PathLike[str], device: DeviceLike | None = None) -> dict[str, NDArray]:
    """The arrays of a .npz file."""

def load_csv(path: str | os.PathLike[str], delimiter: str = ',', skip_lines: int = 0, comment: str = '#', dtype: DTypeLike | None = None, columns: Sequence[int] = ..., device: DeviceLike | None = None) -> NDArray:
    """
    A table of numbers as text, f64 unless told otherwise: an array (rows, columns). An empty field is NaN.
    """

def save_csv(path: str | os.PathLike[str], array: ArrayLike, delimiter: str = ',', header: str = '', precision: int = 0) -> None:
    """
    An array of one axis or two as text, with as many digits as give the same numbers unless told otherwise.
    """

class _TraceBlock:
    def __init__(self, path: bytes) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *args: object) -> None: ...

    def _summary(self) -> tuple[str, int, int, int, str]: ...

def _print_options() -> tuple[int, int, int, int, bool]: ...

def _set_print_options(precision: int, threshold: int, edgeitems: int, linewidth: int, suppress: bool) -> tuple[int, int, int, int, bool]: ...

def track_memory(on: bool = True) -> None:
    """
    Whether new arrays are counted by the line that made them, from now on; see memory_report.
    """

def reset_memory_peak() -> None:
    """
    All peaks of memory_report() are what is held now, by arrays that are counted by line.
    """

def _memory_report() -> tuple[Any, ...]: ...

def gelu(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x times the distribution function of the normal distribution (Hendrycks and Gimpel, arXiv:1606.08415).

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def gelu_tanh(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The approximation of gelu by tanh, with which GPT-2 and BERT were trained.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def silu(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x * sigmoid(x), also called swish (Ramachandran et al., arXiv:1710.05941).

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def mish(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x * tanh(log(1 + exp(x))) (Misra, BMVC'20).

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def selu(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The activation of self-normalising networks (Klambauer et al., NIPS'17).

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def softsign(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x / (1 + |x|).

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def log_sigmoid(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """log(sigmoid(x)), exact for large negative x.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def relu6(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x between 0 and 6.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def hard_tanh(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x between -1 and 1.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def hard_sigmoid(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x / 6 + 1/2 between 0 and 1.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def hard_swish(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x * hard_sigmoid(x) (Howard et al., ICCV'19).

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def tanh_shrink(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x - tanh(x), near 0 by its series.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def leaky_relu(x: ArrayLike, slope: float = 0.01, *, out: NDArray | None = None) -> NDArray:
    """x, or `slope` times x where it is negative.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def elu(x: ArrayLike, alpha: float = 1.0, *, out: NDArray | None = None) -> NDArray:
    """x, or `alpha` * (exp(x) - 1) where it is negative (Clevert et al., ICLR'16).

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def celu(x: ArrayLike, alpha: float = 1.0, *, out: NDArray | None = None) -> NDArray:
    """As elu, with a continuous derivative for any `alpha` (Barron, arXiv:1704.07483).

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def softplus(x: ArrayLike, beta: float = 1.0, *, out: NDArray | None = None) -> NDArray:
    """log(1 + exp(`beta` x)) / `beta`, a smooth relu.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def hard_shrink(x: ArrayLike, limit: float = 0.5, *, out: NDArray | None = None) -> NDArray:
    """x, or 0 where it is within +-`limit`.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def soft_shrink(x: ArrayLike, limit: float = 0.5, *, out: NDArray | None = None) -> NDArray:
    """x moved by `limit` towards 0, or 0 where it is within +-`limit`.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, mask: ArrayLike | None = None, causal: bool = False, scale: float | None = None, dropout: float = 0.0, generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """softmax(query @ key^T * scale + mask) @ value for query (N, heads, T, D), key (N, kv_heads, S, D) and value (N, kv_heads, S, E). A mask that is boolean shows keys, one that is floating is added; with `causal` the last query sees all keys, each before it one less. `scale` None: 1 / sqrt(D). `dropout` makes weights 0 with this probability and divides the rest by 1 - dropout.

    The result's dtype: that of query.

    Differentiable."""

def rotary(x: ArrayLike, positions: ArrayLike | None = None, base: float = 10000.0, interleaved: bool = False, *, out: NDArray | None = None) -> NDArray:
    """Rotates pair i of the features of each row of x (..., T, D) by the row's position times base^(-2i / D). Positions are 0 .. T - 1 for None. Pairs are features i and i + D / 2, or 2i and 2i + 1 if `interleaved`.

    The result's dtype: that of x.

    Differentiable."""

def full(shape: int | Sequence[int], fill_value: float, dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', *, out: NDArray | None = None) -> NDArray:
    """An array of `fill_value`, which saturates at the ends of an integer dtype.

    The result's dtype: `dtype`."""

def zeros(shape: int | Sequence[int], dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', *, out: NDArray | None = None) -> NDArray:
    """An array of 0.

    The result's dtype: `dtype`."""

def ones(shape: int | Sequence[int], dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', *, out: NDArray | None = None) -> NDArray:
    """An array of 1.

    The result's dtype: `dtype`."""

def zeros_like(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """An array of 0 with the shape, dtype and device of x.

    The result's dtype: that of x."""

def arange(start: float, stop: float | None = None, step: float = 1, dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', *, out: NDArray | None = None) -> NDArray:
    """The numbers start, start + step, ... before stop. With one number, those from 0 before it.

    The result's dtype: `dtype`."""

def eye(n: int, dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', *, out: NDArray | None = None) -> NDArray:
    """The n by n identity matrix.

    The result's dtype: `dtype`."""

def full_like(x: ArrayLike, fill_value: float, *, out: NDArray | None = None) -> NDArray:
    """An array of `fill_value` with the shape, dtype and device of x.

    The result's dtype: that of x."""

def ones_like(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """An array of 1 with the shape, dtype and device of x.

    The result's dtype: that of x."""

def linspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', *, out: NDArray | None = None) -> NDArray:
    """`num` numbers with equal steps from start to stop, or up to before stop without `endpoint`.

    The result's dtype: `dtype`."""

def logspace(start: float, stop: float, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', *, out: NDArray | None = None) -> NDArray:
    """base to the power of `num` numbers with equal steps from start to stop.

    The result's dtype: `dtype`."""

def add(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a + b; of bools, or.

    The result's dtype: common.

    Differentiable."""

def subtract(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a - b.

    The result's dtype: common.

    Differentiable."""

def multiply(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a * b; of bools, and.

    The result's dtype: common.

    Differentiable."""

def divide(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a / b, in floating point.

    The result's dtype: common; f64 for integers and bool.

    Differentiable."""

def power(base: Operand | Sequence[Any], exponent: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """base to the power of exponent. A negative exponent of integers is an error.

    The result's dtype: common.

    Differentiable."""

def maximum(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """The larger of both; NaN if either is.

    The result's dtype: common.

    Differentiable."""

def minimum(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """The smaller of both; NaN if either is.

    The result's dtype: common.

    Differentiable."""

def equal(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a == b. Integers are compared by their values.

    The result's dtype: bool."""

def not_equal(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a != b. Integers are compared by their values.

    The result's dtype: bool."""

def less(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a < b. Integers are compared by their values.

    The result's dtype: bool."""

def less_equal(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a <= b. Integers are compared by their values.

    The result's dtype: bool."""

def greater(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a > b. Integers are compared by their values.

    The result's dtype: bool."""

def greater_equal(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a >= b. Integers are compared by their values.

    The result's dtype: bool."""

def logical_not(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x == 0.

    The result's dtype: bool."""

def negative(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """-x.

    The result's dtype: that of x.

    Differentiable."""

def abs(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The absolute value.

    The result's dtype: that of x.

    Differentiable."""

def square(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x * x.

    The result's dtype: that of x.

    Differentiable."""

def relu(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """max(x, 0); NaN of NaN.

    The result's dtype: that of x.

    Differentiable."""

def exp(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """e to the power of x.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def log(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The natural logarithm.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def sqrt(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The square root.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def tanh(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The hyperbolic tangent.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def sigmoid(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """1 / (1 + exp(-x)).

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def where(condition: ArrayLike, a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a where condition is true, else b; all three broadcast.

    The result's dtype: common of a and b.

    Differentiable."""

def clip(x: ArrayLike, min: float, max: float, *, out: NDArray | None = None) -> NDArray:
    """min where x < min, max where x > max; NaN of NaN.

    The result's dtype: that of x; wider where a bound is of another kind.

    Differentiable."""

def nan_to_num(x: ArrayLike, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None, *, out: NDArray | None = None) -> NDArray:
    """x with other values for NaN and the infinities: by default the largest and smallest of the dtype.

    The result's dtype: that of x.

    Differentiable."""

def floor_divide(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a / b, rounded down. Integers divided by 0 give 0.

    The result's dtype: common.

    Differentiable."""

def remainder(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a - floor_divide(a, b) * b: it has the sign of b.

    The result's dtype: common.

    Differentiable."""

def fmod(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """The remainder that has the sign of a.

    The result's dtype: common.

    Differentiable."""

def atan2(y: Operand | Sequence[Any], x: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """The angle of the point (x, y).

    The result's dtype: common; f64 for integers and bool.

    Differentiable."""

def hypot(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """sqrt(a * a + b * b), without overflow.

    The result's dtype: common; f64 for integers and bool.

    Differentiable."""

def logaddexp(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """log(exp(a) + exp(b)), without overflow.

    The result's dtype: common; f64 for integers and bool.

    Differentiable."""

def copysign(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a with the sign of b.

    The result's dtype: common; f64 for integers and bool.

    Differentiable."""

def nextafter(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """The next number after a, towards b.

    The result's dtype: common; f64 for integers and bool."""

def bitwise_and(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a & b.

    The result's dtype: common."""

def bitwise_or(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a | b.

    The result's dtype: common."""

def bitwise_xor(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a ^ b.

    The result's dtype: common."""

def bitwise_left_shift(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a << b. All bits go if b is negative or the width.

    The result's dtype: common."""

def bitwise_right_shift(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """a >> b. All bits go if b is negative or the width.

    The result's dtype: common."""

def logical_and(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """Whether both are not 0.

    The result's dtype: bool."""

def logical_or(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """Whether one is not 0.

    The result's dtype: bool."""

def logical_xor(a: Operand | Sequence[Any], b: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """Whether one is 0 and the other is not.

    The result's dtype: bool."""

def floor(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The largest integer not above x.

    The result's dtype: that of x.

    Differentiable."""

def ceil(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The smallest integer not below x.

    The result's dtype: that of x.

    Differentiable."""

def round(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The nearest integer; of a half, the even one.

    The result's dtype: that of x.

    Differentiable."""

def trunc(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x without its fraction.

    The result's dtype: that of x.

    Differentiable."""

def sign(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """-1, 0 or 1; NaN of NaN.

    The result's dtype: that of x.

    Differentiable."""

def isnan(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """Whether x is NaN.

    The result's dtype: bool."""

def isinf(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """Whether x is infinity or -infinity.

    The result's dtype: bool."""

def isfinite(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """Whether x is neither NaN nor an infinity.

    The result's dtype: bool."""

def signbit(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """Whether the sign is -; that of -0.0 is.

    The result's dtype: bool."""

def bitwise_invert(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """~x; of bool, not.

    The result's dtype: that of x."""

def exp2(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """2 to the power of x.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def expm1(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """exp(x) - 1, exact near 0.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def log1p(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """log(1 + x), exact near 0.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def log2(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The logarithm to the base 2.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def log10(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The logarithm to the base 10.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def rsqrt(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """1 / sqrt(x).

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def cbrt(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The cube root.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def reciprocal(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """1 / x.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def sin(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The sine.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def cos(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The cosine.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def tan(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The tangent.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def asin(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The inverse sine.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def acos(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The inverse cosine.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def atan(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The inverse tangent.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def sinh(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The hyperbolic sine.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def cosh(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The hyperbolic cosine.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def asinh(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The inverse hyperbolic sine.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def acosh(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The inverse hyperbolic cosine.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def atanh(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The inverse hyperbolic tangent.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def erf(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The error function.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def erfc(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """1 - erf(x), exact for large x.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def lgamma(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The logarithm of the absolute value of the gamma function.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def digamma(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The derivative of lgamma; NaN at its poles, -inf at 0.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def add_(x: ArrayLike, b: Operand | Sequence[Any]) -> None:
    """x += b. b is broadcast to x; the result's kind has to fit the dtype of x."""

def subtract_(x: ArrayLike, b: Operand | Sequence[Any]) -> None:
    """x -= b. b is broadcast to x; the result's kind has to fit the dtype of x."""

def multiply_(x: ArrayLike, b: Operand | Sequence[Any]) -> None:
    """x *= b. b is broadcast to x; the result's kind has to fit the dtype of x."""

def divide_(x: ArrayLike, b: Operand | Sequence[Any]) -> None:
    """x /= b. b is broadcast to x; the result's kind has to fit the dtype of x."""

def floor_divide_(x: ArrayLike, b: Operand | Sequence[Any]) -> None:
    """x = floor_divide(x, b). b is broadcast to x; the result's kind has to fit the dtype of x."""

def remainder_(x: ArrayLike, b: Operand | Sequence[Any]) -> None:
    """x %= b. b is broadcast to x; the result's kind has to fit the dtype of x."""

def power_(x: ArrayLike, b: Operand | Sequence[Any]) -> None:
    """x = power(x, b). b is broadcast to x; the result's kind has to fit the dtype of x."""

def bitwise_and_(x: ArrayLike, b: Operand | Sequence[Any]) -> None:
    """x &= b. b is broadcast to x; the result's kind has to fit the dtype of x."""

def bitwise_or_(x: ArrayLike, b: Operand | Sequence[Any]) -> None:
    """x |= b. b is broadcast to x; the result's kind has to fit the dtype of x."""

def bitwise_xor_(x: ArrayLike, b: Operand | Sequence[Any]) -> None:
    """x ^= b. b is broadcast to x; the result's kind has to fit the dtype of x."""

def bitwise_left_shift_(x: ArrayLike, b: Operand | Sequence[Any]) -> None:
    """x <<= b. b is broadcast to x; the result's kind has to fit the dtype of x."""

def bitwise_right_shift_(x: ArrayLike, b: Operand | Sequence[Any]) -> None:
    """x >>= b. b is broadcast to x; the result's kind has to fit the dtype of x."""

def assign_(x: ArrayLike, source: ArrayLike) -> None:
    """Copies the values of source, broadcast and converted, into x."""

def fill_(x: ArrayLike, value: float) -> None:
    """Sets every element of x to value, which saturates at the ends of an integer dtype."""

def take_along_axis(x: ArrayLike, indices: ArrayLike, axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """y[i, j] = x[i, indices[i, j]] of axis 1, and so on. Off the axis both broadcast.

    The result's dtype: that of x.

    Differentiable."""

def gather(x: ArrayLike, indices: ArrayLike, axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """take_along_axis, but off the axis indices do not broadcast and may be smaller than x.

    The result's dtype: that of x.

    Differentiable."""

def scatter(x: ArrayLike, indices: ArrayLike, source: Operand | Sequence[Any], axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """x with y[indices[i, j], j] = source[i, j] of axis 0, and so on. Of several for one place the last one stays.

    The result's dtype: that of x.

    Differentiable."""

def scatter_add(x: ArrayLike, indices: ArrayLike, source: Operand | Sequence[Any], axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """x with y[indices[i, j], j] = source[i, j] of axis 0, and so on, or rather the sum with what is there. Of several for one place the order is that of the indices.

    The result's dtype: that of x.

    Differentiable."""

def scatter_min(x: ArrayLike, indices: ArrayLike, source: Operand | Sequence[Any], axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """x with y[indices[i, j], j] = source[i, j] of axis 0, and so on, or rather the minimum with what is there.

    The result's dtype: that of x.

    Differentiable."""

def scatter_max(x: ArrayLike, indices: ArrayLike, source: Operand | Sequence[Any], axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """x with y[indices[i, j], j] = source[i, j] of axis 0, and so on, or rather the maximum with what is there.

    The result's dtype: that of x.

    Differentiable."""

def index_add(x: ArrayLike, indices: ArrayLike, source: ArrayLike, axis: int = 0, *, out: NDArray | None = None) -> NDArray:
    """x with source[i] added to entry indices[i] of `axis`, in the order of the indices.

    The result's dtype: that of x.

    Differentiable."""

def index_copy(x: ArrayLike, indices: ArrayLike, source: ArrayLike, axis: int = 0, *, out: NDArray | None = None) -> NDArray:
    """x with source[i] in place of entry indices[i] of `axis`. Of several for one place the last one stays.

    The result's dtype: that of x.

    Differentiable."""

def index_put(x: ArrayLike, indices: Sequence[ArrayLike], values: Operand | Sequence[Any], accumulate: bool = False, *, out: NDArray | None = None) -> NDArray:
    """x with y[indices[0], indices[1], ...] = values, or with `accumulate` the sum with what is there. The indices broadcast to one shape, values to that shape and the rest of x's axes.

    The result's dtype: that of x.

    Differentiable."""

def put(x: ArrayLike, indices: ArrayLike, values: Operand | Sequence[Any], *, out: NDArray | None = None) -> NDArray:
    """x with values at these places of the flattened array.

    The result's dtype: that of x.

    Differentiable."""

def masked_select(x: ArrayLike, mask: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The elements where a mask is true, along one axis; x and mask broadcast. The call waits for the mask.

    The result's dtype: that of x.

    Differentiable."""

def masked_fill(x: ArrayLike, mask: ArrayLike, value: float, *, out: NDArray | None = None) -> NDArray:
    """x with a value where a mask is true, which broadcasts to x.

    The result's dtype: that of x.

    Differentiable."""

def masked_scatter(x: ArrayLike, mask: ArrayLike, source: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x with the elements of source, in their order, where a mask is true, which broadcasts to x.

    The result's dtype: that of x.

    Differentiable."""

def nonzero(x: ArrayLike) -> tuple[NDArray, ...]:
    """The indices of the elements that are not 0, an array for each axis. The call waits for x.

    The result's dtype: i64."""

def argwhere(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The indices of the elements that are not 0, a row for each. The call waits for x.

    The result's dtype: i64."""

def take(x: ArrayLike, indices: ArrayLike, axis: int = 0, *, out: NDArray | None = None) -> NDArray:
    """The entries of x at indices along `axis`, negative ones from the end. The axes of indices replace that axis.

    The result's dtype: that of x.

    Differentiable."""

def one_hot(labels: ArrayLike, num_classes: int, dtype: DTypeLike = 'f32', *, out: NDArray | None = None) -> NDArray:
    """Shape of labels + (num_classes,): 1 at each label, 0 elsewhere.

    The result's dtype: `dtype`."""

def init_weight(shape: int | Sequence[int], init: Literal['he', 'xavier'] = 'he', device: DeviceLike = 'cpu(0)', generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """A weight (out, in, ...) that requires a gradient, uniform within the limits of He or of Xavier's (Glorot's) rule. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: f32."""

def lu(x: ArrayLike) -> tuple[NDArray, ...]:
    """P, a permutation, L, lower triangular with ones on its diagonal, and U with x = P L U.

    The result's dtype: that of x; f64 for integers and bool."""

def qr(x: ArrayLike, mode: Literal['reduced', 'complete'] = 'reduced') -> tuple[NDArray, ...]:
    """Q and R, upper triangular, with x = Q R; Q (m, m) if mode is 'complete', else (m, min(m, n)).

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def svd(x: ArrayLike, full_matrices: bool = True) -> tuple[NDArray, ...]:
    """U, S, which falls, and V^T with x = U diag(S) V^T; U and V^T are square if full_matrices.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def svdvals(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The singular values, which fall.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def eigh(x: ArrayLike, uplo: Literal['L', 'U'] = 'L') -> tuple[NDArray, ...]:
    """The eigenvalues, which rise, and eigenvectors, as columns, of symmetric matrices, of which the triangle `uplo` is read.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def eigvalsh(x: ArrayLike, uplo: Literal['L', 'U'] = 'L', *, out: NDArray | None = None) -> NDArray:
    """The eigenvalues, which rise, of symmetric matrices, of which the triangle `uplo` is read.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def matrix_power(x: ArrayLike, n: int, *, out: NDArray | None = None) -> NDArray:
    """x multiplied with itself n times; for a negative n the inverse, in floating point.

    The result's dtype: that of x.

    Differentiable."""

def expm(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The exponential of a matrix: the sum of x^k / k!.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def matrix_rank(x: ArrayLike, rtol: float | None = None, *, out: NDArray | None = None) -> NDArray:
    """The number of singular values above rtol times the largest; None is max(m, n) * epsilon.

    The result's dtype: i64."""

def matrix_norm(x: ArrayLike, ord: Literal['fro', 'nuc', '1', '-1', '2', '-2', 'inf', '-inf'] = 'fro', keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """'fro': from the squares; 'nuc', '2', '-2': the sum, largest, smallest of the singular values; '1', '-1', 'inf', '-inf': the largest, smallest sum of sizes in a column, in a row.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def vector_norm(x: ArrayLike, ord: float = 2.0, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """(sum |x|^ord)^(1/ord) along `axis`, an axis or several; None: all.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def cond(x: ArrayLike, p: Literal['fro', 'nuc', '1', '-1', '2', '-2', 'inf', '-inf'] = '2', *, out: NDArray | None = None) -> NDArray:
    """The norm of a matrix times that of its inverse; from the singular values for '2' and '-2'.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def solve(a: ArrayLike, b: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x with a x = b: a (..., n, n), b (..., n, k), or (n) for one vector.

    The result's dtype: common; f64 for integers and bool.

    Differentiable."""

def solve_triangular(a: ArrayLike, b: ArrayLike, upper: bool = True, *, out: NDArray | None = None) -> NDArray:
    """x with a x = b, where of a only the upper or lower triangle is read.

    The result's dtype: common; f64 for integers and bool.

    Differentiable."""

def lstsq(a: ArrayLike, b: ArrayLike, rtol: float | None = None, *, out: NDArray | None = None) -> NDArray:
    """x with the least |a x - b| and, among those, the least |x|. Singular values up to rtol times the largest count as 0; None is max(m, n) * epsilon.

    The result's dtype: common; f64 for integers and bool.

    Differentiable."""

def inv(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The inverse.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def pinv(x: ArrayLike, rtol: float | None = None, *, out: NDArray | None = None) -> NDArray:
    """The pseudo-inverse. Singular values up to rtol times the largest count as 0; None is max(m, n) * epsilon.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def det(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The determinant.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def slogdet(x: ArrayLike) -> tuple[NDArray, ...]:
    """The sign of the determinant and the logarithm of its size.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def cholesky(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """L, lower triangular, with x = L L^T; only the lower triangle of x is read.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def ctc_loss(log_probs: ArrayLike, targets: ArrayLike, input_lengths: ArrayLike, target_lengths: ArrayLike, blank: int = 0, reduction: Literal['mean', 'sum', 'none'] = 'mean', zero_infinity: bool = False, *, out: NDArray | None = None) -> NDArray:
    """-log(probability of the target) over all its alignments with log_probs, the log_softmax of (T, N, C) or (T, C); targets (N, S), padded, or all labels in a row. The mean is that of the losses divided by the lengths of their targets.

    The result's dtype: that of log_probs.

    Differentiable."""

def ctc_greedy_decode(log_probs: ArrayLike, input_lengths: ArrayLike | None = None, blank: int = 0) -> tuple[NDArray, ...]:
    """The labels of the most probable class at each step of log_probs (T, N, C) or (T, C), without repetitions and blanks: (N, T), padded with -1, and their number (N).

    The result's dtype: i64."""

def ctc_beam_search(log_probs: ArrayLike, input_lengths: ArrayLike | None = None, beam: int = 16, blank: int = 0) -> tuple[NDArray, ...]:
    """The labels that are most probable over all their alignments with log_probs (T, N, C) or (T, C), as far as a search that keeps `beam` beginnings finds them: (N, T), padded with -1, their number (N), and the logarithm of their probability (N), in the dtype of log_probs.

    The result's dtype: i64."""

def mse_loss(y: ArrayLike, target: ArrayLike, reduction: Literal['mean', 'sum', 'none'] = 'mean', *, out: NDArray | None = None) -> NDArray:
    """(y - target)^2.

    The result's dtype: that of y.

    Differentiable."""

def l1_loss(y: ArrayLike, target: ArrayLike, reduction: Literal['mean', 'sum', 'none'] = 'mean', *, out: NDArray | None = None) -> NDArray:
    """|y - target|.

    The result's dtype: that of y.

    Differentiable."""

def huber_loss(y: ArrayLike, target: ArrayLike, delta: float = 1.0, reduction: Literal['mean', 'sum', 'none'] = 'mean', *, out: NDArray | None = None) -> NDArray:
    """Half the square of y - target up to `delta`, linear beyond.

    The result's dtype: that of y.

    Differentiable."""

def bce_with_logits(logits: ArrayLike, target: ArrayLike, positive_weight: float = 1.0, reduction: Literal['mean', 'sum', 'none'] = 'mean', *, out: NDArray | None = None) -> NDArray:
    """Binary cross entropy of sigmoid(logits) and a target in [0, 1], whose 1 weighs `positive_weight`.

    The result's dtype: that of logits.

    Differentiable."""

def kl_div(log_probabilities: ArrayLike, target: ArrayLike, reduction: Literal['mean', 'sum', 'none'] = 'mean', *, out: NDArray | None = None) -> NDArray:
    """target * (log(target) - log_probabilities); the mean is the sum divided by the first axis.

    The result's dtype: that of log_probabilities.

    Differentiable."""

def hinge_loss(y: ArrayLike, target: ArrayLike, margin: float = 1.0, reduction: Literal['mean', 'sum', 'none'] = 'mean', *, out: NDArray | None = None) -> NDArray:
    """max(0, margin - y * target), with targets 1 and -1.

    The result's dtype: that of y.

    Differentiable."""

def triplet_loss(anchor: ArrayLike, positive: ArrayLike, negative: ArrayLike, margin: float = 1.0, reduction: Literal['mean', 'sum', 'none'] = 'mean', *, out: NDArray | None = None) -> NDArray:
    """max(0, |anchor - positive| - |anchor - negative| + margin) of each row.

    The result's dtype: that of anchor.

    Differentiable."""

def nll_loss(log_probabilities: ArrayLike, labels: ArrayLike, weight: ArrayLike | None = None, ignore: int = -1, reduction: Literal['mean', 'sum', 'none'] = 'mean', *, out: NDArray | None = None) -> NDArray:
    """-log_probabilities[label] of each row (N, C), weighted by class; rows with the label `ignore` do not count.

    The result's dtype: that of log_probabilities.

    Differentiable."""

def cross_entropy_with(logits: ArrayLike, labels: ArrayLike, weight: ArrayLike | None = None, ignore: int = -1, smoothing: float = 0.0, reduction: Literal['mean', 'sum', 'none'] = 'mean', *, out: NDArray | None = None) -> NDArray:
    """cross_entropy weighted by class, without the rows with the label `ignore`, with smoothed labels.

    The result's dtype: that of logits.

    Differentiable."""

def soft_cross_entropy(logits: ArrayLike, target: ArrayLike, reduction: Literal['mean', 'sum', 'none'] = 'mean', *, out: NDArray | None = None) -> NDArray:
    """-sum(target * log_softmax(logits)) of each row, with a target (N, C) of probabilities.

    The result's dtype: that of logits.

    Differentiable."""

def conv1d(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] | Literal['same', 'valid'] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, relu: bool = False, *, out: NDArray | None = None) -> NDArray:
    """Convolution of x (N, C, L) with weight (O, C / groups, k), plus bias (O); then max(0, .) if `relu`. `padding`: zeros on each side, or 'same' to keep the size, or 'valid' for none.

    The result's dtype: that of x.

    Differentiable."""

def conv2d(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] | Literal['same', 'valid'] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, relu: bool = False, *, out: NDArray | None = None) -> NDArray:
    """Convolution of x (N, C, H, W) with weight (O, C / groups, kh, kw), plus bias (O); then max(0, .) if `relu`. `padding`: zeros on each side, or 'same' to keep the size, or 'valid' for none.

    The result's dtype: that of x.

    Differentiable."""

def conv3d(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] | Literal['same', 'valid'] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, relu: bool = False, *, out: NDArray | None = None) -> NDArray:
    """Convolution of x (N, C, D, H, W) with weight (O, C / groups, kd, kh, kw), plus bias (O); then max(0, .) if `relu`. `padding`: zeros on each side, or 'same' to keep the size, or 'valid' for none.

    The result's dtype: that of x.

    Differentiable."""

def conv_transpose1d(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, *, out: NDArray | None = None) -> NDArray:
    """The transpose of conv1d, of x (N, C, L) with weight (C, O / groups, k), plus bias (O). An axis of L elements gets (L - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.

    The result's dtype: that of x.

    Differentiable."""

def conv_transpose2d(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, *, out: NDArray | None = None) -> NDArray:
    """The transpose of conv2d, of x (N, C, H, W) with weight (C, O / groups, kh, kw), plus bias (O). An axis of L elements gets (L - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.

    The result's dtype: that of x.

    Differentiable."""

def conv_transpose3d(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, *, out: NDArray | None = None) -> NDArray:
    """The transpose of conv3d, of x (N, C, D, H, W) with weight (C, O / groups, kd, kh, kw), plus bias (O). An axis of L elements gets (L - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.

    The result's dtype: that of x.

    Differentiable."""

def max_pool1d(x: ArrayLike, kernel_size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The largest element of each window of x (N, C, L). Windows are `stride` apart; None: their size. `ceil_mode`: the last may end beyond the padding.

    The result's dtype: that of x.

    Differentiable."""

def max_pool1d_with_indices(x: ArrayLike, kernel_size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> tuple[NDArray, ...]:
    """max_pool, and the indices of the maxima in the flattened spatial axes of x, for max_unpool.

    The result's dtype: that of x; i64 of the indices.

    Differentiable."""

def avg_pool1d(x: ArrayLike, kernel_size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, count_include_pad: bool = True, ceil_mode: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The mean of each window of x (N, C, L). Windows are `stride` apart; None: their size. `ceil_mode`: the last may end beyond the padding. Padding counts as zeros if `count_include_pad`, else not at all.

    The result's dtype: that of x.

    Differentiable."""

def adaptive_max_pool1d(x: ArrayLike, output_size: int | Sequence[int], *, out: NDArray | None = None) -> NDArray:
    """The largest element of each of `output_size` windows along each axis, which cover x (N, C, L): window i of L elements begins at floor(i L / size), and ends before ceil((i + 1) L / size).

    The result's dtype: that of x.

    Differentiable."""

def adaptive_avg_pool1d(x: ArrayLike, output_size: int | Sequence[int], *, out: NDArray | None = None) -> NDArray:
    """The mean of each of `output_size` windows along each axis, which cover x (N, C, L): window i of L elements begins at floor(i L / size), and ends before ceil((i + 1) L / size).

    The result's dtype: that of x.

    Differentiable."""

def max_pool2d(x: ArrayLike, kernel_size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The largest element of each window of x (N, C, H, W). Windows are `stride` apart; None: their size. `ceil_mode`: the last may end beyond the padding.

    The result's dtype: that of x.

    Differentiable."""

def max_pool2d_with_indices(x: ArrayLike, kernel_size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> tuple[NDArray, ...]:
    """max_pool, and the indices of the maxima in the flattened spatial axes of x, for max_unpool.

    The result's dtype: that of x; i64 of the indices.

    Differentiable."""

def avg_pool2d(x: ArrayLike, kernel_size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, count_include_pad: bool = True, ceil_mode: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The mean of each window of x (N, C, H, W). Windows are `stride` apart; None: their size. `ceil_mode`: the last may end beyond the padding. Padding counts as zeros if `count_include_pad`, else not at all.

    The result's dtype: that of x.

    Differentiable."""

def adaptive_max_pool2d(x: ArrayLike, output_size: int | Sequence[int], *, out: NDArray | None = None) -> NDArray:
    """The largest element of each of `output_size` windows along each axis, which cover x (N, C, H, W): window i of L elements begins at floor(i L / size), and ends before ceil((i + 1) L / size).

    The result's dtype: that of x.

    Differentiable."""

def adaptive_avg_pool2d(x: ArrayLike, output_size: int | Sequence[int], *, out: NDArray | None = None) -> NDArray:
    """The mean of each of `output_size` windows along each axis, which cover x (N, C, H, W): window i of L elements begins at floor(i L / size), and ends before ceil((i + 1) L / size).

    The result's dtype: that of x.

    Differentiable."""

def max_pool3d(x: ArrayLike, kernel_size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The largest element of each window of x (N, C, D, H, W). Windows are `stride` apart; None: their size. `ceil_mode`: the last may end beyond the padding.

    The result's dtype: that of x.

    Differentiable."""

def max_pool3d_with_indices(x: ArrayLike, kernel_size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> tuple[NDArray, ...]:
    """max_pool, and the indices of the maxima in the flattened spatial axes of x, for max_unpool.

    The result's dtype: that of x; i64 of the indices.

    Differentiable."""

def avg_pool3d(x: ArrayLike, kernel_size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, count_include_pad: bool = True, ceil_mode: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The mean of each window of x (N, C, D, H, W). Windows are `stride` apart; None: their size. `ceil_mode`: the last may end beyond the padding. Padding counts as zeros if `count_include_pad`, else not at all.

    The result's dtype: that of x.

    Differentiable."""

def adaptive_max_pool3d(x: ArrayLike, output_size: int | Sequence[int], *, out: NDArray | None = None) -> NDArray:
    """The largest element of each of `output_size` windows along each axis, which cover x (N, C, D, H, W): window i of L elements begins at floor(i L / size), and ends before ceil((i + 1) L / size).

    The result's dtype: that of x.

    Differentiable."""

def adaptive_avg_pool3d(x: ArrayLike, output_size: int | Sequence[int], *, out: NDArray | None = None) -> NDArray:
    """The mean of each of `output_size` windows along each axis, which cover x (N, C, D, H, W): window i of L elements begins at floor(i L / size), and ends before ceil((i + 1) L / size).

    The result's dtype: that of x.

    Differentiable."""

def max_unpool1d(x: ArrayLike, indices: ArrayLike, kernel_size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, output_size: int | Sequence[int] | None = None, *, out: NDArray | None = None) -> NDArray:
    """Zeros with the elements of x at the `indices` of max_pool_with_indices. `output_size`: spatial sizes; None: (L - 1) stride - 2 padding + kernel_size.

    The result's dtype: that of x.

    Differentiable."""

def max_unpool2d(x: ArrayLike, indices: ArrayLike, kernel_size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, output_size: int | Sequence[int] | None = None, *, out: NDArray | None = None) -> NDArray:
    """Zeros with the elements of x at the `indices` of max_pool_with_indices. `output_size`: spatial sizes; None: (L - 1) stride - 2 padding + kernel_size.

    The result's dtype: that of x.

    Differentiable."""

def max_unpool3d(x: ArrayLike, indices: ArrayLike, kernel_size: int | Sequence[int] = 2, stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, output_size: int | Sequence[int] | None = None, *, out: NDArray | None = None) -> NDArray:
    """Zeros with the elements of x at the `indices` of max_pool_with_indices. `output_size`: spatial sizes; None: (L - 1) stride - 2 padding + kernel_size.

    The result's dtype: that of x.

    Differentiable."""

def grid_sample(x: ArrayLike, grid: ArrayLike, mode: Literal['linear', 'nearest', 'cubic'] = 'linear', padding_mode: Literal['zeros', 'border', 'reflection'] = 'zeros', align_corners: bool = False, *, out: NDArray | None = None) -> NDArray:
    """x (N, C, H, W) or (N, C, D, H, W) at the places of grid (N, out..., 2 or 3): coordinates from -1 to 1 along the image, of the last axis first. cubic is for two axes.

    The result's dtype: that of x.

    Differentiable."""

def affine_grid(theta: ArrayLike, size: int | Sequence[int], align_corners: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The grid by which grid_sample transforms images of `size` (N, C, H, W) by theta (N, 2, 3), or volumes of (N, C, D, H, W) by theta (N, 3, 4).

    The result's dtype: that of theta.

    Differentiable."""

def embedding(weight: ArrayLike, indices: ArrayLike, sparse_grad: bool = False, padding_index: int | None = None, *, out: NDArray | None = None) -> NDArray:
    """The rows of weight (n, d...) at indices from 0 to n - 1, of any shape. With `sparse_grad` the gradient of weight is row-sparse. The row `padding_index` gets no gradient.

    The result's dtype: that of weight.

    Differentiable."""

def embedding_bag(weight: ArrayLike, indices: ArrayLike, offsets: ArrayLike | None = None, mode: Literal['sum', 'mean', 'max'] = 'mean', per_sample_weights: ArrayLike | None = None, sparse_grad: bool = False, padding_index: int | None = None, *, out: NDArray | None = None) -> NDArray:
    """Sums, means or maxima of rows of weight (n, d...): those at indices (bags, length), or at indices (total,) in bags that begin at `offsets` (bags,). per_sample_weights, for sum, has a factor for each index; indices equal to `padding_index` are left out.

    The result's dtype: that of weight.

    Differentiable."""

def linear(x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, relu: bool = False, *, out: NDArray | None = None) -> NDArray:
    """x (..., in) times the transpose of weight (out, in), plus bias (out): (..., out); then max(0, .) if `relu`.

    The result's dtype: that of x.

    Differentiable."""

def quantized_linear(x: ArrayLike, weight: ArrayLike, weight_scale: ArrayLike, input_scale: ArrayLike, input_zero_point: ArrayLike, bias: ArrayLike | None = None, relu: bool = False, *, out: NDArray | None = None) -> NDArray:
    """linear of x as u8, round(x / input_scale) + input_zero_point, with weight (out, in) of i8, which counts weight_scale (out).

    The result's dtype: f32."""

def quantized_conv1d(x: ArrayLike, weight: ArrayLike, weight_scale: ArrayLike, input_scale: ArrayLike, input_zero_point: ArrayLike, bias: ArrayLike | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] | Literal['same', 'valid'] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, relu: bool = False, *, out: NDArray | None = None) -> NDArray:
    """As conv1d, of x (N, C, L) as u8 with weight (O, C / groups, k) of i8; see quantized_linear.

    The result's dtype: f32."""

def quantized_conv2d(x: ArrayLike, weight: ArrayLike, weight_scale: ArrayLike, input_scale: ArrayLike, input_zero_point: ArrayLike, bias: ArrayLike | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] | Literal['same', 'valid'] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, relu: bool = False, *, out: NDArray | None = None) -> NDArray:
    """As conv2d, of x (N, C, H, W) as u8 with weight (O, C / groups, kh, kw) of i8; see quantized_linear.

    The result's dtype: f32."""

def quantized_conv3d(x: ArrayLike, weight: ArrayLike, weight_scale: ArrayLike, input_scale: ArrayLike, input_zero_point: ArrayLike, bias: ArrayLike | None = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] | Literal['same', 'valid'] = 0, dilation: int | Sequence[int] = 1, groups: int = 1, relu: bool = False, *, out: NDArray | None = None) -> NDArray:
    """As conv3d, of x (N, C, D, H, W) as u8 with weight (O, C / groups, kd, kh, kw) of i8; see quantized_linear.

    The result's dtype: f32."""

def dropout(x: ArrayLike, p: float = 0.5, training: bool = True, generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """Zeroes each element with probability p and multiplies the rest by 1 / (1 - p); x itself unless `training` and p > 0. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: that of x.

    Differentiable."""

def channel_dropout(x: ArrayLike, p: float = 0.5, training: bool = True, generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """As dropout, of whole channels of x (N, C, ...).

    The result's dtype: that of x.

    Differentiable."""

def alpha_dropout(x: ArrayLike, p: float = 0.5, training: bool = True, generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """As dropout, with selu's limit in the place of 0; keeps the mean 0 and the variance 1.

    The result's dtype: that of x.

    Differentiable."""

def feature_alpha_dropout(x: ArrayLike, p: float = 0.5, training: bool = True, generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """As alpha_dropout, of whole channels of x (N, C, ...).

    The result's dtype: that of x.

    Differentiable."""

def gaussian_dropout(x: ArrayLike, p: float = 0.5, training: bool = True, generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """x times normal numbers of mean 1 and standard deviation sqrt(p / (1 - p)); x itself unless `training`.

    The result's dtype: that of x.

    Differentiable."""

def gaussian_noise(x: ArrayLike, stddev: float = 1.0, training: bool = True, generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """x plus normal numbers with this standard deviation; x itself unless `training`.

    The result's dtype: that of x.

    Differentiable."""

def interpolate(x: ArrayLike, size: int | Sequence[int] | None = None, scale: float | None = None, mode: Literal['nearest', 'nearest-exact', 'linear', 'cubic', 'area'] = 'nearest', align_corners: bool = False, *, out: NDArray | None = None) -> NDArray:
    """x (N, C, ...) with one to three spatial axes, resampled to these sizes, or to floor(size * scale), by 2 if both are None. The nearest modes take any dtype, the others floating ones; cubic is for two axes.

    The result's dtype: that of x.

    Differentiable."""

def pixel_shuffle(x: ArrayLike, factor: int, *, out: NDArray | None = None) -> NDArray:
    """(..., C * factor^2, H, W) -> (..., C, H * factor, W * factor): channels fill blocks of pixels.

    The result's dtype: that of x.

    Differentiable."""

def pixel_unshuffle(x: ArrayLike, factor: int, *, out: NDArray | None = None) -> NDArray:
    """(..., C, H * factor, W * factor) -> (..., C * factor^2, H, W): the inverse of pixel_shuffle.

    The result's dtype: that of x.

    Differentiable."""

def softmax(x: ArrayLike, axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """exp(x) / sum(exp(x)) along `axis`.

    The result's dtype: that of x.

    Differentiable."""

def log_softmax(x: ArrayLike, axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """The logarithm of softmax(x, axis).

    The result's dtype: that of x.

    Differentiable."""

def cross_entropy(logits: ArrayLike, labels: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The mean over the rows of logits (..., C) of -log_softmax(logits)[label], with labels (...): a scalar.

    The result's dtype: that of logits.

    Differentiable."""

def layer_norm(x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, axes: int = 1, epsilon: float = 1e-05, *, out: NDArray | None = None) -> NDArray:
    """(x - mean) / sqrt(variance + epsilon) * weight + bias over the last `axes` axes.

    The result's dtype: that of x.

    Differentiable."""

def rms_norm(x: ArrayLike, weight: ArrayLike | None = None, axes: int = 1, epsilon: float = 1e-06, *, out: NDArray | None = None) -> NDArray:
    """x / sqrt(mean(x^2) + epsilon) * weight over the last `axes` axes.

    The result's dtype: that of x.

    Differentiable."""

def group_norm(x: ArrayLike, groups: int, weight: ArrayLike | None = None, bias: ArrayLike | None = None, epsilon: float = 1e-05, *, out: NDArray | None = None) -> NDArray:
    """Normalises x (N, C, ...) over each of `groups` parts of the channels of one element of the batch; weight, bias (C).

    The result's dtype: that of x.

    Differentiable."""

def batch_norm(x: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, epsilon: float = 1e-05) -> tuple[NDArray, ...]:
    """Normalises x (N, C, ...) over all axes but that of the channels; weight, bias (C). The result, and the mean and the variance of x, which have no gradient.

    The result's dtype: that of x.

    Differentiable."""

def batch_norm_with(x: ArrayLike, mean: ArrayLike, variance: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None, epsilon: float = 1e-05, *, out: NDArray | None = None) -> NDArray:
    """As batch_norm, with a mean and a variance (C) that are given, as in inference.

    The result's dtype: that of x.

    Differentiable."""

def einsum(equation: str, operands: Sequence[ArrayLike], *, out: NDArray | None = None) -> NDArray:
    """The sum of products that the equation names, such as 'ij,jk->ik' or '...ij->...ji'. A view of an operand alone of which nothing is summed.

    The result's dtype: common.

    Differentiable."""

def matmul(a: ArrayLike, b: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The matrix product, as NumPy's: leading axes are batches and broadcast; arrays of one axis are a row and a column.

    The result's dtype: common.

    Differentiable."""

def vecdot(a: ArrayLike, b: ArrayLike, axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """The sum of a * b along `axis`, of one size in both; the other axes broadcast.

    The result's dtype: common.

    Differentiable."""

def dot(a: ArrayLike, b: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The sum over the last axis of a and the last but one of b, or its only one; a scalar multiplies.

    The result's dtype: common.

    Differentiable."""

def inner(a: ArrayLike, b: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The sum over the last axes of a and b; a scalar multiplies.

    The result's dtype: common.

    Differentiable."""

def outer(a: ArrayLike, b: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """The products of each element of a with each of b: shape (a.size, b.size).

    The result's dtype: common.

    Differentiable."""

def kron(a: ArrayLike, b: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """Kronecker's product.

    The result's dtype: common.

    Differentiable."""

def cross(a: ArrayLike, b: ArrayLike, axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """The vector product along `axis`, of size 3 in both; the other axes broadcast.

    The result's dtype: common.

    Differentiable."""

def tensordot(a: ArrayLike, b: ArrayLike, axes: int | None = None, a_axes: int | Sequence[int] | None = None, b_axes: int | Sequence[int] | None = None, *, out: NDArray | None = None) -> NDArray:
    """The sum over the last `axes` axes of a and the first ones of b, 2 for None; or over axis a_axes[i] of a together with b_axes[i] of b.

    The result's dtype: common.

    Differentiable."""

def uniform(shape: int | Sequence[int], low: float = 0.0, high: float = 1.0, dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """Floating numbers that are uniform in [low, high). Drawn from `generator`, or for None from the thread's own.

    The result's dtype: `dtype`."""

def normal(shape: int | Sequence[int], mean: float = 0.0, std: float = 1.0, dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """Normal numbers with this mean and standard deviation. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: `dtype`."""

def bernoulli(shape: int | Sequence[int], p: float, dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """1 with probability p, else 0. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: `dtype`."""

def integers(shape: int | Sequence[int], low: int, high: int, dtype: DTypeLike = 'i64', device: DeviceLike = 'cpu(0)', generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """Integers that are uniform from low to high - 1. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: `dtype`."""

def permutation(n: int, device: DeviceLike = 'cpu(0)', generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """The numbers 0 to n - 1 in random order. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: i64."""

def exponential(shape: int | Sequence[int], scale: Operand | Sequence[Any] = 1.0, dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """Exponential numbers with the mean `scale`. Parameters are numbers, or arrays that broadcast to `shape`. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: `dtype`."""

def gamma(shape: int | Sequence[int], concentration: Operand | Sequence[Any], scale: Operand | Sequence[Any] = 1.0, dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """Numbers of the gamma distribution with the mean concentration * scale. Parameters are numbers, or arrays that broadcast to `shape`. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: `dtype`."""

def beta(shape: int | Sequence[int], a: Operand | Sequence[Any], b: Operand | Sequence[Any], dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """Numbers of the beta distribution with the mean a / (a + b). Parameters are numbers, or arrays that broadcast to `shape`. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: `dtype`."""

def poisson(shape: int | Sequence[int], rate: Operand | Sequence[Any], dtype: DTypeLike = 'i64', device: DeviceLike = 'cpu(0)', generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """How many events happen if `rate` are expected. Parameters are numbers, or arrays that broadcast to `shape`. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: `dtype`."""

def binomial(shape: int | Sequence[int], n: Operand | Sequence[Any], p: Operand | Sequence[Any], dtype: DTypeLike = 'i64', device: DeviceLike = 'cpu(0)', generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """How many of n trials succeed, each with probability p. Parameters are numbers, or arrays that broadcast to `shape`. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: `dtype`."""

def truncated_normal(shape: int | Sequence[int], mean: float = 0.0, std: float = 1.0, low: float = -2.0, high: float = 2.0, dtype: DTypeLike = 'f32', device: DeviceLike = 'cpu(0)', generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """Normal numbers that lie between low and high. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: `dtype`."""

def categorical(logits: ArrayLike, num_samples: int | None = None, generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """Indices into the last axis of logits (..., n), in proportion to exp(logits): shape (...), or (..., num_samples). Drawn from `generator`, or for None from the thread's own.

    The result's dtype: i64."""

def multinomial(weights: ArrayLike, num_samples: int, replacement: bool = False, generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """Indices into the last axis of weights (..., n), in proportion to them: shape (..., num_samples). Drawn from `generator`, or for None from the thread's own.

    The result's dtype: i64."""

def choice(x: Operand | Sequence[Any], shape: int | Sequence[int], replace: bool = True, p: ArrayLike | None = None, generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """Entries of x along axis 0, or numbers below a whole number x, with equal probabilities or in proportion to p. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: that of x; i64 for a number."""

def shuffle(x: ArrayLike, axis: int = 0, generator: Generator | None = None, *, out: NDArray | None = None) -> NDArray:
    """A copy of x with its entries along `axis` in random order. Drawn from `generator`, or for None from the thread's own.

    The result's dtype: that of x.

    Differentiable."""

def rnn(x: ArrayLike, weight_ih: ArrayLike, weight_hh: ArrayLike, bias_ih: ArrayLike | None = None, bias_hh: ArrayLike | None = None, h: ArrayLike | None = None, relu: bool = False, lengths: ArrayLike | None = None, reverse: bool = False, batch_first: bool = False) -> tuple[NDArray, ...]:
    """h = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh) over the steps of x (T, N, F), or (N, T, F) if `batch_first`; 0 behind `lengths` (N). All h, and the last (N, H).

    The result's dtype: that of x.

    Differentiable."""

def lstm(x: ArrayLike, weight_ih: ArrayLike, weight_hh: ArrayLike, bias_ih: ArrayLike | None = None, bias_hh: ArrayLike | None = None, h: ArrayLike | None = None, c: ArrayLike | None = None, lengths: ArrayLike | None = None, reverse: bool = False, batch_first: bool = False, weight_hr: ArrayLike | None = None, peepholes: ArrayLike | None = None) -> tuple[NDArray, ...]:
    """As rnn, with the gates i, f, g, o in weight_ih (4 H, F) and weight_hh (4 H, H): c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c). With a projection `weight_hr` (P, H), h = weight_hr of that, and weight_hh is (4 H, P). `peepholes` (3 H) times the cell state are added to i, f and o. All h, and the last h (N, H) or (N, P) and c (N, H).

    The result's dtype: that of x.

    Differentiable."""

def gru(x: ArrayLike, weight_ih: ArrayLike, weight_hh: ArrayLike, bias_ih: ArrayLike | None = None, bias_hh: ArrayLike | None = None, h: ArrayLike | None = None, lengths: ArrayLike | None = None, reverse: bool = False, batch_first: bool = False, reset_after: bool = True) -> tuple[NDArray, ...]:
    """As rnn, with the gates r, z, n in weight_ih (3 H, F) and weight_hh (3 H, H): n = tanh(x part + sigmoid(r) * h part), h = (1 - sigmoid(z)) n + sigmoid(z) h. Without `reset_after`, the h part of n is that of sigmoid(r) * h. All h, and the last (N, H).

    The result's dtype: that of x.

    Differentiable."""

def sum(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The sum along `axis`, an axis or several; None: all.

    The result's dtype: that of x; i64 for integers and bool, u64 for unsigned ones.

    Differentiable."""

def mean(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The mean along `axis`, an axis or several; None: all.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def max(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The largest element along `axis`, an axis or several; None: all.

    The result's dtype: that of x.

    Differentiable."""

def min(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The smallest element along `axis`, an axis or several; None: all.

    The result's dtype: that of x.

    Differentiable."""

def argmax(x: ArrayLike, axis: int | None = None, *, out: NDArray | None = None) -> NDArray:
    """The index of the first largest element along `axis`; None: in the flattened array.

    The result's dtype: i64."""

def argmin(x: ArrayLike, axis: int | None = None, *, out: NDArray | None = None) -> NDArray:
    """The index of the first smallest element along `axis`; None: in the flattened array.

    The result's dtype: i64."""

def row_sparse(rows: ArrayLike, values: ArrayLike, shape: int | Sequence[int]) -> RowSparse:
    """Zeros of `shape` (n, d...), plus values[i] at row rows[i]; values of equal rows are added up.

    The result's dtype: that of values."""

def retain(x: ArrayLike | RowSparse, rows: ArrayLike) -> RowSparse:
    """What x has at these rows, and 0 elsewhere.

    The result's dtype: that of x."""

def sum_row_sparse(arrays: Sequence[RowSparse]) -> RowSparse:
    """The sum of row-sparse arrays of one shape and dtype.

    The result's dtype: that of arrays."""

def scale(x: RowSparse, factor: float) -> RowSparse:
    """x * factor.

    The result's dtype: that of x."""

def to_dense(x: RowSparse, *, out: NDArray | None = None) -> NDArray:
    """The whole array, with its zeros.

    The result's dtype: that of x."""

def add_rows_(dense: ArrayLike, x: RowSparse) -> None:
    """dense += x, at the rows that x has."""

def cumsum(x: ArrayLike, axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """Sums along `axis` up to each element.

    The result's dtype: that of x; i64 for integers and bool, u64 for unsigned ones.

    Differentiable."""

def cumprod(x: ArrayLike, axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """Products along `axis` up to each element; beyond the range of f64 all are infinite or 0, as in NumPy.

    The result's dtype: that of x; i64 for integers and bool, u64 for unsigned ones.

    Differentiable."""

def cummax(x: ArrayLike, axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """The largest element along `axis` up to each element.

    The result's dtype: that of x.

    Differentiable."""

def cummin(x: ArrayLike, axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """The smallest element along `axis` up to each element.

    The result's dtype: that of x.

    Differentiable."""

def diff(x: ArrayLike, n: int = 1, axis: int = -1, *, out: NDArray | None = None) -> NDArray:
    """Differences of neighbours along `axis`, n times.

    The result's dtype: that of x.

    Differentiable."""

def tril(x: ArrayLike, k: int = 0, *, out: NDArray | None = None) -> NDArray:
    """x with 0 above the k-th diagonal of the last two axes.

    The result's dtype: that of x.

    Differentiable."""

def triu(x: ArrayLike, k: int = 0, *, out: NDArray | None = None) -> NDArray:
    """x with 0 below the k-th diagonal of the last two axes.

    The result's dtype: that of x.

    Differentiable."""

def diag(x: ArrayLike, k: int = 0, *, out: NDArray | None = None) -> NDArray:
    """Of one axis: a matrix with x on its k-th diagonal, 0 elsewhere. Of a matrix: its k-th diagonal, a view.

    The result's dtype: that of x.

    Differentiable."""

def diagonal(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, *, out: NDArray | None = None) -> NDArray:
    """The elements of two axes whose second index is the first one plus `offset`, along a new last axis. A view.

    The result's dtype: that of x.

    Differentiable."""

def matrix_trace(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, *, out: NDArray | None = None) -> NDArray:
    """The sum of a diagonal.

    The result's dtype: that of x; i64 for integers and bool, u64 for unsigned ones.

    Differentiable."""

def pad(x: ArrayLike, before: int | Sequence[int], after: int | Sequence[int] | None = None, mode: Literal['constant', 'edge', 'reflect', 'wrap'] = 'constant', value: float = 0.0, *, out: NDArray | None = None) -> NDArray:
    """x with before[i] entries in front of axis i and after[i] behind it, one number for all axes; None: as before. They are `value`, or the edge, or mirrored there, or from the other end.

    The result's dtype: that of x.

    Differentiable."""

def swapaxes(x: ArrayLike, axis1: int, axis2: int, *, out: NDArray | None = None) -> NDArray:
    """x with two axes exchanged. A view.

    The result's dtype: that of x.

    Differentiable."""

def moveaxis(x: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int], *, out: NDArray | None = None) -> NDArray:
    """x with axis source[i] at place destination[i], the others in their order. A view.

    The result's dtype: that of x.

    Differentiable."""

def flip(x: ArrayLike, axis: int | Sequence[int] | None = None, *, out: NDArray | None = None) -> NDArray:
    """x reversed along `axis`, an axis or several; None: all. A view.

    The result's dtype: that of x.

    Differentiable."""

def rot90(x: ArrayLike, k: int = 1, axes: int | Sequence[int] = (0, 1), *, out: NDArray | None = None) -> NDArray:
    """x after k quarter turns from the first of two axes to the second. A view.

    The result's dtype: that of x.

    Differentiable."""

def roll(x: ArrayLike, shift: int | Sequence[int], axis: int | Sequence[int] | None = None, *, out: NDArray | None = None) -> NDArray:
    """x with element i at place i + shift, around the end, along `axis`, an axis or several; None: of the flattened array.

    The result's dtype: that of x.

    Differentiable."""

def atleast_1d(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x, or of a scalar an array with one axis. A view.

    The result's dtype: that of x.

    Differentiable."""

def atleast_2d(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x with axes of size 1 in front, up to two axes. A view.

    The result's dtype: that of x.

    Differentiable."""

def atleast_3d(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x with axes of size 1 up to three axes: (n) becomes (1, n, 1) and (m, n) becomes (m, n, 1). A view.

    The result's dtype: that of x.

    Differentiable."""

def broadcast_arrays(arrays: Sequence[ArrayLike]) -> tuple[NDArray, ...]:
    """The arrays repeated to the shape that they broadcast to. Views.

    The result's dtype: that of arrays.

    Differentiable."""

def meshgrid(arrays: Sequence[ArrayLike], indexing: Literal['xy', 'ij'] = 'xy') -> tuple[NDArray, ...]:
    """Of arrays with one axis: array i varies along axis i of a grid; with 'xy' the first two axes are exchanged. Views.

    The result's dtype: that of arrays.

    Differentiable."""

def tile(x: ArrayLike, reps: int | Sequence[int], *, out: NDArray | None = None) -> NDArray:
    """x repeated reps[i] times along axis i.

    The result's dtype: that of x.

    Differentiable."""

def repeat(x: ArrayLike, repeats: Operand | Sequence[Any], axis: int | None = None, *, out: NDArray | None = None) -> NDArray:
    """Each entry along `axis` so many times; None: of the flattened array. The call waits for repeats in an array.

    The result's dtype: that of x.

    Differentiable."""

def reshape(x: ArrayLike, shape: int | Sequence[int], *, out: NDArray | None = None) -> NDArray:
    """The elements in row-major order in another shape, of which one dimension may be -1. A view of a contiguous x, else a copy.

    The result's dtype: that of x.

    Differentiable."""

def flatten(x: ArrayLike, from_axis: int = 1, *, out: NDArray | None = None) -> NDArray:
    """The axes from `from_axis` on as one. A view of a contiguous x, else a copy.

    The result's dtype: that of x.

    Differentiable."""

def transpose(x: ArrayLike, axes: int | Sequence[int] | None = None, *, out: NDArray | None = None) -> NDArray:
    """Axis i of the result is axis axes[i] of x; None: the axes reversed. A view.

    The result's dtype: that of x.

    Differentiable."""

def broadcast_to(x: ArrayLike, shape: int | Sequence[int], *, out: NDArray | None = None) -> NDArray:
    """x repeated to a larger shape. A view.

    The result's dtype: that of x.

    Differentiable."""

def expand_dims(x: ArrayLike, axis: int, *, out: NDArray | None = None) -> NDArray:
    """x with a new axis of size 1 at `axis`. A view.

    The result's dtype: that of x.

    Differentiable."""

def squeeze(x: ArrayLike, axis: int | Sequence[int] | None = None, *, out: NDArray | None = None) -> NDArray:
    """x without these axes, which have size 1; None: without all such. A view.

    The result's dtype: that of x.

    Differentiable."""

def slice(x: ArrayLike, axis: int, start: int | None = None, stop: int | None = None, step: int = 1, *, out: NDArray | None = None) -> NDArray:
    """x[start:stop:step] along `axis`, with Python's meaning. A view.

    The result's dtype: that of x.

    Differentiable."""

def concat(arrays: Sequence[ArrayLike], axis: int = 0, *, out: NDArray | None = None) -> NDArray:
    """Arrays one after another along an axis that they have.

    The result's dtype: common.

    Differentiable."""

def stack(arrays: Sequence[ArrayLike], axis: int = 0, *, out: NDArray | None = None) -> NDArray:
    """Arrays of one shape along a new axis.

    The result's dtype: common.

    Differentiable."""

def cast(x: ArrayLike, dtype: DTypeLike, *, out: NDArray | None = None) -> NDArray:
    """x as another dtype; x itself if it has it. A gradient passes between floating dtypes.

    The result's dtype: `dtype`.

    Differentiable."""

def contiguous(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """x itself if it is row-major without gaps, else a copy that is.

    The result's dtype: that of x.

    Differentiable."""

def copy(x: ArrayLike, *, out: NDArray | None = None) -> NDArray:
    """A contiguous copy.

    The result's dtype: that of x.

    Differentiable."""

def copy_to(x: ArrayLike, device: DeviceLike, *, out: NDArray | None = None) -> NDArray:
    """A contiguous copy on a device.

    The result's dtype: that of x.

    Differentiable."""

def split(x: ArrayLike, indices_or_sections: Operand | Sequence[Any], axis: int = 0) -> tuple[NDArray, ...]:
    """So many equal parts along `axis`, or the parts between the indices, for which the call waits. Views.

    The result's dtype: that of x.

    Differentiable."""

def chunk(x: ArrayLike, chunks: int, axis: int = 0) -> tuple[NDArray, ...]:
    """Parts of one size along `axis`, the last of which may be smaller; `chunks` of them or fewer. Views.

    The result's dtype: that of x.

    Differentiable."""

def unstack(x: ArrayLike, axis: int = 0) -> tuple[NDArray, ...]:
    """The entries along `axis`, without it. Views.

    The result's dtype: that of x.

    Differentiable."""

def searchsorted(sorted: ArrayLike, values: ArrayLike, right: bool = False, *, out: NDArray | None = None) -> NDArray:
    """Where each value would have to be inserted into an array with one axis that rises: before equal elements, or with `right` behind them.

    The result's dtype: i64."""

def isin(x: ArrayLike, elements: ArrayLike, invert: bool = False, *, out: NDArray | None = None) -> NDArray:
    """Which elements of x are among `elements`, or with `invert` which are not.

    The result's dtype: bool."""

def histogram(x: ArrayLike, bins: int = 10, low: float | None = None, high: float | None = None) -> tuple[NDArray, ...]:
    """How many elements are in bins of one width from low to high, None: from the smallest and to the largest element; and the edges of the bins.

    The result's dtype: i64; of the edges that of x, f64 of integers."""

def unique(x: ArrayLike, equal_nan: bool = True, *, out: NDArray | None = None) -> NDArray:
    """The distinct elements of the flattened array in rising order. The call waits for x.

    The result's dtype: that of x."""

def unique_all(x: ArrayLike, equal_nan: bool = True) -> tuple[NDArray, ...]:
    """The distinct elements, the index of the first of each, which of them each element of x is, and how often each comes. The call waits for x.

    The result's dtype: that of x; i64 of the others."""

def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, out: NDArray | None = None) -> NDArray:
    """How often each of 0, 1, 2, ... comes in x, or the sums of the weights there. The call waits for x.

    The result's dtype: i64; f64 with weights.

    Differentiable."""

def sort(x: ArrayLike, axis: int = -1, descending: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The elements along `axis` in rising order, or in falling order. NaN counts as the largest.

    The result's dtype: that of x.

    Differentiable."""

def argsort(x: ArrayLike, axis: int = -1, descending: bool = False, *, out: NDArray | None = None) -> NDArray:
    """Where the elements of sort() stand; equal ones stay in their order.

    The result's dtype: i64."""

def topk(x: ArrayLike, k: int, axis: int = -1, largest: bool = True) -> tuple[NDArray, ...]:
    """The k largest elements along `axis`, or the smallest ones, in order, and their indices in i64.

    The result's dtype: that of x; i64 of the indices.

    Differentiable."""

def kthvalue(x: ArrayLike, k: int, axis: int = -1, keepdims: bool = False) -> tuple[NDArray, ...]:
    """The k-th smallest element along `axis`, counted from 1, and its index in i64.

    The result's dtype: that of x; i64 of the index.

    Differentiable."""

def median(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The median along `axis`, an axis or several; None: all. NaN if any element is.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def quantile(x: ArrayLike, q: Operand | Sequence[Any], axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """What the fraction q of the elements along `axis` is below, between two elements in proportion; the axes of an array q come first. None: all axes. NaN if any element is.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def prod(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The product along `axis`, an axis or several; None: all. What leaves the range of f64 on the way is infinite or 0; the shape tells the order.

    The result's dtype: that of x; i64 for integers and bool, u64 for unsigned ones.

    Differentiable."""

def var(x: ArrayLike, axis: int | Sequence[int] | None = None, correction: float = 0.0, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The mean square distance from the mean, over n - correction, along `axis`, an axis or several; None: all.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def std(x: ArrayLike, axis: int | Sequence[int] | None = None, correction: float = 0.0, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The square root of var along `axis`, an axis or several; None: all.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def logsumexp(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """log(sum(exp(x))), without overflow, along `axis`, an axis or several; None: all.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def norm(x: ArrayLike, p: float = 2.0, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """(sum |x|^p)^(1/p) along `axis`, an axis or several; None: all.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def any(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """Whether any element is not 0, along `axis`, an axis or several; None: all.

    The result's dtype: bool."""

def all(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """Whether every element is not 0, along `axis`, an axis or several; None: all.

    The result's dtype: bool."""

def count_nonzero(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The number of elements that are not 0, along `axis`, an axis or several; None: all.

    The result's dtype: i64."""

def nansum(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The sum without NaN along `axis`, an axis or several; None: all.

    The result's dtype: that of x; i64 for integers and bool, u64 for unsigned ones.

    Differentiable."""

def nanmean(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The mean without NaN along `axis`, an axis or several; None: all.

    The result's dtype: that of x; f64 for integers and bool.

    Differentiable."""

def nanmax(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The largest element that is not NaN along `axis`, an axis or several; None: all.

    The result's dtype: that of x.

    Differentiable."""

def nanmin(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, out: NDArray | None = None) -> NDArray:
    """The smallest element that is not NaN along `axis`, an axis or several; None: all.

    The result's dtype: that of x.

    Differentiable."""
