"""Instances of a card that MIG cuts: given whole, one to a task, to those alone who name their model."""

import pytest

from common.errors import Impossible
from jobs.jobfile.parse import parse_spec
from jobs.models import Job, Task
from jobs.submit import submit_job
from scheduler.preview.preview import check_possible, list_capacity
from tests import make
from tests.one_cycle import decide, perform

pytestmark = pytest.mark.django_db(transaction=True)

A100 = {"model": "A100-40GB", "product": "NVIDIA A100-SXM4-40GB", "memory_mib": 40_960, "reserved_mib": 429}
NAME = "A100-40GB-1g.5gb"
PART = {"model": NAME, "product": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "memory_mib": 4864, "reserved_mib": 0}


@pytest.fixture
def ada():
    """A shared pool with two instances and a card, in this order, and one with an instance alone."""
    nlp, dev, cut = make.team("nlp"), make.pool("dev", shared=True), make.pool("cut")
    node = make.node(pool=dev)
    for number in range(3):
        uuid, pool = f"MIG-{number}", cut if number == 2 else dev
        make.gpu(node, pool=pool, uuid=uuid, index=1000 + number, simulated=False, enforcement="mig", **PART)
    make.gpu(node, pool=dev, uuid="GPU-1", index=1, simulated=False, enforcement="hami", **A100)
    make.quota(nlp, dev), make.quota(nlp, cut)
    return make.user("ada", nlp)


def submit(person, gpu: str, pool: str = "dev") -> Job:
    spec = parse_spec({"run": "true", "gpu": gpu, "pool": pool, "cpu": "100m", "memory": "128MiB"})
    return submit_job(user=person, spec=spec, check=check_possible, containers=False)


def cycle() -> None:
    perform(decide())


def given(job: Job) -> list[str]:
    return [card["uuid"] for card in Task.objects.get(job=job).cards]


def told(job: Job) -> list[str]:
    job.refresh_from_db()
    return [(reason["code"], reason["params"].get("models")) for reason in job.wait_reasons]


def test_who_names_no_instance_gets_none_and_waits_for_a_card(ada):
    first, whole, part, model = (submit(ada, gpu) for gpu in ("1", "1", "1/8", "A100-40GB"))
    cycle()
    assert given(first) == ["GPU-1"] and given(whole) == given(part) == given(model) == []
    assert told(whole)[0] == ("model_unavailable", ["A100-40GB"]) and told(part) and told(model)


def test_small_slices_go_to_cards_alone(ada):
    jobs = [submit(ada, gpu) for gpu in ("1/8", "4GB", "1GB")]
    cycle()
    assert [given(job) for job in jobs] == [["GPU-1"]] * 3
    assert list_capacity(ada)[0].largest_slice_mib > PART["memory_mib"]


def test_who_names_it_gets_one_whole_that_counts_as_one_card(ada):
    jobs = [submit(ada, gpu) for gpu in (NAME, f"h100,{NAME.upper()}", NAME)]
    cycle()
    assert sorted(given(jobs[0]) + given(jobs[1])) == ["MIG-0", "MIG-1"] and given(jobs[2]) == []
    held = Task.objects.get(job=jobs[0]).cards[0]
    assert (held["memory_mib"], held["compute_percent"], held["milli"]) == (4864, 100, 1000)
    assert told(jobs[2])[0] == ("model_unavailable", [NAME])


def test_a_gang_takes_one_for_each_task(ada):
    spec = parse_spec({"run": "true", "gpu": NAME, "pool": "dev", "nodes": 2, "cpu": "100m", "memory": "128MiB"})
    job = submit_job(user=ada, spec=spec, check=check_possible, containers=False)
    cycle()
    assert sorted(card["uuid"] for task in Task.objects.filter(job=job) for card in task.cards) == ["MIG-0", "MIG-1"]


@pytest.mark.parametrize(
    ("gpu", "pool"), [(f"{NAME}:2", "dev"), (f"{NAME}/2", "dev"), (f"{NAME}:2GB", "dev"), ("1", "cut"), ("1/2", "cut")]
)
def test_what_no_instance_can_give_is_refused_with_how_to_ask(ada, gpu, pool):
    with pytest.raises(Impossible) as no:
        submit(ada, gpu, pool)
    (error,) = no.value.errors
    assert (error.code, error.pointer, error.params["largest"]) == ("impossible_gpu_instance", "/gpu", [NAME])
    assert no.value.hints[0].pointer == "/gpu" and NAME in no.value.hints[0].value


def test_a_model_that_is_not_there_is_no_instance(ada):
    with pytest.raises(Impossible) as no:
        submit(ada, "A100-40GB", "cut")
    assert no.value.errors[0].code == "impossible_gpu_model"
