"""Makes the models of this folder with PyTorch's exporter: NAME.onnx, and NAME.npz with inputs and expected outputs.

    pip install -r tests/python/requirements-torch-new.txt -r tests/python/onnx_models/requirements.txt
    python tests/python/onnx_models/make.py [NAME...]

The arrays of call i are `i.INPUT` and `i.OUTPUT`, by the names of the model's inputs and outputs.
"""

import pathlib
import sys

import numpy as np
import torch
from torch import nn

FOLDER = pathlib.Path(__file__).parent
MOST_BYTES = 2**20


class Block(nn.Module):
    """A block of ResNet: two convolutions with batch norms, and a shortcut."""

    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.layers = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2))
        self.fc = nn.Linear(64, 10)

    def forward(self, image):
        y = self.layers(self.pool(torch.relu(self.bn1(self.conv1(image)))))
        return self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(y, 1), 1))


class Tagger(nn.Module):
    """A bidirectional LSTM of two layers over embedded tokens; the sequences of a batch have their own lengths."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(200, 32)
        self.lstm = nn.LSTM(32, 48, 2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(96, 7)

    def forward(self, tokens, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        states, (last, _) = self.lstm(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        return self.fc(states), last


class Encoder(nn.Module):
    """A transformer encoder over embedded tokens, with a mask of padding."""

    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(200, 64), nn.Embedding(64, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(64), enable_nested_tensor=False)
        self.fc = nn.Linear(64, 5)

    def forward(self, tokens, padding):
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1]))
        return self.fc(self.layers(x, src_key_padding_mask=padding))


def images(batch):
    return {"image": torch.randn(batch, 3, 64, 64)}


def sentences(batch, length):
    lengths = torch.randint(1, length + 1, (batch,))
    lengths[0] = length
    return {"tokens": torch.randint(0, 200, (batch, length)), "lengths": lengths}


def padded(batch, length):
    given = sentences(batch, length)
    return {"tokens": given["tokens"], "padding": torch.arange(length) >= given["lengths"][:, None]}


def settled(model):
    """The model in inference, with norms that differ from those of a new one."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, 0, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 2)
        if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.1)
    return model.eval()


PADDED = [padded(2, 12), padded(3, 7), padded(4, 20)]
BATCH, LENGTH = torch.export.Dim("batch"), torch.export.Dim("length", min=2, max=64)
# The model, its outputs, the inputs of each call, the sizes that are dynamic, and the opset. A packed sequence is known
# to the older exporter alone. Before opset 23 attention is products and a softmax, later an operator.
MODELS = {
    "resnet": (ResNet, ["scores"], [images(2), images(5)], {"image": {0: BATCH}}, 20),
    "lstm": (
        Tagger,
        ["tags", "last"],
        [sentences(3, 9), sentences(5, 4), sentences(1, 17)],
        {"tokens": {0: "batch", 1: "length"}, "lengths": {0: "batch"}, "tags": {0: "batch", 1: "length"}},
        17,
    ),
    **{
        name: (Encoder, ["scores"], PADDED, {key: {0: BATCH, 1: LENGTH} for key in ("tokens", "padding")}, opset)
        for name, opset in (("transformer", 20), ("transformer_23", 23))
    },
}


def make(name):
    kind, outputs, calls, dynamic, opset = MODELS[name]
    model, path = settled(kind()), FOLDER / f"{name}.onnx"
    traced = opset > 17
    sizes = {"dynamic_shapes": dynamic} if traced else {"dynamic_axes": dynamic}
    torch.onnx.export(
        model,
        tuple(calls[0].values()),
        path,
        dynamo=traced,
        external_data=False,
        optimize=name != "resnet",  # else the exporter joins convolutions and batch norms
        input_names=list(calls[0]),
        output_names=outputs,
        opset_version=opset,
        **sizes,
    )
    arrays = {}
    with torch.no_grad():
        for i, given in enumerate(calls):
            results = model(*given.values())
            results = results if isinstance(results, tuple) else (results,)
            arrays |= {f"{i}.{key}": value.numpy() for key, value in given.items()}
            arrays |= {f"{i}.{key}": value.numpy() for key, value in zip(outputs, results, strict=True)}
    np.savez_compressed(FOLDER / f"{name}.npz", **arrays)
    for file in (path, path.with_suffix(".npz")):
        assert file.stat().st_size <= MOST_BYTES, f"{file} has {file.stat().st_size} bytes"


if __name__ == "__main__":
    torch.set_num_threads(1)
    for chosen in sys.argv[1:] or MODELS:
        torch.manual_seed(1)
        make(chosen)
