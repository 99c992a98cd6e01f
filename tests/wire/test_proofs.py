"""Who proves what: no secret is said, and no proof is good but where it was made."""

import random
from itertools import product

import pytest
from msgspec.structs import replace

from greetings import key_of, speaker, whole
from snowmelt.core.errors import AccessDenied, HandshakeError, SnowmeltError, Unavailable
from snowmelt.core.names import NodeId
from snowmelt.core.users import SECRETS_MAX, Accounts, User
from snowmelt.wire.framing import FrameReader, Kind
from snowmelt.wire.greeting import (
    DIALS,
    LISTENS,
    Answerer,
    Gate,
    Greeting,
    Hello,
    KnownCluster,
    Proof,
    Role,
    Speaker,
    Welcome,
    heard,
    is_made_of,
    made_of,
    said,
)
from snowmelt.wire.sides import ConnectionOpened, Dialling, Listening

SHOP, OPS, NODE, NEW = (f"{one}-0123456789abcdef" for one in ("shop", "ops", "node", "new"))
FILE = f"shop {SHOP} put:orders\nshop {NEW} put:orders\nops {OPS} admin\nnodes {NODE} node\n"
N1 = NodeId("n1")
WRONG = r"no user|token is missing"


def listening(accounts: str = FILE, **more: bytes) -> Listening:
    channel = more.get("channel", b"")
    return Listening(
        Gate("snowmelt", Accounts.parse(accounts)), N1, Role.NODE, 1 << 20, channel=lambda: channel
    )


def dialling(user: str = "shop", secret: str = SHOP, **more: bytes) -> Dialling:
    channel = more.get("channel", b"")
    return Dialling(speaker("c-shop", token=secret, user=user), channel=lambda: channel)


def word(frame: bytes) -> tuple[Kind, bytes]:
    ((kind, payload),) = FrameReader().feed(frame)
    return kind, bytes(payload)


def greeted(one: Dialling, other: Listening) -> tuple[ConnectionOpened, ConnectionOpened]:
    welcome, _ = other.hear(*word(one.first))
    proof, here = one.hear(*word(welcome))
    _, there = other.hear(*word(proof))
    assert here is not None
    assert there is not None
    return here, there


@pytest.mark.parametrize(("user", "secret"), [("shop", SHOP), ("shop", NEW), ("ops", OPS)])
def test_who_knows_one_of_a_user_s_secrets_is_that_user(user: str, secret: str) -> None:
    here, there = greeted(dialling(user, secret), listening())
    assert (here.name, here.role) == ("n1", Role.NODE)
    assert (there.user.name, there.secret, there.name) == (user, secret, whole("c-shop"))
    assert secret not in repr(there)


@pytest.mark.parametrize(
    ("user", "secret"),
    [("shop", OPS), ("shop", ""), ("nobody", SHOP), ("", SHOP), ("", ""), ("s" * 8000, SHOP)],
)
def test_who_does_not_hears_no_proof_that_fits_and_gives_none(user: str, secret: str) -> None:
    one, other = dialling(user, secret), listening()
    welcome, _ = other.hear(*word(one.first))
    with pytest.raises(AccessDenied, match=WRONG):
        one.hear(*word(welcome))
    with pytest.raises(AccessDenied, match=WRONG):
        other.hear(*word(said(Kind.PROVE, Proof(bytes(32), key_of("c-shop")))))


def test_a_welcome_does_not_say_how_many_secrets_there_are_or_whether_there_is_a_user() -> None:
    sizes = set()
    for user in ("shop", "ops", "nope"):
        welcome, _ = listening().hear(*word(dialling(user).first))
        proofs = heard(word(welcome)[1], Welcome).proofs
        assert len(set(proofs)) == SECRETS_MAX
        sizes.add(len(welcome))
    assert len(sizes) == 1


def test_neither_secret_nor_key_is_in_what_a_stranger_hears() -> None:
    one, other = dialling(), listening()
    welcome, _ = other.hear(*word(one.first))
    proof, _ = one.hear(*word(welcome))
    for secret in (SHOP, NEW):
        assert secret.encode() not in one.first + welcome + proof
    assert key_of("c-shop") not in one.first + welcome  # it goes to one who has proved itself


def test_a_proof_that_comes_back_to_who_made_it_is_good_for_nothing() -> None:
    one, other = dialling(), listening()
    welcome, _ = other.hear(*word(one.first))
    for proof in heard(word(welcome)[1], Welcome).proofs:
        with pytest.raises(AccessDenied):
            other.hear(*word(said(Kind.PROVE, Proof(proof, key_of("c-shop")))))
    greeting = Greeting(b"a", b"b")
    assert greeting.digest(LISTENS, SHOP) != greeting.digest(DIALS, SHOP)


def test_a_node_that_is_dialled_back_makes_no_proof_for_who_dialled_it() -> None:
    """Who listens without a secret calls the caller's own door, as it was called."""
    one, victim = Dialling(speaker("n2", Role.NODE, NODE, "nodes")), listening()
    hello = heard(word(one.first)[1], Hello)
    theirs, _ = victim.hear(*word(said(Kind.HELLO, replace(hello, name="n3"))))
    with pytest.raises(AccessDenied):
        one.hear(*word(theirs))


@pytest.mark.parametrize("which", ["the dialler's", "the listener's"])
def test_a_proof_of_another_connection_is_good_for_nothing(which: str) -> None:
    one, other, again, victim = dialling(), listening(), dialling(), listening()
    welcome, _ = other.hear(*word(one.first))
    proof, _ = one.hear(*word(welcome))
    if which == "the listener's":
        with pytest.raises(AccessDenied):
            again.hear(*word(welcome))
        return
    victim.hear(*word(one.first))  # the very same hello, said once more
    with pytest.raises(AccessDenied):
        victim.hear(*word(proof))


def test_who_stands_in_between_with_another_certificate_passes_nothing_on() -> None:
    one, other = dialling(channel=b"the one that the client sees"), listening(channel=b"the node's")
    welcome, _ = other.hear(*word(one.first))
    with pytest.raises(AccessDenied):
        one.hear(*word(welcome))
    greeted(dialling(channel=b"x"), listening(channel=b"x"))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"name": "n2"}, "no user"),
        ({"role": Role.PEER}, "no user"),
        ({"frame_max": 1}, "no user"),
        ({"identity": "2ab5"}, "no user"),
        ({"nonce": bytes(16)}, "no user"),
    ],
)
def test_nothing_that_a_listener_says_of_itself_can_be_changed_on_its_way(
    changed: dict[str, object], why: str
) -> None:
    one, other = dialling(), listening()
    told, _ = other.hear(*word(one.first))
    welcome = heard(word(told)[1], Welcome)
    answerer = replace(heard(welcome.answerer, Answerer), **changed)
    forged = replace(welcome, answerer=said(Kind.WELCOME, answerer)[8:])
    with pytest.raises(AccessDenied, match=why):
        one.hear(*word(said(Kind.WELCOME, forged)))


@pytest.mark.parametrize(
    ("role", "target", "why"),
    [
        (Role.PEER, None, "n1, a peer, answers where a node should be"),
        (Role.CLIENT, None, "n1, a client, answers where a node should be"),
        (Role.NODE, NodeId("n7"), "n1 answers where n7 should be"),
    ],
)
def test_who_knows_the_secret_and_is_another_than_was_dialled_is_not_taken_for_it(
    role: Role, target: NodeId | None, why: str
) -> None:
    one = Dialling(speaker("c-shop", token=SHOP, user="shop"), target)
    _, hello = word(one.first)
    answerer = said(Kind.WELCOME, Answerer("n1", role, 1 << 20, bytes(16)))[8:]
    proof = Greeting(hello, answerer).digest(LISTENS, SHOP)
    with pytest.raises(AccessDenied, match=why):
        one.hear(*word(said(Kind.WELCOME, Welcome(answerer, (proof,)))))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (whole("c-victim"), key_of("c-shop")),
        (whole("c-victim"), b""),
        (NodeId(made_of(key_of("c-victim"))), bytes(16)),
        (NodeId("c-1"), key_of("c-shop")),
        (NodeId(whole("c-shop")[:13]), key_of("c-shop")),
    ],
)
def test_nobody_takes_the_name_of_another(name: NodeId, key: bytes) -> None:
    me = replace(speaker("c-shop", token=SHOP, user="shop"), name=name, key=key)
    with pytest.raises(AccessDenied, match="is the name of another client, or of none"):
        greeted(Dialling(me), listening())


def test_a_name_is_made_of_one_key_with_or_without_what_tells_a_person_of_it() -> None:
    key = key_of("c-shop")
    assert is_made_of(made_of(key), key)
    assert is_made_of(made_of(key) + ".load.py.8123.db1", key)
    assert not is_made_of(made_of(key) + "x", key)
    assert not is_made_of(made_of(key), key + b"x")


def test_a_client_s_user_is_no_node() -> None:
    for user, secret in (("shop", SHOP), ("ops", OPS)):
        with pytest.raises(AccessDenied, match=f"user {user} may not be a node here"):
            greeted(Dialling(speaker("n2", Role.NODE, secret, user)), listening())
    _, there = greeted(Dialling(speaker("n2", Role.NODE, NODE, "nodes")), listening())
    assert (there.name, there.role) == ("n2", Role.NODE)


def test_a_secret_that_is_gone_when_the_proof_comes_lets_nobody_in() -> None:
    one, other = dialling(), listening()
    welcome, _ = other.hear(*word(one.first))
    proof, _ = one.hear(*word(welcome))
    other._gate.accounts = Accounts.parse(f"shop {NEW} put:orders\n")
    with pytest.raises(AccessDenied, match="no user 'shop' with this secret"):
        other.hear(*word(proof))


def test_each_secret_is_compared_whichever_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for secret in (SHOP, NEW):
        one, other = dialling(secret=secret), listening()
        welcome, _ = other.hear(*word(one.first))
        proof, _ = one.hear(*word(welcome))
        compared = []
        monkeypatch.setattr(
            "snowmelt.wire.greeting.hmac.compare_digest",
            lambda a, b, compared=compared: compared.append(a) or a == b,
        )
        other.hear(*word(proof))
        counts.append(len(compared))
        monkeypatch.undo()
    assert counts == [SECRETS_MAX, SECRETS_MAX]


def words_of(me: Speaker) -> list[tuple[Kind, bytes]]:
    """All that two sides say, of which a stranger has heard each word."""
    one, other = Dialling(me), listening()
    welcome, _ = other.hear(*word(one.first))
    proof, _ = one.hear(*word(welcome))
    return [word(one.first), word(welcome), word(proof)]


def test_words_of_others_open_nothing_in_whatever_order_they_are_said() -> None:
    heard_before = words_of(speaker("c-shop", token=SHOP, user="shop"))
    heard_before += words_of(speaker("n2", Role.NODE, NODE, "nodes"))
    for some in product(heard_before, repeat=3):
        for side in (listening(), dialling()):
            opened = None
            try:
                for one in some:
                    _, opened = side.hear(*one)
            except SnowmeltError as error:
                assert isinstance(error, AccessDenied | HandshakeError)  # noqa: PT017
            assert opened is None


def test_a_proof_with_any_bit_of_it_changed_opens_nothing() -> None:
    chance = random.Random(1)
    for _ in range(300):
        one, other = dialling(), listening()
        welcome, _ = other.hear(*word(one.first))
        kind, proof = word(one.hear(*word(welcome))[0])
        hurt = bytearray(proof)
        hurt[chance.randrange(len(hurt))] ^= 1 << chance.randrange(8)
        with pytest.raises(SnowmeltError):
            other.hear(kind, bytes(hurt))


def test_where_no_token_was_chosen_the_same_words_are_said() -> None:
    one = Dialling(speaker("c-1"))
    other = Listening(Gate("snowmelt"), N1, Role.NODE, 1 << 20)
    _, there = greeted(one, other)
    assert there.user == User("", there.user.permissions)
    wrong = Dialling(speaker("c-1", token="secret"))
    other = Listening(Gate("snowmelt"), N1, Role.NODE, 1 << 20)
    with pytest.raises(AccessDenied, match="token is missing or wrong: n1 has another"):
        wrong.hear(*word(other.hear(*word(wrong.first))[0]))


def test_a_process_of_a_pool_is_of_no_cluster_though_the_one_that_dials_it_knows_one() -> None:
    known = KnownCluster("this client", "connect anew", "2ab5", learns=True)
    me = replace(speaker("c-1", Role.PEER), known=known)
    other = Listening(Gate("snowmelt"), NodeId("c-2"), Role.PEER, 1 << 20)
    here, _ = greeted(Dialling(me, NodeId("c-2")), other)
    assert here.name == "c-2"
    with pytest.raises(Unavailable, match="is of no cluster yet"):
        greeted(
            Dialling(replace(speaker("c-1"), known=known)),
            Listening(Gate("snowmelt"), N1, Role.NODE, 1 << 20),
        )
