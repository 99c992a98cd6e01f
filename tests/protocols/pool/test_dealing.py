"""Rule 10 of the pool: who is dealt whom, over rounds in which every consumer says what it has."""

from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.pool.dealing import Degrees, balance, deal
from snowmelt.protocols.pool.introductions import Introduce
from snowmelt.protocols.pool.roster import EVERY, PATIENCE, Roster

ADDRESS = Address("127.0.0.1", 4410)
COUNTS = st.integers(1, 25)
QUICK = settings(max_examples=60, deadline=None)


def consumer(number):
    return NodeId(f"c-consumer-{number}")


def producer(number):
    return NodeId(f"c-producer-{number}")


class Party:
    """A roster, and processes that speak in turn and believe what they are told."""

    def __init__(self, producers, fan_outs):
        self.now = Instant(0)
        self.roster = Roster("frames", 1, self.now)
        self.producers = list(map(producer, range(producers)))
        self.fan_outs = {consumer(one): fan_out for one, fan_out in enumerate(fan_outs)}
        self.hands = dict.fromkeys(self.fan_outs, ())
        self.versions = dict.fromkeys(self.fan_outs, 0)

    def settle(self):
        """Everybody has spoken, and the roster knows it."""
        self.round()
        self.now = later(self.now, PATIENCE)
        return self.rounds()

    def rounds(self):
        """Until nothing changes any more; how many rounds that took."""
        for count in range(100):
            before = dict(self.hands)
            self.round()
            if self.hands == before:
                return count
        raise AssertionError("the hands never rest")

    def round(self):
        for one in self.producers:
            self.roster.heard(one, word(produces=True), self.now)
        for one in self.fan_outs:
            self.speak(one)
        self.now = later(self.now, EVERY)

    def speak(self, one):
        said = word(fan_out=self.fan_outs[one], known=self.hands[one], version=self.versions[one])
        told = self.roster.heard(one, said, self.now)
        self.roster.check()
        self.versions[one] = told.version
        if told.producers is not None:
            kept = () if told.settled else set(self.hands[one]) - {x.id for x in told.producers}
            self.hands[one] = tuple(sorted({*told.known, *kept}))

    def leave(self, one):
        self.roster.leave(one)
        if one in self.fan_outs:
            del self.fan_outs[one], self.hands[one], self.versions[one]
        else:
            self.producers.remove(one)

    def degrees(self):
        counts = dict.fromkeys(self.producers, 0)
        for hand in self.hands.values():
            for one in hand:
                counts[one] += 1
        return sorted(counts.values())

    def size(self, one):
        """How many a consumer may know."""
        least = ceil(len(self.producers) / len(self.fan_outs))
        return min(max(self.fan_outs[one], least), len(self.producers))


def word(*, produces=False, fan_out=0, known=(), version=0):
    return Introduce(
        "frames",
        ADDRESS,
        "",
        produces,
        not produces,
        fan_out=fan_out,
        known=known,
        version=version,
    )


def changes(before, after):
    """How many acquaintances are new."""
    return sum(len(set(after[one]) - set(before.get(one, ()))) for one in after)


@QUICK
@given(COUNTS, st.lists(COUNTS, min_size=1, max_size=25))
def test_all_know_as_many_as_they_may_and_all_are_known_alike(producers, fan_outs):
    party = Party(producers, fan_outs)
    rounds = party.settle()
    assert [len(hand) for hand in party.hands.values()] == list(map(party.size, party.fan_outs))
    degrees = party.degrees()
    assert degrees[0] >= 1, "somebody makes objects that nobody asks for"
    assert degrees[-1] - degrees[0] <= 1
    assert rounds <= max(map(party.size, party.fan_outs)) + 2


@QUICK
@given(st.integers(2, 25), st.lists(st.integers(1, 8), min_size=1, max_size=25), st.data())
def test_one_producer_comes_or_goes_and_few_acquaintances_change(producers, fan_outs, data):
    party = Party(producers, fan_outs)
    party.settle()
    before, known = dict(party.hands), sum(map(len, party.hands.values()))
    uneven = sum(one > party.degrees()[0] for one in party.degrees())
    if data.draw(st.booleans()):
        party.leave(data.draw(st.sampled_from(party.producers)))
    else:
        party.producers.append(producer(99))
    party.rounds()
    # Its own part of all acquaintances, and each of them once more where one who gave it away is
    # known by fewer now than others are; one where the parts do not come out even, and one a
    # consumer when hands must be larger so that nobody is left unknown.
    grown = sum(len(party.hands[one]) > len(before[one]) for one in party.hands)
    part = ceil(known / len(party.producers))
    assert changes(before, party.hands) <= part + min(part, uneven) + 1 + grown
    degrees = party.degrees()
    assert (degrees[0] >= 1, degrees[-1] - degrees[0] <= 1) == (True, True)


@QUICK
@given(COUNTS, st.lists(st.integers(1, 8), min_size=2, max_size=25), st.data())
def test_consumers_that_come_and_go_leave_nobody_unknown(producers, fan_outs, data):
    party = Party(producers, fan_outs)
    party.settle()
    gone = data.draw(st.integers(1, len(fan_outs) - 1))
    for one in list(party.fan_outs)[:gone]:
        party.leave(one)
    party.rounds()
    degrees = party.degrees()
    assert (degrees[0] >= 1, degrees[-1] - degrees[0] <= 1) == (True, True)
    assert all(len(hand) <= party.size(one) for one, hand in party.hands.items())


@QUICK
@given(COUNTS, st.lists(st.integers(1, 8), min_size=1, max_size=15))
def test_another_introducer_deals_the_same_again(producers, fan_outs):
    party = Party(producers, fan_outs)
    party.settle()
    before = dict(party.hands)
    party.roster = Roster("frames", 1_000, party.now)
    for one in party.fan_outs:  # the consumers are heard first, when it knows of no producer
        party.speak(one)
        assert party.hands == before
    party.settle()
    assert party.hands == before


def test_who_may_know_all_leaves_the_others_their_fan_out():
    party = Party(10, [0, 1])
    party.settle()
    assert [len(hand) for hand in party.hands.values()] == [10, 1]
    party.leave(consumer(0))
    party.rounds()
    assert [len(hand) for hand in party.hands.values()] == [10]


def test_a_consumer_that_lost_an_answer_is_told_again():
    party = Party(4, [2])
    party.settle()
    hand = party.hands[consumer(0)]
    party.hands[consumer(0)] = hand[:1]
    party.speak(consumer(0))
    assert party.hands[consumer(0)] == hand


def test_a_producer_that_returns_is_counted_with_those_who_never_heard_that_it_went():
    party = Party(2, [1, 1])
    party.settle()
    party.leave(producer(0))
    party.producers.append(producer(0))
    party.round()
    assert party.degrees() == [1, 1]


def test_a_balanced_hand_stays_and_a_hand_that_is_empty_has_nothing_to_change():
    degrees = Degrees()
    for one in range(4):
        degrees.add(producer(one))
    assert balance(consumer(0), [], degrees) == []
    assert balance(consumer(0), [producer(3)], degrees) == [producer(3)]
    hand = deal(consumer(0), [], 3, 3, degrees)
    degrees.know([hand[0]])
    assert set(deal(consumer(0), hand, 2, 2, degrees)) == set(hand[1:])


def test_not_all_choose_the_same():
    degrees = Degrees()
    for one in range(50):
        degrees.add(producer(one))
    first = {deal(consumer(one), [], 1, 1, degrees)[0] for one in range(50)}
    assert len(first) > 20
