"""The two forms in which SQS is spoken: JSON (`X-Amz-Target`), and the older one, a form and XML.

Both become the same map of parameters, as JSON has it, and both are written from the same answer.
"""

import base64
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import msgspec

from snowmelt_doors.sqs.errors import SqsError
from snowmelt_doors.sqs.http import HttpAnswer, SqsRequest

TARGET: Final = "AmazonSQS."
STRANGE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
"""What XML can't have."""
_SPACE: Final = "http://queue.amazonaws.com/doc/2012-11-05/"
_FIELDS_MAX: Final = 2_000
_NUMBER: Final = re.compile("[0-9]{1,9}")
_LISTS: Final = {
    "AttributeName": "AttributeNames",
    "MessageAttributeName": "MessageAttributeNames",
    "MessageSystemAttributeName": "MessageSystemAttributeNames",
    "SendMessageBatchRequestEntry": "Entries",
    "DeleteMessageBatchRequestEntry": "Entries",
    "ChangeMessageVisibilityBatchRequestEntry": "Entries",
    "TagKey": "TagKeys",
    "AWSAccountId": "AWSAccountIds",
    "ActionName": "Actions",
}
"""Lists, by the name that each of their members has in a form."""
_MAPS: Final = {
    "Attribute": ("Attributes", "Name"),
    "MessageAttribute": ("MessageAttributes", "Name"),
    "MessageSystemAttribute": ("MessageSystemAttributes", "Name"),
    "Tag": ("Tags", "Key"),
}
"""Maps, by the name of a member, and what in it is the key."""
_XML_MAPS: Final = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "Tags": ("Tag", "Key"),
}
_XML_LISTS: Final = {
    "QueueUrls": "QueueUrl",
    "queueUrls": "QueueUrl",
    "Messages": "Message",
    "Failed": "BatchResultErrorEntry",
    "Results": "ListMessageMoveTasksResultEntry",
}


class SqsAction(msgspec.Struct, frozen=True):
    """What a request asks for."""

    action: str
    params: dict[str, Any]
    xml: bool
    id: str
    """A name for it, which the answer has."""


def read(request: SqsRequest) -> SqsAction:
    """Reads a request in either form; raises `SqsError`."""
    target = request.heads.get("x-amz-target")
    name = str_id()
    if target is not None:
        action = target.removeprefix(TARGET)
        if action == target:
            raise SqsError("InvalidAction", f"{target[:200]} is no action of AmazonSQS")
        try:
            params = msgspec.json.decode(request.body or b"{}", type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise SqsError("SerializationException", "the body is no JSON map") from None
        _check_few(params)
        return SqsAction(action, {key: one for key, one in params.items() if one is not None},
                     xml=False, id=name)  # fmt: skip
    path, _, query = request.target.partition("?")
    text = request.body.decode("utf-8", "replace") if request.method == "POST" else query
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError:
        raise SqsError("MalformedQueryString", f"more than {_FIELDS_MAX} fields") from None
    params = _params(pairs)
    action = str(params.pop("Action", ""))
    if "QueueUrl" not in params and path.count("/") >= 2:
        params["QueueUrl"] = path
    return SqsAction(action, params, xml=True, id=name)


def _check_few(params: dict[str, Any]) -> None:
    """What takes a hundred times the memory of its text is not kept until it is answered."""
    left, some = _FIELDS_MAX, [params]
    while some:
        one = some.pop()
        inner = [*one.values()] if isinstance(one, dict) else one if isinstance(one, list) else []
        left -= len(inner)
        if left < 0:
            raise SqsError("SerializationException", f"more than {_FIELDS_MAX} values")
        some += inner


def is_xml(request: SqsRequest) -> bool:
    return "x-amz-target" not in request.heads


def str_id() -> str:
    raw = secrets.token_hex(16)
    return f"{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:]}"


def _params(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Fields with dots in their names, as a map.

    >>> _params([("Action", "SetQueueAttributes"), ("Attribute.1.Name", "DelaySeconds"),
    ...          ("Attribute.1.Value", "5")])
    {'Action': 'SetQueueAttributes', 'Attributes': {'DelaySeconds': '5'}}
    """
    tree: dict[str, Any] = {}
    for key, value in pairs:
        words = key.split(".")
        if len(words) > 8:
            raise SqsError("MalformedQueryString", f"the name of a field is {key[:100]}")
        place = tree
        for word in words[:-1]:
            inner = place.setdefault(word, {})
            if not isinstance(inner, dict):
                raise SqsError("MalformedQueryString", f"{key[:100]} stands beside its beginning")
            place = inner
        place[words[-1]] = value
    return _told(tree)


def _told(tree: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if key in _LISTS and isinstance(value, dict):
            rows = _in_turn(value)
            found[_LISTS[key]] = [_told(one) if isinstance(one, dict) else one for one in rows]
        elif key in _MAPS and isinstance(value, dict):
            name, by = _MAPS[key]
            rows = [one for one in _in_turn(value) if isinstance(one, dict)]
            found[name] = {str(one.get(by, "")): one.get("Value", "") for one in rows}
        else:
            found[key] = value
    return found


def _in_turn(numbered: Mapping[str, Any]) -> list[Any]:
    some = [(int(key), one) for key, one in numbered.items() if _NUMBER.fullmatch(key)]
    return [one for _, one in sorted(some, key=lambda pair: pair[0])]


# --- answers --------------------------------------------------------------------------------------


def answer(asked: SqsAction, told: Mapping[str, Any]) -> HttpAnswer:
    """What was asked for."""
    if not asked.xml:
        heads = ("Content-Type: application/x-amz-json-1.0", f"x-amzn-RequestId: {asked.id}")
        return HttpAnswer(msgspec.json.encode(told), 200, heads)
    inner = "".join(_xml(asked.action, told))
    result = f"<{asked.action}Result>{inner}</{asked.action}Result>" if inner else ""
    text = (
        f'<?xml version="1.0"?><{asked.action}Response xmlns="{_SPACE}">{result}'
        f"<ResponseMetadata><RequestId>{asked.id}</RequestId></ResponseMetadata>"
        f"</{asked.action}Response>"
    )
    heads = ("Content-Type: text/xml", f"x-amzn-RequestId: {asked.id}")
    return HttpAnswer(text.encode(), 200, heads)


def refusal(error: SqsError, *, xml: bool, name: str = "") -> HttpAnswer:
    """An error, in the form of the request."""
    name = name or str_id()
    if xml:
        text = (
            f'<?xml version="1.0"?><ErrorResponse xmlns="{_SPACE}"><Error>'
            f"<Type>{error.fault}</Type>"
            f"<Code>{_text(error.old_code)}</Code><Message>{_text(error.message)}</Message>"
            f"<Detail/></Error><RequestId>{name}</RequestId></ErrorResponse>"
        )
        heads = ("Content-Type: text/xml", f"x-amzn-RequestId: {name}")
        return HttpAnswer(text.encode("utf-8", "replace"), error.status, heads)
    body = {"__type": f"com.amazonaws.sqs#{error.code}", "message": error.message}
    return HttpAnswer(
        msgspec.json.encode(body),
        error.status,
        (
            "Content-Type: application/x-amz-json-1.0",
            f"x-amzn-RequestId: {name}",
            f"x-amzn-query-error: {error.old_code};{error.fault}",
        ),
    )


def _xml(action: str, told: Mapping[str, Any]) -> Iterable[str]:
    for key, value in told.items():
        if key in _XML_MAPS:
            tag, by = _XML_MAPS[key]
            for name, one in value.items():
                inner = "".join(_xml(action, one)) if isinstance(one, dict) else _text(one)
                yield f"<{tag}><{by}>{_text(name)}</{by}><Value>{inner}</Value></{tag}>"
        elif isinstance(value, list):
            tag = _XML_LISTS.get(key, f"{action}ResultEntry")
            for one in value:
                inner = "".join(_xml(action, one)) if isinstance(one, dict) else _text(one)
                yield f"<{tag}>{inner}</{tag}>"
        else:
            yield f"<{key}>{_text(value)}</{key}>"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return escape(STRANGE.sub("\ufffd", str(value)), {"\r": "&#13;"})
