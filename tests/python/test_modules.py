"""Layers, and modules of a class of one's own."""

import gc
import threading
import weakref

import numpy
import pytest

import heddle


def test_layers():
    net = heddle.Sequential(
        heddle.Conv2d(1, 4, 3, padding=1, relu=True), heddle.MaxPool2d(2), heddle.Flatten(), heddle.Dense(4 * 4 * 4, 10)
    )
    assert net(heddle.ones((2, 1, 8, 8))).shape == (2, 10)
    assert [p.name for p in net.parameters()] == ["0.weight", "0.bias", "3.weight", "3.bias"]
    assert all(p.value.requires_grad for p in net.parameters())
    assert len(net) == 4 and "Dense(64, 10)" in repr(net[3])
    with pytest.raises(ValueError, match="layer 3"):
        net(heddle.ones((2, 1, 4, 4)))
    with pytest.raises(IndexError):
        net[9]


class Scale(heddle.Module):
    """With everything that a class can register."""

    def __init__(self, size=2):
        super().__init__()
        self.inner = heddle.Dense(size, size, bias=False)
        self.factor = self.parameter("factor", heddle.ones(size))
        self.seen = self.buffer("seen", heddle.zeros(size))
        self.scratch = self.buffer("scratch", heddle.zeros(size), saved=False)

    def forward(self, x):
        if self.training:
            self.seen += x.detach().sum(0)
        return self.inner(x) * self.factor


def names_of(parameters):
    return [p.name for p in parameters]


def test_a_module_written_in_python():
    scale = Scale()
    net = heddle.Sequential(scale, heddle.Relu())
    assert names_of(net.parameters()) == ["0.inner.weight", "0.factor"]
    assert names_of(net.state()) == ["0.inner.weight", "0.factor", "0.seen"]
    x = heddle.array([[1.0, -2.0]])
    net(x).sum().backward()
    assert all(p.value.grad is not None for p in net.parameters())
    assert scale.seen.tolist() == [1, -2] and scale.factor.requires_grad
    net.train(False)
    net(x)
    assert scale.seen.tolist() == [1, -2] and not scale.training and not scale.inner.training
    assert repr(net) == "Sequential{\n  Scale{\n    inner: Dense(2, 2, no bias)\n  }\n  Relu\n}"
    assert net[0] is scale and scale.children() == {"inner": scale.inner}
    net.freeze()
    assert net.parameters() == [] and len(net.state()) == 3

    class Bad(heddle.Module):
        def forward(self, x):
            raise KeyError("in forward")

    with pytest.raises(KeyError):
        heddle.Sequential(Bad())(x)
    with pytest.raises(KeyError):
        Bad()(x)


def test_attributes_of_a_module_are_registered():
    scale = Scale()
    scale.inner = heddle.Sequential(heddle.Dense(2, 3), heddle.Dense(3, 2))
    assert names_of(scale.parameters()) == ["inner.0.weight", "inner.0.bias", "inner.1.weight", "inner.1.bias", "factor"]
    leaf = heddle.ones(4)
    scale.other = leaf
    assert "other" not in names_of(scale.parameters()) and scale.other is leaf
    leaf.requires_grad = True
    scale.other = leaf
    assert names_of(scale.parameters())[-1] == "other"
    scale.other = None
    scale.inner = "gone"
    assert names_of(scale.state()) == ["factor", "seen"]
    scale.seen = scale.seen + 1  # what a buffer is from now on
    assert scale.state()[1].value.tolist() == [1, 1]
    del scale.factor
    assert names_of(scale.state()) == ["seen"] and not hasattr(scale, "factor")
    with pytest.raises(AttributeError):
        del scale.factor
    with pytest.raises(heddle.InvalidArgument, match="Scale: child 'me' is, or holds, this module; want another one"):
        scale.me = heddle.Sequential(scale)
    with pytest.raises(heddle.InvalidArgument, match="Scale: there are two 'seen'"):
        scale.parameter("seen", heddle.ones(1))
    with pytest.raises(heddle.InvalidArgument, match="Scale: buffer 'b' requires a gradient"):
        scale.buffer("b", leaf)
    with pytest.raises(heddle.InvalidArgument, match="Scale: parameter 'c' is i32"):
        scale.parameter("c", heddle.ones(1, dtype="i32"))
    for call in [lambda: scale.parameter("c", 5), lambda: scale.buffer("c", [1]), lambda: scale.child("c", leaf)]:
        with pytest.raises(TypeError, match="want a"):
            call()
    with pytest.raises(TypeError, match="child: self is a Sequential; want a class derived from Module"):
        heddle.Sequential().child("c", scale)


def test_a_parameter_that_gets_another_array_is_trained():
    scale = Scale()
    scale.factor = heddle.array([2.0, 3.0])
    assert scale.factor.requires_grad
    scale(heddle.ones((1, 2))).sum().backward()
    assert scale.factor.grad is not None and scale.parameters()[1].value.grad.tolist() == scale.factor.grad.tolist()
    scale.freeze()
    scale.factor = scale.factor
    with heddle.no_grad():
        scale.factor *= 2
    scale.factor = heddle.ones(2)
    assert scale.parameters() == [] and not scale.factor.requires_grad
    scale.freeze(False)
    assert names_of(scale.parameters()) == ["inner.weight", "factor"] and scale.factor.requires_grad


def test_arguments_of_every_kind_may_be_changed():
    class Cache:
        def __init__(self):
            self.keys = {"k": [heddle.zeros(2)]}
            self.me = self

    class Decoder(heddle.Module):
        def forward(self, x, cache, net):
            cache.keys["k"][0] += x
            return net(x) + cache.keys["k"][0]

    cache, net = Cache(), heddle.Dense(2, 2)
    x = heddle.ones((1, 2))
    cache.keys["k"][0] = heddle.zeros((1, 2))
    assert Decoder()(x, cache, net).shape == (1, 2)


def test_modules_are_made_once_and_of_their_class():
    dense = heddle.Dense(2, 2)
    with pytest.raises(TypeError, match="Dense.__init__: the module is made already"):
        dense.__init__(2, 2)
    for wrong in (5, heddle.Relu()):
        with pytest.raises(TypeError, match="__init__: self is a .*; want a Dense"):
            heddle.Dense.__init__(wrong, 2, 2)
    with pytest.raises(TypeError, match="prohibits subclassing"):
        type("Net", (heddle.Sequential,), {})
    scale = Scale()
    with pytest.raises(heddle.InvalidArgument, match="Scale: there are two 'inner'"):
        scale.child("inner", heddle.Relu())


def test_dropout_draws_from_the_thread_that_calls_it():
    made = []
    thread = threading.Thread(target=lambda: made.append(heddle.Dropout(0.5)))
    thread.start()
    thread.join()
    heddle.manual_seed(3)
    first = made[0](heddle.ones(64)).tolist()
    heddle.manual_seed(3)
    assert made[0](heddle.ones(64)).tolist() == first and 0 in first


def test_a_module_takes_and_gives_what_it_wants():
    class Attention(heddle.Module):
        def __init__(self):
            super().__init__()
            self.query = heddle.Dense(2, 2)

        def forward(self, x, memory, *, scale=1.0):
            weights = heddle.softmax(self.query(x) @ memory.T * scale)
            return {"y": weights @ memory, "weights": weights}

    class Both(heddle.Module):
        def __init__(self):
            super().__init__()
            self.attention = Attention()

        def forward(self, x):
            return self.attention(x, x, scale=0.5)["y"]

    result = Attention()(heddle.ones((3, 2)), heddle.ones((4, 2)), scale=2)
    assert result["y"].shape == (3, 2) and result["weights"].shape == (3, 4)
    assert heddle.Sequential(Both())(heddle.ones((3, 2))).shape == (3, 2)
    assert names_of(Both().parameters()) == ["attention.query.weight", "attention.query.bias"]
    for module, words in [(heddle.Dense(2, 2), "Dense: 2 arguments; want one array"), (heddle.Sequential(), "Sequential: 2 arguments")]:
        with pytest.raises(TypeError, match=words):
            module(heddle.ones((1, 2)), 3)


def test_an_array_that_belongs_to_nobody_is_an_error():
    class Hidden(heddle.Module):
        def __init__(self):
            super().__init__()
            self.layers = [heddle.Dense(2, 2)]

        def forward(self, x):
            return self.layers[0](x)

    class Counts(heddle.Module):
        count = heddle.zeros(())

        def forward(self, x):
            self.count[...] = self.count + 1
            return x

    x = heddle.ones((1, 2))
    with pytest.raises(heddle.InvalidArgument, match=r"Hidden: forward\(\) computes with an array of f32 \(2, 2\), which is neither"):
        Hidden()(x)
    with pytest.raises(heddle.InvalidArgument, match=r"Counts: forward\(\) changes an array of f32 \(\), which is neither"):
        Counts()(x)
    with heddle.no_grad():
        assert Hidden()(x).shape == (1, 2)


def test_a_layer_has_a_class_of_its_own():
    class Wide(heddle.Dense):
        def __init__(self, size):
            super().__init__(size, 2 * size, init="xavier")
            self.gain = self.parameter("gain", heddle.ones(2 * size))

    wide = Wide(3)
    assert isinstance(wide, heddle.Dense) and wide(heddle.ones((1, 3))).shape == (1, 6)
    assert names_of(wide.parameters()) == ["weight", "bias", "gain"]
    assert heddle.Dense(3, 2, generator=heddle.Generator(1)).parameters()[0].value.tolist() == heddle.Dense(
        3, 2, generator=heddle.Generator(1)
    ).parameters()[0].value.tolist()
    assert "in_features" in heddle.Dense.__init__.__doc__ and heddle.Dense.__doc__ == "x @ weight.T + bias.\n\n(batch..., in_features) -> (batch..., out_features)"
    with pytest.raises(ValueError, match="Dense: init is 'she'; wanted: 'he' or 'xavier'"):
        heddle.Dense(1, 1, init="she")
    with pytest.raises(TypeError, match="missing required argument|in_features"):
        heddle.Dense()


def test_modules_that_lack_something_say_so():
    class NoForward(heddle.Module):
        pass

    class NoInit(heddle.Module):
        def __init__(self):
            pass

        def forward(self, x):
            return x

    class Nothing(heddle.Module):
        def forward(self, x):
            pass

    x = heddle.ones(1)
    with pytest.raises(heddle.InvalidArgument, match=r"NoForward: forward is missing; want a class that defines"):
        NoForward()(x)
    with pytest.raises(heddle.InvalidArgument, match=r"Nothing: forward\(\) has returned nothing"):
        Nothing()(x)
    with pytest.raises(heddle.InvalidArgument, match=r"Nothing: forward\(\) has not returned an NDArray"):
        heddle.Sequential(Nothing())(x)
    net = heddle.Sequential()
    for call in [lambda: NoInit()(x), NoInit().parameters, NoInit().train, lambda: net.add(NoInit()), lambda: heddle.Sequential(NoInit())]:
        with pytest.raises(TypeError, match=r"NoInit.__init__ has not called super\(\).__init__\(\)"):
            call()
    with pytest.raises(TypeError, match=r"NoInit.__init__ has not called"):
        NoInit().inner = heddle.Relu()
    assert repr(NoInit()) == "NoInit without super().__init__()" and repr(NoForward()) == "NoForward"
    assert len(net) == 0


def test_windows_along_any_number_of_axes_and_padding_by_a_word():
    x = heddle.ones((1, 2, 5, 4))
    assert heddle.conv2d(x, heddle.ones((1, 2, 2, 3)), padding="same").shape == (1, 1, 5, 4)
    assert heddle.Conv2d(2, 3, 4, padding="same")(x).shape == (1, 3, 5, 4)
    assert repr(heddle.Conv1d(2, 3, 4, padding="same")) == "Conv1d(2, 3, 4, padding 'same')"
    with pytest.raises(ValueError, match="conv2d: padding is 'full'; wanted: int or list of ints or 'same' or 'valid'"):
        heddle.conv2d(x, x, padding="full")
    volume = heddle.ones((2, 3, 4, 5, 6))
    assert heddle.MaxPool3d([1, 2, 2], ceil_mode=True)(volume).shape == (2, 3, 4, 3, 3)
    assert heddle.AdaptiveAvgPool3d([1, 2, 3])(volume).shape == (2, 3, 1, 2, 3)
    assert heddle.GlobalMaxPool()(volume).shape == heddle.GlobalAvgPool()(volume).shape == (2, 3)
    assert heddle.ConvTranspose3d(3, 1, 2, stride=2)(volume).shape == (2, 1, 8, 10, 12)


def test_a_sequential_does_not_hold_itself():
    a, b, c = heddle.Sequential(), heddle.Sequential(), heddle.Sequential()
    a.add(b)
    b.add(c)
    for outer, layer in [(a, a), (b, a), (c, a), (c, b)]:
        with pytest.raises(heddle.InvalidArgument, match="Sequential: child '.' is, or holds, this module; want another one"):
            outer.add(layer)
    a.add(c)
    assert a(heddle.ones(2)).tolist() == [1, 1]
    with pytest.raises(TypeError, match="add: module is a int; want a Module"):
        a.add(5)


def test_a_size_that_the_first_call_finds():
    net = heddle.Sequential(heddle.Conv2d(None, 2, [1, 3]), heddle.Flatten(), heddle.Dense(None, 3), heddle.BatchNorm(None))
    assert repr(net[0]) == "Conv2d(None, 2, (1, 3))"
    with pytest.raises(heddle.InvalidArgument, match="'0.weight' has no shape before the first call of its layer"):
        net.parameters()
    assert net(heddle.ones((4, 1, 2, 5))).shape == (4, 3)
    assert repr(net[2]) == "Dense(12, 3)" and len(net.parameters()) == 6
    assert [p.name for p in net.state()][-2:] == ["3.running_mean", "3.running_var"]
    with pytest.raises(heddle.InvalidArgument, match="Dense: in_features is 0; want 1 or more"):
        heddle.Dense(0, 3)
    with pytest.raises(TypeError, match="Embedding: rows is a NoneType; wanted: int"):
        heddle.Embedding(None, 3)
    assert heddle.LeakyRelu(0.2)(heddle.array([-1.0, 2.0])).tolist() == pytest.approx([-0.2, 2])


class Both(heddle.Module):
    def __init__(self):
        super().__init__()
        self.dense = heddle.Dense(2, 2)

    def forward(self, x, *, scale=1):
        return self.dense(x) * scale, x


def test_run_returns_all_results():
    both, x = Both(), heddle.ones((1, 2))
    first, second = both.run(x, scale=3)
    assert first.tolist() == (both.dense(x) * 3).tolist() and second.tolist() == [[1, 1]]
    assert [y.tolist() for y in heddle.Relu().run(x)] == [[[1, 1]]]
    net = heddle.Sequential(heddle.Dense(2, 3))
    assert net(x=x).tolist() == net.run(x)[0].tolist()
    for call, message in [
        (lambda: net(), "Sequential: 0 arguments; want one array"),
        (lambda: net.run(x, x), "Sequential: 2 arguments; want one array"),
        (lambda: heddle.Relu()(x, y=x), "Relu: there is no argument 'y'"),
        (lambda: heddle.Relu()(x, x=x), "Relu: 'x' is given twice"),
        (lambda: heddle.Relu()(None), "Module: x is a NoneType"),
    ]:
        with pytest.raises(TypeError, match=message):
            call()


def test_hooks_see_calls_and_may_replace_results():
    net, x, seen = heddle.Sequential(heddle.Dense(2, 3), heddle.Relu()), heddle.ones((4, 2)), []
    before = net[1].before_call(lambda module, inputs: seen.append(("before", module is net[1], inputs[0].shape)))
    after = net[1].after_call(lambda module, inputs, outputs: seen.append(("after", outputs[0].shape)))
    net(x)
    assert seen == [("before", True, (4, 3)), ("after", (4, 3))]
    before.remove()
    after.remove()
    after.remove()
    net(x)
    assert len(seen) == 2
    twice = net[1].after_call(lambda module, inputs, outputs: outputs[0] * 0 + 2)
    assert net(x).tolist() == [[2, 2, 2]] * 4
    twice.remove()

    both = Both()
    handle = both.after_call(lambda module, inputs, outputs: (outputs[0] * 0, outputs[1] + 1))
    assert [y.tolist() for y in both(x)] == [[[0, 0]] * 4, [[2, 2]] * 4]
    handle.remove()
    both.after_call(lambda module, inputs, outputs: outputs[0])
    with pytest.raises(heddle.InvalidArgument, match="after_call: the hook has returned 1 arrays; want 2, or None"):
        both(x)
    net.before_call(lambda module, inputs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        net(x)
    with pytest.raises(TypeError, match="after_call: hook is a int; want a function"):
        net.after_call(3)


def test_a_summary_says_what_a_net_costs():
    net = heddle.Sequential(heddle.Dense(None, 8), heddle.Relu(), heddle.Sequential(heddle.Dense(8, 2)))
    summary = net.summary((4, 6))
    assert [row.path for row in summary.rows] == ["", "0", "1", "2", "2.0"]
    whole, dense = summary.rows[:2]
    assert (dense.text, dense.outputs, dense.calls) == ("Dense(6, 8)", [(4, 8)], 1)
    assert (dense.parameters, dense.trained, dense.multiply_adds, dense.state_bytes) == (56, 56, 192, 224)
    assert (whole.parameters, whole.multiply_adds, whole.output_bytes) == (74, 192 + 64, 4 * (32 + 32 + 8))
    assert "0: Dense(6, 8)" in str(summary) and net.training
    assert net.summary(heddle.zeros((4, 6))).rows[0].multiply_adds == 256
    with pytest.raises(heddle.InvalidArgument, match="0 arguments; want one array"):
        net.summary()


def test_hooks_see_the_arguments_of_python_classes():
    both, x, seen = Both(), heddle.ones((1, 2)), []
    both.before_call(lambda module, inputs: seen.append(len(inputs)))
    both.after_call(lambda module, inputs, outputs: seen.append((len(inputs), len(outputs))))
    for _ in range(3):
        both(x, scale=heddle.ones(1))
    assert seen == [2, (2, 2)] * 3

    class Mixed(heddle.Module):
        def forward(self, x):
            return x, [x], "text"

    class Listed(heddle.Module):
        def forward(self, x):
            return [x, x]

    mixed, listed = Mixed(), Listed()
    mixed.after_call(lambda module, inputs, outputs: seen.append(len(outputs)))
    listed.after_call(lambda module, inputs, outputs: (outputs[0] * 2, outputs[1]))
    assert mixed(x)[2] == "text" and seen[-1] == 0
    assert isinstance(listed(x), list) and listed(x)[0].tolist() == [[2, 2]]


class Sentinel:
    """Something that a hook holds, to see when it goes."""


def test_hooks_that_refer_to_their_modules_are_collected():
    class Own(heddle.Module):
        def __init__(self):
            super().__init__()
            self.inner = heddle.Dense(2, 2)

        def forward(self, x):
            return self.inner(x)

    def on_itself(module, sentinel):
        module.after_call(lambda *a: (module, sentinel) and None)
        return module

    def on_what_is_inside(module, sentinel):
        inner = module[0] if isinstance(module, heddle.Sequential) else module.inner
        inner.before_call(lambda *a: (module, sentinel) and None)
        return module

    makers = [
        (on_itself, lambda: heddle.Dense(2, 2)),
        (on_itself, Own),
        (on_itself, lambda: heddle.Sequential(Own(), heddle.Dense(2, 2))),
        (on_itself, lambda: heddle.Model(x := heddle.Input((None, 2)), heddle.Dense(2, 2)(x))),
        (on_what_is_inside, Own),
        (on_what_is_inside, lambda: heddle.Sequential(Own(), heddle.Dense(2, 2))),
    ]
    for add, make in makers:
        sentinel = Sentinel()
        gone = weakref.ref(sentinel)
        net = add(make(), sentinel)
        del sentinel
        gc.collect()
        assert net(heddle.ones((1, 2))).shape == (1, 2) and gone() is not None
        del net
        gc.collect()
        assert gone() is None


def test_hooks_outlive_the_names_of_their_modules():
    calls = []
    inner = heddle.Dense(2, 2)
    inner.after_call(lambda *a: calls.append(1))
    net = heddle.Sequential(inner)
    del inner
    gc.collect()
    for _ in range(3):
        net(heddle.ones((1, 2)))
    assert len(calls) == 3
    kept = net[0]
    del net
    gc.collect()
    kept(heddle.ones((1, 2)))
    assert len(calls) == 4
    threads = [threading.Thread(target=lambda: [gc.collect() for _ in range(5)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        kept(heddle.ones((1, 2)))
    for thread in threads:
        thread.join()
    assert len(calls) == 204


def test_decoding_gives_what_the_whole_sequence_gives():
    x = heddle.array(numpy.random.default_rng(1).standard_normal((2, 6, 8)).astype(numpy.float32))
    for layer in (heddle.TransformerBlock(8, 2, causal=True, rotary=True), heddle.MultiHeadAttention(8, 2, causal=True)):
        layer.train(False)
        whole = layer(x)
        cache = heddle.AttentionCache()
        assert cache.key is None and cache.length == 0
        parts = [layer.decode(x[:, a:b], cache) for a, b in ((0, 3), (3, 4), (4, 6))]
        assert cache.length == 6 and cache.key.shape[:2] == (2, 2)
        assert heddle.allclose(heddle.concat(parts, 1), whole, rtol=1e-4, atol=1e-5)
    memory = heddle.ones((2, 3, 8))
    block = heddle.TransformerBlock(8, 2, causal=True, memory=True)
    block.train(False)
    assert heddle.allclose(block.decode(x, heddle.AttentionCache(), memory), block(x, memory), rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="decode: cache is a int; want an AttentionCache"):
        block.decode(x, 1)
    with pytest.raises(heddle.InvalidArgument, match="needs a causal"):
        heddle.MultiHeadAttention(8, 2).decode(x, heddle.AttentionCache())
    with pytest.raises(heddle.InvalidArgument, match="takes no memory"):
        heddle.MultiHeadAttention(8, 2, causal=True).decode(x, heddle.AttentionCache(), memory)


def test_memory_that_was_shown_stays_when_the_network_moves():
    net = heddle.Dense(30, 40, device="cpu")
    weight = net.parameters()[0].value.detach()
    before = weight.tolist()
    shown, view = weight.numpy(), memoryview(weight)
    net.to("cpu(1)")
    again = weight.numpy()
    net.to("cpu")
    others = [heddle.full((40, 30), 7.0) for _ in range(8)]  # what was freed would be used again now
    for one in others:
        one.wait()
    assert shown.tolist() == before and view.tolist() == before and again.tolist() == before
    weight[...] = 5
    assert shown.tolist() == before
