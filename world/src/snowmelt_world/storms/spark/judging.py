"""What came out of the stream in the end, and what the rounds found, beside what was promised."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from snowmelt.client.cluster import Cluster
from snowmelt.client.fifo.face import Fifo
from snowmelt.core.errors import Empty, SnowmeltError
from snowmelt_world.storms.family import Judgement
from snowmelt_world.storms.journals import read
from snowmelt_world.storms.spark.load import SINK, SOURCES, StreamLoad, item_of, source_of
from snowmelt_world.storms.spark.program import StreamProgram
from snowmelt_world.storms.spark.rounds import ALIKE, FITS, GOES_ON, StreamRound, counted

DRAIN_SECONDS: Final = 600.0
DRAINS: Final = 4
TAKE_SECONDS: Final = 300.0
TAKE_ITEMS: Final = 5000
NAMED: Final = 5
ROUNDS: Final = "rounds.jsonl"
FED: Final = "fed.json"
OUT: Final = "out.msgpack"
LOST: Final = "every item comes out"
DOUBLED: Final = "no item comes out twice"
FOREIGN: Final = "nothing comes out that nobody put"
ENDED: Final = "the source hears that all is done"


class CameOut(msgspec.Struct):
    """What was found when all was through."""

    bodies: list[bytes]
    """Of the sink, by position."""
    staged: int
    """Left over by attempts that nobody published; they are erased in time."""
    left: int
    """So many items the sources still have."""
    done: int
    """So many the sources have heard to be done with."""


def drain(load: StreamLoad) -> list[str]:
    """Runs the program until all is through; what went wrong with that."""
    said = ""
    for number in range(1, DRAINS + 1):
        with StreamProgram(load, "drain", load.folder / f"drain-{number}.log") as program:
            code = program.wait(DRAIN_SECONDS)
            if code == 0:
                return []
            said = f"{code}: {program.last_words()}" if code else f"{DRAIN_SECONDS:g} s passed"
    return [f"the drain did not end well in {DRAINS} runs; the last: {said}"]


def take(load: StreamLoad, cluster: Cluster) -> list[str]:
    """Takes all that came out, and writes it down; what went wrong with that."""
    sources, sink = [cluster.fifo(name).stats() for name in SOURCES], cluster.fifo(SINK)
    staged = sink.stats().staged
    bodies, wrong = taken(sink)
    left = sum(
        one.ready + one.assigned + one.leased + one.delayed + one.dead + one.lost for one in sources
    )
    found = CameOut(bodies, staged, left, sum(one.done for one in sources))
    (load.folder / OUT).write_bytes(msgspec.msgpack.encode(found))
    return wrong


def judge_stream(load: StreamLoad) -> Judgement:
    """All of it; items are known by their numbers."""
    rounds = list(read(load.folder / ROUNDS, StreamRound))
    put = msgspec.json.decode((load.folder / FED).read_bytes(), type=int)
    out = _out(load.folder)
    items = [item_of(body) for body in out.bodies]
    known = [item for item in items if item is not None and item < put]
    counts = Counter(known)
    lost = [item for item in range(put) if item not in counts]
    doubled = [item for item, times in counts.items() if times > 1]
    foreign = len(items) - len(known)
    ended = out.left == 0 and out.done == put
    ready = [made.ready for made in rounds if made.ready is not None]
    promises = {name: _in_rounds(rounds, name) for name in (FITS, ALIKE, GOES_ON)}
    return Judgement(
        operations=put,
        longest_wait_s=round(max(ready, default=0.0), 2),
        properties={
            LOST: [f"{len(lost)} items are lost, such as {lost[:NAMED]}"] if lost else [],
            DOUBLED: [f"{len(doubled)} items came twice, such as {doubled[:NAMED]}"]
            if doubled
            else [],
            FOREIGN: [f"{foreign} items are foreign"] if foreign else [],
            ENDED: [] if ended else [f"{out.left} are left there, {out.done} of {put} are done"],
            **promises,
        },
        counted={
            "items put": put,
            "items that came out": len(items),
            "out of order": sum(
                _falls([item for item in known if source_of(load, item) == name])
                for name in SOURCES
            ),
            "left staged": out.staged,
            "rounds": len(rounds),
            "micro-batches between the kills": sum(made.batches for made in rounds),
            "killed before the first of them": sum(made.batches == 0 for made in rounds),
            "from a start to the first of them (s)": round(sum(ready) / max(1, len(ready)), 1),
            "read again, with the same rows": sum(made.replayed is not None for made in rounds),
            "done again on purpose": sum(made.forgotten for made in rounds),
            "checkpoint put back": sum(made.put_back > 0 for made in rounds),
            "two programs at once": sum(made.twin != "" for made in rounds),
            "refused, and gone on from what was newer": sum(len(made.refused) for made in rounds),
            **counted(rounds),
        },
    )


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


def _out(folder: Path) -> CameOut:
    return msgspec.msgpack.decode((folder / OUT).read_bytes(), type=CameOut)


def _in_rounds(rounds: Sequence[StreamRound], promise: str) -> list[str]:
    return [text for made in rounds for name, text in made.broken if name == promise]


def _falls(items: list[int]) -> int:
    highest, falls = -1, 0
    for item in items:
        falls += item < highest
        highest = max(highest, item)
    return falls
