"""fit, evaluate and predict: training loops for arrays, loaders, and what can be iterated over."""

import collections.abc as _abc
import operator as _operator
import os as _os
import signal as _signal
import threading as _threading
import types as _types
import typing as _typing

from heddle import _errors, _heddle

_Array = _typing.Any  # what array() takes: an NDArray, or a NumPy array
_Data = _typing.Any  # arrays {x, y}, an object with start(), next() and size(), or an iterable of batches


class History(dict[str, list[float]]):
    """The values of each epoch by name; `epochs` are their numbers, `stopped` says why the training ended early."""

    epochs: list[int]
    interrupted: bool
    stopped: str

    def __init__(self, values: dict[str, list[float]], epochs: list[int], interrupted: bool, stopped: str) -> None:
        super().__init__(values)
        self.epochs = epochs
        self.interrupted = interrupted
        self.stopped = stopped


def _once(function: str, source: object) -> str:
    return (
        f"{function}: the data are a {type(source).__name__}, which cannot be begun anew for each epoch; "
        f"want a list, a loader or an object whose __iter__ begins anew"
    )


_END = object()


def _arrays_of(function: str, batch: object) -> _typing.Any:
    """A list or tuple of arrays: a batch that has none would end the epoch."""
    if isinstance(batch, (list, tuple)) and batch:
        return batch
    if batch is None or isinstance(batch, (list, tuple)):
        raise _errors.InvalidArgument(f"{function}: a batch of the data is {batch!r}; want arrays")
    return [batch]


class _Iterated:
    """Batches of an iterable, which each epoch begins anew."""

    def __init__(self, function: str, source: _typing.Iterable[_typing.Any]) -> None:
        self._function = function
        self._source = source
        self._batches: _typing.Iterator[_typing.Any] = iter(())

    def size(self) -> int:
        try:
            return len(self._source)  # type: ignore[arg-type]
        except TypeError:
            return -1

    def start(self, epoch: int, first: int) -> None:
        if hasattr(self._source, "set_epoch"):
            self._source.set_epoch(epoch)
        self._batches = iter(self._source)
        if self._batches is self._source:
            raise _errors.InvalidArgument(_once(self._function, self._source))
        for _ in range(first):
            if next(self._batches, _END) is _END:
                break

    def next(self) -> _typing.Sequence[_Array] | None:
        batch = next(self._batches, _END)
        return None if batch is _END else _arrays_of(self._function, batch)


class _Started:
    """Batches of an object with start(), and next() or __next__(), such as a loader."""

    def __init__(self, function: str, source: _typing.Any) -> None:
        self._function = function
        self._source = source
        self.start = source.start

    def size(self) -> int:
        if hasattr(self._source, "size"):
            return int(self._source.size() if callable(self._source.size) else self._source.size)
        return len(self._source) if hasattr(self._source, "__len__") else -1

    def next(self) -> _typing.Sequence[_Array] | None:
        if not hasattr(self._source, "next"):
            batch = next(self._source, _END)
            return None if batch is _END else _arrays_of(self._function, batch)
        batch = self._source.next()
        return batch if batch is None or isinstance(batch, (list, tuple)) else [batch]


def _is_array(one: object) -> bool:
    return hasattr(one, "shape") and hasattr(one, "dtype")


def _data(function: str, data: _Data) -> _typing.Any:
    """A list of arrays, an object of batches, or None."""
    if data is None:
        return None
    if _is_array(data):
        return [data]
    if isinstance(data, (list, tuple)) and data and all(_is_array(one) for one in data):
        return list(data)
    if hasattr(data, "start") and (hasattr(data, "next") or hasattr(data, "__next__")):
        return _Started(function, data)
    if isinstance(data, _abc.Iterator):
        raise _errors.InvalidArgument(_once(function, data))
    if hasattr(data, "__iter__") and not isinstance(data, (str, bytes, dict)):
        return _Iterated(function, data)
    raise TypeError(f"{function}: the data are a {type(data).__name__}; want a tuple of arrays, a loader or an iterable of batches")


def _loss(function: str, loss: _typing.Any) -> _typing.Any:
    """None, a function of all outputs and labels, or a list of (name or function, weight)."""
    if loss is None or callable(loss):
        return loss
    if isinstance(loss, str):
        return [(loss, 1.0)]
    if not isinstance(loss, (list, tuple)):
        raise TypeError(f"{function}: loss is a {type(loss).__name__}; want a name, a function, or a list with one for each output")
    terms = []
    for one in loss:
        pair = one if isinstance(one, (list, tuple)) else (one, 1.0)
        if len(pair) != 2 or not (isinstance(pair[0], str) or callable(pair[0])):
            raise TypeError(f"{function}: a loss is {one!r}; want a name or a function, or (name or function, weight)")
        terms.append((pair[0], pair[1]))
    return terms


def _metrics(function: str, metrics: _typing.Any) -> list[tuple[_typing.Any, int, str]]:
    """(name or Metric, output, name of the value) for each."""
    if isinstance(metrics, (str, _heddle.Metric)):
        metrics = [metrics]
    all_of = []
    for one in metrics:
        given = one if isinstance(one, (list, tuple)) else (one,)
        if not 1 <= len(given) <= 3 or not isinstance(given[0], (str, _heddle.Metric)):
            raise TypeError(f"{function}: a metric is {one!r}; want a name or a Metric, or (name or Metric, output, name)")
        all_of.append((given[0], given[1] if len(given) > 1 else 0, given[2] if len(given) > 2 else ""))
    return all_of


def _names(function: str, outputs: _typing.Sequence[str]) -> list[str]:
    if isinstance(outputs, str) or not all(isinstance(one, str) for one in outputs):
        raise TypeError(f"{function}: outputs is {outputs!r}; want a list of names")
    return list(outputs)


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "epochs": ((int,), "an int"),
    "batch": ((int,), "an int"),
    "seed": ((int,), "an int"),
    "labels": ((int,), "an int"),
    "accumulate": ((int,), "an int"),
    "inputs": ((int,), "an int"),
    "shuffle": ((bool,), "a bool"),
    "stop_on_nan": ((bool,), "a bool"),
    "resume_stopped": ((bool,), "a bool"),
    "capture": ((bool, type(None)), "a bool or None"),
    "clip_norm": ((int, float), "a float"),
    "clip_value": ((int, float), "a float"),
    "generators": ((dict,), "a dict of Generators"),
    "notes": ((dict,), "a dict of texts"),
}


def _check(function: str, name: str, value: _typing.Any) -> _typing.Any:
    """The value, an integer of NumPy as an int."""
    if name not in _KINDS:
        return value
    kinds, wanted = _KINDS[name]
    if int in kinds and not isinstance(value, (bool, float)) and hasattr(value, "__index__"):
        value = _operator.index(value)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError(f"{function}: {name} is a {type(value).__name__}; want {wanted}")
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**31) <= value < 2**31 and name != "seed":
        raise _errors.InvalidArgument(f"{function}: {name} is {value}; want an int of 32 bits")
    if name == "notes" and not all(isinstance(one, str) for pair in _typing.cast("dict[str, str]", value).items() for one in pair):
        raise TypeError(f"{function}: notes has something else than texts")
    return value


class _Interrupts:
    """Notes Ctrl-C, so that no callback, loss or data of Python is left within a step. A second Ctrl-C raises at once."""

    current: "_Interrupts | None" = None  # that of a fit() around a fit()

    def __init__(self) -> None:
        self.noted = False

    def __enter__(self) -> "_Interrupts":
        if _Interrupts.current is not None and _threading.current_thread() is _threading.main_thread():
            return _Interrupts.current
        if (
            _threading.current_thread() is _threading.main_thread() and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
        ):
            _signal.signal(_signal.SIGINT, self._note)
            _Interrupts.current = self
        return self

    def __exit__(self, *exception: object) -> None:
        if _Interrupts.current is self:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
            _Interrupts.current = None
            if self.noted and exception[0] is None:
                raise KeyboardInterrupt

    def _note(self, number: int, frame: "_types.FrameType | None") -> None:
        if self.noted:
            _signal.default_int_handler(number, frame)
        self.noted = True

    def check(self) -> None:
        if self.noted:
            raise KeyboardInterrupt


def fit(
    net: _heddle.Module,
    trainer: _heddle.Trainer,
    data: _Data,
    *,
    loss: _typing.Any,
    metrics: _typing.Any = (),
    epochs: int = 1,
    validation: _Data = None,
    callbacks: _typing.Sequence[_heddle.Callback] = (),
    verbose: bool = True,
    batch: int = 32,
    shuffle: bool = True,
    seed: int = 0,
    outputs: _typing.Sequence[str] = (),
    labels: int = -1,
    accumulate: int = 1,
    clip_norm: float = 0.0,
    clip_value: float = 0.0,
    capture: bool | None = None,
    stop_on_nan: bool = True,
    resume: str | _os.PathLike[str] = "",
    resume_stopped: bool = False,
    save_on_interrupt: str | _os.PathLike[str] = "",
    generators: dict[str, _heddle.Generator] | None = None,
    notes: dict[str, str] | None = None,
) -> History:
    """Trains a network. `data` has batches with the inputs first and then the labels: arrays (x, y), of which batches are cut, a
    loader, or an iterable of batches that can be begun anew.

    loss: the name of an operator, such as cross_entropy; a function of (output, label); or a list with one for each output, each
    perhaps as (loss, weight). metrics: names, Metrics, or (metric, output). capture: None for layers of the library alone, True, or
    False. resume: a checkpoint of a former fit(); a file that is missing is a beginning, and {epoch} or {step} in its name
    stands for the newest one; within an epoch batches, loss and metrics have to be those of the run that was saved. A run that
    run.stop() has ended counts as finished, unless resume_stopped is set. Ctrl-C saves as callbacks and `save_on_interrupt` say, and
    raises KeyboardInterrupt after a step. Gradients from before a step, or of what the trainer does not train, count in no step.
    """
    all_callbacks = list(callbacks)
    if verbose and not any(isinstance(one, _heddle.Progress) for one in all_callbacks):
        all_callbacks.insert(0, _heddle.Progress())
    options: dict[str, _typing.Any] = {
        "epochs": epochs,
        "batch": batch,
        "shuffle": shuffle,
        "seed": seed,
        "outputs": _names("fit", outputs),
        "labels": labels,
        "accumulate": accumulate,
        "clip_norm": clip_norm,
        "clip_value": clip_value,
        "capture": capture,
        "stop_on_nan": stop_on_nan,
        "resume": resume,
        "resume_stopped": resume_stopped,
        "save_on_interrupt": save_on_interrupt,
        "generators": {} if generators is None else generators,
        "notes": {} if notes is None else notes,
    }
    options = {name: _check("fit", name, value) for name, value in options.items()}
    for key, value in options["generators"].items():
        if not isinstance(value, _heddle.Generator):
            raise TypeError(f"fit: generators has a {type(value).__name__} under {key!r}; want Generators")
    if not 0 <= options["seed"] < 2**64:
        raise _errors.InvalidArgument(f"fit: seed is {options['seed']}; want 0 to 2**64 - 1")
    if not isinstance(trainer, _heddle.Trainer):
        raise TypeError(f"fit: trainer is a {type(trainer).__name__}; want a Trainer")
    with _Interrupts() as interrupts:
        options["check_interrupt"] = interrupts.check
        values, numbers, interrupted, stopped = _heddle._fit(
            net, trainer, _data("fit", data), _data("fit", validation), _loss("fit", loss), _metrics("fit", metrics), all_callbacks, options
        )
    return History(values, numbers, interrupted, stopped)


def evaluate(
    net: _heddle.Module,
    data: _Data,
    *,
    loss: _typing.Any = None,
    metrics: _typing.Any = (),
    batch: int = 32,
    outputs: _typing.Sequence[str] = (),
    labels: int = -1,
) -> dict[str, float]:
    """The loss and metrics of all batches, as fit() takes them, in inference and without gradients."""
    batch = _check("evaluate", "batch", batch)
    labels = _check("evaluate", "labels", labels)
    return _heddle._evaluate(
        net, _data("evaluate", data), _loss("evaluate", loss), _metrics("evaluate", metrics), batch, _names("evaluate", outputs), labels
    )


def predict(net: _heddle.Module, data: _Data, *, batch: int = 32, inputs: int = -1) -> _typing.Any:
    """The network's output for all batches, one below the other; a list of them if it has several. `inputs`: how many first arrays
    of a batch are inputs; -1: as many as the network has."""
    batch = _check("predict", "batch", batch)
    inputs = _check("predict", "inputs", inputs)
    outputs = _heddle._predict(net, _data("predict", data), batch, inputs)
    return outputs[0] if len(outputs) == 1 else outputs
