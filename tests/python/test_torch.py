"""heddle.torch: two processes train as one does. The ranks' programs are in torch_ranks.py."""

import gc
import json
import math
import os
import pathlib
import re
import subprocess
import sys

import pytest

import heddle

try:
    import torch
except ImportError:
    torch = None
else:
    import torch_ranks
    from torch import nn

    import heddle.torch

pytestmark = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
SIZE = 2


def run_ranks(place, command):
    """Runs a program on two ranks, whose rendezvous is in this folder: the output of each, or its exit status."""
    processes = []
    try:
        for rank in range(SIZE):
            environment = {
                **os.environ,
                "HEDDLE_RANK": str(rank),
                "HEDDLE_SIZE": str(SIZE),
                "HEDDLE_RENDEZVOUS": f"unix:{place}/ranks",
                "OMP_NUM_THREADS": "1",
            }
            started = [sys.executable, "-B", *command]
            processes.append(subprocess.Popen(started, env=environment, stdout=subprocess.PIPE, text=True))
        outputs = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [output or process.returncode for process, output in zip(processes, outputs, strict=True)]


def run_program(place, program, **options):
    """Runs a program of torch_ranks.py: the result of each rank, or its exit status."""
    script = pathlib.Path(__file__).with_name("torch_ranks.py")
    printed = run_ranks(place, [script, program, json.dumps(options)])
    return [json.loads(output) if isinstance(output, str) else output for output in printed]


def optimizer_of(*parameters, **options):
    """A distributed optimizer on one rank, this process."""
    plain = torch.optim.SGD(parameters, lr=0.1)
    return heddle.torch.DistributedOptimizer(plain, heddle.Communicator(), **options)


TRAINING = {
    "defaults": {},
    "gradients are kept in place": {"zero": "zero"},
    "the model clears gradients": {"zero": "model"},
    "one bucket": {"bucket_bytes": 1 << 20},
    "a bucket a parameter": {"bucket_bytes": 1},
    "sum": {"op": "sum"},
    "all heads": {"heads": "all"},
    "one head": {"heads": "one", "optimizer": "adam"},
    "three passes": {"passes": 3},
    "three passes in place": {"passes": 3, "zero": "zero", "heads": "one"},
    "clipped": {"clip": 0.1},
    "clipped, three passes": {"clip": 0.1, "passes": 3, "op": "sum"},
    "clipped, without skip_synchronize": {"clip": 0.1, "skip": False, "op": "sum"},
    "adam": {"optimizer": "adam"},
    "closure": {"closure": True},
    "L-BFGS": {"closure": True, "optimizer": "lbfgs", "steps": 3},
    "L-BFGS, the model clears gradients": {"closure": True, "optimizer": "lbfgs", "steps": 3, "zero": "model"},
    "channels last": {"channels_last": True},
    "f32": {"dtype": "float32"},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The parameters of each rank, by the name of the training."""
    results = run_program(tmp_path_factory.mktemp("trained"), "trainings", cases=list(TRAINING.values()))
    return {name: [result[i] for result in results] for i, name in enumerate(TRAINING)}


@pytest.mark.parametrize("name", TRAINING)
def test_two_ranks_train_as_one_process(trained, name):
    options, (first, second) = TRAINING[name], trained[name]
    assert first == second
    tolerance = 1e-4 if options.get("dtype") == "float32" else 1e-9
    for parameter, values in torch_ranks.train(None, **options).items():
        assert first[parameter] == pytest.approx(values, rel=tolerance, abs=tolerance), parameter
    untrained = dict(torch_ranks.made_net().named_parameters())
    assert first["unused.weight"] == pytest.approx(untrained["unused.weight"].flatten().tolist())
    assert first["conv.weight"] != pytest.approx(untrained["conv.weight"].flatten().tolist(), rel=1e-3)


def test_tensors_of_gpus_are_copied(tmp_path, trained):
    names = ["defaults", "gradients are kept in place", "all heads", "three passes in place", "clipped", "L-BFGS", "channels last"]
    results = run_program(tmp_path, "trainings", cases=[TRAINING[name] for name in names], gpus=True)
    for i, name in enumerate(names):
        assert results[0][i] == results[1][i] == trained[name][0], name
    (tmp_path / "ranks").unlink(missing_ok=True)
    plain, copied = run_program(tmp_path, "broadcasts"), run_program(tmp_path, "broadcasts", gpus=True)
    assert copied == plain


def test_dtypes(tmp_path):
    names = ["float16", "bfloat16", "float32", "float64"]
    results = run_program(tmp_path, "dtypes", names=names)
    assert results == [[[-1.5, 3.0, -5.25, -0.1875, -1536.0]] * len(names)] * SIZE


def test_gradients_are_reduced_while_autograd_runs(tmp_path):
    assert run_program(tmp_path, "overlap") == [[1.5, 1.5]] * SIZE


def test_gradients_are_in_memory_that_ranks_share(tmp_path):
    assert run_program(tmp_path, "mapped") == [["/memfd:heddle"] * 2] * SIZE


def test_gradients_are_reduced_without_shared_memory_too(monkeypatch):
    def none(*_):
        raise heddle.OutOfMemory("no room")

    monkeypatch.setattr(heddle.Communicator, "shared_array", none)
    parameter = nn.Parameter(torch.ones(1))
    optimizer = optimizer_of(parameter)
    parameter.sum().backward()
    optimizer.step()
    assert parameter.item() == pytest.approx(0.9)


def test_broadcast_of_all_kinds_of_tensors(tmp_path):
    results = run_program(tmp_path, "broadcasts")
    assert results[0] == results[1]
    for root, got in enumerate(results[0]):
        assert got["f32"][0][0] == got["f16"][0][0] == got["bf16"][0][0] == got["a parameter"][0][0] == 100 * root
        assert got["transposed"][1][0] == 100 * root + 1
        assert got["channels last"][0][1][2][3] == 100 * root + 23
        assert got["a view with gaps"][0] == [100 * root, 100 * root + 2, 100 * root + 4]
        assert got["one number"] == 3 + root
        assert got["bool"] == [True, root == 0]
        assert got["i16"] == [1, root]


def test_models_and_optimizers_become_those_of_rank_0(tmp_path):
    results = run_program(tmp_path, "modules")
    assert results[0] == results[1]
    assert results[0][1] == 0.1
    assert results[0][0]["1.num_batches_tracked"] == 3


@pytest.mark.parametrize("when", ["before", "during", "exit"])
def test_the_end_of_a_rank_is_an_error_at_step(tmp_path, when):
    (first, again, unchanged, moved), status = run_program(tmp_path, "death", when=when)
    assert first[0] == "PeerLost" and again[0] == "PeerLost", (first, again)
    assert unchanged and moved
    assert status == (0 if when == "exit" else -9)


def test_ranks_that_differ_are_told(tmp_path):
    for results in run_program(tmp_path, "differences", kinds=["shapes", "passes", "tensors"]):
        assert len(results) == 3
        for kind, text in results:
            assert kind == "InvalidArgument"
            assert "of rank 1 differ from those of rank 0" in text


def test_the_program_of_the_page(tmp_path):
    page = (pathlib.Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (program,) = [block for block in blocks if block.startswith("import heddle.torch")]
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    for rank, printed in enumerate(run_ranks(tmp_path, [tmp_path / "train.py"])):
        (loss,) = re.fullmatch(rf"rank {rank} of 2: loss (\S+)\n", printed).groups()
        assert float(loss) < 0.4


def tensor_of(array):
    """torch.as_tensor(array), which asks for DLPack from PyTorch 2.6 on."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return torch.as_tensor(array) if version >= (2, 6) else torch.from_dlpack(array)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8"])
def test_tensors_share_the_memory_of_arrays(dtype):
    array = heddle.arange(6, dtype=dtype).reshape(2, 3)
    tensor = tensor_of(array)
    assert tensor.shape == (2, 3) and heddle.torch._DTYPES.get(tensor.dtype, dtype) == dtype
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]]
    tensor[0, 1] = 9
    assert array.tolist() == [[0, 9, 2], [3, 4, 5]]
    array += 1
    array.wait()
    assert tensor.tolist() == [[1, 10, 3], [4, 5, 6]]
    back = heddle.from_dlpack(tensor)
    assert back.dtype == array.dtype and back.tolist() == tensor.tolist()


def test_tensors_share_the_memory_of_views_and_of_single_elements():
    array = heddle.arange(6, dtype="f32").reshape(2, 3)
    for part, values in ((array.T, [[0, 3], [1, 4], [2, 5]]), (array[:, 1:], [[1, 2], [4, 5]]), (array[1, 2], 5)):
        tensor = tensor_of(part)
        assert tensor.tolist() == values
        tensor += 1
        assert part.tolist() == tensor.tolist()
        tensor -= 1
    shared = torch.from_numpy(array.numpy())
    shared[0, 0] = 7
    assert array[0, 0].item() == 7


def test_a_tensor_waits_for_the_values_of_an_array():
    array = heddle.zeros(3)
    heddle.default_engine().push(lambda: array.numpy().fill(4), mutate=[array])
    assert tensor_of(array).tolist() == [4, 4, 4]


def test_gradients_are_views_of_heddles_memory():
    net = nn.Linear(3, 2)
    optimizer = optimizer_of(*net.parameters())
    net(torch.ones(1, 3)).sum().backward()
    optimizer.synchronize()
    (bucket,) = optimizer._gradients.buckets
    assert bucket.array.tolist() == [1] * 8 + [1, 1]
    net.weight.grad[0, 0] = 5
    assert bucket.array.tolist()[2] == 5
    views = [p.grad for p in net.parameters()]
    optimizer.zero_grad(set_to_none=False)
    net(torch.ones(1, 3)).sum().backward()
    assert all(p.grad is view for p, view in zip(net.parameters(), views, strict=True))


def test_the_result_is_an_optimizer_of_the_same_class():
    parameter = nn.Parameter(torch.ones(2))
    optimizer = optimizer_of(parameter)
    assert isinstance(optimizer, torch.optim.SGD) and type(optimizer).__name__ == "DistributedSGD"
    optimizer.load_state_dict(optimizer.state_dict())
    parameter.sum().backward()
    optimizer.step()
    assert parameter.tolist() == pytest.approx([0.9, 0.9])


def test_parameters_without_any_gradient_keep_none():
    parameter = nn.Parameter(torch.ones(2))
    optimizer = optimizer_of(parameter)
    optimizer.step()
    assert parameter.grad is None and parameter.tolist() == [1, 1]


def test_steps_that_are_left_out_after_synchronize():
    parameter = nn.Parameter(torch.ones(1))
    optimizer = optimizer_of(parameter)
    (parameter * math.nan).backward()
    optimizer.synchronize()
    assert math.isnan(parameter.grad.item())
    optimizer.zero_grad()
    parameter.sum().backward()
    optimizer.step()
    assert parameter.item() == pytest.approx(0.9)


def test_the_hook_of_newer_versions(monkeypatch):
    def register(parameter, hook):
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        node.register_hook(lambda *_: hook(parameter))
        return node

    monkeypatch.setattr(torch.Tensor, "register_post_accumulate_grad_hook", register, raising=False)
    parameter = nn.Parameter(torch.ones(1))
    optimizer = optimizer_of(parameter)
    parameter.sum().backward()
    assert optimizer._gradients._started == 1
    optimizer.step()
    assert parameter.item() == pytest.approx(0.9)


def test_hooks_of_an_optimizer_that_is_gone_or_replaced_do_nothing():
    parameter = nn.Parameter(torch.ones(1))
    optimizer = optimizer_of(parameter)
    del optimizer
    gc.collect()
    parameter.sum().backward()
    parameter.sum().backward()
    replaced = optimizer_of(parameter)
    optimizer = optimizer_of(parameter, backward_passes_per_step=2)
    parameter.sum().backward()
    parameter.sum().backward()
    optimizer.step()
    assert parameter.item() == pytest.approx(0.6)
    assert not replaced._gradients._started


def test_sparse_gradients_are_refused():
    net = nn.Embedding(5, 2, sparse=True)
    optimizer = optimizer_of(*net.parameters())
    with pytest.raises(heddle.InvalidArgument, match=r"\(5, 2\) is sparse.*sparse=False"):
        net(torch.tensor([1])).sum().backward()
    del optimizer


def test_calls_in_a_wrong_order():
    parameter = nn.Parameter(torch.ones(1))
    optimizer = optimizer_of(parameter)
    parameter.sum().backward()
    with pytest.raises(heddle.Error, match=r"more than 1 backward.*backward_passes_per_step"):
        parameter.sum().backward()
    with pytest.raises(heddle.Error, match=r"zero_grad\(\) after backward"):
        optimizer.zero_grad()
    with optimizer.skip_synchronize(), pytest.raises(heddle.Error, match=r"without synchronize\(\)"):
        optimizer.step()
    optimizer.synchronize()
    with pytest.raises(heddle.Error, match=r"backward\(\) after synchronize"):
        parameter.sum().backward()
    with optimizer.skip_synchronize():
        optimizer.step()
    optimizer.zero_grad()
    parameter.sum().backward()
    optimizer.step()


def test_parameters_that_come_later_are_refused():
    parameter, frozen = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(3), requires_grad=False)
    optimizer = optimizer_of(parameter, frozen)
    parameter.sum().backward()
    optimizer.step()
    frozen.requires_grad = True
    with pytest.raises(heddle.InvalidArgument, match=r"\(3,\) requires a gradient now"):
        optimizer.step()
    frozen.requires_grad = False
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(4))]})
    with pytest.raises(heddle.InvalidArgument, match=r"\(4,\) requires a gradient now"):
        optimizer.step()


def test_bad_arguments():
    parameter = nn.Parameter(torch.ones(1))
    ranks = heddle.Communicator()
    plain = torch.optim.SGD([parameter], lr=0.1)
    wrong = {
        "op is 'max'": lambda: optimizer_of(parameter, op="max"),
        "1 or more": lambda: optimizer_of(parameter, backward_passes_per_step=0),
        "bucket_bytes are 1 or more": lambda: optimizer_of(parameter, bucket_bytes=0),
        "takes an optimizer of PyTorch; got Linear": lambda: heddle.torch.DistributedOptimizer(nn.Linear(1, 1), ranks),
        "already": lambda: heddle.torch.DistributedOptimizer(optimizer_of(parameter), ranks),
        "complex64; want float32": lambda: optimizer_of(nn.Parameter(torch.ones(1, dtype=torch.complex64))),
        "parameter 0, of shape .* is on meta": lambda: optimizer_of(nn.Parameter(torch.ones(1, device="meta"))),
        "x is a int; want a tensor": lambda: heddle.torch.broadcast_parameters({"x": 3}, ranks),
        "x has the layout": lambda: heddle.torch.broadcast_parameters([("x", torch.eye(2).to_sparse())], ranks),
    }
    for text, call in wrong.items():
        with pytest.raises(heddle.InvalidArgument, match=text):
            call()
    scheduler = torch.optim.lr_scheduler.StepLR(plain, 1)
    with pytest.raises(heddle.InvalidArgument, match="make the scheduler afterwards"):
        heddle.torch.DistributedOptimizer(scheduler.optimizer, ranks)
