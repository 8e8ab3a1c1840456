"""Learns to write English, character by character, with two LSTM layers: examples/networks/text_lstm.cc in Python."""

import argparse
import math
import sys
from collections.abc import Sequence

import numpy as np

import heddle
from heddle import data
from support import fit_options, run_example


class CharacterLstm(heddle.Module):
    def __init__(self, alphabet: int, features: int, generator: heddle.Generator) -> None:
        super().__init__()
        self.embedding = heddle.Embedding(alphabet, features // 4, stddev=0.3, generator=generator)
        self.lstm = heddle.Lstm(features // 4, features, layers=2, dropout=0.2, generator=generator)
        self.logits = heddle.Dense(features, alphabet, init="xavier", generator=generator)

    def forward(self, numbers: heddle.NDArray) -> heddle.NDArray:
        """(batch, length) -> (batch, length, alphabet)"""
        logits: heddle.NDArray = self.logits(self.lstm(self.embedding(numbers)))
        return logits

    def write(self, numbers: heddle.NDArray, count: int, temperature: float, generator: heddle.Generator) -> heddle.NDArray:
        """Goes on with (1, any), each character drawn from the logits divided by the temperature. Nothing waits here."""
        written: list[heddle.NDArray] = [numbers]
        states: Sequence[heddle.NDArray] = ()
        for _ in range(count):
            output, *states = self.lstm.run(self.embedding(written[-1]), *states)
            logits = self.logits(output[:, -1])
            written.append(heddle.categorical(logits / temperature, generator=generator).reshape(1, 1))
        return heddle.concat(written, axis=1)


def loss_of(logits: heddle.NDArray, following: heddle.NDArray) -> heddle.NDArray:
    """The mean cross entropy of all characters, in nats."""
    return heddle.cross_entropy(logits.reshape(-1, logits.shape[-1]), following.reshape(-1))


def letters_alone(numbers: Sequence[int]) -> float:
    """Bits a character of a model that knows how frequent each one is, and no more."""
    counts = np.bincount(numbers)
    shares = counts[counts > 0] / len(numbers)
    return float(-(shares * np.log2(shares)).sum())


def run(options: argparse.Namespace) -> bool:
    text = options.data.read_text(encoding="utf-8")
    text = text[:60_000] if options.quick else text
    length, features, batch = (32, 64, 8) if options.quick else (128, 256, 32)
    alphabet = data.Vocabulary.of_characters(text)
    numbers = alphabet.encode(text)
    cut = len(numbers) * 9 // 10
    learn, test = (data.SequenceDataset(np.array(part), length, stride=length) for part in (numbers[:cut], numbers[cut:]))
    print(f"{len(text)} characters, of {len(alphabet)} kinds; {len(learn)} examples, {len(test)} more are held out")

    net = CharacterLstm(len(alphabet), features, heddle.Generator(options.seed))
    loader = data.Loader(learn, batch, shuffle=True, seed=options.seed, drop_last=True)
    held_out = data.Loader(test, batch)
    epochs = options.epochs or (4 if options.quick else 8)
    rates = heddle.cosine_schedule(1e-2 if options.quick else 3e-3, epochs * len(loader), 1e-5)
    trainer = heddle.Trainer(net.parameters(), "adam", schedule=rates)
    heddle.fit(
        net, trainer, loader, loss=loss_of, epochs=epochs, validation=held_out, clip_norm=1.0, capture=True, **fit_options(options)
    )

    net.train(False)
    with heddle.no_grad():
        for temperature in (0.5, 0.8, 1.0):
            start = heddle.array([alphabet.encode("The ")])
            written = net.write(start, 60 if options.quick else 300, temperature, heddle.Generator(options.seed))
            print(f"--- temperature {temperature}\n{alphabet.decode(written[0].tolist())}")
    bits = heddle.evaluate(net, held_out, loss=loss_of)["loss"] / math.log(2)
    wanted = options.wanted or (3.4 if options.quick else 2.3)
    print(f"held out: {bits:.3f} bits a character; {letters_alone(numbers[cut:]):.3f} by the frequency of letters alone")
    print(f"wanted: at most {wanted:.3f} bits")
    return bits <= wanted


if __name__ == "__main__":
    sys.exit(run_example(run, __doc__, "text.txt", "text"))
