"""Activation functions, each one of heddle's."""

import math
from typing import Any

import heddle
from heddle.onnx.table import Array, Attributes, operator

SELU = {"alpha": 1.6732632, "gamma": 1.050701}  # 1.67326319217681884765625 and 1.05070102214813232421875 in ONNX


def near(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=1e-6)


def default_selu(attributes: Attributes, outputs: int) -> bool:
    return all(near(attributes.get(name, value), value) for name, value in SELU.items())


def sixth(attributes: Attributes, outputs: int) -> bool:
    return near(attributes.get("alpha", 0.2), 1 / 6) and near(attributes.get("beta", 0.5), 0.5)


def alpha_of_one(attributes: Attributes, outputs: int) -> bool:
    return bool(attributes.get("alpha", 1.0) == 1)


for _name, _function in {
    "Mish": heddle.mish,
    "Softplus": heddle.softplus,
    "Softsign": heddle.softsign,
    "HardSwish": heddle.hard_swish,
}.items():

    def _enter(name: str, function: Any) -> None:
        @operator(name, native=function.__name__)
        def activation(x: Array) -> Array:
            result: Array = function(x)
            return result

    _enter(_name, _function)


@operator("Gelu", since=20, native=("gelu", "gelu_tanh"))
def gelu(x: Array, *, approximate: str = "none") -> Array:
    return heddle.gelu_tanh(x) if approximate == "tanh" else heddle.gelu(x)


@operator("Elu", since=6, native="elu")
def elu(x: Array, *, alpha: float = 1.0) -> Array:
    return heddle.elu(x, alpha)


@operator("Celu", since=12, native="celu")
def celu(x: Array, *, alpha: float = 1.0) -> Array:
    return heddle.celu(x, alpha)


@operator("LeakyRelu", since=6, native="leaky_relu")
def leaky_relu(x: Array, *, alpha: float = 0.01) -> Array:
    return heddle.leaky_relu(x, alpha)


@operator("Selu", since=6, native="selu", when=default_selu)
def selu(x: Array, *, alpha: float = 1.6732632, gamma: float = 1.050701) -> Array:
    return heddle.selu(x)


@operator("HardSigmoid", since=6, native="hard_sigmoid", when=sixth)
def hard_sigmoid(x: Array, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    return heddle.hard_sigmoid(x)


@operator("Swish", since=24, native="silu", when=alpha_of_one)
def swish(x: Array, *, alpha: float = 1.0) -> Array:
    return heddle.silu(x)
