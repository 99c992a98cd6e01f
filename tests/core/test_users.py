"""The file of users: what it may say, and that no error repeats a secret."""

import pytest

from snowmelt.core.errors import BadOption
from snowmelt.core.users import ANYBODY, SECRETS_MAX, Accounts, Permission, Right, User

SECRET = "nT8s-WzqLr5Vb2Kd0xYp"
CLIENTS = [one for one in Right if one is not Right.NODE]


def test_a_user_may_what_their_lines_say_and_nothing_else() -> None:
    account = Accounts.parse(f"shop {SECRET} put:orders,in.* get:orders\n").find("shop")
    assert account is not None
    user = account.user
    asked = [(right, name) for right in Right for name in ("orders", "in.1", "in", "orders2", "")]
    allowed = [one for one in asked if user.may(*one)]
    assert allowed == [(Right.PUT, "orders"), (Right.PUT, "in.1"), (Right.GET, "orders")]


def test_an_admin_may_all_but_be_a_node() -> None:
    admin = User("ops", (Permission(Right.ADMIN),))
    assert all(admin.may(one, "orders") and admin.may(one) for one in CLIENTS)
    assert not admin.may(Right.NODE)


def test_a_node_may_all_that_a_client_may() -> None:
    node = User("nodes", (Permission(Right.NODE),))
    assert all(node.may(one, "orders") and node.may(one) for one in Right)


def test_one_token_is_for_all() -> None:
    account = Accounts.of_token("any").find("")
    assert account is not None
    assert account.user is ANYBODY
    assert account.secrets == ("any",)


def test_lines_of_one_name_are_secrets_of_one_user() -> None:
    lines = [f"shop {SECRET}{number} put:q{number}" for number in range(SECRETS_MAX)]
    account = Accounts.parse("\n".join(lines)).find("shop")
    assert account is not None
    assert account.secrets == tuple(f"{SECRET}{number}" for number in range(SECRETS_MAX))
    assert account.user.may(Right.PUT, "q0")
    assert account.user.may(Right.PUT, f"q{SECRETS_MAX - 1}")
    with pytest.raises(BadOption, match=f"secrets of shop with line {SECRETS_MAX + 1} is 5"):
        Accounts.parse("\n".join([*lines, f"shop {SECRET}x put"]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "users is 0"),
        (f"\n# all\nshop {SECRET}", "words in line 3 is 2"),
        (f"shop {SECRET} put get:", "name of get in line 1 is ''"),
        (f"shop {SECRET} put:a*b", "name of put in line 1 is 'a*b'"),
        (f"shop {SECRET} admin:orders", "right in line 1 is 'admin:orders'"),
        (f"shop {SECRET} putt", "right in line 1 is 'putt'"),
        (f"{SECRET}= shop put", "user in line 1 is '***'"),
        (f"shop {SECRET[:15]} put", "letters of the secret in line 1 is 15"),
        (f"shop {SECRET * 20} put", "letters of the secret in line 1 is 400"),
        ("\n".join(f"u{one} {SECRET} put" for one in range(1001)), "users is 1001"),
        (f"shop {SECRET} put:" + ",".join("q" * 65), "names of put in line 1 is 65"),
    ],
)
def test_a_bad_line_is_named_and_its_secret_is_not(text: str, said: str) -> None:
    with pytest.raises(BadOption) as caught:
        Accounts.parse(text)
    assert str(caught.value).startswith(said)
    assert SECRET[:15] not in str(caught.value)


def test_no_repr_shows_a_secret() -> None:
    accounts = Accounts.parse(f"shop {SECRET} put")
    assert SECRET not in repr(accounts)
    assert SECRET not in repr(accounts.find("shop"))
