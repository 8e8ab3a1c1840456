"""Makes the server's checkpoint: trains its network on Fashion-MNIST."""

import argparse
import gzip
import math
import pathlib
import sys

import numpy as np

import heddle
from model import PIXELS, make_net, to_input

EPILOG = """\
    apt install dataset-fashion-mnist       # or the four .gz files of https://github.com/zalandoresearch/fashion-mnist
    python train.py --out model.safetensors

An epoch takes some ten seconds on two cores and gives an accuracy of 0.88.
examples/train_fashion_mnist, in C++, has the same network, resumes, and shares the work among processes; the
server takes its checkpoints as well.
"""
BATCH = 64


def load_part(directory: pathlib.Path, part: str, limit: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Pictures u8 (n, 784) and labels u8 (n)."""
    with gzip.open(directory / f"{part}-images-idx3-ubyte.gz") as file:
        pictures = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, PIXELS)
    with gzip.open(directory / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return pictures[:limit], labels[:limit]


def train(net: heddle.Sequential, pictures: np.ndarray, labels: np.ndarray, epochs: int, seed: int) -> None:
    order = np.random.default_rng(seed)
    steps = epochs * math.ceil(len(labels) / BATCH)
    trainer = heddle.Trainer(
        net.parameters(),
        "sgd",
        {"momentum": 0.9, "weight_decay": 5e-4},
        schedule=lambda step: 0.05 * (1 - step / steps),
    )
    for epoch in range(epochs):
        shuffled = order.permutation(len(labels))
        for first in range(0, len(labels), BATCH):
            chosen = shuffled[first : first + BATCH]
            logits = net(heddle.array(to_input(pictures[chosen])))
            loss = heddle.cross_entropy(logits, heddle.array(labels[chosen]))
            loss.backward()
            trainer.step()
            if first % (100 * BATCH) == 0:  # reads the loss now and then: the wait keeps batches from piling up
                print(f"epoch {epoch + 1}, picture {first}: loss {loss.item():.3f}", flush=True)


def accuracy(net: heddle.Sequential, pictures: np.ndarray, labels: np.ndarray) -> float:
    net.train(False)
    right = 0
    with heddle.no_grad():
        for first in range(0, len(labels), 250):
            logits = net(heddle.array(to_input(pictures[first : first + 250])))
            right += int((logits.numpy().argmax(axis=1) == labels[first : first + 250]).sum())
    return right / len(labels)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist")
    )
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("model.safetensors"))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, help="only so many pictures, to try it out")
    options = parser.parse_args()
    try:
        parts = [load_part(options.data, part, options.limit) for part in ("train", "t10k")]
    except OSError as error:
        print(f"train.py: {error}\nGet the data with: apt install dataset-fashion-mnist", file=sys.stderr)
        return 1
    heddle.manual_seed(options.seed)
    net = make_net()
    train(net, *parts[0], options.epochs, options.seed)
    heddle.save_checkpoint(options.out, net.parameters())
    print(f"accuracy {accuracy(net, *parts[1]):.4f} on {len(parts[1][1])} pictures; wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
