"""The users of a node: read from its file when it starts, and again while it runs.

A file that does not read, or that leaves the node without a user for itself, changes nothing.
Whoever is connected stays as long as its user is there and has the secret by which it came; its
rights are those of the new file from then on. So it is with what this node dialled, which is heard
as well. What is in the middle of a greeting is looked up when it proves itself.
"""

import logging
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from snowmelt.core.errors import AccessDenied, BadOption, SnowmeltError, Unavailable
from snowmelt.core.names import NodeId
from snowmelt.core.users import Account, Accounts, Right
from snowmelt.runtime.connection import LoopConnection
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.logs import tell
from snowmelt.runtime.transport import Transport
from snowmelt.store.folder import others_may_look
from snowmelt.wire.greeting import Gate, KnownCluster, Role, Speaker

FILE_BYTES_MAX: Final = 4 << 20


class NodeAccounts:
    """Whom one node lets in, and as whom it dials itself."""

    def __init__(self, me: NodeId, cluster: str, given: Credentials, known: KnownCluster) -> None:
        self._me = me
        self._given = given
        accounts = read_accounts(given)
        self._account = node_account(given, accounts)
        self.gate = Gate(cluster, accounts, known)
        self._note_rights()

    @property
    def shown(self) -> Credentials:
        """What the node itself shows; of several secrets of its user the first in the file."""
        account = self._account
        return replace(self._given, user=account.user.name, token=account.secrets[0])

    @property
    def speaker(self) -> Speaker:
        """Who the node is where it dials."""
        gate = self.gate
        me = self.shown.speaker(gate.cluster, self._me, Role.NODE, gate.known)
        return replace(me, user=self._account.user)

    def read_again(self, transport: Transport) -> int:
        """Takes the file, and those of TLS, as they are now; how many users there are."""
        try:
            accounts = read_accounts(self._given)
            account = node_account(self._given, accounts)
            transport.entrance.renew_tls()
        except SnowmeltError as error:
            tell("keeps its users", logging.ERROR, node=self._me, reason=str(error))
            raise
        self._note_rights()
        self.gate.accounts, self._account = accounts, account
        transport.speaker = self.speaker
        for line in transport.connections():
            if line.role is not None:
                self._look_at(line)
        tell("read users again", node=self._me, users=len(accounts.by_name))
        return len(accounts.by_name)

    def _look_at(self, line: LoopConnection) -> None:
        account = self.gate.accounts.find(line.user.name)
        if account is None or line.secret not in account.secrets:
            kind = AccessDenied if line.inbound else Unavailable  # it dials by another now
            line.close(kind(f"there is no user {line.user.name!r} with this secret any more"))
        elif line.role is Role.NODE and not account.user.may(Right.NODE):
            line.close(AccessDenied(f"user {line.user.name!r} may not be a node any more"))
        else:
            line.user = account.user

    def _note_rights(self) -> None:
        file = self._given.users
        if file is not None and others_may_look(file):
            text = "others may read the file of users: chmod 600"
            tell(text, logging.WARNING, node=self._me, file=str(file))


def read_accounts(given: Credentials) -> Accounts:
    """All users; raises `BadOption`."""
    if given.users is None:
        if given.user:
            raise BadOption("--user", given.user, "left out, without --users")
        if given.token_file is None:
            return Accounts.of_token(given.token)
        text = _read("--token-file", given.token_file)
        if not text.strip():  # it would let everybody in
            raise BadOption("--token-file", str(given.token_file), "a file with a token in it")
        return Accounts.of_token(text)
    if given.token:
        raise BadOption(
            "--users", str(given.users), "left out, since there is a token: one of both"
        )
    return Accounts.parse(_read("--users", given.users))


def _read(option: str, path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(FILE_BYTES_MAX)
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(option, str(path), f"a readable text file ({error})") from error


def node_account(given: Credentials, accounts: Accounts) -> Account:
    r"""The user that the node itself is.

    >>> accounts = Accounts.parse("n 0123456789abcdef node\nshop 0123456789abcdef put\n")
    >>> node_account(Credentials(), accounts).user.name
    'n'
    >>> node_account(Credentials(user="shop"), accounts)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --user is 'shop'; allowed: a user with the right node: n
    """
    nodes = [one for one in accounts.by_name.values() if one.user.may(Right.NODE)]
    named = [one for one in nodes if one.user.name == given.user] if given.user else nodes
    if len(named) != 1:
        names = ", ".join(one.user.name for one in nodes) or "none has it in the file of users"
        raise BadOption("--user", given.user or "left out", f"a user with the right node: {names}")
    return named[0]
