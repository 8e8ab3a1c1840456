"""What the training program promises its user, on small made-up data.

Usage: train_fashion_mnist_test.py PROGRAM [HEDDLE]

HEDDLE is the tool that launches several ranks.
"""
import gzip
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = HEDDLE = ""


def images_file(images):
    return struct.pack(">4I", 0x803, len(images), 28, 28) + b"".join(images)


def labels_file(labels):
    return struct.pack(">2I", 0x801, len(labels)) + bytes(labels)


def picture(rng, label):
    """Noise with a bright row whose position is the label, so that there is something to learn."""
    pixels = bytearray(rng.randrange(100) for _ in range(784))
    pixels[(2 * label + 4) * 28:(2 * label + 5) * 28] = bytes([250] * 28)
    return bytes(pixels)


def make_data(directory, train=300, test=100):
    rng = random.Random(1)
    for part, count in (("train", train), ("t10k", test)):
        labels = [rng.randrange(10) for _ in range(count)]
        write(directory, part + "-images-idx3-ubyte.gz", gzip.compress(images_file([picture(rng, l) for l in labels])))
        write(directory, part + "-labels-idx1-ubyte.gz", gzip.compress(labels_file(labels)))


def write(directory, name, content):
    with open(os.path.join(directory, name), "wb") as file:
        file.write(content)


class TrainTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.data = self.temporary.name
        make_data(self.data)

    def path(self, name):
        return os.path.join(self.data, name)

    def command(self, *arguments):
        return [PROGRAM, "--data", self.data, "--plot", "", "--batch", "32", *arguments]

    def train(self, *arguments, status=0, **environment):
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, cwd=self.data,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def ranks(self, count, *arguments):
        """The command that trains on `count` ranks."""
        return [HEDDLE, "launch", "-n", str(count), "--no-prefix", "--", *self.command("--kvstore", "allreduce", *arguments)]

    def train_on(self, count, *arguments, status=0):
        done = subprocess.run(self.ranks(count, *arguments), capture_output=True, text=True, cwd=self.data)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def assert_same_results(self, output, expected):
        """Equal results, except for rounding: ranks change the order of additions."""
        found, wanted = self.results(output), self.results(expected)
        self.assertEqual(len(found), 3, output)
        for one, other in zip(found, wanted):
            words, others = one.split(), other.split()
            self.assertEqual(words[:2], others[:2])
            # a picture near the decision boundary may change sides
            slack = 0.011 if words[1] == "accuracy" else 1e-4 * float(others[2])
            self.assertAlmostEqual(float(words[2]), float(others[2]), delta=slack, msg=output)

    def results(self, output):
        return [line for line in output.splitlines() if line.startswith(("final loss", "test loss", "test accuracy"))]

    def refuse(self, reason, *arguments):
        output = self.train(*arguments, status=2)
        self.assertIn(reason, output)
        self.assertNotIn("epoch 1", output)
        return output

    def test_learns_and_ends_with_the_accuracy(self):
        output = self.train("--epochs", "6", "--lr", "0.05")
        last = output.splitlines()[-1]
        self.assertRegex(last, r"^test accuracy 0\.\d{4}$|^test accuracy 1\.0000$")
        self.assertGreater(float(last.split()[-1]), 0.9)

    def test_one_seed_one_result_whatever_the_schedule(self):
        expected = self.results(self.train("--epochs", "2", HEDDLE_SCHEDULER="naive"))
        self.assertEqual(len(expected), 3)
        for environment in ({"HEDDLE_WORKERS": "1"}, {"HEDDLE_WORKERS": "2"}, {"HEDDLE_WORKERS": "3"},
                            {"HEDDLE_SCHEDULER": "fuzz:1"}, {"HEDDLE_SCHEDULER": "fuzz:2"}):
            self.assertEqual(self.results(self.train("--epochs", "2", **environment)), expected, environment)
        self.assertNotEqual(self.results(self.train("--epochs", "2", "--seed", "2")), expected)

    def test_batches_of_any_size(self):
        for batch in ("1", "7", "299", "300", "1000"):
            self.train("--epochs", "1", "--limit", "40" if batch == "1" else "0", "--batch", batch)

    def test_resumes_to_the_last_bit_between_epochs(self):
        for optimizer in ("sgd", "adam"):
            flags = ("--optimizer", optimizer, "--epochs", "3")
            expected = self.results(self.train(*flags))
            self.train(*flags, "--save", "run.ckpt")
            os.rename(self.path("run.ckpt"), self.path("end.ckpt"))
            self.assertEqual(self.results(self.train("--resume", "end.ckpt")), expected)

    def test_resumes_to_the_last_bit_after_an_interrupt(self):
        flags = ("--epochs", "8", "--save", "run.ckpt")
        expected = self.results(self.train(*flags))
        os.remove(self.path("run.ckpt"))
        with subprocess.Popen(self.command(*flags), stdout=subprocess.PIPE, text=True, cwd=self.data) as process:
            for line in process.stdout:
                if line.startswith("epoch 1/8"):
                    process.send_signal(signal.SIGINT)
                    break
            rest = process.stdout.read()
            self.assertEqual(process.wait(), 130, rest)
        self.assertIn("go on with --resume run.ckpt", rest)
        self.assertEqual(self.results(self.train("--resume", "run.ckpt")), expected)

    def test_an_interrupt_without_save_says_so(self):
        command = self.command("--epochs", "1000")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=self.data) as process:
            for line in process.stdout:
                if line.startswith("epoch 1/1000"):
                    process.send_signal(signal.SIGINT)
                    break
            self.assertIn("nothing is saved without --save", process.stdout.read())
            self.assertEqual(process.wait(), 130)

    def test_missing_data(self):
        output = self.refuse("none/train-images-idx3-ubyte.gz: No such file", "--data", self.path("none"))
        self.assertIn("apt install dataset-fashion-mnist", output)
        self.assertIn("--data DIR", output)

    def test_broken_data(self):
        images, labels = "train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"
        with open(self.path(images), "rb") as file:
            good = file.read()
        broken = [
            (images, b"", "ends after 0 bytes"),
            (images, good[:len(good) // 2], images),
            (images, good[:-200] + bytes(100) + good[-100:], "cannot be decompressed"),
            (images, gzip.compress(labels_file([1] * 300)), "magic number is 2049, wanted is 2051"),
            (images, gzip.compress(gzip.decompress(good)[:-1]), "1 more are wanted"),
            (images, gzip.compress(gzip.decompress(good) + b"x"), "is longer than its header says"),
            (images, gzip.compress(struct.pack(">4I", 0x803, 300, 28, 27)), "side 27"),
            (images, gzip.compress(struct.pack(">4I", 0x803, 0xffffffff, 28, 28)), "4294967295 items"),
            (labels, gzip.compress(labels_file([3] * 99 + [10])), "label 99 is 10"),
            (labels, gzip.compress(labels_file([3] * 99)), "99 labels for 100 pictures"),
        ]
        for name, content, reason in broken:
            with self.subTest(reason):
                make_data(self.data)
                write(self.data, name, content)
                output = self.refuse(reason)
                self.assertIn(name, output)
                self.assertIn("apt install dataset-fashion-mnist", output)

    def test_data_that_is_not_compressed(self):
        expected = self.results(self.train("--epochs", "1"))
        for name in os.listdir(self.data):
            if not name.endswith(".gz"):
                continue
            with gzip.open(self.path(name)) as file:
                write(self.data, name[:-3], file.read())
            os.remove(self.path(name))
        self.assertEqual(self.results(self.train("--epochs", "1")), expected)

    def test_bad_flags(self):
        for flags in (["--epoch", "3"], ["--epochs", "0"], ["--epochs", "many"], ["--lr", "-1"], ["--lr", "nan"],
                      ["--optimizer", "magic"], ["--batch", "0"], ["--workers", "-1"], ["--seed", "-1"],
                      ["--seed", "99999999999999999999"], ["surplus"], ["--save"]):
            with self.subTest(flags):
                self.refuse("--help", *flags)

    def test_help(self):
        output = self.train("--help")
        for flag in ("--epochs", "--batch", "--lr", "--optimizer", "--seed", "--save", "--resume", "--data", "--workers",
                     "--schedule", "--plot"):
            self.assertIn(flag, output)

    def test_places_that_cannot_be_written_are_found_before_training(self):
        self.refuse("--save", "--save", self.path("none/run.ckpt"))
        self.refuse("is a directory", "--save", self.data)
        self.refuse("--plot", "--plot", self.path("none/plot.svg"))

    def test_a_plot_does_not_overwrite_a_checkpoint(self):
        self.refuse("same file", "--save", "run", "--plot", self.path("run"))

    def test_a_loss_that_is_no_number_ends_the_run(self):
        output = self.train("--lr", "1000", "--epochs", "3", status=1)
        self.assertIn("try a smaller --lr", output)
        self.assertNotIn("test accuracy", output)

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run(self.command("--epochs", "1"), stdout=full, stderr=subprocess.PIPE, text=True,
                                  cwd=self.data)
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not be written", done.stderr)

    def test_checkpoints_that_do_not_fit(self):
        self.train("--epochs", "1", "--save", "run.ckpt")
        self.refuse("cannot be opened", "--resume", "none.ckpt")
        self.refuse("the run in 'run.ckpt' has 32", "--resume", "run.ckpt", "--batch", "16")
        self.refuse("has sgd", "--resume", "run.ckpt", "--optimizer", "adam")
        self.train("--epochs", "2", "--resume", "run.ckpt", "--save", "two.ckpt")
        self.refuse("more than --epochs 1", "--resume", "two.ckpt", "--epochs", "1")
        write(self.data, "bad.ckpt", b"no checkpoint at all")
        self.refuse("bad.ckpt", "--resume", "bad.ckpt")

    @unittest.skipUnless(len(sys.argv) > 2, "needs the tool that launches ranks")
    def test_ranks_that_share_batches_learn_what_one_learns(self):
        flags = ("--epochs", "2", "--lr", "0.05")
        expected = self.train(*flags)
        self.assert_same_results(self.train("--kvstore", "allreduce", *flags), expected)
        # three ranks: batches of 32, the last batch of 12 and test batches of 100 do not divide evenly
        for count in (2, 3):
            output = self.train_on(count, *flags)
            self.assert_same_results(output, expected)
            self.assertIn(f"over {count} ranks", output)
            self.assertEqual(output.count("\ntest accuracy "), 1, "one rank prints")

    @unittest.skipUnless(len(sys.argv) > 2, "needs the tool that launches ranks")
    def test_a_last_batch_smaller_than_the_ranks(self):
        flags = ("--epochs", "2", "--limit", "33", "--lr", "0.02", "--optimizer", "sgd")
        self.assert_same_results(self.train_on(3, *flags), self.train(*flags))

    @unittest.skipUnless(len(sys.argv) > 2, "needs the tool that launches ranks")
    def test_ranks_go_on_where_others_stopped(self):
        flags = ("--epochs", "2", "--lr", "0.05")
        expected = self.train(*flags)
        self.train_on(2, *flags, "--save", "run.ckpt")
        self.assertEqual(self.results(self.train_on(2, "--resume", "run.ckpt")),
                         self.results(self.train("--resume", "run.ckpt")))
        process = subprocess.Popen(self.ranks(2, *flags, "--epochs", "50", "--save", "stopped.ckpt"), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.data)
        with process:
            for line in process.stdout:
                if line.startswith("epoch 1/50"):
                    process.send_signal(signal.SIGINT)
                    break
            rest = process.stdout.read()
            self.assertEqual(process.wait(), 130, rest)
        self.assertIn("go on with --resume stopped.ckpt", rest)
        self.assertEqual(rest.count("interrupted;"), 1, rest)
        # a run with another number of ranks resumes
        output = self.train_on(3, "--resume", "stopped.ckpt", "--epochs", "2", "--schedule", "constant", "--lr", "0.01")
        self.assertGreater(float(self.results(output)[2].split()[2]), 0.2)

    @unittest.skipUnless(len(sys.argv) > 2, "needs the tool that launches ranks")
    def test_ranks_that_compress_go_on_to_the_last_bit(self):
        flags = ("--compression", "1bit", "--lr", "0.01", "--epochs", "8")
        expected = self.results(self.train_on(2, *flags))
        with subprocess.Popen(self.ranks(2, *flags, "--save", "half.ckpt"), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, cwd=self.data) as process:
            for line in process.stdout:
                if line.startswith("epoch 2/8"):
                    process.send_signal(signal.SIGINT)
                    break
            rest = process.stdout.read()
            self.assertEqual(process.wait(), 130, rest)
        parts = sorted(name for name in os.listdir(self.data) if name.startswith("half.ckpt.residuals-"))
        self.assertEqual(len([name for name in parts if name.endswith("-0-of-2")]), len(parts) / 2, parts)
        self.assertEqual(self.results(self.train_on(2, *flags, "--resume", "half.ckpt")), expected)
        for name in parts:
            os.remove(self.path(name))
        self.assertNotEqual(self.results(self.train_on(2, *flags, "--resume", "half.ckpt")), expected)

    @unittest.skipUnless(len(sys.argv) > 2, "needs the tool that launches ranks")
    def test_jobs_that_cannot_be(self):
        self.assertIn("3 ranks share each batch", self.train_on(3, "--batch", "2", status=2))
        self.assertIn("want --kvstore allreduce", self.train_on(2, "--kvstore", "local", status=2))
        self.assertIn("none/train-images", self.train_on(2, "--data", self.path("none"), status=2))
        self.assertIn("cannot be written", self.train_on(2, "--save", self.path("none/run.ckpt"), status=2))
        self.refuse("--kvstore", "--kvstore", "magic")

    def test_plot(self):
        self.train("--epochs", "2", "--plot", "curves.svg")
        with open(self.path("curves.svg")) as file:
            svg = file.read()
        for part in ("<svg", "loss", "accuracy", "epoch", "training", "test", "polyline"):
            self.assertIn(part, svg)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    HEDDLE = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else ""
    del sys.argv[1:3]
    unittest.main()
