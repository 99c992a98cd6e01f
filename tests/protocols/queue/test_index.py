"""The index of what is ready by keys: as a sorted list would have it."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from snowmelt.protocols.queue import index as module
from snowmelt.protocols.queue.index import Index

KEYS = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.index, self.model, self.out, self.next = Index(), [], [], 0

    @rule(keys=st.lists(KEYS, min_size=1, max_size=30))
    def put(self, keys):
        entries = [(key, self.next + at) for at, key in enumerate(keys)]
        self.next += len(keys)
        self.model = sorted([*self.model, *entries])
        self.index.add(entries)

    @rule(count=st.integers(0, 40))
    def look(self, count):
        assert self.index.first(count) == self.model[:count]

    @rule(count=st.integers(0, 40))
    def take(self, count):
        taken = self.index.first(count)
        assert taken == self.model[:count]
        self.index.remove(taken)
        del self.model[:count]
        self.out += taken

    @rule(picks=st.lists(st.integers(0, 200), max_size=20))
    def take_any(self, picks):
        taken = list(dict.fromkeys(self.model[at % len(self.model)] for at in picks if self.model))
        self.index.remove(taken)
        self.model = [one for one in self.model if one not in taken]
        self.out += taken

    @rule(picks=st.lists(st.integers(0, 200), max_size=20))
    def give_back(self, picks):
        back = list(dict.fromkeys(self.out[at % len(self.out)] for at in picks if self.out))
        self.out = [one for one in self.out if one not in back]
        self.model = sorted([*self.model, *back])
        self.index.add(back)

    @invariant()
    def is_the_same(self):
        assert self.index.total == len(self.model)
        assert list(self.index) == self.model


class SmallRuns(Machine):
    """Runs of a few entries are full soon."""

    def __init__(self):
        super().__init__()
        module.RUN = 8

    def teardown(self):
        module.RUN = 4_096


TestIndex = Machine.TestCase
TestIndex.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)
TestSmallRuns = SmallRuns.TestCase
TestSmallRuns.settings = TestIndex.settings
