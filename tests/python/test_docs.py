"""The sessions of docs/python.md print what the page shows."""

import doctest
import pathlib
import re

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


def test_the_page_shows_what_the_sessions_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    session = "\n".join(block for block in blocks if block.startswith(">>> "))
    assert session.count(">>> ") > 30
    test = doctest.DocTestParser().get_doctest(session, {}, "python.md", str(PAGE), 0)
    report = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not report, "".join(report)
