"""SummaryWriter and pictures of modules: files are read by event_files.py and, where it is installed, by TensorBoard."""

import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

import numpy as np
import pytest

import heddle
from event_files import fields, png, records, values


def scalars(path):
    return [(step, tag, struct.unpack("<f", value[2][0])[0]) for step, tag, value in values(path)]


def test_scalars_are_numbers_and_arrays(tmp_path):
    with heddle.SummaryWriter(tmp_path / "run", suffix=".x") as writer:
        assert os.path.dirname(writer.path) == str(tmp_path / "run") and writer.path.endswith(".x")
        x = heddle.zeros(())
        for step in range(5):
            writer.scalar("array", x, step)
            x += 1
            writer.scalar("number", step / 2, step)
        writer.scalar("numpy", np.float64(3), -1)
        writer.scalar("int", 7, 2**40)
        writer.scalar("list", [2.5], step=0)
    wanted = [pair for step in range(5) for pair in ((step, "array", float(step)), (step, "number", step / 2))]
    assert scalars(writer.path) == [*wanted, (-1, "numpy", 3.0), (2**40, "int", 7.0), (0, "list", 2.5)]


def test_none_is_no_scalar_and_a_zero_byte_no_path(tmp_path):
    with (
        heddle.SummaryWriter(tmp_path / "run") as writer,
        pytest.raises(TypeError, match="scalar: value is a NoneType; want"),
    ):
        writer.scalar("loss", None, 1)
    with pytest.raises(heddle.InvalidArgument, match="the suffix has a zero byte"):
        heddle.SummaryWriter(tmp_path / "run", suffix="a\0b")


def test_histograms_are_numpys(tmp_path):
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((20, 30)).astype(np.float32), np.arange(-5, 6), np.array([0.0, np.nan, np.inf, 2.0])]
    with heddle.SummaryWriter(tmp_path) as writer:
        for step, array in enumerate(arrays):
            writer.histogram("h", array, step)
    for (step, _, value), array in zip(values(writer.path), arrays):
        (histogram,) = value[5]
        h = fields(histogram)
        low, high, count, total, squares = (struct.unpack("<d", h[i][0])[0] for i in range(1, 6))
        limits, counts = (np.frombuffer(h[i][0], np.float64) for i in (6, 7))
        finite = array[np.isfinite(array)].astype(np.float64)
        assert (low, high, count) == (finite.min(), finite.max(), finite.size)
        assert np.allclose([total, squares], [finite.sum(), (finite**2).sum()])
        assert (counts == np.histogram(finite, np.concatenate([[-np.inf], limits]))[0]).all()


def test_images_are_the_pixels(tmp_path):
    rng = np.random.default_rng(2)
    colours = rng.integers(0, 256, (3, 5, 4), np.uint8)
    grey = rng.random((6, 7)).astype(np.float32) * 1.4 - 0.2
    batch = rng.integers(0, 256, (3, 1, 2, 2), np.uint8)
    with heddle.SummaryWriter(tmp_path) as writer:
        writer.image("colours", colours, 0)
        writer.image("colours", colours.transpose(1, 2, 0), 1, channels_last=True)
        writer.image("grey", grey, 0)
        writer.image("batch", batch, 0)
    pictures = [png(fields(value[4][0])[4][0]) for _, _, value in values(writer.path)]
    assert (pictures[0] == colours.transpose(1, 2, 0)).all() and (pictures[1] == pictures[0]).all()
    assert (pictures[2][..., 0] == np.rint(np.clip(grey, 0, 1) * np.float32(255))).all()
    assert pictures[3].shape == (4, 4, 1)
    for i in range(3):
        y, x = i // 2 * 2, i % 2 * 2
        assert (pictures[3][y : y + 2, x : x + 2, 0] == batch[i, 0]).all()
    assert not pictures[3][2:, 2:].any()


def write_everything(folder):
    x = heddle.Input((None, 4), "x")
    y = heddle.Dense(4, 3)(x)
    model = heddle.Model(x, heddle.Sequential(heddle.Relu(), heddle.Dense(3, 3))(y) + y)
    with heddle.SummaryWriter(folder) as writer:
        for step in range(3):
            writer.scalar("loss", heddle.full((), 1 / (step + 1)), step)
            writer.histogram("weights", heddle.arange(100), step)
        writer.image("picture", heddle.ones((3, 4, 5)), 1)
        writer.text("note", "**bold**", 2)
        writer.hyperparameters({"lr": 0.1, "deep": True, "name": "net", "layers": 3}, ["loss"])
        writer.graph(model, (2, 4))
    return writer.path


def test_tensorboard_reads_everything(tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    hparams = pytest.importorskip("tensorboard.plugins.hparams.metadata")
    write_everything(tmp_path)
    accumulator = reader.EventAccumulator(str(tmp_path), {key: 0 for key in reader.DEFAULT_SIZE_GUIDANCE})
    accumulator.Reload()
    tags = accumulator.Tags()
    losses = accumulator.Tensors("loss") if "loss" in tags["tensors"] else accumulator.Scalars("loss")
    assert [one.step for one in losses] == [0, 1, 2]
    assert [round(getattr(one, "value", None) or one.tensor_proto.float_val[0], 4) for one in losses] == [1.0, 0.5, 0.3333]
    assert "weights" in tags["histograms"] + tags["tensors"] and "picture" in tags["images"] + tags["tensors"]
    (note,) = accumulator.Tensors("note")
    assert note.tensor_proto.string_val[0] == b"**bold**" and note.step == 2
    graph = accumulator.Graph()
    nodes = {node.name: list(node.input) for node in graph.node}
    assert nodes["add_0"] == ["sequential_0/1_Dense", "dense_0_Dense"] and nodes["dense_0_Dense"] == ["x"]
    shapes = {node.name: [d.size for d in node.attr["_output_shapes"].list.shape[0].dim] for node in graph.node}
    assert shapes["dense_0_Dense"] == [2, 3]
    assert [d for d in accumulator.summary_metadata if d.startswith("_hparams_")] == [
        hparams.EXPERIMENT_TAG,
        hparams.SESSION_START_INFO_TAG,
        hparams.SESSION_END_INFO_TAG,
    ]
    content = accumulator.summary_metadata[hparams.SESSION_START_INFO_TAG].plugin_data.content
    start = hparams.parse_session_start_info_plugin_data(content)
    assert {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()} == {
        "lr": 0.1,
        "deep": True,
        "name": "net",
        "layers": 3.0,
    }


def test_tensorboards_plugins_take_the_values(tmp_path):
    compat = pytest.importorskip("tensorboard.data_compat")
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    tensors = pytest.importorskip("tensorboard.util.tensor_util")
    path = write_everything(tmp_path)
    kinds = {}
    for event in loader.EventFileLoader(path).Load():
        for value in event.summary.value:
            migrated = compat.migrate_value(value)
            kinds[value.tag] = value.metadata.plugin_data.plugin_name or migrated.metadata.plugin_data.plugin_name
            if value.tag == "weights":
                assert tensors.make_ndarray(migrated.tensor)[:, 2].sum() == 100
    assert kinds["loss"] == "scalars" and kinds["weights"] == "histograms" and kinds["picture"] == "images"
    assert kinds["note"] == "text" and kinds["_hparams_/experiment"] == "hparams"


def test_threads_and_late_errors(tmp_path):
    writer = heddle.SummaryWriter(tmp_path)

    def write(name):
        for step in range(50):
            writer.scalar(name, heddle.full((), step), step)

    threads = [threading.Thread(target=write, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.flush()
    read = scalars(writer.path)
    for i in range(4):
        assert [step for step, tag, _ in read if tag == f"t{i}"] == list(range(50))
    writer.scalar("bad", heddle.take(heddle.ones(2), heddle.array([5]))[0], 0)
    writer.scalar("good", 1, 0)
    with pytest.raises(heddle.Error):
        writer.flush()
    writer.close()
    writer.close()
    assert scalars(writer.path)[-1] == (0, "good", 1.0)
    with pytest.raises(heddle.InvalidArgument, match="SummaryWriter.scalar: the writer is closed"):
        writer.scalar("x", 1, 1)


def test_a_kill_leaves_whole_records(tmp_path):
    program = f"""
import heddle
writer = heddle.SummaryWriter({str(tmp_path)!r})
for step in range(10**9):
    writer.scalar("x", heddle.full((), step), step)
    if step % 100 == 0:
        writer.flush()
"""
    child = subprocess.Popen([sys.executable, "-c", program])
    deadline = time.monotonic() + 60
    while not (files := list(tmp_path.iterdir())) or files[0].stat().st_size < 20000:
        assert time.monotonic() < deadline and child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert len(list(records(files[0]))) > 100


def test_wrong_values_are_refused(tmp_path):
    writer = heddle.SummaryWriter(tmp_path)
    with pytest.raises(heddle.InvalidArgument, match=r"SummaryWriter.scalar: the array is \(2,\); want one element"):
        writer.scalar("x", [1, 2], 0)
    with pytest.raises(TypeError):
        writer.hyperparameters({"x": []})
    with pytest.raises(TypeError):
        writer.hyperparameters({1: 2})
    with pytest.raises(heddle.Error, match="cannot be made"):
        heddle.SummaryWriter(pathlib.Path(writer.path) / "run")


def boxes(svg):
    root = xml.etree.ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    return [[text.text for text in group.iter(f"{space}text")] for group in root.iter(f"{space}g")]


def test_a_picture_of_a_net(tmp_path):
    class Own(heddle.Module):
        def __init__(self):
            super().__init__()
            self.inner = heddle.Dense(3, 3)

        def forward(self, x):
            return self.inner(x) * 2

    net = heddle.Sequential(heddle.Dense(None, 3), Own())
    assert boxes(net.to_svg()) == [["x"], ["Dense(None, 3)"], ["Own", "12 parameters"]]
    assert boxes(net.to_svg((2, 4))) == [["x", "(2, 4)"], ["Dense(4, 3)", "(2, 3)", "15 parameters"], ["Own", "(2, 3)", "12 parameters"]]
    net.svg(tmp_path / "net.svg", heddle.ones((2, 4)))
    assert (tmp_path / "net.svg").read_text() == net.to_svg((2, 4))
    with pytest.raises(heddle.Error, match="cannot be written"):
        net.svg(tmp_path / "no" / "net.svg")


def test_the_program_shows_a_saved_model(tmp_path):
    x = heddle.Input((None, 4), "x")
    model = heddle.Model(x, heddle.Dense(4, 3)(x) + 1)
    path, picture = str(tmp_path / "model.safetensors"), tmp_path / "model.svg"
    heddle.save_model(path, model)
    heddle_program = [sys.executable, "-m", "heddle", "model"]

    def run(*arguments):
        return subprocess.run([*heddle_program, *arguments], capture_output=True, text=True, check=False)

    assert run(path).stdout.strip() == repr(model)
    shown = run(path, "--svg", str(picture), "--summary")
    assert shown.returncode == 0 and "dense_0: Dense(4, 3)" in shown.stdout and "(1, 3)" in shown.stdout
    assert boxes(picture.read_text())[1] == ["Dense(4, 3)", "(1, 3)", "15 parameters"]
    heddle.save_model(path, heddle.Dense(4, 3))
    assert "needs --input" in run(path, "--summary").stderr
    assert "(5, 3)" in run(path, "--summary", "--input", "5,4").stdout
    assert "want sizes with commas" in run(path, "--summary", "--input", "5,x").stderr
    assert "model file" in run(__file__).stderr or "safetensors" in run(__file__).stderr
