"""A real node that hears nobody who decides any more: whom it owes an answer asks another."""

from itertools import count
from pathlib import Path

from runtime.network import Stranger, serving
from snowmelt.core.instant import seconds
from snowmelt.protocols.calling import Answer, AskAnother, Call, Declined
from snowmelt.protocols.queue.api.calls import Get, Open, Opened
from snowmelt.protocols.queue.api.settings import QueueSettings


async def test_a_get_that_waits_at_a_leader_is_told_to_ask_another(tmp_path: Path) -> None:
    numbers = count(1)
    async with (
        serving(tmp_path) as first,
        serving(tmp_path, "n2", join=(first.address,)) as second,
        await Stranger.dial(second.address) as client,
    ):
        await client.greet("c-one")
        queue = await led_by("n2", client, numbers)
        get = Call(next(numbers), Get(queue, 1, 1 << 20, seconds(60), None))
        client.say(get)
        await first.server.stop(depart=False)
        assert await client.answer() == Answer(get.number, AskAnother())


async def led_by(name: str, client: Stranger, numbers: "count[int]") -> str:
    """A queue that this node leads."""
    while True:
        number = next(numbers)
        queue = f"q{number}"
        client.say(Call(number, Open(queue, QueueSettings(replicas=1))))
        told = (await client.answer()).body
        if isinstance(told, Opened) and told.master is not None and told.master.node == name:
            return queue
        assert isinstance(told, Opened | Declined), told
