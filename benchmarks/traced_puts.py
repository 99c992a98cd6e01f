"""What spans of OpenTelemetry cost a put, as processor time, in turn with and without.

    python benchmarks/traced_puts.py [--nodes 1] [--rounds 15] [--puts 500] [--folder DIR]
        [--json FILE]

Nodes in processes of their own, and one client that puts items of 100 bytes, one after another.
With three nodes a queue has its default, three copies, of which two are safe before a put returns.
In each round each way puts as many, and who begins changes. Told is the processor time of client
and nodes together for a put, as the median of all rounds, and its ratio to that without a provider,
round by round: the median, and the half of the rounds around it.

    none        no provider is set
    header      none, and the program gives each put a `traceparent` of its own
    dropped     a provider whose sampler keeps no span
    hundredth   one that keeps one in a hundred
    kept        one that keeps all; they are handed to an exporter that does nothing
    bare        no provider is set for Snowmelt, and the program makes one bare span round each put:
                what OpenTelemetry's own code takes, with a sampler that keeps all
    bare off    the same, with a sampler that keeps none
    batches     the same, by `put_many` of a hundred items: one span
    no batches  the same without a provider
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Final

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler, TraceIdRatioBased

import snowmelt
from snowmelt.cli.local import LocalCluster, end_on_sigterm

BODY: Final = b"." * 100
BATCH: Final = 100
GIVEN: Final = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
SAID: Final = {
    "messaging.system": "snowmelt",
    "messaging.operation.name": "put",
    "messaging.operation.type": "send",
    "messaging.destination.name": "orders",
}
SAMPLERS: Final[dict[str, Sampler | None]] = {
    "none": None,
    "header": None,
    "dropped": ALWAYS_OFF,
    "hundredth": TraceIdRatioBased(0.01),
    "kept": ALWAYS_ON,
    "bare": ALWAYS_ON,
    "bare off": ALWAYS_OFF,
    "batches": ALWAYS_ON,
    "no batches": None,
}
BESIDE: Final = {"batches": "no batches"}
"""With what a way is compared, if not with `none`."""


class Nowhere(SpanExporter):
    """Takes spans, and does nothing with them."""

    def export(self, spans: object) -> SpanExportResult:
        del spans
        return SpanExportResult.SUCCESS


def made(sampler: Sampler) -> TracerProvider:
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=1 << 16))
    return provider


@contextmanager
def provided(way: str, sampler: Sampler | None) -> Iterator[None]:
    """A program sets a provider once; this one has several, one after the other."""
    if sampler is None or way.startswith("bare"):
        yield
        return
    provider = made(sampler)
    before = trace._TRACER_PROVIDER  # noqa: SLF001
    trace._TRACER_PROVIDER = provider  # noqa: SLF001
    try:
        yield
    finally:
        trace._TRACER_PROVIDER = before  # noqa: SLF001


def puts_of(
    way: str, queue: snowmelt.Fifo, count: int, sampler: Sampler | None
) -> Callable[[], None]:
    headers = GIVEN if way == "header" else None
    tracer = made(sampler or ALWAYS_OFF).get_tracer("bare")

    def barely() -> None:
        for _ in range(count):
            span = tracer.start_span("put orders", None, trace.SpanKind.PRODUCER, SAID)
            queue.put(BODY)
            span.end()

    def singly() -> None:
        for _ in range(count):
            queue.put(BODY, headers=headers)

    def together() -> None:
        for _ in range(count // BATCH):
            queue.put_many([BODY] * BATCH)

    if way.startswith("bare"):
        return barely
    return together if "batches" in way else singly


def seconds_of(pids: list[int]) -> float:
    """Processor time of all threads of these processes, by the scheduler's own count."""
    tasks = [one for pid in pids for one in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((one / "schedstat").read_text().split()[0]) for one in tasks) / 1e9


def measured(url: str, pids: list[int], rounds: int, count: int) -> dict[str, list[float]]:
    """Microseconds a put, of each round."""
    doing: dict[str, Callable[[], None]] = {}
    for way, sampler in SAMPLERS.items():
        with provided(way, sampler):
            cluster = snowmelt.connect(url)
        doing[way] = puts_of(way, cluster.fifo(way.replace(" ", "-")), count, sampler)
        doing[way]()
    took: dict[str, list[float]] = {way: [] for way in doing}
    order = cycle(range(len(doing)))
    for _ in range(rounds):
        first = next(order)
        ways = list(doing)
        for way in (*ways[first:], *ways[:first]):
            began = time.process_time() + seconds_of(pids)
            doing[way]()
            took[way].append((time.process_time() + seconds_of(pids) - began) / count * 1e6)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(prog="traced_puts", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--puts", type=int, default=500, help="in each round, of each way")
    parser.add_argument("--folder", help="where the node's disk is to be")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.nodes < 1 or options.rounds < 2 or options.puts < BATCH:
        parser.error(f"--nodes: 1 or more; --rounds: 2 or more; --puts: {BATCH} or more")
    end_on_sigterm()
    with (
        TemporaryDirectory(dir=options.folder) as folder,
        LocalCluster(options.nodes, Path(folder) / "nodes") as nodes,
    ):
        nodes.start()
        pids = [one.pid for one in nodes.nodes]
        took = measured(nodes.url, pids, options.rounds, options.puts)
    for way, some in took.items():
        beside = took[BESIDE.get(way, "none")]
        ratios = [one / other for one, other in zip(some, beside, strict=True)]
        low, middle, high = quantiles(ratios, n=4)
        print(
            f"{way:11} {median(some):7.1f} µs a put, {middle:.3f} times ({low:.3f} to {high:.3f})"
        )
    if options.json:
        options.json.write_text(json.dumps(took))


if __name__ == "__main__":
    main()
