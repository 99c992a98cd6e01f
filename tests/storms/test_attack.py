"""`snowmelt attack`: what is said is made from the types, and each property it judges can fail."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from snowmelt.cli.main import ELSEWHERE
from snowmelt.core.errors import MessageError
from snowmelt.wire import codec
from snowmelt.wire.codec import MessageDecoder
from snowmelt.wire.framing import FrameReader, Kind
from snowmelt_world.attack import account, costs, honest, judging
from snowmelt_world.attack import setting as settings
from snowmelt_world.attack.account import Did, Line
from snowmelt_world.attack.extremes import each_field, structs, valid
from snowmelt_world.attack.forge import LEGITIMATE, Forge
from snowmelt_world.attack.judging import Evidence, Phase, judge
from snowmelt_world.attack.planted import FOUND_AS, PLANTS
from snowmelt_world.attack.setting import AttackSetting, Target
from snowmelt_world.attack.showing import plot
from snowmelt_world.attack.tally import Tally
from snowmelt_world.attack.watching import Sample
from snowmelt_world.cli.attack import attack

END_SECONDS = 60
UNIONS = {
    "calls": (codec.Request, MessageDecoder.for_callers(), True),
    "words of nodes": (codec.NODE_WORDS, MessageDecoder.for_nodes(), False),
}


def run(folder: Path, *options: str, timeout: float = 240.0) -> tuple[int, dict[str, Any]]:
    """Its exit code and its result; no process of it outlives the test."""
    words = ["--json", "--folder", str(folder), *options]
    command = [sys.executable, "-m", "snowmelt_world.cli.attack", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        try:
            told, said = started.communicate(timeout=timeout)
        except BaseException:
            started.send_signal(signal.SIGTERM)  # it stops all that it started
            started.communicate(timeout=END_SECONDS)
            raise
    assert told, said.decode()
    result: dict[str, Any] = json.loads(told)
    return started.returncode, result


@pytest.mark.parametrize("name", UNIONS)
def test_each_message_is_made_and_each_of_its_fields_is_bent(name: str) -> None:
    union, decoder, calls = UNIONS[name]
    kinds = structs(union)
    assert len(kinds) > 30
    for kind in kinds:
        plain = valid(kind)
        decoder.decode(msgspec.msgpack.encode(["call", 1, plain] if calls else plain))
        assert plain[0] == kind.tag
        bent = list(each_field(kind))
        for at in range(1, len(kind.fields) + 1):
            others = [one for one in bent if len(one) > at and one[at] != plain[at]]
            assert others, (kind.tag, at)


class Bounded(msgspec.Struct, array_like=True, tag="b"):
    number: Annotated[int, msgspec.Meta(ge=3, le=10)]
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=5)]


def test_a_bound_is_crossed_by_one_at_both_ends() -> None:
    values = list(each_field(structs(Bounded)[0]))
    assert {2, 3, 4, 9, 10, 11} <= {one[1] for one in values if len(one) > 1 and is_int(one[1])}
    lengths = {len(one[2]) for one in values if len(one) > 2 and isinstance(one[2], str)}
    assert {0, 1, 5, 6} <= lengths


def is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@pytest.mark.parametrize("make", [Forge.of_calls, Forge.of_nodes])
def test_a_forge_says_the_same_for_a_seed_reads_mostly_and_spares_others(
    make: Callable[[int], Forge],
) -> None:
    loads = list(islice(make(7).loads(), 60))
    assert loads == list(islice(make(7).loads(), 60))
    assert loads != list(islice(make(8).loads(), 60))
    forge, reader, read, tags = make(7), FrameReader(), 0, set[str]()
    for load, count in loads:
        frames = reader.feed(load)
        assert len(frames) == count
        for kind, payload in frames:
            assert kind is Kind.MESSAGE
            plain = msgspec.msgpack.decode(payload)
            tags.add(plain[2][0] if forge.calls else plain[0])
            try:
                forge.read(payload)
            except MessageError:
                continue
            read += 1
    assert read > 0.95 * sum(count for _, count in loads)
    assert len(tags) > 30
    assert not tags & LEGITIMATE


def test_what_is_heard_of_others_is_not_taken_up() -> None:
    forge = Forge.of_calls(1)
    for _ in range(200):
        forge.heard(["x", ["honest.orders", 777_777]])
    said = b"".join(load for load, _ in islice(forge.loads(), 100))
    assert b"honest." not in said
    assert msgspec.msgpack.encode(777_777) in said


# --- the judge ------------------------------------------------------------------------------------

NODE = Target("n1", "127.0.0.1", 1, pid=77, folder="/nowhere")
SETTING = AttackSetting(
    url="snowmelt://127.0.0.1:1",
    targets=(NODE,),
    kinds=(settings.Kind.FIELDS,),
    seconds=10.0,
    inputs=0,
    seed=1,
    attackers=1,
    place="/nowhere",
    calm=10.0,
    memory_mib=100,
    disk_mib=100,
    turn_ms=100.0,
    rate_share=0.5,
    answer_s=2.0,
)
PHASES = (Phase(None, 0.0, 10.0), Phase(settings.Kind.FIELDS, 10.0, 20.0))
MIB = 1 << 20


def good_lines() -> list[Line]:
    lines = []
    for number in range(100):
        at = number / 5.0
        lines += [Line(at, did, number) for did in (Did.PUT, Did.GOT, Did.ACKED)]
        lines.append(Line(at, Did.PROBED, 0, "n1", 0.1))
    return lines + [Line(30.0, Did.KEPT, 0, "there") for _ in range(judging.THINGS_KEPT)]


def good_samples() -> list[Sample]:
    return [Sample(float(at), "n1", True, 50 * MIB, 50 * MIB, 0.01, "", 0.0) for at in range(20)]


def broken(lines: list[Line], samples: list[Sample], **counts: int) -> set[str]:
    evidence = Evidence(SETTING, PHASES, tuple(samples), tuple(lines), {"fields": counts})
    return {name for name, found in judge(evidence)[0].items() if found}


def test_what_is_good_is_judged_good() -> None:
    assert broken(good_lines(), good_samples(), inputs=5) == set()


WRONG_SAMPLES = {
    judging.LIVES: {"lives": False},
    judging.MEMORY: {"memory": 151 * MIB},
    judging.DISK: {"disk": 151 * MIB},
    judging.TURNS: {"turn": 0.11, "turn_event": "Received Claim"},
}


@pytest.mark.parametrize("name", WRONG_SAMPLES)
def test_one_sample_is_enough(name: str) -> None:
    samples = good_samples()
    samples[15] = msgspec.structs.replace(samples[15], **WRONG_SAMPLES[name])
    assert broken(good_lines(), samples) == {name}


def test_a_supervisor_that_is_not_answered_several_times_is_found() -> None:
    for silent, found in ((2, set()), (judging.SILENT_MOST, {judging.SUPERVISED})):
        samples = good_samples()
        for at in range(silent):
            samples[12 + at] = msgspec.structs.replace(samples[12 + at], answers=False)
        assert broken(good_lines(), samples) == found


def test_a_process_that_began_anew_has_ended_before() -> None:
    samples = good_samples()
    samples[15:] = [msgspec.structs.replace(one, began=14.0) for one in samples[15:]]
    assert broken(good_lines(), samples) == {judging.LIVES}


def test_a_long_turn_before_the_attack_is_not_its_own() -> None:
    samples = [msgspec.structs.replace(one, turn=0.3) for one in good_samples()]
    assert broken(good_lines(), samples) == set()


def test_half_of_the_rate_is_kept() -> None:
    lines = [one for one in good_lines() if one.at < 10 or one.did is not Did.ACKED]
    assert broken(lines, good_samples()) == {judging.RATE}


def test_an_answer_that_comes_late_or_not_at_all_is_found() -> None:
    for late in (Line(15.0, Did.PROBED, 0, "n1", 2.1), Line(15.0, Did.PROBE_FAILED, 0, "n1")):
        assert broken([*good_lines(), late], good_samples()) == {judging.ANSWERS}


def test_the_account_finds_each_wrong() -> None:
    lines = good_lines()
    lost = [one for one in lines if not (one.number == 50 and one.did is not Did.PUT)]
    again = [*lines, Line(19.0, Did.GOT, 50)]
    strange = [*lines, Line(19.0, Did.GOT, 700)]
    crossed = [*lines, *(Line(19.0, Did.PUT, one) for one in (201, 202))]
    crossed += [Line(19.0, Did.GOT, one) for one in (202, 201)]
    for some in (lost, again, strange, crossed):
        assert broken(some, good_samples()) == {judging.ITEMS}, account.wrong_items(some)


def test_an_item_that_came_twice_before_its_acknowledgement_is_no_wrong() -> None:
    lines = [Line(0.0, Did.PUT, 1), Line(1.0, Did.GOT, 1), Line(2.0, Did.ACK_REFUSED, 1)]
    lines += [Line(3.0, Did.GOT, 1), Line(4.0, Did.ACKED, 1)]
    assert account.wrong_items(lines) == []


def test_what_others_had_must_be_looked_at_and_be_there() -> None:
    lines = [one for one in good_lines() if one.did is not Did.KEPT]
    assert broken(lines, good_samples()) == {judging.OTHERS}
    lines += [Line(30.0, Did.KEPT_LOST, 0, "gone"), *[Line(30.0, Did.KEPT)] * 2]
    assert broken(lines, good_samples()) == {judging.OTHERS}


def test_a_wrong_token_that_opens_is_found() -> None:
    counts = {"let in with a wrong token": 1}
    assert broken(good_lines(), good_samples(), **counts) == {judging.KEPT_OUT}


def test_what_can_not_be_seen_is_said() -> None:
    setting = msgspec.structs.replace(SETTING, targets=(Target("n1", "127.0.0.1", 1),))
    evidence = Evidence(setting, PHASES, (), tuple(good_lines()), {})
    unjudged = judge(evidence)[1]
    assert [one.split(":")[0] for one in unjudged] == ["memory and disks", "members", "turns of n1"]


def test_a_drawing_has_all_that_was_sampled(tmp_path: Path) -> None:
    samples = (PHASES, good_samples())
    (tmp_path / "samples.json").write_bytes(msgspec.json.encode(samples))
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in good_lines())
    (tmp_path / honest.JOURNAL).write_bytes(lines)
    plot(tmp_path, tmp_path / "drawn.svg")
    drawn = (tmp_path / "drawn.svg").read_text()
    assert drawn.count("<polyline") == 4
    assert drawn.count(">fields<") == 4


# --- the command ----------------------------------------------------------------------------------


def refused(*words: str) -> str:
    app = typer.Typer()
    app.command()(attack)
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code != 0
    return str(result.exception)


def test_only_what_is_ones_own_is_attacked() -> None:
    assert ELSEWHERE["attack"] == "snowmelt_world.cli.attack"
    assert "'10.1.2.3'" in refused("snowmelt://127.0.0.1:4410,10.1.2.3:4410")
    assert "--yes-it-is-mine" in refused("snowmelt://node.example:4410")
    assert "--own" in refused("snowmelt://127.0.0.1:4410", "--own")
    assert "--plant" in refused("snowmelt://127.0.0.1:4410", "--plant", "dies")
    assert "--kind" in refused("--kind", "rumours")
    assert "--minutes" in refused("--minutes", "0")
    assert "places in a baton's line" in refused("--only", "echoes,rumours")


def test_of_all_costs_one_is_tried_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, rounds = list[str](), iter([True, True, True, False, False])
    monkeypatch.setattr(costs, "prepare", lambda _: None)
    monkeypatch.setattr(costs, "_take", lambda thing, *_: taken.append(thing))
    setting = msgspec.structs.replace(SETTING, only=("echoes", "batons"))
    tally = Tally(tmp_path / "tally")
    costs.attack(setting, 0, tally, lambda: next(rounds))
    tally.close()
    assert sorted(taken) == ["batons", "echoes"]


def test_strangers_cost_others_little_and_end_nothing(tmp_path: Path) -> None:
    """In a short run a crowded machine may slow anybody: the rate is judged in long ones."""
    options = ("--kind", "strangers", "--minutes", "0.08", "--seed", "1", "--rate", "0")
    code, result = run(tmp_path, *options)
    assert result["broken"] == []
    assert (code, result["verdict"]) == (0, "valid")
    assert result["inputs"]["strangers"] > 200
    assert list(tmp_path.iterdir()) == []


KIND_OF = {"lets-in": "strangers", "heeds-all": "roles"}
BUDGETS = ("--memory", "160", "--disk", "60", "--answer", "5")


@pytest.mark.soak
@pytest.mark.parametrize("plant", PLANTS)
def test_each_planted_fault_is_found(tmp_path: Path, plant: str) -> None:
    kind = KIND_OF.get(plant, "fields")
    options = ("--kind", kind, "--minutes", "0.25", "--seed", "1", "--plant", plant, *BUDGETS)
    code, result = run(tmp_path, *options)
    assert (code, result["verdict"]) == (20, "invalid")
    assert result["properties"][FOUND_AS[plant]] == "invalid", result["broken"]


@pytest.mark.soak
def test_ten_million_inputs_in_an_hour(tmp_path: Path) -> None:
    options = ("--minutes", "60", "--inputs", "2000000", "--seed", "1", "--attackers", "3")
    code, result = run(tmp_path, *options, "--plot", str(tmp_path / "soak.svg"), timeout=6_000.0)
    assert result["broken"] == []
    assert code == 0
