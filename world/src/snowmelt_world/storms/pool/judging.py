"""What the journals say of the promises, and what they count beside them.

What a producer had that was killed may be gone, and is set apart; so is what it only meant to put.
Everything else that was kept must have been acknowledged, and nothing may be got after that. No
consumer may idle beside a full producer for long, but for what is excused (see `injured`), and what
the machine may have added by itself (see `starving`): that is told, and not judged.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from snowmelt_world.storms.crowd import ClientLife
from snowmelt_world.storms.events import Spell, without
from snowmelt_world.storms.family import Judgement
from snowmelt_world.storms.pool.account import Account
from snowmelt_world.storms.pool.idling import Idle, full, idle, idlings, longest_idle
from snowmelt_world.storms.pool.injured import loans, read_injured
from snowmelt_world.storms.pool.journal import read
from snowmelt_world.storms.starving import read_starving

DRAIN: Final = "drain"
PRODUCER: Final = "producer"
CONSUMER: Final = "consumer"
SHOWN: Final = 3
LOST: Final = "nothing is lost"
DOUBLED: Final = "nothing comes after its acknowledgement"
FOREIGN: Final = "nothing comes that nobody put"
UNDONE: Final = "nothing comes whose put was refused"
DAMAGED: Final = "no body is damaged"
EMPTY: Final = "the pool is empty when nothing comes"
IDLE: Final = "no consumer idles beside a full producer"
ROOM: Final = "no producer keeps more than it may"


class Room(msgspec.Struct, frozen=True):
    """What a producer may keep, until the first of them leaves: others take over what that had."""

    objects: int
    bytes: int
    """0 for any number."""


def judge_pool(
    folder: Path, lives: Sequence[ClientLife], idle_most: float, room: Room
) -> Judgement:
    """Reads all that was written down; no idling may be longer than `idle_most` seconds."""
    account, fulls, idles = _read(folder, lives)
    before = len(account.acked)
    drained = list(read(folder / f"{DRAIN}.jsonl"))
    account.add_consumer(drained)
    behind = account.left_after(drained[-1].at) if drained else 0
    killed = {(life.number, life.life) for life in lives if life.role == PRODUCER and life.killed}
    (worst,) = _explained(folder, [longest_idle(idles, fulls)])
    late, starved = _idled(_explained(folder, idlings(idles, fulls, idle_most)), idle_most)
    damaged = [f"{account.damaged} bodies are damaged"] if account.damaged else []
    left = [f"{behind} objects were in the pool when it was empty"] if behind else []
    return Judgement(
        operations=len(account.kept) + len(account.refused) + account.gets,
        longest_wait_s=round(max((one.length for one in (*fulls, *idles)), default=0) / 1e9, 2),
        properties={
            LOST: list(_broken("lost", account.lost(killed))),
            DOUBLED: list(_broken("got after they were acknowledged", account.doubled())),
            FOREIGN: list(_broken("got and never put", account.foreign())),
            UNDONE: list(_broken("got though their put was refused", account.undone())),
            DAMAGED: damaged,
            EMPTY: left,
            IDLE: late,
            ROOM: list(_beyond(account, room)),
        },
        counted={
            "objects put": len(account.kept),
            "puts refused": len(account.refused),
            "objects acknowledged": len(account.acked),
            "of them, when the load was over": len(account.acked) - before,
            "gone with producers that were killed": len(account.of_the_dead(killed)),
            "perhaps acknowledged by the killed": len(account.uncertain(killed)),
            "delivered again": account.redelivered(),
            "acknowledgements refused": account.late,
            "acknowledgements of unknown outcome": account.unknown,
            "children that left all alone": account.forks,
            "longest idle beside a full producer (s)": worst.seconds,
            "puts lasted, all together (s)": round(sum(one.length for one in fulls) / 1e9, 1),
            "gets lasted, all together (s)": round(sum(one.length for one in idles) / 1e9, 1),
            "bytes kept by a producer at most": max(
                (one[1][2] for one in account.stock), default=0
            ),
        },
        unjudged=starved,
    )


def _read(folder: Path, lives: Sequence[ClientLife]) -> tuple[Account, list[Spell], list[Spell]]:
    account, fulls, idles = Account(), list[Spell](), list[Spell]()
    injured, lent = read_injured(folder), list[Spell]()
    for life in lives:
        lines = list(read(folder / f"{life.name}.jsonl"))
        spells = injured.of(life.name, lines[0].at if lines else 0)
        if life.role == PRODUCER:
            account.add_producer(lines)
            fulls += without(full(life, lines), spells)
        else:
            account.add_consumer(lines, partial(injured.got, life=life.name))
            idles += without(idle(life, lines), [*spells, *injured.awaited(life.name, lines)])
            lent += loans(lines, spells)
    borrowed = {one.name: [loan for loan in lent if loan.name == one.name] for one in fulls}
    fulls = [left for one in fulls for left in without([one], borrowed[one.name])]
    return account, fulls, idles


def _beyond(account: Account, room: Room) -> Iterator[str]:
    first = min((at for at, _ in account.left), default=1 << 63)
    most = max([objects for at, (objects, _, _) in account.stock if at < first] or [0])
    kept = max([kept for at, (_, _, kept) in account.stock if at < first] or [0])
    if most > room.objects:
        yield f"a producer kept {most} objects, of {room.objects}"
    if room.bytes and kept > room.bytes:
        yield f"a producer kept {kept} bytes, of {room.bytes}"


def _broken(what: str, ids: list[int]) -> Iterator[str]:
    if ids:
        some = ", ".join(map(str, ids[:SHOWN]))
        yield f"{len(ids)} objects were {what}, such as {some}"


def _explained(folder: Path, idles: list[Idle]) -> list[Idle]:
    """With what else was so meanwhile."""
    injured, starving = read_injured(folder), read_starving(folder)
    return [
        msgspec.structs.replace(
            one,
            starved=starving.seconds(one.at, one.stop),
            injured=injured.during(one.at, one.stop),
        )
        for one in idles
    ]


def _idled(idles: list[Idle], most: float) -> tuple[list[str], list[str]]:
    """The worst that was too long, and the worst of those that the machine may have made so."""
    idles = sorted(idles, reverse=True)
    late = [one for one in idles if one.seconds - one.starved > most]
    starved = [one for one in idles if one.seconds - one.starved <= most]
    return [_told(one, most) for one in late[:1]], [_told(one, most) for one in starved[:1]]


def _told(one: Idle, most: float) -> str:
    beside = f" and {', '.join(one.injured)} were injured" if one.injured else ""
    return (
        f"{one.consumer} idled for {one.seconds:.2f} s beside {one.producer}, which was full; "
        f"at most {most:.2f} s were allowed; meanwhile a process stood in line for a processor "
        f"for {one.starved:.2f} s{beside}"
    )
