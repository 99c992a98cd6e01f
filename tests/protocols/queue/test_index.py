"""The index of what is ready by keys: as a sorted list would have it."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from snowmelt.core.keys import packed
from snowmelt.protocols.queue.state import index as module
from snowmelt.protocols.queue.state.index import Index, entries_of

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

    @rule(keys=st.lists(KEYS, min_size=1, max_size=30), in_order=st.booleans())
    def put_row(self, keys, in_order):
        keys = sorted(keys) if in_order else keys
        self.model = sorted([*self.model, *entries_of(keys, self.next)])
        self.index.add_row(self.next, packed(keys))
        self.next += len(keys)

    @rule(rank=st.integers(-1, 200))
    def nth(self, rank):
        there = 1 <= rank <= len(self.model)
        assert self.index.nth(rank) == (self.model[rank - 1][1] if there else None)

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


SIZES = module.RUN, module.FEW, module.SAMPLE


class SmallRuns(Machine):
    """A few entries are a run."""

    def __init__(self):
        super().__init__()
        module.RUN, module.FEW, module.SAMPLE = 8, 3, 2

    def teardown(self):
        module.RUN, module.FEW, module.SAMPLE = SIZES


TestIndex = Machine.TestCase
TestIndex.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)
TestSmallRuns = SmallRuns.TestCase
TestSmallRuns.settings = TestIndex.settings


def test_what_comes_before_something_that_was_shown_costs_no_more_for_all_that_comes() -> None:
    index = Index()
    index.add([(10**9, 0)])
    assert index.first(1000) == [(10**9, 0)]
    for place in range(1, 5000):
        index.add([(-place, place)])
    index.add_row(5000, packed(range(1000)))
    assert index.first(2) == [(-4999, 4999), (-4998, 4998)]
    assert len(index._front) == 2, "the last one shown keeps nothing of the others in memory"
