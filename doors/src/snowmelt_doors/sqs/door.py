"""The door itself: each request is read, its caller known, its right checked, and it is done."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from ssl import SSLContext
from typing import Any, Final

from snowmelt.aio import Cluster, EmbeddedCluster
from snowmelt.core.errors import NoSuchQueue, SnowmeltError, Unavailable
from snowmelt.core.loopback import asks_this_machine
from snowmelt.core.names import Address
from snowmelt.core.users import Accounts, Right, User
from snowmelt_doors.sqs.attributes import engine_name, name_in, redrive_in
from snowmelt_doors.sqs.dead_letters import DeadLetters
from snowmelt_doors.sqs.errors import SqsError, no_queue, told
from snowmelt_doors.sqs.forms import SqsAction, answer, is_xml, read, refusal
from snowmelt_doors.sqs.http import HttpAnswer, SqsRequest, SqsServer
from snowmelt_doors.sqs.moving import MoveTasks
from snowmelt_doors.sqs.queues import Params, SqsCaller, SqsQueues, Told
from snowmelt_doors.sqs.receiving import MessageReceiver
from snowmelt_doors.sqs.sending import MessageSender
from snowmelt_doors.sqs.signing import user_of

REGION: Final = "us-east-1"
ANONYMOUS: Final = "anonymous"
_SCOPE: Final = re.compile(r"Credential=[^/,\s]+/\d{8}/([a-z0-9-]{1,40})/sqs/")
_HOST: Final = re.compile(r"[A-Za-z0-9_.\[\]:-]{1,260}")
_SEEN: Final = (Right.PUT, Right.GET, Right.PEEK, Right.MANAGE)

Action = Callable[[SqsCaller, Params], Awaitable[Told]]


class SqsDoor:
    """Answers requests, by a cluster or the queues of a folder."""

    def __init__(
        self,
        cluster: Cluster | EmbeddedCluster,
        accounts: Accounts | None = None,
        *,
        encrypted: bool = False,
    ) -> None:
        self.queues = queues = SqsQueues(cluster)
        self._accounts = accounts
        self._scheme = "https" if encrypted else "http"
        self._dead_letters = DeadLetters(queues)
        sending, receiving = MessageSender(queues), MessageReceiver(queues, self._dead_letters)
        manage, put, get = (Right.MANAGE,), (Right.PUT,), (Right.GET,)
        self._actions: dict[str, tuple[Action, tuple[Right, ...]]] = {
            "CreateQueue": (queues.create_queue, manage),
            "GetQueueUrl": (queues.get_queue_url, _SEEN),
            "ListQueues": (queues.list_queues, ()),
            "DeleteQueue": (queues.delete_queue, manage),
            "PurgeQueue": (queues.purge_queue, manage),
            "GetQueueAttributes": (queues.get_queue_attributes, _SEEN),
            "SetQueueAttributes": (queues.set_queue_attributes, manage),
            "TagQueue": (queues.tag_queue, manage),
            "UntagQueue": (queues.untag_queue, manage),
            "ListQueueTags": (queues.list_queue_tags, _SEEN),
            "AddPermission": (queues.add_permission, manage),
            "RemovePermission": (queues.remove_permission, manage),
            "ListDeadLetterSourceQueues": (queues.list_dead_letter_source_queues, _SEEN),
            "SendMessage": (sending.send_message, put),
            "SendMessageBatch": (sending.send_message_batch, put),
            "ReceiveMessage": (receiving.receive_message, get),
            "DeleteMessage": (receiving.delete_message, get),
            "DeleteMessageBatch": (receiving.delete_message_batch, get),
            "ChangeMessageVisibility": (receiving.change_message_visibility, get),
            "ChangeMessageVisibilityBatch": (receiving.change_message_visibility_batch, get),
        }
        tasks = self._tasks = MoveTasks(queues, self._dead_letters)
        self._actions |= {
            "StartMessageMoveTask": (tasks.start_message_move_task, manage),
            "ListMessageMoveTasks": (tasks.list_message_move_tasks, _SEEN),
            "CancelMessageMoveTask": (tasks.cancel_message_move_task, manage),
        }
        self._server = SqsServer(self._answer)

    async def listen(self, host: str, port: int, tls: SSLContext | None = None) -> int:
        """Begins to listen; at which port."""
        told = await self._server.listen(host, port, tls)
        self._tasks.begin()
        return told

    async def close(self) -> None:
        """Ends. What programs have received stays theirs."""
        await self._server.close()
        await self._tasks.close()

    async def _answer(self, request: SqsRequest) -> HttpAnswer:
        xml = is_xml(request)
        try:
            user = self._let_in(request)
            asked = read(request)
            return await self._done(request, user, asked)
        except SqsError as error:
            return refusal(error, xml=xml)
        except NoSuchQueue:
            self.queues.fifos.clear()  # it may be made anew by another program
            return refusal(no_queue(), xml=xml)
        except SnowmeltError as error:
            return refusal(told(error), xml=xml)

    async def _done(self, request: SqsRequest, user: User | None, asked: SqsAction) -> HttpAnswer:
        found = self._actions.get(asked.action)
        if found is None:
            text = f"The action {asked.action[:100]} is not valid for this endpoint."
            raise SqsError("InvalidAction", text)
        action, rights = found
        if user is not None:
            source = await self._tasks.source_of(asked.params.get("TaskHandle"))
            _check_right(user, rights, asked.params, source)
            _check_target(user, asked.params)
        caller = self._caller(request, user)
        done = await action(caller, asked.params)
        if user is not None and asked.action == "ListQueues" and "QueueUrls" in done:
            some = [one for one in done["QueueUrls"] if _may_see(user, one)]
            done = done | {"QueueUrls": some}
        return answer(asked, done)

    def _let_in(self, request: SqsRequest) -> User | None:
        """Who asks. Without users, programs of this machine, and no page of a browser."""
        if self._accounts is not None:
            return user_of(request, self._accounts, datetime.now(UTC))
        host = request.heads.get("host", "")
        if not asks_this_machine(host):
            text = f"without users this answers at 127.0.0.1 and localhost, and not at {host[:100]}"
            raise SqsError("AccessDenied", text, 403)
        site = request.heads.get("sec-fetch-site", "none")
        if site not in ("none", "same-origin") or "origin" in request.heads:
            raise SqsError("AccessDenied", "this is not for pages of a browser", 403)
        return None

    def _caller(self, request: SqsRequest, user: User | None) -> SqsCaller:
        host = request.heads.get("host", "")
        if _HOST.fullmatch(host) is None:
            raise SqsError("InvalidRequest", "the request has no Host")
        scope = _SCOPE.search(request.heads.get("authorization", "")[:400])
        name = ANONYMOUS if user is None else user.name
        return SqsCaller(name, scope[1] if scope else REGION, f"{self._scheme}://{host}")


def _check_right(user: User, rights: tuple[Right, ...], params: dict[str, Any], of: str) -> None:
    keys = ("QueueUrl", "QueueName", "SourceArn", "DestinationArn")
    for one in filter(None, [of, *[params.get(key) for key in keys]]):
        name = name_in(str(one))
        if rights and name and not any(user.may(right, engine_name(name)) for right in rights):
            what = " or ".join(right.value for right in rights)
            raise SqsError("AccessDenied", f"{user.name} has no right to {what} {name[:100]}", 403)


def _check_target(user: User, params: dict[str, Any]) -> None:
    """Who has dead letters go to a queue may put into it."""
    given = params.get("Attributes")
    some = given.items() if isinstance(given, dict) else ()
    for said in [str(one) for key, one in some if key.strip() == "RedrivePolicy"]:
        name = "" if said.strip() in ("", "{}") else redrive_in(said).target
        if name and not user.may(Right.PUT, engine_name(name)):
            raise SqsError("AccessDenied", f"{user.name} has no right to put {name[:100]}", 403)


def _may_see(user: User, url: str) -> bool:
    name = engine_name(name_in(url))
    return any(user.may(right, name) for right in _SEEN)


Ready = Callable[[int], None]


async def serve_until(
    door: SqsDoor, where: Address, tls: SSLContext | None, stop: asyncio.Event, ready: Ready
) -> None:
    """Listens until it is to stop."""
    try:
        port = await door.listen(where.host, where.port, tls)
    except OSError as error:
        why = str(error.strerror).rpartition(": ")[2]
        raise Unavailable(f"can't listen on {where}: {why}") from error
    ready(port)
    try:
        await stop.wait()
    finally:
        await door.close()
