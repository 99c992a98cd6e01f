"""What is to be written, for all copies of a node: one write at a time.

1. Whatever comes while a write is under way is the next one: so one flush serves all who came in
   the meantime.
2. Of a write that finds no room each queue is tried alone, and then again after a while, before
   what came later for that queue; others go on. A body that is erased before there was room for it
   is not written. So what shrinks a queue needs no more room than its records. What found no
   room may be given up, too (`copy.py`, rule 6).
3. What may linger waits so long for company, unless there is much of it. Whoever reads a body that
   is not flushed yet, for that or any other reason, is given it from here: it is not lost.
4. Bodies that are to take less are written alone, and not at all where something finds no room: it
   may erase them, and comes later. What waits already, or is written before, erases such a body for
   good, or has it anew: they were read without it.
"""

from collections.abc import Iterable
from itertools import chain
from operator import itemgetter
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.core.node import Persist
from snowmelt.core.record import BULK, Change, Erase, Write
from snowmelt.protocols.queue.api.settings import LINGER_LONGEST
from snowmelt.protocols.queue.messages.words import Flush, Thinned
from snowmelt.protocols.queue.outbox import merged

FIRST_TICKET: Final = 1 << 40
"""Those of the outbox are below."""
AGAIN_AFTER: Final = milliseconds(1000)
LINGERING_BYTES: Final = 32 << 20
"""So much of bodies lingers at most, and so much of one queue waits for room."""
NOW: Final = Duration(0)

Job = tuple[str, tuple[Change, ...], Flush]
"""What is to be written for a queue, and what for."""
_CHANGES: Final = itemgetter(1)


class Stuck(msgspec.Struct):
    """What found no room, of one queue, and what came behind it (rule 2)."""

    again: Instant
    """When it is tried once more."""
    jobs: list[Job] = []
    bodies: dict[bytes, int] = {}
    """The keys of those that are in it, and in which job."""
    size: int = 0
    """How many bytes these have."""

    def add(self, job: Job) -> list[bytes]:
        """One more; which bodies need not be written any more."""
        gone: list[bytes] = []
        for change in job[1]:
            if type(change) is Write and change.key[:1] == BULK:
                if change.key in self.bodies:  # it comes again
                    self._leave_out(change.key)
                self.bodies[change.key] = len(self.jobs)
                self.size += len(change.value)
        self.jobs.append(job)
        for change in job[1] if self.bodies else ():
            if type(change) is Erase and change.start[:1] == BULK:
                gone += [key for key in self.bodies if change.start <= key < change.stop]
        for key in gone:
            self._leave_out(key)
        if gone and not self.bodies:
            self.again = Instant(0)
        return gone

    def _leave_out(self, key: bytes) -> None:
        at = self.bodies.pop(key)
        queue, changes, flush = self.jobs[at]
        left = tuple([one for one in changes if type(one) is not Write or one.key != key])
        self.size -= sum(
            [len(one.value) for one in changes if type(one) is Write and one.key == key]
        )
        self.jobs[at] = queue, left, flush


class WriteQueue:
    """What waits to be written, and what is being written."""

    def __init__(self) -> None:
        self.full = ""
        """Why something found no room and waits; empty when nothing does."""
        self.writing: list[Job] | None = None
        """What is being written; None while the disk is free."""
        self.writes = 0
        """How many were flushed."""
        self._ticket = FIRST_TICKET
        self._jobs: list[Job] = []
        self._stuck: dict[str, Stuck] = {}
        self._linger = LINGER_LONGEST
        """The shortest of what came since it was looked at last."""
        self._due: Instant | None = None
        """When the next write must begin; None while that is not known."""
        self._bodies: dict[bytes, bytes] = {}
        """What lingers (rule 3), and how many bytes it has."""
        self._bytes = 0
        self._thin: dict[bytes, tuple[str, bytes]] = {}
        """Of which queue, and what is to be in them; nothing while that is not known (rule 4)."""

    @property
    def crowded(self) -> bool:
        """Whether no more may linger (rule 3). On a full disk all may: no more puts come."""
        return self._bytes > LINGERING_BYTES and not self._stuck

    def write(
        self, queue: str, changes: tuple[Change, ...], flush: Flush, linger: Duration = NOW
    ) -> None:
        if linger:
            bodies = [one for one in changes if type(one) is Write and one.key[:1] == BULK]
            self._bodies.update([(one.key, one.value) for one in bodies])
            self._bytes += sum([len(one.value) for one in bodies])
        if self._thin:
            self._leave_thin(changes)
        if self._stuck and queue in self._stuck:
            self._join(self._stuck[queue], (queue, changes, flush))
            return
        self._jobs.append((queue, changes, flush))
        self._linger = linger if linger < self._linger else self._linger

    def _join(self, stuck: Stuck, job: Job) -> None:
        for key in stuck.add(job):
            self._forget(key)

    def overflows(self, queue: str) -> bool:
        """Whether so much of a queue found no room that no more is kept in memory for it."""
        stuck = self._stuck.get(queue)
        return stuck is not None and stuck.size > LINGERING_BYTES

    def has_stuck(self, queue: str) -> bool:
        """Whether something of a queue found no room, and waits."""
        return queue in self._stuck

    def give_up(self, queue: str) -> None:
        """That is not written any more."""
        del self._stuck[queue]
        if not self._stuck:
            self.full = ""

    def _forget(self, key: bytes) -> None:
        self._bytes -= len(self._bodies.pop(key, b""))

    def waiting(self, keys: set[bytes]) -> dict[bytes, bytes]:
        """Those of some bodies that are not flushed yet (rule 3)."""
        there = {key: self._bodies[key] for key in keys if key in self._bodies}
        if len(there) == len(keys):
            return there
        stuck = [job for one in self._stuck.values() for job in one.jobs]
        for _, changes, _ in (*stuck, *(self.writing or ()), *self._jobs):
            for one in changes:
                if type(one) is Write and one.key in keys:
                    there[one.key] = one.value
        return there

    # --- what is to take less ---------------------------------------------------------------------

    @property
    def is_thinning(self) -> bool:
        """Whether some are not written yet."""
        return len(self._thin) > 0

    def thins(self, queue: str, keys: Iterable[bytes]) -> None:
        """These bodies are being read, to be written anew (rule 4)."""
        if self._stuck:
            return
        self._thin.update(dict.fromkeys(keys, (queue, b"")))
        for _, changes, _ in self._jobs:
            self._leave_thin(changes)

    def thin(self, key: bytes, value: bytes) -> None:
        """This is to be in it; nothing for what is to stay as it is."""
        queue, _ = self._thin.pop(key, ("", b""))
        if queue and value:
            self._thin[key] = queue, value

    def _leave_thin(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            if type(change) is Write:
                self._thin.pop(change.key, None)
            elif type(change) is Erase:
                gone = [key for key in self._thin if change.start <= key < change.stop]
                for key in gone:
                    del self._thin[key]

    def _thinner(self) -> list[Job]:
        ready = {key: of for key, of in self._thin.items() if of[1]}
        for key in ready:
            del self._thin[key]
        return [(queue, (Write(key, body),), Thinned()) for key, (queue, body) in ready.items()]

    # --- one write at a time ----------------------------------------------------------------------

    def begin(self, now: Instant) -> Persist | Instant | None:
        """The next write; or when it is to begin, or to be looked for again."""
        if self._jobs:
            due = later(now, self._linger)
            self._due = due if self._due is None else min(self._due, due)
            self._linger = LINGER_LONGEST
        if self.writing is not None or (self._due is None and not (self._stuck or self._thin)):
            return None
        jobs = self._next(now)
        if not jobs:
            again = [one.again for one in self._stuck.values()]
            return min(again if self._due is None else [self._due, *again], default=None)
        changes = list(chain.from_iterable(map(_CHANGES, jobs)))
        self.writing = jobs
        self._ticket += 1
        return Persist(self._ticket, merged(changes) if self._bodies else tuple(changes))

    def _next(self, now: Instant) -> list[Job]:
        if self._thin and (thinner := self._thinner()):
            return thinner
        for queue, stuck in self._stuck.items() if self._stuck else ():
            if stuck.again <= now:
                return self._stuck.pop(queue).jobs
        if self._due is None or (now < self._due and not self.crowded):
            return []
        jobs, self._jobs, self._due = self._jobs, [], None
        return jobs

    def written(self) -> list[Job]:
        """What was being written is flushed."""
        assert self.writing is not None
        jobs, self.writing = self.writing, None
        self.writes += 1
        if not self._stuck:
            self.full = ""
        for _, changes, _ in jobs if self._bodies else ():
            for change in changes:
                if type(change) is Write:
                    self._forget(change.key)
        return jobs

    def failed(self, reason: str, now: Instant) -> list[Job]:
        """It found no room, and left no trace; what it was. It is tried again (rule 2)."""
        assert self.writing is not None
        jobs, self.writing = self.writing, None
        self._thin.clear()
        if type(jobs[0][2]) is Thinned:
            return []
        self.full = reason
        queues = dict.fromkeys([queue for queue, _, _ in jobs])
        again = now if len(queues) > 1 else later(now, AGAIN_AFTER)
        behind = [job for job in self._jobs if job[0] in queues]
        self._jobs = [job for job in self._jobs if job[0] not in queues]
        for job in (*jobs, *behind):
            if job[0] not in self._stuck:
                self._stuck[job[0]] = Stuck(again)
            self._join(self._stuck[job[0]], job)
        if not self._jobs:
            self._due = None
        return jobs
