"""Bodies on data nodes: stored before they are admitted, read from there, copied anew, erased."""

import msgspec
import pytest
from alone import Alone
from cluster_bench import CLIENT, ClusterBench
from test_full_disk import FEW, small

from snowmelt.core.batch import Batch
from snowmelt.core.instant import later, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced, Received
from snowmelt.core.record import BULK
from snowmelt.protocols.calling import Gone
from snowmelt.protocols.membership import HandedOver, Leaving
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.messages import words
from snowmelt.protocols.queue.state.batches import SPREAD, parsed

MANY = 1 << 30


class Spread(ClusterBench):
    """Five nodes, and a queue of which all bodies lie on data nodes."""

    def __init__(self, count=5, **settings):
        super().__init__(count)
        kept = self.beside(**{"replicas": 2, "inline_max": 0} | settings)
        self.queue, self.leader, *others = kept
        self.follower = others[0] if others else ""

    def puts(self, node, number, within=3, size=0, hold=0):
        batch = Batch.of([b"item %d" % number + bytes(size)])
        offsets, blob = bytes(batch.offsets), bytes(batch.blob)
        return self.ask(node, calls.Put(self.queue, "p", number, offsets, blob, hold=hold), within)

    def gets(self, items=100):
        return self.get(self.leader, items, self.queue)

    def fetch(self, span, place):
        return self.ask(place.node, calls.Fetch(self.queue, span, MANY), 1)

    def read(self, leased):
        """What the spans of an answer have, from the first keeper that gives it."""
        found = []
        for span in leased.spans:
            told = [self.fetch(span, one) for one in span.keepers]
            parts = next(one.parts for one in told if one is not None and one.parts)
            assert [one.start for one in parts] == [span.start]
            found += [bytes(parts[0].blob).rstrip(b"\0").decode()]
        return found

    def done(self, leased):
        spans = tuple(Interval(one.start, one.stop) for one in leased.spans)
        return self.ask(self.leader, calls.Settle(self.queue, leased.token, spans))

    @property
    def held(self):
        """Whose bodies each node keeps, by its disk."""
        start = BULK + self.queue.encode() + b"\0"
        kept = {}
        for name, slot in self.slots.items():
            found = slot.disk.scan(start, start[:-1] + b"\1", 1 << 40)
            kept[name] = [parsed(one.key[len(start) :])[:2] for one in found]
        return {name: some for name, some in kept.items() if some}

    def gone_for_good(self, name):
        self.kill(name)
        self.view()
        self.born_anew(name)
        self.start(name)
        self.view()

    @property
    def state(self):
        return self.terms(self.leader).leaders[self.queue].state


def test_any_node_takes_it_and_the_leader_has_no_byte_of_it():
    bench = Spread()
    for number in range(20):
        door = f"n{1 + number % 5}"
        done = bench.puts(door, number, size=5_000)
        assert (done.start, done.stop, done.copies, done.flushed) == (number, number + 1, 2, True)
    assert sum(map(len, bench.held.values())) == 40
    assert len(bench.held) == 5
    steps = bench.messages("Append")
    assert steps
    assert not any(one.bodies for one in steps)
    leased = bench.gets()
    assert not leased.parts
    assert bench.read(leased) == [f"item {number}" for number in range(20)]
    assert bench.done(leased) == calls.Settled(0)
    bench.run(1)
    assert not bench.held


def test_it_is_stored_before_it_is_admitted():
    bench = Spread()
    for slot in bench.slots.values():
        slot.held = slot.name != bench.leader
    batch = Batch.of([b"a"])
    put = calls.Put(bench.queue, "p", 1, bytes(batch.offsets), bytes(batch.blob))
    bench.call("n1", put)
    bench.run(1)
    assert bench.state.tails[0] == 0
    for slot in bench.slots.values():
        slot.held = False
    bench.run(1)
    assert bench.state.tails[0] == 1
    assert bench.read(bench.gets()) == ["a"]


def test_a_put_that_is_asked_again_is_one():
    bench = Spread()
    first, again = bench.puts("n2", 7), bench.puts("n3", 7)
    assert (again.start, again.stop, again.repeated) == (first.start, first.stop, True)
    bench.run(12)
    assert sum(map(len, bench.held.values())) == 2


def test_small_ones_go_with_their_step():
    bench = Spread(inline_max=100)
    bench.puts("n2", 1)
    bench.puts("n2", 2, size=1_000)
    leased = bench.gets()
    assert [part.start for part in leased.parts] == [0]
    assert bench.read(leased) == ["item 2"]


def test_where_all_nodes_have_copies_all_go_with_their_step():
    bench = Spread(count=2)
    bench.puts("n2", 1)
    assert [part.start for part in bench.gets().parts] == [0]


def test_the_next_leader_and_data_nodes_that_began_anew_have_all_of_it():
    bench = Spread(replicas=3)
    for number in range(5):
        bench.puts("n1", number)
    bench.kill(bench.leader)
    bench.view()
    bench.run(3)
    bench.leader = bench.home(bench.queue).master.partition("/")[0]
    for name in bench.slots:
        if bench.slots[name].node is not None and name != "n1":
            bench.kill(name)
            bench.start(name)
    bench.view()
    bench.run(5)
    bench.leader = bench.home(bench.queue).master.partition("/")[0]
    leased = bench.gets()
    assert bench.read(leased) == [f"item {number}" for number in range(5)]
    bench.done(leased)
    assert bench.state.check() is None


def test_what_a_lost_disk_had_is_copied_anew():
    bench = Spread()
    for number in range(10):
        bench.puts("n1", number)
    victim = next(one for one in bench.held if one not in ("n1", bench.leader))
    bench.gone_for_good(victim)
    bench.run(8)
    assert sum(map(len, bench.held.values())) == 20
    leased = bench.gets()
    assert all(len(one.keepers) == 2 for one in leased.spans)
    assert bench.read(leased) == [f"item {number}" for number in range(10)]


def test_what_is_damaged_is_copied_anew():
    bench = Spread()
    bench.puts("n1", 1)
    [span] = bench.gets().spans
    hurt = span.keepers[0].node
    _damage(bench, hurt)
    told = bench.fetch(span, span.keepers[0])
    assert not told.parts
    assert told.damaged == 1
    bench.run(7)
    assert sorted(map(len, bench.held.values())) == [1, 1]
    lies = next(iter(bench.state.spread.held.values()))
    assert len(lies.nodes) == 2
    assert bench.fetch(span, span.keepers[1]).parts


def test_what_nobody_has_any_more_is_lost():
    bench = Spread(replicas=1)
    bench.puts("n1", 1)
    bench.puts("n1", 2)
    spans = bench.gets().spans
    _damage(bench, spans[0].keepers[0].node, spans[0].first)
    assert not bench.fetch(spans[0], spans[0].keepers[0]).parts
    bench.run(1)
    status = bench.ask(bench.leader, calls.Describe(bench.queue))
    assert (status.lost, status.leased) == (1, 1)


def test_what_lies_with_nodes_that_are_away_waits_for_them():
    bench = Spread(replicas=1)
    for number in range(12):
        bench.puts("n1", number)
    away = next(one for one in bench.held if one not in ("n1", bench.leader))
    count = len(bench.held[away])
    bench.kill(away)
    bench.view()
    leased = bench.gets()
    missing = [one for one in leased.spans if not one.keepers]
    assert len(missing) == count
    assert all(one.away for one in missing)
    assert not any(one.away for one in leased.spans if one.keepers)
    bench.run(90)
    assert bench.ask(bench.leader, calls.Describe(bench.queue)).lost == 0
    bench.start(away)
    bench.view()
    bench.run(1)
    assert len(bench.read(bench.gets())) == 12


def test_who_is_away_for_long_is_replaced():
    bench = Spread()
    for number in range(10):
        bench.puts("n1", number)
    away = next(one for one in bench.held if one not in ("n1", bench.leader))
    bench.kill(away)
    bench.view()
    bench.run(50)
    assert sum(len(some) for name, some in bench.held.items() if name != away) < 20
    bench.run(30)
    assert sum(len(some) for name, some in bench.held.items() if name != away) == 20


def test_what_was_never_admitted_is_erased():
    bench = Spread()
    bench.drops.append(lambda _source, _target, word: isinstance(word, words.BodyStored))
    batch = Batch.of([b"a"])
    put = calls.Put(bench.queue, "p", 1, bytes(batch.offsets), bytes(batch.blob))
    bench.call("n1", put)
    bench.run(1)
    assert sum(map(len, bench.held.values())) == 2
    bench._give(bench.slots[NodeId("n1")], Announced(Gone(CLIENT)))
    bench.drops.clear()
    bench.run(40)
    assert not bench.held
    assert bench.state.tails[0] == 0


def test_a_deposed_leader_has_nothing_erased():
    """It does not know what the next one let in."""
    bench = Spread(replicas=3)
    old = bench.leader
    others = [one for one in bench.slots if one != old]
    bench.drops.append(lambda source, target, word: old in (source, target) and _of_steps(word))
    bench.view(*others)
    bench.run(3)
    bench.leader = bench.home(bench.queue).master.partition("/")[0]
    assert bench.leader != old
    bench.puts("n1", 1)
    term = bench.terms(old).leaders[bench.queue].home.term
    for name, slot in bench.slots.items():
        for queue, held in slot.node._keeping._held.items():
            bench.receive(name, old, words.Spare(queue, term, f"{name}/1", tuple(held.values())))
    bench.run(5)
    assert sum(map(len, bench.held.values())) >= 2
    assert bench.read(bench.gets()) == ["item 1"]


def test_a_queue_larger_than_any_node():
    """A node has room for five bodies."""
    bench = Spread(replicas=1)
    small(bench, *bench.slots)
    for number in range(4 * FEW):
        assert bench.puts("n1", number, within=9).stop == number + 1
    assert max(map(len, bench.held.values())) == FEW
    assert len(bench.read(bench.gets())) == 4 * FEW


def test_who_has_no_room_is_replaced_and_none_left_is_refused():
    bench = Spread()
    full = next(name for name in bench.slots if name not in ("n1", bench.leader))
    small(bench, full)
    for number in range(20):
        assert bench.puts("n1", number).copies == 2
    assert len(bench.held[full]) <= FEW
    small(bench, *(name for name in bench.slots if name != bench.leader))
    last = [bench.puts("n1", number) for number in range(50, 60)]
    assert last[-1].error == "DiskFull"
    leased = bench.gets()
    assert len(bench.read(leased)) == 20 + sum(type(one) is calls.PutDone for one in last)
    bench.done(leased)
    bench.run(15)
    assert not bench.held
    assert bench.puts("n1", 100).copies == 2


LOST = pytest.mark.parametrize("lost", ["both", "there", "back"])


def cut(bench, lost, deaf):
    """Between the leader and this one."""
    there, back = (bench.leader, deaf), (deaf, bench.leader)
    links = {"both": (there, back), "there": (there,), "back": (back,)}[lost]
    bench.drops.append(lambda source, target, _: (source, target) in links)


def some_other(bench):
    return next(name for name in bench.slots if name not in ("n1", bench.leader, bench.follower))


@LOST
def test_who_is_never_heard_by_the_leader_is_passed_over(lost):
    """One put waits for it; later ones, and copies made anew, do not."""
    bench = Spread()
    deaf = some_other(bench)
    cut(bench, lost, deaf)
    waited = 0
    for number in range(20):
        began = bench.now
        assert isinstance(bench.puts("n1", number, within=9), calls.PutDone)
        waited += bench.now > later(began, seconds(1))
    assert waited == (lost != "there")
    leased = bench.gets()
    assert bench.read(leased) == [f"item {number}" for number in range(20)]


def test_who_is_heard_again_is_drawn_again():
    bench = Spread()
    deaf = some_other(bench)
    cut(bench, "both", deaf)
    for number in range(10):
        bench.puts("n1", number, within=9)
    bench.drops.clear()
    before = len(bench.held[deaf])
    bench.run(12)
    for number in range(10, 30):
        bench.puts("n1", number)
    assert len(bench.held[deaf]) > before


def test_who_stored_it_late_is_named_as_well_and_erases_it():
    bench = Spread()
    slow = bench.slots[NodeId(some_other(bench))]
    slow.held = True
    for number in range(10):
        assert isinstance(bench.puts("n1", number, within=9), calls.PutDone)
    slow.held = False
    bench.run(1)
    named = [len(lies.nodes) for lies in bench.state.spread.held.values()]
    assert max(named) == 3
    bench.done(bench.gets())
    bench.run(1)
    assert not bench.held


def test_with_too_few_that_are_heard_a_put_is_refused_and_they_are_named():
    bench = Spread(count=4)
    deaf = [name for name in bench.slots if name != bench.leader]
    kinds = words.BodyStored, words.Spare
    bench.drops.append(lambda source, _, word: source in deaf and isinstance(word, kinds))
    told = bench.puts("n1", 1, within=25)  # one after the other is tried
    assert told.error == "Unavailable"
    assert " and ".join(deaf) in told.text
    assert f"{bench.leader}, its leader, does not hear them" in told.text
    bench.drops.clear()
    assert isinstance(bench.puts("n1", 1), calls.PutDone)


def test_what_is_staged_lies_on_data_nodes_too():
    bench = Spread()
    receipt = bench.puts("n3", 1, hold=seconds(60))
    assert isinstance(receipt, calls.Receipt)
    assert not bench.gets().spans
    ask = calls.PublishStaged(bench.queue, "p", 5, (receipt,))
    assert bench.ask(bench.leader, ask).stop == 1
    leased = bench.gets()
    assert bench.read(leased) == ["item 1"]
    bench.done(leased)
    bench.run(1)
    assert not bench.held
    bench.puts("n3", 2, hold=seconds(5))
    bench.run(8)
    assert not bench.held


def test_each_priority_has_them_and_a_put_of_several_goes_with_its_step():
    bench = Spread(priorities=4)
    body = Batch.of([b"a", b"b"])
    blob, offsets = bytes(body.blob), bytes(body.offsets)
    for number, runs in enumerate([((3, 2),), ((1, 2),), ((0, 1), (2, 1))]):
        put = calls.Put(bench.queue, "p", number, offsets, blob)
        put = msgspec.structs.replace(put, runs=tuple(calls.PriorityRun(*one) for one in runs))
        assert bench.ask("n3", put, 3).stop
    leased = bench.gets()
    assert [bytes(one.blob) for one in leased.parts] == [b"a", b"b"]
    assert bench.read(leased) == ["ab", "ab"]
    assert leased.parts[0].start < leased.spans[0].start < leased.parts[1].start
    assert bench.done(leased) == calls.Settled(2)
    bench.run(1)
    assert all(place < SPREAD for some in bench.held.values() for place, _ in some)


def test_who_leaves_hands_its_bodies_over():
    bench = Spread(replicas=1)
    for number in range(12):
        bench.puts("n1", number)
    leaver = next(one for one in bench.held if one not in ("n1", bench.leader))
    slot = bench.slots[leaver]
    bench._give(slot, Announced(Leaving(bench.now + seconds(30))))
    bench.run(8)
    assert leaver not in bench.held
    assert slot.facts == [HandedOver("")]
    assert len(bench.read(bench.gets())) == 12


def test_a_full_queue_lets_it_in_when_there_is_room():
    bench = Spread(items_max=1)
    bench.puts("n1", 1)
    batch = Batch.of([b"b"])
    put = calls.Put(
        bench.queue, "p", 2, bytes(batch.offsets), bytes(batch.blob), patience=seconds(60)
    )
    asked = bench.call("n2", put)
    bench.run(20)
    assert asked not in bench.answers
    leased = bench.gets()
    bench.done(leased)
    bench.run(1)
    assert bench.answers[asked].start == 1
    assert bench.read(bench.gets()) == ["b"]
    refused = bench.puts("n2", 3)
    assert refused.error == "Full"
    bench.run(12)
    assert sum(map(len, bench.held.values())) == 2


def test_where_flushes_linger_bodies_are_erased_when_all_that_was_told_is_on_disks():
    bench = Spread(linger=seconds(1))
    bench.puts("n1", 1)
    bench.done(bench.gets())
    bench.run(1.5)
    assert bench.held
    bench.run(30)
    assert not bench.held


def _of_steps(word):
    return not isinstance(word, words.BodyStored)


def _damage(bench, name, first=None):
    slot = bench.slots[NodeId(name)]
    start = BULK + bench.queue.encode() + b"\0"
    for one in slot.disk.scan(start, start[:-1] + b"\1", 1 << 40):
        if first is None or parsed(one.key[len(start) :])[0] == first:
            slot.disk._values[one.key] = b"?", 0


def test_a_body_under_a_key_of_no_put_is_neither_kept_nor_passed_on():
    """One longer than any, of a member that lies, ended the node that was to pass it on."""
    other, leader = NodeId("n2"), NodeId("n3")
    for key in (b"", b"\xff" * 12, b"\xff" * 19, b"\xff" * 21, b"\xff" * 280):
        alone = Alone.of()
        store = words.StoreBody("q", 1, leader, words.Body(key, b"x"))
        alone.give(Received(other, store))
        alone.flush()
        alone.give(Received(leader, words.CopyBody("q", 1, key, other)))
        alone.flush()
        assert alone.node._keeping.bodies == 0
