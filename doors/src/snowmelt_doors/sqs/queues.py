"""Queues as a whole: made, found, listed, altered, purged, deleted; their tags and policy."""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from snowmelt.aio import Cluster, EmbeddedCluster, Fifo
from snowmelt.client.queue.options import QueueOptions
from snowmelt.core.errors import NoSuchQueue, QueueExists
from snowmelt_doors.sqs.attributes import (
    ACCOUNT,
    COUNTS,
    FIFO,
    POLICY_BYTES_MAX,
    QueueRecord,
    asked_names,
    checked,
    checked_name,
    engine_name,
    name_in,
    number_in,
)
from snowmelt_doors.sqs.deduplication import Deduplication, log_of
from snowmelt_doors.sqs.errors import SqsError, bad_parameter, bad_value, missing, no_queue
from snowmelt_doors.sqs.registry import Registry

KEY: Final = "q/"
TAGS_MAX: Final = 50
DELETION_SECONDS: Final = 15.0
"""After so long a deletion that another door began is ended by whoever makes the queue anew."""
PURGE_SECONDS: Final = 60.0
_TRIES: Final = 20
KEPT_LEAST: Final = 960
"""So many seconds a queue of ours keeps items at least, which is longer than any delay. A message
that is older than its own queue allows is not received before that, either."""
_PAGE: Final = 1_000
_FIFOS_MAX: Final = 1_000
_DELIVERIES: Final = 1_000_000
"""A door counts what failed itself: its queue of ours sets nothing aside."""
_ACTIONS: Final = (
    "*", "ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl",
    "ListDeadLetterSourceQueues", "PurgeQueue", "ReceiveMessage", "SendMessage",
)  # fmt: skip
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(QueueRecord).decode

Params = Mapping[str, Any]
Told = dict[str, Any]


class SqsCaller(msgspec.Struct, frozen=True):
    """Who asks, and how they reach this door."""

    name: str
    region: str
    base: str
    """The beginning of URLs, as `http://127.0.0.1:9324`."""

    def url(self, queue: str) -> str:
        return f"{self.base}/{ACCOUNT}/{queue}"


class SqsQueues:
    """The queues that doors know."""

    def __init__(self, cluster: Cluster | EmbeddedCluster) -> None:
        self.cluster = cluster
        self.registry = Registry(cluster)
        self.deduplication = Deduplication(cluster)
        self._records: dict[str, tuple[int, QueueRecord]] = {}
        """Rows of the registry that were read, by name: the version, and what it is."""
        self._altering = asyncio.Lock()
        self.fifos: OrderedDict[tuple[str, str], tuple[str, Fifo]] = OrderedDict()
        """By name and producer: of which queue it is, and the handle. Requests share one, so that
        what they ask at once goes together."""

    # --- found ------------------------------------------------------------------------------------

    async def record(self, said: object) -> QueueRecord:
        """What is known of a queue, by its URL or name; raises `SqsError` where there is none."""
        if not isinstance(said, str) or not said:
            raise missing("QueueUrl")
        name = name_in(said)
        await self.registry.look()
        found = self._known(name)
        if found is None:
            await self.registry.look(fresh=True)
            found = self._known(name)
        if found is None or found[1].deleted:
            raise no_queue()
        return found[1]

    def has(self, name: str) -> bool:
        """Whether there is one of this name, as far as it was read."""
        found = self._known(name)
        return found is not None and not found[1].deleted

    def all(self) -> list[QueueRecord]:
        """As far as it was read, by name."""
        names = sorted(key.removeprefix(KEY) for key in self.registry.rows if key.startswith(KEY))
        some = [found[1] for one in names if (found := self._known(one)) is not None]
        return [one for one in some if not one.deleted]

    def fifo(self, name: str, producer: str | None = None) -> Fifo:
        """The queue of ours, perhaps as one who numbers what it puts."""
        record, key = self._known(name), (name, producer or "")
        uid = "" if record is None else record[1].uid
        known = self.fifos.get(key)
        if known is None or known[0] != uid:  # made anew since
            known = uid, self.cluster.fifo(engine_name(name), producer=producer)
            self.fifos[key] = known
            if len(self.fifos) > _FIFOS_MAX:
                self.fifos.popitem(last=False)
        return known[1]

    def _known(self, name: str) -> tuple[int, QueueRecord] | None:
        row = self.registry.find(KEY + name)
        if row is None:
            self._records.pop(name, None)
            return None
        found = self._records.get(name)
        if found is None or found[0] != row[0]:
            found = self._records[name] = row[0], _DECODE(row[1])
        return found

    async def _change(
        self, name: str, make: Callable[[QueueRecord], QueueRecord | None]
    ) -> QueueRecord:
        """Makes another record of one, again when another door was first."""
        for _ in range(_TRIES):
            await self.registry.look(fresh=True)
            found = self._known(name)
            if found is None or found[1].deleted:
                raise no_queue()
            made = make(found[1])
            if made is None or made == found[1]:
                return found[1]
            if await self.registry.change(KEY + name, found[0], _ENCODE(made)):
                return made
        raise SqsError("ServiceUnavailable", f"queue {name} is being changed by others", 503)

    # --- made, listed, deleted --------------------------------------------------------------------

    async def create_queue(self, caller: SqsCaller, asked: Params) -> Told:
        said = asked.get("QueueName")
        given = asked.get("Attributes") or {}
        wants_fifo = isinstance(given, dict) and str(given.get("FifoQueue", "")).lower() == "true"
        if wants_fifo and not str(said).endswith(FIFO):
            raise bad_parameter("The name of a FIFO queue must end with .fifo")
        name = checked_name(said, fifo=wants_fifo)
        attributes = {key: one for key, one in checked(given, fifo=wants_fifo).items() if one}
        tags = _checked_tags(asked.get("tags") or asked.get("Tags") or {}, name)
        for _ in range(_TRIES):
            await self.registry.look(fresh=True)
            found = self._known(name)
            if found is not None and not found[1].deleted:
                _check_same(found[1], attributes)
                return {"QueueUrl": caller.url(name)}
            if found is not None and time.time() - found[1].deleted < DELETION_SECONDS:
                raise SqsError(
                    "QueueDeletedRecently",
                    "You must wait 60 seconds after deleting a queue before you can create another "
                    "with the same name.",
                )
            now = int(time.time())
            record = QueueRecord(
                name, now, now, attributes, tags, region=caller.region, uid=secrets.token_hex(12)
            )
            self._check_redrive(record)
            if found is not None:
                await self._erase(name)
            await self._make(record)
            base = 0 if found is None else found[0]
            if await self.registry.change(KEY + name, base, _ENCODE(record)):
                await self._keep(name)
                return {"QueueUrl": caller.url(name)}
        raise SqsError("ServiceUnavailable", f"queue {name} is being made by others", 503)

    async def _make(self, record: QueueRecord) -> None:
        """The queue of ours; one that is there is taken as it is, with all that is in it."""
        name = engine_name(record.name)
        lease = max(1.0, record.number("VisibilityTimeout"))
        try:
            options = QueueOptions(lease=lease, max_deliveries=_DELIVERIES)
            if record.is_fifo:
                options["in_order_by_key"] = True
            await self.cluster.fifo(name, **options).create()
        except QueueExists:
            if record.is_fifo:
                raise
            await self.cluster.fifo(name).alter(max_deliveries=_DELIVERIES)

    async def _keep(self, name: str) -> None:
        """Has the queue of ours keep items for as long as the record says.

        It is read again then: another door may have altered both meanwhile.
        """
        kept = 0
        while (found := self._known(name)) is not None and not found[1].deleted:
            wanted = max(found[1].number("MessageRetentionPeriod"), KEPT_LEAST)
            if wanted == kept:
                return
            await self.fifo(name).alter(retention=wanted)
            kept = wanted
            await self.registry.look(fresh=True)

    async def make_fair(self, record: QueueRecord) -> None:
        """A message with a group comes into a standard queue: groups take fair turns from now on.

        That costs each message something, so a queue without groups has it not.
        """
        async with self._altering:
            known = self._known(record.name)
            if known is None or not known[1].fair:
                await self.fifo(record.name).alter(fair=True)
                await self._change(record.name, lambda one: msgspec.structs.replace(one, fair=True))

    def _check_redrive(self, record: QueueRecord) -> None:
        """That there is such a dead-letter queue, and of the same kind."""
        policy = record.redrive
        if policy is None:
            return
        said = record.attributes["RedrivePolicy"]
        found = self._known(policy.target)
        if found is None or found[1].deleted:
            raise bad_value("RedrivePolicy", said, "Dead letter target does not exist.")
        if found[1].is_fifo != record.is_fifo:
            raise bad_value(
                "RedrivePolicy", said, "Dead-letter queue must be same type of queue as the source."
            )

    async def get_queue_url(self, caller: SqsCaller, asked: Params) -> Told:
        name = asked.get("QueueName")
        if not name:
            raise missing("QueueName")
        record = await self.record(name)
        return {"QueueUrl": caller.url(record.name)}

    async def list_queues(self, caller: SqsCaller, asked: Params) -> Told:
        prefix = str(asked.get("QueueNamePrefix") or "")
        await self.registry.look(fresh=True)
        names = [one.name for one in self.all() if one.name.startswith(prefix)]
        told, more = _paged(names, asked, limit=_PAGE)
        found: Told = {"QueueUrls": [caller.url(one) for one in told]} if told else {}
        return found | more

    async def list_dead_letter_source_queues(self, caller: SqsCaller, asked: Params) -> Told:
        record = await self.record(asked.get("QueueUrl"))
        names = [one.name for one in sources_of(record, self.all())]
        told, more = _paged(names, asked, limit=_PAGE)
        return {"queueUrls": [caller.url(one) for one in told], **more}

    async def delete_queue(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self.record(asked.get("QueueUrl"))
        now = time.time()
        gone = await self._change(
            record.name, lambda one: msgspec.structs.replace(one, deleted=now)
        )
        await self._erase(record.name)
        if record.is_fifo:
            self.deduplication.forget(record.uid)
            with suppress(NoSuchQueue):
                await self.cluster.delete(log_of(record.uid))
        found = self._known(record.name)
        if found is not None and found[1] == gone:
            await self.registry.change(KEY + record.name, found[0], None)
        return {}

    async def _erase(self, name: str) -> None:
        with suppress(NoSuchQueue):
            await self.cluster.delete(engine_name(name))

    async def purge_queue(self, caller: SqsCaller, asked: Params) -> Told:
        """What waits and what is delayed goes; so does what is in the hands of programs."""
        del caller
        record = await self.record(asked.get("QueueUrl"))
        now = time.time()

        def purged(one: QueueRecord) -> QueueRecord:
            if now - one.purged < PURGE_SECONDS:
                text = f"Only one PurgeQueue operation on {one.name} is allowed every 60 seconds."
                raise SqsError("PurgeQueueInProgress", text, 403)
            return msgspec.structs.replace(one, purged=now)

        await self._change(record.name, purged)
        await self.fifo(record.name).purge(leased=True)
        return {}

    # --- attributes and tags ----------------------------------------------------------------------

    async def get_queue_attributes(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self.record(asked.get("QueueUrl"))
        names = asked_names(asked.get("AttributeNames"))
        if not names:
            return {}
        whole = "All" in names
        found = {key: one for key, one in record.effective().items() if whole or key in names}
        if whole or set(names).intersection(COUNTS):
            status = await self.fifo(record.name).stats()
            counts = (status.ready, status.leased, status.delayed)
            some = {key: str(one) for key, one in zip(COUNTS, counts, strict=True)}
            found |= {key: one for key, one in some.items() if whole or key in names}
        return {"Attributes": found} if found else {}

    async def set_queue_attributes(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self.record(asked.get("QueueUrl"))
        if not asked.get("Attributes"):
            raise missing("Attributes")
        given = checked(asked.get("Attributes"), fifo=record.is_fifo)
        now = int(time.time())

        def altered(one: QueueRecord) -> QueueRecord:
            merged = {key: value for key, value in (one.attributes | given).items() if value}
            made = msgspec.structs.replace(one, attributes=merged, modified=now)
            self._check_redrive(made)
            return made

        await self._change(record.name, altered)
        if "MessageRetentionPeriod" in given:
            await self._keep(record.name)
        return {}

    async def tag_queue(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self.record(asked.get("QueueUrl"))
        if not asked.get("Tags"):
            raise missing("Tags")
        tags = _checked_tags(asked["Tags"], record.name)

        def tagged(one: QueueRecord) -> QueueRecord:
            return msgspec.structs.replace(one, tags=_checked_tags(one.tags | tags, one.name))

        await self._change(record.name, tagged)
        return {}

    async def untag_queue(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self.record(asked.get("QueueUrl"))
        names = asked.get("TagKeys")
        if not isinstance(names, list) or not names:
            raise bad_parameter("Tag keys must be between 1 and 128 characters in length.")

        def untagged(one: QueueRecord) -> QueueRecord:
            left = {key: value for key, value in one.tags.items() if key not in names}
            return msgspec.structs.replace(one, tags=left)

        await self._change(record.name, untagged)
        return {}

    async def list_queue_tags(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self.record(asked.get("QueueUrl"))
        return {"Tags": record.tags} if record.tags else {}

    # --- permissions: kept and shown; the rights of users are the cluster's -----------------------

    async def add_permission(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self.record(asked.get("QueueUrl"))
        label = str(asked.get("Label") or "")
        actions, accounts = [_texts(asked.get(key)) for key in ("Actions", "AWSAccountIds")]
        if not actions:
            raise missing("Actions")
        if not accounts:
            raise bad_value("PrincipalId", "[]", "Unable to verify.")
        if len(actions) > 7:
            text = f"{len(actions)} Actions were found, maximum allowed is 7."
            raise SqsError("OverLimit", text, 403)
        for one in actions:
            if one not in _ACTIONS:
                why = "Only the queue owner is allowed to invoke this action."
                raise bad_value("ActionName", f"SQS:{one}", why)
        who = [f"arn:aws:iam::{one}:root" for one in accounts]
        what = [f"SQS:{one}" for one in actions]
        statement = {
            "Sid": label,
            "Effect": "Allow",
            "Principal": {"AWS": who[0] if len(who) == 1 else who},
            "Action": what[0] if len(what) == 1 else what,
            "Resource": record.arn,
        }

        def allowed(one: QueueRecord) -> QueueRecord:
            policy = _policy_of(one)
            if any(each.get("Sid") == label for each in policy["Statement"]):
                raise bad_value("Label", label, "Already exists.")
            policy["Statement"].append(statement)
            return _with_policy(one, policy)

        await self._change(record.name, allowed)
        return {}

    async def remove_permission(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        record = await self.record(asked.get("QueueUrl"))
        label = str(asked.get("Label") or "")

        def refused(one: QueueRecord) -> QueueRecord:
            policy = _policy_of(one)
            left = [each for each in policy["Statement"] if each.get("Sid") != label]
            if len(left) == len(policy["Statement"]):
                raise bad_value("Label", label, "can't find label on existing policy.")
            return _with_policy(one, policy | {"Statement": left})

        await self._change(record.name, refused)
        return {}


def _texts(said: object) -> list[str]:
    return [str(one) for one in said] if isinstance(said, list) else []


def _policy_of(record: QueueRecord) -> dict[str, Any]:
    said = record.attributes.get("Policy")
    if not said:
        return {"Version": "2012-10-17", "Id": f"{record.arn}/SQSDefaultPolicy", "Statement": []}
    policy: dict[str, Any] = msgspec.json.decode(said, type=dict[str, Any])
    some = policy.get("Statement", [])
    return policy | {"Statement": list(some) if isinstance(some, list) else [some]}


def _with_policy(record: QueueRecord, policy: Mapping[str, Any]) -> QueueRecord:
    text = msgspec.json.encode(policy).decode()
    if len(text) > POLICY_BYTES_MAX:
        raise SqsError("OverLimit", f"a policy has {POLICY_BYTES_MAX} bytes at most", 403)
    return msgspec.structs.replace(record, attributes=record.attributes | {"Policy": text})


def sources_of(record: QueueRecord, those: Iterable[QueueRecord]) -> list[QueueRecord]:
    """For which of those it is the dead-letter queue."""
    some = [(one, one.redrive) for one in those]
    return [one for one, to in some if to is not None and to.target == record.name]


def _check_same(record: QueueRecord, attributes: Mapping[str, str]) -> None:
    """Made anew with the same attributes, it is the same queue."""
    effective = record.effective()
    for key, one in attributes.items():
        if effective.get(key) != one:
            raise SqsError(
                "QueueNameExists",
                "A queue already exists with the same name and a different value for attribute "
                f"{key}",
            )


def _checked_tags(said: Any, name: str) -> dict[str, str]:
    if not isinstance(said, dict):
        raise bad_parameter("Tags is no map")
    tags = {str(key): str(value) for key, value in said.items()}
    if len(tags) > TAGS_MAX:
        raise bad_parameter(f"Too many tags added for queue {name}.")
    for key, value in tags.items():
        if not 1 <= len(key) <= 128:
            raise bad_parameter("Tag keys must be between 1 and 128 characters in length.")
        if len(value) > 256:
            raise bad_parameter("Tag values must be at most 256 characters in length.")
    return tags


def _paged(names: list[str], asked: Params, limit: int) -> tuple[list[str], Told]:
    """Some of these, and where the next begin: only who says how many may come hears it."""
    after = asked.get("NextToken")
    if isinstance(after, str) and after:
        names = [one for one in names if one > after]
    said = number_in(asked, "MaxResults", 1, limit, 0)
    told = names[: said or limit]
    return told, {"NextToken": told[-1]} if said and len(names) > len(told) else {}
