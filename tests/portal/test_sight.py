"""Who sees what: the values themselves, before any page or serializer has them."""

from dataclasses import asdict

import pytest

from jobs.models import Job
from portal.access.redacted_rows import list_active_rows, list_node_views, list_queue_rows, load_gpu_slices
from tests import make

pytestmark = pytest.mark.django_db


def texts(value) -> str:
    return repr(asdict(value))


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def running(cast):
    job = make.job(cast.ada, name="secret-plan", gpu="1/4", pool="dev", time="1h", env={"KEY": "hush"})
    make.start(job)
    return Job.objects.get(pk=job.pk)


def test_a_stranger_sees_a_waiting_job_by_team_size_and_reason_code_only(cast, settings):
    settings.TESSERA_VISIBILITY = "team"
    job = make.job(cast.ada, name="secret-plan", gpu="1/4", pool="dev", env={"KEY": "hush"})
    Job.objects.update(wait_reasons=[{"code": "held", "params": {"who": "bob"}}], wait_position=1, wait_of=1)
    (row,) = list_queue_rows(cast.eve)
    assert (row.team, row.gpu, row.state, row.reason, row.position) == ("nlp", "1/4", "QUEUED", "held", 1)
    for secret in ("secret-plan", "ada", "bob", "hush", job.public_id, str(job.uuid)):
        assert secret not in texts(row)
    assert row.reason_text == "held by someone"


def test_a_team_mate_sees_the_whole_row(cast):
    job = make.job(cast.ada, name="secret-plan", gpu="1/4", pool="dev")
    Job.objects.update(wait_reasons=[{"code": "held", "params": {"who": "bob"}}])
    (row,) = list_queue_rows(cast.bob)
    assert (row.full, row.own, row.name, row.owner, row.job_id) == (True, False, "secret-plan", "ada", job.public_id)
    assert row.reason_text == "held by bob"


def test_usually_a_stranger_is_told_the_owner_and_no_more(cast, running):
    for row in (list_active_rows(cast.eve)[0], load_gpu_slices(cast.eve)[0].slices[0]):
        assert (row.full, row.team, row.owner, row.name, row.job_id) == (False, "nlp", "ada", "", "")
        assert not [secret for secret in ("secret-plan", "hush", running.public_id) if secret in texts(row)]


def test_private_visibility_hides_the_team_as_well(cast, running, settings):
    settings.TESSERA_VISIBILITY = "private"
    (row,) = list_active_rows(cast.eve)
    assert (row.team, row.owner, row.team_label) == ("", "", "another team")
    assert "ada" not in texts(row) and "nlp" not in texts(row) and "nlp" not in texts(load_gpu_slices(cast.eve)[0])


def test_a_stranger_sees_a_slice_and_when_it_ends_but_not_whose(cast, running, settings):
    settings.TESSERA_VISIBILITY = "team"
    (part,) = load_gpu_slices(cast.eve)[0].slices
    assert (part.team, part.memory_mib, part.compute_percent, part.state) == ("nlp", 8127, 25, "RUNNING")
    assert part.expected_end_at is not None
    for secret in ("secret-plan", "ada", running.public_id, str(running.tasks.get().uuid)):
        assert secret not in texts(part)


def test_the_owner_sees_the_own_slice(cast, running):
    (part,) = load_gpu_slices(cast.ada)[0].slices
    assert part.own and part.job_id == running.public_id and part.task == str(running.tasks.get().uuid)


def test_a_node_shows_what_is_held_on_it_and_masks_the_tasks_of_others(cast, running):
    make.start(make.job(cast.eve, cpu="500m", memory="1GiB", pool="dev", name="mine"))
    (view,) = list_node_views(cast.eve)
    assert [task.name for task in view.tasks] == ["", "mine"]
    assert view.cpu_held_milli == sum(role["request"]["cpu_milli"] for job in Job.objects.all() for role in job.gang)
    assert [len(card.slices) for card in view.cards] == [1, 0]


def test_an_admin_sees_everything(cast, running):
    assert list_active_rows(make.admin())[0].name == "secret-plan"


def test_a_suspended_person_sees_nothing_of_the_team(cast, running):
    cast.ada.suspended_at = running.submitted_at
    assert list_active_rows(cast.ada)[0].full is False


def test_the_queue_is_in_the_order_of_positions(cast):
    first, second, new = (make.job(cast.ada, pool="dev") for _ in range(3))
    Job.objects.filter(pk=first.pk).update(wait_position=2)
    Job.objects.filter(pk=second.pk).update(wait_position=1)
    assert [row.job_id for row in list_queue_rows(cast.ada, "dev")] == [j.public_id for j in (second, first, new)]
    assert list_queue_rows(cast.ada, "train") == []
