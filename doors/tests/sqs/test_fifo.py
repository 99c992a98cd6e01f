"""A FIFO queue: order within a group, and what is sent twice."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from snowmelt_doors.sqs import deduplication

Make = Callable[..., str]


@pytest.fixture
def fifo(sqs: Any, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("test_", "")[:60]
    given = {"FifoQueue": "true", "ContentBasedDeduplication": "true", "VisibilityTimeout": "60"}
    url: str = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=given)["QueueUrl"]
    return url


def received(sqs: Any, url: str) -> list[Any]:
    told = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"])
    found: list[Any] = told.get("Messages", [])
    return found


def test_an_answer_has_as_many_of_a_group_as_there_are(sqs: Any, other: Any, fifo: str) -> None:
    for group, body in (("a", "a1"), ("b", "b1"), ("a", "a2"), ("a", "a3"), ("c", "c1")):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId=group)
    told = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=4)["Messages"]
    assert sorted(one["Body"] for one in told) == ["a1", "a2", "a3", "b1"]
    sqs.send_message(QueueUrl=fifo, MessageBody="a4", MessageGroupId="a")
    assert [one["Body"] for one in received(other, fifo)] == ["c1"]
    of = {one["Body"]: one["ReceiptHandle"] for one in told}
    for body in ("a1", "a3"):
        other.delete_message(QueueUrl=fifo, ReceiptHandle=of[body])
    assert received(other, fifo) == []
    sqs.change_message_visibility(QueueUrl=fifo, ReceiptHandle=of["a2"], VisibilityTimeout=0)
    assert [one["Body"] for one in received(other, fifo)] == ["a2", "a4"]


def test_the_next_of_a_group_waits_for_the_one_before(sqs: Any, other: Any, fifo: str) -> None:
    for group, body in (("a", "a1"), ("b", "b1")):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId=group)
    first = received(sqs, fifo)
    sqs.send_message(QueueUrl=fifo, MessageBody="a2", MessageGroupId="a")
    assert received(other, fifo) == []
    sqs.change_message_visibility(
        QueueUrl=fifo, ReceiptHandle=first[0]["ReceiptHandle"], VisibilityTimeout=0
    )
    again, behind = received(other, fifo)
    assert (again["Body"], behind["Body"]) == ("a1", "a2")
    other.change_message_visibility(
        QueueUrl=fifo, ReceiptHandle=behind["ReceiptHandle"], VisibilityTimeout=0
    )
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=again["ReceiptHandle"])
    [second] = received(other, fifo)
    assert second["Body"] == "a2"
    assert second["Attributes"]["MessageGroupId"] == "a"
    assert second["Attributes"]["SequenceNumber"] > first[0]["Attributes"]["SequenceNumber"]


def test_what_is_sent_twice_at_any_door_is_there_once(sqs: Any, other: Any, fifo: str) -> None:
    def sent(client: Any) -> tuple[str, str]:
        told = client.send_message(QueueUrl=fifo, MessageBody="same", MessageGroupId="a")
        return told["MessageId"], told["SequenceNumber"]

    with ThreadPoolExecutor(4) as pool:
        told = set(pool.map(sent, [sqs, other] * 4))
    assert len(told) == 1
    [got] = received(sqs, fifo)
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=got["ReceiptHandle"])
    assert sent(other) == told.pop(), "also when it is done, for five minutes"
    assert received(sqs, fifo) == []


@pytest.mark.wide
def test_what_is_sent_again_later_is_another_message_though_the_first_still_waits(
    sqs: Any, fifo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deduplication, "WINDOW", 6.0)
    monkeypatch.setattr(deduplication, "KEPT", 1.0)

    def sent() -> str:
        told = sqs.send_message(QueueUrl=fifo, MessageBody="same", MessageGroupId="a")
        return str(told["MessageId"])

    first, began = sent(), time.monotonic()
    while (again := sent()) == first:
        assert time.monotonic() < began + 30
        time.sleep(0.2)
    assert time.monotonic() > began + 5.9
    assert [one["MessageId"] for one in received(sqs, fifo)] == [first, again]


def test_an_expired_receipt_of_a_fifo_queue_is_told(sqs: Any, fifo: str) -> None:
    sqs.send_message(QueueUrl=fifo, MessageBody="one", MessageGroupId="a")
    [got] = sqs.receive_message(QueueUrl=fifo, VisibilityTimeout=1)["Messages"]
    time.sleep(1.2)
    with pytest.raises(ClientError, match="The receipt handle has expired"):
        sqs.delete_message(QueueUrl=fifo, ReceiptHandle=got["ReceiptHandle"])
