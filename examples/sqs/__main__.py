"""Sends thumbnails to be made, makes them, and deletes each message: plain boto3.

Only the endpoint says that no AWS is behind it.
"""

import argparse
from typing import Any

import boto3


def main(arguments: list[str] | None = None) -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint", default="http://127.0.0.1:9324", help="where the door is")
    parser.add_argument("--count", type=int, default=100, help="how many messages")
    options = parser.parse_args(arguments)
    sqs = boto3.client(
        "sqs",
        endpoint_url=options.endpoint,  # the one line that changed
        region_name="eu-central-1",
        aws_access_key_id="shop",
        aws_secret_access_key="of no use on loopback",  # noqa: S106
    )
    url = sqs.create_queue(QueueName="thumbnails", Attributes={"VisibilityTimeout": "60"})[
        "QueueUrl"
    ]
    send(sqs, url, options.count)
    done = work(sqs, url)
    told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
    left = told["Attributes"]["ApproximateNumberOfMessages"]
    print(f"{len(done)} thumbnails made, {left} messages left")
    sqs.delete_queue(QueueUrl=url)


def send(sqs: Any, url: str, count: int) -> None:
    """Sends messages, ten in a call."""
    for start in range(0, count, 10):
        entries = [
            {"Id": str(at), "MessageBody": f"picture-{at}.jpg"}
            for at in range(start, min(start + 10, count))
        ]
        told = sqs.send_message_batch(QueueUrl=url, Entries=entries)
        assert not told.get("Failed"), told["Failed"]


def work(sqs: Any, url: str) -> set[str]:
    """Takes messages until none comes, and deletes what is done."""
    done: set[str] = set()
    while True:
        got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        messages = got.get("Messages", [])
        if not messages:
            return done
        for one in messages:
            done.add(one["Body"])
        sqs.delete_message_batch(
            QueueUrl=url,
            Entries=[
                {"Id": str(at), "ReceiptHandle": one["ReceiptHandle"]}
                for at, one in enumerate(messages)
            ],
        )


if __name__ == "__main__":
    main()
