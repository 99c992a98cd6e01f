"""Spans of OpenTelemetry, for a program that has set it up before it connects.

    put orders       PRODUCER   its context goes with the items, in their header `traceparent`
    get orders       CLIENT     linked with the puts of what came
    process orders   CONSUMER   round a worker's handler, as a child of the put: the trace goes on
    ack orders       CLIENT     of what a get brought; also `nack`, `release`

Names and attributes are those of its conventions for messaging. A put of many items is one span,
and its context goes with all of them. A context that a program puts into the headers itself stays.

Nothing is imported for it: a program that has set it up has loaded its API, and set a provider of
tracers. Whether it has is looked at once, when a cluster is made. Without, each call is in a block
that does nothing, and that is all.

Where propagators are those that OpenTelemetry has by itself, and there is neither a trace state nor
baggage, `traceparent` is written here: they take three times as long for the same.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, Final, Self, TypeAlias

from snowmelt.core.headers import Headers
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.calls import ItemRun
from snowmelt.protocols.queue.api.labels import unpack

API: Final = "opentelemetry.trace"
CARRIED: Final = "traceparent"
COUNT: Final = "messaging.batch.message_count"
USUAL: Final = frozenset({CARRIED, "tracestate", "baggage"})
"""What the usual propagators write."""
LINKS_MAX: Final = 128
"""So many links a span has at most, by OpenTelemetry's own default."""

Given: TypeAlias = Mapping[str, str | bytes] | None


class Traced:
    """Round what is done within a `with`; each put makes one, so it is no generator."""

    __slots__ = ("headers",)

    def __init__(self, headers: Given = None) -> None:
        self.headers = headers
        """Those that the items of a put are to have."""

    def link(self, parts: Iterable[ItemRun]) -> None:
        """Notes which puts brought what came."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        return None


class Tracing:
    """What is round each call of a connection: nothing, where a program has set up nothing."""

    def put(self, queue: str, headers: Any) -> Traced:
        """Round a put; `headers` of it are those that the items are to have."""
        del queue
        return NOTHING if headers is None else Traced(headers)

    def get(self, queue: str) -> Traced:
        """Round a get, which is then linked with the puts of what came."""
        del queue
        return NOTHING

    def settle(self, queue: str, word: str, held: Sized, where: Interval | None) -> Traced:
        """Round what becomes of these items, or of all that are held."""
        del queue, word, held, where
        return NOTHING

    def process(self, queue: str, item: Any) -> AbstractContextManager[object]:
        """Round a handler, whose own spans are children of this one."""
        del queue, item
        return NOTHING


NOTHING: Final = Traced()
UNTRACED: Final = Tracing()


def found() -> Tracing:
    """What makes spans, where the program has set up something that takes them.

    >>> found() is UNTRACED
    True
    """
    api: Any = sys.modules.get(API)
    if api is None:
        return UNTRACED
    provider = api.get_tracer_provider()
    if isinstance(provider, (api.ProxyTracerProvider, api.NoOpTracerProvider)):
        return UNTRACED
    return SpanTracing(api, import_module("opentelemetry.propagate"))


class SpanTracing(Tracing):
    """Makes the spans of one connection."""

    def __init__(self, api: Any, propagate: Any) -> None:
        self.api = api
        self._start = api.get_tracer("snowmelt").start_span
        self._propagate = propagate
        self._usual = frozenset(propagate.get_global_textmap().fields) == USUAL
        self._baggage = import_module("opentelemetry.baggage").get_all
        self._here = import_module("opentelemetry.context").get_current
        self._producer = api.SpanKind.PRODUCER
        self._names: dict[tuple[str, str], tuple[str, dict[str, str]]] = {}

    def put(self, queue: str, headers: Any) -> Traced:
        """Its context goes along in the headers."""
        here = self._here()  # looked up once: that takes as long as all the rest of it
        span = self._begin("put", "send", queue, self._producer, here)
        carried: dict[str, str | bytes] = {}
        if headers is not None:
            if not isinstance(headers, Mapping) or CARRIED in headers:
                return TracedSpan(self, span, headers)  # what no queue takes, or its own context
            carried.update(headers)
        own = span.get_span_context()
        if not self._usual or own.trace_state or not own.is_valid or (here and self._baggage(here)):
            self._propagate.inject(carried, self.api.set_span_in_context(span, here))
        else:
            numbers = own.trace_id, own.span_id, own.trace_flags
            carried[CARRIED] = "00-%032x-%016x-%02x" % numbers  # noqa: UP031 - quicker than the others
        return TracedSpan(self, span, carried)

    def get(self, queue: str) -> Traced:
        """By a client, that is."""
        return TracedSpan(self, self._begin("get", "receive", queue, self.api.SpanKind.CLIENT))

    def settle(self, queue: str, word: str, held: Sized, where: Interval | None) -> Traced:
        """With how many they are."""
        span = self._begin(word, "settle", queue, self.api.SpanKind.CLIENT)
        count = len(held) if where is None else where.size
        if count != 1:
            span.set_attribute(COUNT, count)
        return TracedSpan(self, span)

    @contextmanager
    def process(self, queue: str, item: Any) -> Iterator[None]:
        """A child of the put that brought the item."""
        known = self.context(item.headers)
        span = self._begin("process", "process", queue, self.api.SpanKind.CONSUMER, known)
        span.set_attribute("messaging.message.id", str(item.position))
        if known is not None:
            span.add_link(self.put_of(known))
        current = self.api.use_span(span, record_exception=True, set_status_on_exception=False)
        with TracedSpan(self, span), current:
            yield

    def context(self, headers: Headers) -> Any:
        """What the headers bring; None where they bring nothing."""
        if CARRIED not in headers:
            return None
        texts = {name: one for name, one in headers.items() if type(one) is str}
        return self._propagate.extract(texts)

    def put_of(self, context: Any) -> Any:
        """The context of the put that brought it."""
        return self.api.get_current_span(context).get_span_context()

    def _begin(self, word: str, kind: str, queue: str, role: Any, parent: Any = None) -> Any:
        names = self._names.get((word, queue))
        if names is None:
            attributes = {
                "messaging.system": "snowmelt",
                "messaging.operation.name": word,
                "messaging.operation.type": kind,
                "messaging.destination.name": queue,
            }
            names = self._names[word, queue] = f"{word} {queue}", attributes
        return self._start(names[0], parent, role, names[1])


class TracedSpan(Traced):
    """A span round it."""

    __slots__ = ("_span", "_tracing")

    def __init__(self, tracing: SpanTracing, span: Any, headers: Given = None) -> None:
        super().__init__(headers)
        self._tracing = tracing
        self._span = span

    def link(self, parts: Iterable[ItemRun]) -> None:
        """As far as their headers say it."""
        span, tracing = self._span, self._tracing
        if not span.is_recording():
            return
        count = 0
        puts: dict[str | bytes, Headers] = {}
        for part in parts:
            count += part.count
            labels = unpack(part.headers)
            for headers in (labels.common, *(labels.headers or ())):
                if headers and CARRIED in headers and len(puts) < LINKS_MAX:
                    puts[headers[CARRIED]] = headers
        if count != 1:
            span.set_attribute(COUNT, count)
        for headers in puts.values():
            span.add_link(tracing.put_of(tracing.context(headers)))

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            api = self._tracing.api
            self._span.set_attribute("error.type", type(error).__name__)
            self._span.set_status(api.Status(api.StatusCode.ERROR, str(error)))
        self._span.end()
