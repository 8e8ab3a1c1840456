"""Autograd, optimizers, trainer, stores, communicators, files."""

import gc
import os
import threading
import weakref

import numpy as np
import pytest

import heddle


def test_gradients():
    x = heddle.array([1.0, 2.0, 3.0])
    x.requires_grad = True
    assert x.grad is None
    y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [2, 4, 6]
    heddle.backward((x[1:] * 3).sum())
    assert x.grad.tolist() == [2, 7, 9]
    x.clear_grad()
    assert x.grad is None
    with heddle.no_grad():
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad and not (x * 2).detach().requires_grad
    with pytest.raises(heddle.Error):
        x += 1
        (x * x).sum().backward()
        raise heddle.Error("a leaf may be changed in place")
    with pytest.raises(ValueError):
        heddle.ones(2, dtype="i32").requires_grad = True


def test_gradients_of_gradients():
    x = heddle.array([1.0, 2.0, 3.0], dtype="f64")
    x.requires_grad = True
    unused = heddle.ones(2)
    unused.requires_grad = True
    y = heddle.sum(x * x * x)
    (first,) = heddle.grad(y, x, create_graph=True)
    assert first.tolist() == [3, 12, 27] and x.grad is None
    (second,) = heddle.grad([first], [x], seeds=heddle.ones(3, dtype="f64"), keep_tape=True)
    assert second.tolist() == [6, 12, 18]
    with pytest.raises(ValueError, match="input 1; with allow_unused"):
        heddle.grad(y, [x, unused])
    with pytest.raises(TypeError, match="grad: inputs has a int; want arrays"):
        heddle.grad(heddle.sum(x * x), [3])
    z = heddle.sum(x * x)
    assert heddle.grad(z, [x, unused], allow_unused=True)[1] is None
    heddle.sum(heddle.exp(x)).backward(create_graph=True)
    assert x.grad.requires_grad
    np.testing.assert_allclose(np.asarray(x.grad.detach()), np.exp([1, 2, 3]))
    x.clear_grad()
    image = heddle.ones((1, 1, 4, 4))
    image.requires_grad = True
    y = heddle.sum(heddle.square(heddle.conv2d(image, heddle.ones((1, 1, 2, 2)))))
    slope = heddle.grad(y, [image], create_graph=True)[0]
    twice = heddle.grad(heddle.sum(slope), [image])[0]
    assert twice.tolist() == [[[[2 * a * b * 4 for b in (1, 2, 2, 1)] for a in (1, 2, 2, 1)]]]
    slope = heddle.grad(heddle.sum(heddle.digamma(x)), [x], create_graph=True)[0]
    with pytest.raises(heddle.Error, match="digamma: its gradient has no gradient"):
        heddle.sum(slope).backward(create_graph=True)


@pytest.mark.parametrize("name", ["state", "set_state", "clear_errors", "save_checkpoint", "load_checkpoint", "optimizer_state", "Trainer"])
def test_a_schedule_that_waits_for_its_own_step(name, tmp_path):
    x = heddle.ones(2)
    x.requires_grad = True
    parameter, store, path = heddle.Parameter("x", x), heddle.KVStore("local"), tmp_path / "checkpoint"
    calls = {
        "state": lambda: trainer.state(),
        "set_state": lambda: trainer.set_state({}),
        "clear_errors": lambda: trainer.clear_errors(),
        "save_checkpoint": lambda: heddle.save_checkpoint(path, [parameter], trainer),
        "load_checkpoint": lambda: heddle.load_checkpoint(path, [parameter], trainer),
        "optimizer_state": lambda: store.optimizer_state(),
        "Trainer": lambda: heddle.Trainer([parameter], store=store),
    }
    errors = []

    def schedule(step):
        try:
            if trainer:
                calls[name]()
        except heddle.WouldDeadlock as error:
            errors.append(str(error))
        return 0.5

    trainer = None
    trainer = heddle.Trainer([parameter], schedule=schedule, store=store)
    x.sum().backward()
    trainer.step()
    thread = threading.Thread(target=lambda: trainer.learning_rate)
    thread.start()
    thread.join()
    assert len(errors) == 2 and all(error.startswith(name + ": inside a call of the same object") for error in errors)
    assert x.tolist() == [0.5, 0.5] and "steps" in trainer.state()


def xor_run(optimizer, params, steps, **more):
    heddle.manual_seed(3)
    net = heddle.Sequential(heddle.Dense(2, 16, relu=True), heddle.Dense(16, 2))
    trainer = heddle.Trainer(net.parameters(), optimizer, params, **more)
    x = heddle.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype="f32")
    labels = heddle.array([0, 1, 1, 0])
    for _ in range(steps):
        loss = heddle.cross_entropy(net(x), labels)
        loss.backward()
        trainer.step()
    return net, trainer, loss.item(), net(x).argmax(-1).tolist()


def test_a_network_learns():
    _, trainer, loss, answers = xor_run("adam", {"lr": 0.05}, 100)
    assert loss < 0.1 and answers == [0, 1, 1, 0]
    assert trainer.steps == 100 and trainer.learning_rate == 0.05
    _, trainer, _, _ = xor_run("sgd", {}, 3, schedule=lambda step: 0.5 / (step + 1))
    assert trainer.learning_rate == 0.5 / 4


def captured_run(captured, steps=12):
    heddle.manual_seed(3)
    net = heddle.Sequential(heddle.Dense(6, 16, relu=True), heddle.Dropout(0.3), heddle.Dense(16, 3))
    trainer = heddle.Trainer(net.parameters(), "adam", schedule=lambda step: 0.05 / (step + 1))
    calls = []

    def step(x, labels):
        calls.append(x.shape)
        loss = heddle.cross_entropy(net(x), labels)
        loss.backward()
        trainer.step()
        return loss

    function = trainer.capture(step) if captured else step
    data = np.random.default_rng(0)
    losses = []
    for i in range(steps):
        count = 3 if i % 4 == 3 else 8
        x, labels = data.normal(size=(count, 6)).astype("f4"), data.integers(0, 3, count)
        losses.append(function(heddle.array(x), heddle.array(labels)))
    return [loss.item() for loss in losses], [p.value.tolist() for p in net.parameters()], trainer, function, calls


def test_captured_steps():
    losses, weights, _, _, _ = captured_run(False)
    same, same_weights, trainer, step, calls = captured_run(True)
    assert losses == same and weights == same_weights
    assert trainer.steps == 12 and trainer.learning_rate == 0.05 / 13
    assert len(calls) == 4 and step.captures == step.graphs == 2
    step.reset()
    assert step.graphs == 0


def test_what_captured_steps_return_and_refuse():
    net = heddle.Sequential(heddle.Dense(2, 2))
    trainer = heddle.Trainer(net.parameters())
    results = {"none": lambda loss: None, "several": lambda loss: [loss, None, loss * 2], "number": lambda loss: 3.0, "item": lambda loss: loss.item()}

    def made(name):
        def step(x):
            loss = net(x).sum()
            loss.backward()
            trainer.step()
            return results[name](loss)

        return trainer.capture(step)

    nothing, several = made("none"), made("several")
    for _ in range(3):
        assert nothing(heddle.ones((3, 2))) is None
        loss, none, double = several(heddle.ones((3, 2)))
        assert none is None and double.item() == 2 * loss.item()
    with pytest.raises(TypeError, match="what the function has returned"):
        made("number")(heddle.ones((3, 2)))
    waits = trainer.capture(lambda x: net(x).sum().item() and None)
    waits(heddle.ones((3, 2)))
    with pytest.raises(heddle.Error, match="wait while this thread captures a graph"):
        waits(heddle.ones((3, 2)))
    with pytest.raises(TypeError, match="a function of the batch"):
        trainer.capture(3)
    nothing(heddle.ones((3, 2)))


def test_captured_steps_return_what_the_function_does_for_each_shape():
    net = heddle.Sequential(heddle.Dense(2, 2))
    trainer = heddle.Trainer(net.parameters(), groups=[{"max_axes": 1, "weight_decay": 0}])
    kinds = {1: lambda loss: None, 2: lambda loss: loss, 3: lambda loss: (loss,), 4: lambda loss: [], 5: lambda loss: [None, loss]}
    inside = []

    def function(x):
        loss = net(x).sum()
        loss.backward()
        trainer.step()
        for call in inside:
            call()
        return kinds[x.shape[0]](loss)

    step = trainer.capture(function)
    for _ in range(4):
        results = {count: step(heddle.ones((count, 2))) for count in kinds}
        assert results[1] is None and isinstance(results[2], heddle.NDArray)
        assert isinstance(results[3], tuple) and len(results[3]) == 1 and results[4] == ()
        assert results[5][0] is None and isinstance(results[5][1], heddle.NDArray)
    assert step.graphs == 5
    inside.append(step.reset)
    with pytest.raises(heddle.Error, match="inside its own function"):
        step(heddle.ones((6, 2)))
    trainer.clear_errors()
    with pytest.raises(TypeError):
        heddle.Trainer(net.parameters(), groups=[{"max_axes": 1.5}])


def test_threads_call_one_captured_step():
    net = heddle.Sequential(heddle.Dense(2, 2))
    trainer = heddle.Trainer(net.parameters())

    def function(x):
        loss = net(x).sum()
        loss.backward()
        trainer.step()
        return loss

    step = trainer.capture(function)

    def run():
        for i in range(40):
            step(heddle.ones((1 + i % 3, 2)))
            if i % 16 == 15:
                step.reset()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trainer.steps == 160


def test_a_captured_step_whose_function_refers_to_it_is_collected():
    class Job:
        def __init__(self):
            self.net = heddle.Sequential(heddle.Dense(2, 2))
            self.trainer = heddle.Trainer(self.net.parameters())
            self.step = self.trainer.capture(self.train)

        def train(self, x):
            self.net(x).sum().backward()
            self.trainer.step()

    job = Job()
    for _ in range(3):
        job.step(heddle.ones((2, 2)))
    gone = weakref.ref(job)
    gc.collect()
    assert gone() is job
    del job
    gc.collect()
    assert gone() is None


def test_optimizers():
    optimizer = heddle.Optimizer("sgd", lr=0.5)
    assert optimizer.name == "sgd" and optimizer.params["lr"] == 0.5
    weight = heddle.ones(2)
    optimizer.update("w", weight, heddle.ones(2))
    assert weight.tolist() == [0.5, 0.5]
    assert optimizer.state()["w.updates"].tolist() == [1]
    with pytest.raises(ValueError):
        heddle.Optimizer("best")


def test_stores():
    store = heddle.KVStore()
    assert store.type == "local" and store.workers == 1
    store.init("w", heddle.ones(2))
    store.push("w", [heddle.ones(2), heddle.ones(2)])
    out = heddle.zeros(2)
    store.pull("w", out)
    assert out.tolist() == [2, 2]
    store.set_optimizer("sgd", lr=1)
    store.push_pull("w", heddle.ones(2), out)
    assert out.tolist() == [1, 1]
    store.set_optimizer("add")
    store.push_pull("w", heddle.ones(2), out)
    assert out.tolist() == [2, 2]
    store.init(5, heddle.ones((3, 2)))
    assert heddle.to_dense(store.pull_rows(5, heddle.array([1]))).tolist() == [[0, 0], [1, 1], [0, 0]]
    for key in ("unknown", 77):
        with pytest.raises(ValueError):
            store.pull(key, out)
    with pytest.raises(TypeError):
        store.pull(1.5, out)


@pytest.mark.skipif("heddle.default_engine().scheduler != 'threaded'", reason="ranks wait for each other")
def test_communicators():
    sums = []

    def rank(comm):
        x = heddle.full(3, comm.rank + 1.0)
        comm.all_reduce(x)
        out = heddle.zeros(comm.size)
        comm.all_gather(heddle.full(1, comm.rank), out)
        sums.append((x.tolist(), out.tolist()))

    ranks = heddle.Communicator.local(3)
    threads = [threading.Thread(target=rank, args=[comm]) for comm in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [([6, 6, 6], [0, 1, 2])] * 3
    with pytest.raises(ValueError, match="op is"):
        ranks[0].all_reduce(heddle.ones(1), op="mean")


def test_lists_of_keys_and_the_state_of_a_store():
    store = heddle.KVStore()
    keys, outs = ["a", 7], [heddle.zeros(2), heddle.zeros(3)]
    for key, out in zip(keys, outs, strict=True):
        store.init(key, out)
    store.push(keys, [heddle.ones(2), heddle.full(3, 2.0)])
    store.pull(keys, outs)
    assert [out.tolist() for out in outs] == [[1, 1], [2, 2, 2]]
    store.push_pull(keys, [heddle.full(2, 3.0), heddle.ones(3)], outs)
    assert [out.tolist() for out in outs] == [[3, 3], [1, 1, 1]]
    with pytest.raises(ValueError):
        store.push(keys, [heddle.ones(2)])
    assert store.residuals() == {} and store.optimizer_state() == {}
    store.set_optimizer("adam", lr=0.1)
    store.push("a", heddle.ones(2))
    state = store.optimizer_state()
    store.set_optimizer_state(state)
    assert any("updates" in name for name in state)


@pytest.mark.skipif("heddle.default_engine().scheduler != 'threaded'", reason="as ranks that wait for each other")
def test_residuals():
    stores = [heddle.KVStore("allreduce", heddle.Communicator.local(1)[0], compression="2bit:0.5") for _ in range(2)]
    out = heddle.zeros(2)
    for store in stores:
        store.init("w", out)
        store.push("w", heddle.full(2, 0.7))
        store.pull("w", out)
        out.wait()
        residuals = store.residuals()
        store.set_residuals(residuals)
        assert all(isinstance(array, heddle.NDArray) for array in residuals.values())


def test_npy(tmp_path):
    path = tmp_path / "x.npy"
    heddle.save_npy(path, heddle.arange(6).reshape(2, 3).T)
    assert np.load(path).tolist() == [[0, 3], [1, 4], [2, 5]]
    np.save(path, np.arange(3, dtype=np.int32))
    loaded = heddle.load_npy(str(path))
    assert loaded.dtype == heddle.i32 and loaded.tolist() == [0, 1, 2]
    heddle.save_npy(path, [1.5])
    assert heddle.load_npy(path, "cpu(1)").device == heddle.cpu(1)
    with pytest.raises(ValueError):
        heddle.save_npy(path, heddle.ones(1, dtype="bf16"))


def test_other_files(tmp_path):
    path = tmp_path / "file"
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for compressed in (False, True):
        heddle.save_npz(path, {"x": heddle.array(x), "flags": heddle.array([True, False])}, compressed)
        with np.load(path) as file:
            np.testing.assert_array_equal(file["x"], x)
        (np.savez_compressed if compressed else np.savez)(tmp_path / "theirs.npz", a=x.T)
        assert heddle.load_npz(tmp_path / "theirs.npz")["a"].tolist() == x.T.tolist()
    heddle.save_npy(path, x)
    mapped = heddle.map_npy(path)
    mapped += 1
    assert mapped.tolist() == (x + 1).tolist() and heddle.load_npy(path).tolist() == x.tolist()
    heddle.save_safetensors(path, {"x": mapped})
    assert heddle.map_safetensors(str(path))["x"].tolist() == (x + 1).tolist()
    heddle.save_csv(path, x / 3, header="a,b,c")
    np.testing.assert_array_equal(np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32), x / np.float32(3))
    assert heddle.load_csv(path, skip_lines=1, columns=[-1], dtype="f32").shape == (2, 1)
    with pytest.raises(heddle.Error, match="line 1: column 0 is 'a', no f64"):
        heddle.load_csv(path)
    with pytest.raises(ValueError, match="delimiter is ',,'"):
        heddle.load_csv(path, delimiter=",,")
    with pytest.raises(heddle.Error, match="npz file .* Not a zip archive"):
        heddle.load_npz(path)
    path.write_bytes(b"1,2\n3,\xff\n")
    with pytest.raises(heddle.Error, match=r"line 2: column 1 is '\\xff', no f64"):
        heddle.load_csv(path)
    odd = os.path.join(str(tmp_path).encode(), b"\xff.npy")
    heddle.save_npy(odd, x)
    assert heddle.load_npy(os.fsdecode(odd)).tolist() == x.tolist()


def test_shared_arrays_and_the_flight_recorder():
    (ranks,) = heddle.Communicator.local(1)
    x = ranks.shared_array((2, 3), "f64")
    x.fill(2)
    ranks.all_reduce(x)
    assert x.dtype == heddle.f64 and x.tolist() == [[2, 2, 2]] * 2
    ranks.wait()
    assert "all_reduce" in ranks.flight_recorder()
    assert ranks.shared_array(4).shape == (4,)


def test_safetensors(tmp_path):
    path = tmp_path / "arrays.safetensors"
    heddle.save_safetensors(path, {"a": heddle.arange(3), "b": heddle.ones((2, 2), dtype="bf16")}, {"by": "a test"})
    loaded = heddle.load_safetensors(path)
    assert loaded["a"].tolist() == [0, 1, 2] and loaded["b"].dtype == heddle.bf16
    assert heddle.load_safetensors_metadata(str(path)) == {"by": "a test"}
    with pytest.raises(heddle.Error, match="missing"):
        heddle.load_safetensors(tmp_path / "missing")


def test_checkpoints(tmp_path):
    path = tmp_path / "run.safetensors"
    net, trainer, _, _ = xor_run("adam", {"lr": 0.05}, 5)
    generator = heddle.Generator(5)
    heddle.uniform((9,), generator=generator)
    heddle.save_checkpoint(path, net.parameters(), trainer, {"g": generator}, {"epoch": 3}, {"x": heddle.ones(2)}, {"n": "1"})
    other, others_trainer, _, _ = xor_run("adam", {"lr": 0.05}, 1)
    counters, fresh = {"epoch": 0}, heddle.Generator()
    arrays, notes = heddle.load_checkpoint(path, other.parameters(), others_trainer, {"g": fresh}, counters)
    assert counters == {"epoch": 3} and notes == {"n": "1"} and arrays["x"].tolist() == [1, 1]
    assert fresh.position == generator.position and others_trainer.steps == 5
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a.value.numpy(), b.value.numpy())


def test_loading_fills_arrays_of_the_saved_shape(tmp_path):
    path = tmp_path / "run.safetensors"
    heddle.save_checkpoint(path, arrays={"mean": heddle.full(3, 1.5), "curve": heddle.ones(4)})
    running, curve = heddle.zeros(3), heddle.zeros(2)
    arrays, _ = heddle.load_checkpoint(path, arrays={"mean": running, "curve": curve})
    assert running.tolist() == [1.5] * 3 and curve.tolist() == [0, 0]
    assert arrays["mean"].tolist() == [1.5] * 3 and arrays["curve"].tolist() == [1] * 4
    with pytest.raises(heddle.Error, match="has no array 'variance'"):
        heddle.load_checkpoint(path, arrays={"variance": heddle.zeros(3)})


def test_state_is_that_of_parameters_by_name():
    def run(names):
        values = [heddle.ones(2) for _ in names]
        for value in values:
            value.requires_grad = True
        parameters = [heddle.Parameter(name, value) for name, value in zip(names, values, strict=True)]
        return parameters, heddle.Trainer(parameters, params={"momentum": 0.5})

    parameters, trainer = run(["a", "b"])
    (heddle.sum(parameters[0].value) + 10 * heddle.sum(parameters[1].value)).backward()
    trainer.step()
    state = trainer.state()
    _, other = run(["b", "a"])
    other.set_state(state)
    assert other.state()["state.b.velocity"].tolist() == state["state.b.velocity"].tolist() == [10, 10]


def test_the_value_of_a_parameter_is_the_parameters_own():
    parameter = heddle.Parameter("x", heddle.ones(3))
    assert not parameter.value.requires_grad
    parameter.value.requires_grad = True
    assert parameter.value.requires_grad
    value = parameter.value
    heddle.sum(value * 2).backward()
    heddle.Trainer([parameter], "sgd", {"lr": 0.5}).step()
    assert parameter.value.tolist() == [0, 0, 0]
    del parameter
    assert value.tolist() == [0, 0, 0]  # the value keeps its parameter alive


def test_no_attribute_is_set_in_vain():
    x = heddle.ones(3)
    parameter = heddle.Parameter("x", x)
    for thing in (x, parameter, heddle.Dense(1, 1), heddle.KVStore(), heddle.Optimizer("sgd"), heddle.Generator(), heddle.f32, heddle.cpu()):
        with pytest.raises(AttributeError, match="shpae"):
            thing.shpae = 3
    with pytest.raises(AttributeError):
        parameter.value = x
    x.requires_grad = True
    heddle.sum(x).backward()
    x.grad = None
    assert x.grad is None
    with pytest.raises(TypeError, match="grad: value is a NDArray; want None, which clears the gradient"):
        x.grad = heddle.ones(3)
    assert not hasattr(heddle, "Sequence")


def test_optimizers_by_name():
    for name, params in heddle.optimizers().items():
        weight, gradient = heddle.ones(4), heddle.ones(4)
        optimizer = heddle.Optimizer(name)
        assert optimizer.params == params
        optimizer.update(0, weight, gradient, decay_scale=0.0)
        assert max(weight.tolist()) < 1


def test_groups_clipping_and_averages():
    weight, bias = heddle.ones(2), heddle.ones(2)
    for x in (weight, bias):
        x.requires_grad = True
    parameters = [heddle.Parameter("weight", weight), heddle.Parameter("bias", bias)]
    trainer = heddle.Trainer(parameters, "sgd", {"lr": 0.5, "weight_decay": 0.5}, groups=[{"pattern": "b*", "weight_decay": 0}])
    average = heddle.AverageWeights(parameters, decay=0.5)
    (weight.sum() + bias.sum()).backward()
    assert heddle.clip_grad_norm(parameters, 10.0).item() == 2
    heddle.clip_grad_value(parameters, 1.0)
    trainer.step()
    average.update()
    assert weight.tolist() == [0.25, 0.25] and bias.tolist() == [0.5, 0.5]
    with average:
        assert weight.tolist() == [0.625, 0.625]
    assert weight.tolist() == [0.25, 0.25]
    again = heddle.AverageWeights(parameters)
    again.set_state(average.state())
    with pytest.raises(heddle.InvalidArgument, match="fits no parameter"):
        heddle.Trainer(parameters, groups=[{"pattern": "c*"}])


def test_schedules():
    joined = heddle.join_schedules(10, heddle.polynomial_schedule(0, 10, final_lr=1), heddle.cosine_schedule(1, 10))
    assert joined(5) == 0.5 and joined(10) == 1
    assert heddle.scale_schedule(lambda step: step, 3)(2) == 6
    assert heddle.warm_up(4, heddle.constant_schedule(1))(0) == 0.25
    assert heddle.one_cycle_schedule(1, 10)(2) == 1
