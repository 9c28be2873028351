"""The list of jobs, one job's page, and what may be done to one. eve is of another team: for her nothing is there."""

import re
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as conf
from django.db import connections
from django.utils import timezone

from cluster.models import Pool
from jobs.models import Job, Task
from jobs.states import JobState, TaskState
from portal.pages.jobs.job_list import PAGE
from runtimes.log_store import LogStore
from scheduler.commit.starting import start_jobs
from scheduler.commit.steps import StartJob, TaskStart
from scheduler.models import Lease
from tests import make

pytestmark = pytest.mark.django_db
POSTS = ("stop", "retry", "hold", "release")


@pytest.fixture
def cast(settings, tmp_path):
    settings.TESSERA_LOGS = tmp_path
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    return make.cast()


@pytest.fixture
def get(client):
    def get(person, path, target=""):
        client.force_login(person)
        return client.get(path, headers={"HX-Request": "true", "HX-Target": target} if target else {})

    return get


@pytest.fixture
def look(get):
    return lambda *asked: get(*asked).content.decode()


@pytest.fixture
def post(client):
    def post(person, path, **data):
        client.force_login(person)
        return client.post(path, data, headers={"Origin": conf.TESSERA_PUBLIC_URL})

    return post


def test_the_page_tells_what_a_task_uses_of_its_slice_and_looks_again(cast, look):
    job, (task, *_) = started(cast.ada, gpu="1/4")
    before = look(cast.ada, f"/j/{job.public_id}/")
    use = {"uuid": task.cards[0]["uuid"], "limit_mib": 8127, "used_mib": 3100, "peak_mib": 4000, "refused": 2}
    Task.objects.filter(pk=task.pk).update(gpu_use=[use])
    page = look(cast.ada, f"/j/{job.public_id}/")
    assert "3,100 of 8,127 MiB in use, peak 4,000" in page
    assert "The slice refused 2 requests for more memory." in page
    assert "every 5s" in page and "every 5s" not in before and "not being watched" not in page


def test_the_page_tells_that_nobody_watches_a_slice_and_what_limits_its_compute(cast, look):
    job, (task, *_) = started(cast.ada, gpu="1/4")
    card = task.cards[0] | {"simulated": False, "enforcement": "slice"}
    use = {"uuid": card["uuid"], "limit_mib": 8127, "used_mib": 3100, "peak_mib": 4000, "refused": 0}
    for more, words in (
        ({"watched": False}, "Memory is not being watched right now"),
        ({"used_mib": 7721}, "The slice is nearly full"),
        ({"compute": "turns"}, "Compute is shared in turns, without a limit."),
        ({"compute": "mps"}, "at most 25 % of the card&#x27;s multiprocessors"),
    ):
        Task.objects.filter(pk=task.pk).update(gpu_use=[use | more], cards=[card])
        assert words in look(cast.ada, f"/j/{job.public_id}/")


def test_of_a_simulated_card_nothing_is_said_of_its_compute(cast, look):
    job, _ = started(cast.ada, gpu="1/4")
    assert "in turns" not in look(cast.ada, f"/j/{job.public_id}/")


def of_roles(person):
    head = {"run": "ray start --head", "cpu": 1, "memory": "1GiB", "ends_job": "all"}
    return started(person, gpu=None, roles={"head": head, "actors": {"run": "ray start", "gpu": "1/4", "count": 2}})


def test_the_page_lists_tasks_by_role_and_rank_with_a_door_to_each(cast, look):
    job, _ = of_roles(cast.ada)
    page = look(cast.ada, f"/j/{job.public_id}/")
    labels = re.findall(r"Show the log.>([^<]*)</a>", page)
    assert labels == ["head.0", "actors.1", "actors.2"]
    assert f"/terminal/{job.public_id}.actors.2" in page
    assert "1 head with CPU only, 2 actors with ¼ GPU" in page
    assert "Running on n1, GPU 0." in page and "ray start --head" in page
    assert "The job ends when all of them have succeeded." in page


def test_who_stopped_the_rest_of_a_job_that_is_done_was_nobody(cast, look):
    job, _ = of_roles(cast.ada)
    make.move(next(task for task in job.newest_tasks if task.role == "head"), TaskState.SUCCEEDED, "completed")
    job = Job.objects.get(pk=job.pk)
    assert (job.state, job.stop_reason, job.stop_requested_by) == (JobState.STOPPING, "job_done", "")
    assert "The role that ends the job is done; the other tasks are being stopped." in look(
        cast.ada, f"/j/{job.public_id}/"
    )


def write_log(task, text):
    LogStore(conf.TESSERA_LOGS).append(task.uuid.hex, 0, text.encode())


def started(person, **spec):
    job = make.job(person, **{"gpu": "1/4", "pool": "dev", **spec})
    return job, make.start(job)


# ---- the list ----


def test_the_list_shows_mine_and_not_my_team_mates(cast, look):
    make.job(cast.ada, name="mine"), make.job(cast.bob, name="bobs")
    page = look(cast.ada, "/jobs/")
    assert "mine" in page and "bobs" not in page


def test_the_list_of_my_teams_shows_both(cast, look):
    make.job(cast.ada, name="mine"), make.job(cast.bob, name="bobs")
    page = look(cast.ada, "/jobs/?whose=team")
    assert "mine" in page and "bobs" in page


def test_a_stranger_finds_nothing_however_she_asks(cast, look):
    job = make.job(cast.ada, name="secret-run")
    for query in ("", "?whose=team", "?whose=team&q=secret", f"?whose=team&q={job.public_id}", "?whose=team&q=ada"):
        page = look(cast.eve, f"/jobs/{query}")
        assert "secret-run" not in page and f'href="/j/{job.public_id}/"' not in page


def test_an_admin_sees_everybodys(cast, look):
    make.job(cast.ada, name="hers")
    assert "hers" in look(make.admin(), "/jobs/?whose=team")


def test_a_state_filters(cast, look):
    make.job(cast.ada, name="one-waits")
    started(cast.ada, name="one-runs")
    page = look(cast.ada, "/jobs/?state=waiting")
    assert "one-waits" in page and "one-runs" not in page


@pytest.mark.parametrize(
    "query", ["%22%27%00", "page=x", "page=99999999999999999999", "whose=all", "label=%00", "q=99999999999999999999"]
)
def test_odd_filters_are_ignored(cast, get, query):
    assert get(cast.ada, f"/jobs/?{query}").status_code == 200
    assert get(cast.ada, f"/jobs/?q={query}").status_code == 200


def test_the_list_goes_on_where_the_page_ends(cast, look):
    jobs = [make.job(cast.ada) for _ in range(PAGE + 1)]
    first = look(cast.ada, "/jobs/")
    assert f'id="row-{jobs[0].public_id}"' not in first and 'href="?page=2"' in first
    assert f"1–{PAGE} of {PAGE + 1} jobs" in first
    for page in (2, 99):
        assert f'id="row-{jobs[0].public_id}"' in look(cast.ada, f"/jobs/?page={page}")


def test_states_pool_label_owner_and_text_narrow_the_list_together(cast, look):
    started(cast.ada, name="runs", labels={"exp": "a"})
    make.job(cast.ada, name="waits", gpu="1/4", pool="dev", labels={"exp": "a"})
    make.job(cast.ada, name="elsewhere", gpu="1", pool="train", labels={"exp": "b"})
    make.job(cast.bob, name="bobs", gpu="1/4", pool="dev", labels={"exp": "a", "seed": "3"})

    def names(query):
        page = look(cast.ada, f"/jobs/?{query}")
        return {name for name in ("runs", "waits", "elsewhere", "bobs") if f">{name}</a>" in page}

    assert names("state=waiting&state=active") == {"runs", "waits", "elsewhere"}
    assert names("state=waiting,failed") == {"waits", "elsewhere"}
    assert names("pool=dev") == {"runs", "waits"} and names("pool=train") == {"elsewhere"}
    assert names("label=exp:a&state=waiting") == {"waits"} and names("label=exp") == {"runs", "waits", "elsewhere"}
    assert names("owner=bob") == {"bobs"} and names("owner=BOB&label=exp:b") == set()
    assert names("whose=team&q=seed") == {"bobs"} and names("whose=team&q=exp:a") == {"runs", "waits", "bobs"}


def test_days_and_dates_narrow_the_list(cast, look):
    new, old = make.job(cast.ada, name="new"), make.job(cast.ada, name="old")
    day = timezone.localdate() - timedelta(days=10)
    Job.objects.filter(pk=old.pk).update(submitted_at=timezone.now() - timedelta(days=10))
    for query, shown in (
        ("days=today", [new]),
        ("days=7d", [new]),
        ("days=30d", [new, old]),
        (f"until={day}", [old]),
        (f"from={day + timedelta(days=1)}", [new]),
        (f"from={day}&until={day}", [old]),
    ):
        page = look(cast.ada, f"/jobs/?{query}")
        assert [job for job in (new, old) if f'id="row-{job.public_id}"' in page] == shown, query


def test_a_wrong_value_is_told_and_the_other_filters_hold(cast, look):
    make.job(cast.ada, name="one-waits")
    started(cast.ada, name="one-runs")
    page = look(cast.ada, "/jobs/?state=waiting&state=odd&pool=none&from=2026-13-01&sort=size&days=x")
    for name, got in (("State", "odd"), ("Pool", "none"), ("Submitted from", "2026-13-01"), ("Order", "size")):
        assert f"{name}: “{got}” is not possible, so it is left out." in page
    assert "one-waits" in page and "one-runs" not in page


def test_each_filter_is_a_chip_that_removes_it_alone(cast, look):
    make.job(cast.ada, gpu="1/4", pool="dev", labels={"exp": "a"})
    page = look(cast.ada, "/jobs/?state=waiting&pool=dev&label=exp:a&sort=name")
    for words, rest in (
        ("Waiting", "pool=dev&amp;label=exp%3Aa&amp;sort=name"),
        ("Pool: dev", "state=waiting&amp;label=exp%3Aa&amp;sort=name"),
        ("Label: exp:a", "state=waiting&amp;pool=dev&amp;sort=name"),
    ):
        assert f'<a class="chip" href="?{rest}">{words}' in page


@pytest.mark.parametrize(
    ("sort", "order"),
    [("", "cba"), ("submitted", "abc"), ("name", "cba"), ("-name", "abc"), ("-ran", "bac"), ("ended", "abc")],
)
def test_a_heading_sorts_and_what_has_no_value_is_last(cast, look, sort, order):
    jobs = {letter: make.job(cast.ada, name=name) for letter, name in (("a", "zoo"), ("b", "mid"), ("c", "art"))}
    now = timezone.now()
    for letter, ran, ended in (("a", 1, 9), ("b", 5, 2)):
        times = {"started_at": now - timedelta(hours=ended + ran), "ended_at": now - timedelta(hours=ended)}
        Job.objects.filter(pk=jobs[letter].pk).update(state=JobState.SUCCEEDED, **times)
    page = look(cast.ada, f"/jobs/?sort={sort}")
    assert "".join(sorted(jobs, key=lambda letter: page.index(f'id="row-{jobs[letter].public_id}"'))) == order
    assert 'aria-sort="' in page


# ---- several at once ----


def test_several_are_stopped_and_each_answer_is_told(cast, post, look):
    waits, runs = make.job(cast.ada), started(cast.ada)[0]
    ended = make.job(cast.ada)
    Job.objects.filter(pk=ended.pk).update(state=JobState.SUCCEEDED)
    hers = make.job(cast.eve, gpu="1/4", pool="dev")
    mates = make.job(make.user("mia", cast.nlp), gpu="1/4", pool="dev")
    ids = [job.public_id for job in (waits, runs, ended, hers, mates)]
    answer = post(cast.ada, "/jobs/act", do="stop", job=[*ids, "job-x"], next="/jobs/?whose=team")
    assert answer["Location"] == "/jobs/?whose=team"
    page = look(cast.ada, "/jobs/")
    assert "2 jobs are stopped." in page and "1 had ended or was asked to stop already." in page
    assert "1 job is left as it is: " in page
    assert Job.objects.get(pk=waits.pk).state == JobState.CANCELLED
    assert Job.objects.get(pk=runs.pk).stop_requested_by == "ada"
    assert all(Job.objects.get(pk=job.pk).stop_requested_at is None for job in (hers, mates, ended))


def test_several_are_retried_and_labelled(cast, post, look):
    jobs = [make.job(cast.ada, labels={"old": ""}) for _ in range(3)]
    ids = [job.public_id for job in jobs]
    post(cast.ada, "/jobs/act", do="stop", job=ids[:2])
    post(cast.ada, "/jobs/act", do="label", job=ids, set="exp: a\ngood", remove="old, none")
    assert [Job.objects.get(pk=job.pk).labels for job in jobs] == [{"exp": "a", "good": ""}] * 3
    post(cast.ada, "/jobs/act", do="retry", job=ids)
    page = look(cast.ada, "/jobs/")
    assert "3 jobs have their labels." in page and "2 jobs are queued again." in page
    assert "1 job is left as it is: " in page
    assert set(Job.objects.values_list("state", flat=True)) == {JobState.QUEUED}


@pytest.mark.parametrize("sent", [{}, {"do": "stop"}, {"do": "delete", "job": "job-1"}])
def test_nothing_chosen_is_told(cast, post, look, sent):
    post(cast.ada, "/jobs/act", **sent)
    assert "Choose one job or several" in look(cast.ada, "/jobs/")


def test_many_rows_take_no_more_queries_than_one(cast, client, django_assert_max_num_queries):
    for _ in range(20):
        make.job(cast.ada)
    client.force_login(cast.ada)
    with django_assert_max_num_queries(20):
        client.get("/jobs/")


def test_an_empty_list_teaches_a_whole_job(cast, look):
    page = look(cast.ada, "/jobs/")
    assert "run: python train.py\ngpu: 1/4" in page and 'href="/jobs/new"' in page


def test_a_filter_without_a_match_says_so(cast, look):
    assert "No matching jobs" in look(cast.ada, "/jobs/?state=failed")


def test_the_first_line_counts(cast, look):
    started(cast.ada)
    make.job(cast.ada)
    assert "1 running, 1 waiting." in look(cast.ada, "/jobs/")


def test_a_row_renders_alone(cast, look):
    job = make.job(cast.ada, name="alone")
    row = look(cast.ada, f"/j/{job.public_id}/", f"row-{job.public_id}").strip()
    assert row.startswith("<tr") and row.endswith("</tr>") and "alone" in row


def test_a_row_names_a_stop_by_its_effect(cast, look):
    job, _tasks = started(cast.ada, name="llama")
    page = look(cast.ada, "/jobs/")
    assert f"Stop {job.public_id}, llama?" in page and "Work that is not saved by then is lost." in page


def test_a_stop_says_how_old_the_last_checkpoint_is(cast, look):
    _, [task] = started(cast.ada, name="llama")
    now = timezone.now()
    Task.objects.filter(pk=task.pk).update(
        started_at=now - timedelta(hours=2), checkpointed_at=now - timedelta(hours=3)
    )
    assert "last checkpoint" not in look(cast.ada, "/jobs/")  # what an attempt before it has left
    Task.objects.filter(pk=task.pk).update(checkpointed_at=now - timedelta(minutes=42))
    assert re.search(r"Its last checkpoint was 42m(\ds)? ago\.", look(cast.ada, "/jobs/"))


# ---- one job ----


@pytest.mark.parametrize("tab", ["", "?tab=log", "?tab=events", "?tab=spec", "?tab=nonsense", "?task=x"])
def test_a_stranger_gets_404_on_every_tab(cast, get, tab):
    job, _tasks = started(cast.ada)
    assert get(cast.eve, f"/j/{job.public_id}/{tab}").status_code == 404
    assert get(cast.bob, f"/j/{job.public_id}/{tab}").status_code == 200


@pytest.mark.parametrize("name", ["job-0", "job-", "412", "nb-1", "job-9999999999999999999", "job-١"])
def test_what_names_no_job_is_not_found(cast, get, name):
    assert get(cast.ada, f"/j/{name}/").status_code == 404


def test_a_running_job_says_where_to_the_card(cast, look):
    job, _tasks = started(cast.ada)
    page = look(cast.ada, f"/j/{job.public_id}/")
    for words in ("Running on n1, GPU 0.", "¼ of V100-32GB · 8,127 MiB · 25 %", "GPU-n1-0", "127.0.0.1", "Simulated"):
        assert words in page


def test_an_instance_is_whole_and_its_card_is_not_ones_own(cast, look):
    job, (task, *_) = started(cast.ada, gpu="1", pool="train")
    assert "whole card, not shared" in look(cast.ada, f"/j/{job.public_id}/")
    card = task.cards[0] | {"uuid": "MIG-1", "model": "A100-40GB-1g.5gb", "simulated": False, "enforcement": "mig"}
    Task.objects.filter(pk=task.pk).update(cards=[card])
    page = look(cast.ada, f"/j/{job.public_id}/")
    assert "whole A100-40GB-1g.5gb" in page and "isolated by hardware (MIG)" in page and "not shared" not in page


def test_the_overview_follows_the_log(cast, look):
    job, [task] = started(cast.ada)
    assert f'<log-view class="log" data-task="{task.uuid}"' in look(cast.ada, f"/j/{job.public_id}/")


def test_a_job_and_those_that_wait_for_it_lead_to_each_other(cast, look):
    first = make.job(cast.ada, pool="dev", name="first")
    second = make.job(cast.ada, pool="dev", after={"first": "any"})
    link = '<a href="/j/{0}/">{0}</a>'.format
    page = look(cast.ada, f"/j/{second.public_id}/")
    assert "Starts after" in page and link(first.public_id) in page and "Queued; it must end" in page
    page = look(cast.ada, f"/j/{first.public_id}/")
    assert "Jobs that wait for it" in page and link(second.public_id) in page and "Starts after" not in page
    assert f"cancelled unless any end will do: {second.public_id}." in page


@pytest.mark.parametrize(
    ("said", "pool", "words"),
    [
        ({}, True, "May be stopped for other teams, as pool train says."),
        ({}, False, "Never stopped for others, as pool train says."),
        ({"preemptible": True}, False, "May be stopped for other teams, as asked."),
        ({"preemptible": False}, True, "Never stopped for others, as asked."),
    ],
)
def test_a_job_says_whether_it_may_be_stopped_and_who_says_so(cast, look, said, pool, words):
    Pool.objects.update(batch_is_preemptible=pool)
    job = make.job(cast.ada, gpu="1", pool="train", **said)
    assert words in look(cast.ada, f"/j/{job.public_id}/")


def test_a_job_of_several_pools_says_it_of_each_until_it_has_started(cast, look):
    Pool.objects.filter(name="dev").update(batch_is_preemptible=True)
    job = make.job(cast.ada, gpu="1")
    assert "in dev, not in train, as these pools say" in look(cast.ada, f"/j/{job.public_id}/")
    make.start(job)
    assert "Never stopped for others, as pool train says." in look(cast.ada, f"/j/{job.public_id}/")


def test_a_job_that_was_stopped_for_others_says_why_it_is_queued_again(cast, look):
    job, [task] = started(cast.ada)
    assert "stopped-for" not in look(cast.ada, f"/j/{job.public_id}/")
    for state in (TaskState.STOPPING, TaskState.STOPPED):
        make.move(task, state, "reclaimed")
    page = look(cast.ada, f"/j/{job.public_id}/")
    assert "took back what this team had borrowed. It is queued again, as attempt 2." in page


def test_a_waiting_job_says_every_reason_and_since_when(cast, look):
    job = make.job(cast.ada, gpu="1", pool="train")
    reasons = [{"code": "start_after", "params": {}}, {"code": "held", "params": {"who": "bob"}}]
    Job.objects.filter(pk=job.pk).update(wait_reasons=reasons, wait_position=3, wait_of=11, explained_at=timezone.now())
    page = look(cast.ada, f"/j/{job.public_id}/")
    assert "Queue position 3 of 11 in pool train." in page and "Held by bob" in page and "<log-view" not in page


def test_what_follows_from_the_first_reason_is_folded_away_and_codes_are_the_api_s(cast, look):
    job = make.job(cast.ada, gpu="1", pool="train", nodes=3)
    short = {"resource": "gpus", "free": 0, "ask": 1, "best_node": "", "best": 0, "tasks": 3}
    reasons = [
        {"code": "gang_incomplete", "params": {"have": 0, "need": 3}},
        {"code": "no_fit_now", "params": short},
    ]
    Job.objects.filter(pk=job.pk).update(wait_reasons=reasons, wait_position=1, wait_of=1)
    page = look(cast.ada, f"/j/{job.public_id}/")
    shown, _, folded = page.partition('<details class="fold" id="further-reasons">')
    assert "Not all 3 tasks fit now; all of them must start together" in shown
    assert "For one of its tasks: not enough whole GPUs" in folded and "not enough whole GPUs" not in shown
    for path in (f"/j/{job.public_id}/", "/jobs/", "/", "/queue/"):
        assert "no_fit_now" not in (text := look(cast.ada, path)) and "not all 3 tasks fit now" in text.lower()


def test_an_elastic_job_says_what_it_may_have_and_then_what_it_has(cast, look):
    job = make.job(cast.ada, nodes="1..3", gpu=0, cpu=1, memory="1GB", pool="dev")
    assert "1 to 3 nodes with CPU only" in look(cast.ada, f"/j/{job.public_id}/")
    two = tuple(TaskStart(rank, cast.node.pk, (), 1_000, 954, role="main") for rank in range(2))
    start_jobs([StartJob(job.pk, two)], Lease.objects.get(name="cycle").epoch)
    assert "2 nodes with CPU only" in look(cast.ada, f"/j/{job.public_id}/")
    assert [task.role for task in job.newest_tasks] == ["main", "main"]


def test_a_job_that_nobody_explained_is_a_fault_and_said_to_be(cast, look):
    job = make.job(cast.ada)
    assert "fault of the platform" not in look(cast.ada, f"/j/{job.public_id}/")
    Job.objects.filter(pk=job.pk).update(queued_at=timezone.now() - timedelta(seconds=30))
    assert "fault of the platform" in look(cast.ada, f"/j/{job.public_id}/")


def test_no_output_yet_says_since_when_it_runs(cast, look):
    job, [task] = started(cast.ada)
    assert "No output yet; the program started" in look(cast.ada, f"/j/{job.public_id}/?tab=log")
    write_log(task, "hello\n")
    assert "No output yet; the program started" not in look(cast.ada, f"/j/{job.public_id}/?tab=log")


def test_a_log_can_be_downloaded_from_the_start(cast, look):
    job, [task] = started(cast.ada)
    assert f'href="/j/{job.public_id}/log/{task.uuid}" download' in look(cast.ada, f"/j/{job.public_id}/")


def test_a_job_that_wrote_nothing_says_so(cast, look):
    job, _tasks = started(cast.ada)
    make.end(job)
    assert "It ended without any output." in look(cast.ada, f"/j/{job.public_id}/")


def test_a_job_that_never_ran_has_no_log(cast, look, post):
    job = make.job(cast.ada)
    post(cast.ada, f"/j/{job.public_id}/stop")
    page = look(cast.ada, f"/j/{job.public_id}/?tab=log")
    assert "Never started" in page and "<log-view" not in page


def test_a_gang_lets_one_choose_whose_log(cast, look):
    job, tasks = started(cast.ada, gpu="1/8", nodes=2)
    page = look(cast.ada, f"/j/{job.public_id}/?tab=log&task={tasks[1].uuid}")
    assert f'data-task="{tasks[1].uuid}"' in page and "main.0" in page and "main.1" in page


def test_the_task_of_another_job_is_not_shown(cast, look):
    job, [mine] = started(cast.ada)
    _other, [hers] = started(cast.eve, gpu="1/8")
    page = look(cast.ada, f"/j/{job.public_id}/?tab=log&task={hers.uuid}")
    assert f'data-task="{mine.uuid}"' in page and f'data-task="{hers.uuid}"' not in page


def test_after_a_retry_both_attempts_are_there(cast, look, post):
    job, [first] = started(cast.ada, retry=0)
    make.end(job, TaskState.FAILED, "exit_nonzero", 1)
    post(cast.ada, f"/j/{job.public_id}/retry")
    page = look(cast.ada, f"/j/{job.public_id}/")
    assert "Earlier attempts" in page and f'id="task-{first.uuid}"' in page and "Waiting in pool dev." in page


def test_the_events_name_actor_and_reason(cast, look, post):
    job, _tasks = started(cast.ada)
    post(cast.bob, f"/j/{job.public_id}/stop")
    page = look(cast.ada, f"/j/{job.public_id}/?tab=events")
    assert "Task main was placed on n1 (GPU 0)" in page and "Stop requested</b>" in page and "by bob" in page


def test_the_spec_is_the_job_file(cast, look):
    job = make.job(cast.ada, name="hello", gpu="1/4", run="echo '<b>'")
    page = look(cast.ada, f"/j/{job.public_id}/?tab=spec")
    assert "gpu: 1/4" in page and "echo &#x27;&lt;b&gt;&#x27;" in page


def test_script_in_name_and_command_stays_text(cast, look):
    job = make.job(cast.ada, name="<img src=x onerror=alert(1)>", run="echo '<script>alert(1)</script>'")
    for tab in ("", "?tab=spec", "?tab=log", "?tab=events"):
        page = look(cast.ada, f"/j/{job.public_id}/{tab}")
        assert "<img src=x" not in page and "<script>alert" not in page


@pytest.mark.parametrize("target", ["job", "row"])
def test_each_shape_of_a_job_renders_alone_in_every_state(cast, look, target):
    job, tasks = started(cast.ada)
    shown = target if target == "job" else f"{target}-{job.public_id}"
    for state in (TaskState.RUNNING, TaskState.LOST, TaskState.STOPPING, TaskState.STOPPED):
        make.move(tasks[0], state)
        page = look(cast.ada, f"/j/{job.public_id}/", shown)
        assert f'id="{shown}"' in page and "<html" not in page


# ---- what may be done ----


@pytest.mark.parametrize("verb", POSTS)
def test_a_stranger_may_do_nothing(cast, post, verb):
    job = make.job(cast.ada)
    assert post(cast.eve, f"/j/{job.public_id}/{verb}").status_code == 404
    assert Job.objects.get(pk=job.pk).state == JobState.QUEUED


@pytest.mark.parametrize("verb", POSTS)
def test_a_member_may_not_touch_a_team_mates_job(cast, post, verb):
    job = make.job(cast.bob)
    assert post(cast.ada, f"/j/{job.public_id}/{verb}").status_code == 403


@pytest.mark.parametrize("verb", POSTS)
def test_nothing_changes_by_get(cast, get, verb):
    job = make.job(cast.ada)
    assert get(cast.ada, f"/j/{job.public_id}/{verb}").status_code == 405


def test_nothing_changes_without_the_token_of_the_form(cast, client):
    job = make.job(cast.ada)
    client.force_login(cast.ada)
    client.handler.enforce_csrf_checks = True
    answer = client.post(f"/j/{job.public_id}/stop", headers={"Origin": conf.TESSERA_PUBLIC_URL})
    assert answer.status_code == 403 and Job.objects.get(pk=job.pk).stop_requested_at is None


def test_a_lead_stops_a_job_of_the_team(cast, post, look):
    job = make.job(cast.ada)
    assert post(cast.bob, f"/j/{job.public_id}/stop")["Location"] == f"/j/{job.public_id}/"
    assert "Stopped by bob." in look(cast.ada, f"/j/{job.public_id}/")


def test_after_an_action_one_is_back_where_one_was(cast, post):
    job = make.job(cast.ada)
    assert post(cast.ada, f"/j/{job.public_id}/hold", next="/jobs/?state=waiting")["Location"] == "/jobs/?state=waiting"
    assert post(cast.ada, f"/j/{job.public_id}/release", next="//evil.example")["Location"] == "/"


def test_hold_and_release(cast, post, look):
    job = make.job(cast.ada)
    post(cast.ada, f"/j/{job.public_id}/hold")
    assert "Held by ada: the job keeps its place" in look(cast.ada, f"/j/{job.public_id}/")
    post(cast.ada, f"/j/{job.public_id}/release")
    assert Job.objects.get(pk=job.pk).held_at is None


# ---- the log as a file ----


@pytest.fixture
def download(async_client):
    async def download(person, job, task):
        await async_client.aforce_login(person)
        answer = await async_client.get(f"/j/{job.public_id}/log/{task.uuid}")
        body = b"".join([piece async for piece in answer]) if answer.streaming else b""
        await sync_to_async(connections.close_all)()  # the views' thread keeps its connection otherwise
        return answer, body

    return download


def test_the_engines_own_words_for_an_end_stand_beside_what_to_do(cast, look):
    job, [task] = started(cast.ada)
    make.move(task, TaskState.FAILED, "image_pull", detail="unexpected status: 401 Unauthorized")
    head = look(cast.ada, f"/j/{job.public_id}/").partition('<nav class="tabs"')[0]
    assert "the image may be private" in head and "unexpected status: 401 Unauthorized" in head


@pytest.fixture
def logged(cast):
    job, [task] = started(cast.ada)
    write_log(task, "\x1b[31mred\x1b[0m <b>\n" * 40_000)
    return cast, job, task


@pytest.mark.django_db(transaction=True)
async def test_a_log_is_downloaded_whole_and_never_shown(logged, download):
    cast, job, task = logged
    answer, body = await download(cast.bob, job, task)
    assert body == b"\x1b[31mred\x1b[0m <b>\n" * 40_000
    assert answer["Content-Disposition"] == f'attachment; filename="{job.public_id}-main-0-attempt-1.log"'
    assert answer["Content-Type"].startswith("text/plain") and answer["X-Content-Type-Options"] == "nosniff"


@pytest.mark.django_db(transaction=True)
async def test_a_stranger_does_not_get_the_log(logged, download):
    cast, job, task = logged
    answer, _body = await download(cast.eve, job, task)
    assert answer.status_code == 404


def test_a_log_is_only_under_its_own_job(cast, get):
    job, _tasks = started(cast.ada)
    _other, [task] = started(cast.ada, gpu="1/8")
    assert get(cast.ada, f"/j/{job.public_id}/log/{task.uuid}").status_code == 404


def test_its_code_in_git_is_told_with_the_commit(cast, look):
    job = make.job(cast.ada, run=None, roles={"eval": {"run": "true"}, "train": {"run": "true"}})
    code = f"git+https://git.example/train@main:{'4b' * 20}"
    job.spec["code"], job.spec["roles"]["eval"]["code"] = code, f"git+https://git.example/eval@{'5c' * 20}"
    job.save()
    page = look(cast.ada, f"/j/{job.public_id}/")
    assert 'https://git.example/train <span class="muted">main, 4b4b4b4b4b4b</span>' in page
    assert "Code of eval" in page and "5c" * 20 in page
