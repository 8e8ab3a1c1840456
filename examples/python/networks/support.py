"""What the networks of this folder share: options, and main() around a function."""

import argparse
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import heddle

DATA = pathlib.Path(__file__).parents[2] / "networks" / "data"


def run_example(run: Callable[[argparse.Namespace], bool], text: str | None, name: str, collected_by: str) -> int:
    """Parses the command line and calls `run`. The exit status: 0 done, 1 not good enough, 2 bad options or data."""
    parser = argparse.ArgumentParser(description=text, epilog=f"The data of a full run: examples/networks/data/collect.py {collected_by} {name}")
    parser.add_argument("--quick", action="store_true", help="a short run on small data, which shows that all works")
    parser.add_argument("--data", type=pathlib.Path, help=f"what to learn from [{name}; with --quick a small part of it]")
    parser.add_argument("--epochs", type=int, default=0, help="passes over the data; 0: as many as the full run needs")
    parser.add_argument("--seed", type=int, default=1, help="of weights, order and noise: one seed, one result")
    parser.add_argument("--wanted", type=float, default=0, help="end with status 1 if the result is worse; 0: that of docs/examples.md")
    parser.add_argument("--logdir", help="write records for TensorBoard into this folder")
    parser.add_argument("--save", help="write a checkpoint to this file after each epoch and at Ctrl-C; go on from it if it is there")
    options = parser.parse_args()
    options.data = options.data or (DATA / name if options.quick else pathlib.Path(name))
    if not options.data.exists():
        parser.error(f"{options.data}: no such file or folder; {parser.epilog}")
    heddle.manual_seed(options.seed)  # of dropout
    return 0 if run(options) else 1


class TensorBoard(heddle.Callback):
    """Writes the values of each epoch where TensorBoard finds them."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.writer = heddle.SummaryWriter(folder)

    def on_epoch_end(self, run: heddle.FitRun, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.scalar(name, value, run.step)


def fit_options(options: argparse.Namespace) -> dict[str, Any]:
    """What the options ask of fit() besides epochs."""
    callbacks: list[heddle.Callback] = [TensorBoard(options.logdir)] if options.logdir else []
    if options.save:
        callbacks.append(heddle.ModelCheckpoint(options.save))
    return {"callbacks": callbacks, "seed": options.seed, "resume": options.save or ""}
