"""Asking a registry what a tag stands for."""

import pytest

from common.safe_http import Reply
from runtimes.images.digest_lookup import MOST_MANIFEST, Reach, Unresolved, _authorization, find_digest
from runtimes.images.names import RegistryLogin, read_image
from tests.registry_server import digest_of, serve_registry

HOME = ("127.0.0.0/8",)
ADA = ("ada", "s3cret:with:colons")


@pytest.fixture
def registry():
    with serve_registry() as server:
        yield server


def ask(registry, name="nlp/train:3", login=None, **fields):
    reach = Reach(**{"allowed": HOME, "plain": (registry.host,), **fields})
    who = RegistryLogin(registry.host, *login) if login else None
    return find_digest(read_image(f"{registry.host}/{name}"), who, reach)


def why(registry, **how):
    with pytest.raises(Unresolved) as raised:
        ask(registry, **how)
    return raised.value.why, raised.value.words


def test_an_open_registry_tells_the_digest_and_is_asked_once(registry):
    digest = registry.push("nlp/train", "3", b"{}")
    assert ask(registry) == digest
    assert registry.asked == [("HEAD", "/v2/nlp/train/manifests/3")]


def test_a_registry_that_tells_no_digest_gives_the_manifest_of_which_it_is(registry):
    registry.push("nlp/train", "3", b'{"schemaVersion": 2}')
    registry.tells_digest = False
    assert ask(registry) == digest_of(b'{"schemaVersion": 2}')


@pytest.mark.parametrize("by_token", [True, False])
def test_a_private_one_wants_the_login(registry, by_token):
    digest = registry.push("nlp/train", "3", b"{}")
    registry.login, registry.by_token = ADA, by_token
    assert ask(registry, login=ADA) == digest
    assert why(registry)[0] == "denied"
    assert why(registry, login=("ada", "wrong"))[0] == "denied"


def test_what_is_not_there_is_said_in_the_registrys_words(registry):
    assert why(registry, name="nlp/none:1") == ("not_found", "manifest unknown")


def test_a_manifest_without_end_is_not_read_to_its_end(registry):
    registry.push("nlp/train", "3", b" " * (MOST_MANIFEST + 1))
    registry.tells_digest = False
    assert why(registry)[0] == "refused"


def test_this_machine_is_not_asked_where_the_settings_do_not_allow_it(registry):
    assert why(registry, allowed=()) == ("forbidden_address", "")
    assert registry.asked == []


def test_one_that_is_away_is_unreachable(registry):
    with serve_registry() as gone:
        pass
    assert why(gone)[0] == "unreachable"


def test_plain_http_is_spoken_with_those_only_that_are_named(registry):
    assert why(registry, plain=())[0] == "tls"


@pytest.mark.parametrize("name", ["../../secrets:1", "a//b:1", "nlp/train:../x", "NLP:1"])
def test_no_name_leads_to_another_address_of_the_registry(registry, name):
    assert why(registry, name=name)[0] == "bad_name"
    assert registry.asked == []


def test_no_password_goes_over_an_open_line(registry):
    """A registry that speaks TLS and sends its callers for a token to a server that does not."""
    image, login = read_image("registry.corp/nlp/train:3"), RegistryLogin("registry.corp", *ADA)
    challenge = Reply(401, {"www-authenticate": f'Bearer realm="http://{registry.host}/token"'}, b"")
    with pytest.raises(Unresolved, match="tls"):
        _authorization(challenge, image, login, Reach(HOME, plain=(registry.host,)))
    assert registry.asked == []


def test_no_log_tells_the_password():
    assert "s3cret" not in repr(RegistryLogin("registry.corp", *ADA))
