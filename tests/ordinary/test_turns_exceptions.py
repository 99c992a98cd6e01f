"""Bodies that raise: the value goes on as it came, or as it was last saved."""

import random

import pytest

import snowmelt
import snowmelt.aio
from ordinary.turns import had_soon
from snowmelt.cli.local import LocalNode


class Broken(BaseException):
    """What no handler of errors sees."""


@pytest.mark.parametrize("kind", [ZeroDivisionError, Broken, SystemExit, KeyboardInterrupt])
def test_a_body_that_raises_at_any_place_passes_on_what_is_safe(
    node: LocalNode, name: str, kind: type[BaseException], times: int
) -> None:
    chance, safe = random.Random(8), b""
    with snowmelt.connect(node.url) as cluster:
        baton = cluster.baton(name)
        for number in range(25 * times):
            with pytest.raises(kind), baton as held:  # noqa: PT012
                assert held.value == safe
                for step in range(chance.randrange(4)):
                    value = b"%d.%d" % (number, step)
                    if chance.random() < 0.4:
                        held.save(value)
                        safe = value
                    held.value = chance.choice((value, b"", safe))
                raise kind
        had_soon(cluster, name)


async def test_with_await_the_same(node: LocalNode, name: str, times: int) -> None:
    chance, safe = random.Random(9), b""
    async with snowmelt.aio.connect(node.url) as cluster:
        baton = cluster.baton(name)
        for number in range(25 * times):
            save = chance.random() < 0.4
            with pytest.raises(ZeroDivisionError):
                await fail(baton, safe, b"%d" % number if save else None, chance)
            safe = b"%d" % number if save else safe


async def fail(
    baton: snowmelt.aio.Baton, before: bytes, save: bytes | None, chance: random.Random
) -> None:
    async with baton as held:
        assert held.value == before
        if save is not None:
            await held.save(save)
        held.value = chance.choice((b"half done", b"", before))
        raise ZeroDivisionError


def test_a_value_that_is_put_back_is_what_the_next_one_gets(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as cluster:
        baton = cluster.baton(name)
        for before in (b"", b"one"):
            with baton as held:
                held.value = before
            with baton as held:
                held.save(b"x")
                held.value = held.value[:0] + before
            with baton as held:
                assert held.value == before


def test_the_end_of_a_with_that_fails_says_what_went_wrong_first(
    node: LocalNode, name: str
) -> None:
    def fail() -> None:
        with snowmelt.connect(node.url) as cluster, cluster.baton(name) as held:
            held._hold.lose("no word came")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        fail()
    assert any("no word came" in note for note in raised.value.__notes__)
