"""SSH keys: what is taken, what is refused and in which words, and that a key belongs to one person."""

import subprocess
from base64 import b64decode, b64encode
from datetime import timedelta

import pytest
import time_machine
from django.db.models import F
from django.utils import timezone

from accounts.models import SshKey
from accounts.services import create_token, revoke_token
from accounts.ssh_keys import add_ssh_key, find_key, has_expired, read_public_key, remove_ssh_key
from common.errors import InvalidInput, NotFound, NotSignedIn
from events.models import Event
from portal.wording.errors import describe_field_error
from tests import make


def made_by_openssh(place, kind: str, bits: str = "") -> tuple[str, str]:
    """(the public line, the fingerprint that ssh-keygen prints)."""
    file = place / "key"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, *(["-b", bits] if bits else []), "-N", "", "-C", "ada@laptop", "-f", file],
        check=True,
    )
    printed = subprocess.run(["ssh-keygen", "-l", "-f", file], capture_output=True, text=True, check=True).stdout
    return (place / "key.pub").read_text(), printed.split()[1]


@pytest.mark.parametrize(("kind", "bits"), [("ed25519", ""), ("ecdsa", "256"), ("ecdsa", "521"), ("rsa", "2048")])
def test_keys_of_openssh_are_read_with_its_fingerprint(tmp_path, kind, bits):
    line, fingerprint = made_by_openssh(tmp_path, kind, bits)
    key = read_public_key(line)
    assert (key.fingerprint, key.comment) == (fingerprint, "ada@laptop")


def code_of(text: str) -> str:
    with pytest.raises(InvalidInput) as refused:
        read_public_key(text)
    error = refused.value.errors[0]
    assert error.pointer == "/key" and "?" not in describe_field_error(error)
    return error.code


def test_what_is_no_public_key_is_refused_by_its_reason(tmp_path):
    weak, _ = made_by_openssh(tmp_path, "rsa", "1024")
    assert code_of(weak) == "ssh_key_weak"
    assert code_of((tmp_path / "key").read_text()) == "ssh_private_key"
    assert code_of(make.ssh_key().replace("ssh-ed25519", "ssh-dss", 1)) == "ssh_key_unknown_type"
    assert code_of('command="rm" ' + make.ssh_key()) == "ssh_key_unreadable"


@pytest.mark.parametrize(
    "text", ["", "hello", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-ed25519 !!!!", "a\0b c", "x " * 9000]
)
def test_rubbish_is_refused(text):
    assert code_of(text) in {"ssh_key_unreadable", "ssh_key_unknown_type"}


def test_a_key_that_says_it_is_of_another_kind_is_refused():
    kind, blob, _ = make.ssh_key().split()
    assert code_of(f"ssh-rsa {blob}") == "ssh_key_unreadable"
    longer = b64encode(b64decode(blob) + b"more").decode()
    assert code_of(f"{kind} {longer}") == "ssh_key_unreadable"


@pytest.mark.django_db
def test_a_key_belongs_to_one_person_and_its_coming_and_going_is_history():
    cast = make.cast()
    key = add_ssh_key(user=cast.ada, key=make.ssh_key())
    assert key.name == "ada@laptop" and find_key(key.fingerprint).user == cast.ada
    for person, code in ((cast.ada, "ssh_key_yours"), (cast.eve, "ssh_key_of_another")):
        with pytest.raises(InvalidInput) as refused:
            add_ssh_key(user=person, key=make.ssh_key(), name="again")
        assert refused.value.errors[0].code == code
    with pytest.raises(NotFound):
        remove_ssh_key(user=cast.eve, key_id=key.pk)
    remove_ssh_key(user=cast.ada, key_id=key.pk)
    assert not SshKey.objects.exists()
    verbs = Event.objects.filter(kind="user", object_id=cast.ada.pk).order_by("seq").values_list("verb", flat=True)
    assert list(verbs) == ["ssh_key_added", "ssh_key_removed"]


@pytest.mark.django_db
def test_a_key_works_until_its_end_which_is_not_in_the_past():
    ada, now = make.user("ada"), timezone.now()
    with pytest.raises(InvalidInput) as refused:
        add_ssh_key(user=ada, key=make.ssh_key(), expires_at=now)
    error = refused.value.errors[0]
    assert (error.pointer, error.code) == ("/expires_at", "in_the_past") and "later day" in describe_field_error(error)
    key = add_ssh_key(user=ada, key=make.ssh_key(), expires_at=now + timedelta(days=1))
    assert find_key(key.fingerprint) == key and not key.is_expired
    with time_machine.travel(now + timedelta(days=2)):
        assert key.is_expired


@pytest.mark.django_db
def test_a_token_that_was_just_revoked_adds_no_key():
    ada = make.user("ada")
    token, _ = create_token(user=ada, name="ci", scopes=["tokens:write"])
    revoke_token(user=ada, token_id=token.pk)
    with pytest.raises(NotSignedIn):
        add_ssh_key(user=ada, key=make.ssh_key(), made_by=token)
    assert not SshKey.objects.exists()


@pytest.mark.django_db
def test_a_key_opens_nothing_after_the_end_of_its_token():
    ada = make.user("ada")
    token, _ = create_token(user=ada, name="ci", scopes=["tokens:write"], days=1)
    key = add_ssh_key(user=ada, key=make.ssh_key(), made_by=token)
    by_hand = add_ssh_key(user=ada, key=make.ssh_key(2))
    SshKey.objects.filter(expires_at__isnull=False).update(expires_at=F("expires_at") - timedelta(days=2))
    assert find_key(key.fingerprint) is None and has_expired(key.fingerprint)
    assert find_key(by_hand.fingerprint) == by_hand


@pytest.mark.django_db
def test_a_suspended_persons_key_and_an_expired_one_open_nothing():
    cast = make.cast()
    key = add_ssh_key(user=cast.ada, key=make.ssh_key())
    SshKey.objects.update(expires_at="2020-01-01T00:00Z")
    assert find_key(key.fingerprint) is None and has_expired(key.fingerprint)
    SshKey.objects.update(expires_at=None)
    assert find_key(key.fingerprint) and not has_expired(key.fingerprint)
    cast.ada.suspended_at = cast.ada.joined_at
    cast.ada.save()
    assert find_key(key.fingerprint) is None
