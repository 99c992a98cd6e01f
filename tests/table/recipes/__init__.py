"""How each call is made, and what is true of it: one recipe a row.

A recipe is a generator over an `Own`. What it yields is done by whoever drives it: what must be
awaited is awaited, and `Act(call, *arguments)` is *the* call, round which things happen. So it says
in three steps what must be there, what is called, and what the answer must be:

    @recipe("Fifo.put", "PriorityQueue.put")
    def put(own):
        body = own.new()
        with own.puts(body):                  # in the account, when it has returned
            yield Act(own.queue.put, body)

A new row needs one; without it the table's test is red. Words for a row are `local` (it asks
nobody), `quiet` (nobody sees it if it does nothing) and `endless` (without a time-out it waits
for ever, as it says).
"""

from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

import snowmelt
from table.faces import ROWS, Row
from table.own import Own, awaits

GIVEN: Final = {"Item", "Items", "loop", "Group", "Held", "Object", "Objects", "Subscription"}
"""What was given to a process, or to a loop, is its own; the rest only names something."""

Recipe = Callable[[Own], Generator[Any, Any, None]]


class Made(NamedTuple):
    """A recipe, and words on it."""

    steps: Recipe
    words: frozenset[str]


RECIPES: Final[dict[Row, Made]] = {}


def recipe(*calls: str, words: str = "") -> Callable[[Recipe], Recipe]:
    """Of these calls, in each kind that has them, or in the kind that is named before a colon."""

    def write(steps: Recipe) -> Recipe:
        for call in calls:
            kind, _, name = call.rpartition(": ")
            rows = [row for row in ROWS if row.call == name and kind in ("", row.kind)]
            assert rows, f"no face has {call}"
            for row in rows:
                if kind or row not in RECIPES:
                    RECIPES[row] = Made(steps, frozenset(words.split()))
        return steps

    return write


DRIVEN: Final[ContextVar[Row | None]] = ContextVar("DRIVEN", default=None)
"""The row whose recipe is driven here: it may be planted, and others at the same time not."""


class Act:
    """The call that a recipe is of."""

    def __init__(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        self.call, self.arguments, self.named = call, arguments, named

    def __call__(self) -> Any:
        return self.call(*self.arguments, **self.named)


def plainly(act: Act) -> Any:
    """Nothing happens round it."""
    return act()


def drive(own: Own, around: Callable[[Act], Any] = plainly) -> None:
    """Makes the call once, blocking; raises what it raised, or `Wrong`."""
    DRIVEN.set(own.row)
    steps = RECIPES[own.row].steps(own)
    answer, error = None, None
    while True:
        try:
            step = steps.throw(error) if error else steps.send(answer)
        except StopIteration:
            return
        answer, error = step, None
        if isinstance(step, Act):
            try:
                answer = around(step)
            except (StopIteration, StopAsyncIteration):
                error = snowmelt.Empty("the loop is over")
            except BaseException as raised:
                error = raised


async def drive_async(own: Own, around: Callable[[Act], Any] = plainly) -> None:
    """The same on an event loop."""
    DRIVEN.set(own.row)
    steps = RECIPES[own.row].steps(own)
    answer, error = None, None
    while True:
        try:
            step = steps.throw(error) if error else steps.send(answer)
        except StopIteration:
            return
        answer, error = None, None
        try:
            answer = around(step) if isinstance(step, Act) else step
            if awaits(answer):
                answer = await answer
        except (StopIteration, StopAsyncIteration):
            error = snowmelt.Empty("the loop is over")
        except BaseException as raised:
            error = raised


from table.recipes import clusters, items, pools, queues, turns, workers  # noqa: E402

__all__ = ["RECIPES", "Act", "clusters", "drive", "items", "pools", "queues", "turns", "workers"]
