"""Quotas keep their history and refuse what makes no sense; holdings begin and end once."""

import pytest
from django.db import IntegrityError, transaction

from common.errors import InvalidInput, NotPermitted
from events.models import Event, Notice
from jobs.states import TaskState
from quotas.models import Holding, Quota, UserLimit, list_subtree, team_chain
from quotas.services import delete_quota, save_quota, save_user_limit
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


def test_a_change_is_kept_with_who_from_and_to(cast):
    root, quota = make.admin(), Quota.objects.get(team=cast.nlp, pool=cast.dev)
    quota.gpu_milli_limit = 1_500
    save_quota(actor=root, quota=quota)
    event = Event.objects.get(kind="quota")
    assert (event.actor, event.params) == (
        "rita",
        {"from": {"gpu_milli_limit": None}, "to": {"gpu_milli_limit": 1_500}},
    )


def test_the_leads_of_a_team_are_told_of_its_quota_and_nobody_else(cast):
    root, quota = make.admin(), Quota.objects.get(team=cast.nlp, pool=cast.dev)
    save_quota(actor=root, quota=quota)
    assert not Notice.objects.exists()
    quota.gpu_milli_limit = 1_500
    save_quota(actor=root, quota=quota)
    delete_quota(actor=root, quota=quota)
    told = Notice.objects.filter(kind="quota_changed")
    assert [notice.user_id for notice in told] == [cast.bob.pk] * 2
    assert told[0].params == {"team": "nlp", "pool": "dev"}


def test_saving_without_a_change_leaves_no_line(cast):
    save_quota(actor=make.admin(), quota=Quota.objects.get(team=cast.nlp, pool=cast.dev))
    assert not Event.objects.filter(kind="quota").exists()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"gpu_milli_guarantee": 2_000, "gpu_milli_limit": 1_000}, "guarantee_above_limit"),
        ({"gpu_milli_guarantee": 2_001}, "guarantee_above_pool"),
    ],
)
def test_a_promise_that_cannot_be_kept_is_refused(cast, fields, code):
    quota = Quota.objects.get(team=cast.nlp, pool=cast.dev)
    for name, value in fields.items():
        setattr(quota, name, value)
    with pytest.raises(InvalidInput) as no:
        save_quota(actor=make.admin(), quota=quota)
    assert no.value.errors[0].code == code


def test_guarantees_of_two_teams_together_stay_within_the_pool(cast):
    Quota.objects.filter(team=cast.vision, pool=cast.dev).update(gpu_milli_guarantee=1_500)
    quota = Quota.objects.get(team=cast.nlp, pool=cast.dev)
    quota.gpu_milli_guarantee = 600
    with pytest.raises(InvalidInput):
        save_quota(actor=make.admin(), quota=quota)


def test_a_lead_changes_no_quota(cast):
    with pytest.raises(NotPermitted):
        save_quota(actor=cast.bob, quota=Quota.objects.get(team=cast.nlp, pool=cast.dev))


def test_a_persons_open_fields_take_what_holds_for_everyone(cast):
    save_user_limit(actor=make.admin(), limit=UserLimit(user=cast.ada, gpu_milli=500))
    everyone = UserLimit(jobs_running=7, gpu_milli=9_000)
    limit = UserLimit.objects.get(user=cast.ada).effective(everyone)
    assert (limit["gpu_milli"], limit["jobs_running"], limit["memory_mib"]) == (500, 7, None)


def test_a_task_holds_from_its_placing_to_its_end(cast):
    job = make.job(cast.ada, gpu="1/4")
    assert not Holding.objects.live().exists()
    (task,) = make.start(job)
    assert Holding.objects.live().filter(task=task.uuid).totals() == (250, 2_000, 7_372)
    make.move(task, TaskState.SUCCEEDED, "completed", exit_code=0)
    assert not Holding.objects.live().exists() and Holding.objects.count() == 2


def test_a_row_for_a_card_holds_no_cpu(cast):
    wrong = {"task": cast.gpus[0].pk, "gpu": cast.gpus[0], "cpu_milli": 1}
    make_row = {"team": cast.nlp, "user": cast.ada, "pool": cast.dev, "node": cast.node, **wrong}
    make_row["task"] = "0" * 32
    with pytest.raises(IntegrityError), transaction.atomic():
        Holding.objects.create(**make_row)


def test_teams_form_chains_and_trees_and_a_loop_ends():
    parents = {1: None, 2: 1, 3: 2, 4: 5, 5: 4}
    assert team_chain(3, parents) == [3, 2, 1] and list_subtree(1, parents) == [1, 2, 3]
    assert team_chain(4, parents) == [4, 5]
