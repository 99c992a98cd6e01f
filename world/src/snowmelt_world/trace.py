"""What happened in a world: a digest of all of it, and, when wanted, the story of a part."""

from collections import deque
from hashlib import blake2b
from typing import Any, Final

import msgspec

from snowmelt.core.instant import Instant, spelled
from snowmelt.core.names import NodeId
from snowmelt.core.node import Effect, Event, Expired, PersistFailed, Received, SetTimer, Started
from snowmelt.core.record import Write
from snowmelt_world.clock import DAY, wall

STEPS_KEPT: Final = 50_000
STORY_LINES: Final = 60
BYTES_SHOWN: Final = 12


class Step(msgspec.Struct, frozen=True, array_like=True):
    at: Instant
    node: NodeId
    event: Event[Any]
    effects: list[Effect[Any]]


class Trace:
    """Takes in every step. The digest is the same exactly when all steps were.

    Only what a step *is* goes into it (never its memory address or hash), so two processes can be
    compared by eight bytes.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self.steps = 0
        self._digest = blake2b(digest_size=8)
        self._encode = msgspec.msgpack.Encoder().encode
        self._kept: deque[Step] | None = deque(maxlen=STEPS_KEPT) if keep else None

    def add(self, at: Instant, node: NodeId, event: Event[Any], effects: list[Effect[Any]]) -> None:
        self.steps += 1
        self._digest.update(self._encode((at, node, event, effects)))
        if self._kept is not None:
            self._kept.append(Step(at, node, event, effects))

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits."""
        return self._digest.hexdigest()

    def kept(self) -> list[Step]:
        """The last steps, when they were to be kept."""
        return list(self._kept or ())

    def story(self, subject: str) -> list[str]:
        """The last steps that concern a node (or an item, by any word it is known by)."""
        lines = [line(step) for step in self.kept() if _concerns(step, subject)]
        left_out = len(lines) - STORY_LINES
        head = [f"… {left_out} earlier steps"] if left_out > 0 else []
        return head + lines[-STORY_LINES:]


def line(step: Step) -> str:
    effects = ", ".join(map(brief, step.effects)) or "nothing"
    return f"{spelled(step.at):>10}  {step.node:<4} {brief(step.event)}{_date(step)} -> {effects}"


def _date(step: Step) -> str:
    """How much more than the truth a wall clock shows, when it does."""
    wrong = step.event.wall - wall(step.at) if isinstance(step.event, Started) else 0
    return f" (its wall clock: {spelled(wrong)})" if wrong else ""


def brief(word: object) -> str:
    """An event or effect in short: its name and its fields' values.

    >>> from snowmelt.core.node import Send
    >>> brief(Send(NodeId("n2"), "hello"))
    'Send n2 hello'
    """
    if isinstance(word, memoryview):  # its own words are its address
        return brief(bytes(word))
    if isinstance(word, bytes) and len(word) > BYTES_SHOWN:
        return f"{word[:BYTES_SHOWN]!r}…({len(word)} bytes)"
    if isinstance(word, SetTimer):  # without the whole days that its clock shows above the world's
        return f"SetTimer {word.timer.value} {spelled(word.at % DAY)}"
    if isinstance(word, Expired):
        return f"Expired {brief(word.timer)}"
    if isinstance(word, Started):  # `line` says when its wall clock is wrong
        return f"Started {brief(word.records)} {brief(word.damaged)}"
    if isinstance(word, PersistFailed):
        return f"PersistFailed {word.ticket} {word.reason}" + (" (fatal)" if word.fatal else "")
    if isinstance(word, Write):
        return f"{repr(word.key)[2:-1]} ({len(word.value)} bytes)"
    if isinstance(word, tuple | list):
        return "(" + ", ".join(map(brief, word)) + ")"
    if not isinstance(word, msgspec.Struct):
        return str(getattr(word, "value", word))
    if type(word).__str__ is not msgspec.Struct.__str__:
        return str(word)
    values = [brief(getattr(word, name)) for name in word.__struct_fields__]
    return " ".join([type(word).__name__, *values])


def _concerns(step: Step, subject: str) -> bool:
    if subject == step.node:
        return True
    if isinstance(step.event, Received) and step.event.source == subject:
        return True
    named = f"{subject!r}"
    return named in repr(step.event) or any(named in repr(effect) for effect in step.effects)
