"""Rows: every public call of every kind, found in the faces themselves."""

import inspect
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import snowmelt
import snowmelt.aio
from snowmelt.client.leases.consuming import ItemLoop
from snowmelt.client.leases.consuming_async import ItemLoop as AsyncConsumption
from snowmelt.client.pool.objects import ObjectLoop as PoolConsumption
from snowmelt.client.pool.objects_async import ObjectLoop as AsyncPoolConsumption

LEASED: Final = {"Item": snowmelt.Item, "Items": snowmelt.Items, "loop": ItemLoop}
FIFO: Final = {"Fifo": snowmelt.Fifo, **LEASED, "Group": snowmelt.Group}

KINDS: Final[dict[str, dict[str, Any]]] = {
    "cluster": {"connect": snowmelt.connect, "Cluster": snowmelt.Cluster},
    "step": {"Step": snowmelt.Step},
    "fifo": FIFO,
    "priority": {"PriorityQueue": snowmelt.PriorityQueue, **LEASED, "Group": snowmelt.Group},
    "folder": {"open": snowmelt.open, "EmbeddedCluster": snowmelt.EmbeddedCluster, **FIFO},
    "pool": {
        "Pool": snowmelt.Pool,
        "Object": snowmelt.Object,
        "Objects": snowmelt.Objects,
        "loop": PoolConsumption,
    },
    "baton": {"Baton": snowmelt.Baton, "Held": snowmelt.Held},
    "counter": {"Counter": snowmelt.Counter},
    "topic": {"Multicast": snowmelt.Multicast, "Subscription": snowmelt.Subscription},
    "worker": {"Worker": snowmelt.Worker},
}
"""Each kind of queue, and what a program holds of it. What both kinds share is a row in both: its
code is one, but what it asks of the nodes is not."""

ASYNC: Final[dict[tuple[str, str], Any]] = {
    ("", "loop"): AsyncConsumption,
    ("pool", "loop"): AsyncPoolConsumption,
}
"""Those that `snowmelt.aio` does not name."""

VALUES: Final = {"Labels", "Mark", "Retry", "Seen"}
"""Public classes that are values: they ask nobody, hold nothing, and are compared by what is in
them."""

INNER: Final = {
    "Fifo.intake": "what a worker takes its items by",
    "PriorityQueue.intake": "what a worker takes its items by",
    "Object.closed": "how an object tells its own loan",
    "loop.end": "how a cluster that is closed ends its loops",
    "loop.end_of": "how a pool that is left ends its loops",
    "loop.forked": "what a fork calls in the child",
}
"""Calls without an underscore that are between our own parts: the rows of those who use them have
them in their middle."""

SPECIAL: Final = {"__enter__": "with", "__iter__": "for", "__next__": "next"}


class Row(NamedTuple):
    """One call of one kind."""

    kind: str
    call: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.call}"


def calls_of(face: Any) -> list[str]:
    """What a program can call there: public methods, and `with`, `for` and `next`."""
    found = []
    for name in dir(face):
        made = inspect.getattr_static(face, name)
        if name.startswith("_") and name not in SPECIAL:
            continue
        if callable(made) or isinstance(made, staticmethod | classmethod):
            found.append(SPECIAL.get(name, name))
    return found


def rows_of(kinds: dict[str, dict[str, Any]]) -> list[Row]:
    """All rows, in the order of kinds and of names."""
    rows = []
    for kind, faces in kinds.items():
        for name, face in faces.items():
            if inspect.isclass(face):
                calls = [f"{name}.{call}" for call in calls_of(face)]
                rows += [Row(kind, call) for call in calls if call not in INNER]
            else:
                rows.append(Row(kind, name))
    return rows


ROWS: Final = rows_of(KINDS)


def callable_of(row: Row) -> Callable[..., Any]:
    """What is called: its signature says what may be given."""
    name, _, call = row.call.partition(".")
    face = KINDS[row.kind][name]
    if not call:
        return face  # type: ignore[no-any-return]
    special = {word: dunder for dunder, word in SPECIAL.items()}
    return getattr(face, call, None) or getattr(face, special[call])  # type: ignore[no-any-return]


def arguments(row: Row) -> dict[str, inspect.Parameter]:
    """What may be given to a call, by name."""
    named = dict(inspect.signature(callable_of(row)).parameters)
    named.pop("self", None)
    return named


def is_awaited(row: Row) -> bool:
    """Whether the call awaits something, in the face with `await`."""
    name, _, call = row.call.partition(".")
    face = ASYNC.get((row.kind, name)) or ASYNC.get(("", name)) or getattr(snowmelt.aio, name)
    if not call:
        return inspect.iscoroutinefunction(face)
    if call in {"with", "next", "room"}:
        return True
    made = getattr(face, call, None) or getattr(face, f"a{call}", None)
    return inspect.iscoroutinefunction(made)
