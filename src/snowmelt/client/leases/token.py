"""The token of a lease, as a client keeps it: a number, and what was drawn beside it."""


class LeaseToken(int):
    """It is the number, wherever leases are told apart; who settles says the secret, too.

    >>> token = LeaseToken.of(7, b"drawn")
    >>> token == 7, token.secret, secret_of(7)
    (True, b'drawn', b'')
    """

    secret: bytes

    @classmethod
    def of(cls, number: int, secret: bytes) -> "LeaseToken":
        """That of a lease."""
        token = cls(number)
        token.secret = secret
        return token


def secret_of(token: int) -> bytes:
    """What was drawn beside it; nothing where nothing was."""
    return token.secret if isinstance(token, LeaseToken) else b""
