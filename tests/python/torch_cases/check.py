"""Compares a case's values in Heddle with PyTorch's, or with what is kept of them."""

import functools
import math
import pathlib

import numpy as np

from .draw import Draw
from .evaluate import STAGES, heddle_stages, heddle_values, make_case, moved, torch_stages, torch_values

KEPT = pathlib.Path(__file__).parent / "kept"
KEPT_CASES = 50

# How far a number may be from PyTorch's in f64, relative to the largest of its array: in f32 32 units in the last place.
RELATIVE = {"f64": 1e-10, "f32": 2.0**-18}
# Arrays of smaller numbers are compared as if the largest was this: many are 0 but for rounding.
SMALL = 1e-2


def _size(values):
    finite = values[np.isfinite(values)]
    return max(SMALL, float(np.abs(finite).max(initial=0))) if values.dtype.kind == "f" else 0.0


def allowed_at_once(want, case):
    """For each array of each stage, the error that needs no explanation."""
    relative = max(RELATIVE[case.dtype], case.relative)
    return [[relative * _size(values) for values in stage] for stage in want]


def _distance(a, b):
    with np.errstate(invalid="ignore"):
        return float(np.nan_to_num(np.abs(a - b), posinf=0).max(initial=0)) if a.shape == b.shape else 0.0


def _allowed(want, other, rough, error, case):
    if want.dtype.kind != "f":
        return error
    unit = 1.0 if case.dtype == "f32" else 2.0**-25
    error += unit * (64 * _distance(want, other) + 16 * _distance(want, rough.astype(np.float64)))
    if np.abs(want).max(initial=0) < 1e-10 * case.terms:
        return max(error, RELATIVE[case.dtype] * case.terms)
    return max(error, 2.0**-22 * case.terms) if case.dtype == "f32" else error


def allowed(name, seed, want, case):
    """
    Adds what ill-conditioned cases need: multiples of what a rounding of each argument to f32 changes, and of the
    error that PyTorch makes in f32; of numbers that are 0 but for rounding, the rounding of the terms; in f32 two units in
    the last place of a term.
    """
    with np.errstate(all="ignore"):
        other = torch_values(torch_stages(name, seed, change=moved))
        rough = torch_values(torch_stages(name, seed, "f32"))
    once = allowed_at_once(want, case)
    return [[_allowed(*arrays, case) for arrays in zip(*stage)] for stage in zip(want, other, rough, once)]


def _difference(got, want, error, dtype):
    """What is wrong with an array, or None."""
    if got.shape != want.shape:
        return f"shape {got.shape}, PyTorch's {want.shape}"
    if want.dtype.kind != "f":
        return None if np.array_equal(got, want) else f"{got.tolist()}, PyTorch's {want.tolist()}"
    if got.dtype != (np.float32 if dtype == "f32" else np.float64):
        return f"dtype {got.dtype} in a case of {dtype}"
    got = got.astype(np.float64)
    if dtype == "f32":  # PyTorch's are f64: near the end of f32's range, and beyond, products may be infinite
        most = float(np.finfo(np.float32).max)
        want = np.where(np.abs(want) > most, np.copysign(np.inf, want), want)
        want = np.where((np.abs(want) > most / 4096) & (got == np.copysign(np.inf, want)), got, want)
    finite = np.isfinite(want)
    same = np.array_equal(np.isfinite(got), finite) and np.array_equal(got[~finite], want[~finite], equal_nan=True)
    if not same:
        at = np.argwhere(~((got == want) | (np.isnan(got) & np.isnan(want)) | (np.isfinite(got) & finite)))[0]
        return f"{got[tuple(at)]:.9g} at {tuple(map(int, at))}, PyTorch's is {want[tuple(at)]:.9g}"
    errors = np.where(finite, np.abs(np.where(finite, got, 0) - np.where(finite, want, 0)), 0)
    if errors.max(initial=0) <= error:
        return None
    at = np.unravel_index(errors.argmax(), errors.shape)
    return (
        f"{got[at]:.17g} at {tuple(map(int, at))}, PyTorch's is {want[at]:.17g}: off by {errors[at]:.2g}, "
        f"{errors[at] / _size(want):.2g} of the largest; {error:.2g} is allowed"
    )


def _differences(got, want, errors, dtype):
    if len(got) != len(want):
        return [f"{len(got)} stages, PyTorch has {len(want)}"]
    found = []
    for stage, ours, theirs, allowed_errors in zip(STAGES, got, want, errors):
        if len(ours) != len(theirs):
            found.append(f"{len(ours)} arrays of stage {stage}, PyTorch has {len(theirs)}")
            continue
        for i, (a, b, e) in enumerate(zip(ours, theirs, allowed_errors)):
            difference = _difference(a, b, e, dtype)
            if difference:
                found.append(f"{stage} {i}: {difference}")
    return found


def describe(name, seed):
    """The arguments of a case in one line."""
    case = make_case(name, seed)
    shapes = ", ".join("None" if x is None else f"{x.dtype.kind}{list(x.shape)}" for x in case.arrays)
    return f"{name}, seed {seed}, {case.dtype}, arguments {shapes}"


def compare(name, seeds):
    """Compares cases with PyTorch. Yields each seed with the differences, an empty list if there are none."""
    # All are pushed before the first is waited for.
    pushed = []
    for seed in seeds:
        try:
            pushed.append(heddle_stages(name, seed))
        except Exception as error:  # noqa: BLE001: whatever it is, it is what the report has to say
            pushed.append(f"Heddle: {type(error).__name__}: {error}")
    for seed, stages in zip(seeds, pushed):
        if isinstance(stages, str):
            yield seed, [stages]
            continue
        try:
            got = heddle_values(stages)
        except Exception as error:  # noqa: BLE001
            yield seed, [f"Heddle: {type(error).__name__}: {error}"]
            continue
        try:
            want = torch_values(torch_stages(name, seed))
            case = make_case(name, seed)
            found = _differences(got, want, allowed_at_once(want, case), case.dtype)
            if found:
                found = _differences(got, want, allowed(name, seed, want, case), case.dtype)
        except Exception as error:  # noqa: BLE001
            found = [f"PyTorch: {type(error).__name__}: {error}"]
        yield seed, found


# ---- What is kept of PyTorch's values
#
# Of a case one line: the seed, and for each stage one number, the sum of its arrays' elements times random numbers. It is
# written to the digit before which everything is certain: 1234e-5 is 0.01234 with an error of two in the last digit, and 1234
# is 1234e-9.


def _projection(name, seed, stage):
    d = Draw(f"{name} {[list(x.shape) for x in stage]}", seed, 4)
    total = 0.0
    for values in stage:
        numbers = np.nan_to_num(values.astype(np.float64), nan=1.25, posinf=2.5, neginf=-2.5)
        total += float((numbers * d.floats(values.shape, -1, 1)).sum())
    return total


def kept_line(name, seed):
    """Computes a case in PyTorch; its line."""
    case = make_case(name, seed)
    want = torch_values(torch_stages(name, seed))
    words = [str(seed)]
    for stage, errors in zip(want, allowed(name, seed, want, case)):
        error = math.sqrt(sum(values.size * e * e for values, e in zip(stage, errors)))
        digits = math.floor(-math.log10(max(error, 1e-9)))
        number = round(_projection(name, seed, stage) * 10.0**digits)
        words.append(str(number) if digits == 9 else f"{number}e{-digits}")
    return " ".join(words)


def _kept_number(word):
    number, _, exponent = word.partition("e")
    unit = 10.0 ** int(exponent or -9)
    return int(number) * unit, unit


def same_line(kept, new):
    """Whether two lines say the same but for rounding."""
    if kept is None or len(kept.split()) != len(new.split()):
        return False
    pairs = [(_kept_number(a), _kept_number(b)) for a, b in zip(kept.split()[1:], new.split()[1:])]
    return all(a[1] == b[1] and abs(a[0] - b[0]) <= 1.001 * a[1] for a, b in pairs)


@functools.cache
def kept_lines(name):
    """The lines of an operator by seed; empty if nothing is kept of it."""
    file = KEPT / f"{name}.txt"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")] if file.exists() else []
    return {int(line.split()[0]): line for line in lines}


def compare_with_kept(name):
    """The differences between Heddle and what is kept of all cases of an operator."""
    lines, found = kept_lines(name), []
    pushed = {seed: heddle_stages(name, seed) for seed in lines}
    for seed, stages in pushed.items():
        got, words = heddle_values(stages), lines[seed].split()[1:]
        where = f"{describe(name, seed)}: "
        if len(got) != len(words):
            found.append(f"{where}{len(got)} stages, kept are {len(words)}")
            continue
        for title, stage, word in zip(STAGES, got, words):
            value, (want, unit) = _projection(name, seed, stage), _kept_number(word)
            if not abs(value - want) <= 2 * unit:
                found.append(f"{where}{title}: {value:.15g}, kept is {word}")
    return found
