"""The network that the server answers with: that of examples/train_fashion_mnist."""

import os
import pathlib

import numpy as np

import heddle

SIDE = 28
PIXELS = SIDE * SIDE
LABELS = [
    "T-shirt",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
]
MEAN, DEVIATION = 0.2860, 0.3530  # mean and standard deviation of the training set's pixels, scaled to 0 .. 1


def make_net() -> heddle.Sequential:
    return heddle.Sequential(
        heddle.Conv2d(1, 32, 3, padding=1, relu=True),
        heddle.MaxPool2d(2),
        heddle.Conv2d(32, 64, 3, padding=1, relu=True),
        heddle.MaxPool2d(2),
        heddle.Flatten(),
        heddle.Dense(64 * 7 * 7, 128, relu=True),
        heddle.Dropout(0.25),
        heddle.Dense(128, len(LABELS), init="xavier"),
    )


def to_input(pictures: np.ndarray) -> np.ndarray:
    """u8 (n, 784) -> the network's input, f32 (n, 1, 28, 28)."""
    scaled = pictures.astype(np.float32) * (1 / (255 * DEVIATION)) - MEAN / DEVIATION
    return scaled.reshape(-1, 1, SIDE, SIDE)


class Model:
    """The network with its weights, for inference."""

    def __init__(
        self, engine: heddle.Engine, checkpoint: str | os.PathLike[str] | None, seed: int = 0
    ) -> None:
        """Without a checkpoint the weights are random."""
        self._engine = engine
        with engine:
            heddle.manual_seed(seed)
            self._net = make_net()
            if checkpoint is not None:
                if not pathlib.Path(checkpoint).exists():
                    raise FileNotFoundError(
                        f"there is no checkpoint {checkpoint}; make one with train.py --out {checkpoint}"
                    )
                heddle.load_checkpoint(checkpoint, self._net.parameters())
            self._net.train(False)
            self.predict(np.zeros((1, PIXELS), np.uint8))  # fails here if the weights do not fit

    def predict(self, pictures: np.ndarray) -> np.ndarray:
        """u8 (n, 784) -> probabilities f32 (n, 10). Blocks; may be called inside an op."""
        with self._engine, heddle.no_grad():
            return heddle.softmax(self._net(heddle.array(to_input(pictures)))).numpy(copy=True)
