#!/usr/bin/env python3
"""Images a second from a folder of PNG files, beside PyTorch's DataLoader.

    PYTHONPATH=build/release/python build/venv-torch-new/bin/python bench/python/data_loader.py [--images 4096]

Batches are read, and nothing else is computed. Images are random crops with padding, flipped half the time and normalised: f32
(3, 64, 64). PyTorch's DataLoader runs with each number of worker processes that is named, and the best one counts. Where torchvision is
installed its decoder and transforms are used, else PyTorch's Dataset decodes by heddle.data.decode_image, and changes images by
tensors' own operations. Rounds alternate; each figure is the best of --rounds.
"""

import argparse
import os
import pathlib
import struct
import tempfile
import time
import zlib

import numpy as np
import torch

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def png_of(pixels):
    """A PNG file of u8 (H, W, 3) whose rows have the filter `sub`, as encoders choose it for photographs."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width, _ = pixels.shape
    left = np.concatenate([np.zeros((height, 1, 3), np.uint8), pixels[:, :-1]], 1)
    rows = b"".join(b"\1" + row.tobytes() for row in pixels - left)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        (chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    )


def write_images(folder, count, side):
    """Smooth images with some noise, of ten classes."""
    rng = np.random.default_rng(1)
    y, x = (axis[..., None] for axis in np.mgrid[0:side, 0:side])
    for i in range(count):
        waves = np.sin((x * rng.uniform(0.02, 0.2, 3) + y * rng.uniform(0.02, 0.2, 3)) + rng.uniform(0, 6, 3))
        pixels = np.clip(127 + 100 * waves + rng.normal(0, 4, (side, side, 3)), 0, 255).astype(np.uint8)
        place = folder / f"class{i % 10}"
        place.mkdir(exist_ok=True)
        (place / f"{i:06}.png").write_bytes(png_of(pixels))


class TorchFolder(torch.utils.data.Dataset):
    """The same images by PyTorch's own operations."""

    def __init__(self, paths, labels, side, decode):
        self.paths, self.labels, self.side, self.decode = paths, labels, side, decode
        self.mean, self.std = (torch.tensor(v).reshape(3, 1, 1) for v in (MEAN, STD))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            image = self.decode(file.read())
        image = torch.nn.functional.pad(image, (4, 4, 4, 4))
        top, left = torch.randint(0, 9, (2,)).tolist()
        image = image[:, top : top + self.side, left : left + self.side]
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        return (image.float() / 255 - self.mean) / self.std, self.labels[index]


def decode_by_torchvision(file):
    from torchvision.io import decode_image

    return decode_image(torch.frombuffer(bytearray(file), dtype=torch.uint8))


def decode_by_heddle(file):
    from heddle.data import decode_image

    return torch.from_numpy(decode_image(file).numpy())


def torch_decoder():
    try:
        import torchvision  # noqa: F401

        return "torchvision", decode_by_torchvision
    except ImportError:
        return "heddle.data.decode_image", decode_by_heddle


def torch_seconds(loader):
    begin = time.perf_counter()
    for images, labels in loader:
        assert images.shape[1] == 3
    return time.perf_counter() - begin


def heddle_seconds(loader):
    begin = time.perf_counter()
    for images, labels in loader:
        images.wait()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=4096)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    options = parser.parse_args()
    from heddle import data

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_images(folder, options.images, options.side)
        side = options.side
        images = data.ImageFolder(folder, size=side)
        change = data.Augmentation(padding=4, crop=side, flip=0.5, mean=MEAN, std=STD)
        ours = data.Loader(images, batch=options.batch, shuffle=True, augment=change)
        decoder, decode = torch_decoder()
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0))))
        theirs = {
            workers: torch.utils.data.DataLoader(
                TorchFolder(images.paths, images.labels, side, decode),
                batch_size=options.batch,
                shuffle=True,
                num_workers=workers,
                persistent_workers=workers > 0,
                multiprocessing_context="spawn" if workers else None,
            )
            for workers in options.workers
        }
        best = {}
        for round_number in range(options.rounds + 1):  # the first one starts processes and fills the page cache
            figures = {"heddle": heddle_seconds(ours), **{w: torch_seconds(loader) for w, loader in theirs.items()}}
            if round_number:
                best = {key: min(value, best.get(key, value)) for key, value in figures.items()}
        print(f"{options.images} images {side} x {side}, batches of {options.batch}; PyTorch decodes by {decoder}")
        for key, seconds in best.items():
            label = "heddle" if key == "heddle" else f"PyTorch {torch.__version__}, {key} workers"
            print(f"{label:40} {options.images / seconds:10.0f} images/s")
        fastest = min(value for key, value in best.items() if key != "heddle")
        print(f"ratio {fastest / best['heddle']:.2f}")


if __name__ == "__main__":
    main()
