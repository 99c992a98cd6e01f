"""`snowmelt chaos`: storms of real processes."""

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from snowmelt.cli.local import end_on_sigterm
from snowmelt.core.errors import BadOption
from snowmelt_world.storms.family import KINDS, StormFamily, family_of
from snowmelt_world.storms.faults import Fault
from snowmelt_world.storms.run import INVALID, StormResult, kept, possible, run
from snowmelt_world.storms.setting import StormSetting
from snowmelt_world.storms.showing import Showing, show

EXIT_INVALID: Final = 20
HEARTBEAT_S: Final = 0.5


def chaos(
    kind: Annotated[str, typer.Option(help="What is judged: " + ", ".join(KINDS))],
    nodes: Annotated[int, typer.Option(min=1, max=50, help="Processes of the cluster.")] = 5,
    clients: Annotated[int, typer.Option(min=2, max=200, help="Half of them put.")] = 12,
    minutes: Annotated[float, typer.Option(help="How long faults are done.")] = 2.0,
    seed: Annotated[int | None, typer.Option(help="What is done when; drawn if left out.")] = None,
    faults: Annotated[
        str, typer.Option(help="By commas: " + ", ".join(Fault) + "; all but lose if left out.")
    ] = "",
    every: Annotated[
        float | None, typer.Option(min=0, help="Seconds between faults; 0: none.")
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Faults that are on at a time.")] = 3,
    heartbeat: Annotated[float, typer.Option(help="The nodes', in seconds.")] = HEARTBEAT_S,
    etcd: Annotated[bool, typer.Option("--etcd", help="Three members of etcd decide.")] = False,
    plant: Annotated[str, typer.Option(help="A lie of a client that must be found.")] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE of this kind; again for more.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Where its folder is made.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep its folder in any case.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Do faults to real nodes and clients under load. What clients saw is judged.

    Prints verdict, operations, faults, longest_wait_s. Ends with 20 when a promise is broken; then
    the folder of the run is kept. Cuts, slow links and disks need Linux and root.
    """
    family = family_of(kind)
    if not 0 < minutes <= 24 * 60:
        raise BadOption("--minutes", minutes, "above 0, at most 1440")
    if plant and plant not in family.plants:
        raise BadOption("--plant", plant, ", ".join(family.plants) or "none for this kind")
    given = _given(set_ or ())
    if seed is None:
        seed = time.time_ns() // 1_000_000 % 1_000_000
    end_on_sigterm()
    showing = Showing()
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f"chaos-{kind}-", dir=folder))
    setting = StormSetting(
        kind=kind,
        nodes=nodes,
        clients=clients,
        seconds=60 * minutes,
        seed=seed,
        faults=frozenset(),
        every=family.every if every is None else every,
        at_once=at_once,
        heartbeat=heartbeat,
        etcd=etcd,
        plant=plant,
        given=given,
        place=str(place),
    )
    result = _run(family, setting, faults, showing, keep=keep)
    if as_json:
        print(msgspec.json.encode(result).decode())
    else:
        show(result)
    if result.verdict == INVALID:
        raise typer.Exit(EXIT_INVALID)


def _run(
    family: StormFamily, setting: StormSetting, faults: str, showing: Showing, *, keep: bool
) -> StormResult:
    """Runs it in its folder, which is kept when a promise is broken, or the run breaks off."""
    showing.say(f"seed {setting.seed}, in {setting.folder}")
    keeps = True
    try:
        family.read(setting.given)
        wanted = _faults(faults, family, setting, showing)
        result = run(msgspec.structs.replace(setting, faults=wanted), family, showing)
        keeps = keep or result.verdict == INVALID
    except BadOption:
        keeps = False
        raise
    finally:
        if keeps:
            showing.say(kept(setting.folder))
        else:
            shutil.rmtree(setting.folder)
    return result


def _given(words: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE, each.

    >>> _given(["lease=3", "hold=0.2"])
    {'lease': '3', 'hold': '0.2'}
    """
    found: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign:
            raise BadOption("--set", word, "NAME=VALUE")
        found[name] = value
    return found


def _faults(
    text: str, family: StormFamily, setting: StormSetting, showing: Showing
) -> frozenset[Fault]:
    """Those asked for, or all that this kind offers, as far as they can be done here."""
    offered = {*family.own, *(card.fault for card in family.cards(setting))}
    known: list[Fault] = [fault for fault in Fault if fault in offered]
    wanted: list[Fault] = [fault for fault in known if fault is not Fault.LOSE]
    if text:
        names = [name.strip() for name in text.split(",") if name.strip()]
        strange = [name for name in names if name not in known]
        if strange:
            raise BadOption("--faults", strange[0], ", ".join(known))
        wanted = [fault for fault in known if fault in names]
    some, left_out = possible(wanted, setting.nodes)
    if left_out:
        showing.say(f"left out, as they need root and Linux: {', '.join(left_out)}")
    return frozenset(some)


if __name__ == "__main__":
    typer.run(chaos)
