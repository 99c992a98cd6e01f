"""Which names and addresses are this machine's alone."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host.

    >>> is_loopback("127.0.0.1"), is_loopback("LocalHost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def asks_this_machine(head: str) -> bool:
    """Whether a request's `Host` is a name that only this machine can have.

    A site may have its own name lead to this machine: then a browser sends that name.

    >>> asks_this_machine("127.0.0.1:9410"), asks_this_machine("sqs.localhost:9324")
    (True, True)
    >>> asks_this_machine("[::1]:9410"), asks_this_machine("example.org"), asks_this_machine("")
    (True, False, False)
    """
    if head.startswith("["):
        return is_loopback(head[1:].partition("]")[0])
    name = head.partition(":")[0]
    return is_loopback(name) or name.lower().endswith(".localhost")
