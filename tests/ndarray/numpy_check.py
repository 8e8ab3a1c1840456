"""Compares arrays with NumPy's: numpy_check.py DRIVER [--fewer]. The driver runs the commands that are mirrored here."""

import random
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: this Python has no NumPy")
    sys.exit(77)

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "bool": np.bool_,
          "f16": np.float16, "i8": np.int8, "i16": np.int16, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}


FEWER = "--fewer" in sys.argv
ROUNDS = 60 if FEWER else 300  # rounds of each random test


def differs_by_version(array):
    """Whether NumPy 1, which compares an f32 with 0.0001 as a double, prints the array differently."""
    return np.__version__ < "2" and array.dtype == np.float32 and bool(np.any(abs(array) == np.float32(1e-4)))


class Session:
    """Collects commands for the driver, and their results in NumPy."""

    def __init__(self, driver, directory):
        self.driver, self.directory = driver, Path(directory)
        self.lines, self.prints, self.saves = [], [], []
        self.count = 0

    def name(self):
        self.count += 1
        return f"a{self.count}"

    def load(self, array):
        name = self.name()
        path = self.directory / f"{name}.npy"
        np.save(path, array)
        self.lines.append(f"load {name} {path}")
        return name

    def derive(self, command, source, *arguments):
        name = self.name()
        self.lines.append(" ".join([command, name, source, *map(str, arguments)]))
        return name

    def expect_print(self, name, array):
        self.lines.append(f"print {name}")
        self.prints.append(array.copy())

    def expect_save(self, name, array):
        path = self.directory / f"{name}.{len(self.saves)}.out.npy"
        self.lines.append(f"save {name} {path}")
        self.saves.append((path, array.copy()))

    def run(self):
        """Runs the driver; returns the differences."""
        done = subprocess.run([self.driver], input="\n".join(self.lines).encode() + b"\n", stdout=subprocess.PIPE)
        if done.returncode:
            return [f"the driver returned {done.returncode}"]
        wrong, output = [], done.stdout
        for array in self.prints:
            length, output = output.split(b"\n", 1)
            ours, output = output[: int(length)].decode(), output[int(length) + 1 :]
            if ours != str(array) and not differs_by_version(array):
                wrong.append(f"printed {array.dtype} {array.tolist()!r:.300}\nours\n{ours}\nNumPy's\n{str(array)}")
        if output:
            wrong.append("more output than expected")
        for path, array in self.saves:
            ours = np.load(path)
            same_bytes = ours.tobytes() == np.ascontiguousarray(array).tobytes()
            if ours.dtype != array.dtype or ours.shape != array.shape or not same_bytes:
                wrong.append(f"{path.name}: ours {ours.dtype} {ours.shape}\n{ours}\nNumPy's {array.dtype} {array.shape}\n{array}")
        return wrong


def random_array(rng, dtype, shape):
    count = int(np.prod(shape))
    if dtype == np.bool_:
        values = rng.random(count) < 0.5
    elif dtype == np.uint8:
        values = rng.integers(0, 256, count)
    elif np.issubdtype(dtype, np.integer):
        values = rng.integers(-(10 ** rng.integers(1, 9)), 10 ** rng.integers(1, 9), count)
    else:
        values = rng.normal(size=count) * 10.0 ** rng.integers(-12, 12)
    return values.astype(dtype).reshape(shape)


def dims(values):
    return ",".join(map(str, values)) or "-"


def check_prints(session, rng):
    f16, f32, f64 = np.float16, np.float32, np.float64
    cases = [np.array(v, dtype) for dtype in (f16, f32, f64) for v in (
        [1, 2, 3], [[1, 2], [3, 4]], [0.1, 0.2], [1.5, -2.25, 1000], [1e-5, 1], [0.00011, 0.1], [1e8, 1], [99999999, 1],
        [123456.789, 1.1], [1 / 3, 2 / 3], [1e10], [1e-10, -3.14159265358979], [np.nan, 1], [np.inf, -np.inf, 0],
        [np.nan], [np.inf], [-np.inf, np.nan], [0.0, -0.0], [-0.0], [0], [1e-45], [16777216, 1234567], [5e-324, 1],
        [1.00000001], [0.1, 100.1], [0.1, 100.01], [1, 1001], [0.5, 1e-4], [np.pi * 1e5, np.nan], [1e30, np.inf],
        [2.5e-8, 12.5], [0.3, 0.7, 0.123456785, 0.123456775], [0.999999999, 1], [9.9999999e7, 9.5e6], [1e16, 1e17],
        [1.5e-7, np.nan, -np.inf], 0.1, 1.0, 1e-5, 1e16, 123456789.0, 1e15, 1e-4, -0.0, np.nan, -np.inf, 1 / 3, 9.9e-5,
        16777216.0, 1.2345e20, 1e22, [], [[]], [[], []], [0.30000001], [7.0000001, 3], [1e5, 0.2], [0.1] * 30)]
    cases += [np.array([1e100, 1e-5]), np.array([1e-300, 1e300]), np.array([1.7976931348623157e308, -5e-324]),
              np.array([123456789.123456789]), np.array(2.0 ** 60), np.array([f32(3.4e38), f32(1e-38)], f32)]
    every_half = np.arange(65536).astype(np.uint16).view(f16)
    cases += list(every_half.reshape(-1, 8)[:: 16 if FEWER else 1]) + list(every_half[:: 999 if FEWER else 37])
    for dtype in (np.int32, np.int64):
        cases += [np.array(v, dtype) for v in ([1, -1], [100, 2, -30], 5, -7, [2**31 - 1, -(2**31)], [[1], [22]])]
    cases += [np.array([2**63 - 1, -(2**63)]), np.array([0, 255, 3], np.uint8), np.array(200, np.uint8), np.array([-128, 7, 127], np.int8)]
    cases += [np.array(v) for v in ([True, False], True, False, [[True], [False]], [True, True])]
    cases += [np.arange(n, dtype=t) for n in (17, 25, 100, 999, 1000, 1001, 5000) for t in (np.int32, np.int64, f16, f32, f64)]
    for shape in [(1,), (1, 1), (2, 3, 4), (3, 1, 2, 2), (40, 30), (7, 200), (1001, 1), (1, 1001), (6, 500), (2, 600),
                  (11, 10, 10), (2, 2, 2, 2, 2, 2, 2, 2), (4, 8, 40), (3, 4, 2, 60), (7, 7, 7, 7), (30,), (12, 2)]:
        for dtype in DTYPES.values():
            cases.append(random_array(rng, dtype, shape))
    for _ in range(ROUNDS):
        dtype = (f16, f32, f64)[int(rng.integers(3))]
        spread = int(rng.integers(0, 9))
        values = rng.normal(size=int(rng.integers(1, 12))) * 10.0 ** rng.integers(-spread - 1, spread + 1)
        values = values * 10.0 ** rng.integers(-1, 2, values.size)
        cases.append(np.round(values, int(rng.integers(0, 12))).astype(dtype))
    for _ in range(ROUNDS):
        bits = rng.integers(0, 2**63, int(rng.integers(1, 5)), dtype=np.uint64) * np.uint64(2)
        cases.append(bits.view(f64) if rng.integers(2) else bits.view(f32)[: int(rng.integers(1, 3))])
        cases.append(cases[-1].ravel()[:1].reshape(()))
    for array in cases:
        session.expect_print(session.load(array), array)


def check_files(session, rng):
    for dtype in DTYPES.values():
        for shape in [(), (1,), (0,), (5,), (2, 3), (3, 0, 2), (2, 3, 4), (1, 2, 1, 2, 1, 2, 1, 2)]:
            array = random_array(rng, dtype, shape)
            session.expect_save(session.load(array), array)
            session.expect_save(session.load(np.asarray(array, order="F")), array)


def random_view(session, name, array):
    """Makes a random view of the array, in Heddle and in NumPy."""
    kind = random.choice(["slice", "slice", "index", "permute"])
    if array.ndim == 0 or (kind == "index" and array.shape[0] == 0):
        return name, array
    if kind == "slice":
        axis = random.randrange(array.ndim)
        n = array.shape[axis]
        bound = lambda: random.choice([None, random.randint(-n - 2, n + 2)])
        begin, end, step = bound(), bound(), random.choice([1, 1, 2, 3, -1, -2])
        words = ["-" if b is None else b for b in (begin, end)]
        at = tuple([slice(None)] * axis + [slice(begin, end, step)])
        return session.derive("slice", name, axis, *words, step), array[at]
    if kind == "index":
        i = random.randrange(-array.shape[0], array.shape[0])
        return session.derive("index", name, i), array[i, ...]
    axes = random.sample(range(array.ndim), array.ndim)
    return session.derive("permute", name, dims(axes)), array.transpose(axes)


def broadcastable(shape):
    """A random shape that broadcasts to the given one."""
    kept = shape[random.randint(0, len(shape)) :] if random.random() < 0.4 else shape
    return tuple(1 if random.random() < 0.3 else n for n in kept)


def check_views(session, rng):
    for _ in range(ROUNDS):
        lengths = [0, 1, 2, 3, 5] if random.random() < 0.3 else [1, 2, 3, 5]
        shape = tuple(random.choice(lengths) for _ in range(random.randint(0, 5)))
        dtype = random.choice(list(DTYPES.values()))
        base = random_array(rng, dtype, shape)
        base_name = session.load(base)
        name, view = base_name, base
        for _ in range(random.randint(0, 4)):
            name, view = random_view(session, name, view)
        session.expect_save(name, view)
        if np.can_cast(np.int8, dtype):
            values = rng.integers(0, 100, broadcastable(view.shape)).astype(random.choice([np.int32, np.float64, dtype]))
            session.lines.append(f"assign {name} {session.load(values)}")
            view[...] = values
        else:
            session.lines.append(f"fill {name} 1")
            view[...] = 1
        session.expect_save(base_name, base)
        small = random_array(rng, dtype, broadcastable(shape))
        wide = session.derive("broadcast", session.load(small), dims(shape))
        session.expect_save(wide, np.broadcast_to(small, shape))
        flat = session.derive("reshape", name, "-1")
        session.expect_save(flat, view.reshape(view.size))


def check_large_copies(session, rng):
    for shape in [(300, 700), (70000, 3), (3, 70000), (65, 33, 67), (200001,), (2, 3, 5, 7, 11, 130)]:
        for dtype in (np.float32, np.uint8, np.float64, np.float16):
            array = random_array(rng, dtype, shape)
            name, view = session.load(array), array
            for _ in range(3):
                axes = random.sample(range(view.ndim), view.ndim)
                name, view = session.derive("permute", name, dims(axes)), view.transpose(axes)
                axis, step = random.randrange(view.ndim), random.choice([1, 2, -1])
                at = tuple([slice(None)] * axis + [slice(None, None, step)])
                name, view = session.derive("slice", name, axis, "-", "-", step), view[at]
            session.expect_save(name, view)
            session.expect_save(session.derive("astype", name, "f64"), view.astype(np.float64))


def check_conversions(session, rng):
    for source in DTYPES.values():
        for name, target in DTYPES.items():
            # within the range of every dtype, since NumPy's out-of-range conversions depend on the machine
            array = (rng.random((7, 9)) * (125 if np.int8 in (source, target) else 250)).astype(source)
            session.expect_save(session.derive("astype", session.load(array), name), array.astype(target))
    every_half = np.arange(65536).astype(np.uint16).view(np.float16)
    every_half = every_half[~np.isnan(every_half)]
    between = np.concatenate([np.nextafter(every_half.astype(np.float32), np.float32(np.inf)), every_half * np.float32(1.00048828125)])
    for array in (every_half, between, between.astype(np.float64), rng.normal(size=9999) * 10.0 ** rng.integers(-9, 6, 9999)):
        for name in ("f16", "f32", "f64"):
            session.expect_save(session.derive("astype", session.load(array), name), array.astype(DTYPES[name]))
    small = rng.integers(-(2**40), 2**40, 50)
    for name in ("i16", "i32", "u8", "u16", "u32", "u64", "i8", "f16", "f32", "bool"):
        session.expect_save(session.derive("astype", session.load(small), name), small.astype(DTYPES[name]))


def main():
    random.seed(20)
    rng = np.random.default_rng(20)
    wrong = []
    for check in (check_prints, check_files, check_views, check_large_copies, check_conversions):
        with tempfile.TemporaryDirectory() as directory:
            session = Session(sys.argv[1], directory)
            with np.errstate(all="ignore"):
                check(session, rng)
                found = session.run()
            print(f"{check.__name__}: {len(session.prints) + len(session.saves)} results, {len(found)} wrong")
            wrong += found
    print("\n\n".join(wrong[:10]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
