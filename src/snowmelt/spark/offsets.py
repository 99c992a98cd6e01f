"""A stream's offset, as it stands in a checkpoint: how far the group is, in each of its queues.

    {"v": 1, "group": "spark", "queues": {"raw": [lease, count]}}

Two numbers a queue, however many items a batch has: the queue itself remembers which ones they are.
A stream whose batches are to last so long has `"rows_a_core"` as well: see `batch_size.py`, rule 6.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from snowmelt.client.queue.group_steps import BEGINNING, Mark
from snowmelt.core.errors import BadOption

VERSION: Final = 1


class Offset(msgspec.Struct, frozen=True):
    """Marks by queue; a queue that is not there is at its beginning.

    >>> offset = Offset("spark", {"raw": Mark(7, 40)})
    >>> offset.told()
    {'v': 1, 'group': 'spark', 'queues': {'raw': [7, 40]}}
    >>> told(offset.told(), "spark") == offset, offset.mark("late") == BEGINNING
    (True, True)
    """

    group: str
    marks: dict[str, Mark] = {}
    rows_a_core: int = 0
    """How many rows for each core the next batch takes; 0 where nobody found out."""

    def mark(self, queue: str) -> Mark:
        """How far the group is in a queue."""
        return self.marks.get(queue, BEGINNING)

    def told(self) -> dict[str, Any]:
        """The text that Spark keeps in its checkpoint."""
        marks = {name: [mark.lease, mark.count] for name, mark in sorted(self.marks.items())}
        pace = {"rows_a_core": self.rows_a_core} if self.rows_a_core else {}
        return {"v": VERSION, "group": self.group, "queues": marks, **pace}


class _Told(msgspec.Struct, forbid_unknown_fields=True):
    v: int
    group: str
    queues: dict[str, tuple[int, int]]
    rows_a_core: int = 0


def told(given: Mapping[str, Any], group: str) -> Offset:
    """Reads what Spark kept; raises for the checkpoint of another group, or of something else."""
    try:
        read = msgspec.convert(given, _Told)
    except msgspec.ValidationError as error:
        text = f"an offset of this source, version {VERSION} ({error}); start a new checkpoint"
        raise BadOption("checkpoint", dict(given), text) from None
    if read.v != VERSION:
        raise BadOption("checkpoint", f"of version {read.v}", f"version {VERSION}")
    if read.group != group:
        allowed = (
            f"{read.group}, whose checkpoint this is; or another checkpointLocation for {group}"
        )
        raise BadOption("group", group, allowed)
    marks = {name: Mark(*mark) for name, mark in read.queues.items()}
    return Offset(group, marks, read.rows_a_core)
