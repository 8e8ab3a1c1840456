"""heddle.step_memory(): which module takes how much memory. Trainer.step() with a scale that is an array. heddle.recompute(): the same
gradients without intermediate results."""

import pytest

import heddle


def test_rows_and_table():
    net = heddle.Sequential(heddle.Dense(64, 128), heddle.Dense(128, 10))
    trainer = heddle.Trainer(net.parameters(), optimizer="adam")
    x, y = heddle.ones((256, 64)), heddle.zeros((256,), dtype="i64")

    def step():
        heddle.cross_entropy(net(x), y).backward()
        trainer.step()

    memory = heddle.step_memory(net, trainer, step)
    assert [row.path for row in memory.rows] == ["", "0", "1"]
    whole, first, second = memory.rows
    assert first.parameters == first.gradients == 4 * (64 * 128 + 128)
    assert first.state == 2 * first.parameters + 16
    assert whole.activations == first.activations + second.activations
    assert first.activations >= 4 * 256 * 128 and second.activations >= 4 * 256 * 10
    assert memory.peak <= whole.activations + memory.others
    assert str(memory).startswith("module ") and "0: Dense(64, 128)" in str(memory)
    assert trainer.steps == 2


def test_step_memory_errors():
    net = heddle.Dense(2, 2)
    trainer = heddle.Trainer(net.parameters())
    with pytest.raises(TypeError, match="step_memory: trainer is a int; want a Trainer"):
        heddle.step_memory(net, 3, print)
    with pytest.raises(TypeError, match="step_memory: step is a int; want a function of nothing"):
        heddle.step_memory(net, trainer, 3)

    def fails():
        raise KeyError("fails")

    with pytest.raises(KeyError):
        heddle.step_memory(net, trainer, fails)


def test_a_scale_that_is_an_array():
    weight = heddle.ones((3,))
    weight.requires_grad = True
    trainer = heddle.Trainer([heddle.Parameter("weight", weight)], params={"lr": 1.0})
    for _ in range(2):
        (weight * 8).sum().backward()
        trainer.step(heddle.array([0.125]))
    assert weight.tolist() == [-1, -1, -1]
    weight.sum().backward()
    with pytest.raises(heddle.InvalidArgument, match="want one element of f32 or f64"):
        trainer.step(heddle.ones((2,)))


def gradients(wrap):
    heddle.manual_seed(3)
    layer = heddle.Sequential(heddle.Dense(8, 8), heddle.Dropout(0.4), heddle.BatchNorm(8), heddle.Dense(8, 4))
    x = heddle.normal((16, 8), generator=heddle.Generator(1))
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


class Head(heddle.Module):
    def __init__(self, again):
        super().__init__()
        self.layer = heddle.Dense(8, 8)
        self.again = again

    def forward(self, x):
        return heddle.recompute(self.layer)(x) if self.again else self.layer(x)


def test_in_a_module_that_computes_in_f32():
    def gradients_of_head(again):
        heddle.manual_seed(1)
        net = heddle.Sequential(heddle.Dense(8, 8), Head(again).autocast("f32")).autocast("bf16")
        net(heddle.ones((4, 8))).sum().backward()
        return [parameter.value.grad.tolist() for parameter in net.parameters()]

    assert gradients_of_head(True) == gradients_of_head(False)


def test_a_change_of_an_input_is_refused():
    weight = heddle.ones((3,))
    weight.requires_grad = True

    def function(x):
        x += 1
        return x * weight

    with pytest.raises(ValueError, match="the function changes input 0 in place"):
        heddle.recompute(function)(heddle.ones((3,)))
