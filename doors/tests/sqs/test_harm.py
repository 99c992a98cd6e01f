"""A program that means harm: what it sends has an answer, and costs others nothing."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

import snowmelt_doors.sqs.http as server
from snowmelt_doors.sqs.cli import read_tls
from snowmelt_doors.sqs.door import SqsDoor
from snowmelt_doors.sqs.messages import Attribute, Envelope, packed

from .conftest import USERS, Doors, client_of

ARN = "arn:aws:sqs:us-east-1:123456789012"
Make = Callable[..., str]


def request(body: str, *heads: str, host: str = "localhost") -> bytes:
    lines = ["POST / HTTP/1.1", f"Host: {host}", *heads, f"Content-Length: {len(body)}", "", body]
    return "\r\n".join(lines).encode()


def asked(action: str, host: str = "localhost", **params: Any) -> bytes:
    return request(json.dumps(params), f"X-Amz-Target: AmazonSQS.{action}", host=host)


def answer(connection: socket.socket) -> tuple[int, bytes]:
    """The status and the body of an answer."""
    told = b""
    while b"\r\n\r\n" not in told:
        part = connection.recv(65_536)
        assert part, "the connection ended without an answer"
        told += part
    head, _, body = told.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65_536)
    return int(head.split()[1]), body


def status(port: int, raw: bytes) -> int:
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(raw)
        return answer(connection)[0]


@pytest.mark.parametrize(
    ("action", "params"),
    [
        ("ListQueues", {"MaxResults": "²"}),
        ("AddPermission", {"Label": "a", "Actions": 1, "AWSAccountIds": {"a": 1}}),
        ("AddPermission", {"Label": "x" * 99_999, "Actions": ["*"], "AWSAccountIds": ["1"]}),
        ("SetQueueAttributes", {"Attributes": {"VisibilityTimeout": "0" * 12 + "9" * 9}}),
        ("SetQueueAttributes", {"Attributes": {"VisibilityTimeout": "0" * 12 + "9" * 9_999}}),
        ("SetQueueAttributes", {"Attributes": {"Policy": '{"Statement": [1]}'}}),
        ("SetQueueAttributes", {"Attributes": {"RedrivePolicy": '{"a":' * 9_000}}),
        ("SendMessageBatch", {"Entries": [[[]] * 1000] * 1000}),
    ],
)
def test_nonsense_is_the_sender_s_fault(
    port: int, made: Make, action: str, params: dict[str, Any]
) -> None:
    assert status(port, asked(action, QueueUrl=made(), **params)) in {400, 403}


def test_a_number_of_many_digits_in_a_form_is_no_number(port: int) -> None:
    form = urlencode({"Action": "ListQueues", f"Attribute.{'9' * 5000}.Name": "x"})
    assert status(port, request(form)) == 200


def test_a_head_with_the_end_of_a_line_in_a_field_is_refused(port: int) -> None:
    heads = "X-Amz-Target: AmazonSQS.ListQueues", "X-Strange: a\nContent-Length: 7"
    assert status(port, request("{}", *heads)) == 400


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9324", "10.1.2.3", ""])
def test_a_name_that_leads_a_browser_here_is_refused(port: int, host: str) -> None:
    assert status(port, asked("ListQueues", host=host)) == 403


@pytest.mark.parametrize("host", ["127.0.0.1:9324", "localhost", "[::1]:9324", "sqs.localhost:1"])
def test_a_name_of_this_machine_is_taken(port: int, host: str) -> None:
    assert status(port, asked("ListQueues", host=host)) == 200


# --- users ----------------------------------------------------------------------------------------


def test_a_redrive_policy_by_another_spelling_takes_the_same_right(doors: Doors) -> None:
    port = doors.door(USERS)
    ops = client_of(port, "ops", "bE6yG2vNkS8dPo5_ZiLa")
    keeper = client_of(port, "keeper", "aE6yG2vNkS8dPo5_ZiLb")
    url = ops.create_queue(QueueName="orders")["QueueUrl"]
    ops.create_queue(QueueName="hidden")
    policy = json.dumps({"deadLetterTargetArn": f"{ARN}:hidden", "maxReceiveCount": 1})
    with pytest.raises(ClientError, match="no right to put hidden"):
        keeper.set_queue_attributes(QueueUrl=url, Attributes={" RedrivePolicy": policy})


def test_who_may_only_send_cancels_no_task(doors: Doors) -> None:
    port = doors.door(f"{USERS}\nfeeder cE6yG2vNkS8dPo5_ZiLc put:taken")
    ops = client_of(port, "ops", "bE6yG2vNkS8dPo5_ZiLa")
    feeder = client_of(port, "feeder", "cE6yG2vNkS8dPo5_ZiLc")
    taken = ops.create_queue(QueueName="taken")["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": f"{ARN}:taken", "maxReceiveCount": 1})
    ops.create_queue(QueueName="of-taken", Attributes={"RedrivePolicy": policy})
    for _ in range(9):
        ops.send_message(QueueUrl=taken, MessageBody="x")
    words = {"DestinationArn": f"{ARN}:of-taken", "MaxNumberOfMessagesPerSecond": 1}
    ops.start_message_move_task(SourceArn=f"{ARN}:taken", **words)
    [task] = feeder.list_message_move_tasks(SourceArn=f"{ARN}:taken")["Results"]
    with pytest.raises(ClientError, match="no right to manage taken"):
        feeder.cancel_message_move_task(TaskHandle=task["TaskHandle"])
    ops.cancel_message_move_task(TaskHandle=task["TaskHandle"])


def test_what_is_asked_for_is_signed(doors: Doors) -> None:
    port = doors.door(USERS)
    url = f"http://127.0.0.1:{port}/"
    signed = AWSRequest("POST", url, data="{}")
    who = Credentials("ops", "bE6yG2vNkS8dPo5_ZiLa")
    SigV4Auth(who, "sqs", "us-east-1").add_auth(signed)
    heads = [f"{name}: {one}" for name, one in signed.headers.items()]
    host = f"127.0.0.1:{port}"
    assert status(port, request("{}", *heads, host=host)) == 400  # no action, but a good signature
    again = request("{}", *heads, "X-Amz-Target: AmazonSQS.ListQueues", host=host)
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(again)
        assert b"x-amz-target is not signed" in answer(connection)[1]


# --- what a program of another door, or of none, wrote --------------------------------------------


def test_a_message_says_not_by_itself_where_it_came_from(sqs: Any, doors: Doors) -> None:
    for name in ("planted", "far"):
        sqs.create_queue(QueueName=name)
    policy = json.dumps({"deadLetterTargetArn": f"{ARN}:planted", "maxReceiveCount": 1})
    sqs.create_queue(QueueName="of-planted", Attributes={"RedrivePolicy": policy})
    planted = Envelope("1", system={"DeadLetterQueueSourceArn": f"{ARN}:far"})
    body, headers = packed(b"x", planted)
    doors.run(doors.cluster.fifo("planted").put(body, headers=headers))
    sqs.start_message_move_task(SourceArn=f"{ARN}:planted")
    until = time.monotonic() + 20
    while True:
        [task] = sqs.list_message_move_tasks(SourceArn=f"{ARN}:planted")["Results"]
        if task["Status"] != "RUNNING":
            break
        assert time.monotonic() < until
        time.sleep(0.1)
    assert task["Status"] == "FAILED"
    assert doors.run(doors.cluster.fifo("planted").stats()).ready == 1


@pytest.mark.parametrize(
    "envelope",
    [
        Envelope("1", {"a": Attribute("String", b"\xff")}),
        Envelope("1", system={"SenderId": "\x00"}),
        Envelope("\x01"),
    ],
)
def test_a_strange_envelope_holds_up_no_message(
    sqs: Any, port: int, doors: Doors, made: Make, envelope: Envelope
) -> None:
    url = made()
    body, headers = packed(b"strange", envelope)
    doors.run(doors.cluster.fifo(url.rpartition("/")[2]).put(body, headers=headers))
    sqs.send_message(QueueUrl=url, MessageBody="good")
    words = {"MessageAttributeName.1": "All", "AttributeName.1": "All", "MaxNumberOfMessages": 10}
    form = urlencode({"Action": "ReceiveMessage", "QueueUrl": url} | words)
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(request(form))
        got = ET.fromstring(answer(connection)[1])
    assert [one.text for one in got.iter() if one.tag.endswith("}Body")] == ["strange", "good"]


# --- what it takes from others --------------------------------------------------------------------


@contextmanager
def connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        there = ("127.0.0.1", port)
        yield [stack.enter_context(socket.create_connection(there, 60)) for _ in range(count)]


def test_bodies_that_are_only_announced_hold_up_nobody(port: int) -> None:
    with connections(port, server.BODIES_BYTES_MAX // server.BODY_BYTES_MAX) as some:
        for one in some:
            large = f"Length: {server.BODY_BYTES_MAX}".encode()
            one.sendall(request("").replace(b"Length: 0", large))
        assert status(port, asked("ListQueues")) == 200


def test_connections_that_ask_nothing_make_room(
    port: int, made: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = made()
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 8)
    with connections(port, 1) as [waiting]:
        waiting.sendall(asked("ReceiveMessage", QueueUrl=url, WaitTimeSeconds=3))
        for _ in range(2):
            assert status(port, asked("ListQueues")) == 200  # by then it waits
        with connections(port, 9) as idle:
            assert status(port, asked("ListQueues")) == 200
            assert answer(waiting)[0] == 200
            with suppress(ConnectionResetError):
                assert idle[0].recv(1) == b""


def test_the_door_takes_more_connections_than_a_program_begins_with(tmp_path: Path) -> None:
    words = ["-m", "snowmelt", "sqs", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "q")]
    few = ["sh", "-c", 'ulimit -Sn 200; exec "$@"', "sh"]
    door = subprocess.Popen([*few, sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert door.stdout is not None
        port = int(door.stdout.readline().rpartition(":")[2])
        with connections(port, 300) as some:
            for one in some:
                one.sendall(asked("ListQueues"))
            assert [answer(one)[0] for one in some] == [200] * 300
    finally:
        door.terminate()
        door.wait(20)
        assert door.stdout is not None
        door.stdout.close()


def test_who_reads_no_answers_is_asked_no_more(port: int) -> None:
    request = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"a" * 1_000)
    with connections(port, 1) as [silent]:
        silent.settimeout(5)
        taken = 0
        with suppress(TimeoutError):
            while taken < 64 << 20:
                taken += silent.send(request * 100)
        assert taken < 64 << 20
        assert status(port, asked("ListQueues")) == 200


def test_who_begins_no_tls_is_left(
    doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "READ_SECONDS", 0.5)
    port = encrypted(doors, tmp_path)
    with connections(port, 1) as [silent], suppress(ConnectionResetError):
        assert silent.recv(1) == b""


def test_few_may_be_about_to_begin_tls(
    doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STRANGERS_MAX", 8)
    port = encrypted(doors, tmp_path)
    with connections(port, 9) as silent, suppress(ConnectionResetError):
        assert silent[0].recv(1) == b""


def encrypted(doors: Doors, tmp_path: Path) -> int:
    """A door over TLS; its port."""
    named = [
        "-subj",
        "/CN=localhost",
        "-keyout",
        str(tmp_path / "key"),
        "-out",
        str(tmp_path / "c"),
    ]
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *named]
    subprocess.run(make, check=True, capture_output=True)
    door = SqsDoor(doors.cluster, encrypted=True)
    doors.doors.append(door)
    port: int = doors.run(door.listen("127.0.0.1", 0, read_tls(tmp_path / "c", tmp_path / "key")))
    return port
