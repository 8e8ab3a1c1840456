"""Which of heddle's functions a case calls."""

import contextlib
import sys
from collections.abc import Iterator

import heddle

INFIX = [f"__{r}{name}__" for name in ("add", "sub", "mul", "truediv", "pow", "matmul", "mod") for r in ("", "r")] + [
    "__neg__"
]


@contextlib.contextmanager
def counted_calls() -> Iterator[set[str]]:
    """The names of heddle's functions, and of infix operators, that this thread calls in the block."""
    names: set[str] = set()
    functions = {id(function) for function in vars(heddle._heddle).values() if callable(function)}
    before = {name: getattr(heddle.NDArray, name) for name in INFIX}

    def profile(_frame, event, argument):
        if event == "c_call" and id(argument) in functions:
            names.add(argument.__name__)

    def counting(name, method):
        def call(*arguments):
            names.add(name)
            return method(*arguments)

        return call

    for name, method in before.items():
        setattr(heddle.NDArray, name, counting(name, method))
    sys.setprofile(profile)
    try:
        yield names
    finally:
        sys.setprofile(None)
        for name, method in before.items():
            setattr(heddle.NDArray, name, method)
