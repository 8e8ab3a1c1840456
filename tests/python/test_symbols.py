"""Symbols, models that are made of them, and modules that are saved without code."""

import numpy
import pytest

import heddle


class Both(heddle.Module):
    def __init__(self):
        super().__init__()
        self.dense = heddle.Dense(2, 2)

    def forward(self, x, *, scale=1):
        return self.dense(x) * scale, x


def numbers(rows, columns):
    return heddle.arange(rows * columns, dtype="i64").reshape(rows, columns) % 11


def router():
    title, body = heddle.Input((None, 5), "title", "i64"), heddle.Input((None, 7), name="body", dtype="i64")
    words = heddle.Embedding(11, 4)
    both = heddle.concat([words(title).mean(axis=1), heddle.mean(words(body), axis=1)], axis=1)
    assert both.shape == (2, 8) and both.dtype == heddle.f32 and both.ndim == 2
    return heddle.Model([title, body], [heddle.Dense(None, 1)(both), heddle.Dense(None, 3)(heddle.relu(both))]), words


def test_models_of_symbols():
    model, words = router()
    assert model.inputs == ["title", "body"]
    t, b = numbers(3, 5), numbers(3, 7)
    priority, department = model(t, b)
    assert priority.shape == (3, 1) and department.shape == (3, 3)
    assert [y.tolist() for y in model(body=b, title=t)] == [priority.tolist(), department.tolist()]
    assert [y.tolist() for y in model.run(t, b)] == [priority.tolist(), department.tolist()]
    assert [p.name for p in model.parameters()] == ["embedding_0.weight", "dense_0.weight", "dense_0.bias", "dense_1.weight", "dense_1.bias"]
    assert model.parameters()[0].value.tolist() == words.parameters()[0].value.tolist()
    heddle.backward(priority.sum() + department.sum())
    assert all(p.value.grad is not None for p in model.parameters())
    assert "concat_0 = concat(mean_0, mean_1)" in repr(model)


def test_symbols_take_operators_and_methods():
    x = heddle.Input((None, 4))
    y = (2 - x) * x / 3 + x**2 - x @ heddle.ones((4, 4)) + (-x) // 2 + (x < 1) * 1.0
    model = heddle.Model(x, [y.reshape(-1, 2), y.exp(), heddle.split(x, 2, axis=1)[1], heddle.where(x > 0, x, 5.0)])
    given = heddle.array([[0.5, 1, -2, 3]])
    wanted = (2 - given) * given / 3 + given**2 - given @ heddle.ones((4, 4)) + (-given) // 2 + (given < 1) * 1.0
    first, second, third, fourth = model(given)
    assert first.tolist() == wanted.reshape(-1, 2).tolist() and second.tolist() == heddle.exp(wanted).tolist()
    assert third.tolist() == [[-2, 3]] and fourth.tolist() == [[0.5, 1, 5, 3]]
    assert repr(x**2) == "Symbol f32 (2, 4)"
    for call, kind, message in [
        (lambda: heddle.Dense(3, 2)(x), heddle.InvalidArgument, "the input is f32 .2, 4., wanted is"),
        (lambda: x + heddle.ones(3), heddle.InvalidArgument, "add"),
        (lambda: x.nothing, AttributeError, "a Symbol has no attribute 'nothing'"),
        (lambda: x.add_(1), AttributeError, "add_"),
        (lambda: heddle.Model([x], []), heddle.InvalidArgument, "there are no outputs"),
        (lambda: heddle.Model(5, [x]), TypeError, "Model: inputs is a int; want a Symbol"),
        (lambda: heddle.exp(x, out=heddle.ones((2, 4))), TypeError, "out is given beside a Symbol"),
        (lambda: heddle.Input(5), TypeError, "Input: shape is a int"),
        (lambda: heddle.dropout(x, 0.5, generator=heddle.Generator(1)), TypeError, "generator"),
        (lambda: bool(x == 3) or heddle.exp([x]), Exception, ""),
        (lambda: model(heddle.ones((1, 3))), heddle.InvalidArgument, "the input 'x' is f32 .1, 3., wanted is f32 .any, 4."),
        (lambda: router()[0](numbers(3, 5)), heddle.InvalidArgument, "Model: 1 inputs; want 2|'body'"),
        (lambda: router()[0](numbers(3, 5), bodies=1), TypeError, "there is no argument 'bodies'"),
    ]:
        with pytest.raises(kind, match=message):
            call()


def test_symbols_have_no_values():
    x = heddle.Input((None, 4))
    for call in [lambda: bool(x), lambda: len(x), lambda: list(x), lambda: 1 if x > 0 else 0, lambda: x == 0 and 1]:
        with pytest.raises(TypeError, match="a Symbol has no values before its Model is called"):
            call()
    assert len({x, x, heddle.Input((1,))}) == 2
    y = numpy.ones((4,), "f4") * x
    assert isinstance(y, heddle.Symbol) and repr(x == 0) == repr(x != x) == "Symbol bool (2, 4)"
    model = heddle.Model(x, [abs(-y), x.T, heddle.concat([x, heddle.ones((2, 4))], axis=0)])
    a, b, c = model(heddle.ones((2, 4)))
    assert a.tolist() == [[1] * 4] * 2 and b.shape == (4, 2) and c.shape == (4, 4)
    lstm = heddle.Lstm(4, 3)
    assert len(lstm.run(heddle.Input((None, 5, 4)))) == 3
    s = heddle.Input((None, 5, 4))
    with pytest.raises(TypeError, match="'h' is given twice"):
        lstm.run(s, s, h=s)


def test_models_are_saved_without_code(tmp_path):
    model, _ = router()
    path = tmp_path / "model.safetensors"
    heddle.save_model(path, model)
    loaded = heddle.load_model(path)
    assert type(loaded) is heddle.Model and repr(loaded) == repr(model)
    t, b = numbers(3, 5), numbers(3, 7)
    assert [y.tolist() for y in loaded(t, b)] == [y.tolist() for y in model(t, b)]
    net = heddle.Sequential(heddle.Dense(4, 3), heddle.LeakyRelu(0.2), heddle.Sequential(heddle.BatchNorm(3)))
    heddle.save_model(str(path), net)
    again = heddle.load_model(str(path))
    assert type(again) is heddle.Sequential and repr(again) == repr(net)
    assert again(heddle.ones((2, 4))).tolist() == net(heddle.ones((2, 4))).tolist()

    class Scaled(heddle.Dense):
        def forward(self, x):
            return x * 2

    with pytest.raises(heddle.InvalidArgument, match="Both is a class of the program's own"):
        heddle.save_model(path, heddle.Sequential(Both()))
    with pytest.raises(heddle.InvalidArgument, match="is a class of the program's own"):
        heddle.save_model(path, heddle.Sequential(Scaled(2, 2)))
    with pytest.raises(heddle.Error, match="none"):
        heddle.load_model(tmp_path / "none")
    with pytest.raises(TypeError, match="load_model: path is a int; want a str or a Path"):
        heddle.load_model(5)


def test_layers_with_additions_are_not_saved_as_the_library_s(tmp_path):
    class More(heddle.Dense):
        def __init__(self):
            super().__init__(4, 3)
            self.parameter("extra", heddle.ones((2,)))

    plain = heddle.Dense(4, 3)
    heddle.save_model(tmp_path / "a", plain)
    plain.buffer("extra", heddle.ones(1))
    for module in [More(), plain]:
        with pytest.raises(heddle.InvalidArgument, match="is a class of the program's own"):
            heddle.save_model(tmp_path / "a", module)

    class Plain(heddle.Dense):
        pass

    a, b = Plain(4, 4), Plain(4, 4)
    b.weight = a.parameters()[0].value
    net = heddle.Sequential(a, b)
    heddle.save_model(tmp_path / "a", net)
    assert len(heddle.load_model(tmp_path / "a").parameters()) == 3
