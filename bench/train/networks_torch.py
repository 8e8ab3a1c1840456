"""The peer of train_bench --networks: the networks of bench/train/networks in PyTorch.

Parameters have the order of ours, and begin with the values in --start, a safetensors file, which has the batches too.
Commands are lines on stdin, answers lines on stdout:
    losses N   N steps without dropout: their losses
    steps N    N steps: steps a second, and the last loss
    memory     the largest resident memory so far, in MiB
"""
import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

DTYPES = {"F32": torch.float32, "I64": torch.int64, "I32": torch.int32}


def read_safetensors(path):
    with open(path, "rb") as file:
        content = bytearray(file.read())
    size = int.from_bytes(content[:8], "little")
    arrays = {}
    for name, entry in json.loads(content[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            dtype = DTYPES[entry["dtype"]]
            arrays[name] = torch.frombuffer(content, dtype=dtype, offset=8 + size + begin,
                                            count=(end - begin) // dtype.itemsize).reshape(entry["shape"]).clone()
    return arrays


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(inplace=True), nn.Linear(512, 512), nn.ReLU(inplace=True), nn.Linear(512, 10))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(inplace=True), nn.Linear(128, 10))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = None
        if inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)), inplace=True)))
        y += x if self.shortcut is None else self.shortcut(x)
        return F.relu(y, inplace=True)


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs in (64, 128, 256, 512):
        layers += [BasicBlock(inputs, outputs, 1 if inputs == outputs else 2), BasicBlock(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 200))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, 512)
        self.lstm = nn.LSTM(512, 512, 2, batch_first=True)
        self.output = nn.Linear(512, 256)

    def forward(self, x):
        return self.output(self.lstm(self.embedding(x))[0])


class Block(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.projection, self.out_projection = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.linear1, self.linear2 = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)

    def forward(self, x):
        batch, length, features = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.projection(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out_projection(y.transpose(1, 2).reshape(batch, length, features))
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(torch.zeros(128, 256))
        self.tokens = nn.Embedding(256, 256)
        self.blocks = nn.Sequential(*(Block(256, 8) for _ in range(4)))
        self.norm = nn.LayerNorm(256)
        self.output = nn.Linear(256, 256)

    def forward(self, x):
        return self.output(self.norm(self.blocks(self.tokens(x) + self.places)))


def hep_cnn():
    layers = []
    for inputs in (3, 128, 128, 128):
        layers += [nn.Conv2d(inputs, 128, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(0.5)]
    return nn.Sequential(*layers, nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(128, 2))


def generator():
    layers = [nn.Linear(64, 8192), nn.Unflatten(1, (512, 4, 4)), nn.BatchNorm2d(512), nn.ReLU(inplace=True)]
    for outputs in (256, 128, 64):
        layers += [nn.ConvTranspose2d(2 * outputs, outputs, 5, 2, 2, 1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 1, 5, 2, 2, 1), nn.Tanh())


def discriminator():
    layers, inputs = [], 1
    for outputs in (64, 128, 256, 384):
        layers.append(nn.Conv2d(inputs, outputs, 5, 2, 2))
        if inputs != 1:
            layers.append(nn.BatchNorm2d(outputs))
        layers.append(nn.LeakyReLU(0.2, inplace=True))
        inputs = outputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(6144, 1))


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(100000, 32, sparse=True) for _ in range(8))
        self.dense = nn.Sequential(nn.Linear(269, 128), nn.ReLU(inplace=True), nn.Linear(128, 64), nn.ReLU(inplace=True), nn.Linear(64, 1))

    def forward(self, indices, numbers):
        return self.dense(torch.cat([table(row) for table, row in zip(self.tables, indices)] + [numbers], 1))


class Training:
    """A network, its optimizer and its step. `model` computes what `net` does, perhaps compiled."""

    def __init__(self, options):
        self.options = options
        self.parts = [generator(), discriminator()] if options.network == "cosmogan" else [NETWORKS[options.network]()]
        start = read_safetensors(options.start)
        with torch.no_grad():
            for i, parameter in enumerate(p for part in self.parts for p in part.parameters()):
                value = start[f"parameter.{i}"]
                if value.shape != parameter.shape:
                    raise SystemExit(f"parameter {i} is {tuple(parameter.shape)}, ours is {tuple(value.shape)}")
                parameter.copy_(value)
        if options.channels_last:
            self.parts = [part.to(memory_format=torch.channels_last) for part in self.parts]
        self.batches = []
        while f"batch.{len(self.batches)}.0" in start:
            batch = []
            while (key := f"batch.{len(self.batches)}.{len(batch)}") in start:
                array = start[key]
                batch.append(array.to(memory_format=torch.channels_last) if options.channels_last and array.ndim == 4 else array)
            self.batches.append(batch)
        self.optimizers = [self.optimizer(part.parameters()) for part in self.parts]
        self.models = [torch.compile(part) for part in self.parts] if options.compile else self.parts
        self.step = 0

    def optimizer(self, parameters):
        name = self.options.network
        fused = {"fused": True} if self.options.fused and name != "embeddings" else {}
        if name in ("mlp", "cnn", "resnet18"):
            return torch.optim.SGD(parameters, lr=0.001 if name == "resnet18" else 0.01, momentum=0.9, **fused)
        if name == "embeddings":
            return torch.optim.SGD(parameters, lr=0.05)
        if name == "cosmogan":
            return torch.optim.Adam(parameters, lr=0.00002, betas=(0.5, 0.999), **fused)
        return torch.optim.Adam(parameters, lr=1e-4 if name == "hep-cnn" else 1e-3, **fused)

    def loss(self, batch):
        name, model = self.options.network, self.models[0]
        if name == "embeddings":
            return F.binary_cross_entropy_with_logits(model(batch[0], batch[1]), batch[2])
        if name == "lstm-lengths" and self.options.packed:
            net = self.parts[0]
            packed = nn.utils.rnn.pack_padded_sequence(net.embedding(batch[0]), batch[2], batch_first=True, enforce_sorted=False)
            targets = nn.utils.rnn.pack_padded_sequence(batch[1].view(32, 64), batch[2], batch_first=True, enforce_sorted=False)
            return F.cross_entropy(net.output(net.lstm(packed)[0].data), targets.data)
        logits = model(batch[0])
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[1], ignore_index=-1)

    def train(self, optimizer, loss):
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def gan_step(self, batch):
        maps, noise, again, labels = batch
        make, judge = self.models
        with torch.no_grad():
            made = make(noise)
        of_maps = F.binary_cross_entropy_with_logits(judge(maps), labels)
        of_made = F.binary_cross_entropy_with_logits(judge(made), torch.zeros_like(labels))
        first = self.train(self.optimizers[1], of_maps + of_made)
        for parameter in self.parts[1].parameters():
            parameter.requires_grad_(False)
        loss = F.binary_cross_entropy_with_logits(judge(make(again)), torch.ones_like(labels))
        second = self.train(self.optimizers[0], loss)
        for parameter in self.parts[1].parameters():
            parameter.requires_grad_(True)
        return first + second

    def next_step(self):
        batch = self.batches[self.step % len(self.batches)]
        self.step += 1
        with torch.autocast("cpu", torch.bfloat16, enabled=self.options.bf16):
            if self.options.network == "cosmogan":
                return self.gan_step(batch)
            loss = self.loss(batch)
        return self.train(self.optimizers[0], loss)

    def losses(self, steps):
        if self.options.network == "hep-cnn":
            self.parts[0].eval()  # without dropout
        losses = [float(self.next_step()) for _ in range(steps)]
        self.parts[0].train()
        return losses


NETWORKS = {"mlp": mlp, "cnn": cnn, "resnet18": resnet18, "lstm": LanguageModel, "lstm-lengths": LanguageModel, "transformer": Transformer,
            "hep-cnn": hep_cnn, "embeddings": Recommender}


def peak_mebibytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", required=True)
    parser.add_argument("--start", required=True, help="the file of initial parameters and batches")
    parser.add_argument("--threads", type=int, required=True)
    for name in ("--channels-last", "--compile", "--packed", "--fused", "--bf16"):
        parser.add_argument(name, action="store_true")
    torch.set_num_threads(parser.parse_args().threads)
    training = Training(parser.parse_args())
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "memory":
            print(peak_mebibytes(), flush=True)
        elif command == "losses":
            print(*training.losses(int(rest[0])), flush=True)
        else:
            steps = int(rest[0])
            start = time.perf_counter()
            for _ in range(steps):
                loss = training.next_step()
            print(steps / (time.perf_counter() - start), float(loss), flush=True)


if __name__ == "__main__":
    main()
