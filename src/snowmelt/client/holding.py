"""What a holder of a baton can know and set without asking a node: the same for both faces."""

from snowmelt.client.baton_steps import Hold
from snowmelt.client.staying import stays
from snowmelt.core.batch import Buffer


class Holding:
    """A hold as its holder sees it."""

    __reduce__ = stays("send its fence, by which others know who is the newest")

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    def __repr__(self) -> str:
        return f"Held({self.name!r}, fence={self.fence})"

    @property
    def name(self) -> str:
        """The baton's name."""
        return self._hold.name

    @property
    def fence(self) -> int:
        """A number larger than that of anyone who held this baton before."""
        return self._hold.fence

    @property
    def made(self) -> int:
        """The fence with which the baton was made.

        When it is another than the last holder saw, the baton was lost and made again since: its
        value is the newest that was left somewhere, and none older than the one last saved.
        """
        return self._hold.made

    @property
    def value(self) -> bytes:
        """What the last holder left. What you set goes on when you give the baton up.

        It travels from holder to holder; the root's disk gets it a little later, so a node that
        dies just then may take it along. `save` waits for that disk.
        """
        return self._hold.value

    @value.setter
    def value(self, value: Buffer) -> None:
        self._hold.set_value(value)

    @property
    def lost(self) -> bool:
        """Whether it was lost, as far as is known here."""
        self._hold.look()
        return self._hold.lost

    @property
    def seconds_left(self) -> float:
        """How long it is surely yours, if no node is heard of any more."""
        return self._hold.seconds_left

    def check(self) -> None:
        """Raises `BatonLost` when it is not yours any more."""
        self._hold.check()
