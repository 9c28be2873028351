"""Maintenance in the console: planned once it was seen what it closes, changed, ended, and told to people."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from cluster.models import Maintenance
from events.models import Event
from jobs.models import Job
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db
LIST, NEW = "/console/maintenance/", "/console/maintenance/new"


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture(autouse=True)
def here(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"


@pytest.fixture
def root(cast):
    return browser(make.admin())


def asked(begins_in_h: float = 2, lasts_h: float = 2, **fields) -> dict:
    begins = timezone.localtime() + timedelta(hours=begins_in_h)
    times = {"begins_at": begins, "ends_at": begins + timedelta(hours=lasts_h)}
    return {name: f"{at:%Y-%m-%dT%H:%M}" for name, at in times.items()} | {"why": "new fans"} | fields


def look(client: Client, at: str, given: dict):
    """Ask what it would close, and return (the page, what to send to save it)."""
    answer = client.post(at, given)
    form = answer.context["form"]
    return answer, given | {"seen": form.asked if form.is_valid() else ""}


def test_it_is_saved_only_once_it_was_seen_what_it_closes(root, cast):
    answer, seen = look(root, NEW, asked(nodes=["n1"]))
    assert answer.status_code == 200 and not Maintenance.objects.exists()
    words = answer.content.decode()
    assert "It closes 1 machine with" in words and "Maintenance on n1 from" in words
    assert "for members of nlp, vision" in words
    later = seen | {"ends_at": asked(lasts_h=5)["ends_at"]}
    assert root.post(NEW, later).status_code == 200 and not Maintenance.objects.exists()
    assert root.post(NEW, seen)["Location"] == LIST
    row = Maintenance.objects.get()
    assert (row.why, row.planned_by, [node.name for node in row.nodes.all()]) == ("new fans", "rita", ["n1"])
    event = Event.objects.get(verb="node.maintenance_planned")
    assert (event.actor, event.label) == ("rita", "n1")
    assert "new fans" in root.get(LIST).content.decode()


def test_it_tells_which_jobs_end_before_go_on_or_are_stopped(root, cast):
    short, stopped, long = (
        make.job(cast.ada, name=name, team="nlp", pool="dev", gpu="1/8", **more)
        for name, more in (("short", {"time": "1h"}), ("again", {"preemptible": True}), ("long", {}))
    )
    for job in (short, stopped, long):
        make.start(job)
    Job.objects.filter(pk=short.pk).update(started_at=timezone.now())
    answer, _seen = look(root, NEW, asked(pool=cast.dev.pk, stops="on"))
    then = {line.there.job.name: (line.then, line.in_the_way) for line in answer.context["closing"].jobs}
    assert then == {
        "short": ("ends before", False),
        "again": ("is stopped and queued again", True),
        "long": ("runs to its end", True),
    }
    assert "2 of 3 that run there may still run when it begins." in answer.content.decode()


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"lasts_h": -1, "nodes": ["n1"]}, "ends_at", "does not end after its beginning"),
        ({"begins_in_h": -4, "nodes": ["n1"]}, "ends_at", "would already be over"),
        ({}, "nodes", "names no machine"),
        ({"nodes": ["n99"]}, "nodes", "n99"),
        ({"nodes": ["n1"], "why": "x" * 201}, "why", "at most 200 characters"),
    ],
)
def test_each_error_stands_at_its_field_and_nothing_is_saved(root, given, field, words):
    answer, seen = look(root, NEW, asked(**given))
    assert answer.status_code == 400 and words in " ".join(answer.context["form"].errors[field])
    assert root.post(NEW, seen).status_code == 400 and not Maintenance.objects.exists()


def test_a_change_is_seen_before_it_is_saved_and_it_can_be_ended_or_called_off(root, cast):
    planned, begun = make.maintenance(cast.node, begins_in_s=7200), make.maintenance(cast.node)
    at = f"{LIST}{planned.pk}/"
    assert 'value="n1" checked' in root.get(at).content.decode()
    _answer, seen = look(root, at, asked(begins_in_h=30, pool=cast.dev.pk))
    assert root.post(at, seen)["Location"] == LIST
    planned.refresh_from_db()
    assert planned.pool == cast.dev and planned.why == "new fans" and not planned.nodes.exists()
    page = root.get(LIST).content.decode()
    assert "1 goes on now, 1 is planned" in page and "all of pool dev" in page
    for row in (planned, begun):
        root.post(f"{LIST}{row.pk}/end")
    begun.refresh_from_db()
    assert begun.ends_at <= timezone.now() and not Maintenance.objects.filter(pk=planned.pk).exists()
    page = root.get(LIST).content.decode()
    assert "No maintenance is planned" in page and "Past" in page
    assert "It is over." in root.get(f"{LIST}{begun.pk}/").content.decode()
    assert root.get(f"{LIST}{planned.pk}/").status_code == 404


def test_a_link_chooses_machine_and_pool(root, cast):
    page = root.get(f"{NEW}?node=n1&node=unknown&pool=dev").content.decode()
    assert 'value="n1" checked' in page and f'<option value="{cast.dev.pk}" selected>' in page


def test_an_auditor_reads_and_changes_nothing(cast):
    row = make.maintenance(cast.node, begins_in_s=7200)
    auditor = browser(make.user("otto", platform_role="auditor"))
    page = auditor.get(f"{LIST}{row.pk}/").content.decode()
    assert "It closes 1 machine" in page and 'name="seen"' not in page and "Call off" not in page
    assert auditor.get(LIST).status_code == 200 and auditor.get(NEW).status_code == 403
    for at in (f"{LIST}{row.pk}/", f"{LIST}{row.pk}/end"):
        assert auditor.post(at, asked(nodes=["n1"])).status_code == 403
    assert Maintenance.objects.filter(pk=row.pk).exists()
