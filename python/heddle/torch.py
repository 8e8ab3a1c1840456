"""PyTorch's training on several ranks: gradients are reduced while autograd computes the next ones.

    import heddle.torch

    ranks = heddle.Communicator()
    heddle.torch.broadcast_parameters(model.state_dict(), ranks)
    optimizer = heddle.torch.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), ranks)

docs/python.md is the user's guide.
"""

import contextlib as _contextlib
import hashlib as _hashlib
import io as _io
import weakref as _weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as _numpy

import heddle as _heddle

try:
    import torch as _torch
    from torch.utils.dlpack import from_dlpack as _from_dlpack
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    raise ImportError(
        "heddle.torch needs PyTorch 1.13 or later: pip install torch, or Debian's package python3-torch"
    ) from _error

__all__ = ["DistributedOptimizer", "broadcast_optimizer_state", "broadcast_parameters"]

_DTYPES = {_torch.float32: "f32", _torch.float64: "f64", _torch.float16: "f16", _torch.bfloat16: "bf16"}


def _check_tensor(what: str, tensor: Any) -> None:
    if not isinstance(tensor, _torch.Tensor):
        raise _heddle.InvalidArgument(f"{what} is a {type(tensor).__name__}; want a tensor")
    if tensor.device.type not in ("cpu", "cuda"):
        raise _heddle.InvalidArgument(f"{what} is on {tensor.device}; heddle.torch takes tensors of the CPU and of CUDA")
    if tensor.layout != _torch.strided:
        raise _heddle.InvalidArgument(f"{what} has the layout {tensor.layout}; want a dense tensor")


def _is_on_host(tensor: _torch.Tensor) -> bool:
    """Whether ranks reach the tensor's memory. A tensor of a GPU is copied to such memory, and what was reduced back."""
    return tensor.device.type == "cpu"


def _check_alike(communicator: _heddle.Communicator, what: str, lines: Sequence[str]) -> None:
    """Raises InvalidArgument on all ranks if their lines differ."""
    digest = _hashlib.sha256("\n".join(lines).encode()).digest()
    digests = _heddle.empty(communicator.size, dtype="i64", device="cpu")
    own = _heddle.array([int.from_bytes(digest[:8], "little", signed=True)], dtype="i64", device="cpu")
    communicator.all_gather(own, digests)
    first, *_ = values = digests.tolist()
    others = ", ".join(str(rank) for rank, value in enumerate(values) if value != first)
    if others:
        raise _heddle.InvalidArgument(
            f"{what} of rank {others} differ from those of rank 0: names, shapes, dtypes, their order and all options "
            f"must be the same; rank {communicator.rank} has {len(lines)} entries, the first is {lines[:1]}"
        )


def _reduced_in_place(communicator: _heddle.Communicator, size: int, dtype: str) -> _heddle.NDArray:
    """Memory that the other ranks of the host reach; without room for that, any: it is copied for each reduction then."""
    try:
        return communicator.shared_array(size, dtype)
    except _heddle.OutOfMemory:
        return _heddle.empty(size, dtype, device="cpu")


class _Bucket:
    """Gradients that are reduced together: one array, of which each parameter's gradient on the CPU is a view."""

    def __init__(self, parameters: Sequence[_torch.Tensor], communicator: _heddle.Communicator) -> None:
        self.parameters = parameters
        total = sum(p.numel() for p in parameters)
        # Behind the gradients, one number for each parameter: 1 if this rank has a gradient of it, else 0. It
        # is reduced with the gradients, and then 0 if no rank has a gradient.
        self.array = _reduced_in_place(communicator, total + len(parameters), _DTYPES[parameters[0].dtype])
        memory = _from_dlpack(self.array)
        self.present = memory[total:]
        self.views = []
        begin = 0
        for p in parameters:
            # The strides of autograd's gradients: those of a dense parameter, also if its channels are last.
            strides = _torch.empty_like(p, device="meta").stride()
            self.views.append(memory.as_strided(p.shape, strides, begin))
            begin += p.numel()

    @_torch.no_grad()
    def collect(self) -> None:
        """Sets the memory to what the parameters' gradients are, and those on the CPU to views of it."""
        self.present.fill_(1)
        for i, (p, view) in enumerate(zip(self.parameters, self.views, strict=True)):
            if p.grad is None:
                view.zero_()
                self.present[i] = 0
            elif p.grad is not view:
                view.copy_(p.grad)
                if _is_on_host(p):
                    p.grad = view

    @_torch.no_grad()
    def deliver(self) -> None:
        """Gives this rank the reduced gradients of GPUs, and the gradients that only others have computed."""
        for i, (p, view) in enumerate(zip(self.parameters, self.views, strict=True)):
            if p.grad is None and self.present[i] > 0:
                p.grad = view if _is_on_host(p) else view.to(p.device, copy=True)
            elif p.grad is not None and not _is_on_host(p):
                p.grad.copy_(view)


def _in_buckets(
    parameters: Sequence[_torch.Tensor], limit: int, communicator: _heddle.Communicator
) -> list[_Bucket]:
    """The parameters from the last to the first, as their gradients are computed; each bucket has one dtype."""
    full: list[list[_torch.Tensor]] = []
    open_: dict[_torch.dtype, list[_torch.Tensor]] = {}
    for p in reversed(parameters):
        bucket = open_.setdefault(p.dtype, [])
        bucket.append(p)
        if sum(q.numel() * q.element_size() for q in bucket) >= limit:
            full.append(open_.pop(p.dtype))
    return [_Bucket(bucket, communicator) for bucket in [*full, *open_.values()]]


class _Gradients:
    """
    The buckets of one optimizer. Every rank reduces them in the same order, whatever the order of its gradients: a
    complete bucket waits for those before it.
    """

    def __init__(
        self,
        parameters: Sequence[_torch.Tensor],
        communicator: _heddle.Communicator,
        op: str,
        passes: int,
        bucket_bytes: int,
    ) -> None:
        self.communicator, self.op, self.passes = communicator, op, passes
        self.buckets = _in_buckets(parameters, bucket_bytes, communicator)
        self._bucket_of = {p: bucket for bucket in self.buckets for p in bucket.parameters}
        self._begin()
        self._hooks = [_call_after_gradient(p, _weakref.ref(self)) for p in self._bucket_of]
        _newest.update({id(p): self for p in self._bucket_of})

    def _begin(self) -> None:
        self._started = 0  # number of buckets whose reduction has been called
        self.reduced = False
        self._passes_left = dict.fromkeys(self._bucket_of, self.passes)
        self._incomplete = {bucket: len(bucket.parameters) for bucket in self.buckets}

    def restart(self) -> None:
        """Before the gradients of another step."""
        if self._started and not self.reduced:
            raise _heddle.Error(
                "zero_grad() after backward() and before step() or synchronize(): the gradients are being reduced"
            )
        self._begin()

    def computed(self, parameter: _torch.Tensor) -> None:
        """Autograd has added to the parameter's gradient."""
        _check_gradient(parameter)
        if self.reduced:
            raise _heddle.Error("backward() after synchronize(): call step() or the optimizer's zero_grad() first")
        if not self._passes_left[parameter]:
            raise _heddle.Error(
                f"more than {self.passes} backward() before step(): say DistributedOptimizer(..., "
                f"backward_passes_per_step=N) to add up the gradients of N calls"
            )
        self._passes_left[parameter] -= 1
        if self._passes_left[parameter]:
            return
        self._incomplete[self._bucket_of[parameter]] -= 1
        while self._started < len(self.buckets) and not self._incomplete[self.buckets[self._started]]:
            self._start_next()

    def _start_next(self) -> None:
        bucket = self.buckets[self._started]
        for p in bucket.parameters:
            _check_gradient(p)
        bucket.collect()
        self.communicator.all_reduce(bucket.array, op=self.op)
        self._started += 1

    def synchronize(self) -> None:
        """Blocks until all gradients are reduced. Gradients that this rank has not computed count as zeros."""
        if self.reduced:
            return
        while self._started < len(self.buckets):
            self._start_next()
        self.reduced = True
        failed = None
        for bucket in self.buckets:  # waits for all, so that no op uses the gradients after an error
            try:
                bucket.array.wait()
            except _heddle.Error as error:
                failed = failed or error
        if failed is not None:
            try:
                raise failed
            finally:
                del failed  # the exception keeps this frame, which must not keep the exception
        for bucket in self.buckets:
            bucket.deliver()

    def reduced_loss(self, loss: Any) -> Any:
        """The loss to which the reduced gradients belong, so that all ranks' optimizers decide alike."""
        if loss is None:
            return None
        value = _heddle.array([float(loss)], dtype="f64", device="cpu")
        self.communicator.all_reduce(value, op=self.op)
        if not isinstance(loss, _torch.Tensor):
            return value.item()
        return _torch.tensor(value.item(), dtype=loss.dtype, device=loss.device)

    def check(self, groups: Iterable[Mapping[str, Any]]) -> None:
        for p in _trained(groups):
            if p not in self._bucket_of:
                raise _heddle.InvalidArgument(
                    f"a parameter of shape {tuple(p.shape)} requires a gradient now, but was not there or frozen when "
                    f"DistributedOptimizer was called: make a new optimizer on all ranks"
                )


def _check_gradient(parameter: _torch.Tensor) -> None:
    if parameter.grad is not None and parameter.grad.layout != _torch.strided:
        raise _heddle.InvalidArgument(
            f"the gradient of a parameter of shape {tuple(parameter.shape)} is sparse, which heddle.torch does not "
            f"reduce: make the layer with sparse=False"
        )


# The newest owner of each parameter, by the parameter's id. Hooks of older owners do nothing: an optimizer
# that was replaced may live on, in the traceback of the error that made the program replace it.
_newest: "_weakref.WeakValueDictionary[int, _Gradients]" = _weakref.WeakValueDictionary()


def _call_after_gradient(parameter: _torch.Tensor, owner: "_weakref.ref[_Gradients]") -> object:
    """Tells the owner each time that autograd has added to the parameter's gradient."""

    def hook(*_: object) -> None:
        gradients = owner()
        if gradients is not None and _newest.get(id(parameter)) is gradients:
            gradients.computed(parameter)

    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(hook)
    # PyTorch before 2.1 has hooks on the node that adds to .grad, which the caller has to keep alive.
    with _torch.enable_grad():
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    node.register_hook(hook)
    return node


def _trained(groups: Iterable[Mapping[str, Any]]) -> list[_torch.Tensor]:
    return [p for group in groups for p in group["params"] if p.requires_grad]


class _Distributed:
    """What DistributedOptimizer adds to an optimizer's class."""

    _gradients: _Gradients
    _skips = False

    def zero_grad(self, *arguments: Any, **options: Any) -> None:
        self._gradients.restart()
        super().zero_grad(*arguments, **options)  # type: ignore[misc]

    def synchronize(self) -> None:
        """
        Blocks until all gradients are reduced: for what reads or changes them before step(), such as clipping.
        """
        self._gradients.check(self.param_groups)  # type: ignore[attr-defined]
        self._gradients.synchronize()

    @_contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """In the block step() takes the gradients as they are; synchronize() must have been called."""
        self._skips = True
        try:
            yield
        finally:
            self._skips = False

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Reduces the gradients, unless synchronize() has, and updates the parameters."""
        if closure is not None:
            result = super().step(lambda: self._evaluate(closure))  # type: ignore[misc]
        else:
            if self._skips and not self._gradients.reduced:
                raise _heddle.Error("step() in skip_synchronize() without synchronize() before it")
            self.synchronize()
            result = super().step()  # type: ignore[misc]
        self._gradients.restart()
        return result

    def _evaluate(self, closure: Callable[[], Any]) -> Any:
        self._gradients.restart()
        loss = closure()
        self.synchronize()
        return self._gradients.reduced_loss(loss)


def _check_optimizer(optimizer: Any, op: str, passes: int, bucket_bytes: int) -> list[_torch.Tensor]:
    """The parameters that are trained."""
    if not isinstance(optimizer, _torch.optim.Optimizer):
        kind = type(optimizer).__name__
        raise _heddle.InvalidArgument(f"DistributedOptimizer takes an optimizer of PyTorch; got {kind}")
    if isinstance(optimizer, _Distributed):
        raise _heddle.InvalidArgument("this optimizer comes from DistributedOptimizer already")
    if "step" in vars(optimizer):
        raise _heddle.InvalidArgument(
            "something has replaced the optimizer's step(), as learning-rate schedulers do: make the scheduler "
            "afterwards, of what DistributedOptimizer returns"
        )
    if op not in ("avg", "sum"):
        raise _heddle.InvalidArgument(f"op is {op!r}; want 'avg' or 'sum'")
    if passes < 1 or bucket_bytes < 1:
        raise _heddle.InvalidArgument("backward_passes_per_step and bucket_bytes are 1 or more")
    parameters = _trained(optimizer.param_groups)
    for i, p in enumerate(parameters):
        what = f"parameter {i}, of shape {tuple(p.shape)},"
        _check_tensor(what, p)
        if p.dtype not in _DTYPES:
            raise _heddle.InvalidArgument(f"{what} is of {p.dtype}; want float32, float64, float16 or bfloat16")
    return parameters


def DistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: _torch.optim.Optimizer,
    communicator: _heddle.Communicator,
    *,
    op: str = "avg",
    backward_passes_per_step: int = 1,
    bucket_bytes: int = 1 << 20,
) -> Any:
    """
    The optimizer, with a step() that first reduces the gradients over all ranks. All ranks call it alike.

    Hooks start the reduction of a bucket of gradients as soon as autograd has computed the last of them. From then
    on until step() or synchronize() the gradients must not be touched. A parameter without a gradient counts as
    zeros; if no rank has one, .grad stays None. step() raises heddle.Error if another rank has died.

    op: "avg", or "sum".
    backward_passes_per_step: so many backward() calls add up before the gradients are reduced.
    bucket_bytes: a bucket that has so many bytes is full.
    """
    parameters = _check_optimizer(optimizer, op, backward_passes_per_step, bucket_bytes)
    described = [f"{tuple(p.shape)} {p.stride()} {p.dtype}" for p in parameters]
    options = f"op={op}, backward_passes_per_step={backward_passes_per_step}, bucket_bytes={bucket_bytes}"
    _check_alike(communicator, "DistributedOptimizer: parameters", [*described, options])
    kind = type(optimizer)
    distributed: Any = object.__new__(type(f"Distributed{kind.__name__}", (_Distributed, kind), {}))
    vars(distributed).update(vars(optimizer))
    distributed._gradients = _Gradients(parameters, communicator, op, backward_passes_per_step, bucket_bytes)
    return distributed


def _bytes_of(tensor: _torch.Tensor) -> _heddle.NDArray:
    """The memory of a contiguous tensor: a broadcast does not care what the bytes mean."""
    return _heddle.from_dlpack(tensor.view(-1).view(_torch.uint8), copy=False)


@_torch.no_grad()
def broadcast_parameters(
    parameters: Mapping[str, _torch.Tensor] | Iterable[tuple[str, _torch.Tensor]],
    communicator: _heddle.Communicator,
    root: int = 0,
) -> None:
    """
    Sets the tensors to those of rank root: a model's state_dict() or named_parameters(). All ranks call it alike.
    """
    named = list(parameters.items() if isinstance(parameters, Mapping) else parameters)
    for name, tensor in named:
        _check_tensor(f"broadcast_parameters: {name}", tensor)
    described = [f"{name} {tuple(tensor.shape)} {tensor.dtype}" for name, tensor in named]
    _check_alike(communicator, "broadcast_parameters: tensors", [*described, f"root={root}"])
    sent = []
    for _, tensor in named:
        if tensor.numel():
            # The tensor's own memory, unless it is a GPU's or has gaps or other strides.
            dense = tensor.detach().contiguous() if _is_on_host(tensor) else tensor.detach().to("cpu", copy=True).contiguous()
            sent.append((tensor, dense, _bytes_of(dense)))
            communicator.broadcast(sent[-1][2], root)
    for tensor, dense, array in sent:
        array.wait()
        if dense.data_ptr() != tensor.data_ptr():
            tensor.copy_(dense)


def broadcast_optimizer_state(
    optimizer: _torch.optim.Optimizer, communicator: _heddle.Communicator, root: int = 0
) -> None:
    """
    Sets the optimizer's state and options, such as the learning rate, to those of rank root. All ranks call it.
    """
    buffer = _io.BytesIO()
    if communicator.rank == root:
        _torch.save(optimizer.state_dict(), buffer)
    size = _heddle.array([len(buffer.getvalue())], dtype="i64", device="cpu")
    communicator.broadcast(size, root)
    state = _heddle.empty(int(size.item()), dtype="u8", device="cpu")
    if communicator.rank == root:
        state.numpy()[:] = _numpy.frombuffer(buffer.getvalue(), dtype=_numpy.uint8)
    communicator.broadcast(state, root)
    state.wait()
    if communicator.rank != root:
        # PyTorch 1.13 cannot load numbers with weights_only. Ranks run one program and trust each other.
        # The optimizer moves the tensors to the GPUs of its own parameters.
        bytes_ = _io.BytesIO(state.numpy().tobytes())
        optimizer.load_state_dict(_torch.load(bytes_, map_location="cpu", weights_only=False))
