"""The type stubs: current, and good enough for a strict checker."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]

PROGRAM = '''
import numpy as np
import heddle
import heddle.onnx


def learn(x: heddle.NDArray, labels: heddle.NDArray) -> float:
    net = heddle.Sequential(heddle.Dense(2, 16, relu=True), heddle.Dense(16, 2))
    trainer = heddle.Trainer(net.parameters(), "adam", {"lr": 0.05})
    loss = heddle.cross_entropy(net(x), labels)
    loss.backward()
    trainer.step()
    return float(loss)


engine = heddle.Engine(workers=2)
var: heddle.Var = engine.new_var()
engine.push(lambda: None, mutate=[var], name="nothing")
total: int = engine.submit(lambda: 3).result() + 1
x = heddle.array([[1.0, 2.0]], dtype="f32") * 2 + np.ones(2)
y: heddle.NDArray = heddle.softmax(x[0], axis=-1)
shape: tuple[int, ...] = y.shape
reveal_type(x.numpy())
heddle.save_safetensors("x", {"x": x})
model: heddle.onnx.OnnxModel = heddle.onnx.load("x.onnx", trainable=True)
outputs: list[heddle.NDArray] = model.run(x, mask=[True])


async def waits() -> heddle.NDArray:
    return await y
'''


def mypy(program, path):
    path.write_text(program)
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(path.parent / "cache"), str(path)],
        env={**os.environ, "MYPYPATH": str(ROOT / "python")},
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_stub_is_current():
    done = subprocess.run(
        [sys.executable, "-B", str(ROOT / "python" / "stubs.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_program_passes_mypy_strict(tmp_path):
    done = mypy(PROGRAM, tmp_path / "program.py")
    assert done.returncode == 0, done.stdout
    assert "numpy" in done.stdout


def test_wrong_programs_do_not(tmp_path):
    wrong = "import heddle\nheddle.softmax(3, axis='x')\nheddle.Engine(worker=1)\nheddle.ones(2).shap\n"
    done = mypy(wrong, tmp_path / "wrong.py")
    assert done.stdout.count("error:") >= 3, done.stdout
