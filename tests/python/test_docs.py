"""The sessions of pages in docs print what the pages show."""

import doctest
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("page, least", {"python.md": 30, "embedding.md": 20, "onnx.md": 20}.items())
def test_the_page_shows_what_the_sessions_print(tmp_path, monkeypatch, page, least):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    session = "\n".join(block for block in blocks if block.startswith(">>> "))
    assert session.count(">>> ") > least
    test = doctest.DocTestParser().get_doctest(session, {}, page, page, 0)
    report = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not report, "".join(report)


def test_the_program_of_the_readme_prints_what_it_computes(run):
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    done = run(blocks[0])
    assert done.returncode == 0 and done.stdout == "[[3. 3.]\n [3. 3.]] [12.0]\n", done.stderr


def test_the_spellings_of_the_page_for_users_of_keras_run(tmp_path, monkeypatch, run):
    program = tmp_path / "from_keras.py"
    tool = ROOT / "tests" / "docs" / "keras_page.py"
    subprocess.run([sys.executable, "-B", tool, "generate", "docs/from_keras.md", "python", program], check=True, cwd=ROOT)
    monkeypatch.chdir(tmp_path)
    done = run(program.read_text(encoding="utf-8"))
    assert done.returncode == 0, done.stderr
