"""`snowmelt sim --explore`: small worlds, walked whole."""

import json
import time
from pathlib import Path

import msgspec
import typer
from rich.console import Console

from snowmelt.core.errors import BadOption
from snowmelt_world.explore import INJURIES, WORLDS, injuries_named, small_world
from snowmelt_world.explore.moves import SmallWorld
from snowmelt_world.explore.story import played, scripted
from snowmelt_world.explore.walk import STATES_MAX, Exploration, explored
from snowmelt_world.planted import Bug

BROKEN = 10

WORLD_HELP = "Which small world: " + "; ".join(
    f"{protocol}: {', '.join(worlds)}" for protocol, worlds in WORLDS.items()
)
INJURIES_HELP = f"What may happen to it, in this order, by commas: {', '.join(INJURIES)}"


class Wanted(msgspec.Struct, frozen=True):
    """What is to be explored, and how far."""

    protocol: str
    world: str = ""
    injuries: str = ""
    depth: int = 0
    states: int = STATES_MAX
    script: Path | None = None
    bug: Bug | None = None
    as_json: bool = False

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise BadOption("--depth", self.depth, "0 for no bound, or more")
        if self.states < 1:
            raise BadOption("--states", self.states, "1 or more")


def explore(wanted: Wanted) -> None:
    """Walks one small world, or plays a script in it; ends with 10 when something breaks."""
    life = small_world(wanted.protocol, wanted.world)
    world = SmallWorld(life(wanted.bug), injuries_named(wanted.injuries, life))
    if wanted.script is not None:
        _play(world, wanted.script)
        return
    if not wanted.as_json:
        injuries = ", ".join(world.injuries) or "nothing"
        print(f"{wanted.protocol}: {life.words}; what may happen to it: {injuries}")
    console = Console(stderr=True)
    begin = time.perf_counter()
    with console.status("") as status:

        def tell(states: int, depth: int, waiting: int) -> None:
            if console.is_terminal:
                status.update(f"{states} states, depth {depth}, {waiting} still to be looked at")

        found = explored(world, depth_max=wanted.depth or None, states_max=wanted.states, tell=tell)
    took = time.perf_counter() - begin
    if wanted.as_json:
        print(json.dumps(_summary(wanted, found, took)))
    else:
        _tell(world, found, took)
    if found.bad:
        raise typer.Exit(BROKEN)


def _summary(wanted: Wanted, found: Exploration, took: float) -> dict[str, object]:
    return {
        "protocol": wanted.protocol,
        "states": found.states,
        "depth": found.depth,
        "complete": found.complete,
        "moves": found.moves,
        "machines": found.machines,
        "seconds": round(took, 3),
        "bad": [{"sentence": one.sentence, "story": list(one.words)} for one in found.bad],
    }


def _tell(world: SmallWorld, found: Exploration, took: float) -> None:
    for one in found.bad:
        print(f"\nbroken: {one.sentence}\nthe shortest story, a script for --script:")
        print("\n".join(played(world, one.words).lines))
    whole = "all there are" if found.complete else "not all there are"
    print(
        f"{found.states} states, {whole}, to depth {found.depth}; {found.moves} moves; "
        f"{found.machines} states of single machines; {took:.1f} s"
    )


def _play(world: SmallWorld, path: Path) -> None:
    try:
        words = scripted(path.read_text())
    except OSError as error:
        raise BadOption("--script", str(path), f"a file that can be read: {error}") from error
    told = played(world, words)
    print("\n".join(told.lines))
    if told.refused:
        raise BadOption("--script", told.refused, "; ".join(told.possible))
    print(f"broken: {told.broken}" if told.broken else "nothing is broken")
    if told.broken:
        raise typer.Exit(BROKEN)
