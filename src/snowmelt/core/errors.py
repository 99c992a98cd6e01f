"""Every error a person can meet, on one page, by blame.

Two questions decide where an error stands. Whose fault is it: the caller's (`CallerError`), the
other side's (`PeerError`), the machine's underneath (`MachineError`), or nobody's, only the state
of things (`StateError`)? And is it definite: when `definite` is true the operation did not happen
and never will; when it is false it may yet have happened, and only asking again under the same
operation id can tell.

Bugs are not here: they are broken assertions and are never caught. `exit_code` is what a command
of the `snowmelt` program ends with; scripts may rely on it.
"""

import queue
from typing import Any, ClassVar, Final

from snowmelt.core.shown import without_secrets

SHOWN_MAX: Final = 200
URL_MAX: Final = 10_000
LEASE_ENDED: Final = "the lease ended"
"""Why a delivery failed of which nobody said anything."""


def in_short(value: object) -> str:
    """A value as a message shows it; of millions of characters the first are enough.

    >>> in_short("none"), len(in_short("x" * 10**6))
    ("'none'", 219)
    >>> in_short("snowmelt://my-token@here:4410")
    "'snowmelt://***@here:4410'"
    >>> in_short("snowmelt://" + "x" * 20_000)[-14:]
    '(20011 in all)'
    """
    if isinstance(value, str | bytes) and len(value) > SHOWN_MAX:
        return f"{_public(value)[:SHOWN_MAX]!r} ({len(value)} in all)"
    if isinstance(value, int) and value.bit_length() > 3 * SHOWN_MAX:
        return f"a whole number of {value.bit_length()} bits"  # Python writes no longer ones out
    name = type(value).__name__
    try:
        shown = repr(_public(value))
    except Exception as error:  # one that is nested too deep, or whose own code fails
        return f"<{name}, of which repr raised {type(error).__name__}>"
    return shown if len(shown) <= 2 * SHOWN_MAX else f"{shown[:SHOWN_MAX]}... ({name})"


def _public(value: Any) -> Any:
    """A URL without what may be a secret in it; anything else as it is."""
    if isinstance(value, str) and "://" in value:
        return without_secrets(value[:URL_MAX])
    return value


class SnowmeltError(Exception):
    """The root of all errors below.

    >>> try:
    ...     raise BadOption("--nodes", 0, "1 to 99")
    ... except SnowmeltError as error:
    ...     print(error, error.definite, error.exit_code)
    --nodes is 0; allowed: 1 to 99 True 2
    """

    definite: ClassVar[bool] = True
    exit_code: ClassVar[int] = 1


class CallerError(SnowmeltError):
    """What was asked for can't be had; asking again the same way will not help."""

    exit_code = 2


class BadOption(CallerError, ValueError):
    """An option or argument has a value outside what is allowed."""

    def __init__(self, option: str, value: object, allowed: str) -> None:
        super().__init__(f"{option} is {in_short(value)}; allowed: {allowed}")
        self.option = option
        self.value = value
        self.allowed = allowed

    def __reduce__(self) -> tuple[Any, ...]:
        """As what it was made of, else whoever it is sent to could not make it of its message."""
        return type(self), (self.option, self.value, self.allowed)


class BadHistory(CallerError, ValueError):
    """A line of a recorded history is no operation; the message names the line."""


class TooLarge(CallerError, ValueError):
    """A message is above the limit of the link it should travel on."""


class CodecError(CallerError, ValueError):
    """A value that a queue's codec can't write, or a body that it can't read; it names which."""


class NoSuchQueue(CallerError, LookupError):
    """There is no queue of this name."""

    exit_code = 9


class QueueDeleted(NoSuchQueue):
    """The queue was deleted since it was taken here. Taken again, it is the next of that name.

    Of what was asked and not answered before, it is not known whether it was done until then.
    """

    definite = False


class QueueMoved(QueueDeleted):
    """What was in the queue is in another now, which the message names: take that one.

    None of its name is made, by a first put or otherwise, until the name is freed by deleting it.
    """


class QueueExists(CallerError):
    """The queue is there, with other settings than those asked for."""


class WrongLoop(CallerError, RuntimeError):
    """What belongs to one event loop was used in another."""


class LeaseLost(CallerError):
    """The lease on these items is over: they may be with another by now, and will be done again."""


class BatonLost(CallerError):
    """The baton is no longer held: its lease was over, its node is gone, or it was given up.

    Another may hold it by now, with a larger fence.
    """


class GroupHeld(CallerError):
    """The group is past its beginning, and whoever asks does not know where it stands."""


class SequenceTooOld(CallerError):
    """Of a number so far below its producer's others it is not known whether it was put before.

    This call put nothing. It is so when the numbers have thousands of gaps; use ones that grow.
    """

    definite = False


class NotStaged(CallerError):
    """What should be published is not staged any more: its time was over, or it never was."""


class AlreadyPublished(CallerError):
    """The number was used for a publication of something else; nothing was put."""


class AccessDenied(CallerError):
    """The token, the certificate or the cluster's name was not accepted."""

    exit_code = 3


class OtherCluster(AccessDenied):
    """The node that was reached is of another cluster than this one knows; nothing was done."""


class NodeRefused(CallerError):
    """The cluster does not take this node, for a reason that waiting does not mend."""

    exit_code = 3


class StateError(SnowmeltError):
    """Nobody's fault: the operation does not fit the state things are in; later it may."""

    exit_code = 4


class Unavailable(StateError):
    """The node has no current view of the cluster, or is draining: it can't answer for it."""


class Empty(StateError, queue.Empty):
    """Nothing came into the queue in the time given."""

    exit_code = 8


class Full(StateError, queue.Full):
    """The queue is at its bound, and no room was made in the time given."""


class NotEmpty(StateError):
    """The queue has items, and was to be deleted only if it had none."""

    exit_code = 13


class NotGranted(StateError, TimeoutError):
    """The baton did not come in the time given; the wish for it was given up."""


class Unreachable(StateError):
    """No connection could be made to any of the addresses in the time given."""


class Closed(Unreachable):
    """Closed here, or another process' since a fork: asking again in the same way will not help."""


class OutcomeUnknown(SnowmeltError, TimeoutError):
    """The time ran out with no answer: the operation may have happened, or may yet happen."""

    definite = False
    exit_code = 5


class PeerError(SnowmeltError):
    """The other side broke the rules of the wire; the connection is closed, others are served."""

    exit_code = 6


class FrameError(PeerError):
    """Bytes that are no frame of this protocol, or a frame above the limit."""


class MessageError(PeerError):
    """A well-framed message that does not decode, or stands where it may not."""


class HandshakeError(PeerError):
    """The first words did not fit: another version, another protocol, silence."""


class MachineError(SnowmeltError):
    """The machine underneath failed."""

    exit_code = 7


class MachineCrashed(MachineError):
    """A bug in this program ended a node. What it had flushed is on its disk."""


class DiskFull(MachineError):
    """There is no room for a record; nothing of it was kept."""


class DataLost(MachineError):
    """Items that were promised can't be read from any copy."""


class StoreError(MachineError):
    """The store can't be opened or written."""


class StoreDamaged(StoreError):
    """A record's checksum does not fit its content or its place. It is never served."""


class StoreVersion(StoreError):
    """The store was written by a version that this one can't read."""


class StoreBusy(StoreError):
    """Another process holds this store."""
