from hypothesis import given
from hypothesis import strategies as st

from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import NodeId
from snowmelt_world.clock import DAY, Clock, running_since
from snowmelt_world.world import World

TURNS = st.lists(
    st.tuples(
        st.integers(0, 10**12),  # how much later
        st.one_of(
            st.tuples(st.just("skew"), st.integers(-900_000, 900_000)),
            st.tuples(st.just("jump"), st.integers(0, 10**12)),
        ),
    ),
    max_size=6,
)


def turned(turns):
    clock, world = Clock(), 0
    readings = [clock.read(Instant(0))]
    for wait, (kind, amount) in turns:
        world += wait
        readings.append(clock.read(Instant(world)))
        if kind == "skew":
            clock.skew(Instant(world), amount)
        else:
            clock.jump(Instant(world), Duration(amount))
        readings.append(clock.read(Instant(world)))
    return clock, world, readings


@given(TURNS, st.lists(st.integers(0, 10**12), max_size=5))
def test_a_clock_never_goes_back_however_it_is_turned(turns, waits):
    clock, world, readings = turned(turns)
    for wait in waits:
        world += wait
        readings.append(clock.read(Instant(world)))
    assert readings == sorted(readings)


@given(TURNS, st.integers(0, 10**12))
def test_when_is_the_first_moment_that_shows_the_instant(turns, ahead):
    clock, world, _ = turned(turns)
    own = Instant(clock.read(Instant(world)) + ahead)
    when = clock.when(own)
    assert clock.read(when) >= own
    assert when == world or clock.read(Instant(when - 1)) < own


def test_a_new_clock_shows_the_worlds_time():
    assert Clock().read(Instant(12)) == 12
    assert Clock().when(Instant(12)) == 12


def test_a_jump_goes_forward_and_a_skew_only_from_now_on():
    clock = Clock()
    clock.jump(Instant(100), Duration(50))
    clock.skew(Instant(200), 500_000)
    assert [clock.read(Instant(world)) for world in (200, 300)] == [250, 400]


def test_no_machine_was_started_just_now_and_each_at_a_time_of_its_own():
    names = [NodeId(f"n{number}") for number in range(1, 10)]
    world = World(1)
    for name in names:
        world.add(name, lambda _: None)
    shown = [world.slots[name].clock.read(Instant(5)) - 5 for name in names]
    assert shown == [running_since(name) for name in names]
    assert all(DAY <= one <= 365 * DAY for one in shown)
    assert len(dict.fromkeys(shown)) == len(names)
