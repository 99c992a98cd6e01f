"""Who is to lead hears no word of whoever has the newest copy: another takes over."""

from quiet import QUEUE, Quiet

from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.follower.follower_role import FollowerRole
from snowmelt.protocols.queue.follower.transfer import Transfer

N1, N2, N3 = [NodeId(f"n{number}") for number in range(1, 4)]


def test_a_silent_source_is_not_waited_for(monkeypatch):
    """The first that is to lead lacks a step, and is sent no piece of the other's copy."""
    append, lacks = FollowerRole.append, []

    def appended(self, source, step):
        if self._outbox.me not in lacks:
            append(self, source, step)

    monkeypatch.setattr(FollowerRole, "append", appended)
    monkeypatch.setattr(Transfer, "bring", lambda _self, _source, _bring: None)
    quiet = Quiet(QUEUE, 0, 3, replicas=3)
    client = quiet.client("c", N1)
    quiet.live((client, client.put(["first"])))
    [told] = quiet.live((client, client.steps.stats(5.0)))
    assert (told.leader, told.followers) == (N3, (N1, N2))
    lacks.append(N1)
    quiet.live((client, client.put(["second"])))
    quiet.world.stop(N3)
    lacks.clear()
    quiet.rest(22)
    [told] = quiet.live((client, client.steps.stats(5.0)))
    assert told.leader == N2
