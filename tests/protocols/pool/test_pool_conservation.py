"""A producer, two consumers, and a post that loses, doubles and shuffles.

Whatever happens, every object that was put is in the stock, on loan, or settled, and in one of them
only; and what a consumer was told to be settled never comes to anybody again.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pool_bench import PoolBench, bodies_of

from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.pool import calls

WHO = st.sampled_from(["c", "d"])
PICK = st.integers(0, 10**6)


class Conservation(RuleBasedStateMachine):
    spill = False

    def __init__(self):
        super().__init__()
        self.bench = PoolBench()
        self.producer = self.bench.add("p", buffers=10**6, lease=seconds(2), spill=self.spill)
        for name in ("c", "d"):
            self.bench.add(name, wait=seconds(1))
        self.bench.meet(self.producer)
        self.puts = []
        self.acks = {}
        self.done = {}
        self.seen = 0

    @rule(count=st.integers(1, 4))
    def put(self, count):
        made = [b"%d" % (len(self.puts) + n) for n in range(count)]
        self.puts += made
        self.producer.put(*made)

    @rule(who=WHO, count=st.integers(1, 5))
    def get(self, who, count):
        self.bench.processes[who].get(count, patience=seconds(5))

    @rule(who=WHO, pick=PICK, part=st.booleans(), how=st.sampled_from(["ack", "tell", "nack"]))
    def use(self, who, pick, part, how):
        process = self.bench.processes[who]
        gots = [one for one in process.told.values() if isinstance(one, calls.Got)]
        if not gots:
            return
        got = gots[pick % len(gots)]
        start = got.spans[0].start
        named = (Interval(start, start + 1),) if part else ()
        bodies = bodies_of(got)[:1] if part else bodies_of(got)
        if how == "nack":
            process.nack(got, *named)
        else:
            call = process.ack(got, *named, patience=seconds(4) if how == "ack" else 0)
            # What "all" means when a part was done before is the rest: only the parts are certain.
            if how == "ack" and part:
                self.acks[who, call] = bodies

    @rule(pick=PICK, fate=st.sampled_from(["hand", "hand", "hand", "drop", "double"]))
    def post(self, pick, fate):
        if not self.bench.post:
            return
        letter = self.bench.post.pop(pick % len(self.bench.post))
        for _ in range({"hand": 1, "drop": 0, "double": 2}[fate]):
            self.bench.hand(letter)

    @rule(refused=st.integers(0, 3))
    def flush(self, refused):
        self.producer.flush("full" if refused == 0 and not self._writing() else "")

    def _writing(self):
        """Whether a put is on its way; its refusal would be another story."""
        return self.producer.statistics.put < len(self.puts)

    @rule(span=st.sampled_from([0.1, 0.6, 1.5, 4.0]), quiet=st.booleans())
    def wait(self, span, quiet):
        self.bench.wait(span, between=None if quiet else lambda: None)

    @rule(who=WHO, lost=st.booleans())
    def way(self, who, lost):
        other = self.bench.processes[who]
        if lost:
            other.lost(self.producer)
            self.producer.lost(other)
        else:
            other.reached(self.producer)

    @invariant()
    def every_object_is_in_one_place(self):
        counted = self.producer.statistics
        assert counted.stock + counted.on_loan + counted.settled == counted.put

    @invariant()
    def what_is_done_comes_to_nobody(self):
        gots = [
            (bodies_of(one), one)
            for name in ("c", "d")
            for one in self.bench.processes[name].told.values()
            if isinstance(one, calls.Got)
        ]
        for (who, call), bodies in self.acks.items():
            if (who, call) in self.done:
                fresh = [b for found, one in gots for b in found if one not in self.done[who, call]]
                assert not [body for body in bodies if body in fresh], "it came again"
            elif self.bench.processes[who].told.get(call) == calls.Acked():
                self.done[who, call] = [one for _, one in gots]

    def teardown(self):
        """In quiet times everything comes to somebody, and is settled once."""
        for name in ("c", "d"):
            self.bench.processes[name].reached(self.producer)
        for _ in range(12):
            self.bench.wait(3, between=self._calm)
        for _ in range(len(self.puts) + 1):
            self.bench.wait(0, between=self._calm)
            call = self.bench.processes["c"].get(1000, patience=seconds(1))
            self.bench.wait(0.5, between=self._calm)
            got = self.bench.processes["c"].told.get(call)
            if got is None:
                break
            self.bench.processes["c"].ack(got)
            self.bench.wait(0.5, between=self._calm)
        counted = self.producer.statistics
        assert counted.stock == 0, counted

    def _calm(self):
        while self.bench.post or self.producer.asked:
            self.bench.deliver()
            self.producer.flush()


class OnDisk(Conservation):
    spill = True


LIMITS = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestInMemory = Conservation.TestCase
TestInMemory.settings = LIMITS
TestOnDisk = OnDisk.TestCase
TestOnDisk.settings = LIMITS
