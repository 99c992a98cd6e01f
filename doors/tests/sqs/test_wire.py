"""What comes over the wire: signatures, the older form, and what is no request."""

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.exceptions import ClientError

from snowmelt.core.errors import Unavailable

from .conftest import USERS, Doors, client_of


def asked(port: int, raw: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(raw)
        told = b""
        while b"\r\n\r\n" not in told:
            part = connection.recv(65_536)
            if not part:
                break
            told += part
        return told


def query(port: int, **fields: str) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", data=urlencode(fields).encode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def field(xml: str, name: str) -> list[str]:
    return re.findall(f"<{name}>(.*?)</{name}>", xml)


def test_the_older_form_has_xml(port: int) -> None:
    status, xml = query(port, Action="CreateQueue", QueueName="older", **{
        "Attribute.1.Name": "VisibilityTimeout", "Attribute.1.Value": "40",
        "Tag.1.Key": "team", "Tag.1.Value": "a<b",
    })  # fmt: skip
    assert status == 200
    [url] = field(xml, "QueueUrl")
    sent = query(port, Action="SendMessageBatch", QueueUrl=url, **{
        "SendMessageBatchRequestEntry.1.Id": "one",
        "SendMessageBatchRequestEntry.1.MessageBody": "a & b",
        "SendMessageBatchRequestEntry.1.MessageAttribute.1.Name": "kind",
        "SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.DataType": "String",
        "SendMessageBatchRequestEntry.1.MessageAttribute.1.Value.StringValue": "order",
        "SendMessageBatchRequestEntry.2.Id": "two",
        "SendMessageBatchRequestEntry.2.MessageBody": "late",
        "SendMessageBatchRequestEntry.2.DelaySeconds": "9000",
    })[1]  # fmt: skip
    assert field(sent, "Id") == ["one", "two"]
    assert field(sent, "SenderFault") == ["true"]
    _, got = query(port, Action="ReceiveMessage", QueueUrl=url, **{
        "AttributeName.1": "All", "MessageAttributeName.1": "kind",
    })  # fmt: skip
    assert field(got, "Body") == ["a &amp; b"]
    assert field(got, "StringValue") == ["order"]
    [handle] = field(got, "ReceiptHandle")
    assert query(port, Action="DeleteMessage", QueueUrl=url, ReceiptHandle=handle)[0] == 200
    assert "a&lt;b" in query(port, Action="ListQueueTags", QueueUrl=url)[1]


def test_an_error_of_the_older_form_has_its_code(port: int) -> None:
    status, xml = query(port, Action="GetQueueUrl", QueueName="nowhere")
    assert status == 400
    assert field(xml, "Code") == ["AWS.SimpleQueueService.NonExistentQueue"]
    assert field(query(port, Action="Fly")[1], "Code") == ["InvalidAction"]


def test_users_have_the_rights_that_a_file_gives_them(doors: Doors) -> None:
    port = doors.door(USERS)
    ops = client_of(port, "ops", "bE6yG2vNkS8dPo5_ZiLa")
    shop = client_of(port, "shop", "nT8s-WzqLr5Vb2Kd0xYp")
    worker = client_of(port, "worker", "Qm4hJ7c9-RfUeA1sXw3t")
    with pytest.raises(ClientError, match="no right to manage orders"):
        shop.create_queue(QueueName="orders")
    url = ops.create_queue(QueueName="orders")["QueueUrl"]
    hidden = ops.create_queue(QueueName="hidden")["QueueUrl"]
    shop.send_message(QueueUrl=url, MessageBody="one")
    with pytest.raises(ClientError, match="no right to get orders"):
        shop.receive_message(QueueUrl=url)
    with pytest.raises(ClientError, match="no right to put hidden"):
        shop.send_message(QueueUrl=hidden, MessageBody="one")
    [got] = worker.receive_message(QueueUrl=url, AttributeNames=["SenderId"])["Messages"]
    assert got["Attributes"]["SenderId"] == "shop"
    assert worker.list_queues()["QueueUrls"] == [url]
    keeper = client_of(port, "keeper", "aE6yG2vNkS8dPo5_ZiLb")
    arn = "arn:aws:sqs:us-east-1:123456789012:hidden"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    with pytest.raises(ClientError, match="no right to put hidden"):
        keeper.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy})


@pytest.mark.parametrize(
    ("key", "secret", "code"),
    [
        ("shop", "nT8s-WzqLr5Vb2Kd0xYq", "SignatureDoesNotMatch"),
        ("nobody", "nT8s-WzqLr5Vb2Kd0xYp", "InvalidClientTokenId"),
    ],
)
def test_who_has_not_the_secret_is_refused(doors: Doors, key: str, secret: str, code: str) -> None:
    client = client_of(doors.door(USERS), key, secret)
    with pytest.raises(ClientError) as error:
        client.list_queues()
    assert error.value.response["Error"]["Code"] == code
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_what_is_not_signed_is_refused_where_there_are_users(doors: Doors) -> None:
    status, xml = query(doors.door(USERS), Action="ListQueues")
    assert status == 403
    assert field(xml, "Code") == ["MissingAuthenticationToken"]


def test_a_page_of_a_browser_is_refused(port: int) -> None:
    head = (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil\r\nContent-Length: 17\r\n\r\n"
    )
    assert b" 403 " in asked(port, head + b"Action=ListQueues").splitlines()[0]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"hello\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", b"411"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", b"431"),
        (b"POST / HTTP/1.1\r\nx: " + b"y" * 40_000, b"431"),
    ],
)
def test_what_is_no_request_ends_the_connection(port: int, raw: bytes, status: bytes) -> None:
    assert asked(port, raw).split(b" ")[1] == status


def test_requests_in_a_row_are_answered_in_order(port: int) -> None:
    one = (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ListQueues\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(one * 5)
        told = b""
        while told.count(b"HTTP/1.1 200") < 5:
            told += connection.recv(65_536)
    assert told.count(b"x-amz-json-1.0") == 5


@pytest.mark.parametrize("body", ["[]", "{", '{"QueueUrl": {"a": 1}}', '{"QueueUrl": "x"}'])
def test_strange_json_has_an_error_of_the_sender(port: int, body: str) -> None:
    head = "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n"
    told = asked(port, f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    assert told.split(b" ")[1] == b"400"
    assert b"x-amzn-query-error: " in told


def test_a_program_that_leaves_a_long_poll_leaves_its_message(
    sqs: Any, port: int, doors: Doors
) -> None:
    def waiting() -> int:
        return int(doors.run(doors.cluster.fifo("left").stats()).waiting_gets)

    url = sqs.create_queue(QueueName="left", Attributes={"VisibilityTimeout": "60"})["QueueUrl"]
    body = f'{{"QueueUrl": "{url}", "WaitTimeSeconds": 20}}'
    head = "POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        while not waiting():
            time.sleep(0.01)
    while waiting():
        time.sleep(0.01)
    sqs.send_message(QueueUrl=url, MessageBody="still here")
    [got] = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, AttributeNames=["All"])["Messages"]
    assert got["Attributes"]["ApproximateReceiveCount"] == "1"


def test_a_port_that_is_taken_is_said_in_a_sentence(port: int, tmp_path: Path) -> None:
    words = ["sqs", "--listen", f"127.0.0.1:{port}", "--data", str(tmp_path / "q")]
    program = [sys.executable, "-m", "snowmelt", *words]
    told = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert told.stderr == f"snowmelt: can't listen on 127.0.0.1:{port}: address already in use\n"
    assert told.returncode == Unavailable.exit_code
