"""The sessions of docs/python.md print what the page shows."""

import doctest
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"


def test_the_page_shows_what_the_sessions_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    session = "\n".join(block for block in blocks if block.startswith(">>> "))
    assert session.count(">>> ") > 30
    test = doctest.DocTestParser().get_doctest(session, {}, "python.md", str(PAGE), 0)
    report = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not report, "".join(report)


def test_the_program_of_the_readme_prints_what_it_computes(run):
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    done = run(blocks[0])
    assert done.returncode == 0 and done.stdout == "[[3. 3.]\n [3. 3.]] [12.0]\n", done.stderr
