"""`tessera images` and `tessera registries`: against the real portal, as a lead, a member and an admin."""

import json

import pytest

from images.logins import load_logins
from images.models import Image, Login
from tests import make


@pytest.fixture
def signed(portal, cast, tessera):
    """Whoever is named, in this terminal."""

    def sign_in(person):
        answer = tessera("login", portal, "--token-stdin", input=make.token(person) + "\n")
        assert answer.exit_code == 0, answer.stderr
        return tessera

    return sign_in


def test_a_lead_keeps_the_teams_images(signed, cast):
    bob = signed(cast.bob)
    made = bob("images", "add", "torch", "registry.corp/nlp/train:3", "--team", "nlp", "--description", "With CUDA")
    assert made.stdout == "torch is registry.corp/nlp/train:3 (not looked up yet)\n"
    assert bob("images", "ls").stdout.splitlines()[1].split()[:5] == [
        "torch", "registry.corp/nlp/train:3", "–", "nlp", "0/1"
    ]  # fmt: skip
    changed = bob("images", "set", "torch", "registry.corp/nlp/train:4", "-o", "json")
    assert json.loads(changed.stdout)["reference"] == "registry.corp/nlp/train:4"
    assert bob("images", "rm", "torch").exit_code == 0 and not Image.objects.exists()
    assert bob("images", "rm", "torch").exit_code == 3


def test_everybodys_are_the_admins(signed, cast):
    assert signed(cast.bob)("images", "add", "torch", "nlp/train:3").exit_code == 4
    assert signed(make.admin())("images", "add", "torch", "nlp/train:3").exit_code == 0
    assert "torch" in signed(cast.eve)("images", "ls", "-o", "name").stdout
    assert signed(cast.bob)("images", "set", "torch").exit_code == 2


def test_a_login_goes_in_and_never_comes_out(signed, cast):
    bob = signed(cast.bob)
    added = bob("registries", "add", "registry.corp", "robot", "--team", "nlp", "--password-stdin", input="s3cret\n")
    assert added.exit_code == 0 and "nlp fetches from registry.corp" in added.stdout
    assert "s3cret" not in bob("registries", "ls", "-o", "json").stdout
    number = str(Login.objects.get().pk)
    assert bob("registries", "set", number, "--user", "other", "--password-stdin", input="new\n").exit_code == 0
    (login,) = load_logins(cast.nlp.pk)
    assert (login.user, login.password) == ("other", "new")
    assert "Withdraw it" in bob("registries", "rm", number).stderr and not Login.objects.exists()


def test_a_login_is_named_by_its_registry_where_that_has_no_other(signed, cast):
    bob = signed(cast.bob)
    bob("registries", "add", "robot.corp", "robot", "--team", "nlp", "--password-stdin", input="s3cret\n")
    changed = bob("registries", "set", "robot.corp", "--password-stdin", input="new\n")
    assert changed.stdout == "The login at robot.corp has a new password.\n", changed.stderr
    missing = bob("registries", "rm", "robt.corp")
    assert missing.exit_code == 3 and "Did you mean robot.corp" in missing.stderr
    root = signed(make.admin())
    root("registries", "add", "robot.corp", "second", "--password-stdin", input="s3cret\n")
    several = root("registries", "rm", "robot.corp")
    assert several.exit_code == 2 and Login.objects.count() == 2
    assert "robot of nlp" in several.stderr and "second of all" in several.stderr


def test_a_member_sees_no_logins(signed, cast):
    make.login(cast.bob, cast.nlp)
    assert "No logins" in (signed(cast.ada)("registries", "ls").stdout + signed(cast.ada)("registries", "ls").stderr)
