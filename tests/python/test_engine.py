"""Engines, vars, ops, errors, groups and graphs."""

import json
import asyncio
import gc
import signal
import sys
import threading
import traceback
import weakref

import pytest
from conftest import scheduler

import heddle

threaded = pytest.mark.skipif(scheduler() != "threaded", reason="needs worker threads")


def test_ops_on_a_var_run_in_push_order(engine):
    var = engine.new_var()
    seen = []
    for i in range(200):
        engine.push(lambda i=i: seen.append(i), mutate=[var])
    engine.wait(var)
    assert seen == list(range(200))


def test_reads_follow_the_mutation_before_them(engine):
    a, b, c = engine.new_var(), engine.new_var(), engine.new_var()
    values = {}
    engine.push(lambda: values.update(a=2), mutate=[a])
    engine.push(lambda: values.update(b=values["a"] + 1), read=[a], mutate=[b])
    engine.push(lambda: values.update(c=values["a"] * values["b"]), read=[a, b], mutate=[c])
    engine.wait(c)
    assert values == {"a": 2, "b": 3, "c": 6}


def test_many_threads_push(engine):
    var = engine.new_var()
    total = [0]

    def add():
        total[0] += 1

    def push_all():
        for _ in range(300):
            engine.push(add, mutate=[var])

    threads = [threading.Thread(target=push_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.wait(var)
    assert total == [1200]


def test_an_exception_is_raised_by_the_wait_with_its_traceback_and_a_note(engine):
    var = engine.new_var()
    error = KeyError("lost")

    def fail():
        raise error

    engine.push(fail, mutate=[var], name="look up")
    line = sys._getframe().f_lineno - 1
    with pytest.raises(KeyError) as raised:
        engine.wait(var)
    assert raised.value is error
    assert raised.value.__notes__ == [f"in op 'look up', pushed at {__file__}:{line}"]
    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert names[-1] == "fail"
    with pytest.raises(KeyError) as again:
        engine.wait(var)
    assert len(traceback.extract_tb(again.value.__traceback__)) == len(names)


def test_poison_travels_and_is_cleared(engine):
    a, b = engine.new_var(), engine.new_var()
    ran = []
    engine.push(lambda: 1 / 0, mutate=[a])
    engine.push(lambda: ran.append(1), read=[a], mutate=[b])
    with pytest.raises(ZeroDivisionError):
        engine.wait(b)
    assert not ran
    assert isinstance(engine.error_of(a), ZeroDivisionError)
    engine.clear_error(a)
    engine.push(lambda: None, mutate=[b])
    engine.wait(a)
    engine.wait(b)
    assert engine.error_of(a) is None


def test_wait_all_raises_a_group_of_all_errors(engine):
    engine.push(lambda: 1 / 0, mutate=[engine.new_var()])
    engine.push(lambda: [][1])
    with pytest.raises(heddle.AggregateError) as raised:
        engine.wait_all()
    assert {type(error) for error in raised.value.exceptions} == {ZeroDivisionError, IndexError}
    engine.wait_all()


def line():
    """The line number of the caller."""
    return sys._getframe(1).f_lineno


def test_errors_of_operators_name_the_line_of_the_call(engine):
    with engine:
        x = heddle.ones((2, 2))
        bad, at = heddle.take(x, heddle.array([7]), axis=0), line()
        note = f"in op 'take', pushed at {__file__}:{at}"
        waits = [
            bad.wait,
            lambda: bad.wait(1.0),
            lambda: engine.wait(bad),
            bad.tolist,
            lambda: str(bad),
            lambda: (bad + 1).wait(),
            lambda: bad.sum().item(),
            lambda: engine.submit(print, read=bad).result(),
            lambda: asyncio.run(awaited(bad)),
        ]
        for wait in waits:
            with pytest.raises(heddle.Error) as raised:
                wait()
            assert raised.value.__notes__ == [note]
        assert engine.error_of(bad).__notes__ == [note]
        with pytest.raises(heddle.AggregateError) as all_errors:
            engine.wait_all()
        assert all_errors.value.exceptions[0].__notes__[0] == note


async def awaited(array):
    await array


def test_names_of_ops_take_a_bounded_amount_of_memory(run):
    done = run(
        "import heddle, resource\n"
        "engine = heddle.Engine(workers=1)\n"
        "v = engine.new_var()\n"
        "def noted(name):\n"
        "    engine.push(lambda: 1 / 0, mutate=v, name=name)\n"
        "    try: engine.wait(v)\n"
        "    except ZeroDivisionError as error: note = error.__notes__[0]\n"
        "    engine.clear_error(v)\n"
        "    return note.split(',')[0]\n"
        "noted('first')\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for i in range(30000): engine.push(int, name=f'{i:5000}')\n"
        "engine.wait(v)\n"
        "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "print(noted('first'), '|', noted('later'), '|', grown < 100000)\n"
    )
    assert done.stdout == "in op 'first' | in op 'op' | True\n", done.stdout + done.stderr


@pytest.mark.skipif(scheduler() == "naive", reason="push_async returns when the op has ended")
def test_what_an_event_loop_completes_can_be_awaited_on_it(engine):
    async def program():
        var, ended = engine.new_var(), []
        loop = asyncio.get_running_loop()

        def fetch(completion):
            loop.call_soon_threadsafe(loop.call_later, 0.001, lambda: (ended.append(1), completion.done()))

        engine.push_async(fetch, mutate=var)
        assert await var is var
        return ended

    assert asyncio.run(asyncio.wait_for(program(), 30)) == [1]


def test_bad_arguments(engine):
    with pytest.raises(TypeError, match="callable"):
        engine.push(3)
    with pytest.raises(TypeError, match="want Vars and arrays"):
        engine.push(print, read=[3])
    with pytest.raises(TypeError, match="unexpected keyword argument 'reads'"):
        engine.push(print, reads=[])
    with pytest.raises(TypeError, match="missing required argument: 'fn'"):
        engine.push()
    with pytest.raises(ValueError, match="another engine"):
        heddle.Engine(workers=1).wait(engine.new_var())
    with pytest.raises(ValueError, match="another engine"):
        engine.push(print, read=[heddle.Engine(workers=1).new_var()])
    with pytest.raises(ValueError, match="priority"):
        engine.push(print, priority=100000)
    with pytest.raises(ValueError, match="scheduler"):
        heddle.Engine(scheduler="fast")


def test_arguments_of_wrong_types_are_type_errors(engine):
    var = engine.new_var()
    for wrong in ({"priority": "x"}, {"priority": 1.5}, {"group": 3}, {"bytes": "x"}, {"name": 3}):
        with pytest.raises(TypeError):
            engine.push(print, **wrong)
    for call in (lambda: engine.wait(var, timeout="x"), lambda: var.wait(timeout="x"), lambda: engine.wait(var, "1")):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="priority"):
        engine.push(print, priority=10**30)
    with pytest.raises(ValueError, match="bytes is -1"):
        engine.push(print, bytes=-1)
    with pytest.raises(TypeError, match="lr"):
        heddle.Optimizer("sgd", lr="fast")


def test_timeouts_are_numbers(engine):
    var = engine.new_var()
    assert engine.wait(var, float("inf")) and engine.wait(var, -1)
    for call in (
        lambda: engine.wait(var, float("nan")),
        lambda: var.wait(float("nan")),
        lambda: heddle.Group(float("nan")),
        lambda: heddle.Group().set_timeout(float("nan")),
        lambda: heddle.Communicator(timeout=float("nan")),
        lambda: heddle.Communicator(timeout=float("inf")),
        lambda: heddle.Communicator(timeout=-1),
    ):
        with pytest.raises(ValueError, match=r"timeout"):
            call()


def test_asynchronous_ops_end_when_their_completion_says_so(engine):
    a, b = engine.new_var(), engine.new_var()
    seen = []

    def start(completion):
        seen.append("start")
        threading.Thread(target=lambda: (seen.append("end"), completion.done(), completion.done())).start()

    engine.push_async(start, mutate=a, name="async")
    engine.push(lambda: seen.append("after"), read=a, mutate=b)
    engine.wait(b)
    assert seen == ["start", "end", "after"]

    error = KeyError("lost")
    engine.push_async(lambda completion: completion.fail(error), mutate=a, name="look up")
    with pytest.raises(KeyError) as raised:
        engine.wait(a)
    assert raised.value is error and "in op 'look up'" in error.__notes__[0]
    kept = []

    def raises(completion):
        kept.append(completion)
        raise IndexError("at once")

    engine.push_async(raises, mutate=a)
    with pytest.raises(IndexError):
        engine.wait(a)
    kept[0].done()
    kept[0].fail(KeyError("too late"))
    engine.push_async(lambda completion: None, mutate=a)
    with pytest.raises(heddle.DroppedCompletion):
        engine.wait(a)
    with pytest.raises(TypeError, match="want an exception"):
        kept[0].fail("text")
    skipped = []
    engine.push_async(print, read=a, mutate=b, skipped=skipped.append)
    with pytest.raises(heddle.DroppedCompletion):
        engine.wait(b)
    assert len(skipped) == 1


@threaded
def test_asynchronous_ops_keep_no_worker():
    engine = heddle.Engine(workers=1)
    held, vars = [], [engine.new_var() for _ in range(20)]
    for var in vars:
        engine.push_async(held.append, mutate=var)
    assert engine.submit(lambda: len(held)).result() == 20  # all ops have started, and the worker is free
    for completion in held:
        completion.done()
    for var in vars:
        engine.wait(var)


@threaded
def test_bytes_count_against_the_bound():
    engine = heddle.Engine(workers=2, max_bytes=100)
    var, go, held = engine.new_var(), threading.Event(), []
    engine.push_async(held.append, mutate=var, bytes=60)
    engine.push(lambda: None, bytes=40)
    second = threading.Thread(target=lambda: (engine.push(go.set, bytes=60)))
    second.start()
    while not held:
        pass
    assert not go.is_set()  # the second push waits for room
    held.pop().done()
    second.join()
    assert go.wait(60)


def test_a_function_is_let_go_when_its_op_has_ended(engine):
    class Callable:
        def __call__(self):
            pass

    var = engine.new_var()
    fn = Callable()
    gone = weakref.ref(fn)
    before = sys.getrefcount(None)
    engine.push(fn, mutate=[var])
    del fn
    engine.wait_all()
    gc.collect()
    assert gone() is None
    for _ in range(1000):
        engine.push(Callable(), mutate=[var])
    engine.wait_all()
    assert abs(sys.getrefcount(None) - before) < 500


def test_functions_of_skipped_ops_are_let_go(engine):
    class Callable:
        def __call__(self):
            raise AssertionError("it must not run")

    var = engine.new_var()
    engine.push(lambda: 1 / 0, mutate=[var])
    fn = Callable()
    gone = weakref.ref(fn)
    engine.push(fn, read=[var], mutate=[engine.new_var()])
    del fn
    with pytest.raises(heddle.AggregateError):
        engine.wait_all()
    gc.collect()
    assert gone() is None


def test_submit_returns_a_future(engine):
    var = engine.new_var()
    assert engine.submit(lambda a, b=0: a + b, 2, b=3, mutate=[var]).result() == 5
    future = engine.submit(lambda: 1 / 0)
    assert isinstance(future.exception(), ZeroDivisionError)
    engine.wait_all()  # raises nothing: the future has taken the error
    engine.submit(lambda: [][0], mutate=[var]).exception()
    with pytest.raises(IndexError):
        engine.wait(var)
    assert isinstance(engine.submit(lambda: 1, read=[var]).exception(), IndexError)


def test_groups_cancel_what_has_not_started(engine):
    group = heddle.Group()
    group.cancel()
    assert group.cancelled
    var = engine.new_var()
    engine.push(lambda: None, mutate=[var], group=group)
    with pytest.raises(heddle.Cancelled):
        engine.wait(var)
    late = heddle.Group(timeout=0)
    engine.push(lambda: None, mutate=[var], group=late)
    with pytest.raises(heddle.DeadlineExceeded) as raised:
        engine.wait(var)
    assert isinstance(raised.value, TimeoutError)


def test_an_op_sees_that_its_group_is_cancelled(engine):
    group = heddle.Group()
    seen = []
    var = engine.new_var()

    def run():
        seen.append(heddle.cancelled())
        group.cancel()
        seen.append(heddle.cancelled())

    engine.push(run, mutate=[var], group=group)
    engine.wait(var)
    assert seen == [False, True]
    assert not heddle.cancelled()


@threaded
def test_a_wait_with_a_timeout(engine):
    var = engine.new_var()
    go = threading.Event()
    engine.push(go.wait, mutate=[var])
    assert engine.wait(var, timeout=0.01) is False
    go.set()
    assert engine.wait(var, timeout=60) is True


def test_a_wait_inside_an_op_that_could_not_end(engine):
    var = engine.new_var()
    engine.push(lambda: engine.wait(var), mutate=[var])
    with pytest.raises(heddle.WouldDeadlock):
        engine.wait(var)


def test_ops_push_and_wait(engine):
    outer, inner = engine.new_var(), engine.new_var()
    seen = []

    def run():
        engine.push(lambda: seen.append("inner"), mutate=[inner])
        if scheduler() == "threaded":
            engine.wait(inner)
        seen.append("outer")

    engine.push(run, mutate=[outer])
    engine.wait(outer)
    engine.wait(inner)
    assert sorted(seen) == ["inner", "outer"]


def test_graphs_run_their_functions_at_each_launch(engine):
    var = engine.new_var()
    seen = []
    slots = []

    def pushes():
        slots.append(engine.slot())
        engine.push(lambda: seen.append(slots[0].value), mutate=[var])
        engine.push(lambda: seen.append("end"), mutate=[var])

    graph = engine.capture(pushes)
    assert len(graph) == 2
    assert not seen
    for value in ("a", [1]):
        graph.launch(slots[0].bind(value))
    graph.set(slots[0], None)
    graph.launch()
    engine.wait(var)
    assert seen == ["a", "end", [1], "end", None, "end"]
    with pytest.raises(ZeroDivisionError):
        engine.capture(lambda: 1 / 0)


@threaded
def test_ctrl_c_ends_a_wait(engine):
    var = engine.new_var()
    go = threading.Event()
    engine.push(go.wait, mutate=[var])
    for wait in (lambda: engine.wait(var), engine.wait_all):
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            wait()
        timer.join()
    go.set()
    engine.wait(var)


def test_a_trace_has_the_ops(engine, tmp_path):
    path = tmp_path / "trace.json"
    var = engine.new_var()
    with heddle.trace(path) as trace:
        engine.push(lambda: None, mutate=[var], name="a python op")
        engine.wait(var)
    assert trace.summary.records > 0
    assert "a python op" in path.read_text()


def test_the_scheduler_comes_from_the_environment(engine):
    assert engine.scheduler == scheduler()
    assert heddle.Engine(scheduler="naive").scheduler == "naive"
    assert heddle.Engine(scheduler="fuzz", seed=7).workers == 1
    assert heddle.default_engine() == heddle.current_engine()
    with engine:
        assert heddle.current_engine() == engine
        assert heddle.zeros(2).engine == engine
    assert heddle.current_engine() == heddle.default_engine()


@threaded
def test_a_bounded_engine_lets_its_ops_have_the_gil():
    engine = heddle.Engine(workers=1, max_ops=2)
    var = engine.new_var()
    seen = []
    for i in range(100):
        engine.push(lambda i=i: seen.append(i), mutate=[var])
    engine.wait(var)
    assert seen == list(range(100))


@threaded
def test_an_engine_may_end_inside_its_own_op():
    engine = heddle.Engine(workers=1)
    var = engine.new_var()
    ended = threading.Event()
    holder = [engine, var]

    def run():
        holder.clear()
        ended.set()

    engine.push(run, mutate=[var])
    del engine, var
    assert ended.wait(60)


def test_a_trace_that_is_left_between_two_lines_ends(tmp_path):
    def interrupt(frame, event, _):
        if event == "return" and frame.f_code.co_name == "enter":
            raise KeyboardInterrupt
        return interrupt

    def enter():  # as contextlib.ExitStack, which may be interrupted after __enter__
        block = heddle.trace(tmp_path / "torn.json")
        block.__enter__()
        return block

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            enter()
    finally:
        sys.settrace(before)
    with heddle.trace(tmp_path / "next.json"):
        pass
    assert json.loads((tmp_path / "torn.json").read_text()) is not None


def test_print_options_are_put_back_after_an_interruption(monkeypatch):
    def interrupted(*args):
        set_options(*args)
        raise KeyboardInterrupt

    set_options = heddle.set_printoptions
    monkeypatch.setattr(heddle, "set_printoptions", interrupted)
    with pytest.raises(KeyboardInterrupt), heddle.printoptions(precision=2):
        pass
    assert heddle.get_printoptions().precision == 8
