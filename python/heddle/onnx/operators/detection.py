"""NonMaxSuppression. What it keeps decides what it compares next, so that the choice is Python."""

import math

import heddle
from heddle.onnx.table import Array, number, operator


def overlaps(boxes: Array, center_point_box: int) -> Array:
    """The intersection over the union of each two boxes of a batch: (batch, boxes, boxes)."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if center_point_box:
        low, high = first - second / 2, first + second / 2
    else:
        low, high = heddle.minimum(first, second), heddle.maximum(first, second)
    ends = heddle.minimum(heddle.expand_dims(high, 1), heddle.expand_dims(high, 2))
    starts = heddle.maximum(heddle.expand_dims(low, 1), heddle.expand_dims(low, 2))
    common, area = heddle.prod(heddle.maximum(ends - starts, 0), -1), heddle.prod(high - low, -1)
    return common / (heddle.expand_dims(area, 1) + heddle.expand_dims(area, 2) - common)


def kept(order: list[int], near: list[list[bool]], most: int) -> list[int]:
    """The first `most` boxes in this order, without those near a box that is already kept."""
    result: list[int] = []
    for box in order:
        if len(result) < most and not any(near[box][other] for other in result):
            result.append(box)
    return result


@operator("NonMaxSuppression", since=10, dynamic=True)
def non_max_suppression(
    boxes: Array,
    scores: Array,
    most: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    *,
    center_point_box: int = 0,
) -> Array:
    limit = 0 if most is None else number(most)
    near = (overlaps(boxes, center_point_box) > (0 if iou_threshold is None else number(iou_threshold))).tolist()
    lowest = -math.inf if score_threshold is None else number(score_threshold)
    high, order = (scores > lowest).tolist(), heddle.argsort(scores, -1, True).tolist()
    rows = [
        [batch, label, box]
        for batch, labels in enumerate(order)
        for label, places in enumerate(labels)
        for box in kept([box for box in places if high[batch][label][box]], near[batch], limit)
    ]
    return heddle.array(rows, dtype="i64").reshape([-1, 3])
