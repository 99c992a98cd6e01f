"""Requests and answers as the JSON of etcd's gateway: base64, and whole numbers as strings.

Fields that are zero, false or empty are left out of what etcd says.
"""

from base64 import b64decode, b64encode
from typing import Annotated, Any, Final

import msgspec

from snowmelt.core.errors import MessageError
from snowmelt.protocols import etcd

ANSWER_BYTES_MAX: Final = 8 << 20
KEY_MAX: Final = 4 << 10
VALUE_MAX: Final = 3 << 20
TEXT_MAX: Final = 1 << 10
NO_TEXT: Final = "surrogateescape"
"""Somebody else's keys may be no text: then they are read on from behind them all the same."""

_NOT_FOUND: Final = 5
_NO_RIGHT: Final = 7
_FULL: Final = 8
_UNAUTHENTICATED: Final = 16
_KNOWN_TO_BE_REFUSED: Final = {3, _NOT_FOUND, 6, _NO_RIGHT, _FULL, 9, 11, 12, _UNAUTHENTICATED}
"""Codes of gRPC that say that nothing was done; all others may hide that it was."""

Whole = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Key = Annotated[str, msgspec.Meta(max_length=KEY_MAX)]
Value = Annotated[str, msgspec.Meta(max_length=VALUE_MAX)]


class Header(msgspec.Struct):
    revision: Whole = 0


class Pair(msgspec.Struct):
    key: Key
    value: Value = ""
    mod_revision: Whole = 0


class Range(msgspec.Struct):
    kvs: Annotated[list[Pair], msgspec.Meta(max_length=1_000)] = []


class OperationResponse(msgspec.Struct):
    """What one operation of a transaction came to."""

    response_range: Range | None = None


class TransactionAnswer(msgspec.Struct):
    header: Header
    succeeded: bool = False
    responses: Annotated[list[OperationResponse], msgspec.Meta(max_length=128)] = []


class LeaseAnswer(msgspec.Struct):
    """A lease as it was granted, or refreshed; without a time it has ended."""

    lease: Whole = msgspec.field(name="ID", default=0)
    seconds: Whole = msgspec.field(name="TTL", default=0)


class RefreshAnswer(msgspec.Struct):
    """The first of a stream of one."""

    result: LeaseAnswer = msgspec.field(default_factory=LeaseAnswer)


class RevokeAnswer(msgspec.Struct):
    header: Header


class TokenAnswer(msgspec.Struct):
    token: Annotated[str, msgspec.Meta(max_length=8 << 10)]


class Refusal(msgspec.Struct):
    """Why not; `error` of older gateways is `message` of newer ones."""

    error: Annotated[str, msgspec.Meta(max_length=TEXT_MAX)] = ""
    message: Annotated[str, msgspec.Meta(max_length=TEXT_MAX)] = ""
    code: int = 2


_transaction = msgspec.json.Decoder(TransactionAnswer, strict=False)
_lease = msgspec.json.Decoder(LeaseAnswer, strict=False)
_refresh = msgspec.json.Decoder(RefreshAnswer, strict=False)
_revoked = msgspec.json.Decoder(RevokeAnswer, strict=False)
_token = msgspec.json.Decoder(TokenAnswer)
_refusal = msgspec.json.Decoder(Refusal)


def asked(request: etcd.Request, prefix: str) -> tuple[str, bytes]:
    """Where a request goes, and its body.

    >>> asked(etcd.LeaseGrant(1, 5), "/x/")
    ('/v3/lease/grant', b'{"TTL":5}')
    """
    match request:
        case etcd.LeaseGrant(_, length):
            return "/v3/lease/grant", msgspec.json.encode({"TTL": length})
        case etcd.Refresh(_, lease):
            return "/v3/lease/keepalive", msgspec.json.encode({"ID": lease})
        case etcd.Revoke(_, lease):
            return "/v3/lease/revoke", msgspec.json.encode({"ID": lease})
        case etcd.Transact(_, when, then, otherwise):
            body = {
                "compare": [_condition(one, prefix) for one in when],
                "success": [_operation(one, prefix) for one in then],
                "failure": [_operation(one, prefix) for one in otherwise],
            }
            return "/v3/kv/txn", msgspec.json.encode(body)


def asked_token(user: str, password: str) -> tuple[str, bytes]:
    return "/v3/auth/authenticate", msgspec.json.encode({"name": user, "password": password})


def token(body: bytes) -> str:
    try:
        told = _token.decode(body).token
    except ValueError as error:
        raise MessageError(f"etcd gave no token: {error}") from error
    if not (told.isascii() and told.isprintable()):
        raise MessageError("etcd gave a token that no head can have")
    return told


def answered(request: etcd.Request, body: bytes, prefix: str) -> etcd.Answer:
    """What a request was answered with; raises `MessageError` for what is no such answer."""
    try:
        match request:
            case etcd.LeaseGrant(number):
                granted = _lease.decode(body)
                return etcd.LeaseGranted(number, granted.lease, granted.seconds)
            case etcd.Refresh(number):
                return etcd.Refreshed(number, _refresh.decode(body).result.seconds)
            case etcd.Revoke(number):
                _revoked.decode(body)
                return etcd.Revoked(number)
            case etcd.Transact(number):
                told = _transaction.decode(body)
                read = tuple(
                    tuple(_row(pair, prefix) for pair in one.response_range.kvs)
                    for one in told.responses
                    if one.response_range is not None
                )
                return etcd.Transacted(number, told.header.revision, told.succeeded, read)
    except ValueError as error:
        raise MessageError(f"etcd's answer can't be read: {error}") from error


def failed(request: etcd.Request, status: int, body: bytes) -> etcd.EtcdFailed:
    """Why there is no answer, by what came instead."""
    try:
        refusal = _refusal.decode(body)
    except ValueError:
        return etcd.EtcdFailed(request.number, etcd.Trouble.UNKNOWN, f"HTTP {status}")
    text = refusal.error or refusal.message or f"HTTP {status}"
    if refusal.code not in _KNOWN_TO_BE_REFUSED:
        return etcd.EtcdFailed(request.number, etcd.Trouble.UNKNOWN, text)
    if refusal.code == _FULL:
        return etcd.EtcdFailed(request.number, etcd.Trouble.FULL, text)
    if refusal.code == _NOT_FOUND and "lease" in text:
        return etcd.EtcdFailed(request.number, etcd.Trouble.NO_LEASE, text)
    return etcd.EtcdFailed(request.number, etcd.Trouble.REFUSED, text)


def wants_a_token(status: int, body: bytes) -> bool:
    """Whether the token, or that there was none, is what is wrong."""
    if status < 400:
        return False
    try:
        refusal = _refusal.decode(body)
    except ValueError:
        return False
    text = f"{refusal.error} {refusal.message}"
    return refusal.code == _UNAUTHENTICATED or "user name is empty" in text


def _condition(condition: etcd.Condition, prefix: str) -> dict[str, Any]:
    key = _key(prefix + condition.key)
    match condition:
        case etcd.Unchanged(_, revision):
            return {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision}
        case etcd.CompareValue(_, value):
            return {"key": key, "target": "VALUE", "result": "EQUAL", "value": _coded(value)}


def _operation(operation: etcd.Operation, prefix: str) -> dict[str, Any]:
    match operation:
        case etcd.PutKey(key, value, lease):
            put = {"key": _key(prefix + key), "value": _coded(value)}
            return {"request_put": {**put, "lease": lease} if lease else put}
        case etcd.DeleteKey(key):
            return {"request_delete_range": {"key": _key(prefix + key)}}
        case etcd.Read(start, stop, most):
            read: dict[str, Any] = {
                "key": _key(prefix + start),
                "limit": most,
            }
            if stop:
                read["range_end"] = _key(prefix + stop)
            return {"request_range": read}


def _row(pair: Pair, prefix: str) -> etcd.Row:
    key = b64decode(pair.key, validate=True).decode(errors=NO_TEXT)
    return etcd.Row(
        key.removeprefix(prefix), b64decode(pair.value, validate=True), pair.mod_revision
    )


def _key(key: str) -> str:
    return _coded(key.encode(errors=NO_TEXT))


def _coded(data: bytes) -> str:
    return b64encode(data).decode()
