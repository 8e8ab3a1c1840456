"""After training: batch norms are folded, small weights become 0, products become those of 8-bit integers."""

import collections.abc as _abc
import typing as _typing

from heddle import _heddle


class FoldReport(_typing.NamedTuple):
    """What fold_batch_norms() has done: (norm, into) for each batch norm that became part of a layer, (norm, reason) for others."""

    folded: list[tuple[str, str]]
    kept: list[tuple[str, str]]
    text: str

    def __str__(self) -> str:
        return self.text


class PruningReport(_typing.NamedTuple):
    """(path, zeros, size) for each weight that is pruned."""

    rows: list[tuple[str, int, int]]
    text: str

    @property
    def sparsity(self) -> float:
        """The share of zeros in all rows together."""
        return sum(zeros for _, zeros, _ in self.rows) / max(1, sum(size for _, _, size in self.rows))

    def __str__(self) -> str:
        return self.text


class QuantizeReport(_typing.NamedTuple):
    """(path, layer, scale, zero_point, error) for each layer in 8 bits, (path, reason) for others, and the bytes of the state."""

    layers: list[tuple[str, str, float, int, float]]
    kept: list[tuple[str, str]]
    bytes_before: int
    bytes_after: int
    text: str

    def __str__(self) -> str:
        return self.text


def fold_batch_norms(net: _heddle.Module) -> FoldReport:
    """Makes the batch norms in each Sequential and Model part of the Dense or convolution before them, in place. The results in
    inference are the same but for rounding. Not while other threads call the network."""
    return FoldReport(*_heddle._fold_batch_norms(net))


class Pruning(_heddle._Pruning):
    """Weights of small magnitude become 0, and stay 0 while apply() follows each step. Thread-safe.

    sparsity: the share of the weights of Dense, convolutions and recurrent layers that becomes 0; with `whole` the smallest of all
    together, else of each. keep, of: of each `of` neighbours along the inputs the `keep` largest stay, in place of a sparsity. only:
    paths of parameters.
    """

    def report(self) -> PruningReport:
        """Counts the zeros of the weights; waits."""
        return PruningReport(*self._report())


def prune(
    net: _heddle.Module,
    sparsity: float = 0.5,
    whole: bool = True,
    keep: int = 0,
    of: int = 0,
    only: _typing.Sequence[str] = (),
) -> PruningReport:
    """As Pruning(...).report(), for a network that is not trained any more."""
    return PruningReport(*_heddle._Pruning(net, sparsity, whole, keep, of, only)._report())


def _is_array(value: object) -> bool:
    return isinstance(value, _heddle.NDArray) or hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def _array_in(value: _typing.Any, device: _heddle.Device | None) -> _heddle.NDArray:
    if not _is_array(value):
        raise TypeError(f"quantize: batches has a {type(value).__name__}; want arrays, or lists of them")
    return value if isinstance(value, _heddle.NDArray) else _heddle.asarray(value, device=device)


def quantize(
    net: _heddle.Module,
    batches: _abc.Iterable[_typing.Any],
    *,
    percentile: float = 100.0,
    max_error: float = float("inf"),
    skip: _typing.Sequence[str] = (),
) -> QuantizeReport:
    """Gives each Dense and convolution in a Sequential or a Model weights of 8 bits, in place. `batches`, inputs of the network, are
    what it is calibrated with: an array each, or a list of them for a network of several inputs. percentile: how much of the range of
    an input counts. max_error: layers with larger errors stay as they are. skip: paths of layers that do, too. Arrays may be NumPy's. Not while other
    threads call the network. Ctrl-C ends the call once a batch is done, and leaves the network as it was."""
    if _is_array(batches):
        raise TypeError(f"quantize: batches is an {type(batches).__name__}; want a list of batches")
    if not isinstance(batches, _abc.Iterable):
        raise TypeError(f"quantize: batches is a {type(batches).__name__}; want a list of batches")
    device = _heddle._place_of(net) if isinstance(net, _heddle.Module) else None
    inputs = [[_array_in(part, device) for part in (one if isinstance(one, (list, tuple)) else [one])] for one in batches]
    return QuantizeReport(*_heddle._quantize(net, inputs, percentile, max_error, list(skip)))
