"""The frame of storms: a seed draws the same plan, families add cards, bad options are refused."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from snowmelt.cli.local import LocalCluster
from snowmelt.cli.main import ELSEWHERE
from snowmelt.core.errors import BadOption
from snowmelt_world.cli.chaos import chaos
from snowmelt_world.storms.crowd import StormCrowd
from snowmelt_world.storms.events import Happened, done, read_events
from snowmelt_world.storms.family import KINDS, family_of
from snowmelt_world.storms.faults import NODE, Card, Drawn, Fault, planned
from snowmelt_world.storms.run import possible, start_nodes
from snowmelt_world.storms.scene import Scene
from snowmelt_world.storms.setting import StormSetting
from snowmelt_world.storms.storm import Storm


def setting(folder: Path, kind: str = "fifo", nodes: int = 2, **more: object) -> StormSetting:
    given = {
        "kind": kind,
        "nodes": nodes,
        "clients": 4,
        "seconds": 60.0,
        "seed": 1,
        "faults": frozenset(Fault),
        "every": 2.0,
        "at_once": 3,
        "heartbeat": 0.5,
        "etcd": False,
        "plant": "",
        "given": {},
        "place": str(folder),
    }
    return StormSetting(**given | more)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_draws_the_same_faults_and_each_card_comes(tmp_path: Path, kind: str) -> None:
    cards = family_of(kind).cards(setting(tmp_path, kind))
    drawn = list(planned(cards, 7, 1.0, 300.0, (0.0, 300.0)))
    assert drawn == list(planned(cards, 7, 1.0, 300.0, (0.0, 300.0)))
    assert drawn != list(planned(cards, 8, 1.0, 300.0, (0.0, 300.0)))
    assert {one.card for one in drawn} == set(cards)
    for one in drawn:
        assert one.card.seconds[0] <= one.seconds <= one.card.seconds[1]
        assert one.card.window[0] <= one.at / 300 <= one.card.window[1]


def test_no_fault_comes_where_none_is_wanted() -> None:
    card = Card(Fault.KILL, NODE, (1.0, 1.0))
    assert list(planned([card], 1, 0.0, 60.0, (0.0, 60.0))) == []


def test_what_can_not_be_done_with_others_is_left_out() -> None:
    some, left_out = possible([Fault.KILL, Fault.LOSE, Fault.FULL], 3)
    assert (some, left_out) == ([Fault.KILL, Fault.LOSE], [Fault.FULL])


@pytest.mark.parametrize("kind", KINDS)
def test_a_setting_that_a_kind_does_not_have_is_refused(kind: str) -> None:
    with pytest.raises(BadOption, match="--set is 'colour'; allowed: one of"):
        family_of(kind).read({"colour": "red"})


def test_a_setting_of_another_kind_of_value_is_refused() -> None:
    with pytest.raises(BadOption, match="values of their kinds"):
        family_of("pool").read({"lease": "long"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kind", "lifo"], "--kind is 'lifo'"),
        (["--kind", "fifo", "--faults", "fork"], "--faults is 'fork'"),
        (["--kind", "fifo", "--plant", "lost"], "none for this kind"),
        (["--kind", "pool", "--plant", "old"], "allowed: lost, doubled, damaged"),
        (["--kind", "pool", "--minutes", "0"], "--minutes is 0"),
        (["--kind", "pool", "--set", "lease"], "NAME=VALUE"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, words: list[str], said: str
) -> None:
    app = typer.Typer()
    app.command()(chaos)
    result = CliRunner().invoke(app, [*words, "--folder", str(tmp_path)])
    assert isinstance(result.exception, BadOption)
    assert said in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_the_command_comes_with_the_world() -> None:
    assert ELSEWHERE["chaos"] == "snowmelt_world.cli.chaos"


def drawn(fault: Fault, seconds: float) -> Drawn:
    return Drawn(0.0, Card(fault, NODE, (seconds, seconds)), seconds, 1)


def test_a_node_is_hit_heals_and_one_that_ends_by_itself_is_found(tmp_path: Path) -> None:
    mine = setting(tmp_path)
    with LocalCluster(3, tmp_path / "nodes", 0.3) as cluster:
        scene = Scene(cluster, 2)
        start_nodes(scene)
        family = family_of("fifo")
        with Storm(mine, family, scene) as storm, StormCrowd(mine, scene.home) as crowd:
            scene.crowd = crowd
            ticks = list[str]()

            def look() -> None:
                ticks.append(storm.now_on)

            kills = [drawn(Fault.KILL, 0.3), drawn(Fault.STOP, 0.3), drawn(Fault.JOIN, 0.0)]
            storm.blow(kills, 1.0, [], look)
            assert storm.wrong == []
            assert storm.done == {"kill node": 1, "stop node": 1, "join node": 1}
            assert any("kill n" in words for words in ticks)
            assert [*scene.nodes] == ["n1", "n2", "n3"]
            storm.blow([drawn(Fault.LEAVE, 0.2)], 0.5, [], look)
            assert all(node.running for node in scene.nodes.values())
            scene.nodes["n2"].kill()
            storm.calm(0.2, look)
            assert "n2 ended by itself" in storm.wrong[0]
    events = read_events(tmp_path)
    assert [one.event.fault for one in done(events)] == [
        Fault.KILL,
        Fault.STOP,
        Fault.JOIN,
        Fault.LEAVE,
    ]
    assert events[0].what is Happened.STORM
