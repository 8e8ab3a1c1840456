"""Reads digits and letters in recordings of several words, by CTC: examples/networks/spoken_words.cc in Python.

The utterances are random draws of recordings, with random gaps, speed, loudness and noise. Those held out are other draws of the
same recordings by the same speaker.
"""

import argparse
import pathlib
import sys

import numpy as np

import heddle
from heddle import data
from support import fit_options, run_example

RATE, FRAME, HOP, BANDS = 8000, 200, 80, 32  # frames of 25 ms that begin 10 ms apart
STRIDE = 3  # frames for a step of the network


def mel_bands() -> np.ndarray:
    """(waves, BANDS): triangles that overlap, as wide as the ear's."""
    places = 2595 * np.log10(1 + np.fft.rfftfreq(FRAME, 1 / RATE) / 700)
    lowest, highest = 2595 * np.log10(1 + 60 / 700), places[-1]
    places = (places - lowest) / (highest - lowest) * (BANDS + 1)
    bands: np.ndarray = np.maximum(0, 1 - np.abs(places[:, None] - np.arange(1, BANDS + 1)))
    return bands


class Utterances:
    """Examples (spectrogram (frames, BANDS), words (words)); word i of the recordings is i + 1. A dataset for a Loader."""

    window, mel = np.hanning(FRAME), mel_bands()

    def __init__(self, sounds: list[np.ndarray], size: int, seed: int, least: int, most: int) -> None:
        self.sounds, self.size, self.seed, self.least, self.most = sounds, size, seed, least, most

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        draw = np.random.default_rng((self.seed, index))
        words = draw.integers(0, len(self.sounds), draw.integers(self.least, self.most + 1))
        parts = [np.zeros(RATE // 10)]
        for word in words:
            sound = self.sounds[word]
            places = np.arange(0, len(sound) - 1, draw.uniform(0.85, 1.15))
            parts += [np.zeros(draw.integers(0, 3 * RATE // 10)), draw.uniform(0.5, 1) * np.interp(places, np.arange(len(sound)), sound)]
        samples = np.concatenate([*parts, np.zeros(RATE // 10)])
        samples += draw.uniform(0.001, 0.02) * draw.standard_normal(len(samples))
        frames = np.lib.stride_tricks.sliding_window_view(samples, FRAME)[::HOP]
        energy = 0.3 * np.log(np.abs(np.fft.rfft(frames * self.window)) ** 2 @ self.mel + 1e-6)
        return (energy - energy.mean(axis=0)).astype(np.float32), words + 1


def steps_of(frames: heddle.NDArray) -> heddle.NDArray:
    return (frames + (STRIDE - 1)) // STRIDE


class WordReader(heddle.Module):
    def __init__(self, words: int, features: int, layers: int, generator: heddle.Generator) -> None:
        super().__init__()
        self.conv = heddle.Conv1d(BANDS, features, 7, stride=STRIDE, padding=3, relu=True, generator=generator)
        self.gru = heddle.Gru(features, features, layers=layers, bidirectional=True, generator=generator)
        self.logits = heddle.Dense(2 * features, words + 1, init="xavier", generator=generator)

    def forward(self, spectrograms: heddle.NDArray, frames: heddle.NDArray) -> tuple[heddle.NDArray, heddle.NDArray]:
        """(batch, frames, BANDS), (batch) -> most probable words (batch, steps), padded with -1; (steps, batch, 1 + words)"""
        steps = steps_of(frames)
        seen = self.conv(spectrograms.transpose(0, 2, 1)).transpose(0, 2, 1)
        heard, _ = self.gru.run(seen, lengths=steps)
        log_probs = heddle.log_softmax(self.logits(heard).transpose(1, 0, 2))
        return heddle.ctc_greedy_decode(log_probs.detach(), steps)[0], log_probs


def loss_of(outputs: list[heddle.NDArray], labels: list[heddle.NDArray]) -> heddle.NDArray:
    """Labels: words, the numbers of frames and of words."""
    words, frames, lengths = labels
    return heddle.ctc_loss(outputs[1], words, steps_of(frames), lengths)


def run(options: argparse.Namespace) -> bool:
    files: list[pathlib.Path] = sorted(options.data.glob("*.wav"))
    recorded = [data.read_audio(file, mono=True, rate=RATE)[0].numpy() for file in files]
    loud = [np.flatnonzero(np.abs(sound) > 0.03 * np.abs(sound).max()) for sound in recorded]
    sounds = [sound[place[0] : place[-1] + 1] for sound, place in zip(recorded, loud, strict=True)]
    least, most = (1, 3) if options.quick else (2, 6)
    learn = Utterances(sounds, 400 if options.quick else 4000, 2 * options.seed, least, most)
    test = Utterances(sounds, 60 if options.quick else 500, 2 * options.seed + 1, least, most)
    arrays = (0, 2, 1, 2, 3)  # inputs: spectrograms, frames; labels: words, frames, numbers of words
    loader = data.Loader(learn, 8 if options.quick else 16, shuffle=True, seed=options.seed, pad=(0, -1), arrays=arrays)
    held_out = data.Loader(test, 32, pad=(0, -1), arrays=arrays)
    print(f"{len(sounds)} words; {len(learn)} utterances, {len(test)} more are held out")

    sizes = (48, 1) if options.quick else (96, 2)
    net = WordReader(len(sounds), *sizes, heddle.Generator(options.seed))
    epochs = options.epochs or (4 if options.quick else 6)
    rates = heddle.cosine_schedule(1e-2 if options.quick else 3e-3, epochs * len(loader), 1e-5)
    trainer = heddle.Trainer(net.parameters(), "adam", schedule=rates)
    metrics = [(heddle.EditDistance(), 0, "word_errors")]
    heddle.fit(
        net, trainer, loader, loss=loss_of, labels=3, metrics=metrics, epochs=epochs, validation=held_out, clip_norm=5.0,
        **fit_options(options),
    )  # fmt: skip

    errors = heddle.evaluate(net, held_out, metrics=metrics, labels=3)["word_errors"]
    net.train(False)
    for spectrogram, said in (test[i] for i in range(4)):
        with heddle.no_grad():
            heard = net(heddle.array(spectrogram[None]), heddle.array([len(spectrogram)]))[0][0].tolist()
        print("  " + " -> ".join(" ".join(files[word - 1].stem for word in words if word > 0) for words in (said, heard)))
    wanted = options.wanted or (0.5 if options.quick else 0.05)
    print(f"held out: word error rate {errors:.3f}\nwanted: at most {wanted:.3f}")
    return errors <= wanted


if __name__ == "__main__":
    sys.exit(run_example(run, __doc__, "words", "words"))
