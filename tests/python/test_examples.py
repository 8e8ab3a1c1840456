"""The short programs of examples/python: they check their own results, and draw what those in C++ draw."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def test_heat_draws_the_picture_of_the_program_in_cpp(tmp_path):
    picture = tmp_path / "plate.svg"
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "python" / "heat.py", picture],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 and "from the exact solution" in done.stdout, done.stderr
    drawn, shown = (cells(path) for path in (picture, ROOT / "docs" / "pictures" / "heat.svg"))
    assert len(drawn) == 800
    for (place, color), (wanted_place, wanted_color) in zip(drawn, shown, strict=True):
        assert place == wanted_place
        levels = zip(color, wanted_color, strict=True)
        assert all(abs(int(one, 16) - int(other, 16)) <= 1 for one, other in levels), place


def cells(path):
    """The position and colour of each square of a picture."""
    return re.findall(r"<path d='([^']*)' fill='#([0-9a-f]{3})'/>", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["text_lstm", "tickets", "spoken_words"])
def test_networks_learn(name):
    program = ROOT / "examples" / "python" / "networks" / f"{name}.py"
    done = subprocess.run([sys.executable, program, "--quick"], capture_output=True, text=True, timeout=300, check=False)
    if "libsndfile1-dev" in done.stderr:
        pytest.skip("this build reads no sound files")
    assert done.returncode == 0 and "wanted: " in done.stdout, done.stdout + done.stderr


def test_a_network_without_data_says_how_to_get_them(tmp_path):
    program = ROOT / "examples" / "python" / "networks" / "tickets.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 2 and "collect.py packages packages.tsv" in done.stderr
