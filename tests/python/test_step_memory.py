"""heddle.step_memory(): which module takes how much memory. Trainer.step() with a scale that is an array."""

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
