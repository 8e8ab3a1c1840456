"""Wrong calls of everything public: the error names the function and the argument, in Python's words.

The functions, methods and arguments are those of the type stub, so that new ones are tested as well.
"""

import ast
import inspect
import os
import pathlib
import re
import tempfile

import pytest

import heddle

STUB = pathlib.Path(heddle.__file__).with_name("_heddle.pyi")
ALLOWED = (TypeError, ValueError, IndexError, heddle.Error)
BANNED = re.compile(
    r"incompatible function arguments|bad_cast|heddle\._heddle|overload|nanobind|0x[0-9a-f]{6}"
    r"|\w::|operator\W|\bDims\b|\bStorage\b|NoGrad|set_requires_grad|create_local| = true|undefined"
)
HUGE = 2**64


class Wrong:
    """A type that no argument accepts."""


def made_model():
    x = heddle.Input((2,))
    return heddle.Model(x, x + 1)


def made_graph():
    slots = []
    engine = heddle.Engine(workers=1)
    return engine.capture(lambda: slots.append(engine.slot())), slots[0]


def made_completion():
    completions = []
    engine = heddle.Engine(workers=1)
    var = engine.new_var()
    engine.push_async(lambda completion: (completions.append(completion), completion.done()), mutate=var)
    engine.wait(var)
    return completions[0]


def made_parameter():
    leaf = heddle.ones(3)
    leaf.requires_grad = True
    return heddle.Parameter("x", leaf)


INSTANCES = {
    "AttentionCache": heddle.AttentionCache,
    "MultiHeadAttention": lambda: heddle.MultiHeadAttention(4, 2, causal=True),
    "TransformerBlock": lambda: heddle.TransformerBlock(4, 2, causal=True),
    "Binding": lambda: made_graph()[1].bind(1),
    "Callback": heddle.Callback,
    "CheckpointSave": lambda: heddle.CheckpointWriter().save(os.path.join(tempfile.mkdtemp(), "empty")),
    "Communicator": lambda: heddle.Communicator.local(1)[0],
    "ExampleRandom": lambda: heddle.ExampleRandom(0, 0, 0),
    "FitRun": lambda: made_run(),
    "Completion": made_completion,
    "Conv2d": lambda: heddle.Conv2d(1, 1, 1),
    "Dense": lambda: heddle.Dense(1, 1),
    "Device": heddle.cpu,
    "DType": lambda: heddle.f32,
    "Engine": lambda: heddle.Engine(workers=1),
    "Graph": lambda: made_graph()[0],
    "KVStore": heddle.KVStore,
    "HookHandle": lambda: heddle.Relu().after_call(print),
    "LossScaler": heddle.LossScaler,
    "Metric": heddle.Accuracy,
    "Model": lambda: made_model(),
    "Module": heddle.Relu,
    "NDArray": lambda: heddle.ones(3),
    "Optimizer": lambda: heddle.Optimizer("sgd"),
    "Parameter": made_parameter,
    "RowSparse": lambda: heddle.row_sparse(heddle.array([1]), heddle.ones((1, 1)), (2, 1)),
    "Slot": lambda: made_graph()[1],
    "AverageWeights": lambda: heddle.AverageWeights([made_parameter()]),
    "CapturedStep": lambda: heddle.Trainer([made_parameter()]).capture(lambda x: x),
    "SummaryWriter": lambda: heddle.SummaryWriter(tempfile.mkdtemp()),
    "Symbol": lambda: heddle.Input((2,)),
    "Trainer": lambda: heddle.Trainer([made_parameter()]),
    "_Pruning": lambda: heddle.Pruning(heddle.Dense(1, 1)),
    "Var": lambda: heddle.Engine(workers=1).new_var(),
}
SAMPLES = {
    "Any": lambda: 1,
    "ArrayLike": lambda: heddle.ones(3),
    "ArrayLike | RowSparse": lambda: heddle.ones(3),
    "BaseException": ValueError,
    "Callable[..., T]": lambda: print,
    "Callable[P, T]": lambda: print,
    "DTypeLike": lambda: "f32",
    "DeviceLike": lambda: "cpu",
    "Keys": lambda: 1,
    "Mapping[str, NDArray]": dict,
    "NDArray | RowSparse": lambda: heddle.ones(3),
    "Operand | Sequence[Any]": lambda: 1.0,
    "Sequence[ArrayLike]": lambda: [heddle.ones(3)],
    "Sequence[NDArray]": lambda: [heddle.ones(3)],
    "Sequence[Parameter]": lambda: [made_parameter()],
    "Sequence[Sequence[NDArray]]": lambda: [[heddle.ones(3)]],
    "_Pruning": lambda: heddle.Pruning(heddle.Dense(1, 1)),
    "Sequence[int | None]": lambda: [2],
    "Sequence[RowSparse]": lambda: [INSTANCES["RowSparse"]()],
    "Var | NDArray": INSTANCES["Var"],
    "bool": lambda: True,
    "dict[str, NDArray]": dict,
    "dict[str, Any]": dict,
    "dict[str, float]": dict,
    "Sequence[str]": lambda: ["loss"],
    "object": lambda: print,
    "object | None": lambda: 1,
    "float": lambda: 1.0,
    "int": lambda: 1,
    "str": lambda: "sgd",
    "str | os.PathLike[str]": lambda: "no such folder/file",
}


def made_run():
    """The run of a training that is over."""
    runs = []

    class Keeps(heddle.Callback):
        def on_train_begin(self, run):
            runs.append(run)

    net = heddle.Dense(1, 1)
    heddle.fit(net, heddle.Trainer(net.parameters()), (heddle.ones((1, 1)), heddle.ones((1, 1))), loss="mse_loss", callbacks=[Keeps()], verbose=False)
    return runs[0]


def sample(annotation):
    """A value that the argument accepts; of alternatives, the first."""
    if annotation.startswith("Literal["):
        return ast.literal_eval(annotation[len("Literal[") : -1].split(",")[0])
    for kind in (annotation, annotation.split(" | ")[0]):
        name = kind.rpartition(".")[2]
        if kind in SAMPLES or name in INSTANCES:
            return (SAMPLES.get(kind) or INSTANCES[name])()
    if annotation.startswith("Callable"):
        return print
    if "Mapping[str, " in annotation:
        return {}
    raise AssertionError(f"no sample for {annotation}")


class Call:
    """A public function or method, and its arguments as the stub has them."""

    def __init__(self, name, function, owner=None):
        decorators = {ast.unparse(d) for d in function.decorator_list}
        self.owner, self.static = owner, "staticmethod" in decorators
        self.name = owner if name == "__init__" else name
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        self.bound = owner and not self.static and name != "__init__"
        if owner and not self.static:
            positional = positional[1:]
        required = len(positional) - len(arguments.defaults)
        self.positional = positional
        self.only_positional = {a.arg for a in arguments.posonlyargs}
        self.required = [a for a in positional[:required]]
        self.required += [a for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is None]
        self.all = [*positional, *arguments.kwonlyargs]
        self.varargs, self.kwargs = arguments.vararg, arguments.kwarg

    def __str__(self):
        return f"{self.owner}.{self.name}" if self.owner and self.owner != self.name else self.name

    def target(self):
        if not self.owner:
            return getattr(heddle, self.name)
        if self.owner == self.name:
            return getattr(heddle, self.owner)
        return getattr(getattr(heddle, self.owner) if self.static else INSTANCES_OF(self.owner), self.name)

    def arguments(self, wrong=None, value=None):
        """The required arguments, with a wrong value for one argument."""
        args, kwargs = [], {}
        for a in self.all:
            given = a.arg == wrong
            if not given and a not in self.required:
                continue
            one = value if given else sample(ast.unparse(a.annotation))
            if a.arg in self.only_positional:
                args.append(one)
            else:
                kwargs[a.arg] = one
        return args, kwargs


def INSTANCES_OF(name):  # noqa: N802 (beside the table)
    return INSTANCES[name]() if name in INSTANCES else getattr(heddle, name)()


def public_calls():
    # removes type parameters, which Python 3.11 cannot parse
    text = re.sub(r"def (\w+)\[[^]]*\]", r"def \1", STUB.read_text(encoding="utf-8"))
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield Call(node.name, node)
        if isinstance(node, ast.ClassDef) and hasattr(heddle, node.name):
            for method in node.body:
                if not isinstance(method, ast.FunctionDef) or any("setter" in ast.unparse(d) for d in method.decorator_list):
                    continue
                is_property = any(ast.unparse(d) == "property" for d in method.decorator_list)
                if not is_property and (method.name == "__init__" or not method.name.startswith("_")):
                    yield Call(method.name, method, node.name)


CALLS = {str(call): call for call in public_calls()}


def error_of(call, args, kwargs):
    try:
        result = call.target()(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 (looked at)
        assert isinstance(error, ALLOWED), repr(error)
        assert not BANNED.search(str(error)), str(error)
        return str(error)
    pytest.fail(f"{call} has taken {args} {kwargs} and returned {result!r}")


def takes_anything(annotation):
    return re.fullmatch(r"Any|object|object \| None|.*\bobject \| None", annotation) is not None


def test_the_stub_has_been_found():
    assert len(CALLS) > 250
    assert {"sum", "NDArray.sum", "Engine.push", "Engine.submit", "Trainer", "save_npy"} <= CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_wrong_types(name):
    call = CALLS[name]
    for argument in call.all:
        annotation = ast.unparse(argument.annotation)
        if takes_anything(annotation):
            continue
        args, kwargs = call.arguments(argument.arg, Wrong())
        text = error_of(call, args, kwargs)
        assert call.name in text and argument.arg in text and "Wrong" in text, text


@pytest.mark.parametrize("name", CALLS)
def test_huge_ints(name):
    call = CALLS[name]
    for argument in call.all:
        if not re.match(r"int\b", ast.unparse(argument.annotation)):
            continue
        for value in (HUGE, -HUGE):
            args, kwargs = call.arguments(argument.arg, value)
            text = error_of(call, args, kwargs)
            assert call.name in text and argument.arg in text, text


@pytest.mark.parametrize("name", CALLS)
def test_wrong_numbers_of_arguments(name):
    call = CALLS[name]
    if not call.varargs:
        assert call.name in error_of(call, [1] * (len(call.positional) + 1), {})
    if not call.kwargs:
        args, kwargs = call.arguments()
        text = error_of(call, args, {**kwargs, "nonsense": 1})
        assert call.name in text and "nonsense" in text, text
    for argument in call.required:
        args, kwargs = call.arguments()
        if argument.arg not in kwargs:
            continue
        del kwargs[argument.arg]
        text = error_of(call, args, kwargs)
        assert call.name in text and argument.arg in text, text


@pytest.mark.parametrize(
    "name, call",
    {
        "sum": lambda: heddle.sum(heddle.ones(2), axis="a"),
        "astype": lambda: heddle.ones(2).astype("nope"),
        "cast": lambda: heddle.cast(heddle.ones(2), "nope") if hasattr(heddle, "cast") else heddle.ones(2).astype("cast"),
        "empty": lambda: heddle.empty((2, Wrong())),
        "reshape": lambda: heddle.ones(2).reshape("a"),
        "transpose": lambda: heddle.ones(2).transpose(Wrong()),
        "launch": lambda: made_graph()[0].launch(3),
        "submit": lambda: heddle.default_engine().submit(3),
        "Sequential": lambda: heddle.Sequential(3),
        "Trainer": lambda: heddle.Trainer([made_parameter()], params={"lr": "fast"}),
        "Optimizer": lambda: heddle.Optimizer("sgd", lr=Wrong()),
        "set_optimizer": lambda: heddle.KVStore().set_optimizer("sgd", lr=Wrong()),
        "trace": lambda: heddle.trace(3),
        "backward": lambda: heddle.backward(3),
        "root": lambda: heddle.backward([]),
        "outputs": lambda: heddle.grad(3, heddle.ones(1)),
        "inputs": lambda: heddle.grad(heddle.ones(1), [3]),
        "seeds": lambda: heddle.grad(heddle.ones(1), [], seeds=3),
        "allow_unused": lambda: heddle.grad([], [], allow_unused=Wrong()),
        "requires_grad": lambda: setattr(heddle.ones(1), "requires_grad", "yes"),
        "position": lambda: setattr(heddle.Generator(), "position", "first"),
        "save_checkpoint": lambda: heddle.save_checkpoint("x", generators={"a": 3}),
        "counters": lambda: heddle.save_checkpoint("x", counters={"a": "b"}),
        "save_safetensors": lambda: heddle.save_safetensors("x", {"a": 3}),
        "push": lambda: heddle.KVStore().push([1, 2], [heddle.ones(1), 3]),
        "key": lambda: heddle.KVStore().init(2**70, heddle.ones(1)),
        "add": lambda: heddle.ones(1, dtype="i64") + 2**70,
        "the value": lambda: heddle.ones(1).__setitem__(0, HUGE),
        "x[...]": lambda: heddle.ones(1).__setitem__(0, Wrong()),
        "a key": lambda: heddle.ones(1)[Wrong()],
        "forward": lambda: heddle.Sequential(type("Bad", (heddle.Module,), {"forward": lambda self, x: 3})())(heddle.ones(1)),
        "schedule": lambda: heddle.Trainer([made_parameter()], schedule=3),
        "Wrong": lambda: heddle.ones(1) + Wrong(),
        "__dlpack__": lambda: heddle.ones(1).__dlpack__(max_version=3),
    }.items(),
)
def test_more_wrong_calls(name, call):
    with pytest.raises(ALLOWED) as raised:
        call()
    assert name in str(raised.value) and not BANNED.search(str(raised.value)), str(raised.value)


def test_the_array_api_has_no_other_errors():
    for name, function in vars(heddle.array_api).items():
        if not inspect.isfunction(function) or name.startswith("_"):
            continue
        parameters = inspect.signature(function).parameters.values()
        count = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters)
        with pytest.raises(ALLOWED) as raised:
            function(*[Wrong()] * max(count, 1))
        assert not BANNED.search(str(raised.value)), f"{name}: {raised.value}"


@pytest.mark.parametrize("call", [heddle.array, heddle.asarray, heddle.from_dlpack])
def test_none_is_no_array(call):
    with pytest.raises(TypeError, match=rf"{call.__name__}: (x|object) is None; want Any, not None"):
        call(None)


X = heddle.ones((2, 3))
SMALL = heddle.zeros(3, dtype="u8")
CHANGES = "an array requires a gradient, and the tape does not follow changes in place"


def computed():
    leaf = heddle.ones(3)
    leaf.requires_grad = True
    return leaf * 1


def twice():
    loss = computed().sum()
    loss.backward()
    loss.backward()


def in_place(method, target, value):
    return lambda: getattr(target() if callable(target) else target, method)(value)


MESSAGES = {
    "add_: an operand of shape (4, 2, 3) does not broadcast": in_place("__iadd__", X, heddle.ones((4, 2, 3))),
    "subtract_: a result of dtype f32 does not fit u8": in_place("__isub__", SMALL, heddle.ones(3)),
    "divide_: a result of dtype f64 does not fit u8": in_place("__itruediv__", SMALL, 2),
    "bitwise_and_: dtype f32; wanted an integer's or bool": in_place("__iand__", X, 1),
    "multiply_: an operand is a list; want": in_place("__imul__", X, [1]),
    f"add_: {CHANGES}; make a new array, detach() it or use no_grad()": in_place("__iadd__", computed, 1),
    f"fill_: {CHANGES}": lambda: heddle.fill_(computed(), 1),
    f"assign_: {CHANGES}": lambda: heddle.assign_(computed(), X[0]),
    f"add: {CHANGES}": lambda: heddle.add(X, 1, out=computed()),
    f"x[...]: {CHANGES}; make": lambda: computed().__setitem__(0, 1),
    "less: an operand is a str; want": lambda: X < "a",
    "x[...]: index 5 is out of range for axis 1 of size 3, in shape (2, 3)": lambda: X[0, 5],
    "x[...]: index -4 is out of range for axis 1 of size 3, in shape (2, 3)": lambda: X[[0], -4],
    "x[...]: index 7 is out of range for axis 1": lambda: X[None, 0, 7],
    "x[...]: keys for 3 axes of an array of shape (2, 3)": lambda: X[0, 0, 0],
    "x[...]: 2 ellipses; wanted one at most": lambda: X[..., ...],
    "x[...]: an array has at most 8 dimensions, not 9": lambda: X[(None,) * 9],
    "x[...]: index 5 at position 1 is out of range for size 2": lambda: X[[0, 5]].wait(),
    "x[...]: a source of shape (2,) does not broadcast": lambda: X.__setitem__(0, heddle.ones(2)),
    "x[...]: shapes (2, 3) and (5,) do not broadcast": lambda: X.__setitem__(heddle.array([True, False]), heddle.ones(5)),
    "bool: an array of shape (2, 3)": lambda: bool(X),
    "int: an array of shape (2, 3)": lambda: int(X),
    "item: an array of shape (2, 3)": lambda: X.item(),
    "index: an array of shape (3,)": lambda: range(3)[SMALL],
    "zeros: shape is 9 ints; want 8 at most": lambda: heddle.zeros((1,) * 9),
    "empty: shape (-1,) has a negative number": lambda: heddle.empty(-1),
    "to: Heddle takes no memory on gpu(9)": lambda: X.to("gpu:9"),
    "array: Heddle takes no memory on gpu(9)": lambda: heddle.array([1, 2], device="gpu:9"),
    "array: object is a list; NumPy: ": lambda: heddle.array([[1, 2], [3]]),
    "array: object is a list; want an array of numbers": lambda: heddle.array([1, "a"]),
    "backward: root was not computed from an array that requires a gradient; set x.requires_grad = True before": lambda: X.sum().backward(),
    "grad: input 0 requires no gradient; set x.requires_grad = True before": lambda: heddle.grad(computed().sum(), X),
    "grad: no output was computed from input 0; with allow_unused that is no error, and its gradient None": lambda: heddle.grad(
        computed().sum(), computed()
    ),
    "on_gradient: the array requires no gradient; set x.requires_grad = True": lambda: heddle.on_gradient(X, print),
    "backward: the tape of sum was freed by an earlier backward() or grad(); give that one keep_tape=True": twice,
    "requires_grad: dtype u8; only floating arrays have gradients": lambda: setattr(SMALL, "requires_grad", True),
    "Dense: in_features is 0; want 1 or more": lambda: heddle.Dense(0, 1),
    "Optimizer: optimizer sgd has no parameter 'nope'": lambda: heddle.Optimizer("sgd", nope=1),
    "Trainer: there is no optimizer 'nope'": lambda: heddle.Trainer([made_parameter()], "nope"),
    "Trainer.step: parameter 'x' has no gradient": lambda: heddle.Trainer([made_parameter()]).step(),
    "set_optimizer: there is no optimizer 'nope'": lambda: heddle.KVStore().set_optimizer("nope"),
    "KVStore: there is no type 'nope'": lambda: heddle.KVStore("nope"),
    "KVStore.push, key 2: the key is unknown": lambda: heddle.KVStore().push(2, X),
    "Communicator.local: size is 0; want 1 to 1024": lambda: heddle.Communicator.local(0),
    "Communicator.broadcast: root is 5": lambda: heddle.Communicator.local(1)[0].broadcast(heddle.ones(2), 5),
    "and these are of split or local": lambda: heddle.Communicator.local(1)[0].grow(2),
    "Engine: workers: got -1": lambda: heddle.Engine(workers=-1),
    "slot: this thread captures no graph; call it inside the function that Engine.capture is given": lambda: heddle.default_engine().slot(),
}


@pytest.mark.parametrize("message, call", MESSAGES.items())
def test_messages_are_in_the_words_of_python(message, call):
    with pytest.raises(ALLOWED) as raised:
        call()
    assert message in str(raised.value) and not BANNED.search(str(raised.value)), str(raised.value)


LONE = "a\udc80"  # from a file name that is not UTF-8
IN_TEXT = {
    "init: key is": lambda: heddle.KVStore().init(LONE, X),
    "push: key is": lambda: heddle.KVStore().push([1, LONE], [X, X]),
    "KVStore: type is": lambda: heddle.KVStore(LONE),
    "set_optimizer: the name of a parameter is": lambda: heddle.KVStore().set_optimizer("sgd", **{LONE: 1}),
    "set_optimizer_state: state has": lambda: heddle.KVStore().set_optimizer_state({LONE: X}),
    "zeros: dtype is": lambda: heddle.zeros(3, dtype=LONE),
    "astype: dtype is": lambda: X.astype(LONE),
    "to: device is": lambda: X.to(LONE),
    "einsum: equation is": lambda: heddle.einsum(LONE, X),
    "Engine: scheduler is": lambda: heddle.Engine(scheduler=LONE),
    "Parameter: name is": lambda: heddle.Parameter(LONE, X),
    "save_npz: arrays has": lambda: heddle.save_npz("nowhere.npz", {LONE: X}),
    "save_safetensors: metadata has": lambda: heddle.save_safetensors("nowhere.safetensors", {"a": X}, {"b": LONE}),
}


@pytest.mark.parametrize(("beginning", "call"), IN_TEXT.items(), ids=IN_TEXT)
def test_texts_that_are_no_utf8(beginning, call):
    with pytest.raises(heddle.InvalidArgument) as raised:
        call()
    assert str(raised.value).startswith(beginning + " 'a\\udc80', which is no text in UTF-8")


def test_names_that_are_no_utf8():
    engine = heddle.default_engine()
    var = engine.new_var()

    def fail():
        raise ValueError(LONE)

    engine.push(fail, mutate=[var], name=LONE)
    with pytest.raises(ValueError, match=LONE) as raised:
        engine.wait(var)
    assert raised.value.__notes__[0].startswith("in op 'a\\udc80', pushed at ")
    assert heddle.f32 != LONE
    with pytest.raises(TypeError):
        heddle.sum(X, **{LONE: 1})
    with pytest.raises(TypeError, match="seed is a str"):
        heddle.Generator(LONE)
