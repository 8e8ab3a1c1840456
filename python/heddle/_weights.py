"""load_weights: weights of a network by their names."""

from __future__ import annotations

import collections.abc as _abc
import fnmatch as _fnmatch
import os as _os
import typing as _typing

from heddle import _errors, _heddle


class WeightReport(_typing.NamedTuple):
    """What load_weights left as it was."""

    missing: list[str]
    """Parameters for which there is no array."""
    unexpected: list[str]
    """Arrays for which there is no parameter; "head.bias, as 9.bias" if it was renamed."""
    other_shape: list[str]
    """As "0.weight: (3, 4), wanted (4, 3)"."""
    other_dtype: list[str]
    """Floating point in place of integers or bool, or the other way, as "0.weight: f32, wanted i8"."""

    @property
    def complete(self) -> bool:
        """Whether all weights fit."""
        return not (self.missing or self.unexpected or self.other_shape or self.other_dtype)

    def __str__(self) -> str:
        kinds = (
            ("missing", self.missing),
            ("unexpected", self.unexpected),
            ("of another shape", self.other_shape),
            ("of another dtype", self.other_dtype),
        )
        return "\n".join(f"{kind}: {name}" for kind, names in kinds for name in names) or "all weights fit"


def _is_ignored(name: str, ignore: _typing.Sequence[str]) -> bool:
    return any(_fnmatch.fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in ignore)


def _array_of(function: str, name: str, value: _typing.Any) -> _heddle.NDArray:
    if isinstance(value, _heddle.NDArray):
        return value
    try:
        if hasattr(value, "detach") and hasattr(value, "__dlpack__"):  # a tensor of PyTorch, bf16 too, of which NumPy knows nothing
            copied = _heddle.from_dlpack(value.detach().cpu().resolve_conj().resolve_neg(), copy=True)
            copied.wait()  # nothing orders changes of the tensor's memory behind the copy
            return copied
        return _heddle.asarray(value)
    except _errors.InvalidArgument as error:
        raise _errors.InvalidArgument(f"{function}: '{name}': {error}") from None
    except Exception as error:
        raise TypeError(f"{function}: '{name}' is a {type(value).__name__}, of which no array can be made: {error}") from error


def load_weights(
    parameters: _heddle.Module | _typing.Sequence[_heddle.Parameter],
    arrays: _typing.Mapping[str, _typing.Any] | str | _os.PathLike[str],
    *,
    rename: _typing.Mapping[str, str] | None = None,
    ignore: _typing.Sequence[str] = ("*num_batches_tracked",),
    strict: bool = False,
) -> WeightReport:
    """Gives each parameter the values of the array of its name, converted to its dtype; those in the report are left as they are.

    parameters: a network, all of whose parameters and buffers are loaded, or a list. arrays: arrays by their names, heddle's,
    NumPy's or PyTorch's (a state_dict), or a file .npz or .safetensors, which is mapped: only what is loaded is read, and an array
    of a dtype that heddle has not is in the report if it is wanted. rename: what stands in the network's names in place of names of
    the arrays, or of their beginnings up to a dot; the longest that fits counts: {"module": "", "module.fc": "9"}. An empty one
    puts its text and a dot before names that no other fits. ignore: arrays that are not wanted, with * and ?, before they are
    renamed. strict: an error with the report, before anything is changed, unless all fit.
    """
    function = "load_weights"
    if isinstance(parameters, _heddle.Module):
        parameters = parameters.state()
    for parameter in parameters:
        if not isinstance(parameter, _heddle.Parameter):
            raise TypeError(f"{function}: parameters has a {type(parameter).__name__}; want Parameters")
    unreadable: dict[str, str] = {}
    if isinstance(arrays, (str, bytes, _os.PathLike)):
        is_npz = _os.fsencode(arrays).endswith(b".npz")
        if is_npz:
            arrays = _heddle.load_npz(arrays)
        else:
            arrays, unreadable = _heddle._map_weights(arrays)
    if not isinstance(arrays, _abc.Mapping):
        raise TypeError(f"{function}: arrays is a {type(arrays).__name__}; want a dict of arrays, or the path of a file")
    names = {} if rename is None else rename
    if not isinstance(names, _abc.Mapping) or not all(isinstance(one, str) for pair in names.items() for one in pair):
        raise TypeError(f"{function}: rename is {rename!r}; want a dict of texts")
    if isinstance(ignore, str) or not all(isinstance(one, str) for one in ignore):
        raise TypeError(f"{function}: ignore is {ignore!r}; want a list of texts")
    if not isinstance(strict, bool):
        raise TypeError(f"{function}: strict is a {type(strict).__name__}; want a bool")
    unused = _heddle.zeros(0)  # for what is ignored, which need not be an array
    given: dict[str, _heddle.NDArray] = {}
    for name, one in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"{function}: arrays has a {type(name).__name__} as a name; want texts")
        given[name] = unused if _is_ignored(name, ignore) else _array_of(function, name, one)
    return WeightReport(*_heddle._load_weights(list(parameters), given, dict(names), list(ignore), strict, unreadable))
