"""Fixtures and helpers of the tests of the Python package."""

import os
import subprocess
import sys

import pytest

import heddle
from gpu import on_device


def pytest_collection_modifyitems(items):
    if on_device.DEVICE:
        for item in items:
            if item.originalname in on_device.OF_THE_CPU:
                item.add_marker(pytest.mark.skip(reason="of the CPU"))


@pytest.fixture
def engine():
    return heddle.Engine(workers=2)


@pytest.fixture
def run():
    """Runs a program in another process; returns its output, its errors and its exit status."""

    def run_program(text, timeout=60, **environment):
        return subprocess.run(
            [sys.executable, "-c", text],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run_program


def scheduler():
    return os.environ.get("HEDDLE_SCHEDULER", "threaded").split(":")[0]
