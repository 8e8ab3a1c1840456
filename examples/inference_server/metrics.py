"""What the server tells Prometheus."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

OUTCOMES = ("answered", "refused", "late", "gone", "bad", "failed")


class Metrics:
    def __init__(self) -> None:
        disable_created_metrics()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        requests = Counter(
            "inference_requests", "Requests that have ended", ["outcome"], registry=self.registry
        )
        self.requests = {outcome: requests.labels(outcome) for outcome in OUTCOMES}
        dropped = Counter(
            "inference_ops_dropped", "Requests whose op has not run", ["why"], registry=self.registry
        )
        self.dropped = {why: dropped.labels(why) for why in ("late", "gone")}
        self.batch_size = Histogram(
            "inference_batch_size",
            "Pictures a batch",
            buckets=[1, 2, 4, 8, 16, 32, 64],
            registry=self.registry,
        )
        self.latency = Histogram(
            "inference_latency_seconds",
            "From the request's head to its answer, of answered requests",
            buckets=[m * 10.0**e for e in (-4, -3, -2, -1) for m in (1, 2, 5)] + [1, 2, 5],
            registry=self.registry,
        )
        self.queue_length = Gauge(
            "inference_queue_length", "Accepted requests that are not in a batch yet", registry=self.registry
        )

    def text(self) -> bytes:
        return generate_latest(self.registry)
