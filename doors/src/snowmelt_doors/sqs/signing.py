"""Signatures of AWS (version 4), checked against the cluster's users.

The access key is a user's name, and the secret access key that user's secret. A signature is over
the method, the path, the query, some header fields and the body. All fields of AWS's own are among
them: one says what is asked for. It is good for `SKEW` around the time that it names.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl, quote

from snowmelt.core.users import Accounts, User
from snowmelt_doors.sqs.errors import SqsError
from snowmelt_doors.sqs.http import SqsRequest

SKEW: Final = timedelta(minutes=15)
_FORM: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/,\s]{1,128})/(?P<day>\d{8})/(?P<region>[^/,\s]{1,64})"
    r"/sqs/aws4_request, ?SignedHeaders=(?P<names>[a-z0-9;-]{1,2000}), ?"
    r"Signature=(?P<signature>[0-9a-f]{64})"
)
_NEEDED: Final = ("host", "x-amz-date")


class Signature:
    """What the `Authorization` of a request says."""

    def __init__(self, request: SqsRequest) -> None:
        said = request.heads.get("authorization", "")
        found = _FORM.fullmatch(said)
        if found is None:
            if said:
                raise SqsError(
                    "IncompleteSignature", "Authorization is no signature of version 4 for sqs", 400
                )
            raise SqsError("MissingAuthenticationToken", "the request is not signed", 403)
        self.key, self.day, self.region = found["key"], found["day"], found["region"]
        self.names, self.told = found["names"].split(";"), found["signature"]


def user_of(request: SqsRequest, accounts: Accounts, now: datetime) -> User:
    """Who signed this; raises `SqsError` where nobody did."""
    said = Signature(request)
    account = accounts.find(said.key)
    when = request.heads.get("x-amz-date", "")
    _check_time(when, said.day, now)
    own = [one for one in request.heads if one.startswith("x-amz-")]
    absent = [one for one in (*_NEEDED, *own) if one not in said.names]
    if absent:
        raise SqsError("IncompleteSignature", f"{absent[0]} is not signed", 400)
    text = _to_sign(request, said, when)
    secrets = account.secrets if account is not None else ("",)  # a stranger waits as long
    right = [_signature(one, said.day, said.region, text) for one in secrets]
    if not sum(hmac.compare_digest(one, said.told) for one in right) or account is None:
        if account is None:
            raise SqsError("InvalidClientTokenId", "there is no user of this access key", 403)
        raise SqsError(
            "SignatureDoesNotMatch", "the signature is not what this user's secret makes", 403
        )
    return account.user


def _check_time(when: str, day: str, now: datetime) -> None:
    try:
        moment = datetime.strptime(when, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise SqsError("IncompleteSignature", "x-amz-date is no time", 400) from None
    if abs(moment - now) > SKEW or not when.startswith(day):
        raise SqsError("SignatureDoesNotMatch", f"{when} is too far from this machine's time", 403)


def _to_sign(request: SqsRequest, said: Signature, when: str) -> str:
    path, _, query = request.target.partition("?")
    pairs = sorted(parse_qsl(query, keep_blank_values=True))
    asked = "&".join(f"{_plain(name)}={_plain(value)}" for name, value in pairs)
    heads = "".join(f"{one}:{_field(request.heads, one)}\n" for one in said.names)
    body = hashlib.sha256(request.body).hexdigest()
    whole = "\n".join(
        (request.method, quote(path, safe="/-_.~%"), asked, heads, ";".join(said.names), body)
    )
    scope = f"{said.day}/{said.region}/sqs/aws4_request"
    digest = hashlib.sha256(whole.encode()).hexdigest()
    return f"AWS4-HMAC-SHA256\n{when}\n{scope}\n{digest}"


def _plain(text: str) -> str:
    return quote(text, safe="-_.~")


def _field(heads: Mapping[str, str], name: str) -> str:
    return " ".join(heads.get(name, "").split())


def _signature(secret: str, day: str, region: str, text: str) -> str:
    return hmac.new(_key(secret, day, region), text.encode(), hashlib.sha256).hexdigest()


@lru_cache(1_000)
def _key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for word in (day, region, "sqs", "aws4_request"):
        key = hmac.digest(key, word.encode(), "sha256")
    return key
