"""What is sent and not answered yet: when it is sent again."""

from random import Random

import msgspec

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.asked import PIECES_MAX
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.messages import End, Inquire, Several, Word
from snowmelt.protocols.priority.sending import Unanswered
from snowmelt.protocols.priority.settings import How
from snowmelt.wire.framing import FRAME_BYTES_MAX

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


def test_however_much_is_said_in_one_turn_each_message_and_its_answer_fits_a_frame():
    desk = Desk(NodeId("n1"), Random(0))
    far = [Interval((1 << 62) + 2 * at, (1 << 62) + 2 * at + 1) for at in range(PIECES_MAX)]
    large, small = [Word(1, (Share(0, some),), How.DONE) for some in (tuple(far), (far[0],))]
    sizes = {id(one): len(msgspec.msgpack.encode(one)) for one in (large, small)}
    words = [*[large] * 40, *[small] * 5_000, large]
    said = [*enumerate(words)]
    Unanswered[int](desk, "jobs").send_all(
        THERE, said, lambda some, serial: End(1, "jobs", serial, some)
    )
    sent = [one.message for one in desk.taken()]
    ends = [end for one in sent for end in (one.messages if type(one) is Several else (one,))]
    assert [word for end in ends for word in end.words] == words
    assert all(2 * sum([sizes[id(one)] for one in end.words]) < FRAME_BYTES_MAX for end in ends)
    assert 5_000 // 4_096 < len(ends) < 100
