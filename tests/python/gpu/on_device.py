"""HEDDLE_TEST_DEVICE=gpu(0): the arrays that tests make are on that device, and their values are copied to the CPU when NumPy reads them.

Functions that make arrays get the device as the default of their argument. NDArray.numpy and __array__ copy. Nothing else differs."""

import functools
import inspect
import os

import heddle

DEVICE = os.environ.get("HEDDLE_TEST_DEVICE", "")


def _on_device(function):
    @functools.wraps(function)
    def made(*args, **kwargs):
        if kwargs.get("out") is None and "device" not in kwargs:
            try:
                given = inspect.signature(function).bind(*args, **kwargs).arguments
            except (TypeError, ValueError):
                given = {"device": None}  # the function refuses the call itself
            if "device" not in given:
                kwargs["device"] = DEVICE
        return function(*args, **kwargs)

    return made


def _takes_device(function):
    try:
        return "device" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


NAMES = "array empty zeros ones full arange eye linspace logspace uniform normal bernoulli integers permutation".split()


def install():
    """Changes the package for the rest of the process."""
    for name in NAMES:
        function = getattr(heddle, name, None)
        if function is not None and _takes_device(function):
            setattr(heddle, name, _on_device(function))
    numpy, array = heddle.NDArray.numpy, heddle.NDArray.__array__
    heddle.NDArray.numpy = lambda self, copy=False: numpy(self.detach().to("cpu") if self.device.kind == "gpu" else self, copy)
    heddle.NDArray.__array__ = lambda self, *args, **kwargs: array(
        self.detach().to("cpu") if self.device.kind == "gpu" else self, *args, **kwargs
    )


if DEVICE:
    install()
