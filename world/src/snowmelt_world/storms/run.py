"""One run from its start to its verdict."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import msgspec

from snowmelt.cli.local import HERE, LocalCluster
from snowmelt.cli.node import read_coordinator
from snowmelt.core.errors import Unavailable
from snowmelt.runtime.folders import found_in_etcd
from snowmelt_world.storms import disks, links
from snowmelt_world.storms.crowd import StormCrowd
from snowmelt_world.storms.disks import ImageDisk
from snowmelt_world.storms.etcd import MEMBERS, EtcdMembers
from snowmelt_world.storms.events import Happened
from snowmelt_world.storms.family import Judgement, StormFamily
from snowmelt_world.storms.faults import Card, Drawn, Fault, planned
from snowmelt_world.storms.journals import now
from snowmelt_world.storms.links import HUB_ADDRESS, StormLinks
from snowmelt_world.storms.scene import Scene
from snowmelt_world.storms.setting import StormSetting
from snowmelt_world.storms.showing import Showing
from snowmelt_world.storms.starving import watch
from snowmelt_world.storms.storm import OF_DISKS, OF_LINKS, Storm

START_AT_ONCE: Final = 4
UP_SECONDS: Final = 60.0
SPARES: Final = 2
"""So many nodes may join."""
CLUSTER: Final = "snowmelt"
"""As nodes call it that are not told otherwise."""
LIVES: Final = "lives.json"
VALID: Final = "valid"
INVALID: Final = "invalid"


class StormResult(msgspec.Struct, kw_only=True):
    """A run as a whole."""

    verdict: str
    operations: int
    faults: dict[str, int]
    """How often each was done, and to whom."""
    longest_wait_s: float
    kind: str
    nodes: int
    clients: int
    seconds: float
    seed: int
    properties: dict[str, str]
    """The verdict on each promise."""
    start_s: float
    """Until all clients were at work."""
    up_s: list[float]
    """After each storm, until all nodes were in one view again."""
    counted: dict[str, Any]
    broken: list[str]
    unjudged: list[str]


def possible(wanted: Sequence[Fault], nodes: int) -> tuple[list[Fault], list[Fault]]:
    """Which of these can be done on this machine, and which can't."""
    able = {
        Fault.CUT: links.possible() and nodes > 1,
        Fault.SEVER: links.possible(),
        Fault.SLOW: links.can_slow(),
        Fault.FULL: disks.possible() and Fault.LOSE not in wanted,
        Fault.FAIL: disks.possible() and Fault.LOSE not in wanted,
    }
    some = [fault for fault in wanted if able.get(fault, True)]
    return some, [fault for fault in wanted if fault not in some]


def run(setting: StormSetting, family: StormFamily, showing: Showing) -> StormResult:
    """Starts all, blows, and judges; all processes have ended when it returns."""
    cards = [card for card in family.cards(setting) if card.fault in setting.faults]
    with ExitStack() as stack:
        began = time.monotonic()
        scene, setting = _scene(stack, setting, family)
        start_nodes(scene)
        storm = stack.enter_context(Storm(setting, family, scene))
        crowd = stack.enter_context(StormCrowd(setting, scene.home))
        scene.crowd = crowd
        stack.enter_context(watch(setting.folder, scene))
        for role, number in family.processes(setting):
            crowd.start(role, number)
        crowd.wait_started()
        start = time.monotonic() - began
        showing.say(f"all processes are at work after {start:.1f} s")
        ups, wrong = _weathered(setting, family, cards, storm, scene, showing)
        ended = now()
        storm.note(Happened.OVER)
        showing.say("the load is over; what is left is taken")
        wrong += [*storm.wrong, *family.finish(setting, crowd)]
        lives = [member.life for member in crowd.members]
    (setting.folder / LIVES).write_bytes(msgspec.json.encode(lives))
    judged = family.judge(setting, lives, setting.folder, ended)
    done = dict(sorted(storm.done.items()))
    return _summed(setting, judged, wrong, done, round(start, 1), ups)


def _scene(
    stack: ExitStack, setting: StormSetting, family: StormFamily
) -> tuple[Scene, StormSetting]:
    spares = SPARES * (Fault.JOIN in setting.faults)
    names = [f"n{one + 1}" for one in range(setting.nodes + spares)]
    members = MEMBERS if setting.etcd else ()
    wires = None
    if OF_LINKS & setting.faults:
        clients = [f"{role}-{number}" for role, number in family.processes(setting)]
        wires = stack.enter_context(StormLinks([*names, *members, *clients]))
        setting = msgspec.structs.replace(setting, host=HUB_ADDRESS)
    homes = [wires.home(name) if wires is not None else HERE for name in names]
    etcd, words = None, list[str]()
    if setting.etcd:
        places = [wires.home(name) if wires is not None else HERE for name in MEMBERS]
        etcd = stack.enter_context(EtcdMembers(setting.folder / "etcd", places))
        words = ["--coordinator", etcd.url]
    owned = {}
    if OF_DISKS & setting.faults:
        owned = {name: ImageDisk(setting.folder / "nodes" / name) for name in names}
        for disk in owned.values():
            stack.enter_context(disk)
    place = setting.folder / "nodes"
    cluster = LocalCluster(len(names), place, setting.heartbeat, homes=homes, options=words)
    stack.enter_context(cluster)
    url = "snowmelt://" + ",".join(node.address for node in cluster.nodes[: setting.nodes])
    scene = Scene(cluster, setting.nodes, wires, owned, etcd)
    return scene, msgspec.structs.replace(setting, url=url)


def start_nodes(scene: Scene) -> None:
    """A few at a time: each is a Python that begins, and there are few cores."""
    nodes = list(scene.nodes.values())
    if scene.etcd is not None:
        place = read_coordinator(scene.etcd.url)
        assert place is not None
        found_in_etcd(place, CLUSTER)
    elif nodes[0].folder.exists():  # as a small disk of its own
        nodes[0].found()
    else:
        scene.cluster.found()
    for first in range(0, len(nodes), START_AT_ONCE):
        for node in nodes[first : first + START_AT_ONCE]:
            node.start()
        names = [node.name for node in nodes[: first + START_AT_ONCE]]
        scene.cluster.wait_for(names, UP_SECONDS)


def _weathered(
    setting: StormSetting,
    family: StormFamily,
    cards: Sequence[Card],
    storm: Storm,
    scene: Scene,
    showing: Showing,
) -> tuple[list[float], list[str]]:
    """Storms and calms by turns; how long nodes took to be up after each, and what was wrong."""
    ups, wrong = list[float](), list[str]()
    phases = family.phases(setting)
    storms = phases.storms(setting.seconds)
    drawn = [_drawn(setting, cards, one) for one in storms]
    (setting.folder / "plan.json").write_bytes(msgspec.json.encode(drawn))
    assert scene.crowd is not None
    with showing.bar(setting.seconds + phases.last) as tick:
        for at, (one, mine) in enumerate(zip(storms, drawn, strict=True)):
            storm.blow(mine, one[1], cards, lambda: tick(storm.now_on))
            ups.append(_wait_up(scene, wrong))
            scene.crowd.wait_started()
            seconds = phases.last if at == len(storms) - 1 else phases.calm
            storm.calm(seconds, lambda: tick("calm"))
    return ups, wrong


def _drawn(setting: StormSetting, cards: Sequence[Card], one: tuple[float, float]) -> list[Drawn]:
    return list(planned(cards, setting.seed, setting.every, setting.seconds, one)) if cards else []


def _wait_up(scene: Scene, wrong: list[str]) -> float:
    begin = time.monotonic()
    try:
        scene.cluster.wait_for(list(scene.nodes), UP_SECONDS)
    except Unavailable as error:
        wrong.append(str(error))
    return round(time.monotonic() - begin, 1)


def _summed(
    setting: StormSetting,
    judged: Judgement,
    wrong: list[str],
    faults: dict[str, int],
    start: float,
    ups: list[float],
) -> StormResult:
    properties = judged.properties | {"all processes live and end in order": wrong}
    broken = [sentence for found in properties.values() for sentence in found]
    return StormResult(
        verdict=INVALID if broken else VALID,
        operations=judged.operations,
        faults=faults,
        longest_wait_s=judged.longest_wait_s,
        kind=setting.kind,
        nodes=setting.nodes,
        clients=setting.clients,
        seconds=setting.seconds,
        seed=setting.seed,
        properties={name: INVALID if found else VALID for name, found in properties.items()},
        start_s=start,
        up_s=ups,
        counted=judged.counted,
        broken=broken,
        unjudged=judged.unjudged,
    )


def kept(folder: Path) -> str:
    """What is left of a run, for a person."""
    return (
        f"all of it is kept in {folder}: journals, events.jsonl, plan.json, nodes' logs and disks"
    )
