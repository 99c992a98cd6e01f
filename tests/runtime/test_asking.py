"""Calls of a pool's engine whose caller is gone: what they bring goes back, whenever it comes."""

from snowmelt.core.instant import Duration
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.calls import Got, Nack, Withdraw
from snowmelt.runtime.peer.asking import PendingCall, Words

GOT = Got(NodeId("p"), 7, (), b"", 1, Duration(0))


def test_a_dropped_call_that_is_kept_gives_back_what_comes_later() -> None:
    words = Words(lambda: None)
    asked = PendingCall(words)
    asked.drop()
    asked.answer(GOT)
    assert list(words.take()) == [Withdraw(0), Nack(7, ())]


def test_a_call_that_is_answered_while_it_is_dropped_gives_back_what_comes() -> None:
    words = Words(lambda: asked.answer(GOT) if not asked.answered else None)
    asked = PendingCall(words)
    asked.drop()
    assert list(words.take()) == [Withdraw(0), Nack(7, ())]


def test_a_call_that_is_answered_and_dropped_gives_back_what_came() -> None:
    words = Words(lambda: None)
    asked = PendingCall(words)
    asked.answer(GOT)
    asked.drop()
    assert list(words.take()) == [Nack(7, ())]
