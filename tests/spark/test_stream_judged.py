"""The judge of a stream that was killed finds what is wrong, in what was written by hand."""

from pathlib import Path

import msgspec
import pytest

from snowmelt_world.storms.setting import StormSetting
from snowmelt_world.storms.spark import judging
from snowmelt_world.storms.spark.judging import CameOut, judge_stream
from snowmelt_world.storms.spark.load import DONE, StreamLoad, StreamSettings, body_of
from snowmelt_world.storms.spark.rounds import ALIKE, FITS, GOES_ON, StreamRound

PUT = 4
ALL = [body_of(item) + DONE for item in range(PUT)]


@pytest.fixture
def judged(tmp_path: Path):
    """Judges what came out, what the sources still have, and what a round found."""
    setting = StormSetting(
        kind="spark",
        nodes=3,
        clients=2,
        seconds=60,
        seed=1,
        faults=frozenset(),
        every=0,
        at_once=1,
        heartbeat=0.5,
        etcd=False,
        plant="",
        given={},
        place=str(tmp_path),
    )

    def judging_(bodies: list[bytes], left: int = 0, done: int = PUT, wrong: str = ""):
        made = StreamRound(number=1, kind="java", early=False, trigger="0 seconds", ready=2.5)
        if wrong:
            made.wrong(wrong, "so it is")
        (tmp_path / judging.ROUNDS).write_bytes(msgspec.json.encode(made) + b"\n")
        (tmp_path / judging.FED).write_bytes(msgspec.json.encode(PUT))
        out = msgspec.msgpack.encode(CameOut(bodies, 0, left, done))
        (tmp_path / judging.OUT).write_bytes(out)
        return judge_stream(StreamLoad(setting=setting, settings=StreamSettings()))

    return judging_


def test_what_comes_out_once_breaks_nothing(judged) -> None:
    verdict = judged(ALL)
    assert verdict.broken == []
    assert (verdict.operations, verdict.longest_wait_s) == (PUT, 2.5)
    assert verdict.counted["killed: java"] == 1


@pytest.mark.parametrize(
    ("promise", "bodies"),
    [
        (judging.LOST, ALL[1:]),
        (judging.DOUBLED, [*ALL, ALL[2]]),
        (judging.FOREIGN, [*ALL, body_of(7) + DONE]),
        (judging.FOREIGN, [*ALL, body_of(1) + DONE + DONE]),
    ],
)
def test_each_promise_that_is_broken_is_found(judged, promise: str, bodies: list[bytes]) -> None:
    verdict = judged(bodies)
    assert verdict.properties[promise] == verdict.broken != []


@pytest.mark.parametrize(("left", "done"), [(1, PUT), (0, PUT - 1)])
def test_a_source_that_has_not_ended_is_found(judged, left: int, done: int) -> None:
    assert judged(ALL, left, done).properties[judging.ENDED]


@pytest.mark.parametrize("promise", [FITS, ALIKE, GOES_ON])
def test_what_a_round_found_is_told(judged, promise: str) -> None:
    assert judged(ALL, wrong=promise).properties[promise] == ["round 1: so it is"]
