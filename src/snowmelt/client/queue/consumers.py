"""The consumers of a queue, as steps (`connection.steps`): clients of one process count as one."""

import msgspec

from snowmelt.client.connection.naming import Program, program_of
from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.protocols.queue.api.statuses import ConsumerRow, Consumers, ListConsumers


class ConsumerOverview(msgspec.Struct, frozen=True):
    """A process that uses a queue: it has items in hand, or its calls wait."""

    program: str
    """As it was started: `load.py`, `snowmelt-worker`."""
    pid: int
    host: str
    clients: tuple[str, ...]
    """Its connections' names, as nodes have them in their logs."""
    items: int
    """So many are leased to it."""
    held: float
    """For how many seconds it has had the oldest of its leases."""
    gets_waiting: int
    puts_waiting: int


def consumers(steps: FifoSteps, timeout: float) -> Steps[list[ConsumerOverview]]:
    """All of them, those with most in hand first."""
    wait, found = Wait(timeout), dict[Program, list[ConsumerRow]]()
    for part in (yield from steps.partitions(timeout)):
        after, more = "", True
        while more:
            ask = ListConsumers(part.name, after)
            told: Consumers = yield from part.ask_about(ask, wait.left)
            for row in told.rows:
                found.setdefault(program_of(row.client), []).append(row)
            after, more = told.rows[-1].client if told.rows else "", told.more
    some = [_told(program, rows) for program, rows in found.items()]
    return sorted(some, key=lambda one: (-one.items, -one.gets_waiting, one.program, one.pid))


def _told(program: Program, rows: list[ConsumerRow]) -> ConsumerOverview:
    return ConsumerOverview(
        program.name,
        program.pid,
        program.host,
        tuple(dict.fromkeys([row.client for row in rows])),
        sum([row.items for row in rows]),
        max([row.held for row in rows]),
        sum([row.gets for row in rows]),
        sum([row.puts for row in rows]),
    )
