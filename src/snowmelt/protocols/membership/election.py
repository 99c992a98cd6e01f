"""Who leads, where etcd decides: looking, standing, and being sure of it for a while.

Rules, which go on from those of `records.py`:

14. A node that is content, heard by who leads, asks etcd nothing. One that is not looks who leads,
    at most every so often, and speaks to that one; if nobody does, it stands for election: it takes
    a lease, and puts the leader's key under it if there is still none. So any node can lead, and at
    rest nobody but the leader says a word to etcd.
15. A leader refreshes its lease four times within it, and is *sure* until four fifths of it have
    passed since it sent what was answered last. A lease counts for what was asked, though etcd
    grants longer ones where its own least is longer: who comes next counts so, too. Unsure, it
    answers no member, and looks anew: whoever leads next finds no member that this one accepted
    later, itself among them (25), unless a clock runs wild. Rule 12 keeps two from deciding.
16. What it can't know, whether a lost word of its own put the key, it need not. A key that holds an
    earlier lead of this node, or one of its disk's, is taken away by comparing it, and it stands
    anew under another value. So is one that can't be read: no leader wrote it. Whoever led before
    learns that at its next change, or from the view of who comes next.
"""

from collections.abc import Iterator
from enum import Enum
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.errors import StoreDamaged
from snowmelt.core.instant import SECOND, START, Duration, Instant, later, milliseconds
from snowmelt.core.node import Effect, Note, Send
from snowmelt.core.record import decoded
from snowmelt.protocols import etcd
from snowmelt.protocols.membership.records import ANSWER, CLUSTER, LEADER, Founded, LeaderRecord
from snowmelt.protocols.membership.settings import MembershipSettings

Effects = list[Effect[object]]

REFRESHES_KEPT: Final = 16
LOOKS_APART: Final = milliseconds(250)


class ElectionStage(Enum):
    """Where this node stands.

    resting -> looking -> (nobody leads) taking a lease -> standing -> elected; a key of its own
    that it knows nothing of: clearing; of who seems to be dead: ending; whatever else: resting.
    """

    RESTING = "resting"
    LOOKING = "looking"
    CLEARING = "clearing"
    ENDING = "ending"
    TAKING = "taking a lease"
    STANDING = "standing"
    ELECTED = "elected"


class ElectionState(msgspec.Struct, frozen=True):
    """What a look brought: whose the prefix is, and who leads; None where there is nothing."""

    founded: Founded | None
    leader: LeaderRecord | None
    value: bytes = b""
    """The value of the leader's key."""
    unread: tuple[str, ...] = ()
    """The records that can't be read."""


class Election:
    def __init__(
        self, settings: MembershipSettings, chance: Random, numbers: Iterator[int]
    ) -> None:
        self.step = ElectionStage.RESTING
        self.mine = b""
        """The value of the leader's key that is, or was to be, this node's."""
        self._settings = settings
        self._chance = chance
        self._numbers = numbers
        self._asked: etcd.Request | None = None
        self._asked_at: Instant = START
        self._look_due: Instant = START
        self._lease = 0
        self._length = Duration(settings.lead_seconds * SECOND)
        self.since: Instant = START
        """When it was told that it is elected."""
        self.sure_until: Instant = START
        """Rule 15."""
        self._refresh_due: Instant = START
        self._refreshes: dict[int, Instant] = {}

    def sure(self, now: Instant) -> bool:
        # Rule 15.
        return self.step is ElectionStage.ELECTED and now < self.sure_until

    def due(self, now: Instant) -> Instant:
        """When to be asked again whether there is something to do."""
        if self.step is ElectionStage.ELECTED:
            return min(self._refresh_due, self.sure_until)
        answer_due = later(self._asked_at, ANSWER)
        if self.step is ElectionStage.RESTING or answer_due <= now:
            return max(self._look_due, later(now, self._pause))
        return answer_due

    @property
    def _pause(self) -> Duration:
        return max(LOOKS_APART, Duration(self._settings.interval // 3))

    @property
    def others_sure_until(self) -> Instant:
        """Rule 26: so long who led before may be sure of its lead, and accept members.

        Its last refresh came before this node's election.
        """
        return later(self.since, sureness(self._length))

    # --- time -------------------------------------------------------------------------------------

    def look(self, now: Instant) -> Effects:
        """Rule 14: who leads; not more often than there can be news."""
        waits = (
            self.step not in (ElectionStage.RESTING, ElectionStage.ELECTED)
            and later(self._asked_at, ANSWER) > now
        )
        if self.step is ElectionStage.ELECTED or waits or now < self._look_due:
            return []
        jitter = self._chance.randrange(self._pause)
        self._look_due = later(now, Duration(self._pause + jitter))
        nobody = (etcd.Unchanged(LEADER, 0),)
        read = etcd.Read(LEADER), etcd.Read(CLUSTER)
        return self._ask(
            ElectionStage.LOOKING, etcd.Transact(next(self._numbers), nobody, read, read), now
        )

    def refresh(self, now: Instant) -> Effects:
        # Rule 15.
        if self.step is not ElectionStage.ELECTED or now < self._refresh_due:
            return []
        self._refresh_due = later(now, Duration(self._length // 4))
        number = next(self._numbers)
        self._refreshes[number] = now
        while len(self._refreshes) > REFRESHES_KEPT:
            del self._refreshes[next(iter(self._refreshes))]
        return [Send(etcd.ETCD, etcd.Refresh(number, self._lease))]

    def stand(self, now: Instant) -> Effects:
        """Nobody leads: this node would."""
        return self._ask(
            ElectionStage.TAKING,
            etcd.LeaseGrant(next(self._numbers), self._settings.lead_seconds),
            now,
        )

    def clear(self, value: bytes, now: Instant) -> Effects:
        # Rule 16.
        return self._ask(ElectionStage.CLEARING, self._without(value), now)

    def end(self, leader: LeaderRecord, now: Instant) -> Effects:
        """Rule 28: who leads seems to be dead."""
        return self._ask(ElectionStage.ENDING, etcd.Revoke(next(self._numbers), leader.lease), now)

    def rest(self, now: Instant) -> None:
        """What is there can't be read: it is looked at again, but not without a pause."""
        self._look_due = later(now, ANSWER)

    def hurry(self) -> None:
        """Rule 28: there may be news."""
        self._look_due = START

    def step_down(self) -> Effects:
        """Leads no more, if it did; the next need not wait for the lease's end."""
        led = self.step is ElectionStage.ELECTED
        self.step, self._asked, self._look_due = ElectionStage.RESTING, None, START
        self._refreshes.clear()
        return [Send(etcd.ETCD, self._without(self.mine))] if led else []

    # --- answers ----------------------------------------------------------------------------------

    def answered(
        self, answer: etcd.Answer, leader: LeaderRecord, now: Instant
    ) -> tuple[ElectionState | None, Effects]:
        """Takes an answer; what a look brought is for whoever asked for it.

        `leader` is what this node would put: its nonce is drawn here.
        """
        if answer.number in self._refreshes:
            return None, self._refreshed(answer)
        if self._asked is None or answer.number != self._asked.number:
            return None, []
        self._asked = None
        match self.step, answer:
            case ElectionStage.LOOKING, etcd.Transacted(read=read):
                self.step = ElectionStage.RESTING
                return _found(read), []
            case ElectionStage.TAKING, etcd.LeaseGranted(_, lease):
                return None, self._put(lease, leader, now)
            case ElectionStage.STANDING, etcd.Transacted(succeeded=True):
                self.step, self.since = ElectionStage.ELECTED, now
                self._refresh_due = later(now, Duration(self._length // 4))
                return None, [Note("nobody led -> this node does")]
            case ElectionStage.ENDING, etcd.Revoked() | etcd.EtcdFailed(
                trouble=etcd.Trouble.NO_LEASE
            ):
                return None, self.stand(now)
            case ElectionStage.CLEARING, etcd.Transacted():
                self._look_due = now
        self.step = ElectionStage.RESTING
        if isinstance(answer, etcd.EtcdFailed):
            return None, [Note(f"etcd: {answer.text} -> asked again")]
        return None, []

    def _refreshed(self, answer: etcd.Answer) -> Effects:
        sent = self._refreshes.pop(answer.number)
        if self.step is not ElectionStage.ELECTED or not isinstance(answer, etcd.Refreshed):
            return []
        if not answer.seconds:
            self.sure_until = START
            return [Note("the lease in etcd has ended")]
        self.sure_until = max(self.sure_until, later(sent, sureness(self._length)))
        return []

    def _put(self, lease: int, leader: LeaderRecord, now: Instant) -> Effects:
        self._lease = lease
        # Its time began somewhere between asking and now.
        self.sure_until = later(self._asked_at, sureness(self._length))
        nonce = self._chance.getrandbits(63)
        self.mine = msgspec.msgpack.encode(
            msgspec.structs.replace(leader, nonce=nonce, lease=lease)
        )
        put = etcd.PutKey(LEADER, self.mine, lease)
        asked = etcd.Transact(next(self._numbers), (etcd.Unchanged(LEADER, 0),), (put,))
        return self._ask(ElectionStage.STANDING, asked, now)

    def _without(self, value: bytes) -> etcd.Transact:
        return etcd.Transact(
            next(self._numbers), (etcd.CompareValue(LEADER, value),), (etcd.DeleteKey(LEADER),)
        )

    def _ask(self, step: ElectionStage, request: etcd.Request, now: Instant) -> Effects:
        self.step, self._asked, self._asked_at = step, request, now
        return [Send(etcd.ETCD, request)]


def sureness(length: Duration) -> Duration:
    """How long who refreshed a lease of this length is sure of it (rule 15)."""
    return Duration(length * 4 // 5)


def _found(read: tuple[tuple[etcd.Row, ...], ...]) -> ElectionState:
    rows = {row.key: row.value for rows in read for row in rows}
    found, unread = dict[str, Any](), list[str]()
    for key, kind in ((CLUSTER, Founded), (LEADER, LeaderRecord)):
        try:
            found[key] = decoded(rows[key], kind) if key in rows else None
        except StoreDamaged:
            unread.append(key)
    value = rows.get(LEADER, b"")
    return ElectionState(found.get(CLUSTER), found.get(LEADER), value, tuple(unread))
