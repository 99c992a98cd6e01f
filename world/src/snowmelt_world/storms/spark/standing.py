"""Where the stream stands between two runs: its checkpoint beside what the queues say.

The stream makes one item of each, so every count is known. With N the last batch in the offset log
and M the last in the commit log, the sink has the items up to M, or those up to N when the driver
was killed between publishing a batch and writing down that it had; never any other number.
"""

import time
from pathlib import Path
from typing import Final

import msgspec

from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import SnowmeltError
from snowmelt_world.storms.spark.load import GROUP, SINK, SOURCES, StreamLoad

SETTLE_SECONDS: Final = 60.0
PAUSE: Final = 0.1


class StreamStanding(msgspec.Struct, frozen=True, kw_only=True):
    """How far everything is, in items."""

    planned: int
    """Up to the last batch in the offset log."""
    committed: int
    """Up to the last batch in the commit log."""
    batch: int
    """The last one in the offset log; -1 for none."""
    given: int
    """So many the source gave to the group."""
    done: int
    """So many the source has heard to be done with."""
    published: int
    """So many are in the sink."""

    @property
    def exact(self) -> bool:
        """Whether these can stand side by side."""
        return self.published in (self.committed, self.planned) and (
            self.done <= self.committed <= self.planned <= self.given
        )

    @property
    def moment(self) -> str:
        """In the middle of what the stream was stopped."""
        if self.planned > self.committed:
            return "published" if self.published == self.planned else "planned"
        if self.given > self.planned:
            return "assigned"
        return "unacknowledged" if self.done < self.committed else "idle"

    @property
    def may_forget(self) -> bool:
        """Whether the last batch is done with, and the source does not know it yet."""
        return self.planned == self.committed and self.done < self.committed

    @property
    def may_replay(self) -> bool:
        """Whether the last batch in the offset log is in the sink, and can still be read again."""
        return self.published == self.planned and self.done < self.planned


def standing(load: StreamLoad, cluster: Cluster) -> StreamStanding:
    """Looks until all is exact, or for a minute: what was on its way may still arrive."""
    end = time.monotonic() + SETTLE_SECONDS
    while True:
        try:
            found = _look(load.checkpoint, cluster)
        except SnowmeltError:
            if time.monotonic() > end:
                raise
        else:
            if found.exact or time.monotonic() > end:
                return found
        time.sleep(PAUSE)


def forget(load: StreamLoad, log: str, batch: int) -> None:
    """Takes a batch out of one of Spark's logs, as if it had never been written there."""
    for name in (f"{batch}", f".{batch}.crc", f"{batch}.crc"):
        (load.checkpoint / log / name).unlink(missing_ok=True)


def planned(load: StreamLoad) -> tuple[int, int]:
    """How many items, and which batch, are the last in the offset log."""
    batch = _last(load.checkpoint / "offsets")
    return _count(load.checkpoint, batch), batch


def _look(checkpoint: Path, cluster: Cluster) -> StreamStanding:
    planned = _last(checkpoint / "offsets")
    # The end of one log may be lost without that of the other.
    committed = min(planned, _last(checkpoint / "commits"))
    sink = cluster.fifo(SINK).stats()
    groups = [one for name in SOURCES for one in cluster.fifo(name).groups() if one.name == GROUP]
    return StreamStanding(
        planned=_count(checkpoint, planned),
        committed=_count(checkpoint, committed),
        batch=planned,
        given=sum(group.given for group in groups),
        done=sum(group.done for group in groups),
        published=sink.ready,
    )


def _last(folder: Path) -> int:
    names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def _count(checkpoint: Path, batch: int) -> int:
    if batch < 0:
        return 0
    offset = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
    told = msgspec.json.decode(offset)
    return sum(int(count) for _, count in told["queues"].values())
