"""What became of an element since it was put."""

from typing import Final

import msgspec

from snowmelt.core.instant import Duration
from snowmelt.core.names import OperationId
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.messages import Mark
from snowmelt.protocols.priority.settings import State


class Standing(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of an element (rule 2); see `messages.Mark`, which says it of several."""

    epoch: int
    turn: int
    state: int
    token: int = 0
    operation: OperationId | None = None
    time: Duration = Duration(0)
    due: int = 0
    failures: int = 0
    reason: str = ""

    @property
    def version(self) -> tuple[int, int]:
        """The later one counts."""
        return self.epoch, self.turn

    def after(self, was: "Standing", epoch: int) -> "Standing":
        """The same, said in this view, a turn after what it was before."""
        return msgspec.structs.replace(self, epoch=epoch, turn=was.turn + 1)


NEW: Final = Standing(0, 0, State.FREE)
"""Of an element of which nothing has been said."""


ENDED: Final = Standing(0, 0, State.GONE)
"""Of what is gone, in a bundle."""


def standing_of(mark: Mark) -> Standing:
    return Standing(
        mark.epoch, mark.turn, mark.state, mark.token, mark.operation, mark.time, mark.due,
        mark.failures, mark.reason,
    )  # fmt: skip


def marked(shares: Shares, standing: Standing) -> Mark:
    return Mark(
        shares, standing.epoch, standing.turn, standing.state, standing.token, standing.operation,
        standing.time, standing.due, standing.failures, standing.reason,
    )  # fmt: skip
