"""Submitting by form and by YAML, the two in step, and what is refused comes back as it was typed."""

import io
import json
import re
import tarfile

import pytest
from django.conf import settings as conf
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from cluster.models import Pool
from jobs.code.upload import keep_code, pack_one_file
from jobs.jobfile.load import load_jobfile
from jobs.jobfile.parse import parse_spec
from jobs.models import CodePack, Job
from portal.pages.jobs.form import FIELDS, data_of, values_of
from quotas.models import UserLimit
from scheduler.models import Lease
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(settings, tmp_path):
    settings.TESSERA_CODE = tmp_path
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    return make.cast()


@pytest.fixture
def post(client):
    def post(person, path="/jobs/new", **data):
        client.force_login(person)
        return client.post(path, data, headers={"Origin": conf.TESSERA_PUBLIC_URL})

    return post


@pytest.fixture
def sync(post):
    def sync(person, **data):
        return json.loads(post(person, "/jobs/new/sync", **data).content)

    return sync


@pytest.fixture
def page(client):
    def page(person, query=""):
        client.force_login(person)
        return client.get(f"/jobs/new{query}")

    return page


def by_yaml(text):
    return {"touched": "", "yaml": text}


def by_form(yaml="", **values):
    """What was changed in the form, over the file `yaml`."""
    touched = ",".join(values).replace("gpu_text", "gpu")
    return {"touched": touched, "yaml": yaml, "nodes": "1", "priority": "normal", "gpu": "0", **values}


ROLES = """\
roles:
  head: {run: ray start --head, cpu: 1, memory: 1GiB, ends_job: all}
  worker: {run: ray start, gpu: 1/4, count: 2..3}
"""


def test_a_job_of_roles_is_submitted_by_its_file(cast, post, sync, page):
    told = sync(cast.ada, **by_yaml(ROLES))["preview"]
    assert told[
        "words"
    ] == "Starts now, likely with head on n1, worker on n1 (¼ of GPU 0), worker on n1 (¼ of GPU 0), worker on n1 " + (
        "(¼ of GPU 0)"
    )
    assert "Roles, set in the YAML: 1 head with CPU only, 2 to 3 worker with ¼ GPU." in told["more"]
    post(cast.ada, **by_yaml(ROLES))
    job = Job.objects.get()
    assert [(role["role"], role["min"], role["max"], role.get("ends_job")) for role in job.gang] == [
        ("head", 1, 1, "all"), ("worker", 2, 3, None),
    ]  # fmt: skip
    copy = load_jobfile(page(cast.ada, f"?from={job.public_id}").context["edited"].text.encode())
    assert copy["roles"] == job.spec["roles"] | copy["roles"] and copy["roles"]["worker"]["count"] == "2..3"


def test_what_the_form_says_beside_roles_is_marked_in_it(cast, sync):
    told = sync(cast.ada, **by_form(ROLES, run="python train.py"))
    assert "“run” is set by each role" in told["errors"]["run"]


def test_what_is_wrong_in_a_role_is_told_on_its_line(cast, sync):
    told = sync(cast.ada, **by_yaml(ROLES + "  ps: {run: a, gpu: 5/4}\n"))
    assert [line["line"] for line in told["lines"]] == [4] and "5/4" in told["lines"][0]["words"]


# ---- submit ----


def test_a_job_is_submitted_by_form_and_one_lands_on_its_page(cast, post):
    answer = post(cast.ada, **by_form(run="python train.py", gpu="1/4", env="A=1\nB=x=y", max_time="2h"))
    job = Job.objects.get()
    assert answer["Location"] == f"/j/{job.public_id}/" and job.pool.name == "dev" and job.max_time_s == 7200
    assert job.spec["gpu"] == "1/4" and job.spec["env"] == {"A": "1", "B": "x=y"}


def test_a_job_is_submitted_by_yaml_whatever_the_form_says(cast, post):
    post(cast.ada, **{**by_form(run="from the form"), **by_yaml("run: from the file\nlabels: {a: b}\n")})
    job = Job.objects.get()
    assert job.spec["run"] == "from the file" and job.labels == {"a": "b"}


def test_what_only_the_file_can_say_survives_the_form(cast, post):
    post(
        cast.ada,
        **by_form(yaml="run: x\nlabels: {a: b}\nretry: {times: 1, when: [exit_nonzero]}\n", run="y", retry="2"),
    )
    spec = Job.objects.get().spec
    assert (
        spec["run"] == "y" and spec["labels"] == {"a": "b"} and spec["retry"] == {"times": 2, "when": ["exit_nonzero"]}
    )


def test_another_amount_of_gpu_is_typed(cast, post):
    post(cast.ada, **by_form(run="x", gpu="other", gpu_text=" V100/2 "))
    assert Job.objects.get().spec["gpu"] == "V100/2"


def test_what_is_refused_comes_back_as_it_was_typed(cast, post):
    answer = post(cast.ada, **by_form(run="echo '<b>'", cpu="many", name="keep me"))
    page = answer.content.decode()
    assert answer.status_code == 400 and not Job.objects.exists()
    assert (
        'value="many"' in page
        and 'value="keep me"' in page
        and "&lt;b&gt;" in page
        and "is not a valid number of cores" in page
    )


def test_the_impossible_names_the_field_and_keeps_the_input(cast, post):
    answer = post(cast.ada, **by_yaml("run: x\ngpu: 9\n"))
    page = answer.content.decode()
    assert answer.status_code == 422 and "has 9 such GPUs" in page and "gpu: 9" in page and not Job.objects.exists()


def test_a_limit_of_counts_is_a_conflict_in_words(cast, post):
    UserLimit.objects.create(user=cast.ada, jobs_waiting=0)
    answer = post(cast.ada, **by_form(run="x"))
    assert answer.status_code == 409 and answer.content.decode().count("Your limit of waiting jobs is 0") == 1


def test_at_the_limit_of_waiting_jobs_the_form_says_so_before_the_click_with_what_holds_it(cast, page, sync):
    waiting = make.job(cast.ada, name="sweep", gpu="1/4", pool="dev")
    make.limit(cast.ada, jobs_waiting=1)
    text = page(cast.ada).content.decode()
    said = f"You are at your limit of waiting jobs, 1 of 1: sweep ({waiting.public_id})."
    assert said in text and f'action="/j/{waiting.public_id}/stop"' in text
    assert said in sync(cast.ada, **by_yaml("run: x\n"))["preview"]["words"]


def test_a_strangers_team_is_unknown(cast, post):
    answer = post(cast.eve, **by_yaml("run: x\nteam: nlp\n"))
    assert answer.status_code == 400 and not Job.objects.exists()


def test_a_viewer_may_not_submit(cast, post):
    viewer = make.user("vic", cast.nlp, role="viewer")
    assert post(viewer, **by_form(run="x")).status_code == 403


def test_a_visitor_is_sent_to_sign_in(client):
    assert client.get("/jobs/new").status_code == 302


# ---- the two panes ----


def test_the_form_writes_the_file(cast, sync):
    answer = sync(cast.ada, **by_form(run="python train.py", gpu="1/2", name="llama"))
    assert answer["yaml"] == "name: llama\nrun: python train.py\ngpu: 1/2\n" and answer["errors"] == {}


def test_the_file_fills_the_form(cast, sync):
    answer = sync(cast.ada, **by_yaml("run: x\ngpu: V100:1\nnodes: 2\nenv: {A: b}\nhold: true\n"))
    values = answer["values"]
    assert (values["gpu"], values["nodes"], values["env"], values["hold"]) == ("V100:1", "2", "A=b", "on")


def test_an_error_is_bound_to_its_field_and_line(cast, sync):
    answer = sync(cast.ada, **by_yaml("run: x\nenv:\n  PATH: y\n  1A: z\nmemory: 16\n"))
    assert "has no unit" in answer["errors"]["memory"] and "variable name" in answer["errors"]["env"]
    assert [one["line"] for one in answer["lines"]] == [4, 5]


def test_an_error_of_the_form_is_bound_to_the_line_it_was_written_to(cast, sync):
    answer = sync(cast.ada, **by_form(run="x", cpu="many"))
    assert answer["yaml"].splitlines()[answer["lines"][0]["line"] - 1] == "cpu: many"


def test_a_file_that_cannot_be_read_is_left_alone(cast, sync):
    answer = sync(cast.ada, **by_form(yaml="run: [", run="new"))
    assert answer["yaml"] is None and answer["lines"]
    assert sync(cast.ada, **by_yaml("run: ["))["values"] is None


def test_a_nul_in_the_form_is_refused_like_one_in_a_file(cast, sync):
    assert "cannot be shown" in sync(cast.ada, **by_form(run="a\0b"))["errors"]["run"]


def test_a_syncing_pane_stores_nothing(cast, sync):
    sync(cast.ada, **by_form(run="x"))
    assert not Job.objects.exists() and not CodePack.objects.exists()


REST = """\
run: x
checkpoint: {dir: ckpt, signal: SIGUSR1}
notify: {when: success, to: [bob]}
retry: {times: 1, when: [node_lost]}
"""
CORPUS = [
    "run: x\n",
    "run: |-\n  a\n  b: c\n",
    "name: '007'\nrun: x\nenv: {LR: 1e-4, NO: no, EMPTY: '', 'MULTI': \"a\\nb\"}\n",
    "run: x\nretry: {times: 2, when: [node_lost]}\nlabels: {a: b}\npreemptible: true\nhold: true\n",
    "run: x\npreemptible: false\n",
    "run: x\npreemptible: perhaps\n",
    "run: x\ngpu: [1, {a: b}]\nnodes: many\nenv: 3\n",
    "roles: {worker: {run: x, gpu: 1/4, count: 2}}\n",
    "run: x\ndata: {in/a: 'team:c:ro', out: 'home:r'}\nports: [8080, 8081]\ntensorboard: runs\ntoken: [jobs:read]\n",
    "run: x\ncheckpoint: {dir: ckpt, signal: SIGUSR1}\nnotify: {when: [start, failure], to: [bob]}\nports: 8080\n",
    "run: x\ncheckpoint: ckpt\nnotify: failure\nlabels: {exp: a, empty: ''}\ndata: [a]\n",
]


@pytest.mark.parametrize("text", CORPUS)
def test_a_form_that_nobody_touched_changes_nothing(text):
    data = load_jobfile(text.encode())
    assert data_of(values_of(data), data) == data


@pytest.mark.parametrize("text", CORPUS)
def test_a_touched_form_changes_that_field_only(cast, sync, text):
    data = load_jobfile(text.encode())
    answer = sync(cast.ada, **by_form(yaml=text, **{**_posted(data), "workdir": "src"}))
    assert load_jobfile(answer["yaml"].encode()) == {**data, "workdir": "src"}


def _posted(data):
    values = values_of(data)
    return {**{name: values[name] for name in FIELDS}, "gpu": "other", "gpu_text": values["gpu"]}


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ({"ports": "8080, 8081"}, {"ports": [8080, 8081]}),
        ({"ports": "8080"}, {"ports": [8080]}),
        ({"data": "in/a = team:c:ro\n\nout=home:r"}, {"data": {"in/a": "team:c:ro", "out": "home:r"}}),
        ({"labels": "exp=a"}, {"labels": {"exp": "a"}}),
        ({"checkpoint": "~/new"}, {"checkpoint": {"dir": "~/new", "signal": "SIGUSR1"}}),
        ({"checkpoint": ""}, {}),
        ({"notify": "start, failure"}, {"notify": {"when": ["start", "failure"], "to": ["bob"]}}),
        ({"token": "jobs:read"}, {"token": "jobs:read"}),
        ({"retry": "2"}, {"retry": {"times": 2, "when": ["node_lost"]}}),
    ],
)
def test_what_a_field_shows_of_a_key_is_changed_and_the_rest_of_it_stays(typed, written):
    base = load_jobfile(REST.encode())
    changed = data_of(typed, base)
    (name,) = typed
    assert changed.get(name) == written.get(name) and {**changed, name: None} == {**base, name: None}
    if name in changed:
        parse_spec(changed)


def test_a_pattern_writes_the_roles_and_goes_back(cast, sync):
    text = "run: python train.py\ngpu: 1/4\nnodes: 2\n"
    ray = sync(cast.ada, **by_form(yaml=text, start=text, run="python train.py", gpu="1/4", nodes="2", pattern="ray"))
    assert ray["errors"] == {} and ray["values"]["pattern"] == "ray"
    assert load_jobfile(ray["yaml"].encode())["main"] == {"role": "head", "run": "python train.py"}
    back = sync(cast.ada, **by_form(yaml=ray["yaml"], start=ray["yaml"], pattern=""))
    assert load_jobfile(back["yaml"].encode()) == {"run": "python train.py", "gpu": "1/4"}


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("prepare", "prepare"), (["a", "job-3"], "a, job-3"), ({"a": "success", "job-3": "any"}, "a, job-3: any"),
    ],
)  # fmt: skip
def test_the_form_shows_the_jobs_before_as_it_reads_them(said, shown):
    assert values_of({"after": said})["after"] == shown
    after = {"a": "success", "job-3": "any"}
    assert (
        parse_spec({"run": "x", "after": "a, job-3: any"}).after
        == after
        == parse_spec({"run": "x", "after": after}).after
    )


# ---- the preview ----


def test_the_preview_says_where_it_starts_now(cast, sync):
    preview = sync(cast.ada, **by_form(run="x", gpu="1/4"))["preview"]
    assert (preview["tone"], preview["words"]) == ("done", "Starts now, likely on n1 (¼ of GPU 0)")
    assert preview["more"] == [
        "Never stopped for others, as pool dev says. It uses no cards that are guaranteed to other teams. With "
        "`preemptible: true` it would start no sooner.",
        "GPUs free in this pool: 1 of 1, whole cards: 1. Jobs waiting: 0.",
    ]
    assert not preview["later"]


@pytest.fixture
def midday(settings):
    """A time zone in which it is noon: what begins within hours begins today."""
    settings.TIME_ZONE = f"Etc/GMT{timezone.now().hour - 12:+d}"  # of these names east is minus


def test_of_what_waits_the_preview_says_why_at_once_and_when_a_moment_later(midday, cast, sync):
    make.start(make.job(cast.eve, gpu="1", pool="train", time="1h"))
    asked = by_form(run="x", gpu="1", pool="train")
    at_once, later = (sync(cast.ada, **asked, **ahead)["preview"] for ahead in ({}, {"ahead": "1"}))
    assert (at_once["tone"], at_once["words"], at_once["later"]) == ("wait", "Waiting: #1 of 1 in train", True)
    assert "1 needed" in at_once["more"][0] and at_once["fixes"] == []
    assert (
        re.fullmatch(r"Waiting: #1 of 1 in train, \d\d:\d\d.* to .*, likely .*", later["words"]) and not later["later"]
    )
    assert later["fixes"] == [{"field": "pool", "value": "dev", "words": "Pool dev instead of train: now"}]


def test_a_choice_that_would_help_is_made_by_its_button(cast, sync):
    cast.train.quotas.filter(team=cast.vision).update(gpu_milli_guarantee=1000)
    fixes = sync(cast.ada, **by_form(run="x", gpu="1", pool="train"), ahead="1")["preview"]["fixes"]
    assert ("preemptible", "true") in [(fix["field"], fix["value"]) for fix in fixes]


@pytest.mark.parametrize(("chosen", "written"), [("", None), ("true", True), ("false", False)])
def test_the_form_has_a_choice_of_three_between_the_pool_and_oneself(cast, post, chosen, written):
    post(cast.ada, **by_form(run="x", gpu="1", pool="train", preemptible=chosen))
    job = Job.objects.get()
    assert (job.spec["preemptible"], job.preemptible) == (written, bool(written))


def test_a_choice_is_taken_back_by_the_form(cast, sync):
    told = sync(cast.ada, **by_form("run: x\npreemptible: false\n", preemptible=""))
    assert "preemptible" not in told["yaml"] and told["values"]["preemptible"] == ""
    assert sync(cast.ada, **by_yaml("run: x\npreemptible: false\n"))["values"]["preemptible"] == "false"


def test_the_preview_says_which_it_is_and_what_the_other_choice_would_mean(cast, sync):
    cast.train.quotas.filter(team=cast.vision).update(gpu_milli_guarantee=1000)
    Pool.objects.filter(pk=cast.train.pk).update(batch_is_preemptible=True)
    borrows = sync(cast.ada, **by_form(run="x", gpu="1", pool="train"))["preview"]
    assert borrows["words"].startswith("Starts now") and borrows["later"]
    assert borrows["more"][0] == (
        "May be stopped for other teams, as pool train says. It uses cards that other teams leave idle. When "
        "these need them it is asked to leave, and queued again, from the beginning unless it loads a checkpoint. With "
        "`preemptible: false` it could not borrow, and would wait."
    )
    stays = sync(cast.ada, **by_form("checkpoint: ckpt\n", run="x", gpu="1", pool="train", preemptible="false"))
    assert stays["preview"]["more"][1] == (
        "Never stopped for others, as asked. It uses no cards that are guaranteed to other teams. With "
        "`preemptible: true` it would start now, on cards that another team may take back."
    )
    keeps = sync(cast.ada, **by_form("checkpoint: ckpt\n", run="x", gpu="1", preemptible="true"))["preview"]
    assert "queued again, from its last checkpoint." in keeps["more"][0]
    mixed = sync(cast.ada, **by_form(run="x", gpu="1"))["preview"]["more"][0]
    assert mixed.startswith("May be stopped for other teams in train, not in dev, as these pools say.")


def test_code_that_stands_here_is_refused_before_it_is_planned(cast, sync):
    assert sync(cast.ada, **by_yaml("run: x\ncode: .\n"))["preview"]["tone"] == "plain"


def test_the_preview_gives_the_pools_share_as_what_is_usual(cast, sync):
    usual = sync(cast.ada, **by_form(run="x", gpu="1/2"))["usual"]
    assert usual["cpu"] == "4" and usual["memory"] == "15.5 GB"


def test_the_impossible_offers_one_click(cast, sync):
    preview = sync(cast.ada, **by_form(run="x", gpu="other", gpu_text="9"))["preview"]
    assert preview["tone"] == "fault" and preview["fixes"] == [{"field": "gpu", "value": "1", "words": "Set gpu to 1"}]


def test_a_stranger_learns_nothing_of_the_team(cast, sync):
    answer = sync(cast.eve, **by_yaml("run: x\nteam: nlp\n"))
    assert "known" not in answer["preview"] and answer["errors"]["team"]


# ---- where it begins ----


def test_the_example_is_a_job_that_can_be_submitted(cast, page, post):
    assert "name: hello" in page(cast.ada, "?from=example").content.decode()


def test_a_clone_begins_with_what_the_job_said(cast, page):
    job = make.job(cast.bob, name="sweep", run="echo '<i>'", gpu="1/4", hold=True)
    text = page(cast.ada, f"?from={job.public_id}").content.decode()
    assert "name: sweep" in text and "gpu: 1/4" in text and "&lt;i&gt;" in text and "hold: true" not in text


def test_a_copy_with_a_change_has_it_in_both_panes_and_says_so(cast, page):
    job = make.job(cast.ada, name="sweep", gpu="1", pool="train")
    text = page(cast.ada, f"?from={job.public_id}&pool=dev&preemptible=true&run=other").content.decode()
    assert "name: sweep" in text and "pool: dev" in text and "preemptible: true" in text and "run: other" not in text
    assert f"This is a copy of {job.public_id} with one change." in text
    assert "with one change" not in page(cast.ada, f"?from={job.public_id}").content.decode()


def test_a_strangers_job_cannot_be_cloned(cast, page):
    job = make.job(cast.ada)
    assert page(cast.eve, f"?from={job.public_id}").status_code == 404


def test_a_clone_leaves_out_code_that_another_uploaded(cast, page):
    digest = keep_code(user=cast.bob, pieces=[pack_one_file("a.py", b"print()")]).digest
    job = make.job(cast.bob, code=digest)
    assert digest in page(cast.bob, f"?from={job.public_id}").content.decode()
    assert digest not in page(cast.ada, f"?from={job.public_id}").content.decode()


# ---- code ----


def tar_gz(**files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_one_python_file_is_packed(cast, post):
    post(cast.ada, **by_form(run="python train.py", upload=SimpleUploadedFile("train.py", b"print(1)\n")))
    digest = Job.objects.get().spec["code"]
    [pack] = CodePack.objects.filter(user=cast.ada, digest=digest)
    with tarfile.open(conf.TESSERA_CODE / f"{digest[7:]}.tar.gz") as tar:
        assert pack.files == 1 and tar.extractfile("train.py").read() == b"print(1)\n"


def test_a_directory_is_uploaded_as_the_command_line_packs_it(cast, post):
    upload = SimpleUploadedFile("code.tar.gz", tar_gz(a=b"1", b=b"2"))
    post(cast.ada, **by_yaml("run: x\n"), upload=upload)
    assert CodePack.objects.get().files == 2 and Job.objects.get().spec["code"] == CodePack.objects.get().digest


def test_a_broken_upload_is_refused_at_its_field(cast, post):
    answer = post(cast.ada, **by_form(run="x", upload=SimpleUploadedFile("code.tar.gz", b"no archive")))
    assert answer.status_code == 400 and "damaged or not a tar.gz" in answer.content.decode()


def test_code_that_was_kept_need_not_be_uploaded_again(cast, post):
    answer = post(cast.ada, **by_form(run="", upload=SimpleUploadedFile("train.py", b"print(1)\n")))
    digest = CodePack.objects.get().digest
    assert answer.status_code == 400 and f'name="code" value="{digest}"' in answer.content.decode()
    post(cast.ada, **by_form(yaml=f'run: x\ncode: "{digest}"\n', run="y", code=digest))
    assert Job.objects.get().spec["code"] == digest


def test_a_chosen_file_counts_before_it_is_uploaded(cast, sync):
    assert sync(cast.ada, **by_form(run="x", code_chosen="1"))["preview"]["tone"] == "done"
    assert sync(cast.ada, **by_form(run="x", code="."))["errors"]["code"]


def test_what_is_typed_before_the_script_is_up_is_what_runs(post, cast):
    """On a slow network the form is filled and sent before anybody noted what was touched."""
    start = "run: python train.py\r\ngpu: 1/4\r\n"
    typed = by_form(start, run="echo mine", gpu="1/4") | {"start": start}
    del typed["touched"]
    post(cast.ada, **typed)
    post(cast.ada, **typed | {"yaml": "run: echo file\ngpu: 1/4"})
    assert [job.spec["run"] for job in Job.objects.order_by("pk")] == ["echo mine", "echo file"]


def test_a_form_that_is_older_than_the_file_does_not_win_it_back(cast, sync):
    """The file was typed a moment ago and the form has not followed yet; now another field is touched."""
    answer = sync(cast.ada, yaml="run: new\ngpu: 1/2\n", touched="name", run="old", gpu="1/4", name="mine")
    assert answer["yaml"] == "name: mine\nrun: new\ngpu: 1/2\n" and answer["values"]["run"] == "new"


def test_a_file_that_says_it_already_keeps_its_comments(cast, sync):
    text = "# my job\nrun: x   # fast\n"
    assert sync(cast.ada, yaml=text, touched="run", run="x")["yaml"] == text
