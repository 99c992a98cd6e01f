"""A look at the engine's file before the engine may touch it.

LMDB trusts what it maps: a flipped bit in a page that links others can crash the process, or make
whole branches vanish without a word. So a store is audited each time it is opened, by reading the
file as bytes; nothing in it can crash or hang the reader. LMDB's Python package brings the walker
(`lmdb.verify`): every page is reachable once or free, says its own number, has its keys in order,
and the counts of pages and entries are right. The values themselves are not read here: they are
sealed one by one (see `seal.py`) and checked when they are wanted.

What the walker lets pass is looked at here; each of these was met by flipping bits.

- The file has two roots, written in turn, each one commit after the other. When their numbers do
  not follow each other, the newer was lost, and with it a commit that somebody was told is safe.
- A root says what kind of tree the records are; this store has but one kind.
- The nodes on a page lie side by side without a gap, and the engine moves them by their sizes. A
  size that says a little too much still reads well, and corrupts memory at the next erasing.
- A large value lies on pages of its own, of which the walker reads the first. When the file was
  cut off within the others, reading them would end the process.

And one thing the walker calls a fault is none. A large value that is written over by a smaller one
in the same commit keeps the pages it had; the walker counts those that the smaller one needs and
misses the rest. `durable.py` does not let that arise, but folders were written before it took care.
"""

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from lmdb.verify import VerifyError, verify

from snowmelt.core.errors import StoreDamaged
from snowmelt.store.folder import INSTEAD

# The format of LMDB 0.9 on a 64-bit machine, format number 1.
_MAGIC: Final = 0xBEEFC0DE
_FORMAT: Final = 1
_PAGE_HEAD: Final = struct.Struct("=8xxxHHH")  # flags, end of the offsets, begin of the nodes
_BRANCH: Final = 1
_ROOT: Final = struct.Struct("=16xII16xIH34xQ4xH34xQ8xQ")
"""Magic, format; page size, flags and first page of the free list; flags and first page of the
records; commit."""
_FREE_FLAGS: Final = 0x4008  # keys are numbers; the file is named, not its folder
_NOWHERE: Final = (1 << 64) - 1  # in the place of a page's number: the tree is empty
_NODE: Final = struct.Struct("=HHHH")  # size low, size high, flags, key size; or a page's number
_BIG: Final = 1  # the value is on pages of its own, the node holds the number of the first
_NUMBER: Final = struct.Struct("=Q")
_ROOMY: Final = re.compile(
    r"main DB: overflow page \d+ header mp_pages (\d+) != OVPAGES\(\d+\)=(\d+)"
)
_WALKED: Final = re.compile(r"main DB: walked (\d+) overflow pages, record says (\d+)")
_UNREACHED: Final = re.compile(r"(\d+) page\(s\) are neither reachable nor in the freeDB .*")


def audit(file: Path) -> None:
    """Raises `StoreDamaged` unless the engine can be trusted with this file.

    Takes about two seconds for a million records, however large they are.
    """
    try:
        problems = list(_faults(file))
    except VerifyError as error:
        problems = [str(error)]
    except (ValueError, IndexError, OverflowError, struct.error) as error:
        # Something the walker does not foresee; what can't be walked is damaged.
        problems = [f"it can't be walked: {error}"]
    if problems:
        raise StoreDamaged(
            f"{file} is damaged ({'; '.join(problems[:3])}); nothing of it is served: {INSTEAD}"
        )


def _faults(file: Path) -> Iterator[str]:
    with file.open("rb") as stream:
        page_size, trees, lost = _roots(stream)
        yield from lost
        if lost:
            return
        found: list[str] = verify(str(file), subdir=False)  # type: ignore[no-untyped-call]
        unsound = [] if _only_roomy(found) else found
        yield from unsound
        if not unsound:  # only then are the pages sure to form trees that can be walked
            for tree in trees:
                yield from _faults_of_nodes(stream, page_size, tree)


def _only_roomy(found: list[str]) -> bool:
    """Whether all that was found is values on more pages than they need, and all their pages."""
    values = [match for text in found if (match := _ROOMY.fullmatch(text))]
    spare = sum(int(has) - int(needs) for has, needs in (match.groups() for match in values))
    rest = [text for text in found if not _ROOMY.fullmatch(text)]
    if not values or len(rest) != 2:
        return False
    walked, unreached = _WALKED.fullmatch(rest[0]), _UNREACHED.fullmatch(rest[1])
    return (
        all(int(match[1]) > int(match[2]) for match in values)
        and walked is not None
        and unreached is not None
        and int(walked[2]) - int(walked[1]) == int(unreached[1]) == spare
    )


def _roots(stream: BinaryIO) -> tuple[int, tuple[int, int], list[str]]:
    """The page size, the trees of the newer root, and what is wrong with the roots."""
    first = _ROOT.unpack(stream.read(_ROOT.size))
    stream.seek(first[2])
    second = _ROOT.unpack(stream.read(_ROOT.size))
    for magic, form, _, free_flags, _, flags, _, _ in (first, second):
        if (magic, form, free_flags, flags) != (_MAGIC, _FORMAT, _FREE_FLAGS, 0):
            return 0, (0, 0), ["a root has another mark, format or kind"]
    _, _, page_size, _, free, _, records, commit = max(first, second, key=lambda root: root[-1])
    if {first[-1], second[-1]} != {commit, commit - 1}:
        return 0, (0, 0), [f"its roots are of commits {first[-1]} and {second[-1]}: one was lost"]
    return page_size, (free, records), []


def _faults_of_nodes(stream: BinaryIO, page_size: int, tree: int) -> Iterator[str]:
    length = stream.seek(0, os.SEEK_END)
    pages = [] if tree == _NOWHERE else [tree]
    while pages:
        number = pages.pop()
        stream.seek(number * page_size)
        page = stream.read(page_size)
        flags, lower, end = _PAGE_HEAD.unpack_from(page)
        for offset in sorted(struct.unpack_from(f"={(lower - 16) // 2}H", page, 16)):
            low, high, kind, size = _NODE.unpack_from(page, offset)
            if offset != end:
                yield f"on page {number} the nodes do not lie side by side"
                return
            if flags & _BRANCH:
                pages.append(low | high << 16 | kind << 32)
            elif kind & _BIG:
                (first,) = _NUMBER.unpack_from(page, offset + _NODE.size + size)
                if first * page_size + 16 + (low | high << 16) > length:
                    yield f"a value on page {first} is cut off"
                size += _NUMBER.size
            else:
                size += low | high << 16
            end += _NODE.size + size + size % 2
        if end != page_size:
            yield f"on page {number} the nodes do not fill their place"
            return
