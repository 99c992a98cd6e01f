"""What the journals say of the promises, and what they count beside them.

What a producer had that was killed may be gone, and is set apart; so is what it only meant to put.
Everything else that was kept must have been acknowledged, and nothing may be got after that. No
consumer may idle beside a full producer for long, but for what is excused (see `injured`), and what
the machine may have added by itself (see `starving`): that is told, and not judged.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.chaos.starving import read_starving
from benchmarks.pool_chaos_parts.account import Account
from benchmarks.pool_chaos_parts.crowd import Life, Role
from benchmarks.pool_chaos_parts.draining import DRAIN
from benchmarks.pool_chaos_parts.idling import (
    Idle,
    Spell,
    full,
    idle,
    idlings,
    longest_idle,
    without,
)
from benchmarks.pool_chaos_parts.injured import loans, read_injured
from benchmarks.pool_chaos_parts.journal import read

SHOWN: Final = 3


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What was promised and counted."""

    put: int
    """Objects that were kept, whatever became of their producers."""
    put_refused: int
    acknowledged: int
    drained: int
    """Of them, those acknowledged when the load was over."""
    set_apart: int
    """Kept by producers that were killed, and never acknowledged."""
    uncertain: int
    """Kept by the living, and perhaps acknowledged by a consumer that was killed meanwhile."""
    lost: int
    doubled: int
    """Got, or acknowledged again, after an acknowledgement was confirmed."""
    foreign: int
    """Got, and never put."""
    undone: int
    """Got, though their put was told that they are not in the pool."""
    damaged: int
    redelivered: int
    late_acks: int
    """Refused, since the loan was over."""
    unknown_acks: int
    forks: int
    left_behind: int
    """What producers that left when all was drained still had."""
    idle: Idle
    """The longest that a consumer idled while one producer was full."""
    full_seconds: float
    """For how long puts lasted, of all producers together."""
    idle_seconds: float
    """For how long gets lasted, of all consumers together."""
    broken: list[str]
    unjudged: list[str] = []
    """Where the machine itself may have been too slow."""


def judge(folder: Path, lives: list[Life], idle_most: float) -> Judgement:
    """Reads all that was written down; no idling may be longer than `idle_most` seconds."""
    account, fulls, idles = _read(folder, lives)
    before = len(account.acked)
    drained = list(read(folder / f"{DRAIN}.jsonl"))
    account.add_consumer(drained)
    behind = account.left_after(drained[-1].at) if drained else 0
    killed = {
        (life.number, life.life) for life in lives if life.role is Role.PRODUCER and life.dead
    }
    (worst,) = _explained(folder, [longest_idle(idles, fulls)])
    late, starved = _idled(_explained(folder, idlings(idles, fulls, idle_most)), idle_most)
    return Judgement(
        put=len(account.kept),
        put_refused=len(account.refused),
        acknowledged=len(account.acked),
        drained=len(account.acked) - before,
        set_apart=len(account.of_the_dead(killed)),
        uncertain=len(account.uncertain(killed)),
        lost=len(account.lost(killed)),
        doubled=len(account.doubled()),
        foreign=len(account.foreign()),
        undone=len(account.undone()),
        damaged=account.damaged,
        redelivered=account.redelivered(),
        late_acks=account.late,
        unknown_acks=account.unknown,
        forks=account.forks,
        left_behind=behind,
        idle=worst,
        full_seconds=round(sum(spell.length for spell in fulls) / 1e9, 1),
        idle_seconds=round(sum(spell.length for spell in idles) / 1e9, 1),
        broken=[
            *_broken("lost", account.lost(killed)),
            *_broken("got after they were acknowledged", account.doubled()),
            *_broken("got and never put", account.foreign()),
            *_broken("got though their put was refused", account.undone()),
            *([f"{account.damaged} bodies are damaged"] if account.damaged else []),
            *([f"{behind} objects were in the pool when it was empty"] if behind else []),
            *late,
        ],
        unjudged=starved,
    )


def _read(folder: Path, lives: list[Life]) -> tuple[Account, list[Spell], list[Spell]]:
    account, fulls, idles = Account(), list[Spell](), list[Spell]()
    injured, lent = read_injured(folder), list[Spell]()
    for life in lives:
        lines = list(read(folder / f"{life.name}.jsonl"))
        spells = injured.of(life.name, lines[0].at if lines else 0)
        if life.role is Role.PRODUCER:
            account.add_producer(lines)
            fulls += without(full(life, lines), spells)
        else:
            account.add_consumer(lines, partial(injured.got, life=life.name))
            idles += without(idle(life, lines), [*spells, *injured.awaited(life.name, lines)])
            lent += loans(lines, spells)
    borrowed = {one.name: [loan for loan in lent if loan.name == one.name] for one in fulls}
    fulls = [left for one in fulls for left in without([one], borrowed[one.name])]
    return account, fulls, idles


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
