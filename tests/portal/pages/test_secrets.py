"""Settings of secrets: whose they are and when they were used, never what they are."""

import pytest

from accounts.models import TeamRole
from jobs.models import Job
from secret_store.models import Secret
from secret_store.services import open_secret, set_secret
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db
CANARY = "c4nary-f00d-1234"
PAGE = "/settings/secrets/"


@pytest.fixture
def cast(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"
    return make.cast()


def text(answer) -> str:
    return answer.content.decode()


def test_a_secret_is_set_and_its_value_is_on_no_page(cast):
    client = browser(cast.ada)
    answer = client.post(PAGE, {"name": "HUB", "value": f"{CANARY}\r\n"}, follow=True)
    assert open_secret(Secret.objects.get()) == CANARY
    for page in (answer, client.get(PAGE), client.get(f"{PAGE}?name=HUB")):
        assert "HUB" in text(page) and CANARY not in text(page) and "no-store" in page.headers["Cache-Control"]


def test_a_value_of_several_lines_keeps_its_end(cast):
    browser(cast.ada).post(PAGE, {"name": "KEY", "value": "-----\r\nabc\r\n-----\r\n"})
    assert open_secret(Secret.objects.get()) == "-----\nabc\n-----\n"


@pytest.mark.parametrize(
    "wrong", [{"name": "A-B"}, {"name": "PATH"}, {"name": ""}, {"value": ""}, {"value": CANARY + "x" * 65_537}]
)
def test_what_cannot_be_is_refused_and_the_value_is_not_echoed(cast, wrong):
    answer = browser(cast.ada).post(PAGE, {"name": "HUB", "value": CANARY, **wrong})
    assert answer.status_code == 400 and CANARY not in text(answer) and not Secret.objects.exists()


def test_a_lead_sets_those_of_a_team_and_members_see_their_names(cast):
    ada, lead = browser(cast.ada), browser(cast.bob)
    assert lead.post(PAGE, {"name": "HUB", "value": CANARY, "team": cast.nlp.pk}).status_code == 302
    assert 'name="team"' not in text(ada.get(PAGE)) and "HUB" in text(ada.get(PAGE))
    ada.post(PAGE, {"name": "HUB2", "value": CANARY, "team": cast.nlp.pk})
    assert Secret.objects.get(name="HUB2").user == cast.ada
    assert ada.post(f"{PAGE}{Secret.objects.get(name='HUB').pk}/delete").status_code == 403
    viewer = make.user("vic", cast.nlp, role=TeamRole.VIEWER)
    assert "HUB" not in text(browser(viewer).get(PAGE))


def test_a_secret_that_jobs_name_is_deleted_on_a_second_word(cast):
    secret = set_secret(actor=cast.ada, name="HUB", value=CANARY)
    job = make.job(cast.ada, pool="dev", secrets=["HUB"])
    client = browser(cast.ada)
    answer = client.post(f"{PAGE}{secret.pk}/delete")
    assert answer.status_code == 409 and f"name the secret HUB: {job.public_id}." in text(answer)
    assert client.post(f"{PAGE}{secret.pk}/delete", {"force": "on"}).status_code == 302
    assert not Secret.objects.exists()


def test_nobody_deletes_anothers(cast):
    secret = set_secret(actor=cast.ada, name="HUB", value=CANARY)
    for stranger in (cast.bob, cast.eve, make.admin()):
        assert browser(stranger).post(f"{PAGE}{secret.pk}/delete").status_code == 404
    assert Secret.objects.exists()


def test_a_jobs_page_names_its_secrets(cast):
    set_secret(actor=cast.ada, name="HUB", value=CANARY)
    job = make.job(cast.ada, pool="dev", secrets={"HUB": "file"})
    page = text(browser(cast.ada).get(f"/j/{job.public_id}/"))
    assert "HUB" in page and "of its owner, as a file" in page and CANARY not in page


def test_the_form_keeps_a_jobs_secrets(cast):
    set_secret(actor=cast.ada, name="HUB", value=CANARY)
    client = browser(cast.ada)
    values = {"run": "true", "pool": "dev", "team": "nlp", "secrets": "HUB: file"}
    answer = client.post("/jobs/new", {**values, "touched": ",".join(values), "yaml": ""})
    assert answer.status_code == 302
    job = Job.objects.get()
    assert job.spec["secrets"] == {"HUB": "own:file"}
    assert "HUB: file" in text(client.get(f"/jobs/new?from={job.public_id}"))
