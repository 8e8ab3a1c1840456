"""Datasets and loaders, with NumPy as the oracle."""

import contextlib
import gc
import gzip
import os
import struct
import time
import weakref
import zlib

import numpy as np
import pytest
from conftest import scheduler

import heddle
from heddle import data


def png_of(pixels):
    """A PNG file of u8 (H, W, 3), written with zlib alone."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Lists:
    """Numbers, and lists of 1 to 4 of them."""

    def __init__(self, size=10, bad=()):
        self.size, self.bad = size, bad

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index in self.bad:
            raise ValueError(f"no list {index}")
        return np.full(index % 4 + 1, index, np.float32), index

    def length(self, index):
        return index % 4 + 1


def test_arrays_are_shuffled_and_resumed():
    x, y = np.arange(60, dtype=np.float32).reshape(20, 3), np.arange(20)
    loader = data.Loader(data.ArrayDataset(x, y), batch=6, shuffle=True, seed=1)
    assert len(loader) == 4
    assert loader.arrays == [(heddle.f32, (3,)), (heddle.i64, ())]
    epochs = [[(a.numpy(), b.numpy()) for a, b in loader] for _ in range(3)]
    for epoch, batches in enumerate(epochs):
        order = np.concatenate([b for _, b in batches])
        assert sorted(order) == list(range(20))
        assert all((a == x[b]).all() for a, b in batches)
        assert order.tolist() == sum((loader.indices(epoch, i) for i in range(4)), [])
        for first in range(5):
            rest = [b.numpy() for _, b in loader.start(epoch, first)]
            assert all((got == want[1]).all() for got, want in zip(rest, batches[first:], strict=True))
    assert (epochs[0][0][1] != epochs[1][0][1]).any()
    loader.start(1)
    next(loader)
    assert (loader.epoch, loader.position) == (1, 1)


def test_objects_of_ones_own_are_datasets():
    loader = data.Loader(Lists(), batch=4, pad=[-1.0])
    assert loader.arrays == [(heddle.f32, (None,)), (heddle.i64, ()), (heddle.i64, ())]
    seen = 0
    for lists, numbers, lengths in loader:
        for row, number, length in zip(lists.numpy(), numbers.numpy(), lengths.numpy(), strict=True):
            assert (number, length) == (seen, seen % 4 + 1)
            assert row.tolist() == [seen] * length + [-1] * (lists.shape[1] - length)
            seen += 1
    assert seen == 10
    buckets = data.Loader(Lists(64), batch=8, shuffle=True, pad=0, bucket_by_length=8)
    padding = sum(lists.size - int(lengths.sum().item()) for lists, _, lengths in buckets)
    assert padding < 16


def test_errors_of_a_dataset_are_the_users_own():
    loader = data.Loader(Lists(12, bad=[5]), batch=4, pad=0)
    next(loader)
    with pytest.raises(ValueError, match="no list 5") as caught:
        next(loader)
    assert "dataset[5], in a heddle.data.Loader" in caught.value.__notes__
    assert next(loader)[1].tolist() == [8, 9, 10, 11]
    skipping = data.Loader(Lists(12, bad=[5, 6]), batch=4, pad=0, skip_bad=True)
    assert [numbers.tolist() for _, numbers, _ in skipping] == [[0, 1, 2, 3], [4, 7, 7, 7], [8, 9, 10, 11]]
    assert skipping.skipped == 3

    class Fixed(Lists):
        def __getitem__(self, index):
            return np.float32(super().__getitem__(index)[1])

    fixed = data.Loader(Fixed(4, bad=[2]), batch=2)
    assert next(fixed)[0].tolist() == [0, 1]
    with pytest.raises(ValueError, match="no list 2"):
        next(fixed)[0].numpy()


def test_subsets_concatenations_and_maps():
    base = data.ArrayDataset(np.arange(10))
    assert [int(data.Subset(base, [7, 2])[i][0].item()) for i in range(2)] == [7, 2]
    both = data.ConcatDataset([base, Fives()])
    assert (len(both), both[-1][0].item()) == (13, 5)
    twice = data.MapDataset(base, lambda x: (x * 2, x))
    assert data.arrays_of(twice) == [(heddle.i64, ()), (heddle.i64, ())]
    assert next(data.Loader(twice, batch=10))[0].tolist() == list(range(0, 20, 2))
    with pytest.raises(IndexError, match="example 10 of 10"):
        base[10]


class Drawn(data.Dataset):
    """A random number of random numbers, and the epoch."""

    arrays = [("f64", (None,)), ("i64", ())]

    def __len__(self):
        return 10

    def __getitem__(self, index):
        return self.read_with(index, data.ExampleRandom(0, 0, index))

    def read_with(self, index, random):
        assert isinstance(random, data.ExampleRandom) and random.index == index
        return np.random.default_rng(random.bits()).random(random.integer(3) + 1), random.epoch


def test_datasets_and_maps_draw_random_numbers_of_the_epoch():
    def epoch_of(dataset, epoch, first=0, **options):
        loader = data.Loader(dataset, batch=4, shuffle=True, seed=3, pad=0, **options)
        return [[array.tolist() for array in batch] for batch in loader.start(epoch, first)]

    whole = epoch_of(Drawn(), 1)
    assert whole == epoch_of(Drawn(), 1, ahead=0) and whole[2:] == epoch_of(Drawn(), 1, 2)
    assert whole[0][1] == [1] * 4 and whole[0][0] != epoch_of(Drawn(), 2)[0][0]
    indices = data.Loader(Drawn(), batch=4, shuffle=True, seed=3, pad=0).indices(1, 0)
    for row, length, index in zip(whole[0][0], whole[0][2], indices, strict=True):
        wanted = Drawn().read_with(index, data.ExampleRandom(3, 1, index))[0]
        assert row[:length] == wanted.tolist()
    assert Drawn()[4][1] == 0

    base = data.ArrayDataset(np.zeros(10))
    once = data.MapDataset(base, lambda x, random: x + random.uniform(), random=True)
    twice = data.MapDataset(data.Subset(once, range(10)), lambda x, random: (x, random.uniform(), random.seed % 1000), random=True)
    values, others, seeds = next(data.Loader(twice, batch=10, seed=2**64 - 1).start(5))
    for index in range(10):
        random = data.ExampleRandom(2**64 - 1, 5, index)
        assert [values[index].item(), others[index].item()] == pytest.approx([random.uniform(), random.uniform()])
    assert seeds.tolist() == [(2**64 - 1) % 1000] * 10
    assert once[2][0].item() == data.ExampleRandom(0, 0, 2).uniform()

    class Method(data.ArrayDataset):
        def read_with(self, index, random):
            return super().__getitem__(index)[0] + 1

    assert next(data.Loader(Method(np.zeros(3)), batch=3))[0].tolist() == [1, 1, 1]


def test_a_batch_has_the_arrays_that_are_wanted():
    class Texts(Lists):
        arrays = [("i64", (None,)), ("i64", ())]

        def __getitem__(self, index):
            return np.arange(index + 1), index

    loader = data.Loader(Texts(4), batch=4, pad=-1, arrays=[0, 2, 1])
    assert loader.arrays == [(heddle.i64, (None,)), (heddle.i64, ()), (heddle.i64, ())]
    tokens, lengths, labels = next(loader)
    assert tokens[1].tolist() == [0, 1, -1, -1] and lengths.tolist() == [1, 2, 3, 4] and labels.tolist() == [0, 1, 2, 3]
    assert next(data.Loader(Texts(4), batch=4, arrays=np.array([1])))[0].tolist() == [0, 1, 2, 3]


class Ragged(Lists):
    def __getitem__(self, index):
        return np.zeros(index, np.uint8)


class Fives(data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return 5


def test_ranks_share_an_epoch():
    for remainder, count in (("wrap", 5), ("drop", 4)):
        loaders = [data.Loader(data.ArrayDataset(np.arange(13)), 2, True, rank=r, ranks=3, remainder=remainder) for r in range(3)]
        seen = [[int(v) for (b,) in loader for v in b.numpy()] for loader in loaders]
        assert [len(s) for s in seen] == [count] * 3
        assert len(set(sum(seen, []))) == (13 if remainder == "wrap" else 12)


def test_images_are_augmented(tmp_path):
    rng = np.random.default_rng(1)
    pixels = [rng.integers(0, 256, (6, 5, 3), np.uint8) for _ in range(4)]
    for i, image in enumerate(pixels):
        (tmp_path / f"class {i % 2}").mkdir(exist_ok=True)
        (tmp_path / f"class {i % 2}" / f"{i}.png").write_bytes(png_of(image))
    folder = data.ImageFolder(tmp_path, size=(6, 5))
    assert (folder.classes, folder.labels) == (["class 0", "class 1"], [0, 0, 1, 1])
    order = [0, 2, 1, 3]
    images, labels = next(data.Loader(folder, batch=4))
    assert (images.numpy() == np.stack([pixels[i].transpose(2, 0, 1) for i in order])).all()
    change = data.Augmentation(padding=1, crop=(6, 5), flip=0.5, mean=[0.5, 0.4, 0.3], std=0.25)
    loader = data.Loader(folder, batch=4, seed=7, augment=change)
    got = next(loader.start(3))[0].numpy()
    assert got.dtype == np.float32
    for i, index in enumerate(loader.indices(3, 0)):
        assert (got[i] == change(images[index], seed=7, epoch=3, index=index).numpy()).all()
    plain = next(data.Loader(folder, batch=4, augment=change.evaluation()))[0].numpy()
    want = (images.numpy() / 255 - np.reshape([0.5, 0.4, 0.3], (3, 1, 1))) / 0.25
    assert np.allclose(plain, want, atol=1e-5)
    assert (data.decode_image(png_of(pixels[0])).numpy() == pixels[0].transpose(2, 0, 1)).all()
    with pytest.raises(heddle.Error, match="neither PNG nor JPEG"):
        data.decode_image(b"GIF89a")


def test_files(tmp_path):
    values = np.arange(12, dtype=np.uint8).reshape(3, 4)
    (tmp_path / "x.gz").write_bytes(gzip.compress(struct.pack(">HBBII", 0, 8, 2, 3, 4) + values.tobytes()))
    assert (data.load_idx(tmp_path / "x.gz").numpy() == values).all()
    with pytest.raises(heddle.Error, match="load_idx: file '.*' cannot be opened"):
        data.load_idx(tmp_path / "none")
    (tmp_path / "t.csv").write_text('a,b,kind\n1,2,"x"\n3,4,y\n')
    table = data.CsvDataset(tmp_path / "t.csv", label="kind")
    assert (table.features, table.classes) == (["a", "b"], ["x", "y"])
    assert [a.tolist() for a in table[1]] == [[3, 4], 1]
    (tmp_path / "t.txt").write_text("héllo\nwo\n", encoding="utf-8")
    vocabulary = data.Vocabulary.of_characters("héllowr")
    assert vocabulary.decode(vocabulary.encode("wörlé".replace("ö", "o"))) == "worlé"
    lines = data.TextLines([tmp_path / "t.txt"], vocabulary)
    ids, lengths = next(data.Loader(lines, batch=2, pad=99))
    assert lengths.tolist() == [5, 2]
    assert ids[1].tolist() == vocabulary.encode("wo") + [99] * 3
    with pytest.raises(heddle.InvalidArgument, match="'z' is not among the 6 tokens"):
        vocabulary.encode("z")
    x, y = next(data.Loader(data.SequenceDataset(np.arange(9), 4), batch=2))
    assert (x.tolist(), y.tolist()) == ([[0, 1, 2, 3], [4, 5, 6, 7]], [[1, 2, 3, 4], [5, 6, 7, 8]])
    with data.RecordWriter(tmp_path / "r.rec") as writer:
        writer.write(b"abc")
        writer.write_image(png_of(np.zeros((2, 2, 3), np.uint8)), 3.0)
    records = data.RecordFile(tmp_path / "r.rec")
    assert bytes(records[0][0].numpy()) == b"abc"
    assert list(data.InputSplit(str(tmp_path / "r.rec"), records=True))[0] == b"abc"
    assert list(data.InputSplit(tmp_path / "t.txt"))[1] == b"wo"
    image, label = data.Subset(data.ImageRecords(tmp_path / "r.rec", size=2), [1])[0]
    assert (image.shape, label.tolist()) == ((3, 2, 2), [3])
    (tmp_path / "words").write_text("the cat sat on the mat\n" * 50)
    tokenizer = data.Tokenizer.train(tmp_path / "words", tmp_path / "model", 20)
    assert tokenizer.decode(tokenizer.encode("the mat")) == "the mat"


def test_leaving_early_frees_everything():
    class Held(Lists):
        pass

    dataset = Held(1000)
    loader = data.Loader(dataset, batch=10, pad=0, shuffle=True, ahead=8)
    for _ in loader:
        break
    gone = weakref.ref(dataset)
    del dataset, loader
    heddle.wait_all()
    gc.collect()
    assert gone() is None


def test_next_in_a_capture_is_refused(engine):
    with engine:
        for loader in (data.Loader(data.ArrayDataset(np.arange(8)), 2), data.Loader(Lists(8), 2, pad=0)):
            first = next(loader)[-1]
            with pytest.raises(heddle.Error, match="the same batch in each launch; pass the batch to the step"):
                engine.capture(lambda loader=loader: next(loader))
            assert loader.position == 1
            assert first.shape[0] == 2
            assert len(list(loader)) == 4


def test_functions_of_a_map_see_computed_arrays():
    x = heddle.ones((600, 600))

    def pending():
        y = x
        for _ in range(4):
            y = heddle.matmul(y, x) / 600
        return y + 1

    for _ in range(3):
        mapped = data.MapDataset(data.ArrayDataset(pending()), lambda a: a * 2, arrays=[("f32", (600,))])
        assert mapped[599][0][-1].item() == 4
        assert next(data.Loader(data.Subset(mapped, [599]), batch=1))[0][0, 0].item() == 4

    class Computed:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return heddle.array(np.full(100_000, index, np.float32)) * 2

    both = data.ConcatDataset([data.ArrayDataset(np.zeros((1, 100_000), np.float32)), Computed()])
    nested = data.MapDataset(data.MapDataset(both, lambda a: a * 3), lambda a: a + 1)
    assert [batch[0][0, -1].item() for batch in data.Loader(nested, batch=1)] == [1, 1, 7, 13]


def test_stop_iteration_ends_no_epoch():
    class Stops(Lists):
        def __getitem__(self, index):
            return next(iter(())) if index == 5 else super().__getitem__(index)

    loader = data.Loader(Stops(8), batch=2, pad=0)
    with pytest.raises(RuntimeError, match="has raised StopIteration") as caught:
        list(loader)
    assert isinstance(caught.value.__cause__, StopIteration)
    assert "dataset[5], in a heddle.data.Loader" in caught.value.__notes__
    assert next(loader)[1].tolist() == [6, 7]


@pytest.mark.parametrize("error", [MemoryError, SystemExit, KeyboardInterrupt, heddle.OutOfMemory])
def test_skip_bad_passes_over_no_error_that_ends_more(error):
    class Raises(Lists):
        def __getitem__(self, index):
            if index == 2:
                raise error("of the dataset")
            return index

    loader = data.Loader(Raises(4), batch=4, skip_bad=True)
    with pytest.raises(error):
        next(loader)[0].numpy()
    assert loader.skipped == 0


def test_a_full_disk_is_an_error():
    writer = data.RecordWriter("/dev/full")
    writer.write(b"abc")
    with pytest.raises(heddle.Error, match="cannot be written: No space left on device"):
        writer.close()
    writer.close()
    with pytest.raises(heddle.Error, match="No space left"), data.RecordWriter("/dev/full") as writer:
        writer.write(b"abc")


def test_subclasses_of_datasets_may_override_anything():
    class Short(data.ArrayDataset):
        def __len__(self):
            return 3

    assert len(list(data.Loader(Short(np.arange(10)), batch=1))) == 3

    class Described(data.ArrayDataset):
        arrays = [("f32", (None,))]

    described = data.Loader(Described(np.ones((4, 2), np.float32)), batch=4)
    assert described.arrays == [(heddle.f32, (None,)), (heddle.i64, ())]
    assert next(described)[1].tolist() == [2, 2, 2, 2]


def test_subclasses_read_as_the_classes_they_are_derived_from(tmp_path):
    base = data.ArrayDataset(np.zeros(10))

    def first(dataset, epoch=3, **options):
        return next(data.Loader(dataset, batch=6, seed=5, **options).start(epoch))[0].tolist()

    def noisy(kind, **members):
        return type("Noisy", (kind,), members)

    once = data.MapDataset(base, lambda x, random: x + random.uniform(), random=True)
    wanted = [data.ExampleRandom(5, 3, index).uniform() for index in range(6)]
    made = [
        (data.MapDataset, (base, lambda x, random: x + random.uniform(), None, True)),
        (data.Subset, (once, range(10))),
        (data.ConcatDataset, ([once, once],)),
    ]
    for kind, given in made:
        for members in ({"length": lambda self, index: index}, {"__len__": lambda self: 6}, {"arrays": [("f64", ())]}, {}):
            assert first(noisy(kind, **members)(*given)) == pytest.approx(wanted)
        assert first(data.Subset(noisy(kind, __len__=lambda self: 7)(*given), range(6))) == pytest.approx(wanted)
    with pytest.raises(heddle.InvalidArgument, match="Loader: __len__ of Noisy is 11, and it is made of 10 examples"):
        data.Loader(noisy(data.ArrayDataset, __len__=lambda self: 11)(np.zeros(10)), batch=2)
    with pytest.raises(heddle.InvalidArgument, match="Loader: the dataset has no examples"):
        data.Loader(noisy(data.ArrayDataset, __len__=lambda self: 0)(np.zeros(10)), batch=2)
    with pytest.raises(heddle.Error):  # arrays that its examples do not have
        first(noisy(data.ArrayDataset, arrays=[("f64", (3,))])(np.zeros((10, 2))))

    # Their arrays are declared: later writes come after the batch.
    x = heddle.zeros((500, 64))
    rows = noisy(data.ArrayDataset, length=lambda self, index: 1)(x)
    for number in range(10):
        batch = next(data.Loader(rows, batch=500))[0]
        x[...] = float(number + 1)
        assert np.all(batch.numpy() == number)


def test_numbers_of_an_example_refuse_what_a_loader_refuses():
    assert data.ExampleRandom(-1, 0, 0).uniform() == data.ExampleRandom(2**64 - 1, 0, 0).uniform()
    for call, kind, message in [
        (lambda: data.ExampleRandom(2**64, 0, 0), heddle.InvalidArgument, "ExampleRandom: seed is 18446744073709551616; want 64 bits"),
        (lambda: data.ExampleRandom(-(2**63) - 1, 0, 0), heddle.InvalidArgument, "ExampleRandom: seed is -9223372036854775809; want 64 bits"),
        (lambda: data.ExampleRandom(True, 0, 0), TypeError, "ExampleRandom: seed is a bool; want an int"),
        (lambda: data.ExampleRandom(0, True, 0), TypeError, "ExampleRandom: epoch is a bool; want an int"),
        (lambda: data.ExampleRandom(0, 0, False), TypeError, "ExampleRandom: index is a bool; want an int"),
        (lambda: data.ExampleRandom(0, 0, -1), heddle.InvalidArgument, "ExampleRandom: index is -1; want 0 or more"),
        (lambda: data.ExampleRandom(0, 0, 0).integer(True), TypeError, "ExampleRandom.integer: below is a bool; want an int"),
    ]:
        with pytest.raises(kind, match=message):
            call()


def test_lengths_of_a_subclass_make_buckets(tmp_path):
    class Lengths(data.TextLines):
        def length(self, index):
            return index % 2

    (tmp_path / "t.txt").write_text("a\nb\nc\nd\n")
    loader = data.Loader(Lengths([tmp_path / "t.txt"], data.Vocabulary.of_bytes()), batch=2, bucket_by_length=2)
    assert [loader.indices(0, i) for i in range(2)] == [[1, 3], [0, 2]]
    assert next(loader)[0].tolist() == [[98], [100]]


def test_names_of_classes_may_be_any_bytes(tmp_path):
    folder = os.fsencode(tmp_path) + b"/b\xff"
    os.mkdir(folder)
    with open(folder + b"/1.png", "wb") as file:
        file.write(png_of(np.zeros((2, 2, 3), np.uint8)))
    assert data.ImageFolder(tmp_path).classes == [os.fsdecode(b"b\xff")]


def test_an_interrupted_next_keeps_the_batch(run):
    text = """
import os, signal, threading
import numpy as np
from heddle import data

go = threading.Event()

class Slow:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index == 1 and not go.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            go.wait(30)
        return np.full(index + 1, index)

loader = data.Loader(Slow(), batch=2, pad=0)
try:
    next(loader)
    print("no interrupt")
except KeyboardInterrupt:
    go.set()
print(loader.position, next(loader)[0][:, 0].tolist())
"""
    done = run(text)
    assert (done.stdout, done.stderr) == ("0 [0, 1]\n", "")


@pytest.mark.skipif(scheduler() == "naive", reason="each push runs its op")
def test_the_end_of_a_program_does_not_wait_for_batches_read_ahead(run):
    text = """
import atexit, time
reads = []
atexit.register(lambda: print(len(reads)))  # after all that is registered later

from heddle import data

class Slow:
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        reads.append(index)
        time.sleep(0.02)
        return index

loader = data.Loader(Slow(), batch=100)
next(loader)
"""
    done = run(text)
    assert done.stderr == ""
    assert int(done.stdout) < 300


def cycles():
    class Own(Lists):
        def __init__(self):
            super().__init__()
            self.loader = data.Loader(self, batch=2, pad=0)
            next(self.loader)

    class Chain:
        def __init__(self):
            base = data.ConcatDataset([data.ArrayDataset(np.arange(4)), data.ArrayDataset(np.arange(4))])
            self.dataset = data.MapDataset(data.Subset(data.MapDataset(base, self.function), [0, 5, 2]), self.function)
            self.loader, self.other = data.Loader(self.dataset, batch=2), data.Loader(self.dataset, batch=1)
            next(self.loader)

        def function(self, x):
            return x + 1

    return [Own, Chain]


@pytest.mark.parametrize("made", cycles())
def test_cycles_through_datasets_and_loaders_are_collected(made):
    def is_collected(reference):
        with contextlib.suppress(BaseExceptionGroup):  # errors of other tests' ops
            heddle.wait_all()
        for _ in range(100):  # an op is done a little before it gives up what it used
            gc.collect()
            if reference() is None:
                return True
            time.sleep(0.02)
        return False

    for _ in range(3):
        first, kept = made(), made()
        gone, inner = weakref.ref(first), kept.loader
        there = weakref.ref(kept)
        del first, kept
        assert is_collected(gone)
        assert there() is not None  # the loader needs it
        assert len(next(inner)[0]) >= 1
        del inner
        assert is_collected(there)


def test_wrong_calls():
    base = data.ArrayDataset(np.arange(4))
    for call, error, text in (
        (lambda: data.Loader(3), TypeError, "Loader: dataset is a int; want an object with __len__ and __getitem__"),
        (lambda: data.Loader(base, batch=0), heddle.InvalidArgument, "Loader: batch is 0"),
        (lambda: data.Loader(base, batch="4"), TypeError, "Loader: batch is a str; want an int"),
        (lambda: data.Loader(base, shuffle=1), TypeError, "Loader: shuffle is a int; want a bool"),
        (lambda: data.Loader(base, remainder="x"), heddle.InvalidArgument, "Loader: remainder is 'x'"),
        (lambda: data.Loader(base, augment=1), TypeError, "Loader: augment is a int"),
        (lambda: data.Loader([]), heddle.InvalidArgument, "Loader: the dataset has no examples"),
        (lambda: data.Loader(base, augment=data.Augmentation()), heddle.InvalidArgument, "wanted an image"),
        (lambda: data.ArrayDataset(), heddle.InvalidArgument, "ArrayDataset: no arrays"),
        (lambda: data.Subset(base, [4]), heddle.InvalidArgument, "Subset: example 4 of 4"),
        (lambda: data.MapDataset(base, 3), TypeError, "MapDataset: fn is a int"),
        (lambda: data.ImageFolder(3), TypeError, "ImageFolder: path is a int"),
        (lambda: data.TextLines("x", data.Vocabulary.of_bytes()), TypeError, "TextLines: paths is one path"),
        (lambda: data.Loader(base, seed=2**64), heddle.InvalidArgument, "Loader: seed is 18446744073709551616"),
        (lambda: data.Loader(Ragged(), pad=-1), heddle.InvalidArgument, "pad value 0 is -1"),
        (lambda: data.Augmentation(flip=[])(np.zeros((3, 2, 2))), TypeError, "Augmentation: flip is a list; want a number"),
        (lambda: data.Vocabulary("word", ["a"], unknown=1), heddle.InvalidArgument, "Vocabulary: unknown is 1"),
        (lambda: data.Loader(base).start(-1), heddle.InvalidArgument, "epoch is -1"),
        (lambda: len(data.Dataset()), TypeError, "Dataset needs __len__"),
        (lambda: data.Loader(base, arrays=[1]), heddle.InvalidArgument, r"Loader: arrays\[0\] is 1; wanted 0 to 0"),
        (lambda: data.Loader(base, arrays=0), TypeError, "Loader: arrays is a int; want a list"),
        (lambda: data.Loader(base, arrays=["x"]), TypeError, "Loader: arrays is a str; want an int"),
        (lambda: data.MapDataset(base, print, random=1), TypeError, "MapDataset: random is a int; want a bool"),
        (lambda: data.ExampleRandom(0, -1, 0), heddle.InvalidArgument, "ExampleRandom: epoch is -1"),
        (lambda: data.ExampleRandom(0, 0, 0).integer(0), heddle.InvalidArgument, "below is 0"),
    ):
        with pytest.raises(error, match=text):
            call()
    assert len(data.Loader(base, seed=2**64 - 1)) == 1
