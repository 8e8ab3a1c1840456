"""fit, evaluate, predict, and callbacks."""

import contextlib
import io
import os
import signal
import threading

import numpy as np
import pytest

import heddle


def program(seed=1, **options):
    heddle.manual_seed(seed)
    net = heddle.Sequential(
        heddle.Dense(6, 16, relu=True, generator=heddle.Generator(seed)), heddle.Dropout(0.2), heddle.Dense(16, 2, generator=heddle.Generator(seed + 1))
    )
    return net, heddle.Trainer(net.parameters(), "adam", {"lr": 0.02}, **options)


def points(seed=2, count=90):
    x = np.random.default_rng(seed).standard_normal((count, 6)).astype("f4")
    return x, (x.sum(axis=1) > 0).astype("i8")


def weights(net):
    return [np.asarray(one.value).tolist() for one in net.state()]


def test_history_and_data():
    x, y = points()
    results = []
    for capture in (None, False):
        net, trainer = program()
        history = heddle.fit(
            net, trainer, (x, y), loss="cross_entropy", metrics="accuracy", epochs=4, validation=points(3, 20), batch=16, capture=capture, verbose=False
        )
        assert sorted(history) == ["accuracy", "loss", "lr", "val_accuracy", "val_loss"]
        assert history.epochs == [0, 1, 2, 3] and not history.interrupted and history.stopped == ""
        assert history["loss"][-1] < history["loss"][0] and len(history["val_loss"]) == 4
        results.append((weights(net), dict(history)))
    assert results[0] == results[1]

    # the same batches as an iterable, as a list, and as an object with start() and next()
    class Iterable:
        epochs = []

        def __len__(self):
            return 3

        def __iter__(self):
            return iter([(x[i : i + 30], y[i : i + 30]) for i in (0, 30, 60)])

        def set_epoch(self, epoch):
            self.epochs.append(epoch)

    class Loader:
        def size(self):
            return 3

        def start(self, epoch, first):
            self.at = first

        def next(self):
            self.at += 1
            return (x[self.at * 30 - 30 : self.at * 30], y[self.at * 30 - 30 : self.at * 30]) if self.at <= 3 else None

    trained = []
    loader = heddle.data.Loader(heddle.data.ArrayDataset(x, y), batch=30)
    for data in (Iterable(), list(Iterable()), Loader(), loader, (heddle.array(x), heddle.array(y))):
        net, trainer = program()
        heddle.fit(net, trainer, data, loss="cross_entropy", epochs=2, batch=30, shuffle=False, verbose=False)
        assert trainer.steps == 6
        trained.append(weights(net))
    assert trained[1:] == trained[:-1] and Iterable.epochs == [0, 1]
    with pytest.raises(ValueError, match="are a generator, which cannot be begun anew"):
        heddle.fit(net, trainer, (one for one in Iterable()), loss="cross_entropy", verbose=False)


def test_a_loader_with_lengths_resumes_within_an_epoch(tmp_path):
    class Lists:
        def __len__(self):
            return 24

        def __getitem__(self, index):
            length = index % 3 + 1
            return np.full((length, 6), index % 2, "f4"), np.int64(index % 2)

    class Last(heddle.Module):
        def __init__(self):
            super().__init__()
            self.inner = heddle.Dense(6, 2, generator=heddle.Generator(3))

        def forward(self, x):
            return self.inner(x[:, 0])

    class Fail(heddle.Callback):
        def on_batch_end(self, run):
            if run.step == 5:
                run.save(tmp_path / "run.safetensors")
                raise KeyError("no more")

    def train(callbacks, resume=""):
        net = Last()
        trainer = heddle.Trainer(net.parameters(), "adam", {"lr": 0.01})
        loader = heddle.data.Loader(Lists(), batch=8, shuffle=True, seed=4, pad=0)
        options = {"labels": 2, "epochs": 3, "callbacks": callbacks, "resume": resume, "verbose": False}
        history = heddle.fit(net, trainer, loader, loss=lambda outputs, labels: heddle.cross_entropy(outputs[0], labels[0]), **options)
        return weights(net), history["loss"][-1], trainer.steps

    whole = train([])
    with pytest.raises(KeyError, match="no more"):
        train([Fail()])
    assert train([], tmp_path / "run.safetensors") == whole and whole[2] == 9


def test_lengths_of_a_loader_are_an_input(tmp_path):
    class Texts:
        def __len__(self):
            return 120

        def __getitem__(self, index):
            tokens = np.random.default_rng(index).integers(1, 8, index % 6 + 1)
            return tokens, np.int64(3 in tokens)

    class Reader(heddle.Module):
        def __init__(self):
            super().__init__()
            self.words = heddle.Embedding(8, 12, generator=heddle.Generator(1))
            self.gru = heddle.Gru(12, 12, generator=heddle.Generator(2))
            self.logits = heddle.Dense(12, 2, generator=heddle.Generator(3))

        def forward(self, tokens, lengths):
            return self.logits(self.gru.run(self.words(tokens), lengths=lengths)[1][0])

    net = Reader()
    loader = heddle.data.Loader(Texts(), batch=20, shuffle=True, seed=4, pad=0, arrays=(0, 2, 1))
    trainer = heddle.Trainer(net.parameters(), "adam", {"lr": 0.02})
    history = heddle.fit(net, trainer, loader, loss="cross_entropy", metrics="accuracy", epochs=15, validation=loader, verbose=False)
    assert history["val_accuracy"][-1] > 0.95
    assert heddle.evaluate(net, loader, metrics="accuracy")["accuracy"] == history["val_accuracy"][-1]
    assert heddle.predict(net, loader, inputs=2).shape == (120, 2)


def test_the_newest_checkpoint_is_found_and_a_stopped_run_goes_on_if_told_to(tmp_path):
    x, y = points()

    class Stops(heddle.Callback):
        def on_epoch_end(self, run, values):
            if run.epoch == 1:
                run.stop("enough")

    def train(callbacks, **options):
        net, trainer = program()
        history = heddle.fit(net, trainer, (x, y), loss="cross_entropy", epochs=4, callbacks=callbacks, verbose=False, **options)
        return history.stopped, trainer.steps, weights(net)

    whole = train([])
    pattern = tmp_path / "run-{epoch}"
    stopped = train([Stops(), heddle.ModelCheckpoint(pattern)], resume=pattern)
    assert stopped[:2] == ("enough", 6) and sorted(one.name for one in tmp_path.iterdir()) == ["run-1", "run-2"]
    assert train([], resume=pattern) == stopped
    assert train([], resume=pattern, resume_stopped=True) == whole
    with pytest.raises(TypeError, match="fit: resume_stopped is a int; want a bool"):
        train([], resume_stopped=1)


def test_callbacks_see_the_training():
    x, y = points()
    net, trainer = program()
    events, losses, batch_losses = [], [], []

    class Watch(heddle.Callback):
        def on_train_begin(self, run):
            assert run.net is net and run.trainer is trainer and run.value_names == ["loss", "accuracy", "lr"]
            events.append("begin")

        def on_batch_end(self, run):
            run.later(["loss", "batch_loss"], lambda values: losses.append(values["loss"]))
            batch_losses.append(run.value("batch_loss"))

        def on_epoch_end(self, run, values):
            events.append((run.epoch, run.batch, run.batches, run.step))
            assert losses[-1] == values["loss"] and len(losses) == run.step
            if run.epoch == 1:
                run.stop("enough")

        def on_train_end(self, run):
            events.append("end")
            self.run = run

    watch = Watch()
    history = heddle.fit(net, trainer, (x, y), loss="cross_entropy", metrics=[heddle.Accuracy()], epochs=5, callbacks=[watch], verbose=False)
    assert events == ["begin", (0, 3, 3, 3), (1, 3, 3, 6), "end"]
    assert history.stopped == "enough" and len(batch_losses) == 6 and all(one.shape == () for one in batch_losses)
    with pytest.raises(heddle.Error, match="FitRun.epoch: the training is over"):
        watch.run.epoch  # noqa: B018

    class Fails(heddle.Callback):
        def on_batch_end(self, run):
            raise KeyError("no more")

    net.train(False)
    with pytest.raises(KeyError, match="no more"):
        heddle.fit(net, trainer, (x, y), loss="cross_entropy", callbacks=[Fails()], verbose=False)
    assert not net.training


def test_losses_and_modules_of_python():
    x, y = points()

    class Net(heddle.Module):
        def __init__(self):
            super().__init__()
            self.inner = heddle.Dense(6, 2, generator=heddle.Generator(3))
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return self.inner(x)

    net = Net()
    trainer = heddle.Trainer(net.parameters())
    heddle.fit(net, trainer, (x, y), loss=lambda output, label: heddle.cross_entropy(output, label), epochs=2, batch=30, verbose=False)
    assert net.calls == 6  # not captured, since it might count
    with pytest.raises(TypeError, match="what the loss has returned is a float; want an NDArray"):
        heddle.fit(net, trainer, (x, y), loss=lambda output, label: 1.0, verbose=False)

    a, b = heddle.Input((None, 6), "a"), heddle.Input((None, 6), "b")
    both = heddle.concat([a, b], axis=1)
    two = heddle.Model([a, b], [heddle.Dense(12, 1)(both), heddle.Dense(12, 2)(both)])
    score = x[:, :1]
    history = heddle.fit(
        two,
        heddle.Trainer(two.parameters()),
        (x, x, score, y),
        loss=[("mse_loss", 0.5), lambda output, label: heddle.cross_entropy(output, label)],
        metrics=[("accuracy", 1)],
        outputs=["score", "kind"],
        verbose=False,
    )
    assert sorted(history) == ["kind_accuracy", "kind_loss", "loss", "lr", "score_loss"]
    assert history["loss"][0] == pytest.approx(0.5 * history["score_loss"][0] + history["kind_loss"][0], rel=1e-5)
    first, second = heddle.predict(two, (x, x, score, y), batch=7)
    assert first.shape == (90, 1) and second.shape == (90, 2)
    values = heddle.evaluate(two, (x, x, score, y), loss=["mse_loss", "cross_entropy"], metrics=[("accuracy", 1, "right")])
    assert values["right"] == np.mean(np.asarray(second).argmax(axis=1) == y)


def test_resume_is_the_same_training(tmp_path):
    x, y = points()

    class Counts(heddle.Callback):
        def __init__(self):
            super().__init__()
            self.batches = 0

        def on_batch_end(self, run):
            self.batches += 1

        def state(self):
            return {"batches": self.batches, "text": "t", "array": heddle.ones(2)}

        def set_state(self, state):
            assert state["text"] == "t" and state["array"].tolist() == [1, 1]
            self.batches = int(state["batches"])

    def run(resume="", save=False):
        net, trainer = program(seed=1 if not resume else 9)
        heddle.manual_seed(5 if not resume else 6)
        counts = Counts()
        callbacks = [counts, heddle.ReduceOnPlateau(factor=0.5, patience=0, min_delta=0.3), heddle.EarlyStopping(patience=9, restore_best=True)]
        if save:
            callbacks.append(heddle.ModelCheckpoint(tmp_path / "{step}", every_epochs=0, every_steps=1))
        history = heddle.fit(
            net, trainer, (x, y), loss="cross_entropy", epochs=3, validation=points(3, 20), callbacks=callbacks, resume=resume, verbose=False
        )
        return weights(net), dict(history), history.epochs, counts.batches

    wanted = run(save=True)
    for step in (1, 3, 5, 8):
        assert run(resume=tmp_path / str(step)) == wanted


def test_progress_and_csv(tmp_path):
    x, y = points()
    net, trainer = program()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        heddle.fit(net, trainer, (x, y), loss="cross_entropy", epochs=2, callbacks=[heddle.CsvLogger(tmp_path / "log.csv")])
    assert "epoch 1/2" in out.getvalue() and "examples/s" in out.getvalue()
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert lines[0] == "epoch,loss,lr" and len(lines) == 3


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
def test_interrupt_saves_and_raises(tmp_path):
    x, y = points()
    net, trainer = program()

    class Interrupts(heddle.Callback):
        def on_batch_end(self, run):
            if run.step == 4:
                os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores the signal
    with pytest.raises(KeyboardInterrupt):
        heddle.fit(net, trainer, (x, y), loss="cross_entropy", epochs=50, callbacks=[Interrupts()], save_on_interrupt=tmp_path / "run", verbose=False)
    signal.signal(signal.SIGINT, before)
    steps = trainer.steps
    assert 4 <= steps <= 6 and (tmp_path / "run").exists()
    history = heddle.fit(net, trainer, (x, y), loss="cross_entropy", epochs=3, resume=tmp_path / "run", verbose=False)
    assert trainer.steps == 9 and history.epochs == [0, 1, 2]


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
def test_interrupts_at_every_place(tmp_path):
    x, y = points()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:

        class Late(heddle.Callback):
            def on_train_end(self, run):
                os.kill(os.getpid(), signal.SIGINT)

        net, trainer = program()
        with pytest.raises(KeyboardInterrupt):
            heddle.fit(net, trainer, (x, y), loss="cross_entropy", callbacks=[Late()], verbose=False)
        assert trainer.steps == 3

        class Raises(heddle.Callback):
            def on_batch_end(self, run):
                if run.step == 2:
                    raise KeyboardInterrupt

        def loss(output, label):
            loss.calls += 1
            if loss.calls == 3:
                raise KeyboardInterrupt
            return heddle.cross_entropy(output, label)

        loss.calls = 0

        class Data:
            raises = True

            def __iter__(self):
                for i in (0, 30, 60):
                    if i == 60 and self.raises:
                        raise KeyboardInterrupt
                    yield x[i : i + 30], y[i : i + 30]

        for options in ({"callbacks": [Raises()]}, {"loss": loss}, {"data": Data()}):
            net, trainer = program()
            path = tmp_path / next(iter(options))
            data = options.pop("data", (x, y))
            with pytest.raises(KeyboardInterrupt):
                heddle.fit(net, trainer, data, **{"loss": "cross_entropy", "epochs": 9, "save_on_interrupt": path, "verbose": False, **options})
            assert trainer.steps == 2 and path.exists()
            again, trainer = program()
            if isinstance(data, Data):  # the place is after 60 rows, and with arrays it would be after 64
                with pytest.raises(heddle.Error, match="saved within an epoch, with batch none, and there is 32"):
                    heddle.fit(again, trainer, (x, y), loss="cross_entropy", epochs=1, resume=path, verbose=False)
                data.raises = False
            heddle.fit(again, trainer, data, loss="cross_entropy", epochs=1, resume=path, verbose=False)
            assert trainer.steps == 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_checkpoints_are_written_while_steps_go_on(tmp_path):
    x, y = points()
    net, trainer = program()
    writer = heddle.CheckpointWriter(2)
    saves = []
    for step in range(4):
        heddle.cross_entropy(net(x), y).backward()
        trainer.step()
        saves.append(writer.save(tmp_path / f"late{step}", net.state(), trainer, counters={"step": step}))
        if step == 1:
            heddle.save_checkpoint(tmp_path / "now", net.state(), trainer, counters={"step": step})
    writer.wait()
    assert writer.idle() and all(one.done() and one.error() == "" for one in saves)
    assert (tmp_path / "late1").read_bytes() == (tmp_path / "now").read_bytes()
    save = writer.save(tmp_path / "none" / "run", net.state())
    with pytest.raises(heddle.Error, match="No such file or directory"):
        save.wait()
    assert "No such file" in save.error()


def test_errors():
    x, y = points()
    net, trainer = program()

    def refused(kind, match, **options):
        with pytest.raises(kind, match=match):
            heddle.fit(net, trainer, options.pop("data", (x, y)), **{"loss": "cross_entropy", "verbose": False, **options})

    refused(ValueError, "fit: there is no loss 'cross'", loss="cross")
    refused(TypeError, "fit: loss is a int; want a name", loss=3)
    refused(TypeError, "fit: a metric is 3; want a name", metrics=[3])
    refused(TypeError, "fit: epochs is a float; want an int", epochs=1.5)
    refused(ValueError, "are a generator, which cannot be begun anew", validation=(one for one in [(x, y)]))
    refused(ValueError, "labels is -7", labels=np.int64(-7))
    refused(TypeError, "fit: epochs is a bool; want an int", epochs=True)
    assert trainer.steps == 0
    assert len(heddle.fit(net, trainer, (x, y), loss="cross_entropy", epochs=np.int64(2), batch=np.int32(30), verbose=False)["loss"]) == 2
    refused(TypeError, "a callback is a int; want a Callback", callbacks=[3])
    refused(TypeError, "the data are a int", data=3)
    refused(ValueError, "array 1 is .*; want 90 rows", data=(x, y[:4]))
    refused(ValueError, "there is no value 'val_loss' to monitor", callbacks=[heddle.EarlyStopping()])
    refused(heddle.Error, "the loss is nan: array 0 of the batch has NaN", data=(np.where(x > 2, np.nan, x), y))
    with pytest.raises(ValueError, match="mode is 'most'; want auto, min or max"):
        heddle.EarlyStopping(mode="most")
    with pytest.raises(TypeError):
        type("Extended", (heddle.EarlyStopping,), {})


def test_tensor_board_reads_the_values(tmp_path):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    x, y = points()
    net, trainer = program()
    board = heddle.TensorBoard(tmp_path / "logs", every_steps=1, histograms=1, graph=True)
    history = heddle.fit(net, trainer, (x, y), loss="cross_entropy", epochs=2, callbacks=[board], verbose=False)
    found = event_accumulator.EventAccumulator(str(tmp_path / "logs"))
    found.Reload()
    assert [one.value for one in found.Scalars("loss")] == pytest.approx(history["loss"])
    assert len(found.Scalars("batch_loss")) == trainer.steps
    assert found.Tags()["graph"] and len(found.Tags()["histograms"]) == len(net.parameters())


def normalized(seed=1, **options):
    net = heddle.Sequential(heddle.BatchNorm(6), heddle.Dense(6, 2, generator=heddle.Generator(seed)))
    return net, heddle.Trainer(net.parameters(), "sgd", {"lr": 0.1}, **options)


@pytest.mark.parametrize("capture", [None, False])
def test_a_batch_that_fails_changes_no_statistics(capture):
    x, y = points(count=64)
    y[3 * 8] = 9
    for scaler, stops in ((None, True), (None, False), (heddle.LossScaler(), True), (heddle.LossScaler(), False)):
        net, trainer = normalized(scaler=scaler)
        options = {"loss": "cross_entropy", "batch": 8, "shuffle": False, "verbose": False, "capture": capture, "stop_on_nan": stops}
        wanted, other = normalized()
        heddle.fit(wanted, other, (x[:24], y[:24]), **options)
        with pytest.raises(heddle.Error, match="label"):
            heddle.fit(net, trainer, (x, y), **options)
        found = {one.name: np.asarray(one.value) for one in net.state()}
        for one in wanted.state():
            np.testing.assert_allclose(found[one.name], np.asarray(one.value), rtol=0 if scaler is None else 1e-5, err_msg=one.name)


@pytest.mark.parametrize("capture", [None, False])
def test_a_skipped_step_changes_no_statistics(capture):
    x, y = points(count=64)
    x[40] = np.nan
    net, trainer = normalized(scaler=heddle.LossScaler())
    heddle.fit(net, trainer, (x, y), loss="cross_entropy", batch=8, shuffle=False, verbose=False, capture=capture)
    good = np.concatenate([x[:40], x[48:]]), np.concatenate([y[:40], y[48:]])
    wanted, other = normalized(scaler=heddle.LossScaler())
    heddle.fit(wanted, other, good, loss="cross_entropy", batch=8, shuffle=False, verbose=False, capture=capture)
    assert weights(net) == weights(wanted)


def test_a_resume_that_fails_leaves_callbacks_as_they_were(tmp_path):
    class Number(heddle.Callback):
        def __init__(self, number, refuses=False):
            super().__init__()
            self.number, self.refuses = number, refuses

        def state(self):
            return {"number": self.number}

        def set_state(self, state):
            self.number = state["number"]
            if self.refuses:
                raise ValueError("refused")

    x, y = points()
    path = str(tmp_path / "run")
    net, trainer = program()
    heddle.fit(net, trainer, (x, y), loss="cross_entropy", verbose=False, callbacks=[Number(5.0), Number(6.0), heddle.ModelCheckpoint(path)])
    net, trainer = program()
    first, last = Number(1.0), Number(2.0, refuses=True)
    with pytest.raises(ValueError, match="refused"):
        heddle.fit(net, trainer, (x, y), loss="cross_entropy", epochs=2, verbose=False, callbacks=[first, last], resume=path)
    assert (first.number, last.number) == (1.0, 2.0)
