"""People, their numbers, tokens and links."""

import threading

import pytest
from django.db import connection

from accounts.directory import invite_person, readmit_person, suspend_person
from accounts.models import Membership, User
from accounts.permissions import PERMISSIONS, may, require
from accounts.services import (
    RESERVED_USERNAMES,
    accept_invitation,
    create_token,
    create_user,
    make_login_link,
    revoke_token,
    use_login_link,
)
from common.errors import InvalidInput, NameTaken, NotFound, NotPermitted, NotSignedIn
from events.models import Event
from events.record_and_publish import RUNTIME, SCHEDULER, SYSTEM
from tests import make

pytestmark = pytest.mark.django_db


def secret_of(path: str) -> str:
    return path.rsplit("/", 1)[1]


def test_uids_and_gids_come_from_their_ranges_and_are_never_shared(settings):
    settings.TESSERA_UID_RANGE = (30_000, 30_001)
    assert [make.user(name).uid for name in ("ada", "bob")] == [30_000, 30_001]
    with pytest.raises(InvalidInput) as full:
        make.user("eve")
    assert full.value.errors[0].code == "range_used_up"


def test_an_admin_may_set_a_number_that_matches_the_file_server():
    assert make.user("ada", uid=5_001).uid == 5_001


def test_a_name_is_taken_whatever_its_case():
    make.user("ada")
    with pytest.raises(NameTaken):
        create_user(username="ADA")


def test_a_name_that_could_confuse_is_refused():
    with pytest.raises(InvalidInput) as bad:
        create_user(username="ad\u202ea")
    assert bad.value.errors[0].pointer == "/username"


@pytest.mark.parametrize("name", ["root", "nobody", "www-data", "systemd-network", "sshd", "sudo", "tessera", "system"])
def test_names_of_the_machine_and_the_platform_are_nobodys(name):
    with pytest.raises(InvalidInput) as reserved:
        create_user(username=name)
    [error] = reserved.value.errors
    assert (error.pointer, error.code, error.params["name"]) == ("/username", "reserved_username", name)


def test_the_names_that_the_history_gives_to_the_platform_are_reserved():
    assert {actor.name for actor in (RUNTIME, SCHEDULER, SYSTEM)} <= RESERVED_USERNAMES


@pytest.mark.django_db(transaction=True)
def test_newcomers_at_the_same_moment_get_different_numbers():
    barrier, errors = threading.Barrier(8), []

    def join(number: int) -> None:
        try:
            barrier.wait(5)
            create_user(username=f"user{number}")
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=join, args=(n,)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join(20) for thread in threads]
    assert not errors and User.objects.values("uid").distinct().count() == 8


def test_a_sign_in_link_works_once():
    ada = make.user("ada")
    secret = secret_of(make_login_link(user=ada))
    assert use_login_link(secret) == ada
    with pytest.raises(NotFound):
        use_login_link(secret)


def test_a_suspended_person_has_no_way_in():
    ada = make.user("ada")
    secret = secret_of(make_login_link(user=ada))
    User.objects.filter(pk=ada.pk).update(suspended_at="2026-01-01T00:00Z")
    with pytest.raises(NotFound):
        use_login_link(secret)


def test_suspending_is_recorded_and_only_an_admin_does_it():
    root, ada = make.admin(), make.user("ada")
    with pytest.raises(NotPermitted):
        suspend_person(actor=ada, user=root)
    suspend_person(actor=root, user=ada)
    suspend_person(actor=root, user=ada)
    readmit_person(actor=root, user=ada)
    events = Event.objects.filter(kind="user", object_id=ada.pk)
    assert [(event.verb, event.actor) for event in events] == [("suspended", "rita"), ("readmitted", "rita")]


def test_an_invitation_makes_one_member():
    root, nlp = make.admin(), make.team("nlp")
    secret = secret_of(invite_person(actor=root, team=nlp, role="member"))
    fay = accept_invitation(secret=secret, username="fay", password=make.PASSWORD)
    assert Membership.objects.get(user=fay).team == nlp and fay.check_password(make.PASSWORD)
    with pytest.raises(NotFound):
        accept_invitation(secret=secret, username="gus", password=make.PASSWORD)


def test_only_an_admin_invites():
    nlp = make.team("nlp")
    with pytest.raises(NotPermitted):
        invite_person(actor=make.user("bob", nlp, role="lead"), team=nlp, role="member")


def test_a_weak_password_is_refused_in_the_policys_words():
    secret = secret_of(invite_person(actor=make.admin(), team=make.team("nlp"), role="member"))
    with pytest.raises(InvalidInput) as weak:
        accept_invitation(secret=secret, username="fay", password="password")
    assert weak.value.errors[0].code == "weak_password"


def test_a_token_is_stored_as_a_digest_only():
    token, secret = create_token(user=make.user("ada"), name="ci", scopes=["jobs:read"], days=1)
    assert secret not in str(token.__dict__) and len(token.digest) == 64


def test_a_token_never_makes_a_stronger_token():
    ada = make.user("ada")
    weak, _ = create_token(user=ada, name="weak", scopes=["jobs:read"], days=2)
    with pytest.raises(InvalidInput) as beyond:
        create_token(user=ada, name="ci", scopes=["jobs:write"], days=1, made_by=weak)
    assert [error.code for error in beyond.value.errors] == ["scope_beyond_token"]


def test_a_token_that_was_just_revoked_makes_no_other():
    ada = make.user("ada")
    token, _ = create_token(user=ada, name="ci", scopes=["jobs:read"], days=2)
    revoke_token(user=ada, token_id=token.pk)
    with pytest.raises(NotSignedIn):
        create_token(user=ada, name="another", scopes=["jobs:read"], made_by=token)


def test_nobody_revokes_anothers_token():
    ada, eve = make.user("ada"), make.user("eve")
    token, _ = create_token(user=ada, name="ci", scopes=["jobs:read"], days=1)
    with pytest.raises(NotFound):
        revoke_token(user=eve, token_id=token.pk)


@pytest.mark.parametrize("action", sorted(PERMISSIONS))
def test_a_stranger_may_nothing_to_a_team(action):
    nlp, eve = make.team("nlp"), make.user("eve", make.team("vision"))
    assert not may(eve, action, nlp, owner_id=eve.pk)


def test_a_viewer_reads_and_submits_nothing():
    nlp = make.team("nlp")
    vic = make.user("vic", nlp, role="viewer")
    assert may(vic, "job.read", nlp) and not may(vic, "job.submit", nlp)
    with pytest.raises(NotPermitted) as no:
        require(vic, "job.stop", nlp, owner_id=vic.pk)
    assert no.value.params["needs"] == ["admin", "lead", "owner"]
