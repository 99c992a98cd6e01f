"""A record that no leader wrote, by a member that lies or a disk: its queue stops, no node ends."""

import pytest
from alone import Alone

from snowmelt.core.batch import Batch
from snowmelt.core.node import Persist
from snowmelt.core.record import Write
from snowmelt.protocols.queue import calls
from snowmelt.protocols.queue.copy import RECORD
from snowmelt.protocols.queue.settings import QueueSettings

ODD = {
    "no key": (b"", b"x"),
    "a key of no kind": (b"Q", b"x"),
    "a lease that does not read": (b"l" + bytes(8), b"\xc1"),
    "a status of another shape": (b"s", b"\x91\x05"),
    "a batch that is cut off": (b"b" + bytes(3), b"\x93\x01"),
    "a producer of no name": (b"p", b""),
    "a group that is no text": (b"g\xff\xfe", b"\x90"),
    "an end of nobody": (b"e" + bytes(40), b"\x01"),
}


@pytest.mark.parametrize("odd", ODD)
def test_a_record_that_no_leader_wrote_stops_its_queue_and_no_other(odd):
    alone = Alone.of()
    alone.said(calls.Open("other", QueueSettings()))
    batch = Batch.of([b"one"])
    put = calls.Put("other", "p", 1, bytes(batch.offsets), bytes(batch.blob))
    assert isinstance(alone.said(put), calls.PutDone)
    key, value = ODD[odd]
    alone.disk.ask(Persist(10**9, (Write(RECORD + b"q\0" + key, value),)))
    alone.disk.flush()
    alone.start()
    assert alone.said(calls.Describe("other")).ready == 1
    assert alone.node._terms.leaders.keys() == {"other"}
    assert not alone.node._copies.of("q").whole
