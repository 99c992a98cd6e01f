"""How a process makes itself known, and learns who else is there (rule 9)."""

import pytest

from snowmelt.core.instant import Instant, milliseconds, seconds
from snowmelt.core.names import Address, NodeId, contact
from snowmelt.core.node import Note, Send
from snowmelt.protocols.calling import Answer, Call, Declined, Elsewhere
from snowmelt.protocols.pool.alarms import Alarms
from snowmelt.protocols.pool.introduction import (
    BEAT,
    FIRST_EVERY,
    PATIENCE,
    STEPS_MAX,
    Introduction,
)
from snowmelt.protocols.pool.introductions import Acquaintance, Introduce, Introduced

N1, N2 = NodeId("n1:1"), NodeId("n2:1")
HERE = Address("127.0.0.1", 5000)
WORD = Introduce("frames", HERE, "", produces=False, consumes=True)
A, B = (Acquaintance(NodeId(f"c-{name}"), name, HERE) for name in "ab")
EVERY = milliseconds(500)
NOW = Instant(0)


class Door:
    """An introduction, and the number of its last word."""

    def __init__(self, *contacts):
        self.alarms = Alarms()
        self.one = Introduction(contacts, self.alarms)
        self.one.address = HERE
        self.number = 0

    def beat(self, now=NOW, **more):
        (send,) = self.one.beat(WORD, now, **more)
        self.number = send.message.number
        return send

    def told(self, *producers, settled=True, version=1, known=None, number=None):
        ids = tuple(one.id for one in producers) if known is None else known
        word = Introduced(version, settled, EVERY, producers, ids)
        return self.answer(word, number)

    def answer(self, body, number=None):
        return self.one.answered(Answer(self.number if number is None else number, body), WORD)


def test_it_says_what_it_is_and_learns_who_is_there():
    door = Door(N1)
    assert door.beat() == Send(N1, Call(1, WORD))
    assert door.told(A, B, known=(B.id,)) == (True, [])
    assert list(door.one.producers) == [A.id, B.id]
    assert (door.one.known, door.one.version, door.one.complete) == ((B.id,), 1, True)


def test_an_old_answer_is_not_heard():
    door = Door(N1)
    door.beat()
    door.beat()
    assert door.told(A, number=1) == (False, [])
    assert not door.one.producers


def test_when_nothing_has_changed_what_it_knows_stands():
    door = Door(N1)
    door.beat()
    door.told(A)
    door.beat()
    assert door.answer(Introduced(1, True, EVERY)) == (False, [])
    assert list(door.one.producers) == [A.id]


def test_a_node_that_has_not_heard_of_all_makes_nobody_forgotten():
    door = Door(N1)
    door.beat()
    door.told(A, version=7)
    door.beat()
    assert door.told(B, settled=False, version=1) == (True, [])
    assert door.one.known == (A.id, B.id)
    assert (door.one.complete, door.one.version) == (False, 0), "it is told again"
    door.beat()
    door.told(B, version=2)
    assert list(door.one.producers) == [B.id]


def test_a_node_that_is_silent_is_left_for_the_next():
    door = Door(N1, N2)
    times = [Instant(PATIENCE * at) for at in range(4)]
    assert [door.beat(now).target for now in times] == [N1, N2, N1, N2]
    door.told(A)
    assert door.beat(Instant(PATIENCE * 9)).target == N2


def test_words_that_follow_each_other_at_once_make_no_node_silent():
    door = Door(N1, N2)
    times = (0, PATIENCE // 2, PATIENCE - 1, PATIENCE)
    assert [door.beat(Instant(at)).target for at in times] == [N1, N1, N1, N2]


def test_a_way_that_ends_while_it_waits_makes_it_ask_at_once():
    door = Door(N1, N2)
    door.beat()
    door.one.lost(N2, NOW)
    assert door.alarms.at(BEAT) == FIRST_EVERY
    door.one.lost(N1, NOW)
    assert door.alarms.at(BEAT) == NOW
    assert door.beat().target == N2


def test_it_goes_where_it_is_sent_but_not_for_ever():
    door = Door(N1)
    door.beat()
    there = Address("127.0.0.2", 7)
    for _ in range(STEPS_MAX):
        assert door.answer(Elsewhere(NodeId("n9"), there)) == (
            False,
            [Send(contact(there), Call(1, WORD))],
        )
    assert door.answer(Elsewhere(NodeId("n9"), there)) == (False, [])


def test_a_refusal_is_noted_once():
    door = Door(N1)
    door.beat()
    no = Declined("TooMany", "there are pools enough")
    assert door.answer(no) == (
        False,
        [Note("n1:1 does not introduce: TooMany: there are pools enough")],
    )
    door.beat()
    assert door.answer(no) == (False, [])


@pytest.mark.parametrize("every", [-5, 0, 1])
def test_it_never_asks_without_a_pause(every):
    door = Door(N1)
    door.beat()
    door.answer(Introduced(1, True, every, ()))
    door.beat()
    assert door.alarms.at(BEAT) >= milliseconds(100)


def test_who_wants_something_and_knows_nobody_asks_more_often():
    door = Door(N1)
    door.beat(impatient=True)
    assert door.alarms.at(BEAT) == milliseconds(100)


def test_without_a_node_it_is_told_by_hand():
    door = Door()
    assert door.one.beat(WORD, NOW) == []
    door.one.soon(Instant(seconds(1)))
    assert door.alarms.at(BEAT) is None
    door.one.meet((A, B), (A.id,))
    assert (door.one.known, door.one.complete) == ((A.id,), True)


def test_a_node_it_was_sent_to_and_that_is_silent_is_named_to_the_next():
    door = Door(N1, N2)
    door.beat()
    door.answer(Elsewhere(NodeId("n3"), Address("n3", 1)))
    assert door.one.silent(NOW) == ()
    assert door.beat(Instant(PATIENCE)).target == N2
    assert door.one.silent(NOW) == (NodeId("n3"),)
    assert door.one.silent(Instant(seconds(11))) == ()
