"""The peer of train_bench and train_ranks: the same network, batch and optimizer in PyTorch.

For every line on stdin it trains the given number of steps and prints images a second and the loss; between lines it
sleeps. bench/python/torch_ddp.py runs it with --ddp and with --heddle.
"""
import argparse
import os
import sys
import time

import torch
from torch import nn


def made_up_data(count):
    """Pictures of ten patterns in noise; a fifth of the labels are wrong, so that the loss never vanishes."""
    generator = torch.Generator().manual_seed(1)
    patterns = torch.randn(10, 1, 28, 28, generator=generator)
    labels = torch.randint(10, (count,), generator=generator)
    images = patterns[labels] + torch.randn(count, 1, 28, 28, generator=generator)
    wrong = torch.rand(count, generator=generator) < 0.2
    labels[wrong] = torch.randint(10, (int(wrong.sum()),), generator=generator)
    return images, labels


def network():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(inplace=True), nn.Linear(128, 10))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="autocast to bf16")
    parser.add_argument("--ddp", action="store_true", help="as rank RANK of WORLD_SIZE, which meet at TRAIN_TORCH_FILE")
    parser.add_argument("--heddle", action="store_true", help="as a rank of heddle.torch")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    model = network()
    images, labels = made_up_data(32 * arguments.batch)
    if arguments.channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    if arguments.ddp:
        torch.distributed.init_process_group(
            "gloo", init_method="file://" + os.environ["TRAIN_TORCH_FILE"],
            rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
        model = nn.parallel.DistributedDataParallel(model)
        if torch.distributed.get_rank() == 0:
            os.remove(os.environ["TRAIN_TORCH_FILE"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if arguments.heddle:
        import heddle.torch
        ranks = heddle.Communicator()
        heddle.torch.broadcast_parameters(model.state_dict(), ranks)
        optimizer = heddle.torch.DistributedOptimizer(optimizer, ranks)
    batches = list(zip(images.split(arguments.batch), labels.split(arguments.batch)))
    step = int(os.environ.get("RANK", 0))  # different batches on each rank
    for line in sys.stdin:
        steps = int(line)
        start = time.perf_counter()
        for _ in range(steps):
            x, y = batches[step % len(batches)]
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=arguments.bf16):
                loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
        seconds = time.perf_counter() - start
        print(steps * arguments.batch / seconds, float(loss), flush=True)


if __name__ == "__main__":
    main()
