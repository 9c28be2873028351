"""The world of bin/bench pages is one that the pages can show, and each route of the portal is asked for."""

import random

import pytest

from bench._world import Size, build_world
from bench.pages import list_addresses, list_pages
from jobs.models import Job
from jobs.states import JobState
from tests.portal.test_doors import PAGES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.django_db(transaction=True)]
READ = {name for name, method in PAGES if method == "GET"}


def test_every_page_answers_in_the_world_of_the_bench(settings, tmp_path):
    settings.TESSERA_DATA, settings.TESSERA_FILES = tmp_path, tmp_path / "files"
    world = build_world(Size(machines=5, teams=2, jobs=150, running=20, waiting=40), random.Random(1))
    assert Job.objects.filter(state=JobState.QUEUED).count() >= 12
    for person in world.people.values():
        assert {"home", "jobs", "job", "queue"} <= {page.name for page in list_addresses(person)}
    shown = {page.name for page in list_pages(world.admin, "")}
    assert {
        "home",
        "jobs",
        "job",
        "job waiting",
        "home rail",
        "notebook promises",
        "queue",
        "cluster",
        "quota",
        "report waits",
    } <= shown
    assert {"console_image", "console_login", "console_maintenance_one", "console_pool", "console_window"} <= shown
    assert {name for name in shown if " " not in name} <= READ
