"""Another size for a running slice: the account and the limit, whoever dies between, and who has no room."""

import pytest

from events.models import Event
from jobs.models import Task
from jobs.running_slices import resize_job
from jobs.states import TaskState
from quotas.models import Holding, Quota
from runtimes.contract.errors import Rejected, Unavailable
from runtimes.contract.node import NodeView
from scheduler.lease import acquire
from scheduler.reconcile.round import Poller, reconcile_once
from tests import make
from tests.fakes.runtime import FakeRuntime

pytestmark = pytest.mark.django_db
QUARTER, HALF = 8127, 16255
CARD = "GPU-n1-0"


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def runtime():
    return FakeRuntime([NodeView("n1", "127.0.0.1", "boot", 16_000, 65_536, (), (), ())])


@pytest.fixture
def epoch():
    return acquire("reconcile")


def running(person, runtime, epoch, *, gpu: str = "1/4"):
    """A job whose slice the runtime knows."""
    job = make.job(person, run="sleep infinity", gpu=gpu, pool="dev", cpu="10m", memory="16MiB")
    (task,) = make.start(job, state=TaskState.ASSIGNED)
    for _ in range(3):
        reconcile_once(Poller(runtime), epoch)
    runtime.use_memory(task.uuid.hex, CARD, task.cards[0]["memory_mib"], 100)
    reconcile_once(Poller(runtime), epoch)
    job.refresh_from_db()
    assert job.state == "RUNNING"
    return job, task


def held(task) -> tuple[int, int, int]:
    """(MiB, percent, thousandths) of the account; the row of the task says the same."""
    share = Holding.objects.live().get(task=task.uuid, gpu__isnull=False)
    task.refresh_from_db()
    assert task.cards[0]["memory_mib"] == share.gpu_memory_mib
    return share.gpu_memory_mib, share.gpu_compute_percent, share.gpu_milli


def limit(runtime, task) -> int:
    (view,) = (view for view in runtime.list_containers() if view.uuid == task.uuid.hex)
    return view.gpu_use[0].limit_mib


def test_a_slice_grows(cast, runtime, epoch):
    job, task = running(cast.ada, runtime, epoch)
    resize_job(actor=cast.ada, job=job, gpu="1/2")
    assert held(task)[0] == QUARTER
    reconcile_once(Poller(runtime), epoch)
    assert held(task) == (HALF, 50, 500) and limit(runtime, task) == HALF
    assert (task.resize["open"], task.resize["refused"]) == (False, None)
    verbs = Event.objects.filter(verb__startswith="resiz").order_by("id").values_list("verb", "actor")
    assert list(verbs) == [("resize_requested", "ada"), ("resized", "runtime")]
    assert Holding.objects.filter(task=task.uuid, gpu__isnull=False).count() == 2  # the old one ended, for the reports


def test_a_slice_shrinks_and_others_get_what_it_leaves(cast, runtime, epoch):
    job, task = running(cast.ada, runtime, epoch, gpu="3/4")
    resize_job(actor=cast.ada, job=job, gpu="1/4")
    reconcile_once(Poller(runtime), epoch)
    assert held(task) == (QUARTER, 25, 250) and limit(runtime, task) == QUARTER


def test_the_account_grows_before_the_limit(cast, runtime, epoch):
    """The runtime does not answer: nothing has more than its account, and the next round does it."""
    job, task = running(cast.ada, runtime, epoch)
    resize_job(actor=cast.ada, job=job, gpu="1/2")
    resize, runtime.resize = runtime.resize, away
    reconcile_once(Poller(runtime), epoch)
    assert held(task)[0] == HALF and limit(runtime, task) == QUARTER and task.resize["open"]
    runtime.resize = resize
    reconcile_once(Poller(runtime), epoch)
    assert held(task)[0] == HALF == limit(runtime, task) and not task.resize["open"]


def test_the_limit_shrinks_before_the_account(cast, runtime, epoch, monkeypatch):
    """The worker dies after the runtime has done it."""
    job, task = running(cast.ada, runtime, epoch, gpu="1/2")
    resize_job(actor=cast.ada, job=job, gpu="1/4")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("scheduler.reconcile.resizing.finish_resize", die)
        reconcile_once(Poller(runtime), epoch)
    assert held(task)[0] == HALF and limit(runtime, task) == QUARTER
    reconcile_once(Poller(runtime), epoch)
    assert held(task)[0] == QUARTER == limit(runtime, task)


def test_what_is_in_use_stays_and_the_history_says_why(cast, runtime, epoch):
    """It took more after the wish was written."""
    job, task = running(cast.ada, runtime, epoch, gpu="1/2")
    resize_job(actor=cast.ada, job=job, gpu="1/4")
    runtime.use_memory(task.uuid.hex, CARD, HALF, 9000)
    reconcile_once(Poller(runtime), epoch)
    assert held(task)[0] == HALF == limit(runtime, task)
    assert "9000 MiB are in use" in Event.objects.get(verb="resize_refused").params["detail"]


def test_a_refused_growth_gives_the_account_back(cast, runtime, epoch):
    job, task = running(cast.ada, runtime, epoch)
    resize_job(actor=cast.ada, job=job, gpu="1/2")
    resize, runtime.resize = runtime.resize, away
    reconcile_once(Poller(runtime), epoch)
    runtime.resize = refuse
    reconcile_once(Poller(runtime), epoch)
    assert held(task) == (QUARTER, 25, 250) and task.resize["refused"] == {"kind": "runtime", "detail": "No."}
    runtime.resize = resize
    reconcile_once(Poller(runtime), epoch)
    assert limit(runtime, task) == QUARTER


def test_two_that_were_both_told_there_is_room_never_exceed_the_card(cast, runtime, epoch):
    """Each fits alone: 1/4 + 1/4, and both want 2/3."""
    (job, task), (other, second) = (running(cast.ada, runtime, epoch) for _ in range(2))
    assert task.cards[0]["uuid"] == second.cards[0]["uuid"]
    for one in (job, other):
        resize_job(actor=cast.ada, job=one, gpu="2/3")
    reconcile_once(Poller(runtime), epoch)
    sizes = sorted((held(task)[0], held(second)[0]))
    assert sizes == [QUARTER, 21674] and sum(sizes) <= cast.gpus[0].sellable_mib
    refused = Event.objects.get(verb="resize_refused")
    assert refused.params["kind"] == "gpu"


def test_a_quota_counts_the_new_size(cast, runtime, epoch):
    job, task = running(cast.ada, runtime, epoch)
    Quota.objects.filter(team=job.team, pool=job.pool).update(gpu_milli_limit=400)
    resize_job(actor=cast.ada, job=job, gpu="1/2")
    reconcile_once(Poller(runtime), epoch)
    assert held(task)[0] == QUARTER == limit(runtime, task)
    assert Event.objects.get(verb="resize_refused").params["kind"] == "team_limit"


def test_a_late_call_with_an_older_wish_changes_nothing(cast, runtime, epoch):
    """A worker slept over the first wish, and wakes when the second is done."""
    job, task = running(cast.ada, runtime, epoch)
    for gpu in ("1/2", "1/8"):
        resize_job(actor=cast.ada, job=job, gpu=gpu)
        reconcile_once(Poller(runtime), epoch)
    runtime.resize(task.uuid.hex, {CARD: HALF}, serial=1)
    assert held(task)[0] == 4063 == limit(runtime, task)


def test_a_task_that_ends_meanwhile_leaves_nothing(cast, runtime, epoch):
    job, task = running(cast.ada, runtime, epoch)
    resize_job(actor=cast.ada, job=job, gpu="1/2")
    runtime.finish(task.uuid.hex)
    reconcile_once(Poller(runtime), epoch)
    assert not Holding.objects.live().filter(task=task.uuid).exists()
    assert Task.objects.get(pk=task.pk).state == TaskState.SUCCEEDED


def away(*_, **__):
    raise Unavailable("not now")


def refuse(*_, **__):
    raise Rejected("No.")


def die(*_, **__):
    raise KeyboardInterrupt
