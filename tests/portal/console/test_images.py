"""The catalogue and the logins in the console."""

import pytest

from images.logins import load_logins
from images.models import Image, Login

pytestmark = pytest.mark.django_db
LINE = {"alias": "torch", "reference": "registry.corp/nlp/train:3", "description": "", "team": ""}


def test_an_admin_keeps_the_catalogue_and_an_auditor_looks(root, auditor):
    assert root.post("/admin/images/image/add/", LINE).status_code == 302
    image = Image.objects.get()
    assert (image.alias, image.team) == ("torch", None)
    for path in ("/admin/images/image/", f"/admin/images/image/{image.pk}/change/"):
        assert "torch" in auditor.get(path).content.decode()
    again = root.post("/admin/images/image/add/", LINE)
    assert again.status_code == 200 and Image.objects.count() == 1
    refused = root.post("/admin/images/image/add/", LINE | {"alias": "x", "reference": "a b"})
    assert "is not a valid image name" in refused.content.decode()


def test_a_password_goes_in_and_is_never_shown(cast, root, auditor):
    given = {"registry": "registry.corp", "user": "robot", "password": "s3cret", "team": cast.nlp.pk}
    assert root.post("/admin/images/login/add/", given | {"password": ""}).status_code == 200
    assert root.post("/admin/images/login/add/", given).status_code == 302
    path = f"/admin/images/login/{Login.objects.get().pk}/change/"
    for browser in (root, auditor):
        shown = browser.get(path).content.decode()
        assert "registry.corp" in shown and "s3cret" not in shown and Login.objects.get().sealed not in shown
    assert root.post(path, {"user": "robot2", "password": ""}).status_code == 302
    (login,) = load_logins(cast.nlp.pk)
    assert (login.user, login.password) == ("robot2", "s3cret")
