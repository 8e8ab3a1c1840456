"""Convolution and pooling."""

import numpy as np

import heddle

from .table import Case, F, operator


def _sizes(d, axes, low, high):
    return [d.integer(low, high) for _ in range(axes)]


def _window(d, axes):
    """Sizes of an image, and of a kernel, strides and padding that fit it."""
    kernel, stride, padding, dilation = (_sizes(d, axes, low, high) for low, high in ((1, 3), (1, 3), (0, 2), (1, 2)))
    most = d.pick(6, 6, 6, 6, 20 if axes < 3 else 8)
    image = [max(d.integer(1, most), (k - 1) * e + 1 - 2 * p) for k, p, e in zip(kernel, padding, dilation)]
    return image, kernel, stride, padding, dilation


def _batch(d):
    return 0 if d.chance(1 / 40) else d.integer(1, 3)


def convolution(name, axes):
    @operator(name)
    def _(d):
        image, kernel, stride, padding, dilation = _window(d, axes)
        groups, more, wide = d.pick(1, 1, 2, 3), d.integer(1, 2), d.pick(*[1] * 11, 8)
        channels, outputs = groups * d.integer(1, 2) * wide, groups * more * wide
        if d.chance(0.2):  # depthwise
            groups, channels, outputs = channels, channels, channels * more
        x = d.floats((_batch(d), channels, *image), -1, 1)
        weight = d.floats((outputs, channels // groups, *kernel), -1, 1)
        bias = d.floats((outputs,), -1, 1) if d.chance(0.5) else None
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if axes == 1:
            options = {key: value[0] if isinstance(value, list) else value for key, value in options.items()}
        bend = d.chance(0.25)
        flag = {"relu": bend} if bend else {}

        def theirs(x, w, b):
            y = getattr(F, name)(x, w, b, **options)
            return F.relu(y) if bend else y

        return Case([x, weight, bias], lambda x, w, b: getattr(heddle, name)(x, w, b, **options, **flag), theirs)


def same_convolution(name, axes):
    """Padding by the word."""

    @operator(f"{name}_same", needs="conv3d")
    def _(d):
        image, kernel = _sizes(d, axes, 1, 6), _sizes(d, axes, 1, 4)
        dilation = d.integer(1, 2)
        channels, outputs, word = d.integer(1, 2), d.integer(1, 3), d.pick("same", "same", "valid")
        if word == "valid":
            image = [max(i, dilation * (k - 1) + 1) for i, k in zip(image, kernel)]
        arrays = [d.floats((_batch(d), channels, *image), -1, 1), d.floats((outputs, channels, *kernel), -1, 1)]
        return Case(arrays, lambda x, w: getattr(heddle, name)(x, w, padding=word, dilation=dilation),
                    lambda x, w: getattr(F, name)(x, w, padding=word, dilation=dilation))  # fmt: skip


def transposed_convolution(name, axes):
    @operator(name)
    def _(d):
        kernel, stride, dilation = _sizes(d, axes, 1, 3), _sizes(d, axes, 1, 3), _sizes(d, axes, 1, 2)
        extra = [d.integer(0, s - 1) for s in stride]
        image = _sizes(d, axes, 1, 4)
        # At least one row is left.
        whole = [(i - 1) * s + e * (k - 1) + 1 + o for i, s, e, k, o in zip(image, stride, dilation, kernel, extra)]
        padding = [d.integer(0, max(0, min(2, (w - 1) // 2))) for w in whole]
        groups = d.pick(1, 1, 2)
        wide = d.pick(*[1] * 11, 8)
        channels, outputs = groups * d.integer(1, 2) * wide, d.integer(1, 2) * wide
        x = d.floats((_batch(d), channels, *image), -1, 1)
        weight = d.floats((channels, outputs, *kernel), -1, 1)
        bias = d.floats((outputs * groups,), -1, 1) if d.chance(0.5) else None
        options = {"stride": stride, "padding": padding, "output_padding": extra, "dilation": dilation, "groups": groups}
        if axes == 1:
            options = {key: value[0] if isinstance(value, list) else value for key, value in options.items()}
        return Case([x, weight, bias], lambda x, w, b: getattr(heddle, name)(x, w, b, **options),
                    lambda x, w, b: getattr(F, name)(x, w, b, **options))  # fmt: skip


def pooling(name, axes):
    @operator(name)
    def _(d):
        kernel = _sizes(d, axes, 1, 3)
        padding = [d.integer(0, k // 2) for k in kernel]
        # PyTorch's avg_pool3d wants images as large as its windows.
        image = [max(d.integer(1, 6), k if name == "avg_pool3d" else k - 2 * p) for k, p in zip(kernel, padding)]
        options = {"stride": _sizes(d, axes, 1, 3) if d.chance(0.7) else None, "padding": padding}
        if name.startswith("avg"):
            options["count_include_pad"] = d.chance(0.5)
        if axes == 1:
            options = {key: value[0] if isinstance(value, list) else value for key, value in options.items()}
            kernel = kernel[0]
        x = d.floats((_batch(d), d.integer(1, 3), *image), special=(0.0, 1.0))
        return Case([x], lambda x: getattr(heddle, name)(x, kernel, **options), lambda x: getattr(F, name)(x, kernel, **options))


def rounded_up_pooling(name, axes):
    """With windows that end beyond the image, and of max_pool with dilation."""

    @operator(f"{name}_rounded_up", needs=f"{name}(ceil_mode)")
    def _(d):
        kernel, dilation = _sizes(d, axes, 1, 3), _sizes(d, axes, 1, 2) if name.startswith("max") else [1] * axes
        padding = [d.integer(0, k // 2) for k in kernel]
        image = [d.integer(e * (k - 1) + 1, 7) for k, e in zip(kernel, dilation)]
        options = {"stride": _sizes(d, axes, 1, 3), "padding": padding, "ceil_mode": True}
        options |= {"dilation": dilation} if name.startswith("max") else {"count_include_pad": d.chance(0.5)}
        if axes == 1:
            options = {key: value[0] if isinstance(value, list) else value for key, value in options.items()}
            kernel = kernel[0]
        x = d.floats((d.integer(1, 3), d.integer(1, 3), *image), special=(0.0, 1.0))
        return Case([x], lambda x: getattr(heddle, name)(x, kernel, **options), lambda x: getattr(F, name)(x, kernel, **options))


def pooling_with_indices(name, axes):
    @operator(f"{name}_with_indices")
    def _(d):
        kernel, dilation = _sizes(d, axes, 1, 3), _sizes(d, axes, 1, 2)
        options = {"stride": _sizes(d, axes, 1, 3), "padding": [d.integer(0, k // 2) for k in kernel], "dilation": dilation}
        image = [d.integer(e * (k - 1) + 1, 7) for k, e in zip(kernel, dilation)]
        options["ceil_mode"] = d.chance(0.5)
        if axes == 1:
            options = {key: value[0] if isinstance(value, list) else value for key, value in options.items()}
            kernel = kernel[0]
        x = d.floats((d.integer(1, 3), d.integer(1, 3), *image), special=(0.0, 1.0))
        return Case([x], lambda x: getattr(heddle, f"{name}_with_indices")(x, kernel, **options),
                    lambda x: getattr(F, name)(x, kernel, **options, return_indices=True))  # fmt: skip


def unpooling(name, axes):
    """With an index in the window of each element."""

    @operator(name)
    def _(d):
        kernel, sizes = _sizes(d, axes, 1, 3), _sizes(d, axes, 1, 4)
        shape = (d.integer(1, 2), d.integer(1, 2), *sizes)
        whole = [n * k + d.integer(0, k - 1) for n, k in zip(sizes, kernel)] if d.chance(0.5) else None
        index = 0
        for axis, (n, k) in enumerate(zip(sizes, kernel)):
            along = np.arange(n).reshape([-1 if a == axis else 1 for a in range(axes)]) * k + d.integers(shape, 0, k - 1)
            index = index * (whole[axis] if whole else n * k) + along
        window = kernel if axes > 1 else kernel[0]
        size = whole if whole is None or axes > 1 else whole[0]
        return Case([d.floats(shape), index.astype(np.int64)],
                    lambda x, i: getattr(heddle, name)(x, i, window, output_size=size),
                    lambda x, i: getattr(F, name)(x, i, window, output_size=whole))  # fmt: skip


def adaptive_pooling(name, axes):
    @operator(name)
    def _(d):
        size = _sizes(d, axes, 1, 4) if axes > 1 else d.integer(1, 4)
        x = d.floats((d.integer(1, 2), d.integer(1, 3), *_sizes(d, axes, 1, 6)), special=(0.0, 1.0))
        return Case([x], lambda x: getattr(heddle, name)(x, size), lambda x: getattr(F, name)(x, size))


for _axes in (1, 2, 3):
    convolution(f"conv{_axes}d", _axes)
    same_convolution(f"conv{_axes}d", _axes)
    transposed_convolution(f"conv_transpose{_axes}d", _axes)
    pooling(f"max_pool{_axes}d", _axes)
    pooling(f"avg_pool{_axes}d", _axes)
    rounded_up_pooling(f"max_pool{_axes}d", _axes)
    rounded_up_pooling(f"avg_pool{_axes}d", _axes)
    pooling_with_indices(f"max_pool{_axes}d", _axes)
    unpooling(f"max_unpool{_axes}d", _axes)
    adaptive_pooling(f"adaptive_max_pool{_axes}d", _axes)
    adaptive_pooling(f"adaptive_avg_pool{_axes}d", _axes)
