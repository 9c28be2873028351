"""What the controller writes: replicas as jobs of the queue, crashes, revisions, and what it remembers."""

from datetime import timedelta
from time import time

import pytest

from common.errors import InvalidInput, NameTaken, NotPermitted, QuotaExceeded
from common.locks import database_now
from events.models import Event, Notice
from jobs.models import Job, JobKind
from jobs.states import JobState, TaskState
from portal.wording.events import describe_event
from portal.wording.notices import view_notice
from scheduler.reconcile.compare import load_rows
from services.controlling import control_service, control_services
from services.in_flight import Loads, publish_counts, read_loads, withdraw_counts
from services.models import Replica, Service
from services.services import (
    create_service,
    delete_service,
    put_to_sleep,
    revise_service,
    roll_back,
    stop_service,
    wake_service,
)
from services.traffic_counts import ERRORS, REQUESTS, add_counts
from tests import make

pytestmark = pytest.mark.django_db

ABILITIES = {"check": lambda draft: None, "containers": False}


@pytest.fixture
def cast():
    return make.cast()


def look(service: Service, requests: int | None = 0, **in_flight: int):
    loads = None if requests is None else Loads({service.pk: requests}, {int(k[1:]): n for k, n in in_flight.items()})
    return control_service(service.pk, loads, **ABILITIES)


def start(replica: Replica) -> None:
    """Let a replica's job run and its program answer."""
    [task] = make.start(replica.job)
    Replica.objects.filter(pk=replica.pk).update(ready_task=task.uuid, ready_at=database_now())


def pass_time(service: Service, **fields: int) -> None:
    now = database_now()
    Service.objects.filter(pk=service.pk).update(**{name: now - timedelta(seconds=s) for name, s in fields.items()})


def file_of(name: str = "chat", run: str = "python other.py") -> str:
    return make.SERVICE_FILE.format(**make.USUAL_SERVICE | {"name": name}).replace("python serve.py", run)


def test_a_replica_is_a_job_of_the_queue(cast):
    service = make.service(cast.ada, replicas="1..4")
    look(service, requests=4)
    first, second = Replica.objects.all()
    job = first.job
    assert (job.kind, job.name, job.state, job.max_time_s) == (JobKind.SERVICE, "chat", JobState.QUEUED, None)
    assert job.labels == {"service": service.public_id, "revision": "1"} and job.spec["ports"] == [7860]
    assert (first.job.preemptible, second.job.preemptible) == (False, True)  # beyond the least
    look(service, requests=4)
    assert Replica.objects.count() == 2


def test_it_sleeps_after_its_idle_time_and_costs_nothing_then(cast):
    service = make.service(cast.ada)
    look(service)
    [replica] = Replica.objects.all()
    start(replica)
    look(service, requests=None)
    pass_time(service, woken_at=601)
    look(service, requests=None)  # nobody says what is in flight
    replica.refresh_from_db()
    assert replica.draining_at is None
    look(service)
    Replica.objects.update(draining_at=database_now() - timedelta(seconds=4))
    look(service)
    job = Job.objects.get()
    assert job.stop_requested_at is not None and job.stop_reason == "not_needed"
    make.move(job.tasks.get(), TaskState.STOPPING, "not_needed")
    make.move(job.tasks.get(), TaskState.STOPPED, "not_needed")
    look(service)
    assert not Replica.objects.exists()
    service.refresh_from_db()
    assert (service.woken_at, service.busy_at) == (None, None)
    assert control_services(**ABILITIES) is False and not Replica.objects.exists()


def crash(service: Service) -> None:
    replica = service.replicas.get()
    [task] = make.start(replica.job)
    make.move(task, TaskState.FAILED, "exit_nonzero", exit_code=3)
    look(service, requests=1)


def test_a_crash_loop_backs_off_and_then_fails_with_its_job_named(cast):
    service = make.service(cast.ada)
    look(service, requests=1)
    for wait_s in (5, 30, 120):
        last = service.replicas.get().job
        crash(service)
        assert not service.replicas.exists()  # it backs off
        revision = service.revisions.get()
        assert abs((revision.retry_at - database_now()).total_seconds() - wait_s) < 3
        service.revisions.update(retry_at=database_now())
        look(service, requests=1)
    last = service.replicas.get().job
    crash(service)
    revision = service.revisions.get()
    assert revision.failed_at is not None
    assert revision.why == {"code": "crashed", "job": last.public_id, "reason": "exit_nonzero", "exit_code": 3}
    assert Event.objects.filter(kind="service", verb="failed").count() == 1
    notice = view_notice(Notice.objects.get(user_id=cast.ada.pk, kind="service_failed"))
    assert notice.title == "Revision 1 of your service chat failed"
    assert notice.text.startswith(f"{last.public_id}: The program ended with an error.")
    look(service, requests=1)
    assert not service.replicas.exists()
    wake_service(actor=cast.ada, service=service)
    look(service, requests=1)
    assert service.replicas.count() == 1


def test_a_new_file_answers_once_it_is_ready_and_the_old_one_drains(cast):
    service = make.service(cast.ada)
    look(service, requests=1)
    old = service.replicas.get()
    start(old)
    service = revise_service(actor=cast.ada, service=service, job_file=file_of(), **ABILITIES)
    look(service, requests=1)
    new = service.replicas.exclude(pk=old.pk).get()
    assert new.job.spec["run"] == "python other.py"
    assert Service.objects.get().current.number == 1
    start(new)
    look(service, requests=1)
    service = Service.objects.get()
    assert (service.current.number, service.rollout) == (2, None)
    assert Replica.objects.get(pk=old.pk).draining_at is not None
    assert roll_back(actor=cast.ada, service=service).rollout.number == 1


def test_a_bad_revision_is_given_up_and_the_good_one_stays(cast):
    service = make.service(cast.ada)
    look(service, requests=1)
    good = service.replicas.get()
    start(good)
    service = revise_service(actor=cast.ada, service=service, job_file=file_of(), **ABILITIES)
    for _ in range(4):
        service.revisions.update(retry_at=None)
        look(service, requests=1)
        bad = service.replicas.exclude(pk=good.pk).get()
        [task] = make.start(bad.job)
        make.move(task, TaskState.FAILED, "exit_nonzero", exit_code=3)
        look(service, requests=1)
    service = Service.objects.get()
    assert (service.current.number, service.rollout) == (1, None)
    assert [one.pk for one in service.replicas.filter(draining_at=None)] == [good.pk]


def try_canary(cast, service: Service, run: str) -> Replica:
    """Let a new revision be a canary that is ready, and return its replica."""
    job_file = file_of(run=run).replace("access: team", "access: team, canary: {for: 10m}")
    revise_service(actor=cast.ada, service=service, job_file=job_file, **ABILITIES)
    look(service, requests=1)
    canary = service.replicas.latest("pk")
    start(canary)
    look(service, requests=1)
    pass_time(service, canary_since=30)
    return canary


def answer(revision: int, service: Service, requests: int, errors: int) -> None:
    add_counts({(service.pk, revision, REQUESTS): requests, (service.pk, revision, ERRORS): errors}, time())


def test_a_bad_canary_goes_back_and_the_good_revision_stays_whole(cast):
    service = make.service(cast.ada)
    look(service, requests=1)
    good = service.replicas.get()
    start(good)
    canary = try_canary(cast, service, "python bad.py")
    assert canary.revision.number == 2 and canary.job.preemptible
    answer(good.revision_id, service, 300, 0)
    answer(canary.revision_id, service, 30, 1)
    look(service, requests=1)
    assert Service.objects.get().canary == canary.revision
    answer(canary.revision_id, service, 0, 5)
    look(service, requests=1)
    service, bad = Service.objects.get(), service.revisions.get(number=2)
    assert (service.current.number, service.rollout) == (1, None) and bad.failed_at is not None
    told = {"kind": "errors", "got": 20.0, "limit": 2.0, "requests": 30}
    assert bad.why == {"code": "went_back", "job": canary.job.public_id, **told}
    event = Event.objects.get(kind="service", verb="went_back")
    words = "20% of its 30 requests failed, more than 2%."
    assert describe_event(event) == f"Revision 2 went back. {words}"
    notice = view_notice(Notice.objects.get(user_id=cast.ada.pk, kind="service_failed"))
    assert notice.title == "Revision 2 of your service chat went back" and words in notice.text
    assert notice.path == f"/services/{service.public_id}/"
    assert [one.pk for one in service.replicas.filter(draining_at=None)] == [good.pk]
    roll_back(actor=cast.ada, service=service, number=2)  # whoever wants it nevertheless need not wait
    assert Service.objects.get().canary is None


def test_a_canary_that_passed_takes_over_once_it_has_the_replicas(cast):
    service = make.service(cast.ada)
    look(service, requests=4)
    for replica in service.replicas.all():
        start(replica)
    canary = try_canary(cast, service, "python fine.py")
    look(service, requests=4)
    assert service.replicas.filter(revision=canary.revision).count() == 1
    pass_time(service, canary_since=601)
    look(service, requests=4)
    look(service, requests=4)
    started = service.replicas.filter(revision=canary.revision)
    assert (Service.objects.get().current.number, started.count()) == (1, 2)
    start(started.last())
    look(service, requests=4)
    service = Service.objects.get()
    assert (service.current.number, service.rollout) == (2, None)
    assert roll_back(actor=cast.ada, service=service).rollout.number == 1
    assert roll_back(actor=cast.ada, service=service).rollout is None


def test_a_replica_that_is_refused_is_tried_again_and_says_why(cast, monkeypatch):
    def refuse(**asked):
        raise QuotaExceeded(what="jobs_waiting", used=9, limit=9)

    monkeypatch.setattr("services.controlling.submit_job", refuse)
    service = make.service(cast.ada)
    look(service, requests=1)
    revision = service.revisions.get()
    assert revision.why["params"]["limit"] == 9 and revision.retry_at > database_now()
    assert not Replica.objects.exists()


def test_who_may_do_what(cast):
    service = make.service(cast.ada)
    with pytest.raises(NotPermitted):  # its replicas act for ada
        revise_service(actor=cast.bob, service=service, job_file=file_of(), **ABILITIES)
    with pytest.raises(NotPermitted):
        wake_service(actor=cast.eve, service=service)
    with pytest.raises(NameTaken):
        make.service(cast.bob)
    stop_service(actor=cast.bob, service=service)
    look(service, requests=5)
    assert not Replica.objects.exists()
    wake_service(actor=cast.bob, service=service)
    look(service)
    put_to_sleep(actor=cast.ada, service=service)
    look(service)
    look(service)
    assert Job.objects.get().state == JobState.CANCELLED
    delete_service(actor=cast.bob, service=service)
    assert not Service.objects.visible_to(cast.ada).exists()
    make.service(cast.bob)  # the name is free again


@pytest.mark.parametrize(
    ("said", "pointer", "code"),
    [
        ("run: python train.py", "/job_file/kind", "not_a_service"),
        (file_of(name="Big_One"), "/job_file/name", "bad_service_name"),
        (file_of().replace("7860", "80"), "/job_file/serve/port", "too_small"),
        (file_of().replace("pool: dev", "pool: moon"), "/job_file/pool", "unknown_pool"),
    ],
)
def test_a_bad_file_is_refused_with_its_field(cast, said, pointer, code):
    with pytest.raises(InvalidInput) as refused:
        create_service(user=cast.ada, job_file=said, **ABILITIES)
    assert [(one.pointer, one.code) for one in refused.value.errors] == [(pointer, code)]


def test_a_service_is_no_job(cast):
    with pytest.raises(InvalidInput) as refused:
        make.job(cast.ada, kind="service", serve={"port": 8000})
    assert refused.value.errors[0].code == "service_not_here"


def test_a_replica_that_makes_room_stops_once_it_has_answered(cast, monkeypatch):
    service = make.service(cast.ada)
    look(service, requests=1)
    [replica] = Replica.objects.all()
    start(replica)
    task = make.move(replica.job.tasks.get(), TaskState.STOPPING, "preempted").uuid.hex

    def drains(requests: int | None, after_s: int) -> bool:
        loads = None if requests is None else Loads({service.pk: requests}, {replica.pk: requests})
        monkeypatch.setattr("scheduler.reconcile.draining.read_loads", lambda: loads)
        monkeypatch.setattr(
            "scheduler.reconcile.draining.database_now", lambda: database_now() + timedelta(seconds=after_s)
        )
        (row,) = load_rows()
        return row.drains

    assert drains(0, after_s=0)  # gateways may pass on by what they read before
    assert drains(1, after_s=10) and drains(None, after_s=10)
    assert not drains(0, after_s=10) and not drains(1, after_s=70)
    Replica.objects.update(ready_task=None)  # it answers nothing yet
    assert not drains(1, after_s=0)
    Replica.objects.update(ready_task=task)
    delete_service(actor=cast.ada, service=service)
    assert not drains(1, after_s=0)


def test_what_gateways_say_is_summed_and_silence_is_not_zero(monkeypatch):
    monkeypatch.setattr("services.in_flight.PROCESSES", "services:gateways-of-this-test")  # others' may still be up
    assert read_loads() is None
    publish_counts("a", {7: 2}, {70: 1})
    publish_counts("b", {7: 3, 8: 1}, {70: 2})
    assert read_loads() == Loads({7: 5, 8: 1}, {70: 3})
    withdraw_counts("b")
    publish_counts("a", {}, {})
    assert read_loads() == Loads({}, {})
    withdraw_counts("a")
    assert read_loads() is None
