# Made of groups_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""A group of a priority queue: items for good, most urgent first, told until passed; blocking.

What a group is given is a row of *batches*. Each has a note, in a fifo beside the queue that is
named `QUEUE.GROUP`: the token of a lease, and where what it holds stands. The group reads its notes
as any group reads a fifo, so it has a fifo's marks, and a fifo refuses who has an older one.

1. Items are leased, their note is put, then the lease is kept, and then the note is given to the
   group. A note is given only when all that it names is kept. So what the group was given is held,
   for good, and is the same whenever it is read.
2. A note of which something is not held any more, since whoever wrote it came too late or never
   came back, is dropped, and what was kept of it goes back. Nobody has read it.
   While somebody else has notes in hand to drop them, none is given.
3. Notes are numbered by their positions, under one name: one that nobody knows to be there or not
   is not put beside the next one, but is the next one, or never comes.
4. Who is past a batch acknowledges its items, and then passes the note. Both can be said again.
"""

from contextlib import suppress
from typing import Final

from snowmelt.client.connection.forking import Own
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import part_bodies
from snowmelt.client.leases.steps import BYTES_MAX
from snowmelt.client.priority.notes import DECODE, ENCODE, Given, Note, Stretch
from snowmelt.client.priority.staging import Holding, Told, check_held, check_there, receipt_of
from snowmelt.client.priority.steps import PrioritySteps
from snowmelt.client.queue.group_steps import BEGINNING, EVERYTHING, Mark
from snowmelt.client.queue.options import Producer, queue_settings
from snowmelt.core.errors import DataLost, Empty, NoSuchQueue, QueueExists
from snowmelt.protocols.priority.calls import GET_ITEMS
from snowmelt.protocols.priority.messages import Piece
from snowmelt.protocols.seap.keys import key_at

BATCHES_MAX: Final = 64
"""So many notes are written by one `advance`, of up to 100,000 items or 16 MiB each."""
_NOTES_AT_ONCE: Final = 1_000


class PriorityGroup:
    """One group's part of a priority queue. `queue.group(name)` gives it.

    What a group is given has no time-out: it is the group's until it says that it is past it, or
    until `release`. Marks count batches. One program at a time may work under a group's name.

    >>> import snowmelt, tempfile
    >>> from snowmelt.client.queue.group_steps import BEGINNING
    >>> from snowmelt.core.batch import Batch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with snowmelt.open(folder) as cluster:
    ...         jobs = cluster.priority("jobs")
    ...         _ = jobs.put_many([(2, b"dust"), (0, b"fire"), (1, b"mail")])
    ...         spark = jobs.group("spark")
    ...         first = spark.advance(items_max=2)
    ...         (note,) = spark.batches(BEGINNING, first.end)
    ...         for piece in spark.read(note):
    ...             print(piece.priority, bytes(next(iter(Batch(piece.offsets, piece.blob)))))
    ...         second = spark.advance(first.end)  # done with the first two
    ...         status = jobs.stats()
    ...         print(first.end.count, second.end.count, status.leased)
    0 b'fire'
    1 b'mail'
    1 2 1
    """

    def __init__(self, port: Port, steps: PrioritySteps, name: str) -> None:
        self.name = name
        self._port = Own(port, f"this group of {steps.name}", "take a group in this one")
        self._queue = steps
        self._holding = Holding(steps)
        self._notes = self._fifo()
        self._group = self._notes.group(name)
        self._passed = BEGINNING

    def __repr__(self) -> str:
        return f"PriorityGroup({self.name!r})"

    # --- how far ----------------------------------------------------------------------------------

    def advance(
        self,
        done: Mark = BEGINNING,
        *,
        items_max: int = EVERYTHING,
        bytes_max: int = EVERYTHING,
        timeout: float = TIMEOUT,
    ) -> Given:
        """Says that all up to `done` is done with, for ever, and takes the most urgent there are.

        What was given before and is not done with is told again, limits or not, and nothing is
        added. Raises `LeaseLost` and `GroupHeld` as a fifo's group does.
        """
        try:
            self._pass(done, timeout)
            told = self._group.advance(done, items_max=0, timeout=timeout)
        except NoSuchQueue:
            if done != BEGINNING:
                raise
            self._make_notes(timeout)
            told = self._group.advance(done, items_max=0, timeout=timeout)
        if told.end != done:
            return Given(told.end)
        status = self._notes.stats(timeout=timeout)
        if status.leased:
            return Given(done)
        vetted, taken = self._vet(timeout) if told.ready else 0, 0
        if not vetted:
            taken = self._take(status.tail, items_max, bytes_max, timeout)
            vetted = self._vet(timeout) if taken else 0
        if not vetted:
            return Given(done)
        told = self._group.advance(done, items_max=vetted, timeout=timeout)
        return Given(told.end, taken)

    def batches(self, start: Mark, end: Mark, *, timeout: float = TIMEOUT) -> list[Note]:
        """The batches between two marks: the same ones, whenever it is asked."""
        located = self._group.locate(start, end, timeout=timeout)
        reading = self._notes.read(located.spans)
        if located.lost or reading.unread:
            text = (
                f"notes of {end.count - start.count} batches of group {self.name!r} can't be read "
                f"from queue {self._notes.name!r}"
            )
            raise DataLost(text)
        return [DECODE(body) for part in reading.parts for body in part_bodies(part)]

    def read(self, note: Note, *, timeout: float = TIMEOUT) -> list[Stretch]:
        """The items of a batch, or of a part of it; `LeaseLost` when they are not the group's."""
        pieces, told = run(self._port, self._holding.show(note.receipt, timeout))
        check_held(self._queue.name, told, timeout)
        return [self._stretch(piece) for piece in pieces]

    def release(self, *, timeout: float = TIMEOUT) -> int:
        """Forgets the group; what it holds goes back to its positions. Returns how many."""
        self._group.release(timeout=timeout)
        count = 0
        while True:
            try:
                items = self._notes.get_many(_NOTES_AT_ONCE, timeout=0)
            except Empty:
                return count
            for item in items:
                note = DECODE(item.body)
                self._back(note, timeout)
                count += note.count
                item.ack()

    # --- within -----------------------------------------------------------------------------------

    def _pass(self, done: Mark, timeout: float) -> None:
        """Rule 4."""
        if done in (BEGINNING, self._passed):
            return
        known = {one.name: one.done for one in self._notes.groups(timeout=timeout)}
        passed = known.get(self.name, done.count)
        if passed < done.count:
            for note in self.batches(Mark(done.lease, passed), done, timeout=timeout):
                told: Told = run(self._port, self._holding.done(note.receipt, timeout))
                check_there(self._queue.name, told, timeout)
        self._passed = done

    def _take(self, number: int, items_max: int, bytes_max: int, timeout: float) -> int:
        """Leases and notes until there is enough; how many items (rules 1 and 3)."""
        notes = taken = 0
        while items_max > 0 and bytes_max > 0 and notes < BATCHES_MAX:
            most, size = min(items_max, GET_ITEMS), min(bytes_max, BYTES_MAX)
            get = self._queue.get_many(most, size, 0.0)
            delivered, _ = run(self._port, get)
            if delivered is None:
                break
            weight = sum(len(part.blob) for part in delivered.parts)
            receipt = receipt_of(delivered)
            notes, taken = notes + 1, taken + len(delivered)
            note = Note(receipt.token, receipt.shares, weight)
            self._notes.put(ENCODE(note), sequence=number + notes, timeout=timeout)
            items_max, bytes_max = items_max - len(delivered), bytes_max - weight
        return taken

    def _vet(self, timeout: float) -> int:
        """Keeps what the notes name that nobody was given yet; how many are good (rule 2)."""
        located = self._notes.survey(items_max=_NOTES_AT_ONCE, timeout=timeout)
        reading = self._notes.read(located.spans)
        if located.lost or reading.unread:
            raise DataLost(f"notes of group {self.name!r} can't be read from {self._notes.name!r}")
        notes = [DECODE(body) for part in reading.parts for body in part_bodies(part)]
        keeping = [self._holding.keep(note.receipt, timeout) for note in notes]
        kept = [run(self._port, steps) for steps in keeping]
        bad = {note.token for note, good in zip(notes, kept, strict=True) if not good}
        if bad:
            self._drop(bad, timeout)
        return len(notes) - len(bad)

    def _drop(self, tokens: set[int], timeout: float) -> None:
        """Takes the notes of these leases out, and lets go of what is kept under them."""
        for item in self._notes.get_many(_NOTES_AT_ONCE, timeout=timeout):
            note = DECODE(item.body)
            if note.token in tokens:
                self._back(note, timeout)
                item.ack()
            else:
                item.release()

    def _back(self, note: Note, timeout: float) -> None:
        told: Told = run(self._port, self._holding.back(note.receipt, timeout))
        check_there(self._queue.name, told, timeout)

    def _make_notes(self, timeout: float) -> None:
        """As safe as the queue."""
        status = run(self._port, self._queue.stats(timeout))
        replicas = status.settings.replicas
        with suppress(Empty, QueueExists):
            items = self._fifo(replicas).get_many(1, timeout=0)
            items.release()

    def _stretch(self, piece: Piece) -> Stretch:
        number = self._queue.number_of(key_at(piece.keys, 0)) if piece.keys else piece.priority
        return Stretch(
            piece.start, piece.offsets, piece.blob, piece.headers, piece.failures, piece.reason,
            piece.times, number,
        )  # fmt: skip

    def _fifo(self, replicas: int = 0) -> Fifo:
        name = f"{self._queue.name}.{self.name}"
        like = queue_settings(replicas=replicas, durable_copies=replicas) if replicas else None
        return Fifo(self._port, FifoSteps(name, like, Producer(f"notes-of-{self.name}"[:64])))
