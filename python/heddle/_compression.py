"""After training: batch norms are folded, small weights become 0, products become those of 8-bit integers."""

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
    inference are the same but for rounding."""
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


def quantize(
    net: _heddle.Module,
    batches: _typing.Iterable[_heddle.NDArray | _typing.Sequence[_heddle.NDArray]],
    *,
    percentile: float = 100.0,
    max_error: float = float("inf"),
    skip: _typing.Sequence[str] = (),
) -> QuantizeReport:
    """Gives each Dense and convolution in a Sequential or a Model weights of 8 bits, in place. `batches`, inputs of the network, are
    what it is calibrated with: an array each, or a list of them for a network of several inputs. percentile: how much of the range of
    an input counts. max_error: layers with larger errors stay as they are. skip: paths of layers that do, too."""
    if isinstance(batches, _heddle.NDArray):
        raise TypeError("quantize: batches is an NDArray; want a list of batches")
    inputs = [[one] if isinstance(one, _heddle.NDArray) else list(one) for one in batches]
    return QuantizeReport(*_heddle._quantize(net, inputs, percentile, max_error, list(skip)))
