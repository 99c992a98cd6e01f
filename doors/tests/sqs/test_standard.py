"""A standard queue, as a program with boto3 sees it."""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from snowmelt.core.instant import SECOND

Make = Callable[..., str]
EXAMPLES = Path(__file__).parents[3] / "examples"


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_what_is_sent_is_received_and_deleted(sqs: Any, made: Make) -> None:
    url = made()
    given = {
        "text": {"DataType": "String", "StringValue": "é"},
        "raw": {"DataType": "Binary.png", "BinaryValue": b"\x00\xff"},
    }
    sent = sqs.send_message(QueueUrl=url, MessageBody="hello", MessageAttributes=given)
    [got] = sqs.receive_message(
        QueueUrl=url, AttributeNames=["All"], MessageAttributeNames=["All"]
    )["Messages"]
    assert got["Body"] == "hello"
    assert got["MessageId"] == sent["MessageId"]
    assert got["MessageAttributes"] == given
    assert got["Attributes"]["ApproximateReceiveCount"] == "1"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    assert counts(sqs, url) == ("0", "0", "0")


def counts(sqs: Any, url: str) -> tuple[str, str, str]:
    told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    some = "", "NotVisible", "Delayed"
    first, second, third = (told[f"ApproximateNumberOfMessages{one}"] for one in some)
    return first, second, third


def test_a_receipt_is_good_at_another_door(sqs: Any, other: Any, made: Make) -> None:
    url = made()
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    [got] = other.receive_message(QueueUrl=url)["Messages"]
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=got["ReceiptHandle"], VisibilityTimeout=600
    )
    assert counts(sqs, url) == ("0", "1", "0")
    sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    assert counts(other, url) == ("0", "0", "0")


def test_doors_agree_on_which_queues_there_are(sqs: Any, other: Any) -> None:
    url = sqs.create_queue(QueueName="agreed", Attributes={"VisibilityTimeout": "7"})["QueueUrl"]
    told = other.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
    assert told["Attributes"] == {"VisibilityTimeout": "7"}
    with pytest.raises(ClientError) as error:
        other.create_queue(QueueName="agreed", Attributes={"VisibilityTimeout": "8"})
    assert code_of(error) == "QueueAlreadyExists"
    other.delete_queue(QueueUrl=url)
    time.sleep(1.1)
    with pytest.raises(ClientError) as error:
        sqs.get_queue_url(QueueName="agreed")
    assert code_of(error) == "AWS.SimpleQueueService.NonExistentQueue"


def test_an_expired_receipt_deletes_nothing(sqs: Any, made: Make) -> None:
    url = made(VisibilityTimeout="1")
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    [first] = sqs.receive_message(QueueUrl=url)["Messages"]
    [second] = sqs.receive_message(
        QueueUrl=url, WaitTimeSeconds=20, VisibilityTimeout=60, AttributeNames=["All"]
    )["Messages"]
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    with pytest.raises(ClientError) as error:
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=9
        )
    assert code_of(error) == "AWS.SimpleQueueService.MessageNotInflight"
    assert counts(sqs, url) == ("0", "1", "0")


def test_one_of_several_is_kept_longer_alone(sqs: Any, made: Make) -> None:
    url = made(VisibilityTimeout="3")  # it is kept longer before that is over
    entries = [{"Id": str(at), "MessageBody": str(at)} for at in range(3)]
    assert len(sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 3
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [one["Body"] for one in got] == ["0", "1", "2"]
    sqs.change_message_visibility(
        QueueUrl=url, ReceiptHandle=got[1]["ReceiptHandle"], VisibilityTimeout=60
    )
    time.sleep(3.1)
    again = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=10)[
        "Messages"
    ]
    assert [one["Body"] for one in again] == ["0", "2"]


def test_a_time_of_nothing_gives_back_at_once_and_no_message_comes_twice(
    sqs: Any, made: Make
) -> None:
    url = made()
    for text in ("one", "two"):
        sqs.send_message(QueueUrl=url, MessageBody=text)
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
    assert [one["Body"] for one in got["Messages"]] == ["one", "two"]
    assert counts(sqs, url) == ("2", "0", "0")


def test_a_long_poll_answers_when_something_comes(sqs: Any, other: Any, made: Make) -> None:
    url = made()
    later = threading.Timer(0.3, lambda: other.send_message(QueueUrl=url, MessageBody="at last"))
    later.start()
    began = time.monotonic()
    [got] = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
    later.join()
    assert got["Body"] == "at last"
    assert time.monotonic() - began < 15


def test_what_failed_too_often_goes_to_the_dead_letter_queue_once(sqs: Any, made: Make) -> None:
    dead = made()
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    url = made(RedrivePolicy=policy)
    sqs.send_message(QueueUrl=url, MessageBody="poison")
    for _ in range(2):
        assert len(sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)["Messages"]) == 1
    assert "Messages" not in sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)
    [got] = sqs.receive_message(QueueUrl=dead, AttributeNames=["All"])["Messages"]
    assert got["Body"] == "poison"
    assert got["Attributes"]["DeadLetterQueueSourceArn"].endswith(url.rpartition("/")[2])
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]


def test_what_is_delayed_comes_later(sqs: Any, made: Make) -> None:
    url = made(DelaySeconds="1")
    sqs.send_message(QueueUrl=url, MessageBody="late")
    sqs.send_message(QueueUrl=url, MessageBody="now", DelaySeconds=0)
    assert counts(sqs, url) == ("1", "0", "1")
    [got] = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert got["Body"] == "now"
    [got] = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    assert got["Body"] == "late"


def test_a_bad_entry_fails_alone(sqs: Any, made: Make) -> None:
    url = made()
    told = sqs.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "MessageBody": "good"},
            {"Id": "late", "MessageBody": "late", "DelaySeconds": 901},
        ],
    )
    assert [one["Id"] for one in told["Successful"]] == ["good"]
    assert [(one["Id"], one["SenderFault"]) for one in told["Failed"]] == [("late", True)]


def test_attributes_larger_than_a_header_go_with_the_body(sqs: Any, made: Make) -> None:
    url, long = made(), "x" * 200_000
    given = {"long": {"DataType": "String", "StringValue": long}}
    sqs.send_message(QueueUrl=url, MessageBody="short", MessageAttributes=given)
    [got] = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["long"])["Messages"]
    assert got["Body"] == "short"
    assert got["MessageAttributes"]["long"]["StringValue"] == long


def test_what_another_program_put_is_received(sqs: Any, doors: Any, made: Make) -> None:
    url = made()
    queue = doors.cluster.fifo(url.rpartition("/")[2])
    doors.run(queue.put(b"plain", headers={"kind": "order"}))
    doors.run(queue.put(b"\xff\x00"))
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=2, MessageAttributeNames=["All"])[
        "Messages"
    ]
    assert [one["Body"] for one in got] == ["plain", "/wA="]
    assert got[0]["MessageAttributes"] == {"kind": {"DataType": "String", "StringValue": "order"}}


def test_queues_are_listed_in_pages(sqs: Any) -> None:
    for at in range(3):
        sqs.create_queue(QueueName=f"paged-{at}")
    first = sqs.list_queues(QueueNamePrefix="paged-", MaxResults=2)
    rest = sqs.list_queues(QueueNamePrefix="paged-", MaxResults=2, NextToken=first["NextToken"])
    names = [one.rpartition("/")[2] for one in first["QueueUrls"] + rest["QueueUrls"]]
    assert names == ["paged-0", "paged-1", "paged-2"]
    assert "NextToken" not in rest


def test_the_example_runs(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    example = run_path(str(EXAMPLES / "sqs" / "__main__.py"), run_name="example")
    example["main"](["--endpoint", f"http://127.0.0.1:{port}", "--count", "25"])
    assert capsys.readouterr().out == "25 thumbnails made, 0 messages left\n"


def test_a_task_brings_dead_letters_back_once(sqs: Any, other: Any, made: Make) -> None:
    dead = made()
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    url = made(RedrivePolicy=json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1}))
    for at in range(5):
        sqs.send_message(QueueUrl=url, MessageBody=str(at))
    sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
    sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
    assert counts(sqs, dead) == ("5", "0", "0")
    sqs.start_message_move_task(SourceArn=arn)
    got: list[str] = []
    while len(got) < 5:
        some = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5)
        got += [one["Body"] for one in some["Messages"]]
    assert sorted(got) == ["0", "1", "2", "3", "4"]
    until = time.monotonic() + 20
    while (told := other.list_message_move_tasks(SourceArn=arn)["Results"][0])[
        "Status"
    ] != "COMPLETED":
        assert time.monotonic() < until, told
        time.sleep(0.1)
    assert told["ApproximateNumberOfMessagesMoved"] == 5
    assert counts(sqs, dead) == ("0", "0", "0")


def test_purging_ends_what_is_in_flight_too(sqs: Any, made: Make) -> None:
    url = made()
    for body in ("one", "two"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    [got] = sqs.receive_message(QueueUrl=url, VisibilityTimeout=1)["Messages"]
    sqs.purge_queue(QueueUrl=url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    time.sleep(1.1)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_a_batch_of_deletes_has_an_outcome_for_each(sqs: Any, made: Make) -> None:
    url = made(VisibilityTimeout="60")
    entries = [{"Id": str(at), "MessageBody": str(at)} for at in range(4)]
    sqs.send_message_batch(QueueUrl=url, Entries=entries)
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    handles = {one["Body"]: one["ReceiptHandle"] for one in got}
    for body, seconds in (("1", 0), ("2", 90)):
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=handles[body], VisibilityTimeout=seconds
        )
    gone = [{"Id": f"m{body}", "ReceiptHandle": handle} for body, handle in handles.items()]
    told = sqs.delete_message_batch(QueueUrl=url, Entries=gone)
    assert {one["Id"] for one in told["Successful"]} == {"m0", "m1", "m2", "m3"}
    [again] = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert again["Body"] == "1", "an expired receipt deletes nothing"


def test_groups_of_a_standard_queue_take_fair_turns(sqs: Any, other: Any, made: Make) -> None:
    url = made()
    entries = [
        {"Id": str(at), "MessageBody": f"loud {at}", "MessageGroupId": "loud"} for at in range(5)
    ]
    told = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert len(told["Successful"]) == 5
    for group in ("still", "quiet"):
        other.send_message(QueueUrl=url, MessageBody=group, MessageGroupId=group)
    sqs.send_message(QueueUrl=url, MessageBody="nobody's")
    came = [sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] for _ in range(5)]
    assert came[0].startswith("loud")
    assert came[1:4] == ["still", "quiet", "nobody's"]
    assert came[4].startswith("loud")


def test_a_queue_keeps_messages_for_as_long_as_its_attributes_say(
    sqs: Any, other: Any, doors: Any, made: Make
) -> None:
    url = made()
    queue = doors.cluster.fifo(url.rpartition("/")[2])

    def kept() -> float:
        return float(doors.run(queue.stats()).settings.retention / SECOND)

    assert kept() == 345_600
    for client, said, wanted in ((sqs, "7200", 7200), (other, "60", 960), (sqs, "345600", 345_600)):
        client.set_queue_attributes(QueueUrl=url, Attributes={"MessageRetentionPeriod": said})
        assert kept() == wanted

    def alter(at: int) -> None:
        said = {"MessageRetentionPeriod": str(3600 + at)}
        (sqs, other)[at % 2].set_queue_attributes(QueueUrl=url, Attributes=said)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(alter, range(8)))
    told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert kept() == int(told["MessageRetentionPeriod"])
