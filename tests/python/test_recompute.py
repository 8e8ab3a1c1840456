"""heddle.recompute(): the same gradients without intermediate results."""

import pytest

import heddle


def gradients(wrap):
    heddle.manual_seed(3)
    layer = heddle.Sequential(heddle.Dense(8, 8), heddle.Dropout(0.4), heddle.BatchNorm(8), heddle.Dense(8, 4))
    x = heddle.Generator(1).normal((16, 8))
    x.requires_grad = True
    loss = (wrap(layer)(x) ** 2).sum()
    loss.backward()
    return [loss.item(), x.grad.tolist(), *(p.value.grad.tolist() for p in layer.parameters())], [
        one.value.tolist() for one in layer.state()
    ]


def test_modules_have_the_same_gradients_and_statistics():
    assert gradients(heddle.recompute) == gradients(lambda module: module)


def test_functions_of_several_arguments():
    calls = []

    def function(a, factor, b=None, *, flip=False):
        calls.append(flip)
        return a * b * factor, a + b

    results = []
    for used in (function, heddle.recompute(function)):
        a, b = heddle.array([1.0, 2.0]), heddle.array([3.0, 5.0])
        a.requires_grad = b.requires_grad = True
        first, second = used(a, 2, b=b, flip=True)
        (first * second).sum().backward()
        results.append((a.grad.tolist(), b.grad.tolist()))
    assert results[0] == results[1]
    assert calls == [True] * 3


def test_in_no_grad_it_just_runs():
    with heddle.no_grad():
        assert heddle.recompute(lambda x: x * 2)(heddle.array([1.0])).tolist() == [2]


def test_errors():
    with pytest.raises(TypeError, match="recompute: function is a int; want a module or a function of arrays"):
        heddle.recompute(3)
    with pytest.raises(TypeError, match="recompute: the function returned a str"):
        heddle.recompute(lambda x: "x")(heddle.array([1.0]))
    x = heddle.array([1.0])
    x.requires_grad = True
    outside = x * 2
    with pytest.raises(heddle.InvalidArgument, match="make it an input of the function"):
        heddle.recompute(lambda y: y * outside)(x)

    def fails(y):
        raise KeyError("mine")

    with pytest.raises(KeyError):
        heddle.recompute(fails)(x)
