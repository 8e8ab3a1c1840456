"""Hooks, the search for NaN, operators whose gradient is written in Python, and generators that are split."""

import gc
import threading
import weakref

import heddle
import numpy as np
import pytest


def leaf(values, dtype="f64"):
    x = heddle.array(values, dtype=dtype)
    x.requires_grad = True
    return x


def cube(x, seen=None):
    with heddle.no_grad():
        y = x * x * x
    kept = heddle.save_for_backward(x)

    def gradient(g):
        if seen is not None:
            seen.append(g)
        return [g * kept * kept * 3]

    return heddle.record("cube", y, [x], gradient, saved=[kept])


def test_an_operator_of_ones_own():
    x, seen = leaf([1, 2, 3]), []
    y = cube(x, seen)
    assert y.requires_grad and y.tolist() == [1, 8, 27] and not seen
    for _ in range(2):
        heddle.sum(cube(x, seen)).backward()
    assert x.grad.tolist() == [6, 24, 54]
    assert [g.tolist() for g in seen] == [[1, 1, 1]] * 2
    first = heddle.grad(heddle.sum(cube(x)), x, create_graph=True)[0]
    second = heddle.grad(heddle.sum(first), x, create_graph=True)[0]
    third = heddle.grad(heddle.sum(second), x)[0]
    assert first.tolist() == [3, 12, 27] and second.tolist() == [6, 12, 18] and third.tolist() == [6, 6, 6]
    with heddle.no_grad():
        assert not cube(x).requires_grad
    assert not cube(heddle.ones(2)).requires_grad


def test_an_operator_of_several_inputs_that_keeps_what_it_returns():
    a, b, kept = leaf([1.0, 2.0]), leaf([3.0, 4.0]), heddle.ones(2, dtype="f64")

    def first_only(g):
        return kept, None

    for _ in range(3):
        with heddle.no_grad():
            y = a + b
        heddle.sum(heddle.record("first", y, (a, b), first_only)).backward()
    assert a.grad.tolist() == [3, 3] and b.grad is None and kept.tolist() == [1, 1]


def test_numpy_computes_an_operator():
    x = leaf([0.25, 0.5])
    with heddle.no_grad():
        y = heddle.array(np.arctanh(x.detach().numpy()))
    of_x = heddle.save_for_backward(x)
    y = heddle.record("arctanh", y, [x], lambda g: g / (1 - of_x * of_x), saved=[of_x])
    heddle.sum(y).backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 / (1 - np.array([0.25, 0.5]) ** 2))


def recorded(gradient, inputs=2):
    x = leaf([1.0, 2.0])
    with heddle.no_grad():
        y = x * 1
    return heddle.sum(heddle.record("mine", y, [x] * inputs, gradient))


@pytest.mark.parametrize(
    ("gradient", "kind", "text"),
    [
        (lambda g: 3, ValueError, "record: the gradient of mine returned a int; want a list of 2, each an NDArray or None"),
        (lambda g: [g, "b"], ValueError, "record: the gradient of mine returned a str; want a list of 2"),
        (lambda g: [g], heddle.Error, "mine: 1 gradients for 2 inputs"),
        (lambda g: [g, g[:1]], heddle.Error, r"mine: its gradient is f64\(1,\) on cpu\(0\) where the input is f64\(2,\)"),
        (lambda g: [g, g.astype("f32")], heddle.Error, r"mine: its gradient is f32\(2,\)"),
        (lambda g: 1 / 0, ZeroDivisionError, "division by zero"),
    ],
)
def test_wrong_gradients(gradient, kind, text):
    loss = recorded(gradient)
    with pytest.raises(kind, match=text):
        loss.backward()


def test_wrong_calls():
    x = leaf([1.0])
    y = x.detach() * 2
    with pytest.raises(TypeError, match="record: output is a int; want an NDArray"):
        heddle.record("mine", 3, [x], lambda g: g)
    with pytest.raises(TypeError, match="record: inputs is a NDArray; want a list or tuple of NDArrays"):
        heddle.record("mine", y, x, lambda g: g)
    with pytest.raises(TypeError, match="record: gradient is a int; want a function of the gradient"):
        heddle.record("mine", y, [x], 3)
    with pytest.raises(ValueError, match=r"record: mine: the output requires a gradient already; compute it in no_grad\(\)"):
        heddle.record("mine", x * 2, [x], lambda g: g)
    with pytest.raises(TypeError, match="on_gradient: hook is a int; want a function of the gradient"):
        heddle.on_gradient(x, 3)
    with pytest.raises(ValueError, match="on_gradient: the array requires no gradient"):
        heddle.on_gradient(y, print)
    heddle.on_gradient(x, lambda g: 3)
    with pytest.raises(ValueError, match="on_gradient: the hook returned a int; want an NDArray or None"):
        heddle.sum(x).backward()


def test_hooks_see_and_change_gradients():
    x, seen = leaf([1.0, 2.0]), []
    y = x * 3
    heddle.on_gradient(y, lambda g: g * 10)
    heddle.on_gradient(x, seen.append)
    heddle.sum(y).backward(keep_tape=True)
    heddle.sum(y).backward()
    assert x.grad.tolist() == [60, 60] and [g.tolist() for g in seen] == [[30, 30], [30, 30]]


def test_a_hook_that_raises_leaves_no_gradient():
    x = leaf([1.0])

    def hook(g):
        raise KeyError("mine")

    heddle.on_gradient(x, hook)
    with pytest.raises(KeyError, match="mine"):
        heddle.sum(x * 2).backward()
    assert x.grad is None


def test_nan_is_found_where_it_comes_from():
    x = leaf([0.0, 1.0])
    loss = heddle.sum(heddle.sqrt(x) * 0)  # sqrt's gradient at 0 is inf, times 0
    with heddle.find_nan(), pytest.raises(heddle.Error, match=r"sqrt: its gradient for input 0 has NaN.*test_autograd.py:\d+"):
        loss.backward(keep_tape=True)
    loss.backward()
    assert np.isnan(x.grad.numpy()[0])
    with pytest.raises(RuntimeError, match="find_nan.__exit__: this thread has not entered the block"):
        heddle.find_nan().__exit__()


def test_functions_of_a_tape_end_with_it():
    class Gradient:
        def __call__(self, g):
            return g

    for run in (lambda loss: loss.backward(), lambda loss: None):
        gradient = Gradient()
        gone = weakref.ref(gradient)
        loss = recorded(gradient, inputs=1)
        del gradient
        assert gone() is not None
        run(loss)
        del loss
        gc.collect()
        assert gone() is None


def test_threads_run_operators_of_their_own():
    failed = []

    def train():
        try:
            x = leaf([1.0, 2.0])
            for _ in range(50):
                x.clear_grad()
                heddle.sum(cube(x)).backward()
                assert x.grad.tolist() == [3, 12]
        except BaseException as error:  # noqa: BLE001 (the main thread reports it)
            failed.append(error)

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_generators_are_split_and_jump():
    def draw(generator):
        return tuple(heddle.uniform((8,), generator=generator).tolist())

    a, b = heddle.Generator(5), heddle.Generator(5)
    parts = a.split(3)
    assert [part.seed for part in parts] == [part.seed for part in b.split(3)]
    drawn = [draw(one) for one in (a, *parts, *a.split(3), a.jumped(), a.jumped(2))]
    assert len(set(drawn)) == len(drawn)
    assert draw(a.jumped(0)) == draw(a)
    assert a.jumped(3).position == a.position + 3 * 2**40
    with pytest.raises(ValueError, match="split: parts is 0; wanted 1 or more"):
        a.split(0)
    with pytest.raises(ValueError, match="jumped: times is -1; wanted 0 to 16777215"):
        a.jumped(-1)


def test_a_hook_adds_hooks_while_it_runs():
    x, calls = leaf([1.0]), []
    heddle.on_gradient(x, lambda g: [heddle.on_gradient(x, calls.append) for _ in range(50)] and None)
    heddle.sum(x * 2).backward()
    assert calls == []
    heddle.sum(x * 2).backward()
    assert len(calls) == 50 and x.grad.tolist() == [4]


def test_a_gradient_that_runs_its_own_tape():
    x = leaf([1.0])
    losses = []

    def gradient(g):
        if len(losses) == 1:
            losses.append(None)
            losses[0].backward()
        return [g * 2]

    with heddle.no_grad():
        y = x * 2
    losses.append(heddle.sum(heddle.record("mine", y, [x], gradient)))
    losses[0].backward(keep_tape=True)  # the inner backward frees the tape
    assert x.grad.tolist() == [4]


def test_second_gradients_of_power_at_0():
    x, y, g = (heddle.array(values, dtype="f64") for values in ([0.0, 0.0, 2.0], [2.0, 0.0, 3.0], [1.0, 1.0, 1.0]))
    for leaf in (x, y, g):
        leaf.requires_grad = True
    of_base, of_exponent = heddle.grad([heddle.power(x, y)], [x, y], [g], create_graph=True)
    ones = heddle.ones_like(x)
    # The gradients are linear in g.
    assert heddle.grad([of_base], [g], [ones], keep_tape=True)[0].tolist() == [0, 0, 12]
    assert heddle.grad([of_exponent], [g], [ones])[0].tolist() == pytest.approx([0, 0, 8 * np.log(2)])
