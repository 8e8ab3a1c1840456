"""Attention. Rotary embeddings with caches of sines run by ONNX's definition."""

import heddle
from heddle.onnx.operators.shapes import above_diagonal, numbers
from heddle.onnx.table import Array, Attributes, operator


def without_scores(attributes: Attributes, outputs: int) -> bool:
    """Whether heddle.attention computes the node: no scores are asked for, nor squashed."""
    return outputs <= 3 and not attributes.get("softcap")


def heads_apart(x: Array, heads: int | None) -> Array:
    """(N, T, heads * D) as (N, heads, T, D)."""
    if x.ndim == 4:
        return x
    if not heads:
        raise heddle.InvalidArgument("Attention: inputs with three axes want q_num_heads and kv_num_heads")
    return heddle.swapaxes(x.reshape([x.shape[0], x.shape[1], heads, x.shape[2] // heads]), 1, 2)


def both(a: Array | None, b: Array) -> Array:
    """The mask that hides what one of two masks hides; b is boolean."""
    if a is None:
        return b
    if a.dtype == heddle.bool_:
        return heddle.logical_and(a, b)
    return heddle.where(b, a, heddle.full((), -float("inf"), a.dtype))


@operator("Attention", since=23, native="attention", when=without_scores)
def attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    lengths: Array | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> list[Array]:
    flat = query.ndim == 3
    q, k, v = heads_apart(query, q_num_heads), heads_apart(key, kv_num_heads), heads_apart(value, kv_num_heads)
    if past_key is not None and past_value is not None:
        k, v = heddle.concat([past_key, k], 2), heddle.concat([past_value, v], 2)
    count, total = q.shape[2], k.shape[2]
    if mask is not None and mask.shape[-1] < total:  # keys that the mask does not reach are hidden
        hidden = 0 if mask.dtype == heddle.bool_ else -float("inf")
        shape = [*mask.shape[:-1], total - mask.shape[-1]]
        mask = heddle.concat([mask, heddle.full(shape, hidden, mask.dtype)], -1)
    if mask is not None and mask.dtype.is_floating and mask.dtype != q.dtype:
        mask = heddle.cast(mask, q.dtype)
    if lengths is not None:
        mask = both(mask, numbers(total, 3, 4) < lengths.reshape([-1, 1, 1, 1]))
    past = 0 if past_key is None else past_key.shape[2]
    causal = bool(is_causal)
    if left_window_size >= 0 or right_window_size >= 0:
        start = past if lengths is None else lengths.reshape([-1, 1, 1, 1]) - count
        ahead = above_diagonal(count, total) - start  # a key's place behind that of a query
        if left_window_size >= 0:
            mask = both(mask, ahead >= -left_window_size)
        if right_window_size >= 0:
            mask = both(mask, ahead <= right_window_size)
    if causal and lengths is not None:  # the last query is the last of each sequence
        ends = lengths.reshape([-1, 1, 1, 1]) - count
        seen = numbers(total, 3, 4) <= numbers(count, 2, 4) + ends
        mask, causal = both(mask, seen), False
    elif causal and past + count != total:
        mask, causal = both(mask, above_diagonal(count, total) <= past), False
    if mask is not None:
        mask = heddle.broadcast_to(mask, [q.shape[0], q.shape[1], count, total])
    y = heddle.attention(q, k, v, mask, causal, scale)
    y = heddle.swapaxes(y, 1, 2).reshape([y.shape[0], count, -1]) if flat else y
    return [y, k, v]
