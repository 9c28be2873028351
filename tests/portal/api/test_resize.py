"""Another size for running slices by REST: who may, what is refused, and the words."""

import pytest

from events.models import Event
from jobs.models import Task
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(cast):
    job = make.job(cast.ada, gpu="1/4", pool="dev")
    make.start(job)
    return job


def resize(person, job, **asked):
    return person.post(f"jobs/{job.public_id}:resize", asked)


def code_of(answer) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_the_wish_is_shown_until_it_is_done(ada, job):
    answer = resize(ada, job, gpu="1/2")
    assert answer.status_code == 200
    assert answer.json()["tasks"][0]["resize"] == {"gpu": "1/2", "by": "ada", "state": "asked", "detail": ""}
    event = ada.get(f"jobs/{job.public_id}/events").json()["results"][-1]
    assert (event["verb"], event["actor"]) == ("resize_requested", "ada")
    assert event["params"] == {"gpu": "1/2", "tasks": ["main.0"]}


def test_the_same_wish_twice_is_one_and_another_waits_for_it(ada, job):
    for _ in range(2):
        assert resize(ada, job, gpu="1/2").status_code == 200
    assert Event.objects.filter(verb="resize_requested").count() == 1
    assert code_of(resize(ada, job, gpu="3/4")) == (409, "resize_under_way")


def test_owner_lead_and_admin_may_and_others_may_not(ada, bob, eve, cast, job):
    mate = Api(make.token(make.user("cyd", cast.nlp)))
    assert resize(eve, job, gpu="1/2").status_code == 404
    refused = resize(mate, job, gpu="1/2")
    assert refused.status_code == 403 and refused.json()["params"]["action"] == "job.resize"
    assert not Task.objects.filter(resize__isnull=False).exists()
    for person in (ada, bob, Api(make.token(make.admin()))):  # bob leads the team
        assert resize(person, job, gpu="1/2").status_code == 200


def test_only_what_runs_is_resized(ada, cast):
    waiting = make.job(cast.ada, gpu="1/4", pool="dev")
    assert code_of(resize(ada, waiting, gpu="1/2")) == (409, "only_running_jobs")


def test_more_than_the_card_has_free_is_refused_with_the_figures(ada, cast, job):
    other = make.job(cast.ada, gpu="1/2", pool="dev")
    make.start(other, cast.gpus[0])
    refused = resize(ada, job, gpu="3/4")
    assert code_of(refused) == (409, "resize_no_room")
    assert "n1:0 has 8.5 GB of memory free, and this needs 17 GB more" in refused.json()["detail"]


def test_tasks_of_one_card_are_counted_together(ada, cast):
    job = make.job(cast.ada, gpu="1/4", nodes=2, pool="dev")
    make.start(job, cast.gpus[0])
    cards = {task.cards[0]["uuid"] for task in job.newest_tasks}
    assert len(cards) == 1
    assert code_of(resize(ada, job, gpu="2/3")) == (409, "resize_no_room")
    assert resize(ada, job, gpu="2/3", task="main.1").status_code == 200
    wishes = {task.rank: task.resize for task in job.newest_tasks}
    assert wishes[0] is None and wishes[1]["gpu"] == "2/3"


def test_below_what_is_in_use_it_says_how_much_that_is(ada, job):
    use = {"uuid": "GPU-n1-0", "limit_mib": 8127, "used_mib": 6000, "peak_mib": 6000, "refused": 0}
    Task.objects.filter(job=job).update(gpu_use=[use])
    refused = resize(ada, job, gpu="1/8")
    assert code_of(refused) == (409, "resize_below_use")
    assert "main.0 uses 6.3 GB of GPU memory, so its slice cannot be resized to 4.3 GB" in refused.json()["detail"]


def test_by_mps_a_slice_becomes_no_larger_and_keeps_its_compute(ada, job):
    use = {"uuid": "GPU-n1-0", "limit_mib": 8127, "used_mib": 100, "peak_mib": 100, "refused": 0, "compute": "mps"}
    Task.objects.filter(job=job).update(gpu_use=[use])
    assert code_of(resize(ada, job, gpu="1/2")) == (409, "resize_by_mps")
    assert resize(ada, job, gpu="1/8").status_code == 200
    assert Task.objects.get(job=job).resize["compute_percent"] == 25


@pytest.mark.parametrize(
    ("changed", "code"),
    [({"whole": True}, "resize_whole_card"), ({"enforcement": "hami"}, "resize_kept_otherwise")],
)
def test_whole_cards_and_limits_of_others_stay(ada, job, changed, code):
    task = Task.objects.get(job=job)
    Task.objects.filter(pk=task.pk).update(cards=[{**task.cards[0], **changed}])
    assert code_of(resize(ada, job, gpu="1/2")) == (409, code)


def test_a_job_without_a_card_has_no_slice(ada, cast):
    job = make.job(cast.ada, gpu=0, pool="dev")
    make.start(job)
    assert code_of(resize(ada, job, gpu="1/2")) == (409, "resize_no_card")


def test_more_than_a_card_is_no_slice_of_it(ada, job):
    assert code_of(resize(ada, job, gpu="64GB")) == (409, "resize_above_card")


@pytest.mark.parametrize("gpu", ["1", "H100/2", "0", "2"])
def test_only_slices_are_sizes_of_slices(ada, job, gpu):
    refused = resize(ada, job, gpu=gpu)
    assert refused.status_code == 400 and refused.json()["errors"][0]["code"] == "not_a_slice"


def test_a_task_that_is_not_there_is_named(ada, job):
    refused = resize(ada, job, gpu="1/2", task="main.7")
    assert refused.status_code == 400
    assert "This job has no running task “main.7”" in refused.json()["errors"][0]["detail"]


def test_where_the_runtime_cannot_it_says_so(ada, job, settings):
    settings.TESSERA_RUNTIME = "runtimes.kubernetes.runtime.KubernetesRuntime"
    refused = resize(ada, job, gpu="1/2")
    assert code_of(refused) == (409, "resize_not_here")
    assert "Slices keep their size" in refused.json()["detail"]
