"""Whatever happens to items with keys, and to settings: what may go on goes on, and records say it.

A walk does one thing after another to a state, as leaders and operators do. After each of them the
state's own check looks at every key, and now and then a state is made anew of the records.
"""

from random import Random

import pytest

from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.keys import packed
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.api.statuses import ChangeItem
from snowmelt.protocols.queue.leader.one_item import change_item
from snowmelt.protocols.queue.leader.retention import age_out
from snowmelt.protocols.queue.leader.settling import split_off
from snowmelt.protocols.queue.state import by_key, key_names
from snowmelt.protocols.queue.state.records import records, restored
from snowmelt.protocols.queue.state.state import Lease, QueueState
from snowmelt.protocols.queue.state.transactions import TransactionName
from wide import wide

MOST = 1 << 20


class Walk:
    """One state, and what is done to it."""

    def __init__(self, seed):
        self.dice = Random(seed)
        self.priorities = self.dice.choice((1, 1, 3, ANY))
        self.partitions = self.dice.choice((1, 1, 3)) if self.priorities == 1 else 1
        self.state = QueueState(self.settings())
        self.count, self.wall = 0, 100

    def settings(self):
        choice, alone = self.dice.choice, self.partitions == 1
        fair = choice((0, 1)) if alone else 0
        return QueueSettings(
            deliveries_max=3,
            priorities=self.priorities,
            partitions=self.partitions,
            in_order_by_key=choice((0, 1)),
            at_once_by_key=choice((0, 1, 2)),
            at_once=choice((0, 3 if alone else 9)),
            fair=fair,
            weights=((b"a", 3),) if fair and choice((0, 1)) else (),
            items_max=choice((0, 0, 30)),
        )

    def next(self):
        self.count += 1
        return OperationId(NodeId("c"), self.count)

    def some(self, intervals, share=0.8):
        return [one for one in intervals if self.dice.random() < share]

    def place(self, intervals):
        places = [place for one in intervals for place in one]
        return self.dice.choice(places) if places else None

    def lease(self):
        held = [token for token, one in self.state.leases.items() if one.promised is None]
        return self.dice.choice(held) if held else None

    # --- what is done -----------------------------------------------------------------------------

    def put(self):
        dice, count = self.dice, self.dice.randint(1, 4)
        keys = [dice.choice((None, b"", b"a", b"b", b"%d" % self.count)) for _ in range(count)]
        row = packed([dice.randrange(-5, 5) for _ in keys])
        self.count += 1
        self.state.put(
            count,
            10 * count,
            term=1,
            due=dice.choice((0, 0, self.wall + dice.randint(1, 30))),
            priority=row if self.priorities == ANY else dice.randrange(self.priorities),
            names=tuple(keys) if self.state.by_key else None,
        )

    def take(self):
        state, most = self.state, self.dice.randint(1, 6)
        if self.partitions > 1 and state.by_key is not None:
            places, _ = state.by_key.look(most, MOST)
            wanted = {*self.some(places), self.place(state.ready)} - {None}
            given = state.by_key.give([Interval(one, one + 1) for one in sorted(wanted)])
            found = list(IntervalSet([Interval(one, one + 1) for one in given]))
        else:
            before = self.place(state.batches.live) if self.dice.random() < 0.1 else None
            found = state.first(
                most,
                self.dice.choice((15, MOST)),
                before=-1 if before is None else before,
                together=self.partitions == 1 and self.dice.random() < 0.3,
            )
        if found:
            operation = self.next()
            state.take(operation, self.count, found)

    def settle(self):
        if (token := self.lease()) is not None:
            self.state.settle(token, self.some(self.state.leases[token].left))

    def back(self):
        if (token := self.lease()) is not None:
            self.state.give_back(
                self.next(),
                token,
                self.some(self.state.leases[token].left),
                due=self.dice.choice((0, 0, self.wall + 20)),
                reason=self.dice.choice(("", "no")),
                dead=self.dice.random() < 0.2,
            )

    def expire(self):
        if (token := self.lease()) is not None:
            self.state.expire(token)

    def extend_alone(self):
        token = self.lease()
        if token is not None and self.state.leases[token].left.total > 1:
            first, _ = next(iter(self.state.leases[token].left)).split(1)
            self.next()
            split_off(self.state, token, (first,), self.count)

    def promise(self):
        state, token = self.state, self.lease()
        if token is None or token in state.pieces or state.leases[token].of:
            return
        name, left = TransactionName("home", "p", self.count), state.leases[token].left
        state.leases[token].left = IntervalSet()
        state.end_lease(token)
        operation = self.next()
        state.leases[self.count] = Lease(operation, left, promised=name)
        state.tokens[operation] = self.count
        state.transactions.promise(name, self.count)
        state.touch(self.count)

    def decide(self):
        state = self.state
        for name in list(state.transactions.promised)[:1]:
            for token in state.transactions.promised.pop(name):
                if token in state.leases and self.dice.random() < 0.5:
                    state.settle(token, list(state.leases[token].left))
                elif token in state.leases:
                    state.expire(token, "")

    def change(self):
        place = self.place(self.state.batches.live)
        if place is not None:
            ask = ChangeItem("q", place, self.dice.random() < 0.3)
            change_item(self.state, self.next(), ask)

    def redrive(self):
        self.state.redrive(self.dice.randint(1, 5))

    def purge(self):
        if self.dice.random() < 0.3:
            self.state.purge(dead=self.dice.random() < 0.5, held=self.dice.random() < 0.4)

    def age(self):
        if self.dice.random() < 0.4:
            age_out(self.state, [Interval(0, self.dice.randint(1, 40))], self.dice.randint(1, 9))

    def lose(self):
        place = self.place(self.state.batches.live) if self.dice.random() < 0.3 else None
        if place is not None:
            self.state.lose(Interval(place, place + self.dice.randint(1, 3)))

    def wake(self):
        self.wall += self.dice.randint(1, 25)
        self.state.wake(self.wall)

    def alter(self):
        self.state = restored(self.settings(), records(self.state))

    def fail_over(self):
        before = records(self.state)
        self.state = restored(self.state.settings, before)
        assert records(self.state) == before


DOES = (
    Walk.put, Walk.put, Walk.take, Walk.take, Walk.take, Walk.settle, Walk.back, Walk.back,
    Walk.expire, Walk.extend_alone, Walk.promise, Walk.decide, Walk.change, Walk.redrive,
    Walk.purge, Walk.age, Walk.lose, Walk.wake, Walk.alter, Walk.alter, Walk.fail_over,
)  # fmt: skip


# 9, 110, 130: what came back stood behind a more urgent one of its key, which went on no more.
@pytest.mark.parametrize("seed", [*range(16), 110, 130, *wide(*range(131, 400))])
def test_after_each_thing_that_is_done_what_may_go_on_goes_on(seed, monkeypatch):
    dice = Random(f"{seed}/bounds")
    monkeypatch.setattr(by_key, "FRESH_MAX", dice.choice((2, 1 << 16)))
    monkeypatch.setattr(key_names, "IDLE_MAX", dice.choice((1, 4_096)))
    monkeypatch.setattr(key_names, "PAGE", dice.choice((2, 32)))
    walk = Walk(seed)
    for _ in range(120):
        walk.dice.choice(DOES)(walk)
        walk.state.check()
