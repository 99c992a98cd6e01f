"""`snowmelt sim`: lives of the simulated world."""

import json
import os
import re
import sys
import time
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import spelled
from snowmelt_world import faults as faults_
from snowmelt_world.cli.explore import INJURIES_HELP, WORLD_HELP, Wanted, explore
from snowmelt_world.cli.spark import SPARK, crew_of
from snowmelt_world.crew import processes
from snowmelt_world.explore.walk import STATES_MAX
from snowmelt_world.families import FAMILIES, family
from snowmelt_world.life import Ending, Report, Tally
from snowmelt_world.planted import Bug, bugs_of
from snowmelt_world.scenario import (
    COORDINATORS,
    DISK,
    ETCD_DECIDES,
    OVER_ETCD,
    Scenario,
    drawn,
    kinds_of,
)
from snowmelt_world.sweep import CHUNK_SECONDS_MAX, sweep
from snowmelt_world.work import Crew, in_turn

SHOWN = 3
COORDINATOR = typer.Option(help="Who decides: disk, or etcd, a simulated one with weather.")
_SPANS = ("extra", "by", "period", "down", "up", "taken", "fails", "length")
_SEEDS = re.compile(r"(\d{1,18}):(\d{1,18})")


def sim(
    protocol: Annotated[str, typer.Option(help="Which lives: " + ", ".join(FAMILIES))],
    seed: Annotated[int | None, typer.Option(help="One life.")] = None,
    seeds: Annotated[str, typer.Option(help="Many lives: 0:1000 is a thousand.")] = "",
    faults: Annotated[
        str, typer.Option(help="Which kinds, by commas: " + ", ".join(faults_.KINDS))
    ] = "all",
    plant: Annotated[
        str, typer.Option(help="Plant a known bug: " + ", ".join(bug.value for bug in Bug))
    ] = "",
    coordinator: Annotated[str, COORDINATOR] = DISK,
    jobs: Annotated[int, typer.Option(help="Processes; 0 is one for each core.")] = 0,
    spark: Annotated[str, SPARK] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    explores: Annotated[
        bool, typer.Option("--explore", help="Walk all states of a small world instead.")
    ] = False,
    world: Annotated[str, typer.Option(help=f"With --explore. {WORLD_HELP}.")] = "",
    injuries: Annotated[str, typer.Option(help=f"With --explore. {INJURIES_HELP}; or none.")] = "",
    depth: Annotated[int, typer.Option(help="With --explore: so many moves; 0: to the end.")] = 0,
    states: Annotated[int, typer.Option(help="With --explore: so many states.")] = STATES_MAX,
    script: Annotated[
        Path | None, typer.Option(help="With --explore: play a story from a file instead.")
    ] = None,
) -> None:
    """Live lives of a family in a world with faults. Each is judged.

    With --explore, walk every state of a small world without chance. Ends with 10 when an invariant
    broke, 11 when a life never settled, 12 when a machine crashed.
    """
    if explores:
        if seed is not None or seeds:
            raise BadOption("--explore", "with a seed", "no seed: nothing is drawn by chance")
        explore(
            Wanted(protocol, world, injuries, depth, states, script, _bug(plant, protocol), as_json)
        )
        return
    family(protocol)
    range_ = _range(seed, seeds)
    kinds = faults_.kinds(faults.split(","), kinds_of(protocol))
    bug = _bug(plant, protocol)
    _check_coordinator(coordinator, protocol)
    here = _here(len(range_), jobs, spark)
    console = Console(stderr=True)
    if len(range_) == 1 and not as_json:
        _print_scenario(drawn(protocol, range_[0], kinds, bug, coordinator=coordinator))
    begin = time.perf_counter()
    reports: list[Report] = []
    with (
        crew_of(spark, "snowmelt sim", here) as crew,
        Progress(
            *Progress.get_default_columns()[:2],
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal or len(range_) == 1,
        ) as progress,
    ):
        task = progress.add_task(protocol, total=len(range_))
        for report in sweep(protocol, range_, kinds, bug, coordinator, crew):
            reports.append(report if report.ending else msgspec.structs.replace(report, story=()))
            progress.advance(task)
    took = time.perf_counter() - begin
    bad = [report for report in reports if report.ending is not Ending.SETTLED]
    if as_json:
        print(json.dumps(_summary(reports, bad, kinds, took)))
    else:
        again = f"--faults {faults}" + (f" --plant {plant}" if plant else "")
        again += "" if coordinator == DISK else f" --coordinator {coordinator}"
        _tell(reports, bad, took, again)
    if bad:
        raise typer.Exit(int(bad[0].ending))


def _here(lives: int, jobs: int, spark: str) -> Crew:
    """Who lives them without Spark."""
    if jobs < 0:
        raise BadOption("--jobs", jobs, "0 or more")
    if spark and jobs:
        raise BadOption("--jobs", jobs, "left out with --spark, whose master says how many")
    workers = 1 if lives < 64 else (jobs or os.cpu_count() or 1)
    return in_turn if workers == 1 else processes(workers, CHUNK_SECONDS_MAX)


def _range(seed: int | None, seeds: str) -> range:
    if (seed is None) == (not seeds):
        raise BadOption("--seed", seed, "a number, or --seeds A:B, one of the two")
    if seed is not None:
        if seed < 0:
            raise BadOption("--seed", seed, "0 or more")
        return range(seed, seed + 1)
    found = _SEEDS.fullmatch(seeds)
    if not found or int(found[1]) >= int(found[2]):
        raise BadOption("--seeds", seeds, "A:B with A below B, such as 0:1000")
    return range(int(found[1]), int(found[2]))


def _bug(word: str, protocol: str) -> Bug | None:
    if not word:
        return None
    known = {bug.value: bug for bug in bugs_of(protocol)}
    if word not in known:
        raise BadOption("--plant", word, ", ".join(known))
    return known[word]


def _check_coordinator(given: str, protocol: str) -> None:
    if given not in COORDINATORS:
        raise BadOption("--coordinator", given, " or ".join(COORDINATORS))
    if given == ETCD_DECIDES and protocol not in OVER_ETCD:
        allowed = "disk for this family; etcd for " + ", ".join(OVER_ETCD)
        raise BadOption("--coordinator", given, allowed)


def _print_scenario(scenario: Scenario) -> None:
    """The seed and all that is drawn from it, before anything happens."""
    style = scenario.style
    print(
        f"{scenario.protocol}, seed {scenario.seed}: {len(scenario.nodes)} nodes, faults until ",
        end="",
    )
    print(spelled(scenario.faults_end), end="")
    order = "in order" if style.in_order else "in any order"
    delay = f"{spelled(style.delay_min)} + {spelled(style.delay_mean)} on average"
    print(f"; links {order}, {delay}")
    hurts = (*scenario.faults, *scenario.weather)
    for fault in sorted(hurts, key=lambda one: one.at):
        fields = msgspec.structs.asdict(fault)
        at, until = fields.pop("at"), fields.pop("until", None)
        when = spelled(at) + (f" to {spelled(until)}" if until is not None else "")
        rest = " ".join(_field(name, value) for name, value in fields.items() if value)
        print(f"  {when:>22}  {fault.__struct_config__.tag} {rest}")
    sys.stdout.flush()


def _field(name: str, value: object) -> str:
    """One field of a fault; its durations as a person reads them."""
    if name in _SPANS and isinstance(value, int):
        return f"{name}={spelled(value)}"
    if isinstance(value, tuple):
        return f"{name}={','.join(_one(name, part) for part in value)}"
    return name.replace("_", "-") if value is True else f"{name}={value}"


def _one(name: str, part: object) -> str:
    """One of several: a moment, a link, or a name."""
    if isinstance(part, tuple):
        return "-".join(map(str, part))
    return spelled(part) if name == "times" and isinstance(part, int) else str(part)


def _summary(
    reports: list[Report], bad: list[Report], kinds: tuple[str, ...], took: float
) -> dict[str, object]:
    endings = Counter(report.ending.name.lower() for report in reports)
    settled = [report.settled_after for report in reports if report.settled_after is not None]
    return {
        "protocol": reports[0].protocol,
        "lives": len(reports),
        "endings": dict(sorted(endings.items())),
        "faults": list(kinds),
        "steps": sum(report.steps for report in reports),
        "seconds": round(took, 3),
        "settled_after_max_s": max(settled, default=0) / 1e9,
        "digest": joined(reports),
        **_excused(reports),
        "bad": [
            {
                "seed": report.seed,
                "ending": report.ending.name.lower(),
                "exit_code": int(report.ending),
                "sentence": report.sentence,
                "subject": report.subject,
                "story": list(report.story),
            }
            for report in bad[:SHOWN]
        ],
    }


def together(reports: list[Report]) -> Tally | None:
    """What was judged and excused in all these lives; None when no family says."""
    tallies = [report.tally for report in reports if report.tally is not None]
    if not tallies:
        return None
    excused: Counter[str] = Counter()
    for tally in tallies:
        excused.update(tally.excused)
    return Tally(sum(tally.calls for tally in tallies), dict(sorted(excused.items())))


def _share(tally: Tally, excused: int) -> float:
    return excused / tally.calls if tally.calls else 0.0


def _excused(reports: list[Report]) -> dict[str, object]:
    tally = together(reports)
    if tally is None:
        return {}
    share = round(_share(tally, sum(tally.excused.values())), 5)
    return {"calls": tally.calls, "excused": tally.excused, "excused_share": share}


def joined(reports: list[Report]) -> str:
    """One digest of many lives; that of one life is its own."""
    if len(reports) == 1:
        return reports[0].digest
    return blake2b("".join(one.digest for one in reports).encode(), digest_size=8).hexdigest()


def _tell(reports: list[Report], bad: list[Report], took: float, again: str) -> None:
    for report in bad[:SHOWN]:
        print(f"\nseed {report.seed}: {report.ending.name.lower().replace('_', ' ')}: ", end="")
        print(report.sentence)
        print(f"the story of {report.subject}:")
        print("\n".join(report.story))
        print(f"again: snowmelt sim --protocol {report.protocol} --seed {report.seed} {again}")
    steps = sum(report.steps for report in reports)
    longest = max((one.settled_after or 0 for one in reports), default=0)
    digest = joined(reports)
    lives = "1 life" if len(reports) == 1 else f"{len(reports)} lives"
    print(
        f"{lives}, {len(bad)} ended badly; {steps} events in {took:.1f} s; "
        f"longest to come to rest {spelled(longest)}; digest {digest}"
    )
    tally = together(reports)
    if tally is not None:
        print(_excuse(tally))


def _excuse(tally: Tally) -> str:
    """In a line: how much of what was called was not judged, and why."""
    excused = sum(tally.excused.values())
    reasons = "; ".join(
        f"{reason} {_share(tally, count):.2%}" for reason, count in tally.excused.items()
    )
    line = f"{tally.calls} calls, {_share(tally, excused):.2%} of them excused"
    return f"{line}: {reasons}" if reasons else line
