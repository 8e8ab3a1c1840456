"""Products, convolutions, pooling and softmax."""
import itertools

import numpy as np

from numpy_case import DTYPES, FLOATS, Case, random, seen, strided


def products(rng):
    shapes = [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 3)), ((3, 4), (4,)), ((1, 1), (1, 1)), ((2, 3, 4), (4, 2)),
              ((3, 4), (5, 4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)), ((2, 0), (0, 3)),
              ((0, 3), (3, 2)), ((0, 2, 3), (3, 2)), ((130, 70), (70, 260)), ((64, 600), (600, 96))]
    for (a, b), dtype in itertools.product(shapes, DTYPES):
        x, y = random(rng, a, dtype, low=-1, high=1), random(rng, b, dtype, low=-1, high=1)
        yield Case("matmul", [x, y], np.matmul(x, y), scale=30.0)
    for x in strided(rng, (6, 8), np.float32):
        for y in strided(rng, (8, 4), np.float32):
            yield Case("matmul", [x, y], np.matmul(seen(x), seen(y)), scale=100.0)
    for a, b in itertools.product(DTYPES, DTYPES):
        x, y = random(rng, (3, 4), a), random(rng, (4, 2), b)
        yield Case("matmul", [x, y], np.matmul(x, y), scale=100.0)


def dense(rng):
    for shape, dtype, relu in itertools.product([(5, 7), (2, 3, 7), (7,), (0, 7), (90, 7)], FLOATS, [0, 1]):
        x, w, b = random(rng, shape, dtype), random(rng, (11, 7), dtype), random(rng, (11,), dtype)
        y = x @ w.T + b
        yield Case("linear", [x, w, b], np.maximum(y, 0) if relu else y, {"relu": relu}, scale=100.0)
        yield Case("linear", [x, w], x @ w.T, scale=100.0)


def windows(x, kernel, stride, padding, dilation, fill):
    """(N, C, OH, OW, kh, kw): the inputs of each output of a sliding window."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = kernel, stride, padding, dilation
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)), constant_values=fill)
    oh = (padded.shape[2] - dh * (kh - 1) - 1) // sh + 1
    ow = (padded.shape[3] - dw * (kw - 1) - 1) // sw + 1
    n, c, h, w = padded.strides
    return np.lib.stride_tricks.as_strided(padded, (*x.shape[:2], oh, ow, kh, kw),
                                           (n, c, h * sh, w * sw, h * dh, w * dw))


def convolve(x, weight, bias, stride, padding, dilation, groups, relu):
    wide = windows(x.astype(np.float64), weight.shape[2:], stride, padding, dilation, 0)
    parts = [np.einsum("nchwij,ocij->nohw", part, taps) for part, taps in
             zip(np.split(wide, groups, 1), np.split(weight.astype(np.float64), groups, 0))]
    y = np.concatenate(parts, 1)
    if bias is not None:
        y = y + bias[:, None, None]
    return (np.maximum(y, 0) if relu else y).astype(x.dtype)


def convolutions(rng):
    shapes = [((2, 3, 8, 9), 4, (3, 3)), ((1, 4, 5, 5), 6, (1, 1)), ((5, 2, 7, 6), 2, (2, 3)), ((0, 2, 6, 6), 2, (3, 3)),
              ((3, 6, 9, 9), 12, (3, 5)), ((9, 1, 28, 28), 8, (3, 3))]
    options = [((1, 1), (0, 0), (1, 1)), ((1, 1), (1, 1), (1, 1)), ((2, 1), (1, 2), (1, 1)), ((2, 3), (0, 1), (1, 1)),
               ((1, 1), (2, 2), (2, 1))]
    for (shape, outputs, kernel), (stride, padding, dilation), dtype in itertools.product(shapes, options, FLOATS):
        for groups in [g for g in (1, 2) if shape[1] % g == 0]:
            x = random(rng, shape, dtype)
            w = random(rng, (outputs, shape[1] // groups, *kernel), dtype)
            b = random(rng, (outputs,), dtype) if groups == 1 else None
            relu = int(stride != (1, 1))
            attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "relu": relu}
            yield Case("conv2d", [x, w] + ([] if b is None else [b]),
                       convolve(x, w, b, stride, padding, dilation, groups, relu), attributes, scale=300.0)
    for x in strided(rng, (4, 3, 6, 5), np.float32):
        w = random(rng, (2, 3, 3, 3), np.float32)
        yield Case("conv2d", [x, w], convolve(seen(x), w, None, (1, 1), (0, 0), (1, 1), 1, 0), scale=300.0)


def pool(name, x, kernel, stride, padding, include):
    if name == "max_pool2d":
        return windows(x, kernel, stride, padding, (1, 1), -np.inf).max((4, 5))
    total = windows(x.astype(np.float64), kernel, stride, padding, (1, 1), 0).sum((4, 5))
    if include:
        return (total / (kernel[0] * kernel[1])).astype(x.dtype)
    return (total / windows(np.ones(x.shape), kernel, stride, padding, (1, 1), 0).sum((4, 5))).astype(x.dtype)


def pooling(rng):
    shapes = [(2, 3, 8, 8), (1, 1, 7, 9), (0, 2, 4, 4), (3, 2, 28, 28)]
    options = [((2, 2), (2, 2), (0, 0)), ((3, 3), (2, 2), (1, 1)), ((2, 3), (1, 1), (1, 1)), ((3, 2), (3, 1), (0, 0))]
    for name, shape, (kernel, stride, padding), dtype in itertools.product(["max_pool2d", "avg_pool2d"], shapes,
                                                                           options, FLOATS):
        for include in (0, 1):
            x = random(rng, shape, dtype)
            attributes = {"kernel_size": kernel, "stride": stride, "padding": padding}
            if name == "avg_pool2d":
                attributes["count_include_pad"] = include
            yield Case(name, [x], pool(name, x, kernel, stride, padding, include), attributes, scale=4.0)
    for x in strided(rng, (4, 3, 6, 8), np.float32):
        yield Case("max_pool2d", [x], pool("max_pool2d", seen(x), (2, 2), (2, 2), (0, 0), 0))


def log_softmax(x, axis):
    wide = x.astype(np.float64)
    shifted = wide - wide.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def softmaxes(rng):
    for shape, dtype in itertools.product([(7,), (3, 10), (4, 1), (2, 3, 4), (60, 1000), (5, 300, 7)], FLOATS):
        for axis in range(-1, len(shape)):
            x = random(rng, shape, dtype, low=-20, high=20)
            yield Case("log_softmax", [x], log_softmax(x, axis).astype(dtype), {"axis": axis}, scale=10.0)
            yield Case("softmax", [x], np.exp(log_softmax(x, axis)).astype(dtype), {"axis": axis}, scale=1.0)
    for x in strided(rng, (6, 4, 8), np.float32):
        yield Case("softmax", [x], np.exp(log_softmax(seen(x), 1)).astype(np.float32), {"axis": 1}, scale=1.0)
    for dtype, labels in itertools.product(FLOATS, [np.int32, np.int64, np.uint8]):
        x, y = random(rng, (50, 12), dtype), rng.integers(0, 12, 50).astype(labels)
        loss = -log_softmax(x, 1)[np.arange(50), y].mean()
        yield Case("cross_entropy", [x, y], np.asarray(loss, dtype), scale=1.0)


def cases(rng):
    for group in (products, dense, convolutions, pooling, softmaxes):
        yield from group(rng)
