"""Lives of the one engine's queues, under the fifo's users and judges."""

import pytest
from msgspec.structs import replace

from snowmelt.core.instant import Instant, seconds
from snowmelt_world.families import family
from snowmelt_world.families.fifo_engine import Engine
from snowmelt_world.families.queue import QueueLife
from snowmelt_world.faults import Crash
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import ETCD_DECIDES, drawn, kinds_of
from wide import wide


def lived(seed, kinds, coordinator="disk"):
    return live(drawn("queue", seed, kinds, coordinator=coordinator), family("queue"))


def left_alone(seed, last):
    """One node goes on without the others, and dies when they are back."""
    scenario = drawn("queue", seed, (), coordinator=ETCD_DECIDES)
    begin, back, dies, end = (Instant(seconds(time)) for time in (6, 19, 17, 38))
    others = [Crash(begin, back, node) for node in scenario.nodes if node != last]
    return live(replace(scenario, faults=(*others, Crash(dies, end, last))), family("queue"))


# 4: the word that a term has begun was lost, and never said again. 2, 16: a copy whose bodies could
# not be read was sent without them; one that could not be read was not brought up.
# 40, 6: nobody looked again after an answer or a deadline. 104: a piece was asked for twice.
# 103: steps that came before others were thrown away, each time. 109: a follower's disk was older.
# 185, 229: a copy that could not be read answered for one that had nothing. 86: too many came back.
# 240: a body was torn, and its step was not. 59: a copy that was being written was sent again.
# 185, 240: a disk that was full was asked again and again in one moment, since flushes may linger.
# 42, 292: flushes that linger, and crashes. 1567: a body was flushed after it was looked for, and
# that was heard of first. 1609: what a crash had taken was acknowledged after it.
OLDER = (2, 4, 6, 16, 40, 42, 59, 86, 103, 104)
SEEDS = (*wide(*OLDER), 109, 185, 229, 240, 292, 1567, 1609)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_with_all_faults_ends_well(seed):
    report = lived(seed, kinds_of("queue"))
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [300, 301, *wide(302, 303)])
def test_a_calm_life_ends_well(seed):
    report = lived(seed, ())
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [0, *wide(1, 2)])
def test_a_life_over_etcd_ends_well(seed):
    report = lived(seed, kinds_of("queue"), ETCD_DECIDES)
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [21, 71, 81])
def test_what_one_copy_alone_was_told_waits_for_it(seed):
    report = left_alone(seed, "n1")
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize("seed", [151, 571])
def test_a_life_with_few_durable_copies_ends_well(seed):
    report = lived(seed, kinds_of("queue"))
    assert report.ending is Ending.SETTLED, report.sentence


@pytest.mark.parametrize(("seed", "coordinator"), [(34, "disk"), (14, ETCD_DECIDES)])
def test_a_life_in_which_nobody_said_how_many_copies_there_are_ends_well(seed, coordinator):
    """In the end there are as many as is usual, or as there are nodes."""
    report = lived(seed, kinds_of("queue"), coordinator)
    assert report.ending is Ending.SETTLED, report.sentence


class Still(Engine):
    """Nobody leaves in order: what was drawn before anybody did is what it was."""

    moves = False


class StillLife(QueueLife):
    engine = Still()


def test_what_came_while_the_controller_slept_leaves_nobody_out():
    """One of its copies did not answer its leader; the other never hears him."""
    report = live(drawn("queue", 105, kinds_of("queue")), StillLife)
    assert report.ending is Ending.SETTLED, report.sentence
