import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from snowmelt import aio
from snowmelt.core.users import Accounts
from snowmelt_doors.sqs.door import SqsDoor

USERS = """
shop   nT8s-WzqLr5Vb2Kd0xYp  put:orders
worker Qm4hJ7c9-RfUeA1sXw3t  get:orders
keeper aE6yG2vNkS8dPo5_ZiLb  manage:orders
ops    bE6yG2vNkS8dPo5_ZiLa  admin
"""


class Doors:
    """Doors over one folder, each with its own port, on a loop of their own."""

    def __init__(self, folder: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.doors: list[SqsDoor] = []
        self.cluster = self.run(self._open(folder))

    async def _open(self, folder: str) -> aio.EmbeddedCluster:
        return await aio.open(folder).__aenter__()

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def door(self, users: str = "") -> int:
        """Opens one more; its port."""
        door = SqsDoor(self.cluster, Accounts.parse(users) if users else None)
        self.doors.append(door)
        port: int = self.run(door.listen("127.0.0.1", 0))
        return port

    def close(self) -> None:
        for door in self.doors:
            self.run(door.close())
        self.run(self.cluster.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def client_of(port: int, key: str = "key", secret: str = "secret") -> Any:
    return boto3.client(
        "sqs",
        region_name="us-east-1",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(retries={"max_attempts": 0}),
    )


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    opened = Doors(str(tmp_path_factory.mktemp("queues")))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def port(doors: Doors) -> int:
    return doors.door()


@pytest.fixture(scope="module")
def sqs(port: int) -> Iterator[Any]:
    client = client_of(port)
    yield client
    client.close()


@pytest.fixture(scope="module")
def other(doors: Doors) -> Iterator[Any]:
    """A client of another door over the same queues."""
    client = client_of(doors.door())
    yield client
    client.close()


@pytest.fixture(scope="module")
def made(sqs: Any) -> Callable[..., str]:
    """Makes a queue of a new name; its URL."""
    count = iter(range(1000))

    def make(**attributes: str) -> str:
        url: str = sqs.create_queue(QueueName=f"made-{next(count)}", Attributes=attributes)[
            "QueueUrl"
        ]
        return url

    return make
