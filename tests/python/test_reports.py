"""Options of printing against NumPy, and memory by line."""

import inspect
import threading

import numpy as np
import pytest

import heddle


def random_values(rng):
    shape = tuple(int(n) for n in rng.integers(0, 7, int(rng.integers(1, 4))))
    scale = 10.0 ** rng.integers(-7, 8)
    kind = rng.integers(4)
    if kind == 0:
        return rng.integers(-1000, 1000, shape)
    values = rng.normal(0, scale, shape)
    if kind == 1:
        values = values * 10.0 ** rng.integers(-6, 7, shape)
    if kind == 2 and values.size > 0:
        values.flat[int(rng.integers(values.size))] = rng.choice([np.nan, np.inf, -np.inf, 0.0])
    return values.astype(rng.choice([np.float32, np.float64]))


def test_printing_agrees_with_numpy():
    """Compares with NumPy up to 2.2; later versions write exponents for f32 from 1e6 on."""
    rng = np.random.default_rng(7)
    for _ in range(4000):
        values = random_values(rng)
        options = dict(precision=int(rng.integers(0, 12)), threshold=int(rng.integers(0, 60)), edgeitems=int(rng.integers(1, 5)),
                       linewidth=int(rng.integers(20, 120)), suppress=bool(rng.integers(2)))
        with np.printoptions(**options, legacy="2.2"), heddle.printoptions(**options):
            assert str(heddle.array(values, dtype=values.dtype)) == str(values), (values.tolist(), values.dtype, options)


def test_options_are_those_of_the_thread():
    assert heddle.get_printoptions() == (8, 1000, 3, 75, False)
    x = heddle.array([1 / 3])
    heddle.set_printoptions(precision=2)
    try:
        assert str(x) == "[0.33]"
        seen = []
        thread = threading.Thread(target=lambda: seen.append(str(x)))
        thread.start()
        thread.join()
        assert seen == ["[0.33333334]"]
    finally:
        heddle.set_printoptions(precision=8)
    for wrong, error in [({"precision": -1}, ValueError), ({"edgeitems": 0}, ValueError), ({"precision": 1.5}, TypeError),
                         ({"suppress": 1}, TypeError), ({"threshold": True}, TypeError), ({"precision": 2**70}, ValueError),
                         ({"precision": 2**31}, ValueError), ({"threshold": 2**63}, ValueError), ({"linewidth": 0}, ValueError),
                         ({"linewidth": 10**5000}, ValueError)]:
        with pytest.raises(error, match=f"^set_printoptions: {next(iter(wrong))} is .*; want "):
            heddle.set_printoptions(**wrong)
        assert heddle.get_printoptions() == (8, 1000, 3, 75, False)


def test_memory_is_counted_by_line():
    heddle.track_memory()
    try:
        line = inspect.currentframe().f_lineno + 1
        x = heddle.ones((100, 100))
        x.wait()
        y = (x + 1).wait() or x  # x + 1 is a temporary
        here = [site for site in heddle.memory_report().sites if site.line == line and site.file.endswith("test_reports.py")]
        assert [(site.arrays, site.bytes) for site in here] == [(1, 40000)]
        assert f"test_reports.py:{line}" in str(heddle.memory_report())
        assert heddle.memory_report().peak >= heddle.memory_report().bytes
        del x, y
        heddle.reset_memory_peak()
        assert not [site for site in heddle.memory_report().sites if site.line == line and site.file.endswith("test_reports.py")]
    finally:
        heddle.track_memory(False)
