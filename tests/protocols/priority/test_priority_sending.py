"""What is sent and not answered yet: when it is sent again."""

from random import Random

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.messages import Inquire
from snowmelt.protocols.priority.sending import Unanswered

THERE = NodeId("n2")


def asked(sending):
    return sending.send(THERE, (1,), lambda serial: Inquire(1, "jobs", serial, ()))


def silence(desk, sending):
    """After how many milliseconds what is sent now goes again; it is answered then."""
    began, serial = desk.now, asked(sending)
    desk.taken()
    while not desk.taken():
        desk.now = later(desk.now, milliseconds(50))
        sending.again()
    waited = (desk.now - began) // 10**6
    desk.now = began
    sending.answered(THERE, serial)
    return waited


def test_what_is_sent_to_who_answers_late_is_sent_again_later():
    desk = Desk(NodeId("n1"), Random(0))
    sending = Unanswered[int](desk, "jobs")
    assert silence(desk, sending) == 200
    for took, waits in ((90, 200), (500, 1_000), (60_000, 2_000)):
        serial = asked(sending)
        desk.now = later(desk.now, milliseconds(took))
        assert sending.answered(THERE, serial) is not None
        assert silence(desk, sending) == waits
    for _ in range(30):  # it is quick again
        silence(desk, sending)
    assert silence(desk, sending) == 200


def test_a_part_of_an_answer_tells_how_long_it_took_too():
    desk = Desk(NodeId("n1"), Random(0))
    sending = Unanswered[int](desk, "jobs")
    serial = sending.send(THERE, (1, 2), lambda serial: Inquire(1, "jobs", serial, ()))
    desk.now = Instant(milliseconds(400))
    assert sending.partly(THERE, serial, [0]) is not None
    assert sending.partly(THERE, serial, [1]) is not None
    assert silence(desk, sending) == 800
