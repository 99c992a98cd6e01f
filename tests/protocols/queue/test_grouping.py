"""Groups: what is given is given for good and to nobody else, and told the same again."""

from random import Random

import msgspec
import pytest
from queue_bench import Bench, values

from snowmelt.core.interval import Interval
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.calls import Changed, Fetch, Fetched
from snowmelt.protocols.queue.limits import LIMITS
from snowmelt.protocols.queue.state.records import restored

MANY = 1 << 40


def filled(count, nodes=1, **more):
    bench = Bench(nodes, **more)
    bench.put(*[f"{number:010}".encode() for number in range(count)])
    return bench


def assign(bench, name, mark, most=MANY, **more):
    lease, done = mark
    usual = {"reader": "r1", "items_max": most, "bytes_max": MANY}
    return bench.ask(calls.Assign("q", name, lease, done=done, **{**usual, **more}))


def begin(bench, name="g", most=MANY, **more):
    told = assign(bench, name, (0, 0), most, **more)
    return told.lease


def locate(bench, name, lease, after, until):
    return bench.ask(calls.Locate("q", name, lease, after, until))


def positions(located):
    return [where for span in located.spans for where in range(span.start, span.stop)]


def release(bench, name):
    return bench.ask(calls.ReleaseGroup("q", name))


def flushed(bench):
    """The state that the leader's disk tells."""
    begin = b"jq\0"
    kept = {key[3:]: value for key, value in bench.one.disk.items() if key[:3] == begin}
    return restored(bench.settings, kept)


# --- whose the items are --------------------------------------------------------------------------


def test_nothing_is_told_that_is_not_safe():
    bench = filled(10)
    bench.dumb = {"n1"}
    assert assign(bench, "g", (0, 0), 4) is None
    assert flushed(bench).ready.total == 10
    bench.dumb = set()
    bench.run()
    (group,) = bench.ask(calls.ListGroups("q")).groups
    assert (group.name, group.done, group.given) == ("g", 0, 4)
    assert list(flushed(bench).ready) == [Interval(4, 10)]


def test_passing_and_taking_are_one_step():
    bench = filled(10)
    lease = begin(bench, most=4)
    bench.dumb = {"n1"}
    assert assign(bench, "g", (lease, 4), 3) is None
    before = flushed(bench)
    assert (before.done, list(before.ready)) == (0, [Interval(4, 10)])
    bench.dumb = set()
    bench.run()
    after = flushed(bench)
    assert (after.done, list(after.ready)) == (4, [Interval(7, 10)])
    assert positions(locate(bench, "g", lease, 4, 7)) == [4, 5, 6]


def test_bodies_are_erased_only_when_the_group_is_past_them():
    bench = filled(10)
    lease = begin(bench)
    assert locate(bench, "g", lease, 0, 10).lost == 0
    assert len(bench.one.bodies) == 1
    assign(bench, "g", (lease, 9))
    assert len(bench.one.bodies) == 1
    assign(bench, "g", (lease, 10))
    assert bench.one.bodies == []


def test_a_consumer_is_not_given_what_a_group_holds_and_can_not_settle_it():
    bench = filled(10)
    lease = begin(bench, most=4)
    got = bench.ask(calls.Get("q", 100, MANY, 0))
    assert [(part.start, part.count) for part in got.parts] == [(4, 6)]
    told = bench.ask(calls.Settle("q", got.token, (Interval(0, 10),)))
    assert told.lost == (Interval(0, 4),)
    assert positions(locate(bench, "g", lease, 0, 4)) == [0, 1, 2, 3]
    assert bench.ask(calls.Describe("q")).assigned == 4


def test_the_queue_as_a_whole_leaves_a_group_what_it_has():
    bench = filled(10)
    lease = begin(bench, most=4)
    bench.ask(calls.Pause("q", True))
    told = assign(bench, "h", (0, 0))
    assert (told.lease, told.given, told.ready) == (0, 0, 6)
    assert assign(bench, "g", (lease, 2)).given == 4
    assert assign(bench, "g", (lease, 4)).given == 4  # it takes nothing while the queue is paused
    bench.ask(calls.Pause("q", False))
    assert assign(bench, "g", (lease, 4), 2).given == 6
    assert bench.ask(calls.Purge("q")) == Changed(4)
    status = bench.ask(calls.Describe("q"))
    assert (status.assigned, status.done, status.ready) == (2, 4, 0)
    assert positions(locate(bench, "g", lease, 4, 6)) == [4, 5]


def test_there_is_room_as_soon_as_a_group_is_past_something():
    bench = filled(4, items_max=4)
    lease = begin(bench)
    assert bench.put(b"a", b"b", patience=10**12) is None
    assert assign(bench, "g", (lease, 1)).given == 4
    assert bench.state.tails[0] == 4
    assert assign(bench, "g", (lease, 2)).given == 4
    assert bench.state.tails[0] == 6


# --- who reads ------------------------------------------------------------------------------------


def refusal(told):
    assert isinstance(told, Declined), told
    return told.error


def test_who_knows_less_than_the_group_is_done_with_is_refused_and_changes_nothing():
    bench = filled(10, nodes=3)
    lease = begin(bench, most=4)
    assert assign(bench, "g", (lease, 4), 3).given == 7
    for leader, term in (("n1", 0), ("n2", 2)):
        if term:
            bench.leads(leader, term)
        for old in (
            *(assign(bench, "g", (lease, done), 3) for done in (0, 1, 3)),
            locate(bench, "g", lease, 0, 4),
            locate(bench, "g", lease, 3, 7),
        ):
            assert refusal(old) == "GroupHeld"
            assert "is done with 4 items" in old.text
        assert assign(bench, "g", (lease, 4), 3).given == 7
        assert positions(locate(bench, "g", lease, 4, 7)) == [4, 5, 6]
        assert bench.state.done == 4


def test_whoever_has_read_something_is_not_pushed_aside_though_nothing_is_done_yet():
    bench = filled(10, nodes=3)
    first = begin(bench, most=4)
    second = begin(bench, most=4, reader="r2")  # nobody has read
    assert first != second
    assert refusal(locate(bench, "g", first, 0, 4)) == "LeaseLost"
    assert positions(locate(bench, "g", second, 0, 4)) == [0, 1, 2, 3]
    for leader, term in (("n1", 0), ("n2", 2)):
        if term:
            bench.leads(leader, term)
        held = assign(bench, "g", (0, 0), 4, reader="r3")
        assert refusal(held) == "GroupHeld"
        assert "at work on 4 items" in held.text
        again = assign(bench, "g", (0, 0), 4, reader="r2")  # asked again: the answer was lost
        assert (again.lease, again.given, again.located) == (second, 4, 4)


def test_how_far_a_group_was_located_is_safe_before_it_is_told_where():
    bench = filled(10)
    lease = begin(bench, most=4)
    bench.dumb = {"n1"}
    assert locate(bench, "g", lease, 0, 3) is None
    assert flushed(bench).groups.named("g").located == 0
    bench.dumb = set()
    bench.run()
    locate(bench, "g", lease, 0, 1)  # as a task that is run again
    assert assign(bench, "g", (lease, 0)).located == 3
    assert flushed(bench).groups.named("g").located == 3


def test_who_does_not_know_the_lease_is_refused():
    bench = filled(10)
    lease = begin(bench, most=4)
    for told in (
        assign(bench, "g", (lease + 1, 4)),
        assign(bench, "h", (lease, 0)),
        assign(bench, "g", (lease, 5)),
        locate(bench, "g", lease + 1, 0, 4),
        locate(bench, "h", lease, 0, 4),
        locate(bench, "g", lease, 0, 5),
    ):
        assert refusal(told) == "LeaseLost"
    assert bench.state.done == 0


def test_what_a_released_group_held_is_ready_in_the_same_step():
    bench = filled(10)
    lease = begin(bench, most=4)
    assign(bench, "g", (lease, 1))
    operation = bench.begin(calls.ReleaseGroup("q", "g"))
    bench.run()
    assert bench.told[operation] == Changed(3)
    assert list(flushed(bench).ready) == [Interval(1, 10)]
    assert refusal(assign(bench, "g", (lease, 1))) == "LeaseLost"
    assert release(bench, "g") == Changed(0)


def test_a_release_that_is_asked_again_does_not_end_the_group_that_began_since():
    bench = filled(10)
    begin(bench, most=4)
    operation = bench.begin(calls.ReleaseGroup("q", "g"))
    bench.run()
    lease = begin(bench, most=4, reader="r2")
    bench._numbers = operation.number - 1
    assert release(bench, "g") == Changed(4)
    assert assign(bench, "g", (lease, 0)).given == 4


def test_there_are_so_many_groups():
    bench = filled(10, limits=msgspec.structs.replace(LIMITS, groups=2))
    for name in "ab":
        assert begin(bench, name, 1)
    told = assign(bench, "c", (0, 0))
    assert (refusal(told), "has 2 groups already" in told.text) == ("Full", True)


def test_one_user_leaves_groups_to_others():
    bench = filled(40, limits=msgspec.structs.replace(LIMITS, groups=10))
    for at in range(8):
        assert begin(bench, f"mallory/{at}", 1)
    assert refusal(assign(bench, "mallory/8", (0, 0))) == "Full"
    assert begin(bench, "ann/a", 1)
    assert begin(bench, "an-admin", 1)
    assert refusal(assign(bench, "bob/b", (0, 0))) == "Full"
    release(bench, "mallory/3")
    assert begin(bench, "bob/b", 1)


# --- what is lost ---------------------------------------------------------------------------------


def test_what_is_lost_stays_in_the_count_and_the_others_keep_their_numbers():
    bench = filled(10)
    lease = begin(bench, most=8)
    bench.state.lose(Interval(2, 5))
    assert assign(bench, "g", (lease, 0)).given == 8
    located = locate(bench, "g", lease, 0, 8)
    assert (positions(located), located.lost) == ([0, 1, 5, 6, 7], 3)
    located = locate(bench, "g", lease, 3, 6)
    assert (positions(located), located.lost) == ([5], 2)
    assert assign(bench, "g", (lease, 4), 0).given == 8
    assert (bench.state.done, bench.state.lost) == (2, 3)
    bench.state.lose(Interval(0, 10))
    located = locate(bench, "g", lease, 4, 8)
    assert (positions(located), located.lost) == ([], 4)
    assert release(bench, "g") == Changed(0)
    assert bench.state.ready.total == 0


# --- how much -------------------------------------------------------------------------------------


def test_limits_in_items_bytes_and_positions():
    bench = filled(10)  # ten bytes each
    assert assign(bench, "a", (0, 0), 0).lease == 0
    assert len(bench.state.groups) == 0
    assert assign(bench, "a", (0, 0), 3).given == 3
    assert assign(bench, "b", (0, 0), bytes_max=20).given == 2
    assert assign(bench, "c", (0, 0), bytes_max=1).given == 1
    told = assign(bench, "d", (0, 0), below=(6,))
    assert (told.lease, told.given, told.ready) == (0, 0, 4)
    assert assign(bench, "d", (0, 0), below=(8,)).given == 2
    assert list(bench.state.ready) == [Interval(8, 10)]


def test_an_assignment_lies_in_so_many_pieces_at_most():
    bench = filled(10, limits=msgspec.structs.replace(LIMITS, group_pieces=3))
    for start in range(0, 10, 2):
        bench.state.lose(Interval(start, start + 1))
    assert assign(bench, "g", (0, 0)).given == 3


def test_a_survey_tells_of_so_many_and_goes_on_from_there():
    bench = filled(10, limits=msgspec.structs.replace(LIMITS, surveyed=4))
    bench.state.lose(Interval(1, 3))
    found, start = [], 0
    while (told := bench.ask(calls.Survey("q", start, 1_000_000))).spans:
        found += positions(told)
        start = found[-1] + 1
    assert found == [0, *range(3, 10)]
    assert bench.state.ready.total == 8


def test_where_too_many_items_lie_fits_no_answer():
    bench = filled(10, limits=msgspec.structs.replace(LIMITS, answer_bytes=120))
    bench.state.lose(Interval(4, 5))
    lease = begin(bench)
    assert refusal(locate(bench, "g", lease, 0, 9)) == "TooLarge"
    assert positions(locate(bench, "g", lease, 0, 4)) == [0, 1, 2, 3]


# --- bodies ---------------------------------------------------------------------------------------


def fetched(bench, span, node, bytes_max=MANY):
    told = bench.ask(Fetch("q", span, bytes_max), node)
    assert isinstance(told, Fetched), told
    return told


def spanned(nodes=3, count=3):
    """A queue of some puts in one span, with nothing at hand."""
    bench = Bench(nodes)
    for number in range(count):
        bench.put(f"{number}a".encode(), f"{number}b".encode())
    bench.later()
    lease = begin(bench)
    (span,) = locate(bench, "g", lease, 0, 2 * count).spans
    bench.forget()
    return bench, span


@pytest.mark.parametrize("node", ["n1", "n2", "n3"])
def test_a_span_is_read_at_each_who_has_a_copy(node):
    bench, span = spanned()
    assert [place.node for place in span.keepers] == ["n1", "n2", "n3"]
    bench.away = {"n1", "n2", "n3"} - {node}
    told = fetched(bench, span, node)
    assert values(told.parts) == ["0a", "0b", "1a", "1b", "2a", "2b"]
    part = msgspec.structs.replace(span, start=1, stop=4, first=1)
    assert values(fetched(bench, part, node).parts) == ["0b", "1a", "1b"]


def test_as_much_comes_as_is_asked_for_and_one_item_at_least():
    bench, span = spanned()
    told = fetched(bench, span, "n2", 1)
    assert [(part.start, part.count) for part in told.parts] == [(0, 2)]


def test_who_is_no_keeper_says_so():
    bench, span = spanned()
    strange = msgspec.structs.replace(span, stream="block/ffffffffffffffffffff/1", keepers=())
    told = bench.ask(Fetch("q", strange, MANY), "n2")
    assert refusal(told) == "Unavailable"
    told = bench.ask(Fetch("other", span, MANY), "n2")
    assert told.gone == 6


def test_what_stood_there_in_another_term_is_not_given():
    bench, span = spanned()
    other = msgspec.structs.replace(span, stream=span.stream[:-1] + "7")
    assert (fetched(bench, other, "n2").gone, fetched(bench, other, "n2").parts) == (6, ())


def test_what_can_not_be_read_is_told_and_the_leader_brings_it_back():
    bench, span = spanned()
    body = bench.one.bodies[1]
    for node in ("n1", "n2"):
        bench.nodes[node].hurt[body] = None
        told = fetched(bench, span, node)
        assert (values(told.parts), told.damaged) == (["0a", "0b"], 2)
    assert body not in bench.one.hurt
    assert values(fetched(bench, span, "n1").parts)[2:4] == ["1a", "1b"]
    del bench.nodes["n3"].disk[body]
    rest = msgspec.structs.replace(span, start=2, first=2)
    assert fetched(bench, rest, "n3").gone == 2


def test_what_no_copy_has_is_lost_and_a_group_is_told_so():
    bench, span = spanned()
    body = bench.one.bodies[1]
    for one in bench.nodes.values():
        one.hurt[body] = None
    fetched(bench, span, "n1")
    bench.later()
    (group,) = bench.ask(calls.ListGroups("q")).groups
    located = locate(bench, "g", group.lease, 0, 6)
    assert (positions(located), located.lost) == ([0, 1, 4, 5], 2)


# --- all of it together ---------------------------------------------------------------------------


class Play:
    """Groups, consumers, losses and other leaders, in any order; what was told must stay true."""

    def __init__(self, seed):
        self.chance = Random(seed)
        self.bench = Bench(3)
        self.terms = 1
        self.marks = {}
        self.given = {}
        self.owners = {}
        self.lost = {}

    def step(self):
        acts = [self.put, self.advance, self.advance, self.advance, self.get]
        acts += [self.release, self.lose, self.other_leader, self.unsafe]
        self.chance.choice(acts)()
        self.bench.later()
        self.bench.one.machine.check()
        for name in self.marks:
            self.look(name)

    def put(self):
        self.bench.put(*[b"x"] * self.chance.randrange(1, 9))

    def advance(self):
        name = self.chance.choice("gh")
        lease, done = self.marks.get(name, (0, 0))
        told = assign(self.bench, name, (lease, done), self.chance.randrange(9))
        held = self.given.setdefault(name, {})
        count = max(held, default=-1) + 1
        if told.given > count:
            group = self.bench.state.groups.named(name)
            new = [where for piece in group.held for where in piece]
            for number, where in enumerate(new, start=told.given - len(new)):
                assert where not in self.owners, f"{where} was given to {self.owners[where]}"
                self.owners[where] = name
                held[number] = where
        for number, where in held.items():
            assert number >= done or where not in self.bench.state.batches.live
        if told.lease:
            self.marks[name] = told.lease, self.chance.randrange(done, told.given + 1)

    def look(self, name):
        """What the group holds is what it was told, but for what is lost."""
        group = self.bench.state.groups.named(name)
        held = self.given[name]
        told = locate(self.bench, name, self.marks[name][0], group.done, group.given)
        wanted = [held[number] for number in range(group.done, group.given)]
        assert positions(told) == [where for where in wanted if where not in self.lost]

    def get(self):
        """A consumer takes some, and acknowledges them."""
        got = self.bench.ask(calls.Get("q", self.chance.randrange(1, 5), MANY, 0))
        some = [where for one in got.parts for where in range(one.start, one.start + one.count)]
        for where in some:
            assert where not in self.owners, f"{where} was given to {self.owners[where]}"
            self.owners[where] = "a consumer"
        if some:
            done = tuple(Interval(where, where + 1) for where in some)
            assert self.bench.ask(calls.Settle("q", got.token, done)).left == 0

    def lose(self):
        if self.bench.state.tails[0]:
            where = self.chance.randrange(self.bench.state.tails[0])
            self.bench.state.lose(Interval(where, where + 1))
            self.lost[where] = None
            self.bench.ask(calls.ListGroups("q"))

    def release(self):
        if self.chance.random() < 0.3 and self.marks:
            name = self.chance.choice(list(self.marks))
            release(self.bench, name)
            del self.marks[name]
            for where in self.given.pop(name).values():
                if where in self.bench.state.batches.live:
                    del self.owners[where]

    def other_leader(self):
        self.terms += 1
        self.bench.leads(self.chance.choice(("n1", "n2", "n3")), self.terms)

    def unsafe(self):
        """Something is asked, and nobody else has heard of it when another leads."""
        name = self.chance.choice("gh")
        lease, done = self.marks.get(name, (0, 0))
        leader = self.bench.leader_id
        self.bench.away = {"n1", "n2", "n3"} - {leader}
        assert assign(self.bench, name, (lease, done), 5) is None
        self.bench.away = {leader}
        others = sorted({"n1", "n2", "n3"} - {leader})
        self.terms += 1
        self.bench.leads(self.chance.choice(others), self.terms)
        self.bench.away = set()


@pytest.mark.parametrize("seed", range(30))
def test_what_was_told_stays_true_whatever_happens(seed):
    play = Play(seed)
    play.put()
    for _ in range(40):
        play.step()
    assert play.owners
