"""A cluster goes from its coordinator's disk to etcd; all its nodes are stopped.

Rules:

1. The coordinator's folder is held, so it decides on nothing meanwhile. The other nodes are stopped
   too: what they were started with says who decides.
2. First the disk is marked: from then on no node starts on it to decide by itself. So whatever ends
   this program, a disk and etcd never decide both; it is run again, and goes on.
3. The prefix must have no cluster, and before the disk is marked nothing of one: what another move
   left that was cut off would be this cluster's. The leader's key is put under a lease, so nobody
   founds one there, and all that follows compares it, as a leader does (`membership.records`, rule
   12).
4. Homes and values of batons are put first, and in the last step the ledger with the cluster. So
   either etcd has a cluster under this prefix with all that it needs, or it has none.
5. The ledger's view has a number above the disk's. Homes are as they were, with the terms that were
   told: the next ones are above these. All else that a leader does about an older copy of a disk it
   does here (rules 6 and 19 of membership, 5 and 6 of the fifo's registry).
6. Then the ledger is taken from the disk, in one step; its marks stay, and say where to look.
"""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from secrets import randbits
from time import monotonic_ns, time_ns
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption, StateError, Unavailable
from snowmelt.core.instant import Instant
from snowmelt.core.node import Effect, Send, Started
from snowmelt.core.record import Change, Erase, Write, decoded
from snowmelt.protocols import etcd
from snowmelt.protocols.baton import values
from snowmelt.protocols.baton.calls import ETCD_VALUE_BYTES_MAX
from snowmelt.protocols.baton.fences import KEY as FENCES
from snowmelt.protocols.baton.fences import founded_anew, term_of
from snowmelt.protocols.baton.settings import TOPICS
from snowmelt.protocols.host import own_start, shared_key, shared_range
from snowmelt.protocols.membership import disk
from snowmelt.protocols.membership.disk import LEDGER, MOVED, kept, twice
from snowmelt.protocols.membership.records import (
    BATONS,
    CLUSTER,
    HOMES,
    HOMES_END,
    LEADER,
    Founded,
    LeaderRecord,
    Records,
)
from snowmelt.protocols.membership.records import LEDGER as LEDGER_RECORD
from snowmelt.protocols.membership.records import Change as Kept
from snowmelt.protocols.membership.view import Ledger, Surpass
from snowmelt.protocols.queue.controller.homes import FIRST_IN_ETCD, FLOOR, FLOOR_IN_ETCD
from snowmelt.protocols.queue.controller.rescuing import FIRST_TERM
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.runtime.etcd import EtcdPlace
from snowmelt.runtime.etcd.client import EtcdConnection
from snowmelt.runtime.folders import MEMBERSHIP, check_form
from snowmelt.store import Store
from snowmelt.store.stamp import read_stamp

TERMS_UNHEARD: Final = 1 << 10
"""No baton was handed on so many terms beyond what the root was told."""
LEASE_SECONDS: Final = 60
FIFO: Final = b"fifo/"
BATON: Final = b"baton/"


class Move(msgspec.Struct, frozen=True):
    """What is written into etcd, and from which folders it comes."""

    ledger: Ledger
    coordinator: LeaderRecord
    homes: dict[str, bytes]
    batons: dict[str, bytes]
    too_large: tuple[str, ...]
    """Batons whose values stay behind."""
    begun: bool
    """Whether the disk says that it was moved there already."""
    there: bool = False
    """Whether etcd has all of it."""


class Migration:
    """From one coordinator's folder to one prefix; used in a `with`.

    `carry` brings a request to etcd and its answer back; it is a line to `place` if none is given.
    """

    def __init__(
        self,
        data: Path,
        place: EtcdPlace,
        cluster: str,
        carry: Callable[[etcd.Request], etcd.Answer] | None = None,
    ) -> None:
        if not data.is_dir() or read_stamp(data) is None:
            raise BadOption("--data", str(data), "the coordinator's folder; this is no node's")
        self._place = place
        self._name = cluster
        self._data = data
        self._numbers = count(1)
        self._store = Store.open(data)
        self._line = EtcdConnection(place)
        self._carry = carry or self._line.carry

    def __enter__(self) -> "Migration":
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()
        self._store.close()

    @property
    def where(self) -> str:
        return self._place.url

    def plan(self) -> Move:
        """Reads the disk, and looks whether the prefix is free."""
        check_form(self._data, self._store)
        there = self._store.recover()
        own, fifo, baton = (
            own_start(prefix, there.records, there.damaged, 0)
            for prefix in (MEMBERSHIP, FIFO, BATON)
        )
        move = self._move(kept(own), fifo, baton)
        return msgspec.structs.replace(move, there=self._is_there(move))

    def carry_out(self, move: Move) -> None:
        # Rules 2 to 6.
        self._commit(twice(MOVED, self.where.encode()))
        if not move.there:
            self._fill(move)
        self._commit((Erase(LEDGER, LEDGER + b"\xff"),))

    # --- the disk ---------------------------------------------------------------------------------

    def _move(self, found: disk.StoredMembership, fifo: Started, baton: Started) -> Move:
        if not found.id or (found.ledger is None and not found.moved):
            raise StateError(f"{self._data} is not the folder of a node that decides on its disk")
        ledger = found.ledger
        if ledger is None or found.moved not in ("", self.where):
            how = "its nodes with --coordinator" if ledger is None else "the move again with it"
            raise StateError(f"etcd decides for this cluster already: start {how} {found.moved}")
        member = ledger.view.member(ledger.view.coordinator)
        if member is None or found.self is None:
            how = "start it once, without --coordinator, and stop it again"
            raise StateError(f"{found.id} has not begun to decide: {how}")
        leader = LeaderRecord(
            member.id, member.address, found.self.birth, found.self.start, randbits(63)
        )
        kept_values, too_large = of_batons(baton)
        return Move(
            ledger.after(Surpass(ledger.view.epoch)),
            leader,
            _homes(fifo),
            kept_values,
            too_large,
            begun=bool(found.moved),
        )

    def _commit(self, changes: tuple[Change, ...]) -> None:
        shared: list[Change] = []
        for one in changes:
            if isinstance(one, Write):
                shared.append(Write(shared_key(MEMBERSHIP, one.key), one.value))
            else:
                shared.append(Erase(*shared_range(MEMBERSHIP, one.start, one.stop)))
        (error,) = self._store.commit([shared])
        if error is not None:
            raise error

    # --- etcd -------------------------------------------------------------------------------------

    def _is_there(self, move: Move) -> bool:
        """Whether the prefix has this cluster; rule 3 if it has another."""
        rest = etcd.Read(BATONS, HOMES_END, rows_max=1)  # and of homes, which stand between them
        reads = etcd.Read(CLUSTER), etcd.Read(LEDGER_RECORD), etcd.Read(LEADER), rest
        answer = self._asked(etcd.Transact(next(self._numbers), (), reads))
        assert isinstance(answer, etcd.Transacted)
        rows = {row.key: row.value for part in answer.read for row in part}
        there = CLUSTER in rows
        if there:
            what = f"the record {CLUSTER!r} under {self.where}"
            founded: Founded = decoded(rows[CLUSTER], Founded, what)
            if founded.cluster != move.ledger.view.cluster or not move.begun:
                whose = f"belongs to the cluster {founded.name!r} already"
                raise StateError(f"the prefix {self.where} {whose}: give an empty one")
        elif LEDGER_RECORD in rows or (answer.read[-1] and not move.begun):
            raise StateError(f"the prefix {self.where} is not empty: give an empty one")
        if LEADER in rows and not self._cleared(rows[LEADER], move) and not there:
            raise StateError(f"somebody leads under {self.where}: give an empty prefix")
        return there

    def _cleared(self, value: bytes, move: Move) -> bool:
        """Takes away what an attempt left that was cut off; nobody else has this disk now."""
        own = move.coordinator
        what = f"the record {LEADER!r} under {self.where}"
        leader: LeaderRecord = decoded(value, LeaderRecord, what)
        mine = move.begun and (leader.node, leader.birth) == (own.node, own.birth)
        if mine:
            self._asked(
                etcd.Transact(
                    next(self._numbers),
                    (etcd.CompareValue(LEADER, value),),
                    (etcd.DeleteKey(LEADER),),
                )
            )
        return mine

    def _fill(self, move: Move) -> None:
        # Rules 3 and 4.
        granted = self._asked(etcd.LeaseGrant(next(self._numbers), LEASE_SECONDS))
        assert isinstance(granted, etcd.LeaseGranted)
        mine = msgspec.msgpack.encode(move.coordinator)
        nobody = (etcd.Unchanged(LEADER, 0),)
        stand = etcd.Transact(
            next(self._numbers), nobody, (etcd.PutKey(LEADER, mine, granted.lease),)
        )
        answer = self._asked(stand)
        assert isinstance(answer, etcd.Transacted)
        if not answer.succeeded:
            raise StateError(f"somebody leads under {self.where} by now: give an empty prefix")
        records = Records(mine, self._numbers)
        try:
            self._pump(records, records.read(_now()))
            self._keep(records, move)
        finally:
            gone = etcd.Transact(
                next(self._numbers), (etcd.CompareValue(LEADER, mine),), (etcd.DeleteKey(LEADER),)
            )
            self._carry(gone)

    def _keep(self, records: Records, move: Move) -> None:
        parts = {HOMES + name: value for name, value in move.homes.items()}
        parts |= {BATONS + name: value for name, value in move.batons.items()}
        changes = [Kept(at, key, parts[key]) for at, key in enumerate(sorted(parts))]
        self._pump(records, records.keep(changes, _now()))
        founded = Founded(move.ledger.view.cluster, self._name)
        last = [
            Kept(0, LEDGER_RECORD, move.ledger.written()),
            Kept(0, CLUSTER, msgspec.msgpack.encode(founded)),
        ]
        self._pump(records, records.keep(last, _now()))

    def _pump(self, records: Records, effects: list[Effect[object]]) -> None:
        """Carries what the records ask, until they ask no more."""
        while True:
            asked = next((one.message for one in effects if isinstance(one, Send)), None)
            if asked is None:
                return
            assert isinstance(asked, etcd.Transact)
            _, effects = records.answered(self._asked(asked), _now())
            if records.deposed:
                raise Unavailable(f"{self.where}: {records.deposed}; look who is at work there")

    def _asked(self, request: etcd.Request) -> etcd.Answer:
        answer = self._carry(request)
        if isinstance(answer, etcd.EtcdFailed):
            text = f"etcd does not do it ({answer.text}); nothing is lost, run it again"
            raise Unavailable(text)
        return answer


def _homes(fifo: Started) -> dict[str, bytes]:
    homes: dict[str, bytes] = {}
    for record in fifo.records:
        if record.key[:1] in (b"h", b"i"):
            what = f"where queue {record.key[1:].decode()!r} is at home"
            homes[decoded(record.value, Assignment, what).queue] = record.value
        elif record.key in FIRST_TERM:
            homes[FIRST_IN_ETCD] = record.value
        elif record.key in FLOOR:
            homes[FLOOR_IN_ETCD] = record.value
    for key in fifo.damaged:
        if key[:1] in (b"h", b"i") and key[1:].decode() not in homes:
            raise StateError(
                f"where queue {key[1:].decode()!r} is at home can't be read on this disk; found the"
                " cluster anew with snowmelt rescue first"
            )
    return homes


def of_batons(baton: Started) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Of batons and their fences, and whose values are too large; topics have none to keep."""
    newest, found = values.newest(baton), {}
    too_large = []
    for name in values.hurt(baton):
        if name not in newest:
            found[name] = b""  # it can't be read there either, until somebody gives it up
    for name, one in newest.items():
        if len(one.value) > ETCD_VALUE_BYTES_MAX:
            too_large.append(name)
        elif not name.startswith(TOPICS):
            found[name] = msgspec.msgpack.encode(one)
    term = term_of(baton.records)
    if term:
        found[FENCES.decode()] = msgspec.msgpack.encode(term + TERMS_UNHEARD)
    elif any(key.startswith(FENCES) for key in baton.damaged):
        found[FENCES.decode()] = founded_anew(time_ns())[0].value
    return found, tuple(too_large)


def _now() -> Instant:
    return Instant(monotonic_ns())
