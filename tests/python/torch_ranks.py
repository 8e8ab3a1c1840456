"""The programs of test_torch.py's ranks: torch_ranks.py NAME OPTIONS runs one of them and prints its result as JSON.

train() without a communicator is what ranks are compared with: one process that adds up the losses of all shards.
"""

import contextlib
import json
import os
import signal
import sys

import torch
from torch import nn

import heddle
import heddle.torch

SHARDS = 2


class Net(nn.Module):
    """Has a layer that some steps skip, two heads of which each loss uses one, and a layer that is never used."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding=1)
        self.sometimes = nn.Linear(12, 12)
        self.heads = nn.ModuleList([nn.Linear(12, 3), nn.Linear(12, 3)])
        self.unused = nn.Linear(5, 5)
        self.frozen = nn.Linear(12, 12).requires_grad_(False)

    def forward(self, x, head, sometimes):
        x = torch.tanh(self.conv(x)).flatten(1)
        x = torch.tanh(self.frozen(self.sometimes(x) if sometimes else x))
        return self.heads[head](x)


def made_net(dtype="float64", channels_last=False, seed=1):
    torch.manual_seed(seed)
    net = Net().to(getattr(torch, dtype))
    return net.to(memory_format=torch.channels_last) if channels_last else net


def loss_of(net, number, shard, heads):
    """The loss of part `shard` of batch `number`."""
    generator = torch.Generator().manual_seed(100 + number)
    x = torch.randn(8 * SHARDS, 1, 2, 2, generator=generator).to(net.conv.weight.dtype)
    y = torch.randint(3, (8 * SHARDS,), generator=generator)
    head = {"one": 0, "differ": (number + shard) % 2, "all": 0}[heads]
    output = net(x[shard::SHARDS], head, sometimes=number % 2 == 0)
    if heads == "all":
        output = output + net(x[shard::SHARDS], 1, sometimes=False)
    return nn.functional.cross_entropy(output, y[shard::SHARDS])


def made_optimizer(name, net):
    groups = [
        {"params": [*net.conv.parameters(), *net.unused.parameters()], "lr": 0.1},
        {"params": [*net.sometimes.parameters(), *net.heads.parameters(), *net.frozen.parameters()]},
    ]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=0.05, momentum=0.9, weight_decay=0.01)
    if name == "adam":
        return torch.optim.Adam(groups, lr=0.01)
    return torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")


def train(
    ranks=None,
    steps=6,
    optimizer="sgd",
    op="avg",
    heads="differ",
    passes=1,
    zero="none",
    clip=0,
    skip=True,
    closure=False,
    bucket_bytes=200,
    **made,
):
    """The parameters after some steps."""
    net = made_net(**made)
    trainer = made_optimizer(optimizer, net)
    if ranks:
        trainer = heddle.torch.DistributedOptimizer(
            trainer, ranks, op=op, backward_passes_per_step=passes, bucket_bytes=bucket_bytes
        )
    scheduler = torch.optim.lr_scheduler.StepLR(trainer, 2, 0.5)

    def clear():
        if zero == "model":
            net.zero_grad()
        else:
            trainer.zero_grad(set_to_none=zero == "none")

    def backward(step):
        total = 0
        for number in range(step * passes, (step + 1) * passes):
            losses = [loss_of(net, number, shard, heads) for shard in ([ranks.rank] if ranks else range(SHARDS))]
            scale = 1 if ranks or op == "sum" else SHARDS
            for loss in losses:
                (loss / scale).backward()
                total += loss.detach() / scale
        return total

    for step in range(steps):
        if closure:
            trainer.step(lambda step=step: (clear(), backward(step))[1])
        else:
            clear()
            backward(step)
            context = contextlib.nullcontext()
            if clip:
                if ranks:
                    trainer.synchronize()
                    context = trainer.skip_synchronize() if skip else context
                nn.utils.clip_grad_norm_([p for p in net.parameters() if p.grad is not None], clip)
            with context:
                trainer.step()
        scheduler.step()
        assert all(p.grad is None for p in [*net.unused.parameters(), *net.frozen.parameters()])
    return {name: values.flatten().tolist() for name, values in net.named_parameters()}


@contextlib.contextmanager
def as_on_gpus():
    """In the block tensors are copied as those of a GPU are: there is no PyTorch with CUDA here."""
    before = heddle.torch._is_on_host
    heddle.torch._is_on_host = lambda tensor: False
    try:
        yield
    finally:
        heddle.torch._is_on_host = before


def trainings(ranks, cases, gpus=False):
    with as_on_gpus() if gpus else contextlib.nullcontext():
        return [train(ranks, **options) for options in cases]


def dtypes(ranks, names):
    return [by_hand(ranks, getattr(torch, name)) for name in names]


def by_hand(ranks, dtype):
    """A step with gradients that are set directly."""
    p = nn.Parameter(torch.zeros(5, dtype=dtype))
    optimizer = heddle.torch.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), ranks)
    p.grad = torch.tensor([1, -2, 3.5, 0.125, 1024], dtype=dtype) * (1 + ranks.rank)
    optimizer.step()
    return p.tolist()


def overlap(ranks):
    """The reduced gradient of the last layer, read while autograd computes the first layer's."""
    first, last = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = heddle.torch.DistributedOptimizer(
        torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.1), ranks, bucket_bytes=1
    )
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            optimizer._gradients.buckets[0].array.wait()
            seen.extend(last.bias.grad.tolist())
            assert first.bias.grad is None
            return gradient

    last(Look.apply(first(torch.ones(1, 2)))).sum().mul(1 + ranks.rank).backward()
    optimizer.step()
    return seen


def mapped(ranks):
    """The memory mappings of a large and of a small gradient after a step."""
    large, small = nn.Parameter(torch.zeros(100_000)), nn.Parameter(torch.zeros(3))
    plain = torch.optim.SGD([large, small], lr=1.0)
    optimizer = heddle.torch.DistributedOptimizer(plain, ranks, bucket_bytes=1)
    ((large.sum() + small.sum()) * (1 + ranks.rank)).backward()
    optimizer.step()
    names = []
    for p in (large, small):
        assert p.tolist() == [-1.5] * p.numel()
        with open("/proc/self/maps") as maps:
            for line in maps:
                begin, end = (int(address, 16) for address in line.split()[0].split("-"))
                if begin <= p.grad.data_ptr() < end:
                    names.append(line.split()[-2] if line.endswith("(deleted)\n") else line.split()[-1])
    return names


def broadcasts(ranks, gpus=False):
    with as_on_gpus() if gpus else contextlib.nullcontext():
        return [broadcast(ranks, root) for root in range(ranks.size)]


def broadcast(ranks, root):
    """Broadcasts tensors of all kinds, whose values depend on the rank."""
    made = torch.arange(24.0).reshape(4, 6) + 100 * ranks.rank
    tensors = {
        "f32": made.clone(),
        "a view with gaps": made[:, ::2],
        "transposed": made.clone().t(),
        "channels last": made.clone().reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
        "one number": torch.tensor(3 + ranks.rank),
        "bool": torch.tensor([True, ranks.rank == 0]),
        "i16": torch.tensor([1, ranks.rank], dtype=torch.int16),
        "f16": made.half(),
        "bf16": made.bfloat16(),
        "none": torch.zeros(0, 3),
        "a parameter": nn.Parameter(made.double()),
    }
    heddle.torch.broadcast_parameters(tensors, ranks, root=root)
    return {name: tensor.tolist() for name, tensor in tensors.items()}


def modules(ranks):
    """Models of different seeds, with buffers, are equal after the broadcast, and so are the optimizers' states."""
    torch.manual_seed(ranks.rank)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1 / (1 + ranks.rank))
    if ranks.rank == 0:
        net(torch.randn(8, 3)).sum().backward()
        optimizer.step()
    optimizer = heddle.torch.DistributedOptimizer(optimizer, ranks)
    heddle.torch.broadcast_parameters(net.state_dict(), ranks)
    heddle.torch.broadcast_optimizer_state(optimizer, ranks)
    for _ in range(2):
        optimizer.zero_grad()
        net(torch.ones(8, 3) * torch.arange(8.0)[:, None]).square().sum().backward()
        optimizer.step()
    return [{name: t.tolist() for name, t in net.state_dict().items()}, optimizer.param_groups[0]["lr"]]


def said(call):
    try:
        call()
    except heddle.Error as error:
        return [type(error).__name__, str(error)]
    return None


def death(ranks, when):
    """Rank 1 dies during a step: the errors of rank 0's next two steps, and whether it can train on alone."""
    net = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    plain = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    optimizer = heddle.torch.DistributedOptimizer(plain, ranks, bucket_bytes=1)

    def step(between=lambda gradient: None):
        optimizer.zero_grad()
        x = net[0](torch.ones(4, 64))
        x.register_hook(between)  # called after the last layer's gradients are computed, before the first layer's
        net[1](x).sum().backward()
        optimizer.step()

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    for _ in range(3):
        step()
    if ranks.rank == 1:
        {"exit": sys.exit, "before": die, "during": lambda: step(die)}[when]()
    values = [p.tolist() for p in net.parameters()]
    first, again = said(step), said(step)
    unchanged = values == [p.tolist() for p in net.parameters()]
    try:
        step()
    except heddle.PeerLost:  # its traceback keeps the old optimizer alive
        optimizer = heddle.torch.DistributedOptimizer(plain, ranks.shrink(), bucket_bytes=1)
        step()
    moved = values != [p.tolist() for p in net.parameters()] and len(plain.state) == len(values)
    return [first, again, unchanged, moved]


def differences(ranks, kinds):
    return [different(ranks, kind) for kind in kinds]


def different(ranks, what):
    net = nn.Linear(2, 2 + (ranks.rank if what == "shapes" else 0))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    if what == "tensors":
        return said(lambda: heddle.torch.broadcast_parameters({f"of {ranks.rank}": net.weight}, ranks))
    passes = 1 + (ranks.rank if what == "passes" else 0)
    return said(lambda: heddle.torch.DistributedOptimizer(optimizer, ranks, backward_passes_per_step=passes))


def main():
    program, options = globals()[sys.argv[1]], json.loads(sys.argv[2])
    torch.set_num_threads(1)
    result = program(heddle.Communicator(), **options)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
