"""A copy on its way: all that has bodies is in it, and on the other disk nothing else is."""

from snowmelt.core.interval import Interval
from snowmelt.core.record import Erase
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.messages.words import Head
from snowmelt.protocols.queue.replication.sending import Sending
from snowmelt.protocols.queue.state.batches import SPREAD
from snowmelt.protocols.queue.state.blocks import STAGED
from snowmelt.protocols.queue.state.records import records
from snowmelt.protocols.queue.state.staged import StagedBatch
from snowmelt.protocols.queue.state.state import QueueState
from snowmelt.protocols.queue.store.copy import Copy, body_key


def copied():
    """Two puts, of which the first is done; one that was published between, and one staged."""
    state = QueueState(QueueSettings())
    state.put(3, 30, term=1)
    published = state.staged.keep(2, StagedBatch(0, 20, 1, 0, 9))
    state.staged.keep(4, StagedBatch(0, 40, 1, 0, 9))
    state.staged.take(published.start)
    state.put(2, 20, term=1, place=published.start)
    state.put(1, 10, term=1)
    state.batches.end(Interval(0, 3))
    copy = Copy("q")
    copy.records = records(state)
    copy.head = Head(1, 4)
    return copy


def test_bodies_of_what_is_staged_are_sent_too():
    batches, _, last = Sending(copied()).piece(0)
    assert [batch.place.start for batch in batches] == [STAGED, 5, STAGED + 2]
    assert last


def test_a_copy_that_is_replaced_keeps_no_other_bodies():
    sent, copy = Sending(copied()), Copy("q")
    changes = copy.replace(sent.head, sent.records, [one.place for one in sent.piece(0)[0]])
    erased = [one for one in changes if isinstance(one, Erase) and one.start > body_key("q", b"")]
    edges = [(one.start[-8:], one.stop[-8:]) for one in erased]
    numbers = [(int.from_bytes(start), int.from_bytes(stop)) for start, stop in edges]
    assert numbers == [(0, 5), (6, STAGED), (STAGED + 6, SPREAD)]
