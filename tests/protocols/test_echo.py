"""The echo machine's five rules, by comparing what it returns."""

from zlib import crc32

import pytest

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Load,
    Loaded,
    Persist,
    Persisted,
    PersistFailed,
    Reply,
    Requested,
    Started,
)
from snowmelt.core.record import Damaged, Missing, Record, Write
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.echo import Echo, Echoed, EchoNode, Recall, Recalled, Remember, Remembered
from snowmelt.protocols.echo.node import BODIES_MAX, NAMES_MAX

NOW = Instant(0)
TAKEN = Declined("BadOption", "'a' was remembered with another body")


def operation(number):
    return OperationId(NodeId("c1"), number)


@pytest.fixture
def node():
    return EchoNode()


def ask(node, number, request):
    effects = node.handle(Requested(operation(number), request), NOW)
    node.check()
    return effects


def then(node, event):
    effects = node.handle(event, NOW)
    node.check()
    return effects


def remembered(node, body=b"one"):
    ask(node, 1, Remember("a", body))
    then(node, Persisted(1))


def test_rule_1_an_echo_is_answered_at_once(node):
    assert ask(node, 1, Echo(b"hey")) == [Reply(operation(1), Echoed(b"hey"))]


def test_rule_2_a_body_is_answered_for_only_after_the_flush(node):
    digest = crc32(b"one").to_bytes(4) + (3).to_bytes(4)
    changes = (Write(b"a", digest), Write(b"~a", b"one"))
    assert ask(node, 1, Remember("a", b"one")) == [Persist(1, changes)]
    assert then(node, Persisted(1)) == [Reply(operation(1), Remembered("a"))]


def test_rule_2_retries_that_overtake_the_flush_are_served_by_it(node):
    ask(node, 1, Remember("a", b"one"))
    assert ask(node, 2, Remember("a", b"one")) == []
    assert ask(node, 3, Remember("a", b"two")) == [Reply(operation(3), TAKEN)]
    assert then(node, Persisted(1)) == [
        Reply(operation(1), Remembered("a")),
        Reply(operation(2), Remembered("a")),
    ]


def test_rule_2_a_name_keeps_its_first_body(node):
    remembered(node)
    assert ask(node, 2, Remember("a", b"two")) == [Reply(operation(2), TAKEN)]
    assert ask(node, 3, Remember("a", b"one")) == [Load(2, (b"~a",), NodeId("c1"))]
    assert then(node, Loaded(2, (Record(b"~a", b"one"),))) == [Reply(operation(3), Remembered("a"))]


@pytest.mark.parametrize("name", ["", "n" * 201, "é" * 101])
def test_a_name_too_long_or_empty_is_declined(node, name):
    (reply,) = ask(node, 1, Remember(name, b""))
    assert reply.message.error == "BadOption"


def test_rule_3_names_come_back_at_the_start(node):
    then(node, Started((Record(b"a", crc32(b"one").to_bytes(4) + (3).to_bytes(4)),)))
    assert ask(node, 1, Remember("a", b"two")) == [Reply(operation(1), TAKEN)]


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (Record(b"~a", b"one"), Recalled("a", b"one")),
        (Damaged(b"~a"), Recalled("a", None, damaged=True)),
        (Missing(b"~a"), Recalled("a", None, damaged=True)),  # its name is there, so it was
    ],
)
def test_rule_4_a_recall_is_the_body_or_says_that_it_is_lost(node, found, answer):
    remembered(node)
    assert ask(node, 2, Recall("a")) == [Load(2, (b"~a",), NodeId("c1"))]
    assert then(node, Loaded(2, (found,))) == [Reply(operation(2), answer)]


def test_rule_4_what_was_never_remembered_is_not_called_damaged(node):
    ask(node, 1, Recall("a"))
    assert then(node, Loaded(1, (Missing(b"~a"),))) == [Reply(operation(1), Recalled("a", None))]


@pytest.mark.parametrize("found", [Damaged(b"~a"), Missing(b"~a"), Record(b"~a", b"eno")])
def test_rule_4_a_retry_mends_a_body_that_the_disk_lost(node, found):
    remembered(node)
    ask(node, 2, Remember("a", b"one"))
    (persist,) = then(node, Loaded(2, (found,)))
    assert persist.changes[1] == Write(b"~a", b"one")
    assert then(node, Persisted(persist.ticket)) == [Reply(operation(2), Remembered("a"))]


def test_rule_5_on_a_full_disk_it_is_declined_and_the_name_is_free(node):
    ask(node, 1, Remember("a", b"one"))
    assert then(node, PersistFailed(1, "full")) == [
        Reply(operation(1), Declined("DiskFull", "full"))
    ]
    (persist,) = ask(node, 2, Remember("a", b"two"))
    assert persist.changes[1] == Write(b"~a", b"two")


def test_rule_5_what_is_remembered_for_good_is_bounded(node):
    size = BODIES_MAX // 4
    for at in range(4):
        assert ask(node, at, Remember(f"n{at}", bytes(size)))[0].ticket == at + 1
    then(node, Persisted(1))
    then(node, PersistFailed(2, "no room"))
    assert isinstance(ask(node, 5, Remember("n1", bytes(size)))[0], Persist)
    [reply] = ask(node, 6, Remember("more", b"1"))
    assert (reply.message.error, BODIES_MAX) == ("Full", 4 * size)
    kept = EchoNode()
    then(kept, Started((Record(b"n0", crc32(bytes(size)).to_bytes(4) + size.to_bytes(4)),)))
    [reply] = ask(kept, 1, Remember("much", bytes(3 * size + 1)))
    assert reply.message.error == "Full"
    few = EchoNode()
    for at in range(NAMES_MAX):
        ask(few, at, Remember(f"n{at}", b""))
    assert ask(few, 1, Remember("more", b""))[0].message.error == "Full"
