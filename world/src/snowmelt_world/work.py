"""Independent work, and who does it: this process, others on this machine, or Spark's executors.

A piece of work is bytes and so is its result; what they mean is told by the function. It is known
by its name to whoever works, so its module has to be installed there.
"""

from collections.abc import Callable, Generator, Sequence

Work = Callable[[bytes], bytes]
Crew = Callable[[Work, Sequence[bytes]], Generator[bytes, None, None]]
"""Does the work on each piece; results come in the order of the pieces, each as soon as it can.

Whoever wants no more of them closes the generator. An exception in one piece ends it; work that can
fail says so in its result.
"""


def in_turn(work: Work, pieces: Sequence[bytes]) -> Generator[bytes, None, None]:
    """The crew that is this process alone.

    >>> list(in_turn(bytes.upper, [b"one", b"two"]))
    [b'ONE', b'TWO']
    """
    return (work(piece) for piece in pieces)
