"""The console's pages of images, registry logins and personal limits."""

import html

import pytest

from events.models import Event
from images.logins import load_logins
from images.models import Image, Login
from jobs.models import Job
from jobs.states import JobState
from quotas.models import UserLimit
from quotas.services import get_default_limit, load_limits
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db
IMAGES, LOGINS, LIMITS = "/console/images/", "/console/registries/", "/console/limits/"
LINE = {"alias": "torch", "reference": "registry.corp/nlp/train:3", "description": "", "team": ""}


@pytest.fixture(autouse=True)
def here(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"
    settings.TESSERA_PIN_IMAGES = False


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def root(cast):
    return browser(make.admin())


@pytest.fixture
def auditor(cast):
    return browser(make.user("greta", platform_role="auditor"))


def read(answer) -> str:
    return html.unescape(answer.content.decode())


def events_of(kind: str) -> list[tuple[str, str]]:
    return list(Event.objects.filter(kind=kind).order_by("id").values_list("actor", "verb"))


def test_an_image_is_added_changed_and_removed(root, cast):
    assert "The catalogue is empty" in read(root.get(IMAGES))
    assert root.post(IMAGES, LINE | {"team": cast.nlp.pk, "prepull": "on"}).status_code == 302
    image = Image.objects.get()
    assert (image.alias, image.team, image.prepull) == ("torch", cast.nlp, True)
    assert "registry.corp/nlp/train:3" in read(root.get(IMAGES))
    page = f"{IMAGES}{image.pk}/"
    root.post(page, {"alias": "torch2", "reference": LINE["reference"], "description": "CUDA 13"})
    image.refresh_from_db()
    assert (image.alias, image.description, image.team, image.prepull) == ("torch2", "CUDA 13", cast.nlp, False)
    assert "torch → torch2" in read(root.get(page))
    root.post(f"{page}delete")
    assert not Image.objects.exists() and root.get(page).status_code == 404
    assert events_of("image") == [("rita", "made"), ("rita", "changed"), ("rita", "deleted")]


def test_what_cannot_be_saved_of_an_image_is_named_at_its_field(root):
    root.post(IMAGES, LINE)
    again = root.post(IMAGES, LINE)
    assert (
        again.status_code == 400 and "This name is taken. Choose another." in read(again) and Image.objects.count() == 1
    )
    wrong = root.post(IMAGES, LINE | {"alias": "Big Name", "reference": "a b"})
    assert wrong.status_code == 400 and "“a b” is not a valid image name." in read(wrong)
    assert "Use lower-case letters, digits, dots, hyphens and underscores." in read(wrong)
    page = f"{IMAGES}{Image.objects.get().pk}/"
    assert root.post(page, LINE | {"alias": ""}).status_code == 400 and Image.objects.get().alias == "torch"


def test_an_image_tells_who_uses_it_whatever_its_digest(root, cast):
    image = make.image(cast.bob, cast.nlp, reference="registry.corp/nlp/train:3")
    other = make.image(cast.bob, cast.nlp, alias="other", reference="registry.corp/nlp/train:4")
    for name, text in (("a", "registry.corp/nlp/train:3"), ("b", f"registry.corp/nlp/train:3@sha256:{'0' * 64}")):
        job = make.job(cast.ada, name=name, pool="dev", gpu="1/4")
        Job.objects.filter(pk=job.pk).update(spec={**job.spec, "image": text})
    over = make.job(cast.ada, name="over", pool="dev", gpu="1/4", image="torch")
    Job.objects.filter(pk=over.pk).update(state=JobState.SUCCEEDED)
    page = read(root.get(f"{IMAGES}{image.pk}/"))
    assert "2 jobs wait or run with it." in page and ">a<" in page and ">b<" in page and ">over<" not in page
    assert "2 jobs" in read(root.get(IMAGES))
    assert "No job waits or runs with it." in read(root.get(f"{IMAGES}{other.pk}/"))


def test_a_login_is_added_changed_and_removed_and_its_password_is_never_shown(root, auditor, cast):
    given = {"registry": "registry.corp", "user": "robot", "password": "s3cret", "team": cast.nlp.pk}
    assert root.post(LOGINS, given | {"password": ""}).status_code == 400 and not Login.objects.exists()
    assert root.post(LOGINS, given).status_code == 302
    assert root.post(LOGINS, given).status_code == 400 and Login.objects.count() == 1
    assert "is not a valid registry" in read(root.post(LOGINS, given | {"registry": "no host"}))
    page = f"{LOGINS}{Login.objects.get().pk}/"
    for one in (root, auditor):
        shown = read(one.get(IMAGES)) + read(one.get(page))
        assert "registry.corp" in shown and "s3cret" not in shown and Login.objects.get().sealed not in shown
    root.post(page, {"user": "robot2", "password": ""})
    assert [(login.user, login.password) for login in load_logins(cast.nlp.pk)] == [("robot2", "s3cret")]
    root.post(page, {"user": "robot2", "password": "n3w"})
    assert load_logins(cast.nlp.pk)[0].password == "n3w"
    root.post(f"{page}delete")
    assert not Login.objects.exists()
    assert events_of("login") == [("rita", verb) for verb in ("made", "changed", "changed", "deleted")]


def test_limits_of_everyone_and_of_one_person(root, cast):
    assert "everyone without a personal limit" in read(root.get(LIMITS))
    assert root.get(f"{LIMITS}?person=ADA")["Location"] == f"{LIMITS}ada/"
    assert root.get(f"{LIMITS}?person=nobody").status_code == 404
    root.post(f"{LIMITS}everyone/", {"gpu_milli": "4", "notebooks_running": "3"})
    assert (get_default_limit().gpu_milli, get_default_limit().jobs_running) == (4000, None)
    assert "· everyone: 4" in read(root.get(f"{LIMITS}ada/"))
    saved = root.post(f"{LIMITS}ada/", {"gpu_milli": "1.5", "memory_mib": "64GiB"})
    assert saved.status_code == 302, read(saved)[read(saved).find("field-error") :][:800]
    limits = load_limits(cast.ada)
    assert (limits["gpu_milli"], limits["memory_mib"], limits["notebooks_running"]) == (1500, 65_536, 3)
    assert "/console/limits/ada/" in read(root.get(LIMITS)) and "/console/limits/ada/" in read(
        root.get("/console/people/ada/")
    )
    assert "GPU: – → 1.5" in read(root.get(f"{LIMITS}ada/"))
    root.post(f"{LIMITS}ada/", {})
    assert "/console/limits/ada/" not in read(root.get(LIMITS)) and load_limits(cast.ada)["gpu_milli"] == 4000
    assert {actor for actor, _verb in events_of("user_limit")} == {"rita"}


def test_a_limit_that_makes_no_sense_is_refused_at_its_field(root, cast):
    wrong = root.post(f"{LIMITS}ada/", {"gpu_milli": "many", "memory_mib": "64", "notebook_hours": "0"})
    assert wrong.status_code == 400 and read(wrong).count("field-error") == 3
    assert not UserLimit.objects.filter(user=cast.ada).exists()


def test_an_auditor_looks_and_changes_nothing(auditor, cast):
    image, login = make.image(cast.bob, cast.nlp), make.login(cast.bob, cast.nlp)
    pages = (IMAGES, f"{IMAGES}{image.pk}/", f"{LOGINS}{login.pk}/", LIMITS, f"{LIMITS}ada/")
    for path in pages:
        assert 'method="post"' not in read(auditor.get(path)).partition("<main")[2], path
    writes = (IMAGES, f"{IMAGES}{image.pk}/", f"{IMAGES}{image.pk}/delete", LOGINS, f"{LOGINS}{login.pk}/")
    for path in (*writes, f"{LOGINS}{login.pk}/delete", f"{LIMITS}ada/"):
        assert auditor.post(path, LINE).status_code == 403, path
    assert Image.objects.count() == 1 and Login.objects.count() == 1
