"""load_weights: weights by name, renamed, from files, of PyTorch."""

import numpy as np
import pytest

import heddle


def test_weights_are_loaded_by_name():
    net = heddle.Sequential(heddle.Dense(2, 3), heddle.Dense(3, 1))
    weights = {parameter.name: heddle.ones(parameter.value.shape, dtype="f64") for parameter in net.parameters()}
    assert heddle.load_weights(net.parameters(), weights).complete
    assert all(np.all(parameter.value.detach().numpy() == 1) for parameter in net.parameters())
    first, second, *others = (parameter.name for parameter in net.parameters())
    del weights[first]
    weights["extra"], weights[second] = heddle.ones(1), heddle.zeros((7, 7))
    weights[others[0]] = heddle.zeros(weights[others[0]].shape)
    report = heddle.load_weights(net.parameters(), weights)
    assert report.missing == [first] and report.unexpected == ["extra"] and not report.complete
    assert report.other_shape == [f"{second}: (7, 7), wanted {tuple(net.parameters()[1].value.shape)}"]
    assert "missing: " + first in str(report)
    assert np.all(net.parameters()[0].value.detach().numpy() == 1) and np.all(net.parameters()[2].value.detach().numpy() == 0)
    with pytest.raises(TypeError, match="load_weights: parameters has a int; want Parameters"):
        heddle.load_weights([3], {})


def test_weights_of_other_names_are_loaded_from_files_and_mappings(tmp_path):
    net = heddle.Sequential(heddle.Dense(2, 3), heddle.BatchNorm(3), heddle.Dense(3, 1))
    weights = {
        "module.fc1.weight": np.ones((3, 2)), "module.fc1.bias": np.ones(3), "module.bn.weight": np.ones(3), "module.bn.bias": np.ones(3),
        "module.bn.running_mean": np.full(3, 5.0), "module.bn.running_var": np.ones(3), "module.bn.num_batches_tracked": np.int64(3),
        "module.head.weight": np.ones((1, 3)), "module.head.bias": np.ones(1),
    }  # fmt: skip
    rename = {"module.fc1": "0", "module.bn": "1", "module.head": "2"}
    assert heddle.load_weights(net, weights, rename=rename, strict=True).complete
    assert {one.name: one.value.detach().tolist() for one in net.state()}["1.running_mean"] == [5] * 3
    for path, save in (("w.safetensors", heddle.save_safetensors), ("w.npz", heddle.save_npz)):
        save(tmp_path / path, {name: heddle.asarray(one) * 2 for name, one in weights.items()})
        assert heddle.load_weights(net, tmp_path / path, rename=rename, strict=True).complete
        assert net.state()[0].value.detach().tolist() == [[2, 2]] * 3
        heddle.load_weights(net, weights, rename=rename)
    report = heddle.load_weights(net, weights, rename={"module.fc1": "0", "module": ""}, ignore=["*.bn.*"])
    assert report.unexpected == ["module.head.bias, as head.bias", "module.head.weight, as head.weight"]
    assert report.missing == [one.name for one in net.state()[2:]]
    for call, kind, message in [
        (lambda: heddle.load_weights(net, weights, strict=True), heddle.InvalidArgument, "load_weights: missing: 0.weight, 0.bias"),
        (lambda: heddle.load_weights(net, weights, rename={"body": ""}), heddle.InvalidArgument, "rename has 'body', which no name"),
        (lambda: heddle.load_weights(net, weights, rename={"module.fc1": "0", "module.head": "0"}), heddle.InvalidArgument, "both renamed to '0.bias'"),
        (lambda: heddle.load_weights(net, weights, rename=["a"]), TypeError, "load_weights: rename is"),
        (lambda: heddle.load_weights(net, weights, ignore="a"), TypeError, "load_weights: ignore is 'a'; want a list"),
        (lambda: heddle.load_weights(net, weights, strict=1), TypeError, "load_weights: strict is a int; want a bool"),
        (lambda: heddle.load_weights(net, 3), TypeError, "load_weights: arrays is a int; want a dict of arrays, or the path of a file"),
        (lambda: heddle.load_weights(net, tmp_path / "none"), heddle.Error, "none"),
    ]:
        with pytest.raises(kind, match=message):
            call()


def test_integers_that_may_not_fit_are_of_another_dtype():
    for given, fits in (("i8", True), ("i32", False), ("u8", False), ("bool", True), ("f32", False)):
        weight = heddle.Parameter("w", heddle.zeros(3, "i8"))
        report = heddle.load_weights([weight], {"w": heddle.ones(3, given)})
        assert report.complete == fits and report.other_dtype == ([] if fits else [f"w: {given}, wanted i8"])
        assert weight.value.tolist() == [int(fits)] * 3


def test_weights_of_the_network_itself_are_exchanged():
    def values(net):
        return {one.name: np.asarray(one.value).tolist() for one in net.state()}

    for take in (lambda array: array, np.asarray, lambda array: array.T.T):
        net = heddle.Sequential(heddle.Dense(3, 3), heddle.Dense(3, 3))
        before = values(net)
        heddle.load_weights(net, {one.name: take(one.value.detach()) for one in net.state()}, rename={"0": "1", "1": "0"}, strict=True)
        after = values(net)
        assert all(after[name] == before[("1" if name[0] == "0" else "0") + name[1:]] for name in before)
    weight = net.state()[0].value.detach()
    turned = weight.numpy().T.tolist()
    heddle.load_weights(net, {"0.weight": weight.T})
    assert weight.tolist() == turned


class Tensor:
    """Of PyTorch, as far as load_weights looks at it: bf16, or one that requires a gradient."""

    def __init__(self, array):
        self.array = array

    def detach(self):
        return self

    cpu = resolve_conj = resolve_neg = detach

    def __array__(self, *arguments, **options):
        raise TypeError("Got unsupported ScalarType BFloat16")

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_state_dicts_of_pytorch_are_loaded_and_what_is_no_array_is_named():
    net = heddle.Sequential(heddle.Dense(3, 2))
    weights = {"0.weight": Tensor(heddle.full((2, 3), 1.5, "bf16")), "0.bias": Tensor(heddle.ones(2)), "0._extra_state": {"a": 1}}
    assert heddle.load_weights(net, weights, ignore=["*._extra_state"], strict=True).complete
    assert net.state()[0].value.detach().tolist() == [[1.5] * 3] * 2
    for bad in ({"a": 1}, None, "text", [[1], [2, 3]]):
        with pytest.raises(TypeError, match="load_weights: '0._extra_state' is a"):
            heddle.load_weights(net, {**weights, "0._extra_state": bad})
    with pytest.raises(TypeError, match="load_weights: arrays has a int as a name"):
        heddle.load_weights(net, {1: np.ones(3)})
    assert heddle.load_weights(net, {"0.bias": np.zeros(2), "a[b": None}, ignore=["a[b"]).missing == ["0.weight"]
