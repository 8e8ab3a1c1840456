"""After training: folding of batch norms, pruning, 8-bit products."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import heddle


def trained_net():
    heddle.manual_seed(3)
    net = heddle.Sequential(
        heddle.Conv2d(2, 4, 3, padding=1, bias=False), heddle.BatchNorm(4), heddle.Relu(), heddle.Flatten(), heddle.Dense(64, 5)
    )
    for _ in range(3):
        net(heddle.random.normal(size=(8, 2, 4, 4)))
    net.train(False)
    return net


def batch(seed=1, rows=6):
    return heddle.array(np.random.default_rng(seed).normal(size=(rows, 2, 4, 4)).astype("f4"))


def test_fold_batch_norms():
    net, x = trained_net(), batch()
    with heddle.no_grad():
        before = net(x).numpy()
    report = heddle.fold_batch_norms(net)
    assert report.folded == [("1", "0")] and report.kept == []
    assert str(report) == "'1' became part of '0'\n"
    with heddle.no_grad():
        np.testing.assert_allclose(net(x).numpy(), before, rtol=1e-4, atol=1e-5)
    assert str(net[1]) == "Identity" and [one.name for one in net.state()] == ["0.weight", "0.bias", "4.weight", "4.bias"]
    other = heddle.Sequential(heddle.Dense(2, 2), heddle.BatchNorm(2))
    with pytest.raises(heddle.InvalidArgument, match="'1' is in training mode"):
        heddle.fold_batch_norms(other)
    with pytest.raises(TypeError, match="net"):
        heddle.fold_batch_norms(3)


def test_a_sequential_in_a_class_of_python_is_folded_and_quantized():
    class Block(heddle.Module):
        def __init__(self):
            super().__init__()
            self.body = heddle.Sequential(heddle.Dense(4, 4), heddle.BatchNorm(4))
            self.head = heddle.Dense(4, 2)

        def forward(self, x):
            return self.head(self.body(x))

    net = Block()
    net.train(False)
    x = heddle.array(np.random.default_rng(1).normal(size=(9, 4)).astype("f4"))
    before = net(x).numpy()
    assert heddle.fold_batch_norms(net).folded == [("body.1", "body.0")]
    report = heddle.quantize(net, [x])
    assert [row[0] for row in report.layers] == ["body.0"]
    assert report.kept == [("head", "it is held by a class that is no Sequential and no Model")]
    assert np.linalg.norm(net(x).numpy() - before) < 0.05 * np.linalg.norm(before)


def test_quantize(tmp_path):
    net, x = trained_net(), batch()
    before = net(x).numpy()
    report = heddle.quantize(net, [batch(2), (x,)])
    assert [row[0] for row in report.layers] == ["0", "4"]
    assert all(0 < row[4] < 0.02 for row in report.layers)
    assert report.bytes_after < report.bytes_before and "bytes became" in str(report)
    after = net(x).numpy()
    assert np.linalg.norm(after - before) < 0.03 * np.linalg.norm(before)
    heddle.save_model(tmp_path / "net", net)
    loaded = heddle.load_model(tmp_path / "net")
    loaded.train(False)
    assert (loaded(x).numpy() == after).all()
    assert loaded.state()[0].value.dtype == heddle.i8
    kept = heddle.quantize(trained_net(), [x], skip=["0"], percentile=99.9)
    assert kept.kept == [("0", "skipped")]
    with pytest.raises(heddle.InvalidArgument, match="no batches"):
        heddle.quantize(trained_net(), [])
    with pytest.raises(TypeError, match="want a list of batches"):
        heddle.quantize(trained_net(), x)
    with pytest.raises(heddle.InvalidArgument, match="NaN or infinite"):
        heddle.quantize(trained_net(), [x * float("nan")])


def test_a_captured_quantized_net_gives_the_same():
    net, x = trained_net(), batch()
    heddle.quantize(net, [x])
    engine, results = x.engine, []
    with heddle.no_grad():
        wanted = net(x).numpy()
        graph = engine.capture(lambda: results.append(net(x)))
        for _ in range(2):
            graph.launch()
            assert (results[0].numpy() == wanted).all()


@pytest.mark.parametrize("groups", [1, 2])
def test_a_quantized_convolution_is_that_of_numbers_that_bytes_stand_for(groups):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2, 4, 6, 6)).astype("f4")
    weight = rng.integers(-127, 128, size=(6, 4 // groups, 3, 3)).astype("i1")
    scales, scale, zero = rng.uniform(0.001, 0.01, 6).astype("f4"), np.float32(0.02), 120
    meant = ((np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale).astype("f4")
    wanted = heddle.conv2d(
        heddle.array(meant), heddle.array(weight * scales.reshape(6, 1, 1, 1)), None, stride=2, padding=1, groups=groups
    ).numpy()
    found = heddle.quantized_conv2d(
        heddle.array(x), heddle.array(weight), heddle.array(scales), heddle.array([scale], dtype="f32"),
        heddle.array([zero], dtype="i32"), stride=2, padding=1, groups=groups,
    ).numpy()  # fmt: skip
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_pruning():
    net = trained_net()
    pruning = heddle.Pruning(net, sparsity=0.75)
    report = pruning.report()
    assert [row[0] for row in report.rows] == ["0.weight", "4.weight"] and report.sparsity == 0.75
    assert "75.0 %" in str(report)
    weight = net.state()[0].value
    with heddle.no_grad():
        weight += 1
    assert pruning.report().sparsity < 0.75
    pruning.apply()
    assert pruning.report().sparsity == 0.75
    assert all(one.value.numpy().min() == 0 for one in pruning.masks())
    again = heddle.Pruning(net, sparsity=0)
    again.set_state(pruning.state())
    other = heddle.Pruning(net, sparsity=0)
    other.keep_zeros()
    for a, b, c in zip(pruning.masks(), again.masks(), other.masks(), strict=True):
        assert a.value.tolist() == b.value.tolist() == c.value.tolist()
    pruning.prune(0.9)
    assert abs(pruning.report().sparsity - 0.9) < 0.01
    assert heddle.prune(net, 0.5, whole=False, only=["4.weight"]).rows[0][0] == "4.weight"
    assert heddle.prune(trained_net(), keep=2, of=4, only=["4.weight"]).sparsity == 0.5
    with pytest.raises(heddle.InvalidArgument, match="sparsity is 2"):
        heddle.Pruning(net, sparsity=2)
    with pytest.raises(heddle.InvalidArgument, match="no parameter 'x'"):
        heddle.prune(net, only=["x"])


@pytest.mark.parametrize("gradual", [False, True])
def test_pruning_in_a_training(gradual):
    heddle.manual_seed(4)
    net = heddle.Sequential(heddle.Dense(4, 16, relu=True), heddle.Dense(16, 2))
    pruning = heddle.Pruning(net, sparsity=0 if gradual else 0.5)
    callback = heddle.GradualPruning(pruning, final_sparsity=0.5, end=10, every=2) if gradual else heddle.KeepPruned(pruning)
    x = np.random.default_rng(1).normal(size=(64, 4)).astype("f4")
    labels = (x.sum(axis=1) > 0).astype("i8")
    trainer = heddle.Trainer(net.parameters(), "adam", schedule=heddle.constant_schedule(0.02))
    heddle.fit(
        net, trainer, (heddle.array(x), heddle.array(labels)), loss="cross_entropy", epochs=4, batch=16, callbacks=[callback], verbose=False
    )
    assert pruning.report().sparsity == 0.5


class Interrupt(Exception):
    pass


def test_an_interrupted_quantize_has_ended_and_leaves_the_net_as_it_was():
    calls = []

    class Counted(heddle.Module):
        def forward(self, x):
            calls.append(1)
            if len(calls) == 20:
                os.kill(os.getpid(), signal.SIGALRM)  # as Ctrl-C does
            return x + 0

    def raise_it(number, frame):
        raise Interrupt

    net = heddle.Sequential(*(layer for _ in range(4) for layer in (heddle.Dense(8, 8), heddle.Relu())), Counted())
    net.train(False)
    x, text, before = heddle.ones((4, 8)), repr(net), signal.signal(signal.SIGALRM, raise_it)
    try:
        with pytest.raises(Interrupt):
            heddle.quantize(net, [x] * 50_000)
    finally:
        signal.signal(signal.SIGALRM, before)
    seen = len(calls)
    assert 20 <= seen < 50_000
    net(x).numpy()
    assert repr(net) == text and len(calls) == seen + 1
    report = heddle.quantize(net, [x])
    assert report.kept == [] and len(report.layers) == 4  # hooks would be a reason to keep a layer


INTERRUPTED = """
import os, signal, heddle
calls = 0
class Own(heddle.Module):
    def forward(self, x):
        global calls
        calls += 1
        if calls == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return x + 1
net = heddle.Sequential(heddle.Dense(4, 4), Own(), heddle.Dense(4, 4))
net.train(False)
try:
    heddle.quantize(net, [heddle.ones((2, 4))] * 50_000)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


INTERRUPTED_TWICE = """
import signal, time, heddle
class Slow(heddle.Module):
    def forward(self, x):
        time.sleep(1)
        return x + 1
left = 2
def stop(number, frame):
    global left
    left -= 1
    if left == 0:
        signal.setitimer(signal.ITIMER_REAL, 0)
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, stop)
net = heddle.Sequential(heddle.Dense(4, 4), Slow())
net.train(False)
x = heddle.ones((2, 4))
signal.setitimer(signal.ITIMER_REAL, 0.3, 0.2)
try:
    heddle.quantize(net, [x] * 5)
except KeyboardInterrupt:
    print(left, flush=True)
"""


@pytest.mark.parametrize("program, wanted", [(INTERRUPTED, "interrupted\n"), (INTERRUPTED_TWICE, "0\n")])
def test_a_program_ends_well_after_it_was_interrupted(program, wanted):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, wanted, "")


def test_calibration_batches_of_numpy_and_what_is_none():
    x = np.random.default_rng(1).normal(size=(6, 2, 4, 4)).astype("f4")
    reports = [heddle.quantize(trained_net(), given) for given in ([x], [[x]], (one for one in [heddle.array(x)]))]
    assert len(reports[0].layers) == 2 and reports[0] == reports[1] == reports[2]
    for bad, message in (
        (x, "quantize: batches is an ndarray; want a list of batches"),
        (3, "quantize: batches is a int; want a list of batches"),
        ([3], "quantize: batches has a int; want arrays, or lists of them"),
        ([[x, "y"]], "quantize: batches has a str; want arrays, or lists of them"),
    ):
        with pytest.raises(TypeError, match=message):
            heddle.quantize(trained_net(), bad)


def test_a_layer_alone_is_kept():
    net = heddle.Dense(3, 2)
    net.train(False)
    assert heddle.quantize(net, [heddle.ones((1, 3))]).kept == [("", "it is the whole module; put it into a Sequential")]


def test_weights_of_floats_are_not_loaded_into_bytes():
    net = trained_net()
    weights = {one.name: one.value for one in trained_net().state()}
    heddle.quantize(net, [batch()])
    before = net.state()[0].value.numpy()
    report = heddle.load_weights(net, weights)
    assert report.other_dtype == ["0.weight: f32, wanted i8", "4.weight: f32, wanted i8"] and not report.complete
    assert "of another dtype: 0.weight" in str(report)
    assert (net.state()[0].value.numpy() == before).all()


def test_bad_prunings():
    net = trained_net()
    pruning = heddle.Pruning(net, sparsity=0.5)
    with pytest.raises(heddle.InvalidArgument, match="mask '0.weight' is f32; want bool"):
        pruning.set_state({name: mask.astype("f32") for name, mask in pruning.state().items()})
    with pytest.raises(heddle.InvalidArgument, match="keeps 2 of 4"):
        heddle.GradualPruning(heddle.Pruning(net, keep=2, of=4, only=["4.weight"]))
    heddle.fold_batch_norms(net)
    trainer = heddle.Trainer(net.parameters(), "sgd", schedule=heddle.constant_schedule(0.02))
    with pytest.raises(heddle.InvalidArgument, match="weight '0.weight' of its Pruning is none of the network's"):
        heddle.fit(
            net, trainer, (batch(), heddle.zeros((6,), dtype="i64")), loss="cross_entropy", epochs=1,
            callbacks=[heddle.KeepPruned(pruning)], verbose=False,
        )  # fmt: skip
