"""A real model through the whole path: its environment is built, its service sleeps and is woken by the first file."""

import pytest
from asgiref.sync import sync_to_async

from datasets.models import DatasetVersion, VersionState
from job_templates.services import find_template, find_version
from jobs.states import JobState
from portal.pages.templates.running import run_or_serve
from runtimes.local.access.access import LocalAccess
from scheduler.preview.preview import check_possible
from services.cold_starts import load_cold_starts
from services.models import Replica, Service
from tests import make
from tests.scheduler.known_files import make_known_files
from tests.scheduler.test_environments import build, log
from tests.scheduler.test_services import beating, open_door

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240), pytest.mark.django_db(transaction=True)]

MODEL = "magika==1.0.3"


@pytest.fixture
def service(local, ada, settings, tmp_path, monkeypatch):
    """The template's service in an environment that a recipe made, asleep."""
    settings.TESSERA_FILES = local.machine.config.areas_dir
    access = LocalAccess(tmp_path / "data")
    monkeypatch.setattr("services.controlling.get_access", lambda: access)
    job = build(ada, name="magika", pip=(MODEL,), test="python -c 'import magika'", memory_mib=1024)
    assert job.state == JobState.SUCCEEDED, log(local, job)
    assert DatasetVersion.objects.get().state == VersionState.READY
    version = find_version(find_template(ada, "file-type"))
    run_or_serve(ada, version, {"environment": "magika"}, {"pool": "dev"}, check_possible, containers=False)
    Service.objects.update(woken_at=None)
    return Service.objects.get(), access


async def test_a_hundred_files_of_known_types_come_back_right(service):
    made, access = service
    key = await sync_to_async(make.service_key)(made)
    files, found = make_known_files(), []
    assert len({content for _, content in files}) == 100 and not await Replica.objects.aexists()
    async with open_door(access) as (session, door):
        with beating():
            for _, content in files:
                sent = {"data": content, "headers": {"Authorization": f"Bearer {key}"}}
                async with session.post(f"{door}/nlp/file-type/", **sent) as answer:
                    assert answer.status == 200, await answer.text()
                    found.append((await answer.json())["type"])
    [start] = (await sync_to_async(load_cold_starts)(made)).last
    print(f"woken in {start.queue_s:.1f} s queue, {start.data_s:.1f} s data, {start.program_s:.1f} s program")
    assert found == [label for label, _ in files]
