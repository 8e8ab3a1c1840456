"""NonMaxSuppression. What it keeps decides what it compares next, so that the choice is Python."""

import math

import heddle
from heddle import NDArray

from .table import operator


def overlaps(boxes: NDArray, center_point_box: int) -> NDArray:
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
    result = []
    for box in order:
        if len(result) < most and not any(near[box][other] for other in result):
            result.append(box)
    return result


@operator("NonMaxSuppression", since=10)
def non_max_suppression(boxes, scores, most=None, iou_threshold=None, score_threshold=None, *, center_point_box=0):
    most = 0 if most is None else most.item()
    near = (overlaps(boxes, center_point_box) > (0 if iou_threshold is None else iou_threshold.item())).tolist()
    lowest = -math.inf if score_threshold is None else score_threshold.item()
    high, order = (scores > lowest).tolist(), heddle.argsort(scores, -1, True).tolist()
    rows = [
        [batch, label, box]
        for batch, labels in enumerate(order)
        for label, places in enumerate(labels)
        for box in kept([box for box in places if high[batch][label][box]], near[batch], most)
    ]
    return heddle.array(rows, dtype="i64").reshape([-1, 3])
