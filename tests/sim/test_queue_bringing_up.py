"""A copy is brought up while its queue goes on: what is kept for that has a bound."""

from quiet import QUEUE, Quiet

from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.replication import sending
from snowmelt.protocols.queue.replication.follower_progress import Followers
from snowmelt.protocols.queue.store import copy

BOUND = 10_000


def test_steps_and_bodies_do_not_pile_up_behind_a_slow_copy(monkeypatch):
    """Each piece has one body, and hundreds are put, and some acknowledged, meanwhile."""
    monkeypatch.setattr(copy, "STEPS_BYTES", BOUND)
    monkeypatch.setattr(copy, "RECENT_BYTES", BOUND)
    monkeypatch.setattr(sending, "PIECE_BODIES", 1)
    begun, kept, append = [], [], Followers.append

    def appended(self, step):
        append(self, step)
        sendings = [one.sending for one in self.all.values() if one.sending is not None]
        begun.extend(one.head for one in sendings)
        if sendings:
            kept.append((self.copy.recent_bytes, bool(step.over)))

    monkeypatch.setattr(Followers, "append", appended)
    quiet = Quiet(QUEUE, 0, 3, replicas=3)
    client, other = quiet.client("c", NodeId("n1")), quiet.client("d", NodeId("n1"))

    def puts(count):
        for number in range(count):
            yield from client.put([f"{count}.{number}"], None, 10.0)

    def takes():
        for _ in range(200):
            yield from other.ack((yield from other.get(1, 5.0)))

    quiet.live((client, puts(200)))
    quiet.leave(NodeId("n3"))
    quiet.rest(2)
    quiet.join(NodeId("n4"))
    quiet.live((client, puts(300)), (other, takes()))
    quiet.rest(10)
    assert len(dict.fromkeys(begun)) > 2
    assert max(weight for weight, _ in kept) < 2 * BOUND
    assert any(erased for _, erased in kept)
    [told] = quiet.live((client, client.steps.stats(5.0)))
    assert (told.short_of_copies, told.followers_behind) == (0, 0)
    quiet.leave(NodeId("n2"))  # so that the new one leads, or is needed
    quiet.rest(3)
    last = quiet.client("last", NodeId("n1"))
    quiet.live((last, last.drain()))
    assert quiet.judge() == []
