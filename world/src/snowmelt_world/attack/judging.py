"""What must hold of a cluster that is attacked, judged from samples and from the honest account.

1. Every node lives: its process is the one that began.
2. Every node answers an honest client in time, and a supervisor who asks whether it lives.
3. Honest clients keep their part of the rate that they had alone.
4. Memory stays under its budget, and so does what is written to disks.
5. No turn of a node's loop is too long, by its own thread's time.
6. Honest items: none lost, doubled, made up, or out of order.
7. What others had before is there.
8. Who has no secret is not let in, and who has no right to a name is not heard about it.

A lying member (rule 5 of the package) is judged by 1, 4 and 5.
"""

from typing import Final

import msgspec

from snowmelt_world.attack import account
from snowmelt_world.attack.account import Line
from snowmelt_world.attack.setting import AttackSetting, Kind
from snowmelt_world.attack.watching import Sample, of

MIB: Final = 1 << 20
LIVES: Final = "every node lives"
ANSWERS: Final = "every node answers in time"
SUPERVISED: Final = "a supervisor is told that a node lives"
RATE: Final = "honest clients keep their rate"
MEMORY: Final = "memory stays under its budget"
DISK: Final = "disks stay under their budget"
TURNS: Final = "no turn is too long"
ITEMS: Final = "honest items are all there, once, in order"
OTHERS: Final = "what others had is there"
KEPT_OUT: Final = "nobody is let in, or heard, without a right"
SILENT_MOST: Final = 3
"""So often in turn a node does not answer a supervisor, and is started again."""
THINGS_KEPT: Final = 3
"""So many things are laid down before."""


class Phase(msgspec.Struct, frozen=True):
    """A while in which one kind of attack was on; none of it is the calm at the beginning."""

    kind: Kind | None
    begin: float
    end: float


class Evidence(msgspec.Struct, frozen=True):
    """All that a verdict is made of."""

    setting: AttackSetting
    phases: tuple[Phase, ...]
    samples: tuple[Sample, ...]
    lines: tuple[Line, ...]
    counts: dict[str, dict[str, int]]


def judge(evidence: Evidence) -> tuple[dict[str, list[str]], list[str]]:
    """Each property with what broke it, a sentence each; and what could not be seen."""
    properties = {
        LIVES: _lives(evidence),
        ANSWERS: _answers(evidence),
        SUPERVISED: _supervised(evidence),
        RATE: _rates(evidence),
        MEMORY: _memory(evidence),
        DISK: _disk(evidence),
        TURNS: _turns(evidence),
        ITEMS: account.wrong_items(evidence.lines),
        OTHERS: account.lost_of_others(evidence.lines),
        KEPT_OUT: _kept_out(evidence),
    }
    if not account.looked_at_all(evidence.lines, THINGS_KEPT):
        properties[OTHERS].append("the honest clients could not look at what they had")
    return properties, _unseen(evidence)


def rates(evidence: Evidence) -> dict[str, float]:
    """Acknowledged items a second: alone, and beside each kind."""
    return {
        str(one.kind or "alone"): round(account.rate(evidence.lines, one.begin, one.end), 1)
        for one in evidence.phases
        if one.kind is not Kind.MEMBERS
    }


def _lives(evidence: Evidence) -> list[str]:
    found = []
    for target in evidence.setting.targets:
        began: float | None = None
        for one in _all(evidence, target.name):
            if not one.lives:
                found.append(f"{target.name} ended {_when(evidence, one.at)}")
                break
            if began is not None and one.began is not None and one.began > began + 1.0:
                found.append(f"{target.name} was started anew {_when(evidence, one.at)}")
                break
            began = one.began if began is None else began
    return found


def _answers(evidence: Evidence) -> list[str]:
    limit = evidence.setting.answer_s
    return [
        f"during {one.kind}: {text}"
        for one in _honest_phases(evidence)
        for text in account.slow_probes(evidence.lines, one.begin, one.end, limit)
    ]


def _supervised(evidence: Evidence) -> list[str]:
    """A supervisor starts a node again that is silent several times."""
    found = []
    for target in evidence.setting.targets:
        silent = 0
        for one in _all(evidence, target.name):
            silent = silent + 1 if one.lives and one.answers is False else 0
            if silent == SILENT_MOST:
                found.append(f"{_when(evidence, one.at)}: {target.name} did not answer /livez")
    return found


def _rates(evidence: Evidence) -> list[str]:
    found = rates(evidence)
    alone, least = found["alone"], evidence.setting.rate_share
    if not alone:
        return ["honest clients did nothing, even alone"]
    return [
        f"during {kind}: {now:g}/s, alone {alone:g}/s"
        for kind, now in found.items()
        if now < least * alone
    ]


def _memory(evidence: Evidence) -> list[str]:
    budget = evidence.setting.memory_mib
    return _beyond(evidence, "memory", budget, "of memory")


def _disk(evidence: Evidence) -> list[str]:
    """By what was there before the attack."""
    return _beyond(evidence, "disk", evidence.setting.disk_mib, "more on its disk")


def _beyond(evidence: Evidence, name: str, budget: int, what: str) -> list[str]:
    found = []
    for target in evidence.setting.targets:
        before, said = None, set[Kind | None]()
        for one in _all(evidence, target.name):
            value = getattr(one, name)
            if value is None:
                continue
            before = (value if name == "disk" else 0) if before is None else before
            kind = _kind(evidence, one.at)
            if value - before > budget * MIB and kind not in said:
                said.add(kind)
                much = (value - before) // MIB
                found.append(
                    f"during {kind}: {target.name} has {much} MiB {what}; {budget} at most"
                )
    return found


def _turns(evidence: Evidence) -> list[str]:
    limit, found = evidence.setting.turn_ms / 1_000, []
    for target in evidence.setting.targets:
        before: float | None = None
        for one in _all(evidence, target.name):
            if one.turn is None:
                continue
            if before is not None and one.turn > before and one.turn > limit:
                found.append(
                    f"{_when(evidence, one.at)}: {target.name} worked {1_000 * one.turn:.0f} ms"
                    f" on one event ({one.turn_event})"
                )
            before = one.turn
    return found


def _kept_out(evidence: Evidence) -> list[str]:
    return [
        f"{count} times {name}"
        for counts in evidence.counts.values()
        for name, count in counts.items()
        if name.startswith("let in")
    ]


def _unseen(evidence: Evidence) -> list[str]:
    """Where a property can't be judged."""
    found, targets = [], evidence.setting.targets
    if not all(one.pid for one in targets):
        found.append("memory and disks: the nodes were started by somebody else")
    if Kind.MEMBERS not in evidence.setting.kinds or not evidence.setting.member:
        found.append("members: none of the nodes is the attack's own, or it was not asked for")
    untold = [
        f"turns of {one.name}: it never told"
        for one in targets
        if all(sample.turn is None for sample in _all(evidence, one.name))
    ]
    return found + untold


def _all(evidence: Evidence, node: str) -> list[Sample]:
    begin, end = evidence.phases[0].begin, evidence.phases[-1].end
    return list(of(evidence.samples, node, begin, end + 60.0))


def _honest_phases(evidence: Evidence) -> list[Phase]:
    return [one for one in evidence.phases if one.kind is not Kind.MEMBERS]


def _kind(evidence: Evidence, at: float) -> Kind | None:
    """Which was on, or the last before."""
    began = [one.kind for one in evidence.phases if one.begin <= at]
    return began[-1] if began else None


def _when(evidence: Evidence, at: float) -> str:
    return (
        f"during {_kind(evidence, at) or 'the calm'}, after {at - evidence.phases[0].begin:.0f} s"
    )
