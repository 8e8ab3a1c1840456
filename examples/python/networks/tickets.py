"""Routes tickets, Debian's packages, to their section and priority: examples/networks/tickets.cc in Python."""

import argparse
import re
import sys
from collections import Counter

import numpy as np

import heddle
from heddle import data
from support import fit_options, run_example

TITLE, BODY, TAGS, SECTION, PRIORITY = 1, 2, 3, 4, 5  # columns
WORDS = {TITLE: 12, BODY: 40, TAGS: 12}  # how many of a column count
Rows = list[list[str]]


def read_tickets(path: str) -> Rows:
    """The packages, with three priorities: those that a base system has are one, for each alone has too few."""
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    for row in rows:
        row[PRIORITY] = row[PRIORITY] if row[PRIORITY] in ("optional", "extra") else "base"
    return rows


def words_in(row: list[str], column: int) -> list[str]:
    return row[column].split() if column == TAGS else re.findall("[a-z0-9]+", row[column].lower())


class Numbers:
    """Numbers of words: 0 stands for no word, 1 for all that are rare."""

    def __init__(self, rows: Rows, columns: list[int], most: int) -> None:
        text = " ".join(word for row in rows for column in columns for word in words_in(row, column))
        tokens = data.Vocabulary.of_words(text, least=2, most=most).tokens
        self.vocabulary = data.Vocabulary("word", ["(none)", "(rare)", *tokens], unknown=1)

    def of(self, rows: Rows, column: int) -> np.ndarray:
        """(rows, words), at the end padded with 0."""
        numbers = np.zeros((len(rows), WORDS[column]), np.int64)
        for i, row in enumerate(rows):
            found = self.vocabulary.encode(" ".join(words_in(row, column)))[: WORDS[column]]
            numbers[i, : len(found)] = found
        return numbers


def make_router(words: int, tags: int, sections: int, priorities: int, features: int, generator: heddle.Generator) -> heddle.Model:
    """Numbers of words (batch, 12), (batch, 40) and (batch, 12) -> logits of sections and of priorities."""
    title, body, tag = (heddle.Input((None, WORDS[column]), name, "i64") for column, name in ((TITLE, "title"), (BODY, "body"), (TAGS, "tags")))
    embedding = heddle.Embedding(words, features, stddev=0.3, padding_index=0, generator=generator)  # used twice
    read = heddle.Lstm(features, features, bidirectional=True, generator=generator)
    bag = heddle.EmbeddingBag(tags, features, stddev=0.3, padding_index=0, generator=generator)
    parts = [heddle.max(read(embedding(title)), axis=1), heddle.mean(embedding(body), axis=1), bag(tag)]
    known = heddle.Dropout(0.3)(heddle.concat(parts, axis=1))
    hidden = heddle.Dense(None, 4 * features, relu=True, generator=generator)(known)
    section = heddle.Dense(None, sections, init="xavier", generator=generator)(hidden)
    priority = heddle.Dense(None, priorities, init="xavier", generator=generator)(hidden)
    return heddle.Model([title, body, tag], [section, priority])


def run(options: argparse.Namespace) -> bool:
    rows = read_tickets(options.data)
    learn, test = [row for i, row in enumerate(rows) if i % 5], rows[::5]
    words, tags = Numbers(learn, [TITLE, BODY], 20_000), Numbers(learn, [TAGS], 2_000)
    sections, priorities = ([name for name, _ in Counter(row[column] for row in rows).most_common()] for column in (SECTION, PRIORITY))
    print(f"{len(learn)} tickets, {len(test)} more are held out; {len(sections)} sections, {len(priorities)} priorities")

    def arrays(part: Rows) -> list[np.ndarray]:
        inputs = [words.of(part, TITLE), words.of(part, BODY), tags.of(part, TAGS)]
        return [*inputs, np.array([sections.index(row[SECTION]) for row in part]), np.array([priorities.index(row[PRIORITY]) for row in part])]

    examples, held_out = arrays(learn), arrays(test)
    sizes = len(words.vocabulary), len(tags.vocabulary), len(sections), len(priorities), 32 if options.quick else 64
    router = make_router(*sizes, heddle.Generator(options.seed))
    epochs, batch = options.epochs or (8 if options.quick else 3), 16 if options.quick else 64
    rates = heddle.cosine_schedule(5e-3 if options.quick else 2e-3, epochs * (len(learn) // batch + 1), 1e-5)
    trainer = heddle.Trainer(router.parameters(), "adam", schedule=rates)

    counts = np.bincount(examples[4], minlength=len(priorities))
    weight = heddle.array(len(learn) / len(priorities) / (counts + 1), dtype="f32")  # the rarer, the heavier
    outputs, metrics = ["section", "priority"], ["accuracy", (heddle.Recall(), 1, "balanced_accuracy")]
    losses = ["cross_entropy", (lambda logits, labels: heddle.cross_entropy_with(logits, labels, weight=weight), 0.5)]
    heddle.fit(
        router, trainer, examples, loss=losses, metrics=metrics, epochs=epochs, validation=held_out, batch=batch, outputs=outputs,
        capture=True, **fit_options(options),
    )  # fmt: skip

    section, priority = (output.argmax(axis=1).tolist() for output in heddle.predict(router, held_out[:3]))
    for i in range(0, len(test), len(test) // 8):
        row = test[i]
        print(f"  {row[TITLE]:60.60} -> {sections[section[i]]}, {priorities[priority[i]]} (is {row[SECTION]}, {row[PRIORITY]})")
    result = heddle.evaluate(router, held_out, metrics=metrics, outputs=outputs, labels=2)
    accuracy, balanced = result["section_accuracy"], result["balanced_accuracy"]
    wanted, wanted_balanced = options.wanted or (0.35 if options.quick else 0.8), 0.4 if options.quick else 0.55
    print(f"held out: accuracy of the section {accuracy:.3f}, balanced accuracy of the priority {balanced:.3f}")
    print(f"the most frequent class: {np.mean(held_out[3] == 0):.3f} and {1 / len(priorities):.3f}")
    print(f"wanted: at least {wanted:.3f} and {wanted_balanced:.3f}")
    return accuracy >= wanted and balanced >= wanted_balanced


if __name__ == "__main__":
    sys.exit(run_example(run, __doc__, "packages.tsv", "packages"))
