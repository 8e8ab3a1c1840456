"""TfIdfVectorizer: how often n-grams come in texts of numbers."""

from collections.abc import Sequence
from typing import Any

import heddle
from heddle.onnx.table import Array, Missing, operator


def occurrences(x: Array, grams: Array, skips: range) -> Array:
    """Occurrences of each of grams (count, n) in each row of x, with `skips` elements left out between its elements."""
    n, length = grams.shape[1], x.shape[1]
    total = heddle.zeros([x.shape[0], grams.shape[0]], "i64")
    for step in (skip + 1 for skip in skips):
        places = length - (n - 1) * step
        if places <= 0:
            break
        windows = heddle.stack([heddle.slice(x, 1, i * step, i * step + places) for i in range(n)], -1)
        same = heddle.all(heddle.equal(heddle.expand_dims(windows, 2), grams), -1)  # (rows, places, grams)
        total = total + heddle.count_nonzero(same, 1)
    return total


@operator("TfIdfVectorizer", since=9)
def tfidf_vectorizer(
    x: Array,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Any = None,
    pool_strings: Any = None,
    weights: Any = None,
) -> Array:
    if pool_strings is not None:
        raise Missing("dtype string")
    rows, first = heddle.cast(x, "i64").reshape([-1, x.shape[-1]]), 0  # index of this length's first gram
    columns = heddle.zeros([rows.shape[0], max(ngram_indexes) + 1], "f32")
    scale = heddle.array(weights or [1.0] * len(ngram_indexes), dtype="f32")
    for n, start in enumerate(ngram_counts, 1):
        end = ngram_counts[n] if n < len(ngram_counts) else len(pool_int64s)
        count = (end - start) // n
        if min_gram_length <= n <= max_gram_length and count:
            grams = heddle.array(pool_int64s[start:end], dtype="i64").reshape([count, n])
            found = heddle.cast(occurrences(rows, grams, range(max_skip_count + 1 if n > 1 else 1)), "f32")
            found = heddle.minimum(found, 1) if mode == "IDF" else found
            found = found if mode == "TF" else found * scale[first : first + count]
            index = heddle.array(ngram_indexes[first : first + count], dtype="i64")
            columns = heddle.index_copy(columns, index, found, 1)
        first += count
    return columns.reshape([*x.shape[:-1], -1])
