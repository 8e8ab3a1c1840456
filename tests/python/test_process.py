"""The end of the process, forks, subinterpreters, event loops."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest
from conftest import scheduler

import heddle


def test_the_process_waits_for_its_ops(run):
    done = run(
        "import heddle\n"
        "e = heddle.Engine(workers=2)\n"
        "v = e.new_var()\n"
        "for i in range(50): e.push(lambda i=i: print(i, flush=True), mutate=[v])\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(i) for i in range(50)]


def test_errors_that_nobody_saw_are_printed_at_exit(run):
    done = run(
        "import heddle\n"
        "e = heddle.Engine(workers=1)\n"
        "v, w = e.new_var(), e.new_var()\n"
        "e.push(lambda: 1 / 0, mutate=[v], name='unseen')\n"
        "e.push(lambda: [][0], mutate=[w], name='was seen')\n"
        "try: e.wait(w)\n"
        "except IndexError: pass\n"
    )
    assert done.returncode == 0
    assert "unseen" in done.stderr and "ZeroDivisionError" in done.stderr
    assert "was seen" not in done.stderr


def test_a_program_and_a_trace_in_files_whose_names_are_no_utf8(tmp_path):
    program, traced = (os.fsencode(tmp_path) + name for name in (b"/\x80.py", b"/\x81.json"))
    with open(program, "w", encoding="utf-8") as file:
        file.write(
            "import heddle, os, sys\n"
            "e = heddle.default_engine()\n"
            "v = e.new_var()\n"
            "with heddle.trace(sys.argv[1]) as traced:\n"
            "    e.push(lambda: 1 / 0, mutate=[v])\n"
            "    try: e.wait(v)\n"
            "    except ZeroDivisionError as error: print(error.__notes__)\n"
            "assert os.path.exists(traced.summary.path)\n"
        )
    done = subprocess.run([sys.executable, program, traced], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "\\\\udc80.py:5" in done.stdout
    assert os.path.exists(traced)


@pytest.mark.skipif(scheduler() != "threaded", reason="needs worker threads")
def test_ops_that_cannot_run_any_more_are_dropped(run):
    # Ctrl-C at exit, while the first op runs: the op after it never runs. The first op ends when stderr reports that.
    done = run(
        "import atexit, heddle, signal, sys, threading\n"
        "said, ending = threading.Event(), []\n"
        "class Stderr:\n"
        "    def write(self, text): said.set(); return sys.__stderr__.write(text)\n"
        "    def flush(self): sys.__stderr__.flush()\n"
        "sys.stderr = Stderr()\n"
        "atexit.register(ending.append, 1)\n"
        "def interrupt():\n"
        "    while not ending: pass\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    said.wait()\n"
        "e = heddle.Engine(workers=1)\n"
        "v = e.new_var()\n"
        "e.push(interrupt, mutate=[v])\n"
        "e.push(lambda: print('must not run', flush=True), mutate=[v])\n"
    )
    assert done.returncode == 0, done.stderr
    assert "interrupted at exit" in done.stderr
    assert "must not run" not in done.stdout
    assert "terminate" not in done.stderr and "Fatal" not in done.stderr


def test_arrays_in_flight_at_exit(run):
    done = run("import heddle\nx = heddle.ones((100, 100))\nfor i in range(100): x = x @ x * 0.01\n")
    assert done.returncode == 0 and not done.stderr


def test_the_package_does_not_import_pytorch(run):
    done = run("import heddle, sys\nprint('torch' in sys.modules, 'heddle.torch' in sys.modules)\n")
    assert done.stdout.split() == ["False", "False"], done.stderr
    done = run(
        "import sys\n"
        "sys.modules['torch'] = None  # as if it were not installed\n"
        "try: import heddle.torch\n"
        "except ImportError as error: print(error)\n"
    )
    assert "pip install torch, or Debian's package python3-torch" in done.stdout, done.stderr


def test_the_child_of_a_fork(run):
    done = run(
        "import heddle, os\n"
        "e = heddle.Engine(workers=1)\n"
        "v = e.new_var()\n"
        "e.push(lambda: None, mutate=[v]); e.wait(v)\n"
        "x = heddle.ones(3); x.wait()\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        e.push(print, mutate=[v])\n"
        "        print('no error')\n"
        "    except heddle.Error as error:\n"
        "        print('refused')\n"
        "    print((heddle.ones(3) + 1).tolist(), flush=True)\n"
        "    print(x.tolist(), float(x[1]), x, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print((x + 1).tolist())\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:4] == ["refused", "[2.0, 2.0, 2.0]", "[1.0, 1.0, 1.0] 1.0 [1. 1. 1.]", "[2.0, 2.0, 2.0]"]


def test_subinterpreters_are_refused(run):
    done = run(
        "import heddle, _xxsubinterpreters as sub\n"
        "i = sub.create()\n"
        "sub.run_string(i, '''\n"
        "try: import heddle\n"
        "except ImportError as error: print(error.__cause__)\n"
        "''')\n"
    )
    assert "subinterpreters" in done.stdout, done.stderr


def test_a_fork_inside_an_op(run):
    done = run(
        "import heddle, os\n"
        "e = heddle.Engine(workers=1)\n"
        "v = e.new_var()\n"
        "def forks():\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        try: e.push(print)\n"
        "        except heddle.Error: os._exit(7)\n"
        "        os._exit(1)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "e.push(forks, mutate=v); e.wait(v)\n"
    )
    assert done.stdout.split() == ["7"], done.stderr


@pytest.mark.parametrize(
    "stage",
    [
        "atexit.register(use)",  # before the package ends
        "threading.Thread(target=use).start()",
        "class Late:\n    def __del__(self): use()\nlate = Late()",  # while modules are cleared
        "class Late:\n    def __del__(self): use()\nsys.late = Late()",
        "engine.push(use, mutate=var)",
        "engine.push_async(lambda completion: threading.Timer(0.01, completion.done).start(), mutate=var)",
        "use(); os._exit(0)",
        "use(); sys.exit(0)",
    ],
)
def test_the_end_of_the_interpreter(run, stage):
    done = run(
        "import atexit, os, sys, threading, heddle\n"
        "engine = heddle.Engine(workers=2)\n"
        "var, x = engine.new_var(), heddle.ones(100)\n"
        "def use(engine=engine, var=var, x=x, heddle=heddle):\n"
        "    try:\n"
        "        engine.push(lambda: None, mutate=var); y = x + 1\n"
        "    except heddle.Error: pass\n" + stage + "\n"
    )
    assert done.returncode == 0 and "Fatal" not in done.stderr and "terminate" not in done.stderr, done.stderr


def test_async_ops_that_python_holds_at_exit_fail(run):
    # The daemon thread pushes while the interpreter ends, so timers are left that hold completions.
    program = (
        "import heddle, threading\n"
        "engine = heddle.default_engine()\n"
        "var, pushed = engine.new_var(), threading.Event()\n"
        "def work():\n"
        "    for i in range(10**9):\n"
        "        engine.push_async(lambda c: threading.Timer(0.001, c.done).start(), mutate=[var])\n"
        "        engine.wait(var)\n"
        "        if i == 5: pushed.set()\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "pushed.wait()\n"
    )
    for _ in range(5):
        done = run(program)
        assert done.returncode == 0 and "Fatal" not in done.stderr and "terminate" not in done.stderr, done.stderr


DAEMON = """
import heddle, sys, threading, time
import numpy as np
sys.setswitchinterval(1e-5)
engine, stop = heddle.Engine(workers=2), []
def again(call):
    while True: call()
for call in ({calls}):
    for _ in range(2): threading.Thread(target=again, args=[call], daemon=True).start()
begin = time.monotonic()
while time.monotonic() < begin + 0.05: heddle.ones(3).wait()
"""


# The positions of threads when the interpreter ends are random, so there are several processes with several threads
# each. Under fuzz the wait for all ops at exit lasts as long as other threads push. The pushing threads wait now and
# then: otherwise they push faster than two workers, which need the GIL too, run the ops.
@pytest.mark.skipif(scheduler() == "fuzz", reason="threads push without end")
@pytest.mark.parametrize(
    "calls",
    [
        "lambda: (heddle.ones(3) + 1).wait(), lambda: [heddle.ones(3).copy() for _ in range(100)][-1].wait()",
        "lambda: heddle.array([1.0]).tolist(), lambda: x[[0]].numpy(), lambda: repr(x)",
        "lambda: [engine.push(print, mutate=v) for _ in range(100)] and engine.wait(v), lambda: engine.wait_all(), "
        "lambda: engine.submit(int).result()",
        "lambda: store.push(1, x), lambda: net(heddle.ones((1, 1))), lambda: optimizer.state()",
    ],
)
def test_daemon_threads_that_compute_while_the_interpreter_ends(run, calls):
    made = (
        "x, v = heddle.ones(3), engine.new_var()\n"
        "print = int\n"
        "store, optimizer = heddle.KVStore(), heddle.Optimizer('adam')\n"
        "store.init(1, x)\n"
        "class Twice(heddle.Module):\n"
        "    def forward(self, x): return x * 2\n"
        "net = heddle.Sequential(heddle.Dense(1, 1), Twice())\n"
    )
    text = DAEMON.replace("def again", made + "def again").format(calls=calls)
    for _ in range(3):
        done = run(text)
        assert done.returncode == 0 and not done.stderr, f"{done.returncode} {done.stderr}"


@pytest.mark.skipif(scheduler() == "naive", reason="a push of an asynchronous op lasts until it has ended")
def test_the_end_of_a_process_says_what_it_waits_for():
    text = "import heddle\nheld, engine = [], heddle.default_engine()\n"
    text += "engine.push_async(held.append, mutate=engine.new_var(), name='never_done')\n"
    with subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE, text=True) as process:
        limit = threading.Timer(60, process.kill)
        limit.start()
        lines = [process.stderr.readline()]
        while lines[-1] and "never_done" not in lines[-1]:
            lines.append(process.stderr.readline())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        limit.cancel()
    assert "the end of the process waits for ops" in lines[0] and "never_done" in lines[-1], lines


def test_free_threaded_builds_are_refused(run):
    done = run("import sys\nsys.abiflags = 't'\nimport heddle\n")
    assert done.returncode == 1 and "free-threaded" in done.stderr


def test_multiprocessing(run, tmp_path):
    # Spawned children have separate engines; forked children cannot use the parent's.
    program = tmp_path / "program.py"
    program.write_text(
        "import heddle, multiprocessing, runpy, sys\n"
        "def work(x): return (x * 2).tolist()\n"
        "def refused(_):\n"
        "    try: engine.push(print)\n"
        "    except heddle.Error as error: return 'fork' in str(error)\n"
        "engine = heddle.Engine(workers=1)\n"
        "engine.push(lambda: None); engine.wait_all()\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(work, [heddle.ones(2)]))\n"
        "    with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "        print(pool.map(work, [heddle.ones(2)]), pool.map(refused, [0]))\n"
    )
    done = run(f"import os, sys\nos.execv(sys.executable, [sys.executable, {str(program)!r}])\n")
    assert done.stdout.split("\n")[:2] == ["[[2.0, 2.0]]", "[[2.0, 2.0]] [True]"], done.stderr


def test_await_var_and_array(engine):
    var = engine.new_var()
    values = []

    async def program():
        engine.push(lambda: values.append(1), mutate=[var])
        await var
        assert values == [1]
        x = heddle.ones(2) + 1
        assert await x is x
        assert x.tolist() == [2, 2]
        engine.push(lambda: 1 / 0, mutate=[var])
        with pytest.raises(ZeroDivisionError):
            await var
        await asyncio.gather(*[asyncio.wait_for(_wait(heddle.ones(3) * i), 60) for i in range(20)])

    async def _wait(array):
        return await array

    asyncio.run(program())


def test_ranks_whose_store_was_refused_end_well(tmp_path):
    # A thread of the communicator may release its last reference while the interpreter ends.
    program = tmp_path / "program.py"
    program.write_text(
        "import heddle\n"
        "ranks = heddle.Communicator(timeout=60.0)\n"
        "try: heddle.KVStore('dist_sync', ranks)\n"
        "except heddle.InvalidArgument: print('refused')\n"
    )
    for _ in range(4):
        command = [sys.executable, "-m", "heddle", "launch", "-n", "2", "--", sys.executable, str(program)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("refused") == 2


def test_the_program_heddle():
    def heddle(*arguments):
        command = [sys.executable, "-m", "heddle", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert "launch" in heddle("--help").stdout
    wrong = heddle("no-such-command")
    assert wrong.returncode == 2
    assert "no-such-command" in wrong.stderr
