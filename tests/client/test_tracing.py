"""One trace goes from a put through a queue and a worker into the next queue."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.client.tracing import UNTRACED
from snowmelt.core.errors import BadOption, Empty

pytest.importorskip("opentelemetry.sdk")
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.propagators import textmap
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler
from opentelemetry.semconv._incubating.attributes import messaging_attributes as names

SpanKind = trace.SpanKind
Named = Callable[[str], ReadableSpan]


class Collector:
    """What a program's provider was given."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def all(self, name: str) -> list[ReadableSpan]:
        return [one for one in self.exporter.get_finished_spans() if one.name == name]

    def __call__(self, name: str) -> ReadableSpan:
        (one,) = self.all(name)
        return one


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Collector:
    collector = Collector()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", collector.provider)
    return collector


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def linked(span: ReadableSpan) -> set[int]:
    return {one.context.span_id for one in span.links}


def in_threads(folder: Path) -> None:
    with snowmelt.open(folder) as cluster:
        orders, letters = cluster.fifo("orders", codec="json"), cluster.fifo("letters")

        def handle(item: snowmelt.Item) -> None:
            letters.put(b"%d" % item.value["id"], headers={"kind": "letter"})

        with trace.get_tracer("shop").start_as_current_span("checkout"):
            orders.put({"id": 7})
        snowmelt.Worker(orders, handle).run(timeout=1)
        with letters.get() as item:
            assert item.body == b"7"
            assert item.headers["kind"] == "letter"


async def in_tasks(folder: Path) -> None:
    async with snowmelt.aio.open(folder) as cluster:
        orders, letters = cluster.fifo("orders", codec="json"), cluster.fifo("letters")

        async def handle(item: snowmelt.aio.Item) -> None:
            await letters.put(b"%d" % item.value["id"], headers={"kind": "letter"})

        with trace.get_tracer("shop").start_as_current_span("checkout"):
            await orders.put({"id": 7})
        await snowmelt.aio.Worker(orders, handle).run(timeout=1)
        async with await letters.get() as item:
            assert item.body == b"7"
            assert item.headers["kind"] == "letter"


@pytest.mark.parametrize("tasks", [False, True], ids=["threads", "tasks"])
def test_put_queue_worker_queue_is_one_trace(tmp_path: Path, spans: Collector, tasks: bool) -> None:
    if tasks:
        asyncio.run(in_tasks(tmp_path))
    else:
        in_threads(tmp_path)
    way = [spans(one) for one in ("checkout", "put orders", "process orders", "put letters")]
    assert len({one.context.trace_id for one in way if one.context}) == 1
    assert [parent_of(one) for one in way] == [None, *map(id_of, way[:3])]
    assert [one.kind for one in way[1:]] == [
        SpanKind.PRODUCER,
        SpanKind.CONSUMER,
        SpanKind.PRODUCER,
    ]
    assert linked(way[2]) == {id_of(way[1])}
    assert linked(spans("get letters")) == {id_of(way[3])}
    assert spans("ack letters").kind is spans("get letters").kind is SpanKind.CLIENT


def test_names_and_values_are_those_of_the_conventions(tmp_path: Path, spans: Collector) -> None:
    in_threads(tmp_path)
    kinds = {"put": "send", "process": "process"}
    for word, kind in kinds.items():
        told = dict(spans(f"{word} orders").attributes or {})
        told.pop(names.MESSAGING_MESSAGE_ID, None)
        assert told == {
            names.MESSAGING_SYSTEM: "snowmelt",
            names.MESSAGING_OPERATION_NAME: word,
            names.MESSAGING_OPERATION_TYPE: names.MessagingOperationTypeValues(kind).value,
            names.MESSAGING_DESTINATION_NAME: "orders",
        }
    assert (spans("process orders").attributes or {})[names.MESSAGING_MESSAGE_ID] == "0"
    for word, kind in {"get": "receive", "ack": "settle"}.items():
        told = dict(spans(f"{word} letters").attributes or {})
        assert told[names.MESSAGING_OPERATION_TYPE] == kind


def test_many_items_are_one_span_and_all_carry_it(tmp_path: Path, spans: Collector) -> None:
    with snowmelt.open(tmp_path) as cluster:
        jobs = cluster.priority("jobs", priorities=3)
        jobs.put_many([(2, b"dust"), (0, b"fire")])
        jobs.put(b"sweep", priority=1)
        items = jobs.get_many(10)
        many, one = spans.all("put jobs")
        got = spans("get jobs")
        assert linked(got) == {id_of(many), id_of(one)}
        assert (got.attributes or {})[names.MESSAGING_BATCH_MESSAGE_COUNT] == 3
        for item in items:
            context = propagate.extract({"traceparent": str(item.headers["traceparent"])})
            put = trace.get_current_span(context).get_span_context().span_id
            assert put == id_of(one if item.body == b"sweep" else many)
        first, *_ = items
        first.nack(reason="no broom")
        items.ack()
    settled = {name: spans(f"{name} jobs").attributes or {} for name in ("nack", "ack")}
    assert names.MESSAGING_BATCH_MESSAGE_COUNT not in settled["nack"]


class Initials(textmap.TextMapPropagator):
    """A propagator of the program's own."""

    fields = {"initials"}  # noqa: RUF012 - as the class above has it

    def inject(self, carrier: Any, context: Any = None, setter: Any = None) -> None:
        del context, setter
        carrier["initials"] = "ab"

    def extract(self, carrier: Any, context: Any = None, getter: Any = None) -> Any:
        del carrier, getter
        return context


@pytest.mark.parametrize("sampler", [ALWAYS_ON, ALWAYS_OFF], ids=["kept", "dropped"])
def test_what_is_carried_is_what_the_propagators_write(
    tmp_path: Path, spans: Collector, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans.provider.sampler = sampler
    state = trace.TraceState([("vendor", "1")])
    known = trace.SpanContext(7, 9, is_remote=True, trace_flags=trace.TraceFlags(1))
    stated = trace.SpanContext(7, 9, True, trace.TraceFlags(1), state)
    contexts = {
        "alone": context.Context(),
        "below": trace.set_span_in_context(trace.NonRecordingSpan(known)),
        "stated": trace.set_span_in_context(trace.NonRecordingSpan(stated)),
        "luggage": baggage.set_baggage("customer", "seven"),
    }
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        for name, one in contexts.items():
            token = context.attach(one)
            orders.put(name.encode())
            context.detach(token)
        found = {item.body.decode(): dict(item.headers) for item in orders.get_many(9)}
    for name, headers in found.items():
        more = {"stated": {"tracestate"}, "luggage": {"baggage"}}.get(name, set())
        assert set(headers) == {"traceparent", *more}
        own = trace.get_current_span(propagate.extract(headers)).get_span_context()
        again: dict[str, str] = {}
        propagate.inject(again, trace.set_span_in_context(trace.NonRecordingSpan(own)))
        assert again["traceparent"] == headers["traceparent"], name
        assert own.trace_flags.sampled is (sampler is ALWAYS_ON)
    monkeypatch.setattr(propagate, "_HTTP_TEXT_FORMAT", Initials())
    with snowmelt.open(tmp_path / "own") as cluster:
        cluster.fifo("orders").put(b"one")
        assert dict(cluster.fifo("orders").get().headers) == {"initials": "ab"}


def test_the_context_that_a_program_gives_stays(tmp_path: Path, spans: Collector) -> None:
    own = {"traceparent": f"00-{7:032x}-{9:016x}-01"}
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        orders.put(b"one", headers=own)
        with orders.get() as item:
            assert item.headers == own
    assert linked(spans("get orders")) == {9}


def test_a_failure_is_told_and_the_next_try_is_of_the_same_put(
    tmp_path: Path, spans: Collector
) -> None:
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        orders.put(b"one")

        def handle(item: snowmelt.Item) -> None:
            if not item.failures:
                raise KeyError("id")

        retry = snowmelt.Retry(first=0.01)
        snowmelt.Worker(orders, handle, retry=retry).run(timeout=1)
        with pytest.raises(Empty):
            orders.get(timeout=0)
        with pytest.raises(BadOption):
            orders.put(b"two", headers=["none"])  # type: ignore[arg-type]  # it is to be refused
    first, second = spans.all("process orders")
    assert first.status.status_code is trace.StatusCode.ERROR
    assert (first.attributes or {})["error.type"] == "KeyError"
    assert second.status.is_ok
    assert first.parent == second.parent
    assert (spans("get orders").attributes or {})["error.type"] == "Empty"
    assert [(one.attributes or {}).get("error.type") for one in spans.all("put orders")] == [
        None,
        "BadOption",
    ]


def test_what_is_not_sampled_carries_that_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(sampler=ALWAYS_OFF))
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        orders.put(b"one")
        with orders.get() as item:
            flags = str(item.headers["traceparent"]).rpartition("-")[2]
            assert not int(flags, 16) & trace.TraceFlags.SAMPLED


def test_without_a_provider_nothing_is_made_and_nothing_loaded(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        assert orders.tracing is UNTRACED
        orders.put(b"one")
        with orders.get() as item:
            assert item.headers == {}
    script = (
        "import sys, snowmelt, snowmelt.aio\n"
        "with snowmelt.open(sys.argv[1]) as cluster: cluster.fifo('orders').put(b'one')\n"
        "print([one for one in sys.modules if one.startswith('opentelemetry')])"
    )
    words: list[Any] = [sys.executable, "-c", script, tmp_path / "two"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_what_the_page_shows_traces_a_program(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "tracing.md").read_text()
    block = page.partition("```python\n")[2].partition("```")[0]
    script, changed = re.subn(r'connect\(".*"\)', 'open("q.snow")', block)
    assert changed == 1
    script += "cluster.fifo('orders').put(b'one')\ncluster.close()\nprovider.shutdown()\n"
    words = [sys.executable, "-c", f"import snowmelt\n{script}"]
    told = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert '"name": "put orders"' in told
