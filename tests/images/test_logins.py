"""Logins at registries: who may give them, who gets them, and that nobody reads them."""

import pytest
from django.db import connection

from common.errors import InvalidInput, NotFound, NotPermitted
from images.logins import delete_login, find_login, load_logins, logins_seen_by, save_login
from images.models import Login
from runtimes.images.names import RegistryLogin
from tests import make

pytestmark = pytest.mark.django_db
HOST, SECRET = "registry.corp:5000", "correct horse"


@pytest.fixture
def cast():
    return make.cast()


def give(actor, team, password=SECRET, user="robot") -> Login:
    return save_login(actor=actor, login=Login(registry=HOST, user=user, team=team), password=password)


def test_the_teams_own_goes_before_that_for_all(cast):
    give(make.admin(), None, "everybody's", "all")
    give(cast.bob, cast.nlp)
    assert load_logins(cast.nlp.pk) == (RegistryLogin(HOST, "robot", SECRET),)
    assert load_logins(cast.vision.pk) == (RegistryLogin(HOST, "all", "everybody's"),)


def test_the_database_does_not_tell_the_password(cast):
    give(cast.bob, cast.nlp)
    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(l)::text FROM images_login l")
        ((row,),) = cursor.fetchall()
    assert SECRET not in row and "robot" in row


def test_what_was_sealed_under_another_key_is_left_out(cast, settings):
    give(cast.bob, cast.nlp)
    settings.SECRET_KEY = "another" * 10
    assert load_logins(cast.nlp.pk) == ()


def test_another_password_is_used_from_then_on_and_none_keeps_the_old_one(cast):
    login = give(cast.bob, cast.nlp)
    login.user = "robot2"
    save_login(actor=cast.bob, login=login, password="")
    assert load_logins(cast.nlp.pk) == (RegistryLogin(HOST, "robot2", SECRET),)
    save_login(actor=cast.bob, login=login, password="rotated")
    assert load_logins(cast.nlp.pk) == (RegistryLogin(HOST, "robot2", "rotated"),)
    delete_login(actor=cast.bob, login=login)
    assert load_logins(cast.nlp.pk) == ()


@pytest.mark.parametrize("password", ["", "x" * 4097])
def test_a_new_one_needs_a_password_of_a_length(cast, password):
    with pytest.raises(InvalidInput) as refused:
        give(cast.bob, cast.nlp, password)
    assert refused.value.errors[0].pointer == "/password"


def test_leads_see_and_change_their_teams_and_admins_all(cast):
    own, for_all = give(cast.bob, cast.nlp), give(make.admin(), None)
    assert [*logins_seen_by(cast.bob)] == [own] and not logins_seen_by(cast.ada).exists()
    assert {*logins_seen_by(make.admin("other"))} == {own, for_all}
    with pytest.raises(NotFound):
        find_login(cast.ada, own.pk)
    for actor, login in ((cast.ada, own), (cast.eve, own), (cast.bob, for_all)):
        with pytest.raises(NotPermitted):
            save_login(actor=actor, login=login, password="x")
        with pytest.raises(NotPermitted):
            delete_login(actor=actor, login=login)
