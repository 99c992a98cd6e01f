"""A queue beside one that is a list in plain Python: whatever is asked, both say the same."""

from itertools import count
from random import Random
from typing import Any

import msgspec
import pytest
from priority_bench import Nodes, bodies
from test_seap_nodes import SMALL

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.instant import SECOND, seconds
from snowmelt.core.keys import packed
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.batches import Shares, union
from snowmelt.protocols.priority.limits import LIMITS
from snowmelt.protocols.priority.settings import ANY

LEASE = 10.0
DEADLY = 3
"""Failed deliveries."""
SLACK = 1.5
"""So near to an end nobody asks, since either answer would be right."""
DELAY = 4.0
WORDS: dict[str, tuple[str, dict[str, Any]]] = {
    "done": ("done", {}),
    "back": ("back", {}),
    "delayed": ("back", {"delay": seconds(DELAY)}),
    "failed": ("back", {"reason": "it failed"}),
    "dead": ("back", {"reason": "for good", "dead": True}),
    "renew": ("renew", {}),
}
"""What may be said of a lease, and how."""
FEW = msgspec.structs.replace(SMALL, least=1)


class Item:
    """One element, as the list has it."""

    def __init__(self, number: int, priority: int) -> None:
        self.number = number
        self.priority = priority
        self.state = "ready"
        self.failures = 0
        self.lease = 0
        """Which lease it is of, or was last."""
        self.done_in = 0
        """In which view it was acknowledged; 0 when it was removed."""
        self.expired = False
        """Whether its last lease ended by time: nobody writes that down before it is got again."""
        self.surely = self.surely_not = 0.0
        """Until then it is leased, or held, and from then on not."""


class Lease:
    """What was got at once."""

    def __init__(self, number: int, token: int, pieces: list[tuple[Shares, list[Item]]]) -> None:
        self.number = number
        self.token = token
        self.pieces = pieces


class Beside:
    """The nodes, and the list."""

    def __init__(self, seed: int, nodes: int, replicas: int, *, keyed: bool, small: bool) -> None:
        self.dice = Random(f"{seed} {nodes} {replicas} {keyed} {small}")
        self.keyed = keyed
        self.largest_first = self.dice.random() < 0.3
        self.nodes = Nodes(nodes, FEW if small else LIMITS)
        self.nodes.open(
            "n1",
            priorities=ANY if keyed else 4,
            replicas=replicas,
            largest_first=self.largest_first,
            lease=seconds(LEASE),
            deliveries_max=DEADLY,
        )
        self.names = [f"n{at}" for at in range(1, nodes + 1)]
        self.copies = replicas >= nodes > 1
        self.items: list[Item] = []
        self.leases: list[Lease] = []
        self.numbers = count(1)
        self.views = 1

    # --- the list ---------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.nodes.now / SECOND

    @property
    def node(self) -> str:
        return self.dice.choice(self.names)

    def rank(self, item: Item) -> tuple[int, int]:
        return -item.priority if self.largest_first else item.priority, item.number

    def of(self, state: str) -> list[Item]:
        return sorted([one for one in self.items if one.state == state], key=self.rank)

    def settled_by_time(self) -> None:
        """Leases and delays that are over; the clock goes on where one may be, or may not."""
        while True:
            for item in self.items:
                if item.state in ("leased", "held") and self.now >= item.surely_not:
                    if item.state == "leased":
                        self.failed(item)
                        item.expired = True
                    else:
                        item.state = "ready"
            near = [
                one.surely_not
                for one in self.items
                if one.state in ("leased", "held") and self.now >= one.surely
            ]
            if not near:
                return
            self.nodes.pass_time(max(near) - self.now + 0.01)

    def failed(self, item: Item) -> None:
        item.failures += 1
        item.state = "dead" if item.failures >= DEADLY else "ready"

    def until(self, item: Item, state: str, length: float) -> None:
        item.state, item.expired = state, False
        item.surely = self.now + length - SLACK
        item.surely_not = self.now + length + SLACK

    # --- what is asked of both --------------------------------------------------------------------

    def put(self) -> None:
        drawn = [self.dice.choice((0, 1, 2, 3)) for _ in range(self.dice.choice((1, 2, 5, 12)))]
        if self.keyed:
            drawn = [self.dice.choice((one, self.dice.randrange(50) - 20)) for one in drawn]
        else:
            drawn.sort()
        new = [Item(next(self.numbers), one) for one in drawn]
        options: dict[str, Any] = {}
        if self.dice.random() < 0.1:
            options["delay"] = seconds(5)
        node = self.node
        if self.keyed:
            batch = Bodies.of([b"%d" % one.number for one in new])
            keys = packed([one.priority for one in new])
            parts = (calls.Part(0, bytes(batch.offsets), bytes(batch.blob), keys),)
            done = self.nodes.call(node, calls.Put("jobs", self.nodes.via(node), parts, **options))
        else:
            pairs = [(one.priority, b"%d" % one.number) for one in new]
            done = self.nodes.call(node, self.nodes.put_call(node, *pairs, **options))
        assert isinstance(done, calls.PutDone), done
        self.items += new
        if "delay" in options:
            for item in new:
                self.until(item, "held", 5)

    def get(self) -> None:
        most = self.dice.choice((1, 1, 3, 8, 40))
        node = self.node
        gathered = self.keyed and self.dice.random() < 0.7
        call = calls.Get("jobs", self.nodes.via(node), most, seconds(0), gathered=gathered)
        leased = self.nodes.call(node, call)
        assert isinstance(leased, calls.Leased), leased
        expected = self.of("ready")[:most]
        assert [int(body) for body in self.seen(leased)] == [one.number for one in expected]
        if not expected:
            return
        number = next(self.numbers)
        by_number = {one.number: one for one in expected}
        pieces = []
        for piece in leased.pieces:
            theirs = [by_number[int(bytes(one))] for one in Bodies(piece.offsets, piece.blob)]
            pieces.append(((piece.share,), theirs))
        for item in expected:
            item.lease = number
            self.until(item, "leased", LEASE)
        self.leases.append(Lease(number, leased.token, pieces))

    def seen(self, told: Any) -> list[bytes]:
        found = bodies(told)
        if self.keyed and self.largest_first:
            by_number = {one.number: one for one in self.items}
            found.sort(key=lambda body: self.rank(by_number[int(body)]))
        return found

    def settle(self) -> None:
        if not self.leases:
            return
        lease, word = self.dice.choice(self.leases), self.dice.choice([*WORDS, "done"])
        pieces = lease.pieces
        if len(pieces) > 1 and self.dice.random() < 0.4 and word != "renew":  # which is of all
            pieces = self.dice.sample(pieces, self.dice.randrange(1, len(pieces)))
        held = [[self.holds(lease, one) for one in items] for _, items in pieces]
        receipt = calls.Receipt(lease.token, union([one for shares, _ in pieces for one in shares]))
        field, options = WORDS[word]
        told = self.nodes.settle(self.node, **{field: (receipt,)}, **options)
        assert isinstance(told, calls.Settled), told
        known = [{self.is_known(lease, one, word) for one in items} for _, items in pieces]
        if all(one in ({True}, {False}) for one in known):
            lost = [piece for piece, one in zip(pieces, known, strict=True) if one == {False}]
            named = [one for each in told.lost for one in each.shares]
            assert union(named) == union([one for shares, _ in lost for one in shares])
        for _, items in pieces:
            for item in items:
                if self.holds(lease, item):
                    self.becomes(item, word)
        if not all(all(one) for one in held) and self.dice.random() < 0.7:
            self.leases.remove(lease)

    def holds(self, lease: Lease, item: Item) -> bool:
        return item.state == "leased" and item.lease == lease.number

    def is_known(self, lease: Lease, item: Item, word: str) -> bool | None:
        """Whether what is said is not said to be of what is lost; None if it may be."""
        if item.state == "done" and item.lease == lease.number and word in ("done", "renew"):
            return True if item.done_in == self.views else None
        return self.holds(lease, item)

    def becomes(self, item: Item, word: str) -> None:
        """What is said of it is so."""
        match word:
            case "renew":
                self.until(item, "leased", LEASE)
            case "delayed":
                self.until(item, "held", DELAY)
            case "failed":
                self.failed(item)
            case "dead":
                item.failures += 1
                item.state = "dead"
            case "done":
                item.state, item.done_in = "done", self.views
            case _:
                item.state = "ready"

    def look(self) -> None:
        most = self.dice.choice((1, 5, 30))
        if self.keyed:  # a phase begins with what it shows
            most = min(most, self.nodes.limits.least)
        peeked = self.nodes.call(self.node, calls.Peek("jobs", most))
        assert [int(one) for one in self.seen(peeked)] == [
            one.number for one in self.of("ready")[:most]
        ]
        ready = self.of("ready")
        if ready:
            rank = self.dice.randrange(len(ready))
            shown = self.nodes.call(self.node, calls.Select("jobs", rank + 1))
            assert [int(one) for one in self.seen(shown)] == [ready[rank].number]

    def counts(self) -> None:
        told = self.nodes.call(self.node, calls.Statistics("jobs"))
        assert sum(one.count for one in told.ready) == len(self.of("ready"))
        found = (told.leased, told.held, told.dead)
        assert found == tuple(len(self.of(one)) for one in ("leased", "held", "dead"))

    def purge(self) -> None:
        dead, node = self.dice.random() < 0.5, self.node
        told = self.nodes.call(node, calls.Purge("jobs", self.nodes.via(node), dead))
        gone = self.of("dead" if dead else "ready")
        assert told == calls.Counted(len(gone))
        for item in gone:
            item.state = "done"

    def redrive(self) -> None:
        node = self.node
        told = self.nodes.call(node, calls.Redrive("jobs", self.nodes.via(node)))
        dead = self.of("dead")
        assert told == calls.Counted(len(dead))
        for item in dead:
            item.state, item.failures = "ready", 0

    def wait(self) -> None:
        self.nodes.pass_time(self.dice.choice((0.1, 2, 6, 15)))

    def new_view(self) -> None:
        """A node begins again; the others go on without it meanwhile, where they can."""
        away = self.node
        self.nodes.stop(away)
        if self.copies and self.dice.random() < 0.5:
            self.names.remove(away)
            self.view(self.names)
            for _ in range(self.dice.randrange(4)):
                self.step()
            self.names.append(away)
        self.nodes.restart(away)
        self.view(self.names)

    def view(self, names: list[str]) -> None:
        """Whoever holds a lease has all of its time again to say so."""
        self.views += 1
        self.nodes.view(*self.dice.sample(names, len(names)))
        self.nodes.pass_time(0.5)
        for item in self.items:
            if item.state == "leased":
                item.surely_not = max(item.surely_not, self.now + LEASE + SLACK)

    def step(self) -> None:
        self.settled_by_time()
        asked = self.dice.choices(
            (self.put, self.get, self.settle, self.look, self.counts, self.wait),
            (5, 6, 6, 2, 2, 2),
        )[0]
        if self.dice.random() < 0.06:
            asked = self.dice.choice((self.purge, self.redrive))
        asked()


@pytest.mark.parametrize("keyed", [False, True], ids=["numbered", "any"])
@pytest.mark.parametrize("small", [False, True], ids=["", "small"])
@pytest.mark.parametrize(("nodes", "replicas"), [(1, 1), (3, 1), (3, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_a_queue_is_what_a_list_would_be(
    seed: int, nodes: int, replicas: int, *, small: bool, keyed: bool
) -> None:
    beside = Beside(seed, nodes, replicas, keyed=keyed, small=small)
    for _ in range(120):
        beside.step()
        if beside.dice.random() < 0.04:
            beside.settled_by_time()
            if not any(one.expired for one in beside.items):
                beside.new_view()
