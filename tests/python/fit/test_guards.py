"""fit: what a step, a validation or an epoch must not leave behind, and callbacks whose state is not plain."""

import json
import os
import signal
import struct
import threading

import numpy as np
import pytest

import heddle

KEYWORDS = {"loss": "cross_entropy", "batch": 10, "verbose": False}


def points(count=100):
    x = np.random.default_rng(0).normal(size=(count, 4)).astype("f4")
    return x, (x.sum(1) > 0).astype("i8")


def program(**options):
    heddle.manual_seed(1)
    net = heddle.Sequential(heddle.Dense(4, 16, relu=True), heddle.Dense(16, 2))
    return net, heddle.Trainer(net.parameters(), "adam", {"lr": 0.02}, **options)


def weights(net):
    return [np.asarray(one.value).tolist() for one in net.state()]


class Normed(heddle.Module):
    """Replaces its buffer in each step, as modules of PyTorch often do."""

    def __init__(self):
        super().__init__()
        self.mean = self.buffer("mean", heddle.zeros(4))

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return x - self.mean


def test_gradients_from_elsewhere_count_in_no_step():
    x, y = points()
    trained = []
    for probes in (False, True):
        net, trainer = program()
        heddle.fit(net, heddle.Trainer(net[1].parameters(), "sgd", {"lr": 0.05}), (x, y), **KEYWORDS)
        assert all(one.value.grad is None for one in net.parameters())

        class Probe(heddle.Callback):
            def on_batch_end(self, run):
                heddle.cross_entropy(net(x[:5]), y[:5]).backward()

        heddle.fit(net, trainer, (x, y), callbacks=[Probe()] if probes else [], **KEYWORDS)
        trained.append(weights(net))
    assert trained[0] == trained[1]


@pytest.mark.parametrize("scales", [False, True])
def test_a_buffer_that_is_replaced_is_as_before_a_refused_batch(scales):
    x, y = points()
    x[70] = np.nan
    net = heddle.Sequential(Normed(), heddle.Dense(4, 2))
    trainer = heddle.Trainer(net.parameters(), "sgd", scaler=heddle.LossScaler() if scales else None)
    seen = []

    class Watch(heddle.Callback):
        def on_batch_begin(self, run):
            seen.append(net[0].mean.tolist())

    try:
        heddle.fit(net, trainer, (x, y), shuffle=False, callbacks=[Watch()], **KEYWORDS)
        assert scales and seen[8] == seen[7]
    except heddle.Error as error:
        assert not scales and "batch 7: the loss is nan: array 0 of the batch has NaN" in str(error)
        assert net[0].mean.tolist() == seen[7] == net.state()[0].value.tolist()
    x[70] = 1
    heddle.fit(net, trainer, (x, y), **KEYWORDS)
    assert np.isfinite(net[0].mean.numpy()).all()


def test_a_buffer_that_is_replaced_in_a_captured_step_is_an_error():
    x, y = points()
    net = heddle.Sequential(Normed(), heddle.Dense(4, 2))
    trainer = heddle.Trainer(net.parameters(), "sgd")
    with pytest.raises(heddle.Error, match=r"Normed: buffer 'mean' gets another array in a step that is captured.*self.mean\[...\] ="):
        heddle.fit(net, trainer, (x, y), capture=True, **KEYWORDS)

    @trainer.capture
    def step(images, labels):
        loss = heddle.cross_entropy(net(images), labels)
        loss.backward()
        trainer.step()
        return loss

    step(x[:10], y[:10])
    with pytest.raises(heddle.Error, match="buffer 'mean' gets another array"):
        step(x[:10], y[:10])


def test_labels_of_another_shape_than_outputs_are_refused():
    x, y = points()
    net = heddle.Sequential(heddle.Dense(4, 1))
    trainer = heddle.Trainer(net.parameters())
    with pytest.raises(ValueError, match=r"fit: mse_loss: the output is \(10, 1\), the label \(10,?\); want equal shapes: reshape the label"):
        heddle.fit(net, trainer, (x, y.astype("f4")), **{**KEYWORDS, "loss": "mse_loss"})
    heddle.fit(net, trainer, (x, y.astype("f4")[:, None]), **{**KEYWORDS, "loss": "mse_loss"})


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
def test_a_validation_that_is_interrupted_ends(tmp_path):
    x, y = points()
    net, trainer = program()
    average = heddle.AverageWeights(net.parameters(), 0.5)

    class Averages(heddle.Callback):
        def on_batch_end(self, run):
            average.update()

        def on_validation_begin(self, run):
            self.before = weights(net)
            average.swap()
            os.kill(os.getpid(), signal.SIGINT)

        def on_validation_end(self, run):
            average.swap()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    averages = Averages()
    try:
        with pytest.raises(KeyboardInterrupt):
            heddle.fit(net, trainer, (x, y), validation=(x, y), epochs=2, callbacks=[averages], save_on_interrupt=tmp_path / "m-{step}", **KEYWORDS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert weights(net) == averages.before
    assert os.listdir(tmp_path) == ["m-10"]


def test_an_epoch_that_ends_early_is_an_error():
    x, y = points()
    net, trainer = program()
    loader = heddle.data.Loader(heddle.data.ArrayDataset(x, y), batch=10)

    class Evaluates(heddle.Callback):
        def on_batch_end(self, run):
            if run.batch == 2:
                heddle.evaluate(net, loader, loss="cross_entropy")

    with pytest.raises(heddle.Error, match="epoch 0 has ended after 2 batches, and the data say that there are 10"):
        heddle.fit(net, trainer, loader, callbacks=[Evaluates()], **KEYWORDS)
    for end in (None, (), []):
        batches = [(x[:10], y[:10]), end, (x[10:20], y[10:20])]
        with pytest.raises(ValueError, match="fit: a batch of the data is .*; want arrays"):
            heddle.fit(net, trainer, batches, **KEYWORDS)
        with pytest.raises(ValueError, match="predict: a batch of the data is"):
            heddle.predict(net, [(x[:10],), end])
    with pytest.raises(ValueError, match="predict: the data have no batches"):
        heddle.predict(net, x[:0])
    with pytest.raises(ValueError, match="evaluate: the data have no batches"):
        heddle.evaluate(net, (x[:0], y[:0]), loss="cross_entropy")


def test_fit_in_find_nan():
    x, y = points()
    net, trainer = program()
    with heddle.find_nan():
        heddle.fit(net, trainer, (x, y), **KEYWORDS)
    x[70] = np.nan
    with heddle.find_nan(), pytest.raises(heddle.Error, match="^the loss is nan$"):
        heddle.fit(net, trainer, (x, y), shuffle=False, **KEYWORDS)
    assert trainer.steps == 17


def test_masks_and_averages_are_free_of_the_error_of_a_refused_batch():
    x, y = points()
    bad = x.copy()
    bad[70] = np.nan
    net, trainer = program()
    average = heddle.AverageWeights(net.parameters(), 0.9)
    pruning = heddle.Pruning(net, sparsity=0.0)

    class Average(heddle.Callback):
        def on_batch_end(self, run):
            average.update()

        def state(self):
            return average.state()

        def set_state(self, state):
            average.set_state(state)

    callbacks = [Average(), heddle.GradualPruning(pruning, begin=0, end=50, every=1)]
    with pytest.raises(heddle.Error, match="batch 7: the loss is nan"):
        heddle.fit(net, trainer, (bad, y), shuffle=False, callbacks=callbacks, **KEYWORDS)
    heddle.fit(net, trainer, (x, y), callbacks=callbacks, **KEYWORDS)
    assert trainer.steps == 17 and all(np.isfinite(one.numpy()).all() for one in average.state().values())
    assert 0 < np.concatenate([mask.numpy().ravel() for mask in pruning.state().values()]).mean() < 1


@pytest.mark.parametrize("calls_inherited", [False, True])
def test_a_class_clears_the_errors_of_its_arrays(calls_inherited):
    x, y = points()
    bad = x.copy()
    bad[70] = np.nan
    net, trainer = program()

    class Sums(heddle.Callback):
        def __init__(self):
            super().__init__()
            self.kept, self.hidden, self.calls = heddle.zeros(1), heddle.zeros(1), 0

        def on_batch_end(self, run):
            for one in (self.kept, self.hidden):
                one[:] = one + run.value("batch_loss").astype("f4")

        def state(self):
            return {"kept": self.kept}

    class Clears(Sums):
        def clear_errors(self):
            self.calls += 1
            super().clear_errors()
            heddle.default_engine().clear_error(self.hidden)

    sums = Clears() if calls_inherited else Sums()
    with pytest.raises(heddle.Error, match="batch 7: the loss is nan"):
        heddle.fit(net, trainer, (bad, y), shuffle=False, callbacks=[sums], **KEYWORDS)
    assert sums.kept.item() > 0 and sums.calls == int(calls_inherited)
    if calls_inherited:
        assert sums.hidden.item() == sums.kept.item()
    else:
        with pytest.raises(heddle.Error, match="the loss is nan"):
            sums.hidden.item()
        sums.hidden[:] = 0
    # Those of the library have it too.
    pruned = heddle.KeepPruned(heddle.Pruning(net, sparsity=0.5))
    pruned.clear_errors()


def test_the_last_step_comes_before_the_end_and_a_run_says_where_it_comes_from(tmp_path):
    x, y = points()

    class Watch(heddle.Callback):
        def __init__(self, other=None):
            super().__init__()
            self.other, self.events = other, []

        def on_train_begin(self, run):
            self.events.append(("begin", run.resumes, run.resumed_from, run.has_state(self), self.other is not None and run.has_state(self.other)))

        def on_last_step(self, run):
            run.save(tmp_path / "last-{}".format(run.step))
            self.events.append(("last", run.step, weights(run.net)))

        def on_train_end(self, run):
            self.events.append(("end", os.path.exists(tmp_path / "last-{}".format(run.step)), weights(run.net)))

        def state(self):
            return {"n": 1}

    def train(resume, stop_at=0):
        class Stops(heddle.Callback):
            def on_batch_end(self, run):
                if run.step == stop_at:
                    run.stop("enough")

        net, trainer = program()
        watch = Watch(Stops())
        best = heddle.EarlyStopping(monitor="loss", restore_best=True)
        heddle.fit(net, trainer, (x, y), epochs=3, callbacks=[best, watch, watch.other], resume=resume, **KEYWORDS)
        return watch.events, weights(net)

    events, _ = train(tmp_path / "none")
    assert events[0] == ("begin", True, "", False, False)
    assert events[1][:2] == ("last", 30) and events[2][:2] == ("end", True)
    events, _ = train("")
    assert events[0] == ("begin", False, "", False, False)
    events, _ = train(tmp_path / "last-30")
    assert events[0] == ("begin", True, str(tmp_path / "last-30"), True, False)
    events, after = train("", 15)
    saved = events[1][2]
    assert events[1][:2] == ("last", 15) and after != saved
    events, _ = train(tmp_path / "last-15")
    assert events[1] == ("last", 15, saved)


def test_what_a_callback_keeps_comes_back_as_it_was(tmp_path):
    x, y = points()
    kept = {
        "big": 2**60 + 1,
        "huge": -(2**80),
        "yes": True,
        "no": False,
        "ratio": 0.1,
        "text": "ü€\n7",
        "numpy": np.int64(2**60 + 1),
        "single": np.float32(1.5),
        "array": np.arange(6.0).reshape(2, 3),
        "integers": np.array([2**60 + 1]),
        "heddle": heddle.ones(3),
    }
    got = {}

    class Keeps(heddle.Callback):
        def state(self):
            return kept

        def state_of_rank(self):
            return {"own": np.array([4, 5])}

        def set_state(self, state):
            got.update(state)

    net, trainer = program()
    heddle.fit(net, trainer, (x, y), callbacks=[Keeps(), heddle.ModelCheckpoint(tmp_path / "run")], **KEYWORDS)
    net, trainer = program()
    heddle.fit(net, trainer, (x, y), epochs=2, callbacks=[Keeps()], resume=tmp_path / "run", **KEYWORDS)
    assert sorted(got) == sorted([*kept, "own"])
    for name, value in {**kept, "own": np.array([4, 5])}.items():
        if isinstance(value, (np.ndarray, heddle.NDArray)):
            assert isinstance(got[name], heddle.NDArray) and got[name].tolist() == value.tolist()
        else:
            plain = value.item() if isinstance(value, np.generic) else value
            assert got[name] == plain and type(got[name]) is type(plain)
    kept["list"] = [1, 2]
    with pytest.raises(TypeError, match="list is a list; want a number, a text or an array"):
        heddle.fit(net, trainer, (x, y), callbacks=[Keeps(), heddle.ModelCheckpoint(tmp_path / "run")], **KEYWORDS)


def test_methods_of_the_object_are_called():
    class Plain(heddle.Callback):
        pass

    x, y = points()
    net, trainer = program()
    events = []
    callback = Plain()
    callback.on_epoch_end = lambda run, values: events.append(sorted(values))
    heddle.fit(net, trainer, (x, y), callbacks=[callback], **KEYWORDS)
    callback.on_train_end = lambda run: events.append(run.step)
    heddle.fit(net, trainer, (x, y), callbacks=[callback], **KEYWORDS)
    assert events == [["loss", "lr"], ["loss", "lr"], 20]


def test_a_resumed_tensor_board_takes_the_place_of_later_steps(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    x, y = points()

    class Stop(Exception):
        pass

    class Killed(heddle.Callback):
        def on_batch_end(self, run):
            if run.step == 23:
                raise Stop

    callbacks = [heddle.ModelCheckpoint(tmp_path / "run"), heddle.TensorBoard(tmp_path / "board", every_steps=1)]
    net, trainer = program()
    with pytest.raises(Stop):
        heddle.fit(net, trainer, (x, y), epochs=3, callbacks=[*callbacks, Killed()], **KEYWORDS)
    net, trainer = program()
    heddle.fit(net, trainer, (x, y), epochs=3, callbacks=callbacks, resume=tmp_path / "run", **KEYWORDS)
    events = accumulator.EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    assert [one.step for one in events.Scalars("batch_loss")] == list(range(1, 31))


def test_weights_of_an_unknown_dtype_matter_only_if_they_are_wanted(tmp_path):
    arrays = {"w": ("F32", np.array([5, 6], "f4").tobytes()), "other": ("F8_E4M3", b"\x38\x40"), "b": ("C64", bytes(16))}
    header, data = {}, b""
    for name, (dtype, content) in arrays.items():
        header[name] = {"dtype": dtype, "shape": [2], "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)

    class Weights(heddle.Module):
        def __init__(self, names):
            super().__init__()
            for name in names:
                setattr(self, name, self.parameter(name, heddle.ones(2)))

    net = Weights(["w"])
    assert heddle.load_weights(net, path, ignore=["other", "b"], strict=True).complete
    assert net.w.tolist() == [5, 6]
    assert heddle.load_weights(net, path, ignore=["b"]).unexpected == ["other"]
    net = Weights(["w", "b"])
    assert heddle.load_weights(net, path).other_dtype == ["b: C64, wanted f32"]
    assert net.b.tolist() == [1, 1] and net.w.tolist() == [5, 6]
    with pytest.raises(ValueError, match="of another dtype: b: C64, wanted f32"):
        heddle.load_weights(net, path, strict=True)
