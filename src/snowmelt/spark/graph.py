"""How stages hang together: who fills whose source, in which order they end, and a picture of it.

Queues are the edges. Two stages may fill one queue; two stages that read one queue share its
items, each item going to one of them.
"""

from collections.abc import Iterator, Sequence

from snowmelt.core.errors import BadOption
from snowmelt.spark.stages import SparkStage, Stage


def upstream(stage: Stage, stages: Sequence[Stage]) -> list[Stage]:
    """The stages that fill this one's source."""
    return [one for one in stages if one.sink == stage.source]


def in_order(stages: Sequence[Stage]) -> list[Stage] | None:
    """The stages, each after all that fill its source; None where they run in a circle."""
    placed: list[Stage] = []
    rest = list(stages)
    while rest:
        free = [one for one in rest if not upstream(one, rest)]
        if not free:
            return None
        placed += free
        rest = [one for one in rest if one not in free]
    return placed


def drained_order(stages: Sequence[Stage]) -> list[Stage]:
    """The order in which stages run dry; refuses a circle, which never does."""
    order = in_order(stages)
    if order is None:
        circle = ", ".join(_circle(stages))
        raise BadOption("drain", True, f"no circle of queues; {circle} run in one and never end")
    return order


def _circle(stages: Sequence[Stage]) -> list[str]:
    """Those left when all that nobody feeds, and all that feed nobody, are taken away."""
    rest = list(stages)
    while True:
        sources = {one.source for one in rest}
        kept = [one for one in rest if upstream(one, rest) and one.sink in sources]
        if len(kept) == len(rest):
            return [one.name for one in rest]
        rest = kept


def drawn(stages: Sequence[Stage]) -> Iterator[str]:
    """A line a stage: the queue it reads, itself, and where its results go."""
    rows = [
        (one.source, f"{one.name} ({kind_of(one)})", target_of(one))
        for one in in_order(stages) or stages
    ]
    wide = [max(len(row[column]) for row in rows) for column in range(2)] if rows else [0, 0]
    for source, name, target in rows:
        yield f"{source.ljust(wide[0])} ──> {name.ljust(wide[1])} ──> {target}"


def kind_of(stage: Stage) -> str:
    """The word for who does a stage's work."""
    return "Spark" if isinstance(stage, SparkStage) else "worker"


def target_of(stage: Stage) -> str:
    """Where a stage's results go, in a word."""
    if stage.sink is not None:
        return stage.sink
    if isinstance(stage, SparkStage):
        return f"Parquet in {stage.parquet}" if stage.parquet else "a function"
    return "nowhere"
