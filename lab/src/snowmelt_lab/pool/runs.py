"""One point of a sweep: simulated by the kernel, computed by the model, told in one flat row."""

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from snowmelt.core.errors import CallerError
from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool.kernel import run
from snowmelt_lab.pool.models import solve
from snowmelt_lab.pool.options import PoolOptions

Row = dict[str, Any]

SOURCES: Final = ("kernel", "models", "batches", "measures")
"""What decides on a row's numbers, beside its options."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    error: str


class Ran(msgspec.Struct, frozen=True, tag="ran"):
    row: Row


Outcome = Ran | Failed


def told(options: PoolOptions) -> bytes:
    """A point as a piece of work for `done`."""
    return msgspec.json.encode(options)


def done(piece: bytes) -> bytes:
    """The work on one point. It never fails: what goes wrong is told by the result."""
    try:
        outcome: Outcome = Ran(ran(msgspec.json.decode(piece, type=PoolOptions)))
    except Exception as error:  # whatever it is, the others' results are kept
        outcome = Failed(f"{type(error).__name__}: {error}")
    return msgspec.msgpack.encode(outcome)


def outcome_of(result: bytes) -> Outcome:
    """What `done` said."""
    outcome: Outcome = msgspec.msgpack.decode(result, type=Outcome)
    return outcome


def ran(options: PoolOptions) -> Row:
    """A row: the options, what was measured, and under `model_` what the model says."""
    measured = msgspec.to_builtins(run(options))
    modelled = {f"model_{name}": value for name, value in modelled_by(options).items()}
    return {**options_row(options), **measured, **modelled}


def modelled_by(options: PoolOptions) -> Row:
    """The model's answer by name; empty where there is no model of such a pool."""
    try:
        answer: Row = msgspec.to_builtins(solve(options))
    except CallerError:
        return {}
    return answer


def options_row(options: PoolOptions) -> Row:
    """The options as a person writes them in a grid.

    >>> row = options_row(PoolOptions())
    >>> row["access"], row["groups"], row["load"], row["times"]
    ('uniform', '', 1.0, 'exponential')
    """
    row: Row = msgspec.to_builtins(options)
    shares = ",".join(f"{share:g}" for share in row.pop("shares"))
    groups = ",".join(f"{group.count}:{group.rate:g}" for group in options.groups)
    weighted = options.access is AccessKind.WEIGHTED
    access = shares if weighted else options.access.value
    row |= {"groups": groups, "access": access, "load": options.load}
    row["objects_most"] = row.pop("objects")  # `objects` is how many it were
    return {**row, "key": key_of(options), "version": version()}


def key_of(options: PoolOptions) -> str:
    """What tells this point, with its seed, from all others."""
    return sha256(told(options)).hexdigest()[:24]


@cache
def version() -> str:
    """Changes whenever the text of the kernel or of the models does: then all is run anew."""
    here = Path(__file__).parent
    files = [
        file for name in SOURCES for file in (*here.glob(f"{name}.py"), *here.glob(f"{name}/*.py"))
    ]
    digest = sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
