"""Lives from their seeds: endings, stories, planted bugs, sweeps, and the command for them."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import msgspec
import pytest
from typer.testing import CliRunner

from snowmelt.cli.main import program
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Expired, SetTimer
from snowmelt.protocols.membership.member import MemberTimer
from snowmelt_world.cli.sim import joined
from snowmelt_world.crew import processes
from snowmelt_world.families import FAMILIES, family
from snowmelt_world.faults import KINDS
from snowmelt_world.life import Ending, FamilyLife, Tally, live
from snowmelt_world.planted import Bug, planted
from snowmelt_world.scenario import drawn
from snowmelt_world.sweep import again, one, sweep
from snowmelt_world.world import Broken

# How many seeds it took, from 0, when each was last counted; twice as many must do.
SEEDS_TO_BREAK = 22
SEEDS_TO_HANG = 2


class Alarm:
    """Sets a timer when it starts; when it fires, does what a test wants."""

    def __init__(self, ring):
        self.ring, self.rung = ring, False

    def handle(self, event, now):
        if isinstance(event, Expired):
            self.rung = True
            self.ring()
        return [] if self.rung else [SetTimer(MemberTimer.SPEAK, Instant(now + seconds(1)))]

    def check(self):
        pass


class AlarmLife(FamilyLife):
    """One node with an alarm; at rest once it has rung."""

    bound = seconds(5)
    reason = ""

    def __init__(self, scenario, chance):
        pass

    def ring(self):
        pass

    def populate(self, world):
        world.add(NodeId("n1"), lambda _: Alarm(self.ring))
        world.start(NodeId("n1"))

    def unsettled(self, _):
        return self.reason

    def judge(self, _):
        pass


class CrashingLife(AlarmLife):
    def ring(self):
        raise KeyError("a bug")


class BreakingLife(AlarmLife):
    def judge(self, _):
        raise Broken("n1 did what may not be", "n1")


class RestlessLife(AlarmLife):
    reason = "n1 is not at rest"


class ExcusedLife(AlarmLife):
    tally = Tally(40, {"a disk was lost": 1, "it lingered": 3})


def lived(life, *, keep=True):
    return live(drawn("echo", 1, ()), life, keep=keep)


@pytest.mark.parametrize(
    ("life", "ending", "sentence"),
    [
        (CrashingLife, Ending.MACHINE_CRASHED, "n1 raised KeyError('a bug')"),
        (BreakingLife, Ending.INVARIANT_BROKEN, "n1 did what may not be"),
        (RestlessLife, Ending.NEVER_SETTLED, "n1 is not at rest, 5s after the last fault"),
    ],
)
def test_each_bad_ending_has_its_name_its_sentence_and_a_story(life, ending, sentence):
    report = lived(life)
    assert (report.ending, report.sentence, report.subject) == (ending, sentence, "n1")
    assert any("n1" in line and "Started" in line for line in report.story)
    assert lived(life, keep=False).story == ()


def test_a_good_ending_says_how_long_it_took_to_come_to_rest():
    report = lived(AlarmLife)
    assert report.ending is Ending.SETTLED
    assert (report.settled_after, report.sentence, report.story) == (0, "", ())


@pytest.mark.parametrize(
    ("life", "code"), [(BreakingLife, 10), (RestlessLife, 11), (CrashingLife, 12), (AlarmLife, 0)]
)
def test_the_command_ends_with_the_code_of_the_ending(life, code, monkeypatch):
    monkeypatch.setitem(FAMILIES, "alarm", life)
    result = CliRunner().invoke(
        program(), ["sim", "--protocol", "alarm", "--seed", "1", "--faults", "none"]
    )
    assert result.exit_code == code
    assert ("the story of n1" in result.stdout) == bool(code)


def test_a_sweep_says_what_share_of_its_calls_was_excused_and_why(monkeypatch):
    monkeypatch.setitem(FAMILIES, "alarm", ExcusedLife)
    command = ["sim", "--protocol", "alarm", "--seeds", "0:3", "--faults", "none"]
    shown = CliRunner().invoke(program(), command).stdout.splitlines()[-1]
    assert shown == ("120 calls, 10.00% of them excused: a disk was lost 2.50%; it lingered 7.50%")
    summary = json.loads(CliRunner().invoke(program(), [*command, "--json"]).stdout)
    assert summary["calls"] == 120
    assert summary["excused"] == {"a disk was lost": 3, "it lingered": 9}
    assert summary["excused_share"] == 0.1


def test_a_family_that_excuses_nothing_says_nothing_of_it():
    summary = json.loads(sim("--protocol", "echo", "--seed", "1", "--json").stdout)
    assert "excused" not in summary


# --- planted bugs ---------------------------------------------------------------------------------


def reports(protocol, bug, count):
    for seed in range(count):
        yield live(drawn(protocol, seed, KINDS, bug), family(protocol))


def first(ending, bug, count):
    """The first membership life of so many that ends so."""
    found = (each for each in reports("membership", bug, count) if each.ending is ending)
    return next(found, None)


@pytest.fixture(scope="module")
def broken():
    """A life that a reply before it is persisted broke."""
    return first(Ending.INVARIANT_BROKEN, Bug.REPLY_BEFORE_PERSISTED, 2 * SEEDS_TO_BREAK)


@pytest.fixture(scope="module")
def hanging():
    """A life that a forgotten timer keeps from its rest."""
    return first(Ending.NEVER_SETTLED, Bug.FORGOTTEN_TIMER, 2 * SEEDS_TO_HANG)


def test_a_reply_before_it_is_persisted_is_found_as_a_broken_invariant(broken):
    assert broken is not None
    assert "under the same number" in broken.sentence


def test_the_same_bug_in_the_echo_family_is_a_lost_item_and_no_crash():
    endings = {report.ending for report in reports("echo", Bug.REPLY_BEFORE_PERSISTED, 8)}
    assert Ending.INVARIANT_BROKEN in endings
    assert Ending.MACHINE_CRASHED not in endings


def test_a_forgotten_timer_is_found_as_a_life_that_never_settles(hanging):
    assert hanging is not None


def test_no_bug_is_the_node_itself():
    node = Alarm(None)
    assert planted(None, node) is node


def test_the_story_of_a_bad_life_mentions_its_subject_and_is_told_again_the_same(hanging):
    scenario = drawn("membership", hanging.seed, KINDS, Bug.FORGOTTEN_TIMER)
    report = one("membership", hanging.seed, KINDS, Bug.FORGOTTEN_TIMER)
    assert report.subject in report.sentence
    assert report.story
    assert all(report.subject in line for line in report.story if not line.startswith("…"))
    assert report == again(scenario)


# --- one seed, one life, in every process ---------------------------------------------------------


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def alone(request):
    """A family's first lives, in this process: those of another are held to them."""
    return list(sweep(request.param, range(2), KINDS))


def test_with_no_bug_planted_the_same_seeds_settle(alone):
    assert [report.seed for report in alone] == list(range(len(alone)))
    assert {report.ending for report in alone} == {Ending.SETTLED}


@pytest.mark.wide
@pytest.mark.parametrize("protocol", sorted(FAMILIES))
def test_more_lives_settle(protocol):
    reports = sweep(protocol, range(2, 29 if protocol == "echo" else 13), KINDS)
    assert {report.ending for report in reports} == {Ending.SETTLED}


def digest(hash_seed, *arguments):
    command = [sys.executable, "-m", "snowmelt", "sim", "--json", "--jobs", "1", *arguments]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=110)
    assert done.returncode in (0, 10, 11), done.stderr
    return json.loads(done.stdout)["digest"]


def digests(*arguments):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda hash_seed: digest(hash_seed, *arguments), (1, 2)))


def test_two_processes_that_hash_otherwise_live_the_same_lives(alone):
    hash_seed = 2 if os.environ.get("PYTHONHASHSEED") == "1" else 1
    there = digest(hash_seed, "--protocol", alone[0].protocol, "--seeds", "0:2")
    assert there == joined(alone)


def test_a_broadcast_in_the_order_of_a_set_is_found_by_two_processes():
    arguments = ("--protocol", "membership", "--seeds", "0:5")
    first, second = digests(*arguments, "--plant", "unsorted-broadcast")
    assert first != second


def test_a_sweep_on_two_cores_is_the_sweep_on_one(monkeypatch):
    monkeypatch.setattr("snowmelt_world.sweep.CHUNK", 2)
    seeds = range(7)  # each of two cores has some, and the last has one
    both = sweep("echo", seeds, KINDS, crew=processes(2, 100))
    assert list(both) == list(sweep("echo", seeds, KINDS))


def test_a_sweep_that_is_left_early_stops_its_workers():
    first = list(islice(sweep("membership", range(10_000), (), crew=processes(2, 100)), 3))
    assert [report.seed for report in first] == [0, 1, 2]


def test_keeping_the_story_changes_nothing_of_the_life():
    scenario = drawn("membership", 4, KINDS)
    kept, plain = again(scenario), live(scenario, family("membership"))
    assert msgspec.structs.replace(kept, story=()) == msgspec.structs.replace(plain, story=())


# --- the command ----------------------------------------------------------------------------------


def sim(*arguments):
    return CliRunner().invoke(program(), ["sim", *arguments])


def test_ten_is_a_broken_invariant_and_its_story_is_told(broken):
    seed = str(broken.seed)
    plant = ("--plant", "reply-before-persisted")
    result = sim("--protocol", "membership", "--seed", seed, *plant)
    assert result.exit_code == 10
    assert f"the story of {broken.subject}:" in result.stdout


def test_eleven_is_a_life_that_never_settled(hanging):
    seed = str(hanging.seed)
    plant = ("--plant", "forgotten-timer")
    result = sim("--protocol", "membership", "--seed", seed, *plant, "--json")
    assert result.exit_code == 11
    (bad,) = json.loads(result.stdout)["bad"]
    assert (bad["ending"], bad["exit_code"]) == ("never_settled", 11)
    assert bad["story"]


def test_nought_is_a_life_that_settled_and_its_options_are_printed_first():
    result = sim("--protocol", "echo", "--seed", "3")
    assert result.exit_code == 0
    assert result.stdout.startswith("echo, seed 3: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--protocol", "none", "--seed", "1"),
        ("--protocol", "echo"),
        ("--protocol", "echo", "--seed", "-1"),
        ("--protocol", "echo", "--seed", "1", "--seeds", "1:2"),
        ("--protocol", "echo", "--seeds", "2:1"),
        ("--protocol", "echo", "--seed", "1", "--faults", "fire"),
        ("--protocol", "echo", "--seed", "1", "--plant", "tree"),
        ("--protocol", "echo", "--seed", "1", "--jobs", "-1"),
    ],
)
def test_a_wrong_option_is_refused(arguments):
    assert getattr(sim(*arguments).exception, "exit_code", None) == 2


# --- long ones ------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    ("protocol", "count"),
    [
        ("membership", 20_000),
        ("echo", 5_000),
        ("queue", 10_000),
        ("pool", 10_000),
        ("parted", 1_000),
        ("baton", 5_000),
        ("multicast", 2_000),
    ],
)
def test_many_lives_with_all_faults_settle(protocol, count, pytestconfig):
    if "soak" not in pytestconfig.getoption("markexpr"):
        pytest.skip("minutes long, and no hang: run by `make soak`")
    jobs = os.cpu_count() or 1
    bad = [
        (report.seed, report.sentence)
        for report in sweep(protocol, range(count), KINDS, crew=processes(jobs, 1_200))
        if report.ending is not Ending.SETTLED
    ]
    assert bad == []
