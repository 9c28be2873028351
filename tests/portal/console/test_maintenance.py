"""The console's page on maintenance, and what the machine's own page says of it."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Maintenance
from tests import make

pytestmark = pytest.mark.django_db
ADD = "/admin/cluster/maintenance/add/"
LIST = "/admin/cluster/maintenance/"


def fields(cast, begins_in_s=600, lasts_s=3600, **more):
    begins = (timezone.now() + timedelta(seconds=begins_in_s)).replace(microsecond=0)
    ends = begins + timedelta(seconds=lasts_s)
    times = {"begins_at": begins, "ends_at": ends}
    parts = {f"{name}_{n}": part for name, at in times.items() for n, part in enumerate(str(at)[:19].split())}
    return {"why": "new fans", "nodes": [cast.node.pk], **parts, **more}


def test_an_admin_plans_changes_and_ends_a_maintenance(cast, root):
    assert root.post(ADD, fields(cast, stops="on")).status_code == 302
    row = Maintenance.objects.get()
    assert (row.why, row.stops, list(row.nodes.all()), row.planned_by) == ("new fans", True, [cast.node], "rita")
    assert "in the time zone UTC" in root.get(ADD).content.decode()
    page = root.get(LIST).content.decode()
    assert "new fans" in page and "planned" in page and "n1" in page
    change = f"{LIST}{row.pk}/change/"
    assert root.post(change, fields(cast, nodes=[], pool=cast.train.pk)).status_code == 302
    row.refresh_from_db()
    assert (row.pool, row.nodes.count(), row.stops) == (cast.train, 0, False)
    assert root.post(LIST, {"action": "end_now", "_selected_action": [row.pk]}).status_code == 302
    assert not Maintenance.objects.exists()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"lasts_s": 0}, "does not end after its beginning"),
        ({"begins_in_s": -3600, "lasts_s": 60}, "would already be over"),
        ({"nodes": []}, "Name at least one, or a pool"),
        ({"begins_at_0": "soon"}, "Enter a valid date"),
    ],
)
def test_what_cannot_be_is_refused_with_words(cast, root, wrong, words):
    answer = root.post(ADD, fields(cast, **wrong))
    assert answer.status_code == 200 and words in answer.content.decode()
    assert not Maintenance.objects.exists()


def test_an_auditor_sees_it_and_ends_none(cast, auditor):
    row = make.maintenance(cast.node, begins_in_s=600)
    assert auditor.get(LIST).status_code == auditor.get(f"{LIST}{row.pk}/change/").status_code == 200
    assert auditor.post(ADD, fields(cast)).status_code == 403
    auditor.post(LIST, {"action": "end_now", "_selected_action": [row.pk]})
    assert Maintenance.objects.get() == row


def test_the_machine_says_what_is_to_come_and_what_lasts(cast, client):
    client.force_login(cast.ada)
    row = make.maintenance(cast.node, begins_in_s=600, why="new fans")
    page = client.get("/nodes/n1/").content.decode()
    assert re.search(r"n1 goes into maintenance from .* until .* Reason: new fans", page)
    assert "2 of 2 GPUs free" in page and "Maintenance was planned" in page
    Maintenance.objects.filter(pk=row.pk).update(begins_at=timezone.now())
    page = client.get("/nodes/n1/").content.decode()
    assert "n1 is under maintenance until" in page and "GPUs free" not in page
    assert "Maintenance" in client.get("/cluster/").content.decode()
