"""Small worlds walked whole: counts that can be done by hand, short stories, and known wounds."""

from pathlib import Path

import msgspec
import pytest

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Expired,
    Persist,
    Persisted,
    Received,
    Reply,
    Requested,
    Send,
    SetTimer,
)
from snowmelt.core.record import Record, Write
from snowmelt.protocols.pool.alarms import PoolTimer
from snowmelt.protocols.queue.state.state import QueueState
from snowmelt_world.explore import WORLDS, injuries_named, small_world
from snowmelt_world.explore.machines import applied
from snowmelt_world.explore.moves import SmallWorld
from snowmelt_world.explore.small import Act, SmallLife
from snowmelt_world.explore.story import played, scripted
from snowmelt_world.explore.value import Dice, Portrait
from snowmelt_world.explore.walk import explored
from snowmelt_world.planted import Bug
from snowmelt_world.world import Broken
from wide import wide

SCRIPTS = Path(__file__).parent / "scripts"
A, B, C = map(NodeId, "abc")
GO = OperationId(NodeId("user"), 1)


class Word(msgspec.Struct, frozen=True):
    """Says who said it."""

    of: str


class Clerk:
    """Says a word to its peer when it is asked, and writes down whom it hears."""

    def __init__(self, me, peer, *, writes=False, waits=0):
        self.me, self.peer, self.writes, self.waits = me, peer, writes, waits
        self.heard = []

    def handle(self, event, now):
        match event:
            case Requested() if self.writes:
                return [Persist(1, (Write(b"word", self.me.encode()),))]
            case Requested() if self.waits:
                return [SetTimer(PoolTimer.NEXT, later(now, self.waits))]
            case Requested() | Persisted() | Expired():
                return [Send(self.peer, Word(self.me))]
            case Received(_, Word(of)):
                self.heard.append(of)
                return [Reply(GO, of)]
            case _:
                return []

    def check(self):
        assert self.heard[:1] != ["c"], "c was heard first"


BOTH = {A: B, B: A}


class Clerks(SmallLife):
    """Each may be asked once."""

    nodes = (A, B)
    horizon = Instant(seconds(9))
    writes, waits = False, 0

    def __init__(self, peers=None):
        super().__init__()
        self.peers = peers or BOTH
        self.prelude = tuple(f"start {node}" for node in self.nodes)

    def build(self, node, life):
        del life
        return Clerk(node, self.peers.get(node, A), writes=self.writes, waits=self.waits)

    def opening(self):
        return ()

    def acts(self, look):
        for node in self.peers:
            if node not in look.scene:
                scene = tuple(sorted((*look.scene, node)))
                yield Act(f"{node} goes", scene, node, (Requested(GO, "go"),))

    def saw(self, look, node, effects):
        return tuple(sorted((*look.scene, f"{node} heard {effects[0].message}")))

    def unsettled(self, look):
        return "" if len(look.scene) >= 2 * len(self.peers) else "a waits"

    def judge(self, look, ask):
        pass


class Deaf(Clerks):
    def judge(self, look, _):
        if "b heard a" in look.scene:
            raise Broken("b heard a", "b")


class Three(Clerks):
    """Two of them speak to the third, who must hear one of them first."""

    nodes = (A, B, C)


@pytest.mark.parametrize(
    ("writes", "side"),
    [(False, (3, 2)), (True, (4, 3))],
    ids=["asked, on its way, heard", "asked, to be flushed, on its way, heard"],
)
def test_the_states_of_two_who_know_nothing_of_each_other_are_the_product(writes, side):
    life = Clerks()
    life.writes = writes
    found = explored(SmallWorld(life, ()))
    states, moves = side
    assert (found.states, found.moves) == (states * states, 2 * moves * states)
    assert (found.depth, found.complete, found.bad) == (2 * moves, True, ())


def test_time_passes_only_when_nothing_else_is_to_be_done():
    life = Clerks()
    life.waits = seconds(1)
    world = SmallWorld(life, ())
    asked = ["a goes", "b goes"]
    told = played(world, [*asked, "until 1s", "a pool.next", "a > b", "b pool.next", "b > a"])
    assert not told.refused
    assert "1s b: Received a Word a" in told.lines[-3]
    refused = played(world, ["a goes", "until 1s"])
    assert (refused.refused, refused.possible) == ("until 1s", ("b goes",))
    assert played(world, [*asked, "until 1s", "until 2s"]).refused == "until 2s"


def test_a_world_that_does_not_come_to_rest_breaks_its_promise():
    found = explored(SmallWorld(Clerks(), ("lose",)))
    assert not found.complete
    assert [one.sentence for one in found.bad] == ["a waits, after 9s"]
    assert [word for word in found.bad[0].words if word.startswith("lose")]


def test_at_rest_it_is_judged_what_is_there():
    found = explored(SmallWorld(Deaf(), ()))
    assert (found.bad[0].sentence, found.bad[0].words[-1]) == ("b heard a", "rest")


def test_the_first_story_that_breaks_something_is_the_shortest():
    found = explored(SmallWorld(Three({A: B, C: B}), ()))
    assert found.bad[0].words == ("c goes", "c > b")
    assert found.bad[0].sentence.startswith("b: c was heard first")
    assert (
        played(SmallWorld(Three({A: B, C: B}), ()), found.bad[0].words).broken
        == found.bad[0].sentence
    )


@pytest.mark.parametrize(("kind", "heard"), [("repeat", 2), ("lose", 0)])
def test_a_message_comes_twice_or_never(kind, heard):
    world = SmallWorld(Clerks(), (kind,))
    words = ["a goes", f"{kind} a > b", *["a > b"] * heard]
    assert not played(world, words).refused
    assert played(world, [*words, "a > b"]).refused == "a > b"


def test_a_link_that_stands_still_goes_on_before_four_seconds_are_over():
    world = SmallWorld(Clerks(), ("stall",))
    words = ["a goes", "b goes", "stall a > b", "b > a"]
    assert played(world, [*words, "a > b"]).possible == ("resume a > b", "until 4s")
    assert played(world, [*words, "until 4s", "until 8s"]).possible == ("resume a > b",)
    assert not played(world, [*words, "resume a > b", "a > b"]).refused


@pytest.mark.parametrize("kept", [0, 1])
def test_a_crash_keeps_any_beginning_of_what_its_disk_was_asked(kept):
    life = Clerks()
    life.writes, life.mortal = True, (A,)
    told = played(SmallWorld(life, ("crash",)), ["a goes", f"crash a with {kept} kept", "start a"])
    assert not told.refused
    assert ("Record" in told.lines[-1]) == bool(kept)


def test_mail_to_one_who_crashed_waits_or_is_lost():
    life = Clerks()
    life.mortal = (B,)
    world = SmallWorld(life, ("crash",))
    assert not played(world, ["a goes", "crash b, its mail waits", "start b", "a > b"]).refused
    assert played(world, ["a goes", "crash b", "start b", "a > b"]).refused == "a > b"


def test_a_move_that_may_be_missing_is_passed_over():
    world = SmallWorld(Clerks(), ())
    assert not played(world, ["a flushes?", "a goes?", "a > b"]).refused


def test_a_walk_has_bounds():
    assert explored(SmallWorld(Three({A: B, C: B}), ()), depth_max=1).depth == 1
    bounded = explored(SmallWorld(Clerks(), ()), states_max=5)
    assert (bounded.states >= 5, bounded.complete) == (True, False)


# --- values ---------------------------------------------------------------------------------------


class Box:
    __slots__ = ("inside",)

    def __init__(self, inside):
        self.inside = inside


class Frozen(msgspec.Struct, frozen=True):
    inside: object


class Loose(msgspec.Struct):
    inside: object


def a_closure_over(thing):
    return lambda: thing


@pytest.mark.parametrize(
    "wrapped",
    [Box, Frozen, Loose, a_closure_over, lambda thing: [thing], lambda thing: {"a": {thing}}],
    ids=["slots", "frozen", "struct", "closure", "list", "set"],
)
def test_two_machines_are_alike_when_all_that_they_hold_is(wrapped):
    of = Portrait().of
    assert of(wrapped(1)) == of(wrapped(1))
    assert of(wrapped(1)) != of(wrapped(2))
    assert of(wrapped("1")) != of(wrapped(1))


def test_a_circle_and_what_is_shared_have_values_too():
    of = Portrait().of
    one, other, third = Box(None), Box(None), Box(None)
    one.inside, other.inside, third.inside = one, other, Box(third)
    assert of(one) == of(other) != of(third)
    assert of([one, one]) != of([one, other])


def test_what_is_only_counted_for_people_makes_no_two_states():
    of = Portrait(frozenset({("Box", "inside")})).of
    assert of(Box(1)) == of(Box(2))


def test_dice_without_chance_name_things_and_have_values():
    dice, again = Dice(1), Dice(1)
    assert [dice.randrange(1, 2**60), dice.getrandbits(63)] == [100_001, 100_002]
    assert [dice.randrange(3, 9), dice.random(), dice.choices("ab")] == [3, 0.0, ["a"]]
    assert Portrait().of(dice) != Portrait().of(again)


def test_a_disk_without_a_world_does_what_a_disk_does():
    disk = applied((Record(b"a", b"1"), Record(b"b", b"2")), (Write(b"c", b"3"),))
    assert [one.key for one in disk] == [b"a", b"b", b"c"]


# --- the families ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "world", "injuries"),
    [
        ("baton", "wants", "none"),
        ("baton", "handover", "none"),
        *wide(("pool", "leaver", "none")),
        ("pool", "pair", "repeat"),
        ("pool", "pair", "lose"),
        ("membership", "join", "none"),
        ("membership", "leave", "none"),
        ("queue", "put", "crash"),
        ("queue", "pair", "lose"),
        ("queue", "pair", "repeat"),
        ("queue", "pair", "overtake"),
    ],
)
def test_what_is_small_is_walked_to_its_end_and_nothing_breaks(protocol, world, injuries):
    life = small_world(protocol, world)
    found = explored(SmallWorld(life(), injuries_named(injuries, life)), states_max=80_000)
    assert (found.complete, found.bad) == (True, ())
    assert found.states > 10


def test_two_walks_are_one():
    life = small_world("membership")
    first, second = (explored(SmallWorld(life(), ("lose",))) for _ in range(2))
    assert first == second


REVIVED = scripted((SCRIPTS / "a_token_that_was_passed_on_is_revived.txt").read_text())
HANDOVER = small_world("baton", "handover")


def test_a_token_that_was_passed_on_is_revived_where_a_pass_is_for_any_life():
    told = played(SmallWorld(HANDOVER(Bug.REVIVED_TOKEN), HANDOVER.injuries), REVIVED)
    assert "u2 had left one of (b'u2/2',)" in told.broken, told.refused


def test_a_token_that_was_passed_on_is_revived_no_more():
    told = played(SmallWorld(HANDOVER(), HANDOVER.injuries), REVIVED)
    again = [line for line in told.lines if "n2: Received n1 Pass" in line][1]
    assert again.endswith("-> nothing")
    assert not told.broken


def test_an_object_is_not_handed_over_to_one_who_has_left():
    script = scripted((SCRIPTS / "an_object_is_handed_over_to_one_who_has_left.txt").read_text())
    told = played(SmallWorld(small_world("pool", "leavers")(), ("stall",)), script)
    assert any("l2: Received l1 ObjectsLent" in line for line in told.lines)
    assert (told.broken, told.refused) == ("", "rest"), "at rest nothing breaks, so it is no move"


LOST = "there is [], and there should be [(0, 'p1/1')]"


@pytest.mark.parametrize(
    ("story", "world", "bug", "broken"),
    [
        (
            "what_one_follower_has_is_brought_by_who_leads_next",
            "put",
            Bug.STALE_COPY,
            LOST,
        ),
        ("what_only_its_leader_has_is_not_told", "put", Bug.COUNTED_EARLY, LOST),
        (
            "a_release_is_asked_again_of_who_leads_next",
            "release",
            Bug.FORGOTTEN_ANSWER,
            "c1 is told Declined(error='LeaseLost'",
        ),
    ],
)
def test_a_leader_dies_and_the_next_goes_on(story, world, bug, broken):
    life, script = small_world("queue", world), scripted((SCRIPTS / f"{story}.txt").read_text())
    spoiled = played(SmallWorld(life(bug), life.injuries), script)
    assert broken in spoiled.broken, spoiled.refused
    told = played(SmallWorld(life(), life.injuries), script)
    assert (told.broken, told.refused.replace("rest", ""), told.possible) == ("", "", ())


def test_the_copy_of_one_follower_is_brought_to_the_next_leader():
    script = (SCRIPTS / "what_one_follower_has_is_brought_by_who_leads_next.txt").read_text()
    life = small_world("queue", "put")
    told = played(SmallWorld(life(), life.injuries), scripted(script))
    assert any("n3: Received n1 SnapshotChunk" in line for line in told.lines)


@pytest.mark.parametrize(
    ("world", "injuries", "bug", "sentence"),
    [
        ("put", "crash", Bug.STALE_COPY, LOST),
        ("pair", "overtake", Bug.SKIPPED_STEP, "the copies are not the same"),
    ],
)
def test_the_walk_finds_a_bug_of_the_queue(world, injuries, bug, sentence):
    life = small_world("queue", world)
    found = explored(SmallWorld(life(bug), injuries_named(injuries, life)))
    assert found.bad[0].sentence.startswith(sentence)


def test_the_walk_finds_what_is_given_out_of_turn(monkeypatch):
    def last(self, *_, **__):
        return [Interval(one.stop - 1, one.stop) for one in self.ready][-1:]

    monkeypatch.setattr(QueueState, "first", last)
    found = explored(SmallWorld(small_world("queue", "turns")(), ()))
    assert found.bad[0].sentence == "u1 is given u1/2, and u1/1 was there before it"


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    ("protocol", "world", "injuries"),
    [
        ("queue", "copies", "none"),
        ("queue", "turns", "crash"),
        ("queue", "release", "crash"),
        ("queue", "release", "lose"),
        ("queue", "release", "repeat"),
        ("queue", "release", "overtake"),
        ("queue", "release", "stall"),
        ("queue", "two", "crash,crash"),
        ("queue", "alter", "none"),
        ("queue", "alter", "crash"),
        ("queue", "crowd", "none"),
        ("queue", "ranked", "none"),
        ("queue", "keys", "none"),
        ("queue", "pair", "crash"),
        ("queue", "pair", "lose,repeat"),
        ("queue", "back", "crash"),
        ("baton", "wants", "repeat"),
        ("baton", "wants", "lose"),
        ("baton", "wants", "stall"),
        ("baton", "handover", "lose,crash"),
        ("pool", "leaver", "lose"),
        ("pool", "leaver", "repeat"),
        ("pool", "leaver", "stall"),
        ("pool", "leavers", "lose"),
        ("pool", "leavers", "repeat"),
        ("pool", "leavers", "stall"),
        ("pool", "pair", "lose,repeat"),
        ("pool", "pair", "crash,lose"),
        ("membership", "join", "crash,lose"),
        ("membership", "join", "lose,crash"),
        ("membership", "leave", "crash"),
    ],
)
def test_nothing_breaks_in_larger_worlds(protocol, world, injuries):
    life = small_world(protocol, world)
    assert explored(SmallWorld(life(), injuries_named(injuries, life))).bad == ()


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_two_puts_two_gets_a_release_and_a_leader_who_dies_are_walked_to_their_end():
    life = small_world("queue", "copies")
    found = explored(SmallWorld(life(), life.injuries), states_max=3_000_000)
    assert (found.complete, found.bad) == (True, ())


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_the_walk_finds_the_token_that_is_revived():
    found = explored(SmallWorld(HANDOVER(Bug.REVIVED_TOKEN), HANDOVER.injuries))
    assert "had left one of" in found.bad[0].sentence
    assert len(found.bad[0].words) <= len(REVIVED)


def test_a_message_overtakes_the_one_before_it():
    world = SmallWorld(Clerks({A: B, B: A}), ("overtake",))
    assert played(world, ["a goes", "overtake a > b"]).refused == "overtake a > b"


def test_options_that_can_not_be_are_refused():
    for worlds in WORLDS.values():
        assert all(life.words for life in worlds.values())
    with pytest.raises(BadOption, match="--protocol is 'fifo'; allowed: baton, membership, pool"):
        small_world("fifo")
    with pytest.raises(BadOption, match="--injuries is 'flood'"):
        injuries_named("lose,flood", HANDOVER)
    with pytest.raises(BadOption, match="one move a line"):
        scripted("# nothing")
    with pytest.raises(BadOption, match="nobody crashes"):
        injuries_named("crash", small_world("pool", "leavers"))
    assert injuries_named("crash,lose", small_world("membership")) == ("crash", "lose")
