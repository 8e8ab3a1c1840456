"""The page docs/onnx.md: what passes of ONNX's node cases, and what the rest needs."""

import collections
from collections.abc import Sequence

import onnx

from .cases import RANDOM_NUMBERS, ROUNDING, Result, all_results, count_missing, node_cases, results_of
from heddle.onnx.table import TABLE

PAGE = """\
# ONNX

`heddle.onnx` runs models of [ONNX](https://onnx.ai) files with Heddle's operators, and trains them. A test runs the sessions of
this page, which `python -m onnx_backend --markdown` in `tests/python` writes; it needs what that counts to be true.

Contents: [Load and run](#load-and-run) · [Captured graphs](#captured-graphs) · [Training](#training) · [Saving](#saving) · [Files](#files) ·
[Errors](#errors) · [Speed](#speed) · [Limits](#limits) · [What is missing](#what-is-missing) · [Operators](#operators)

## Load and run

    pip install onnx

`load` takes a path, or the bytes of a file. Here a model is written as text, which `onnx.parser` reads:

```python
>>> import numpy as np, onnx.parser
>>> import heddle, heddle.onnx
>>> def write(path, text):
...     model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 20]> ' + text)
...     _ = open(path, "wb").write(model.SerializeToString())
>>> write("net.onnx", '''net (float[batch, 3] x) => (float[batch, 2] y, int64[batch] best)
...   <float[3, 2] w = {{1, 2, 3, 4, 5, 6}}, float[2] b = {{0.5, -0.5}}> {{
...     p = MatMul(x, w)  s = Add(p, b)  y = Softmax(s)  best = ArgMax<axis = 1, keepdims = 0>(s)
...   }}''')
>>> model = heddle.onnx.load("net.onnx")
>>> [str(value) for value in model.inputs], [str(value) for value in model.outputs]
(['x: f32 (batch, 3)'], ['y: f32 (batch, 2)', 'best: i64 (batch,)'])
>>> y, best = model(np.ones((4, 3), np.float32))
>>> best
array([1 1 1 1], dtype=i64)
>>> model(x=[[1.0, -1.0, 0.0]])[1].tolist()
[0]
```

- A call returns at once, as operators do. It returns the output, or a tuple of several; `model.run(...)` always returns a list.
- Inputs come in order or by name: arrays of Heddle, of NumPy, or lists. Their dtypes are those of the model; a size that has a name may be any.
- Outputs are arrays of their own: no later call changes them.
- Any thread may call. The model belongs to the engine that was current in `load`.
- `load(path, device="gpu(0)")` puts the weights on a GPU, where calls compute; without it they are on the thread's [default device](python.md#gpus). Lists and arrays of NumPy are copied
  there, arrays of Heddle have to be there.
- Weights are loaded once. What depends on constants alone is computed in `load`; a batch norm becomes part of the convolution before it, and an added row or
  `Relu` part of a product.

`print(model.summary())`, or `heddle.onnx.summary(model)`, shows inputs, outputs, the operators and how the model runs.

## Captured graphs

For each combination of shapes the first call runs the model operator by operator, the second captures it as a [graph](engine.md#graphs), and later ones are one launch:

```python
>>> x = np.ones((4, 3), np.float32)
>>> for _ in range(3):
...     y, best = model(x)
>>> model.captured, model.captures, model.reason
(True, 1, '')
```

- Sizes that a model computes from its inputs' shapes, as exporters write them, are computed in the first call. `If`, `Loop` and `Scan` are part of the graph as they
  run for these shapes.
- A model whose shapes or control flow depend on the *values* of its inputs runs operator by operator, and `reason` says which node is why.
- The graphs of the 8 combinations that were used last are kept: `load(path, graphs=20)` keeps more. A graph holds the memory of its arrays, and `model.reset()` gives
  that back. `load(path, capture=False)` captures nothing.
- Calls of one combination run one after the other, since they use the same memory. Those of others, and operator by operator, run side by side.

```python
>>> write("chosen.onnx", "chosen (float[n] x) => (int64[1, m] y) {{ y = NonZero(x) }}")
>>> chosen = heddle.onnx.load("chosen.onnx")
>>> [chosen(np.array([0, 1, 1], np.float32)).tolist() for _ in range(3)][2]
[[1, 2]]
>>> chosen.captured, chosen.reason
(False, "node 'y' (NonZero): the shape of its result depends on the inputs' values")
```

## Training

With `trainable=True` the floating initializers that are weights are leaves: `model.parameters()` lists them by their names in the file, and gradients flow through the model.
Nothing is folded into them or joined.

```python
>>> model = heddle.onnx.load("net.onnx", trainable=True)
>>> [parameter.name for parameter in model.parameters()]
['w', 'b']
>>> trainer = heddle.Trainer(model.parameters(), "adam", {{"lr": 0.1}})
>>> @trainer.capture
... def step(x, labels):
...     loss = heddle.nll_loss(heddle.log(model(x)[0]), labels)
...     loss.backward()
...     trainer.step()
...     return loss
>>> losses = [step(x, np.array([0, 0, 0, 0])).item() for _ in range(60)]
>>> losses[0] > 2 and losses[-1] < 0.5
True
```

- Scalars, limits of `Clip`, scales of `Resize`, and means and variances of batch norms are no weights. A batch norm is the file's: in inference by default.
- In `heddle.no_grad()` calls are captured, and see what training has changed.
- The same call serves in `heddle.Trainer.capture`, whose first call of a shape is not captured.

## Saving

`save` writes a `heddle.Sequential` or a `heddle.Model` of layers and elementwise operators as an ONNX file, as it computes in inference:

```python
>>> net = heddle.Sequential(heddle.Dense(3, 8, relu=True), heddle.LayerNorm(8), heddle.Dense(8, 2))
>>> heddle.onnx.save(net, "saved.onnx", (None, 3))
>>> again = heddle.onnx.load("saved.onnx")
>>> bool(heddle.all(heddle.isclose(again(x), net(x), 1e-5, 1e-6)))
True
```

What it cannot write, such as a class of one's own, it lists, and writes nothing.

## Files

- Weights in files beside the model's (ONNX's external data) are mapped: they are read where they are used, and `load` takes no memory for them. Such a file may be deleted or
  replaced, but not written to, while the model lives; `load(path, mapped=False)` reads it. Weights that are trained, and those at a place that is no multiple of 64, are copied.
- Weights inside the model's file are copied once; the file may change afterwards.
- A file may come from anybody: sizes that are negative or overflow, external data outside of the model's folder, also through links, functions that call themselves or grow without
  end, values that nothing computes, and truncated files are refused. A model can still ask for much memory and time, as any program can.

## Errors

`load` raises `heddle.onnx.Missing`, an `Error`, with all operators, opsets, attributes and dtypes that Heddle lacks, and the nodes that need them:

```python
>>> write("dft.onnx", "dft (float[1, 4, 1] x) => (float[a, b, c] y) {{ z = DFT(x)  y = Gelu<unheard = 1>(z) }}")
>>> heddle.onnx.load("dft.onnx")
Traceback (most recent call last):
heddle.onnx.table.Missing: heddle.onnx.load: dft.onnx needs what heddle does not have:
  Gelu: attribute unheard: node 'y'
  operator DFT: node 'z'
>>> model(np.ones((2, 4), np.float32))
Traceback (most recent call last):
heddle._errors.InvalidArgument: model net.onnx: input 'x' is f32 (2, 4); want x: f32 (batch, 3)
>>> open("cut.onnx", "wb").write(open("net.onnx", "rb").read()[:100])
100
>>> heddle.onnx.load("cut.onnx")
Traceback (most recent call last):
heddle._errors.Error: heddle.onnx.load: cut.onnx: is no ONNX model, or is cut off or damaged (100 bytes)
```

What is wrong with shapes is raised by the call and names the node; what is wrong with values, such as an index, is raised where an output is waited for, and the next call is not affected.

## Speed

Microseconds a call of the models in `tests/python/onnx_models`, beside onnxruntime 1.32, each with one thread: `HEDDLE_WORKERS=1 python bench/python/onnx_models.py`, M5
([performance](performance.md)), with other work at times, 2026-11-28.

{speed}

Steps of a small LSTM take longer than in onnxruntime; what a launch of any graph and the copies of its inputs and outputs cost, some 25 µs, counts for small models.

## Limits

- Arrays are on the CPU. There are no sequences, optionals, strings or sparse tensors, and no dtypes of less than 8 bits or `float8`.
- Several operators of Heddle together compute what one lacks: `RNN`, `GRU` and `LSTM` with `clip`, `input_forget` or other activations than the usual ones, step by step;
  `MaxPool` with indices; `AveragePool` with dilation; `Attention` with a soft cap or scores as outputs; `RotaryEmbedding`, whose sines are inputs; `GridSample`, `LRN`,
  `DeformConv`; `Resize` with antialiasing, crops, or rounding that PyTorch does not have. `heddle.onnx.operators()` says which operator computes which.
- Most operators are those of opset 6 or 7 and later, to the newest that the package `onnx` knows.
- A `Loop` that makes no step has no outputs of its steps, since their shape is unknown.

## What is missing

`python -m onnx_backend` runs the node cases of onnx {version}. **{passed} of {cases} cases pass** within ONNX's tolerances. The other {rest} need something that is missing. {wrong}
*Alone* counts the cases that lack nothing else.

- A case is left out only for what the code finds: an operator that is not in the table of {entries}, a dtype that Heddle does not have, or an option that an entry of the table refuses.
- "{rounding}": a result in f16 and the values that ONNX wants are both within the tolerances of what the model gives in f64, but not of each other.
- "{random_numbers}": with one seed Heddle draws other numbers than NumPy, which ONNX wants there.

{missing}

## Operators

Operators that Heddle does not have run by their definition in ONNX's specification where it has one ("definition"); "several" are functions of Heddle that compute a node together.

{operators}
"""

# bench/python/onnx_models.py: the model and its batch, captured, operator by operator, and onnxruntime.
SPEED = [
    ["resnet, 1 image", 258, 444, 286],
    ["resnet, 16 images", 7575, 6781, 8392],
    ["lstm, 1 sequence of 12", 156, 495, 74],
    ["lstm, 16 sequences of 40", 1586, 2191, 1670],
    ["transformer, 1 sequence of 12", 132, 996, 97],
    ["transformer, 16 sequences of 40", 5221, 7961, 6569],
]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def operator_row(operator: str, results: Sequence[Result]) -> list[object]:
    counts = count_missing(results)
    needs = [f"{what} ({count})" for what, count in counts.items() if not what.startswith("dtype ")]
    dtypes = [f"{what.removeprefix('dtype ')} ({count})" for what, count in counts.items() if what.startswith("dtype ")]
    if dtypes:
        needs.append(("dtype " if len(dtypes) == 1 else "dtypes ") + ", ".join(dtypes))
    if wrong := sum(bool(result.error) for result in results):
        needs.append(f"wrong results ({wrong})")
    return [
        f"`{operator}`",
        computed_by(operator),
        len(results),
        sum(result.passed for result in results),
        "; ".join(needs) or "-",
    ]


def computed_by(operator: str) -> str:
    entries = [entry for name, entry in TABLE.items() if name.rpartition(".")[2] == operator]
    if not entries:
        defined = any(operator in result.nodes and not result.missing for result in results_of(operator))
        return "definition" if defined else "-"
    return ", ".join(f"`{name}`" for name in entries[0].native) or "several"


def page() -> str:
    results = all_results()
    passed = sum(result.passed for result in results)
    wrong = sum(bool(result.error) for result in results)
    alone = collections.Counter(result.missing[0] for result in results if len(result.missing) == 1)
    missing = [[what, count, alone[what]] for what, count in count_missing(results).items()]
    return PAGE.format(
        version=onnx.__version__,
        rounding=ROUNDING,
        random_numbers=RANDOM_NUMBERS,
        cases=len(results),
        passed=passed,
        rest=len(results) - passed - wrong,
        wrong=f"Wrong results: {wrong}." if wrong else "None gives a wrong result.",
        entries=len(TABLE),
        speed=table(
            ["Model", "Captured", "Operator by operator", "onnxruntime", "Captured / onnxruntime"],
            [[*row, f"{row[1] / row[3]:.2f}"] for row in SPEED],
        ),
        missing=table(["Missing", "Cases", "Alone"], missing),
        operators=table(
            ["Operator", "Computed by", "Cases", "Pass", "What the rest needs"],
            [operator_row(operator, results_of(operator)) for operator in node_cases()],
        ),
    )
