"""What a group was given, and how far it is done with that."""

from random import Random

import pytest

from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.state.groups import GroupState


@pytest.mark.parametrize("seed", range(50))
def test_a_group_is_the_list_of_what_it_was_given(seed: int) -> None:
    chance = Random(seed)
    group, rows, at = GroupState(1, "r", 0, [], 0), list[int](), 0
    for _ in range(30):
        if not group.held:
            for _ in range(chance.randrange(1, 5)):
                at += chance.randrange(1, 4)
                piece = Interval(at, at + chance.randrange(1, 6))
                group.held.append(piece)
                rows += piece
                at = piece.stop
        assert (group.given, group.holds) == (len(rows), len(rows) - group.done)
        after = chance.randrange(len(rows) + 3)
        until = chance.randrange(after, len(rows) + 5)
        found = [where for piece in group.between(after, until) for where in piece]
        assert found == rows[max(after, group.done) : max(until, group.done)]
        done, before = chance.randrange(len(rows) + 1), group.done
        passed = [where for piece in group.pass_by(done) for where in piece]
        assert passed == rows[before:done]
        assert group.done == max(before, done)
        assert [where for piece in group.held for where in piece] == rows[group.done :]
