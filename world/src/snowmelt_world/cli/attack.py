"""`snowmelt attack`: whatever can be said to nodes, and a verdict on how they bear it."""

import secrets
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
import typer

from snowmelt.cli.local import end_on_sigterm
from snowmelt.cli.node import read_token
from snowmelt.client.connection.url import read
from snowmelt.core.errors import BadOption
from snowmelt.core.loopback import is_loopback
from snowmelt_world.attack.costs import THINGS
from snowmelt_world.attack.planted import PLANTS
from snowmelt_world.attack.run import INVALID, MEMBER, NODES, AttackResult, own_cluster, run
from snowmelt_world.attack.setting import ALL, AttackSetting, Identity, Kind, Target
from snowmelt_world.attack.showing import plot, show
from snowmelt_world.storms.showing import Showing

EXIT_INVALID: Final = 20
EVERY: Final = "all"
CALM_LEAST: Final = 3.0
CALM_SECONDS: Final = 10.0
CALM_PART: Final = 0.2


Kinds = Annotated[str, typer.Option(help="By commas: " + ", ".join(ALL) + f"; or {EVERY}.")]
Only = Annotated[str, typer.Option(help="Just these costs: " + ", ".join(THINGS) + ".")]
Inputs = Annotated[int, typer.Option(min=0, help="A kind is over after so many; 0: only by time.")]
Rate = Annotated[
    float, typer.Option(min=0, max=1, help="Part of their rate that honest clients keep.")
]
Answer = Annotated[float, typer.Option(min=0.1, help="Seconds for an honest put, or get.")]
Memory = Annotated[int, typer.Option(min=1, help="MiB that a node may take.")]
Disk = Annotated[int, typer.Option(min=1, help="MiB that a node may write.")]
Turn = Annotated[float, typer.Option(min=1, help="Longest turn of a loop, in ms.")]
TokenFile = Annotated[Path | None, typer.Option(help="File with the token of a given cluster.")]
Mine = Annotated[bool, typer.Option("--yes-it-is-mine", help="Attack an address off loopback.")]
Planted = Annotated[str, typer.Option(help="A fault of own nodes to find: " + ", ".join(PLANTS))]
Drawn = Annotated[Path | None, typer.Option("--plot", help="Draw what was sampled into this SVG.")]


def attack(
    url: Annotated[str, typer.Argument(help="Whom to attack; own nodes when left out.")] = "",
    kind: Kinds = EVERY,
    only: Only = "",
    minutes: Annotated[float, typer.Option(help="How long all kinds take together.")] = 2.0,
    inputs: Inputs = 0,
    seed: Annotated[int | None, typer.Option(help="What is said; drawn if left out.")] = None,
    attackers: Annotated[int, typer.Option(min=1, max=64, help="Processes of a kind.")] = 2,
    memory: Memory = 512,
    disk: Disk = 1_024,
    turn: Turn = 100.0,
    rate: Rate = 0.5,
    answer: Answer = 10.0,
    token_file: TokenFile = None,
    user: Annotated[str, typer.Option(help="Whose token that is, where there are users.")] = "",
    mine: Mine = False,
    own: Annotated[bool, typer.Option("--own", help="Start nodes here, and attack them.")] = False,
    plant: Planted = "",
    plot_: Drawn = None,
    folder: Annotated[Path | None, typer.Option(help="Where its folder is made.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep its folder in any case.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say whatever can be said to nodes, and judge them. Honest clients work beside it.

    Prints verdict, inputs, rates, memory, and what was broken. Ends with 20 when a property is
    broken; then its folder is kept. Attack only what is yours.
    """
    if url and own:
        raise BadOption("--own", own, "an attack without a URL")
    if plant and (url or plant not in PLANTS):
        raise BadOption("--plant", plant, ", ".join(PLANTS) + "; and no URL")
    if not 0 < minutes <= 24 * 60:
        raise BadOption("--minutes", minutes, "above 0, at most 1440")
    things = tuple(one for one in map(str.strip, only.split(",")) if one)
    if any(one not in THINGS for one in things):
        raise BadOption("--only", only, ", ".join(THINGS))
    kinds = (Kind.COSTS,) if things else _kinds(kind)
    if url and not mine:
        refuse_others(url)
    end_on_sigterm()
    setting = AttackSetting(
        url=url,
        targets=(),
        kinds=kinds,
        only=things,
        seconds=60 * minutes / len(kinds),
        inputs=inputs,
        seed=time.time_ns() // 1_000_000 % 1_000_000 if seed is None else seed,
        attackers=attackers,
        **(_given(read_token(token_file), user) if url else _made()),
        place="",
        calm=max(CALM_LEAST, min(CALM_SECONDS, CALM_PART * 60 * minutes)),
        memory_mib=memory,
        disk_mib=disk,
        turn_ms=turn,
        rate_share=rate,
        answer_s=answer,
    )
    result = _kept(setting, folder, plant, plot_, keep=keep)
    if as_json:
        print(msgspec.json.encode(result).decode())
    else:
        show(result)
    if result.verdict == INVALID:
        raise typer.Exit(EXIT_INVALID)


def _kept(
    setting: AttackSetting, folder: Path | None, plant: str, drawn: Path | None, *, keep: bool
) -> AttackResult:
    """Attacks in a folder, which is kept when a property is broken, or the attack breaks off."""
    showing = Showing()
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="attack-", dir=folder))
    keeps = True
    try:
        result = _run(msgspec.structs.replace(setting, place=str(place)), plant, drawn, showing)
        keeps = keep or result.verdict == INVALID
    finally:
        if keeps:
            showing.say(f"journals, samples and logs are kept in {place}")
        else:
            shutil.rmtree(place)
    return result


def _run(setting: AttackSetting, plant: str, drawn: Path | None, showing: Showing) -> AttackResult:
    showing.say(f"seed {setting.seed}, in {setting.folder}")
    with ExitStack() as stack:
        if setting.url:
            place = read(setting.url, setting.honest.secret, setting.honest.user)
            targets = tuple(
                Target(f"node-{number}", one.host, one.port)
                for number, one in enumerate(place.addresses, 1)
            )
            setting = msgspec.structs.replace(setting, targets=targets, cluster=place.cluster)
        else:
            cluster, some = own_cluster(stack, setting, plant)
            url = "snowmelt://" + ",".join(one.address for one in some)
            setting = msgspec.structs.replace(
                setting,
                targets=tuple(some),
                url=url,
                member=MEMBER,
                member_url=cluster.nodes[NODES].url,
            )
        if not setting.member:
            kinds = tuple(one for one in setting.kinds if one is not Kind.MEMBERS)
            setting = msgspec.structs.replace(setting, kinds=kinds)
        total = setting.calm + setting.seconds * len(setting.kinds)
        with showing.bar(total) as tick:
            result = run(setting, stack, tick)
        if drawn is not None:
            plot(setting.folder, drawn)
        return result


def _given(token: str, user: str) -> dict[str, Any]:
    """Where the cluster is given there is one token for all."""
    who = Identity(user, token)
    return {"honest": who, "attacker": who, "guest": who, "node": who}


def _made() -> dict[str, Any]:
    """Four users, with secrets that are drawn."""
    names = {"honest": "judge", "attacker": "attacker", "guest": "guest", "node": "nodes"}
    return {part: Identity(user, secrets.token_urlsafe(24)) for part, user in names.items()}


def _kinds(text: str) -> tuple[Kind, ...]:
    """In the order in which they come; a lying member is the last.

    >>> _kinds("members,fields")
    (<Kind.FIELDS: 'fields'>, <Kind.MEMBERS: 'members'>)
    """
    names = [one.strip() for one in text.split(",") if one.strip()]
    strange = [one for one in names if one not in (*ALL, EVERY)]
    if strange or not names:
        raise BadOption("--kind", strange[0] if strange else text, ", ".join((*ALL, EVERY)))
    return ALL if EVERY in names else tuple(one for one in ALL if one in names)


def refuse_others(url: str) -> None:
    """Raises for an address that is not this machine's own loopback.

    >>> refuse_others("snowmelt://127.0.0.1:4410,10.0.0.1:4410")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: url is '10.0.0.1'; allowed: an address on loopback, or \
--yes-it-is-mine where the cluster is yours
    """
    for one in urlsplit(url).netloc.split(","):
        host = one.rpartition(":")[0].strip("[]")
        if not is_loopback(host):
            allowed = "an address on loopback, or --yes-it-is-mine where the cluster is yours"
            raise BadOption("url", host or url, allowed)


if __name__ == "__main__":
    typer.run(attack)
