"""Latencies of the models in tests/python/onnx_models: heddle.onnx beside onnxruntime, in one process, in turn.

    pip install onnx onnxruntime
    PYTHONPATH=build/release/python python bench/python/onnx_models.py

Prints the median of a call in microseconds: captured as a graph, operator by operator, by onnxruntime, and the ratio of the first and the last. Both have as many threads.
"""

import argparse
import pathlib
import time

import numpy as np
import onnxruntime

import heddle
import heddle.onnx

FOLDER = pathlib.Path(__file__).parents[2] / "tests/python/onnx_models"
SIZES = {"resnet": ((1, 0), (16, 0)), "lstm": ((1, 12), (16, 40)), "transformer": ((1, 12), (16, 40))}
ROUNDS = 5


def inputs_of(name, batch, length):
    random = np.random.default_rng(0)
    if name == "resnet":
        return [random.normal(size=(batch, 3, 64, 64)).astype(np.float32)]
    tokens, lengths = random.integers(0, 200, (batch, length)), random.integers(1, length + 1, batch)
    lengths[0] = length
    return [tokens, lengths if name == "lstm" else np.arange(length) >= lengths[:, None]]


def seconds(call, count):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def waited(model, inputs):
    for output in model.run(*inputs):
        output.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=40, help="calls in each of the rounds (default 40)")
    parser.add_argument("models", nargs="*", default=list(SIZES), help="default: all")
    arguments = parser.parse_args()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = heddle.current_engine().workers
    print(f"{'model':12} {'batch':>5} {'length':>6} {'captured':>9} {'eager':>9} {'onnxruntime':>11} {'ratio':>6}")
    for name in arguments.models:
        path = str(FOLDER / f"{name}.onnx")
        session = onnxruntime.InferenceSession(path, options)
        models = [heddle.onnx.load(path), heddle.onnx.load(path, capture=False)]
        for batch, length in SIZES[name]:
            inputs = inputs_of(name, batch, length)
            arrays = [heddle.array(x) for x in inputs]
            feed = {value.name: x for value, x in zip(session.get_inputs(), inputs, strict=True)}
            calls = [lambda model=model, arrays=arrays: waited(model, arrays) for model in models]
            calls.append(lambda session=session, feed=feed: session.run(None, feed))
            for computed, wanted in zip(models[0].run(*arrays), session.run(None, feed), strict=True):
                np.testing.assert_allclose(computed.numpy(), wanted, rtol=1e-3, atol=1e-4)
            times = [[], [], []]
            for round_ in range(ROUNDS + 1):
                for call, all_times in zip(calls, times, strict=True):
                    measured = seconds(call, arguments.calls)
                    all_times.extend(measured if round_ else [])  # the first round warms up
            medians = [np.median(one) * 1e6 for one in times]
            row = " ".join(f"{median:{width}.0f}" for median, width in zip(medians, (9, 9, 11), strict=True))
            print(f"{name:12} {batch:5} {length:6} {row} {medians[0] / medians[2]:6.2f}", flush=True)


if __name__ == "__main__":
    main()
