"""Mixed precision: heddle.autocast, Module.autocast and LossScaler."""

import asyncio

import numpy as np
import pytest

import heddle


def net_of_two():
    return heddle.Sequential(heddle.Dense(4, 8, relu=True), heddle.Dense(8, 3))


def test_a_block_computes_products_in_bf16():
    x, w = heddle.ones((4, 4)), heddle.full((4, 4), 0.1)
    w.requires_grad = True
    with heddle.autocast():
        y = heddle.matmul(x, w)
        assert heddle.softmax(y).dtype == heddle.f32
        with heddle.autocast("f32"):
            assert heddle.matmul(x, w).dtype == heddle.f32
    assert y.dtype == heddle.bf16
    assert heddle.matmul(x, w).dtype == heddle.f32
    y.sum().backward()
    assert w.grad.dtype == heddle.f32
    with pytest.raises(ValueError, match=r"autocast: dtype is i32; want bf16, f16 or f32"):
        heddle.autocast("i32")
    with pytest.raises(RuntimeError, match="has not entered"):
        heddle.autocast().__exit__()


def test_blocks_of_autocast_in_whatever_order():
    x = heddle.ones((2, 2))

    async def block(dtype, begin, end):
        await begin.wait()
        with heddle.autocast(dtype):
            await end.wait()

    async def program():
        events = [asyncio.Event() for _ in range(4)]
        tasks = [asyncio.create_task(block("bf16", events[0], events[2])), asyncio.create_task(block("f16", events[1], events[3]))]
        seen = []
        for event in events:
            event.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            seen.append(heddle.matmul(x, x).dtype)
        await asyncio.gather(*tasks)
        return seen

    assert asyncio.run(program()) == [heddle.bf16, heddle.f16, heddle.f16, heddle.f32]


def test_a_module_computes_in_bf16_and_returns_f32():
    net = net_of_two()
    assert net.autocast_dtype is None
    assert net.autocast("bf16") is net
    assert net.autocast_dtype == heddle.bf16
    seen = []
    net[0].after_call(lambda module, inputs, outputs: seen.append(outputs[0].dtype))
    assert net(heddle.ones((2, 4))).dtype == heddle.f32
    assert seen == [heddle.bf16]
    net.autocast(None)
    net(heddle.ones((2, 4)))
    assert seen == [heddle.bf16, heddle.f32]
    with pytest.raises(ValueError, match="autocast: dtype is f64; want bf16, f16, f32 or none"):
        net.autocast("f64")


class Own(heddle.Module):
    def __init__(self):
        super().__init__()
        self.inner = heddle.Dense(4, 4)

    def forward(self, x):
        y = self.inner(x)
        assert y.dtype == heddle.bf16
        return y, {"also": y}


def test_a_class_of_python_with_autocast():
    net = Own().autocast("bf16")
    result = net(heddle.ones((2, 4)))
    assert result[1]["also"].dtype == heddle.bf16  # only arrays, and tuples and lists of arrays, are results
    assert all(p.value.dtype == heddle.f32 for p in net.parameters())


@pytest.mark.parametrize("captured", [False, True])
def test_a_scaler_skips_steps_with_inf(captured):
    net = net_of_two().autocast("f16")
    scaler = heddle.LossScaler(scale=1024, interval=100)
    trainer = heddle.Trainer(net.parameters(), "adam", scaler=scaler)

    def step(x, labels):
        loss = heddle.cross_entropy(net(x), labels)
        scaler.scale(loss).backward()
        trainer.step()
        return loss.detach()

    run = trainer.capture(step) if captured else step
    x, labels = heddle.ones((6, 4)), heddle.array([0, 1, 2, 0, 1, 2])
    for _ in range(3):
        run(x, labels)
    before = [np.array(p.value) for p in net.parameters()]
    run(x * 1e6, labels)  # beyond f16
    for a, p in zip(before, net.parameters(), strict=True):
        np.testing.assert_array_equal(a, np.array(p.value))
    assert float(scaler.current) == 512
    assert int(scaler.skipped) == 1
    run(x, labels)
    assert any((a != np.array(p.value)).any() for a, p in zip(before, net.parameters(), strict=True))
    state = trainer.state()
    assert float(state["scaler.scale"]) == 512
    other = heddle.LossScaler()
    heddle.Trainer(net.parameters(), "adam", scaler=other).set_state(state)
    assert int(other.skipped) == 1


def test_a_scaler_and_clipping():
    net = net_of_two()
    scaler = heddle.LossScaler()
    trainer = heddle.Trainer(net.parameters(), scaler=scaler)
    scaler.scale(net(heddle.ones((2, 4))).sum()).backward()
    scaler.unscale(net.parameters())
    assert float(heddle.clip_grad_norm(net.parameters(), 1.0)) < 1000
    with pytest.raises(RuntimeError, match="unscaled already"):
        scaler.unscale(net.parameters())
    trainer.step()
    with pytest.raises(ValueError, match="backoff is 2"):
        heddle.LossScaler(backoff=2)


def test_a_module_leaves_autocast_again():
    net = net_of_two().autocast("f16")
    assert net.autocast_dtype is heddle.f16
    assert net.autocast(None).autocast_dtype is None
    assert net.autocast(dtype=None) is net


def test_a_scaler_between_unscale_and_step():
    net = net_of_two()
    scaler = heddle.LossScaler()
    trainer = heddle.Trainer(net.parameters(), scaler=scaler)
    with pytest.raises(ValueError, match="the loss scaler is that of another trainer"):
        heddle.Trainer(net.parameters(), scaler=scaler)
    scaler.scale(net(heddle.ones((2, 4))).sum()).backward()
    scaler.unscale(net.parameters())
    with pytest.raises(RuntimeError, match="clear_errors\\(\\) first"):
        scaler.scale(heddle.ones(()))
    trainer.clear_errors()
    assert scaler.scale(heddle.ones(())).item() == 65536


@pytest.mark.parametrize("name, params", [("sgd", {"momentum": 0.9}), ("adam", {})])
@pytest.mark.parametrize("order", ["1112122112", "2221211221"])
def test_captured_steps_with_gradients_of_rows_and_whole_ones(name, params, order):
    def weights(captured):
        heddle.manual_seed(4)
        words = heddle.Embedding(20, 8, sparse_grad=True)
        table = words.parameters()[0].value
        weight = heddle.full((8, 3), 0.1)
        weight.requires_grad = True
        parameters = [heddle.Parameter("table", table), heddle.Parameter("weight", weight)]
        trainer = heddle.Trainer(parameters, name, params, schedule=heddle.constant_schedule(0.1))

        def step(words_of_batch, labels, way):
            loss = heddle.cross_entropy(heddle.matmul(words(words_of_batch), weight), labels)
            if way.shape[0] == 2:
                loss = loss + heddle.square(table).sum() * 0.01
            loss.backward()
            trainer.step()
            return loss.detach()

        run = trainer.capture(step) if captured else step
        for way in order:
            run(heddle.array([1, 2, 3]), heddle.array([0, 1, 2]), heddle.zeros((int(way),)))
        state = {key: np.array(value).tolist() for key, value in trainer.state().items()}
        return table.tolist(), weight.tolist(), state

    assert weights(True) == weights(False)
