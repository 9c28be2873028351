"""The token of a job: what its tasks may do with it, and that it is never more, nor lives longer, than it should."""

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import ApiToken
from accounts.services import create_token, revoke_token
from common.errors import InvalidInput
from events.models import Event
from jobs.arrays.making import take_step
from jobs.arrays.models import JobArray
from jobs.copying.copies import build_rerun, copy_file
from jobs.job_tokens.tokens import URL, VARIABLE
from jobs.models import Job, Task
from jobs.states import TaskState
from jobs.used_secrets.giving import give_secrets, load_task_masks
from runtimes.contract.node import NodeView
from scheduler.reconcile.actions import FencedAction, load_starts, run_actions
from scheduler.reconcile.compare import Start
from tests import make
from tests.api_client import Api
from tests.fakes.runtime import FakeRuntime

pytestmark = pytest.mark.django_db
FILE = {"run": "tessera run -f next.yaml", "pool": "dev", "token": ["jobs:write", "jobs:read"]}


@pytest.fixture
def runtime():
    return FakeRuntime([NodeView("n1", "127.0.0.1", "boot", 16_000, 65_536, (), (), ())])


def place(job: Job) -> Task:
    return make.start(job, state=TaskState.ASSIGNED)[0]


def give(runtime, task: Task) -> str:
    """The token that the task is started with."""
    spec = load_starts([task.uuid.hex], runtime, make.lead())[task.uuid.hex]
    (given,) = spec.secrets
    assert (given.name, given.is_variable, spec.platform_env[URL]) == (VARIABLE, True, "http://localhost:8470")
    return given.value


def submit(api: Api, **file) -> Job:
    answer = api.post("jobs", {**FILE, **file})
    assert answer.status_code == 201, answer.json()
    return Job.objects.get(pk=int(answer.json()["id"].removeprefix("job-")))


def works(token: str) -> bool:
    return Api(token).get("jobs").status_code == 200


def test_a_task_acts_for_its_owner_within_the_scopes_of_the_file(cast, runtime):
    task = place(make.job(cast.ada, **FILE))
    api = Api(give(runtime, task))
    made = api.post("jobs", {"run": "true", "pool": "dev"})
    assert made.status_code == 201 and Job.objects.latest("pk").user == cast.ada
    assert api.get("notebooks").status_code == 403 and api.post("me/tokens", {}).status_code == 403


def test_it_ends_with_the_attempt_and_the_next_one_has_another(cast, runtime):
    task = place(make.job(cast.ada, **FILE, retry={"times": 1, "when": ["exit_nonzero"]}))
    first = give(runtime, task)
    assert give(runtime, task) == first and works(first)  # a start that is repeated
    make.move(task, TaskState.FAILED, "exit_nonzero", exit_code=1)
    assert not works(first)
    Job.objects.update(not_before=None)
    again = place(Job.objects.get())
    second = give(runtime, again)
    assert second != first and works(second)
    make.move(again, TaskState.SUCCEEDED, "completed", exit_code=0)
    assert not works(second) and Job.objects.get().state == "SUCCEEDED"


def test_a_start_that_comes_after_the_end_makes_none(cast, runtime):
    job = place(make.job(cast.ada, **FILE)).job
    make.end(job, TaskState.FAILED, "exit_nonzero", 1)
    assert give_secrets([job]) == {job.pk: None}
    late = place(make.job(cast.ada, **FILE)).job
    Job.objects.filter(pk=late.pk).update(attempt=2)  # as a stop for others does meanwhile
    assert give_secrets([late]) == {late.pk: None} and not ApiToken.objects.exists()


def test_its_history_says_how_it_begins_and_its_log_is_masked(cast, runtime):
    task = place(make.job(cast.ada, **FILE))
    token = give(runtime, task)
    event = Event.objects.get(kind="job", verb="token_made")
    assert event.params == {"prefix": token[:10], "scopes": "jobs:read, jobs:write", "attempt": 1}
    assert token not in str(Event.objects.values_list("params")) + str(task.job.spec)
    covered = load_task_masks([task.uuid.hex])[task.uuid.hex].cover(token.encode(), is_last=True)
    assert covered == b"*" * len(token)
    used = Api(token).post("jobs", {"run": "true", "pool": "dev"}).json()["id"]
    assert Event.objects.get(kind="job", object_id=int(used[4:]), verb="submitted").via == token[:10]


def test_who_submits_by_a_token_gives_no_more_than_it_may_do(cast):
    weak = Api(make.token(cast.ada, "jobs:write"))
    refused = weak.post("jobs", FILE)
    [error] = refused.json()["errors"]
    assert (refused.status_code, error["pointer"], error["code"]) == (400, "/token", "scope_beyond_token")
    copied = make.job(cast.ada, **FILE)
    assert weak.post(f"jobs/{copied.public_id}:rerun", {}).status_code == 400
    assert submit(weak, token=["jobs:write"]).spec["token"] == ["jobs:write"]


def test_it_ends_with_the_token_that_submitted_the_job(cast, runtime):
    row, secret = create_token(user=cast.ada, name="ci", scopes=["jobs:read", "jobs:write"])
    runs, waits = place(submit(Api(secret))), place(submit(Api(secret)))
    token = give(runtime, runs)
    revoke_token(user=cast.ada, token_id=row.pk)
    assert not works(token)
    run_actions([FencedAction(Start(waits.uuid.hex, waits.job_id), make.lead())], runtime)
    waits.refresh_from_db()
    assert (waits.state, waits.reason) == (TaskState.FAILED, "secret_missing")
    assert "The token that submitted this job was revoked" in waits.detail and not runtime.starts


def test_it_ends_with_the_attempt_whose_token_submitted_the_job(cast, runtime):
    parent = place(make.job(cast.ada, **FILE))
    child = place(submit(Api(give(runtime, parent))))
    token = give(runtime, child)
    assert works(token)
    make.move(parent, TaskState.SUCCEEDED, "completed", exit_code=0)
    assert not works(token)


def test_the_elements_of_an_array_have_no_more_than_its_submitter_gave(cast, runtime):
    weak = Api(make.token(cast.ada, "jobs:write"))
    assert weak.post("jobs", {**FILE, "array": 3}).json()["errors"][0]["code"] == "scope_beyond_token"
    row, secret = create_token(user=cast.ada, name="ci", scopes=["jobs:read", "jobs:write"])
    assert Api(secret).post("jobs", {**FILE, "array": 3}).status_code == 201
    take_step(JobArray.objects.get().pk, lambda draft: None, True)
    made = Job.objects.order_by("array_index")
    assert [job.made_by_id for job in made] == [row.pk] * 3
    token = give(runtime, place(made[1]))
    revoke_token(user=cast.ada, token_id=row.pk)
    assert not works(token)


def test_it_never_outlives_that_token(cast, runtime):
    row, secret = create_token(user=cast.ada, name="ci", scopes=["jobs:read", "jobs:write"], days=3)
    token = give(runtime, place(submit(Api(secret))))
    ApiToken.objects.filter(pk=row.pk).update(expires_at=timezone.now() - timedelta(days=1))
    assert ApiToken.objects.get(held_by__startswith="job-").expires_at == row.expires_at and works(token)


def test_it_does_not_count_among_a_persons_tokens(cast, runtime, settings):
    settings.TESSERA_MOST_TOKENS = 1
    give(runtime, place(make.job(cast.ada, **FILE)))
    assert create_token(user=cast.ada, name="one", scopes=["jobs:read"])
    with pytest.raises(InvalidInput):
        create_token(user=cast.ada, name="two", scopes=["jobs:read"])


def test_a_suspended_persons_ends_at_once_and_a_revoked_one_too(cast, runtime, ada):
    token = give(runtime, place(make.job(cast.ada, **FILE)))
    [held] = [row for row in ada.get("me/tokens").json()["results"] if row["held_by"]]
    assert (held["name"], held["expires_at"]) == (held["held_by"], None)
    assert ada.delete(f"me/tokens/{held['id']}").status_code == 204 and not works(token)


def test_anothers_copy_of_the_job_has_none(cast):
    job = make.job(cast.ada, **FILE)
    assert copy_file(cast.ada, job)["token"] and "token" not in copy_file(cast.bob, job)
    for exact in (True, False):
        assert build_rerun(cast.ada, job, exact=exact).token and not build_rerun(cast.bob, job, exact=exact).token


def test_a_template_gives_none(ada):
    text = "template: {name: chain}\nrun: true\ntoken: [jobs:write]\n"
    refused = ada.post("templates", {"file": text})
    assert ("/token", "token_in_template") in [(one["pointer"], one["code"]) for one in refused.json()["errors"]]


def test_a_schedule_of_such_jobs_is_a_persons_to_make(ada, cast):
    text = "run: tessera jobs\npool: dev\ntoken: [jobs:read]\n"
    values = {"name": "nightly", "cron": "0 2 * * *", "zone": "UTC", "job_file": text}
    refused = ada.post("schedules", values)
    assert [(one["pointer"], one["code"]) for one in refused.json()["errors"]] == [
        ("/job_file/token", "token_in_schedule")
    ]
    made = ada.post("schedules", {**values, "job_file": text.replace("token: [jobs:read]\n", "")}).json()
    assert ada.patch(f"schedules/{made['id']}", {"job_file": text}).status_code == 400
