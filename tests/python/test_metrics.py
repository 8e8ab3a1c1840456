"""Metrics: classes made of the registry."""

import pytest

import heddle


def test_metrics_accumulate():
    accuracy = heddle.Accuracy()
    accuracy.update(heddle.array([[0.1, 0.9], [0.8, 0.2]]), heddle.array([1, 1]))
    accuracy.update(predictions=[[0.1, 0.9]], labels=[1])
    assert accuracy.value() == pytest.approx(2 / 3)
    assert repr(accuracy).startswith("Accuracy: 0.666")
    other = heddle.Accuracy()
    other.merge(accuracy.state())
    assert other.value() == accuracy.value()
    accuracy.reset()
    assert accuracy.value() != accuracy.value()  # NaN

    rates = heddle.F1("none", classes=3)
    rates.update([0, 1, 2], [0, 1, 1])
    assert rates.result().tolist() == pytest.approx([1, 2 / 3, 0])
    mean = heddle.MeanMetric()
    mean.update(0.5)
    mean.update(2.5, weights=3)
    assert mean.value() == 2
    words = heddle.EditDistance()
    words.update([1, 2, 3], [1, 3])
    assert words.value() == 0.5


def test_metrics_refuse():
    with pytest.raises(TypeError, match="labels"):
        heddle.Accuracy().update([1])
    with pytest.raises(TypeError, match="nope"):
        heddle.Accuracy().update([1], [1], nope=2)
    with pytest.raises(heddle.InvalidArgument, match="TopKAccuracy: k is 0"):
        heddle.TopKAccuracy(k=0)
    with pytest.raises(ValueError, match="F1: average is 'x'"):
        heddle.F1("x")
    with pytest.raises(TypeError, match="no constructor"):
        heddle.Metric()
    accuracy = heddle.Accuracy()
    accuracy.update([[0.0, 1.0]], [7])
    with pytest.raises(heddle.InvalidArgument, match="Accuracy: label 7 at position 0; want 0 to 1"):
        accuracy.value()

    class WithoutInit(heddle.Accuracy):
        def __init__(self):
            pass

    with pytest.raises(TypeError, match="has not called super"):
        WithoutInit().value()
