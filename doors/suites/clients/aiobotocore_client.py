"""A program with aiobotocore: all that it asks of a door is answered as it should be.

`python aiobotocore_client.py http://localhost:9324`; `doors/suites/sqs.py` runs it. It also says
how long after a message was sent a long poll for it was answered.
"""

import asyncio
import statistics
import sys
import time
from typing import Any

from aiobotocore.session import get_session

POLLS = 40


async def messages(sqs: Any) -> None:
    """Sent, received, kept longer, and deleted, in batches and alone."""
    made = await sqs.create_queue(QueueName="aio", Attributes={"VisibilityTimeout": "60"})
    url = made["QueueUrl"]
    entries = [{"Id": str(at), "MessageBody": f"body {at}"} for at in range(10)]
    sent = await sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert len(sent["Successful"]) == 10
    got = await sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    assert sorted(one["Body"] for one in got["Messages"]) == sorted(
        one["MessageBody"] for one in entries
    )
    first, *others = got["Messages"]
    handle = {"QueueUrl": url, "ReceiptHandle": first["ReceiptHandle"]}
    await sqs.change_message_visibility(VisibilityTimeout=0, **handle)
    gone = [{"Id": one["MessageId"], "ReceiptHandle": one["ReceiptHandle"]} for one in others]
    deleted = await sqs.delete_message_batch(QueueUrl=url, Entries=gone)
    assert len(deleted["Successful"]) == 9
    [again] = (await sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10))["Messages"]
    assert again["MessageId"] == first["MessageId"]
    await sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    assert "Messages" not in await sqs.receive_message(QueueUrl=url)
    await sqs.delete_queue(QueueUrl=url)


async def groups(sqs: Any) -> None:
    """A FIFO queue answers with one group, in order, once."""
    given = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    made = await sqs.create_queue(QueueName="aio.fifo", Attributes=given)
    url = made["QueueUrl"]
    for body in ("1", "2", "2", "3"):
        await sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")
    got = await sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    assert [one["Body"] for one in got["Messages"]] == ["1", "2", "3"]
    await sqs.purge_queue(QueueUrl=url)
    await sqs.delete_queue(QueueUrl=url)


async def polls(sqs: Any) -> None:
    """How long a message that is sent is on its way to one who waits."""
    url = (await sqs.create_queue(QueueName="aio-polls"))["QueueUrl"]
    took: list[float] = []
    for _ in range(POLLS):
        poll = asyncio.ensure_future(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20))
        await asyncio.sleep(0.1)
        began = time.perf_counter()
        await sqs.send_message(QueueUrl=url, MessageBody="now")
        [one] = (await poll)["Messages"]
        took.append(1000 * (time.perf_counter() - began))
        await sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    await sqs.delete_queue(QueueUrl=url)
    told = f"{statistics.median(took):.1f} ms in the median, {max(took):.1f} ms at most"
    print(f"aiobotocore: a long poll is answered {told}, from before the message is sent")


async def main() -> None:
    """Asserts all of it."""
    made = get_session().create_client(
        "sqs",
        region_name="us-east-1",
        endpoint_url=sys.argv[1],
        aws_access_key_id="key",
        aws_secret_access_key="secret",  # noqa: S106 - the door listens for this machine alone
    )
    async with made as sqs:
        await messages(sqs)
        await groups(sqs)
        await polls(sqs)


asyncio.run(main())
