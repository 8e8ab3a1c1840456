"""The GIL, locks of objects, Ctrl-C: what several threads of Python do with one engine, store or trainer."""

import asyncio
import threading

import numpy as np
import pytest
from conftest import scheduler

import heddle

threaded = pytest.mark.skipif(scheduler() != "threaded", reason="needs worker threads")

# For programs in other processes, where a deadlock ends by the time limit. The main thread keeps the GIL unless it
# releases it.
KEEPS_THE_GIL = "import pickle, sys, heddle, numpy as np\nsys.setswitchinterval(1000)\n"


def passes(run, text):
    done = run(KEEPS_THE_GIL + text + "print('done')\n")
    assert done.returncode == 0 and done.stdout.split() == ["done"], done.stderr


@threaded
def test_dlpack_while_all_workers_want_the_gil(run):
    passes(
        run,
        "engine = heddle.Engine(workers=1)\n"
        "with engine:\n"
        "    x, v, stop = heddle.ones(3), engine.new_var(), []\n"
        "    def again():\n"
        "        if not stop: engine.push(again, mutate=v)\n"
        "    again()  # the worker always has an op that wants the GIL\n"
        "    for _ in range(200):\n"
        "        x += 1\n"
        "        x.__dlpack__(); x.__dlpack__(max_version=(1, 1))\n"
        "    stop.append(1)\n",
    )


@threaded
@pytest.mark.parametrize(
    "call",
    [
        "heddle.array([1.0])",
        "heddle.array(np.ones(2), dtype='f32')",
        "x[np.array([1], np.int8)]",
        "x + np.ones(3)",
        "optimizer.clear_errors()",
        "optimizer.state()",
        "trainer.state()",
        "x[x > 0] = 1",
        "x[:] = [2.0]",
        "pickle.loads(pickle.dumps(x))",
    ],
)
def test_calls_that_push_to_a_full_engine_let_its_ops_have_the_gil(run, call):
    passes(
        run,
        "engine = heddle.Engine(workers=1, max_ops=2)\n"
        "with engine:\n"
        "    x, v = heddle.ones(3), engine.new_var()\n"
        "    x.requires_grad = True\n"
        "    optimizer = heddle.Optimizer('sgd', lr=1, momentum=0.5)\n"
        "    optimizer.update('w', heddle.ones(3), heddle.ones(3))\n"
        "    trainer = heddle.Trainer([heddle.Parameter('x', x)], 'adam')\n"
        "    x = x.detach()\n"
        "    for _ in range(50):\n"
        "        for _ in range(4): engine.push(lambda: None, mutate=v)\n"
        f"        {call}\n",
    )


@threaded
def test_dlpack_inside_an_op_waits_for_nothing(engine):
    with engine:
        x, y = heddle.ones(3), heddle.zeros(3)
        seen = []

        def run():
            source, target = np.from_dlpack(x), np.from_dlpack(y)
            seen.append((source.flags.writeable, target.flags.writeable))
            target[:] = source + 1
            with pytest.raises(BufferError):
                x.__dlpack__()

        engine.push(run, read=x, mutate=y)
        assert y.tolist() == [2, 2, 2]
        assert seen == [(False, True)]


def on_threads(count, call):
    errors = []
    begin = threading.Barrier(count)

    def run(i):
        begin.wait()
        try:
            call(i)
        except BaseException as error:  # noqa: BLE001 (raised below)
            errors.append(error)

    threads = [threading.Thread(target=run, args=[i]) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_sixteen_threads_use_one_engine_its_vars_and_arrays():
    engine = heddle.Engine(workers=2)
    var, counts = engine.new_var(), [0]

    def add():
        counts[0] += 1

    def work(i):
        with engine:
            x = heddle.full(8, float(i))
            for k in range(25):
                engine.push(add, mutate=var)
                x = x + 1
                assert (x * 2).tolist() == [2.0 * (i + k + 1)] * 8
            assert engine.submit(lambda: i).result() == i
            assert heddle.from_dlpack(x).var == x.var

    on_threads(16, work)
    engine.wait(var)
    assert counts == [400]


def test_threads_share_a_store_a_trainer_an_optimizer_and_a_generator():
    store, optimizer, generator = heddle.KVStore(), heddle.Optimizer("sgd", lr=1), heddle.Generator(1)
    store.init("w", heddle.zeros(4))
    store.set_optimizer("sgd", lr=1)
    weight = heddle.zeros(4)

    def work(i):
        store.init(i, heddle.zeros(4))
        for _ in range(20):
            store.push("w", heddle.ones(4))
            store.push_pull(i, heddle.ones(4), heddle.zeros(4))
            optimizer.update("w", weight, heddle.ones(4))
            optimizer.update(i, heddle.zeros(4), heddle.ones(4))
            heddle.uniform((4,), generator=generator)
            optimizer.state()

    on_threads(8, work)
    out = heddle.zeros(4)
    store.pull("w", out)
    assert out.tolist() == [-160.0] * 4 and weight.tolist() == [-160.0] * 4
    alone = heddle.Generator(1)
    for _ in range(160):
        heddle.uniform((4,), generator=alone)
    assert generator.position == alone.position
    assert optimizer.state()["w.updates"].tolist() == [160]


def test_a_schedule_may_ask_the_trainer_that_calls_it():
    x = heddle.ones(2)
    x.requires_grad = True
    seen = []

    def schedule(step):
        seen.append(trainer.steps if trainer else None)
        return 0.1

    trainer = None
    trainer = heddle.Trainer([heddle.Parameter("x", x)], "sgd", schedule=schedule)
    x.sum().backward()
    trainer.step()
    assert 0 in seen


INTERRUPTED = """
import os, signal, threading, time
engine = heddle.Engine(workers=2, {bounds})
go, begun = threading.Event(), threading.Event()
ranks = heddle.Communicator.local(2)
store = None
def interrupts(call):
    try:
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        call()
        print('not interrupted')
    except KeyboardInterrupt:
        print('interrupted')
{program}
sys.stdout.flush()
os._exit(0)
"""


@threaded
@pytest.mark.parametrize(
    "program, bounds",
    [
        ("x = heddle.ones(2); ranks[0].all_reduce(x); interrupts(ranks[0].wait)", ""),
        ("interrupts(lambda: ranks[0].split(0))", ""),
        ("interrupts(ranks[0].shrink)", ""),
        ("interrupts(lambda: heddle.KVStore('allreduce', ranks[0]))", ""),
        ("os.mkfifo('{path}'); interrupts(lambda: heddle.load_safetensors('{path}'))", ""),
        ("os.mkfifo('{path}'); interrupts(lambda: heddle.load_checkpoint('{path}'))", ""),
        (
            "engine.push(lambda: (begun.set(), go.wait())); begun.wait()\n"
            "interrupts(lambda: engine.push(print))",
            "max_ops=1",
        ),
        (
            "with engine:\n"
            "    x = heddle.ones(2); x.wait()\n"
            "    engine.push(lambda: (begun.set(), go.wait())); begun.wait()\n"
            "    interrupts(lambda: x + 1)",
            "max_ops=1",
        ),
    ],
)
def test_ctrl_c_ends_calls_that_block(run, tmp_path, program, bounds):
    text = INTERRUPTED.format(program=program.replace("{path}", str(tmp_path / "pipe")), bounds=bounds)
    done = run("import sys, heddle\n" + text)
    assert done.stdout.split() == ["interrupted"], done.stderr


@threaded
@pytest.mark.parametrize(
    "call",
    [
        "x[mask]",
        "x[:, mask[0]]",
        "x.__setitem__(mask, heddle.zeros(4))",
        "heddle.masked_select(x, mask)",
        "heddle.nonzero(x)",
        "heddle.argwhere(x)",
        "heddle.unique(x)",
        "heddle.bincount(counts)",
        "heddle.repeat(x, counts, 0)",
        "heddle.split(x, counts)",
        "x.wait()",
        "x.tolist()",
        "str(x)",
    ],
)
def test_ctrl_c_ends_operators_that_wait_for_arrays(run, call):
    program = (
        "with engine:\n"
        "    x, mask, counts = heddle.ones((2, 2)), heddle.ones((2, 2), dtype='bool'), heddle.ones(2, dtype='i64')\n"
        "    engine.push(lambda: (begun.set(), go.wait()), mutate=[x, mask, counts]); begun.wait()\n"
        f"    interrupts(lambda: {call})\n"
        "    go.set()\n"
        f"    {call}\n"
    )
    done = run("import sys, heddle\n" + INTERRUPTED.format(bounds="", program=program))
    assert done.stdout.strip() == "interrupted", done.stdout + done.stderr


@threaded
def test_ctrl_c_ends_waits_for_a_store(run):
    # Two workers in one process, one of which never makes the call.
    done = run(
        "import sys, heddle\n"
        + INTERRUPTED.format(
            bounds="",
            program="stores = [None, None]\n"
            "def make(i): stores[i] = heddle.KVStore('allreduce', ranks[i])\n"
            "threads = [threading.Thread(target=make, args=[i]) for i in (0, 1)]\n"
            "for t in threads: t.start()\n"
            "for t in threads: t.join()\n"
            "interrupts(stores[0].barrier)\n"
            "interrupts(lambda: stores[0].set_optimizer('sgd'))\n",
        )
    )
    assert done.stdout.split() == ["interrupted", "interrupted"], done.stderr


def test_a_block_ends_its_own_engine_in_whatever_order(engine):
    other = heddle.Engine(workers=1)
    before = heddle.current_engine()
    engine.__enter__()
    other.__enter__()
    engine.__exit__()
    assert heddle.current_engine() == other
    other.__exit__()
    assert heddle.current_engine() == before
    for left in (engine.__exit__, heddle.no_grad().__exit__):
        with pytest.raises(RuntimeError, match="has not entered"):
            left()


def test_blocks_of_no_grad_in_whatever_order():
    x = heddle.ones(2)
    x.requires_grad = True

    async def block(begin, end):
        await begin.wait()
        with heddle.no_grad():
            await end.wait()
        return (x * 2).requires_grad

    async def program():
        events = [asyncio.Event() for _ in range(4)]
        first = asyncio.create_task(block(events[0], events[2]))
        second = asyncio.create_task(block(events[1], events[3]))
        seen = []
        for event in events:
            event.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            seen.append((x * 2).requires_grad)
        return seen, await first, await second

    assert asyncio.run(program()) == ([False, False, False, True], False, True)
    with heddle.no_grad(), heddle.no_grad():
        pass
    assert (x * 2).requires_grad
