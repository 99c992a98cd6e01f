"""The account: what a program was told, against what is there in the end.

A word is written down when it is true and no later: `tried` before a put, `kept` when it returned,
`doing` before an acknowledgement, `done` when it returned. So whatever happens in between, the end
is exact: what was kept is there once or was taken off, what was done never comes again, what was
refused for sure was never put, and nothing comes that nobody put.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Word = tuple[str, str]


def text_of(body: bytes) -> str:
    """A body as the account has it: without what makes it large."""
    return bytes(body).decode(errors="replace").rstrip(".")


class Wrong(Exception):
    """The account is not right: a cell fails."""


class Account:
    """What one cell's programs were told; a word is a pair, so that children can hand theirs in."""

    def __init__(self, say: Callable[[Word], Any] | None = None) -> None:
        self.words: list[Word] = []
        self._say = say

    def tell(self, word: str, *of: object) -> None:
        """These are so from now on."""
        for one in of:
            text = text_of(one) if isinstance(one, bytes) else str(one)
            self.words.append((word, text))
            if self._say:
                self._say((word, text))

    def all(self, word: str) -> list[str]:
        """Everything of which this was told."""
        return [text for said, text in self.words if said == word]

    def numbers(self, word: str) -> list[int]:
        """The same, as numbers."""
        return [int(text) for text in self.all(word)]


class Books(NamedTuple):
    """The end of an account of items: what was found there, with what was told before."""

    account: Account
    found: Iterable[str]

    def check(self) -> None:
        """Raises `Wrong` at the first thing that is not as it was told."""
        told, left = self.account, Counter(self.found)
        came = set(told.all("came")) | set(left)
        tried, done = set(told.all("tried")), Counter(told.all("done"))
        off = set(told.all("doing")) | set(done)
        expect(not came - tried, "nobody put {}", came - tried)
        twice = [body for body, count in (left + Counter(done)).items() if count > 1]
        expect(not twice, "{} came again, though done, or twice", twice)
        lost = set(told.all("kept")) - off - set(left)
        expect(not lost, "{} was kept, and is gone", lost)
        refused = set(told.all("refused")) & came
        expect(not refused, "{} was refused for sure, and came", refused)


def expect(so: object, sentence: str, what: object = "") -> None:
    """Raises `Wrong` with this sentence unless it is so."""
    if not so:
        raise Wrong(sentence.format(str(what)[:120]))
