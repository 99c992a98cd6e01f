"""The stream of a run: two queues, a group, a checkpoint, and what comes out of each item."""

import re
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from snowmelt_world.storms.setting import StormSetting

SOURCES: Final = ("in.a", "in.b")
"""The feeder fills now the one and now the other, so each is empty at times."""
SINK: Final = "out"
GROUP: Final = "chaos"
FEEDER: Final = "feeder"
DONE: Final = b"/done"
"""What the stream appends to each body."""
_DONE_BODY: Final = re.compile(rb"(\d{1,12})" + DONE)
BATCH: Final = 500
"""So many items the feeder puts at once."""
_TURN: Final = 6
"""So many of those go into the same queue, or as many as one micro-batch takes."""
WAITING_BATCHES: Final = 10
"""So many micro-batches of items wait in the source at most: the stream is never out of work."""


class StreamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `--set` can change."""

    rows: int = 2000
    """In a micro-batch at most."""
    after: float = 3.0
    """Seconds from the first micro-batch to a kill, at most."""
    older: bool = False
    """Whether it is shown older checkpoints, and two programs run on one group."""
    cluster: bool = False
    """Whether two workers of a standalone master do the work."""


class StreamLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What the program that is killed is given."""

    setting: StormSetting
    settings: StreamSettings
    master: str = ""
    """Of the cluster of Spark that does the work; empty for none, all in one Java."""
    logs: str = "checkpoint"
    """The name of the checkpoint in the folder of the run."""

    @property
    def url(self) -> str:
        return self.setting.url

    @property
    def folder(self) -> Path:
        return self.setting.folder

    @property
    def checkpoint(self) -> Path:
        """What the stream goes on from."""
        return self.folder / self.logs

    @property
    def kept(self) -> dict[str, Any]:
        """How both queues keep what is in them."""
        return {"replicas": 3, "durable_copies": 2}

    @property
    def bound(self) -> int:
        """How many items the source holds; the feeder waits for room then."""
        return WAITING_BATCHES * self.settings.rows


def source_of(load: StreamLoad, item: int) -> str:
    """Into which queue an item is put."""
    turn = max(_TURN * BATCH, load.settings.rows)
    return Random(f"{load.setting.seed}/{item // turn}").choice(SOURCES)


def body_of(item: int) -> bytes:
    """An item as the feeder puts it.

    >>> body_of(7)
    b'7'
    """
    return b"%d" % item


def item_of(body: bytes) -> int | None:
    """Which item came out; None for what the stream can't have made.

    >>> item_of(body_of(7) + DONE), item_of(body_of(7)), item_of(body_of(7) + DONE + DONE)
    (7, None, None)
    """
    found = _DONE_BODY.fullmatch(body)
    return int(found[1]) if found else None
