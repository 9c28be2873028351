"""Pools in the console: what each has, its policy in one form, and the way back."""

import pytest
from django.test import Client

from cluster.models import Pool
from events.models import Event
from jobs.models import Job
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db
LIST, ONE = "/console/pools/", "/console/pools/dev/"


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture(autouse=True)
def here(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"


@pytest.fixture
def root(cast):
    return browser(make.admin())


def filled(client: Client, **changes) -> dict:
    """Return the form of the pool as a browser sends it, with these changes."""
    page = client.get(ONE)
    form = page.context["form"]
    values = {bound.html_name: bound.value() for bound in form if bound.value() not in (None, False)}
    return values | {"seen": page.context["seen"]} | changes


def dev() -> Pool:
    return Pool.objects.get(name="dev")


def test_the_list_tells_what_each_pool_has_and_its_policy_in_words(root, cast):
    job = make.job(cast.ada, team="nlp", pool="dev", gpu="1")
    make.start(job)
    page = root.get(LIST)
    line = next(line for line in page.context["lines"] if line.pool.name == "dev")
    assert (line.cards, line.used, line.free) == (1, 1000, 0)
    assert "no time limit" in page.content.decode() and "higher priority preempts" in page.content.decode()


def test_what_jobs_do_that_do_not_say_is_a_box_of_the_pool_and_told_in_its_words(root, cast):
    assert "jobs borrow only where they say so" in root.get(LIST).content.decode()
    root.post(ONE, filled(root, batch_is_preemptible="on"))
    assert dev().batch_is_preemptible
    page = root.get(LIST)
    line = next(line for line in page.context["lines"] if line.pool.name == "dev")
    assert "idle cards are borrowed" in line.policy
    root.post("/console/pools/new", {"name": "large", "description": ""})
    assert Pool.objects.get(name="large").batch_is_preemptible


def test_a_pool_tells_how_many_jobs_wait_since_they_may_not_borrow(root, cast):
    jobs = [make.job(cast.ada, gpu="1", pool="dev") for _ in range(3)]
    assert 'id="kept-out"' not in root.get(ONE).content.decode()
    reasons = [{"code": "borrow_denied", "params": {"teams": ["vision"]}}]
    Job.objects.filter(pk__in=[job.pk for job in jobs[1:]]).update(wait_reasons=reasons)
    page = root.get(ONE)
    assert page.context["kept_out"] == 2 and "they may not be stopped" in page.content.decode()


def test_a_change_is_recorded_marked_and_undone(root):
    assert root.post(ONE, filled(root, default_max_time_s="18h", reservations="3"))["Location"] == ONE
    assert (dev().default_max_time_s, dev().reservations) == (64_800, 3)
    event = Event.objects.get(kind="pool", verb="pool.changed")
    assert event.actor == "rita" and event.params["to"] == {"default_max_time_s": 64_800, "reservations": 3}
    page = root.get(ONE).content.decode()
    assert "18h for jobs that name no limit" in page and "reserved starts: 2 → 3" in page
    differing = {one.bound.name for _n, _w, fields in root.get(ONE).context["groups"] for one in fields if one.differs}
    assert {"default_max_time_s", "reservations"} <= differing and "ageing_s" not in differing
    root.post(f"{ONE}undo/{event.pk}")
    assert (dev().default_max_time_s, dev().reservations) == (None, 2)
    assert Event.objects.filter(kind="pool", verb="pool.changed").count() == 2


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"ageing_s": "soon"}, "ageing_s", "soon"),
        ({"max_grace_s": "2h"}, "max_grace_s", "less than or equal to 3600"),
        ({"cpu_overcommit_percent": "50"}, "cpu_overcommit_percent", "greater than or equal to 100"),
        ({"stop_longer": "4"}, "stop_longer", "short_first"),
        ({"arrangement": "upward"}, "arrangement", "upward"),
        ({"weight_data": "1001"}, "weight_data", "less than or equal to 1000"),
    ],
)
def test_each_error_stands_at_its_field_and_nothing_is_saved(root, given, field, words):
    answer = root.post(ONE, filled(root, **given))
    assert answer.status_code == 400 and words in " ".join(answer.context["form"].errors[field])
    assert "Nothing was saved: 1 field is not valid." in answer.content.decode()
    assert not Event.objects.filter(kind="pool").exists()


def test_what_somebody_else_saved_meanwhile_is_not_overwritten_unseen(root):
    mine = filled(root, reservations="3")
    root.post(ONE, filled(root, weight_data="50"))
    answer = root.post(ONE, mine)
    assert answer.status_code == 400 and "Somebody else changed this pool meanwhile" in answer.content.decode()
    assert (dev().reservations, dev().weight_data) == (2, 50)
    assert root.post(ONE, mine | {"seen": answer.context["seen"]}).status_code == 302
    assert (dev().reservations, dev().weight_data) == (3, 20)


def test_a_pool_is_created_with_the_usual_policy_and_its_name_is_taken(root):
    at = f"{LIST}new"
    assert root.post(at, {"name": "large", "description": "big jobs"})["Location"] == f"{LIST}large/"
    assert Event.objects.get(kind="pool", verb="pool.made").label == "large"
    for name, words in (("large", "There is a pool"), ("Large!", "lower-case letters"), ("", "required")):
        answer = root.post(at, {"name": name})
        assert answer.status_code == 400 and words in answer.content.decode(), name
    assert Pool.objects.filter(name__iexact="large").count() == 1


def test_an_auditor_reads_and_changes_nothing(cast):
    auditor = browser(make.user("otto", platform_role="auditor"))
    page = auditor.get(ONE).content.decode()
    assert "reserved starts" in page.lower() and "<textarea" not in page and 'name="seen"' not in page
    assert auditor.get(LIST).status_code == 200 and auditor.get(f"{LIST}new").status_code == 403
    for at in (ONE, f"{LIST}new", f"{ONE}undo/1"):
        assert auditor.post(at, {"reservations": "9"}).status_code == 403
    assert dev().reservations == 2


def test_a_change_of_another_pool_is_not_undone_here(root, cast):
    other = make.pool("other")
    root.post(ONE, filled(root, reservations="3"))
    event = Event.objects.get(kind="pool", verb="pool.changed")
    assert root.post(f"{LIST}{other.name}/undo/{event.pk}").status_code == 404 and dev().reservations == 3
    assert root.get(f"{LIST}nowhere/").status_code == 404
