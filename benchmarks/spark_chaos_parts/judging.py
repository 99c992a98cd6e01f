"""The end of a run: what is left is put through, and all that came out is counted by item."""

import time
from collections import Counter

import msgspec
from benchmarks.spark_chaos_parts.plan import SINK, SOURCES, Plan, item_of, source_of
from benchmarks.spark_chaos_parts.program import Program

from snowmelt.client.cluster import Cluster
from snowmelt.client.fifo.face import Fifo
from snowmelt.core.errors import Empty, SnowmeltError
from snowmelt.protocols.queue.calls import QueueStatus

DRAIN_SECONDS = 600.0
DRAINS = 4
TAKE_SECONDS = 300.0
TAKE_ITEMS = 5000
NAMED = 5


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What was promised and counted."""

    put: int
    came_out: int
    lost: int
    doubled: int
    foreign: int
    """What nobody put, or what the stream can't have made of anything."""
    out_of_order: int
    """Items that came after one of their queue with a higher number; told, not promised."""
    staged: int
    """Left over by attempts that nobody published; they are erased in time."""
    broken: list[str]


def drain(plan: Plan) -> list[str]:
    """Runs the program until all is through; what went wrong with that."""
    said = ""
    for number in range(1, DRAINS + 1):
        with Program(plan, "drain", plan.folder / f"drain-{number}.log") as program:
            code = program.wait(DRAIN_SECONDS)
            if code == 0:
                return []
            said = f"{code}: {program.last_words()}" if code else f"{DRAIN_SECONDS:g} s passed"
    return [f"the drain did not end well in {DRAINS} runs; the last: {said}"]


def judge(plan: Plan, cluster: Cluster, put: int) -> Judgement:
    """Takes all that came out, and looks at what is left on both sides."""
    sources, sink = [cluster.fifo(name).stats() for name in SOURCES], cluster.fifo(SINK)
    staged = sink.stats().staged
    bodies, broken = taken(sink)
    items = [item_of(body) for body in bodies]
    known = [item for item in items if item is not None and item < put]
    counts = Counter(known)
    lost = [item for item in range(put) if item not in counts]
    doubled = [item for item, times in counts.items() if times > 1]
    foreign = len(items) - len(known)
    return Judgement(
        put=put,
        came_out=len(items),
        lost=len(lost),
        doubled=len(doubled),
        foreign=foreign,
        out_of_order=sum(
            _falls([item for item in known if source_of(plan, item) == name]) for name in SOURCES
        ),
        staged=staged,
        broken=[
            *broken,
            *([f"{len(lost)} items are lost, such as {lost[:NAMED]}"] if lost else []),
            *([f"{len(doubled)} items are doubled, such as {doubled[:NAMED]}"] if doubled else []),
            *([f"{foreign} items are foreign"] if foreign else []),
            *_left(sources, put),
        ],
    )


def _left(sources: list[QueueStatus], put: int) -> list[str]:
    """What the sources must not have any more."""
    left = sum(
        one.ready + one.assigned + one.leased + one.delayed + one.dead + one.lost for one in sources
    )
    ended = left == 0 and sum(one.done for one in sources) == put
    return [] if ended else [f"the sources have not ended: {sources}"]


def taken(queue: Fifo) -> tuple[list[bytes], list[str]]:
    """All bodies of a queue, by position, each once however often it was delivered."""
    found: dict[int, bytes] = {}
    end, wrong = time.monotonic() + TAKE_SECONDS, ""
    while time.monotonic() < end:
        try:
            items = queue.get_many(TAKE_ITEMS, timeout=1.0)
            found |= {item.position: item.body for item in items}
            items.ack()
        except Empty:
            stats = queue.stats()
            if not (stats.ready or stats.leased):
                return [found[position] for position in sorted(found)], []
            wrong = f"{stats}"
        except SnowmeltError as error:
            wrong = f"{type(error).__name__}: {error}"
    return list(found.values()), [f"the sink was not empty in {TAKE_SECONDS:g} s: {wrong}"]


def _falls(items: list[int]) -> int:
    highest, falls = -1, 0
    for item in items:
        falls += item < highest
        highest = max(highest, item)
    return falls
