"""What is accepted, what is refused and in which words, and that a retry of a submit makes no second job."""

import pytest

from common.errors import Impossible, InvalidInput, KeyReused, NotPermitted, QuotaExceeded
from jobs.jobfile.parse import parse_spec
from jobs.models import Job
from jobs.submit import submit_job
from quotas.models import Quota, UserLimit
from quotas.services import get_default_limit
from scheduler.preview.preview import check_possible
from scheduler.reconcile.task_specs import build_task_spec
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


def submit(person, key="", body=b"", containers=False, **spec) -> Job:
    parsed = parse_spec({"run": "true", **spec})
    return submit_job(user=person, spec=parsed, check=check_possible, containers=containers, key=key, body=body)


def refusal(person, **spec):
    with pytest.raises((InvalidInput, Impossible)) as no:
        submit(person, **spec)
    return no.value


def test_a_slice_goes_to_the_shared_pool_and_a_card_to_the_other(cast):
    assert submit(cast.ada, gpu="1/4").pool == cast.dev
    assert submit(cast.ada, gpu=1).pool == cast.train


def test_what_the_job_does_not_name_comes_from_the_pool(cast):
    request = submit(cast.ada, gpu="1/4").gang[0]["request"]
    assert request["cpu_milli"] == 16_000 // 2 // 4
    assert request["memory_mib"] == (65_536 - 6_553) // 2 // 4


@pytest.mark.parametrize(
    ("spec", "pointer", "code"),
    [
        ({"gpu": 2}, "/gpu", "impossible_gpus"),
        ({"gpu": "H100"}, "/gpu", "impossible_gpu_model"),
        ({"gpu": "40GB", "pool": "dev"}, "/gpu", "impossible_gpu_model"),
        ({"gpu": "1/4", "pool": "train"}, "/gpu", "impossible_gpu_sharing"),
        ({"cpu": 64}, "/cpu", "impossible_cpu_milli"),
        ({"memory": "1TB"}, "/memory", "impossible_memory_mib"),
        ({"gpu": 1, "nodes": 3}, "/nodes", "impossible_tasks"),
        ({"rdma": True}, "/rdma", "impossible_rdma"),
    ],
)
def test_what_can_never_run_is_refused_with_its_field(cast, spec, pointer, code):
    error = refusal(cast.ada, **spec)
    assert (error.errors[0].pointer, error.errors[0].code) == (pointer, code)


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"shm": "8GB"}, "/shm"),  # the pool's memory is less
        ({"shm": "3GB", "memory": "2GB"}, "/shm"),
        ({"roles": {"main": {"run": "true", "shm": "2GiB", "memory": "1GiB"}}}, "/roles/main/shm"),
    ],
)
def test_shared_memory_is_no_more_than_the_memory(cast, spec, pointer):
    with pytest.raises(InvalidInput) as refused:
        make.job(cast.ada, pool="dev", **spec)
    assert [(error.pointer, error.code) for error in refused.value.errors] == [(pointer, "shm_above_memory")]


def test_a_task_is_told_how_much_of_its_memory_may_be_shared(cast):
    job = make.job(cast.ada, pool="dev", memory="4GiB", shm="1GiB")
    make.start(job)
    assert build_task_spec(job.newest_tasks.get()).shm_mib == 1024


def test_the_nearest_possible_is_named(cast):
    assert refusal(cast.ada, cpu=64).hints[0].value == "16"


def test_more_than_the_teams_limit_can_never_run(cast):
    Quota.objects.filter(team=cast.nlp).update(gpu_milli_limit=250)
    assert refusal(cast.ada, gpu="1/2").errors[0].code == "team_limit"


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"team": "vision"}, "unknown_team"),
        ({"team": "no-such"}, "unknown_team"),
        ({"pool": "no-such"}, "unknown_pool"),
        ({"image": "pytorch"}, "no_containers"),
        ({"code": "."}, "code_not_uploaded"),
        ({"code": "sha256:" + "a" * 64}, "unknown_code"),
    ],
)
def test_a_name_that_is_not_ones_own_is_unknown(cast, spec, code):
    assert refusal(cast.ada, **spec).errors[0].code == code


def test_a_viewer_submits_nothing_and_only_a_lead_submits_urgently(cast):
    with pytest.raises(NotPermitted):
        submit(make.user("vic", cast.nlp, role="viewer"))
    with pytest.raises(NotPermitted):
        submit(cast.ada, priority="urgent")
    assert submit(cast.bob, priority="urgent").priority == 3


def test_the_same_key_makes_one_job_and_another_body_is_refused(cast):
    jobs = {submit(cast.ada, key="k1", body=b"one").pk for _ in range(5)}
    assert len(jobs) == 1 == Job.objects.count()
    with pytest.raises(KeyReused):
        submit(cast.ada, key="k1", body=b"two")


def test_keys_belong_to_people(cast):
    assert submit(cast.ada, key="k1").pk != submit(cast.bob, key="k1").pk


def test_one_job_above_the_waiting_limit_is_refused(cast):
    get_default_limit()
    UserLimit.objects.filter(user=None).update(jobs_waiting=2)
    jobs = [submit(cast.ada), submit(cast.ada)]
    with pytest.raises(QuotaExceeded) as full:
        submit(cast.ada)
    holders = [f"{job.name} ({job.public_id})" for job in reversed(jobs)]
    assert full.value.params == {"what": "jobs_waiting", "used": 2, "limit": 2, "holders": holders}


def test_more_time_for_a_checkpoint_than_its_pool_gives_is_refused_with_what_it_gives(cast):
    type(cast.train).objects.filter(pk=cast.train.pk).update(max_grace_s=120)
    wish = {"pool": "train", "gpu": 1, "checkpoint": {"dir": "ckpt", "grace": "3m"}}
    no = refusal(cast.ada, **wish)
    assert [(error.pointer, error.code) for error in no.errors] == [("/checkpoint/grace", "grace_beyond_pool")]
    assert [(hint.pointer, hint.value) for hint in no.hints] == [("/checkpoint/grace", "2m")]
    assert submit(cast.ada, **wish | {"checkpoint": {"dir": "ckpt", "grace": "2m"}}).pool == cast.train


def test_who_names_no_pool_goes_where_there_is_enough_time_for_its_checkpoint(cast):
    assert submit(cast.ada, gpu=1).pool == cast.train
    type(cast.train).objects.filter(pk=cast.train.pk).update(max_grace_s=120)
    assert submit(cast.ada, gpu=1, checkpoint={"dir": "ckpt", "grace": "3m"}).pool == cast.dev


def test_who_says_no_grace_takes_what_its_pool_gives(cast):
    type(cast.train).objects.filter(pk=cast.train.pk).update(max_grace_s=30)
    assert submit(cast.ada, pool="train", gpu=1, checkpoint="ckpt").pool == cast.train
