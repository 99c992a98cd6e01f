"""One trace: a put, a queue, a worker, a queue, a stage of Spark, and a third queue."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import SparkSession

import snowmelt
from spark.cluster import Queues, queues_of

pytest.importorskip("opentelemetry.sdk")
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    with queues_of(1, tmp_path_factory.mktemp("queues")) as running:
        yield running


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """It keeps in memory what a provider of this process is given."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


def test_a_trace_goes_through_a_worker_and_a_spark_stage(
    spark: SparkSession, queues: Queues, collector: InMemorySpanExporter
) -> None:
    with snowmelt.connect(queues.url) as cluster:
        orders, bills = cluster.fifo("traced-orders"), cluster.fifo("traced-bills")

        def handle(item: snowmelt.Item) -> None:
            bills.put(b"bill for " + item.body)

        with trace.get_tracer("shop").start_as_current_span("checkout"):
            orders.put(b"one")
        orders.put(b"two")
        snowmelt.Worker(orders, handle).run(timeout=1)
        read = queues.stream(spark, queue="traced-bills", includeHeaders="true")
        stage = read.selectExpr("concat(value, ' sent') AS value", "headers")
        queues.into(stage, "traced", queue="traced-letters")
        letters = {bytes(item.body): item for item in cluster.fifo("traced-letters").get_many(9)}
    assert sorted(letters) == [b"bill for one sent", b"bill for two sent"]

    spans: dict[str, list[Any]] = {}
    for one in sorted(collector.get_finished_spans(), key=lambda one: one.start_time or 0):
        spans.setdefault(one.name, []).append(one)
    [checkout] = spans["checkout"]
    way = [checkout, *(spans[name][0] for name in ("put traced-orders", "process traced-orders"))]
    way.append(spans["put traced-bills"][0])
    assert len({one.context.trace_id for one in way}) == 1
    for before, after in pairwise(way):
        assert after.parent.span_id == before.context.span_id, after.name
    [got] = spans["get traced-letters"]
    puts = {one.context.span_id for one in spans["put traced-bills"]}
    assert {link.context.span_id for link in got.links} == puts
    first = str(letters[b"bill for one sent"].headers["traceparent"])
    assert (
        first == f"00-{way[-1].context.trace_id:032x}-{way[-1].context.span_id:016x}-" + first[-2:]
    )
    traces = {str(one.headers["traceparent"])[3:35] for one in letters.values()}
    assert len(traces) == 2
