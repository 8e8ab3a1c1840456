"""The example asyncio_loop: ops that an event loop completes."""

import asyncio
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import heddle

FOLDER = pathlib.Path(__file__).parents[2] / "examples" / "asyncio_loop"


@pytest.fixture
def loop_ops(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import loop_ops

    return loop_ops.LoopOps


def run_example(*options):
    return subprocess.run(
        [sys.executable, FOLDER / "main.py", *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_all_answers_are_right():
    done = run_example("--rounds", "30", "--tick", "0.5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("30 of 30 answers are right")
    assert not done.stderr


def test_a_peer_that_hangs_up_ends_the_program_with_one_error():
    done = run_example("--cut", "3")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "the peer has hung up in op 'receive'" in done.stderr


def test_bad_options_and_help():
    assert "is too few" in run_example("--rounds", "0").stderr
    assert "mutates the clock" in run_example("--help").stdout


def test_ops_run_when_their_turn_has_come_and_computations_depend_on_them(loop_ops):
    seen = []

    def program(engine, loop):
        ops = loop_ops(engine, loop)
        with engine:
            x = heddle.zeros(3)
            for i in range(10):
                ops.push(lambda i=i: fill(i, np.asarray(x)), mutate=x, name="fill")
                y = x + 1
                engine.push(lambda y=y: seen.append(np.asarray(y).tolist()), read=y)
            engine.wait_all()

    async def fill(i, to):
        await asyncio.sleep(0)
        to[:] = i

    async def main():
        await asyncio.to_thread(program, heddle.Engine(workers=2), asyncio.get_running_loop())

    asyncio.run(main())
    assert sorted(seen) == [[i + 1.0] * 3 for i in range(10)]


def test_an_exception_of_a_coroutine_fails_its_op(loop_ops):
    ran = []

    async def fail():
        raise KeyError("lost")

    def program(engine, loop):
        a, b = engine.new_var(), engine.new_var()
        loop_ops(engine, loop).push(fail, mutate=a, name="fail")
        engine.push(lambda: ran.append(1), read=a, mutate=b)
        with pytest.raises(KeyError, match="lost"):
            engine.wait(b)

    async def main():
        await asyncio.to_thread(program, heddle.Engine(workers=2), asyncio.get_running_loop())

    asyncio.run(main())
    assert not ran
