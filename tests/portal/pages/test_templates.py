"""Pages of templates: the form that parameters make, what it submits, and how a template is written."""

from html import unescape

import pytest
from django.conf import settings as conf
from django.utils import timezone

from job_templates.models import JobTemplate
from job_templates.services import archive_template, create_template
from jobs.code.upload import keep_code, pack_one_file
from jobs.copying.differences import compare_files
from jobs.models import Job, JobKind
from scheduler.models import Lease
from services.models import Service
from tests import make

pytestmark = pytest.mark.django_db

TEXT = """\
template:
  name: finetune
  description: Finetunes a model.
  parameters:
    lr: {type: number, default: 3e-4, least: 0, most: 1, help: The learning rate.}
    epochs: {type: integer}
    size: {type: choice, choices: [small, large]}
    mixed: {type: boolean, default: true}
name: finetune ${{ size }}
gpu: 1/4
env:
  MIXED: ${{ mixed }}
run: python train.py --lr ${{ lr }} --epochs ${{ epochs }} --size ${{ size }}
"""


@pytest.fixture
def cast(settings, tmp_path):
    settings.TESSERA_CODE = tmp_path
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    return make.cast()


@pytest.fixture
def template(cast):
    return create_template(actor=cast.ada, team=cast.nlp, text=TEXT)


@pytest.fixture
def get(client):
    def get(person, path):
        client.force_login(person)
        return client.get(path).content.decode()

    return get


@pytest.fixture
def post(client):
    def post(person, path, **data):
        client.force_login(person)
        named = {name.replace("__", "-"): value for name, value in data.items()}
        return client.post(path, named, headers={"Origin": conf.TESSERA_PUBLIC_URL})

    return post


def test_a_service_is_made_of_a_template_and_what_is_wrong_is_told_at_its_parameter(cast, get, post):
    values = {"v__name": "kinds", "v__environment": "", "v__replicas": "0..2", "v__access": "key"}
    assert "Create the service" in get(cast.ada, "/templates/file-type/")
    shown = post(cast.ada, "/templates/file-type/preview", version=1, **values).content.decode()
    assert 'data-tone="done"' in shown and "kind: service" in shown and "environment:" not in shown
    assert "Never stopped for others" not in shown  # which a replica beyond the least is
    refused = post(cast.ada, "/templates/file-type/", version=1, **values | {"v__name": "Kinds"})
    assert refused.status_code == 400 and "“Kinds” cannot be the name of a service" in refused.content.decode()
    assert 'id="id_v-name_error"' in refused.content.decode() and not Service.objects.exists()
    made = post(cast.ada, "/templates/file-type/", version=1, **values)
    service = Service.objects.get()
    assert made.status_code == 302 and made["Location"] == f"/services/{service.public_id}/"
    assert (service.name, service.serving.access, service.serving.replicas) == ("kinds", "key", (0, 2))
    assert post(cast.ada, "/templates/file-type/", version=1, **values).status_code == 409  # the name is taken


def test_the_list_has_a_teams_and_the_examples_and_is_searched(cast, template, get):
    page = get(cast.ada, "/templates/")
    assert "finetune" in page and "first-steps" in page
    assert "finetune" not in get(cast.eve, "/templates/")
    assert "first-steps" not in get(cast.ada, "/templates/?show=own")
    assert "finetune" not in get(cast.ada, "/templates/?show=examples")
    found = get(cast.ada, "/templates/?q=model+finetunes")
    assert "finetune" in found and "first-steps" not in found


def test_its_form_submits_a_job(cast, template, post):
    answer = post(
        cast.ada, f"/templates/{template.public_id}/", version=1, v__lr="1e-3", v__epochs="3", v__size="large"
    )
    job = Job.objects.get()
    assert answer.status_code == 302 and answer["Location"] == f"/j/{job.public_id}/"
    assert job.spec["run"] == "python train.py --lr 1e-3 --epochs 3 --size large"
    assert job.spec["env"] == {"MIXED": "false"}  # a box without its check
    assert job.template["values"] == {"lr": "1e-3", "epochs": 3, "size": "large", "mixed": False}


def test_a_wrong_value_is_told_at_its_field_and_the_others_stay(cast, template, post):
    answer = post(cast.ada, f"/templates/{template.public_id}/", version=1, v__lr="2", v__epochs="7", v__size="small")
    page = answer.content.decode()
    assert answer.status_code == 400 and not Job.objects.exists()
    assert 'id="id_v-lr_error"' in page and 'value="7"' in page and 'id="id_v-epochs_error"' not in page


def test_the_preview_shows_the_file_and_when_it_would_start(cast, template, post):
    path = f"/templates/{template.public_id}/preview"
    shown = post(cast.ada, path, version=1, v__epochs="3", v__size="small", v__mixed="on").content.decode()
    assert "python train.py --lr 0.0003 --epochs 3 --size small" in shown and 'data-tone="done"' in shown
    refused = post(cast.ada, path, version=1, v__epochs="some", v__size="small").content.decode()
    assert "epochs: “some” is not a whole number" in refused and "<pre" not in refused and "These values" in refused
    blank = post(cast.ada, path, version=1).content.decode()
    assert "<li>epochs is missing. Add it.</li>" in blank and "Fill in what is needed" in blank
    assert not Job.objects.exists()


def test_who_is_in_several_teams_chooses_one(cast, template, get, post):
    others = make.team("others")
    make.quota(others, cast.dev)
    others.memberships.create(user=cast.ada, role="member")
    assert '<option value="nlp" selected>' in get(cast.ada, f"/templates/{template.public_id}/")
    data = {"version": 1, "v__epochs": "3", "v__size": "small", "v__team:": "others"}
    assert post(cast.ada, f"/templates/{template.public_id}/", **data).status_code == 302
    assert Job.objects.get().team == others


def test_a_template_is_written_and_gets_versions(cast, get, post):
    assert "name: my-template" in get(cast.ada, "/templates/new")
    answer = post(cast.ada, "/templates/new", team=cast.nlp.pk, file=TEXT.replace("\n", "\r\n"))
    row = JobTemplate.objects.get()
    assert answer["Location"] == f"/templates/{row.public_id}/"
    assert row.versions.get().file == TEXT
    assert "python train.py" in get(cast.ada, f"/templates/{row.public_id}/edit")
    post(cast.ada, f"/templates/{row.public_id}/edit", file=TEXT.replace("3e-4", "1e-4"))
    page = get(cast.ada, f"/templates/{row.public_id}/?version=1")
    assert "This is version 1. The newest is 2." in page and 'value="0.0003"' in page


def test_a_text_is_checked_while_it_is_written(cast, post):
    shown = post(cast.ada, "/templates/check", file=TEXT).content.decode()
    assert 'name="v-lr"' in shown and "The learning rate. From 0 to 1." in shown
    wrong = post(cast.ada, "/templates/check", file=TEXT.replace("--lr ${{ lr }}", "--lr ${{ rate }}")).content.decode()
    assert "<b>Line 13</b>" in wrong and "no parameter “rate”" in wrong and "stands nowhere" in wrong
    assert "<b>Line 2</b>" in post(cast.ada, "/templates/check", file="run: ls\n\tx: 1\n").content.decode()


def test_what_is_wrong_is_kept_as_it_was_typed(cast, post):
    answer = post(cast.ada, "/templates/new", team=cast.nlp.pk, file="run: ls\n# mine\n")
    assert answer.status_code == 400 and "# mine" in answer.content.decode()
    assert "no head of a template" in answer.content.decode()
    twice = [post(cast.ada, "/templates/new", team=cast.nlp.pk, file=TEXT).status_code for _ in range(2)]
    assert twice == [302, 400] and JobTemplate.objects.count() == 1


def test_a_job_is_saved_as_a_template(cast, get, post):
    job = make.job(cast.ada, name="Fine Tune #3", gpu="1/4", pool="dev", env={"LR": "1"}, hold=True)
    page = get(cast.ada, f"/templates/new?from={job.public_id}")
    text = unescape(page.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0])
    assert "name: fine-tune-3" in text and "gpu: 1/4" in text and "hold" not in text
    assert post(cast.ada, "/templates/new", team=cast.nlp.pk, file=text).status_code == 302
    assert post(cast.ada, f"/templates/{JobTemplate.objects.get().public_id}/", version=1).status_code == 302
    assert compare_files(job.spec, Job.objects.first().spec)[-1].field == "hold"
    assert f"/templates/new?from={job.public_id}" in get(cast.ada, f"/j/{job.public_id}/")


def test_of_what_nobody_may_see_no_template_is_made(cast, get, client):
    job = make.job(cast.ada, name="secret", pool="dev")
    client.force_login(cast.eve)
    assert client.get(f"/templates/new?from={job.public_id}").status_code == 404


def test_an_example_is_copied_under_another_name(cast, get, post):
    assert "name: my-first-steps\n" in get(cast.ada, "/templates/new?copy=first-steps")
    assert post(cast.ada, "/templates/first-steps/edit", file="x").status_code == 409
    answer = post(cast.ada, "/templates/first-steps/", version=1, v__gpu="1/4", v__steps="2")
    assert answer.status_code == 302 and Job.objects.get().template["id"] == "first-steps"


def test_an_example_is_read_in_the_readers_language(cast, client, post):
    client.force_login(cast.ada)
    page = client.get("/templates/ring-all-reduce/", headers={"Accept-Language": "zh-hans"}).content.decode()
    assert "它们要么一起启动，要么都不启动。" in page and "They start together" not in page.partition("template:")[0]


def test_code_of_a_template_is_its_makers_and_runs_for_colleagues(cast, post):
    code = keep_code(user=cast.ada, pieces=[pack_one_file("train.py", b"print(1)")])
    row = create_template(actor=cast.ada, team=cast.nlp, text=f"{TEXT}code: {code.digest}\n")
    data = {"version": 1, "v__epochs": "3", "v__size": "small"}
    assert 'data-tone="done"' in post(cast.bob, f"/templates/{row.public_id}/preview", **data).content.decode()
    assert post(cast.bob, f"/templates/{row.public_id}/", **data).status_code == 302
    assert Job.objects.get().spec["code"] == code.digest


def test_it_is_archived_and_restored_by_who_may(cast, template, get, post):
    carl = make.user("carl", cast.nlp)
    assert "Archive" not in get(carl, f"/templates/{template.public_id}/").replace("Archived", "")
    assert post(carl, f"/templates/{template.public_id}/archive").status_code == 403
    post(cast.ada, f"/templates/{template.public_id}/archive")
    page = get(cast.ada, f"/templates/{template.public_id}/")
    assert "This template is archived" in page and "Restore" in page
    refused = post(cast.ada, f"/templates/{template.public_id}/preview", version=1).content.decode()
    assert "is archived. Restore it first" in refused and "These values make no job" in refused
    post(cast.ada, f"/templates/{template.public_id}/restore")
    template.refresh_from_db()
    assert template.archived_at is None
    archive_template(actor=cast.ada, template=template)
    create_template(actor=cast.ada, team=cast.nlp, text=TEXT)
    post(cast.ada, f"/templates/{template.public_id}/restore")
    assert "There is another template" in get(cast.ada, "/templates/")


def test_a_clone_knows_its_parent_and_the_parent_its_clones(cast, get, post):
    job = make.job(cast.ada, gpu="1/4", pool="dev", name="first")
    assert f'name="parent" value="{job.public_id}"' in get(cast.ada, f"/jobs/new?from={job.public_id}")
    post(cast.ada, "/jobs/new", touched="", yaml="run: ls\ngpu: 1/2\npool: dev\nname: second\n", parent=job.public_id)
    copy = Job.objects.get(name="second")
    assert copy.parent == job
    assert f'<a href="/j/{job.public_id}/">' in get(cast.ada, f"/j/{copy.public_id}/")
    assert f'<a href="/j/{copy.public_id}/">' in get(cast.ada, f"/j/{job.public_id}/")
    spec = get(cast.ada, f"/j/{copy.public_id}/?tab=spec")
    assert f"What differs from {job.public_id}" in spec and ">gpu</td>" in spec


def test_a_job_is_run_again_exactly_on_its_page(cast, get, post):
    job = make.job(cast.ada, gpu="1/4", pool="dev", env={"A": "1"})
    assert "Run again exactly" in get(cast.ada, f"/j/{job.public_id}/?tab=spec")
    answer = post(cast.ada, f"/j/{job.public_id}/rerun")
    copy = Job.objects.get(parent=job)
    assert answer["Location"] == f"/j/{copy.public_id}/" and compare_files(job.spec, copy.spec) == []
    Job.objects.filter(pk=job.pk).update(spec={**job.spec, "code": f"sha256:{'0' * 64}"})
    assert post(cast.ada, f"/j/{job.public_id}/rerun")["Location"] == f"/j/{job.public_id}/"
    assert "You have not uploaded code" in get(cast.ada, f"/j/{job.public_id}/") and job.copies.count() == 1


def test_the_job_of_a_notebook_offers_no_exact_copy_which_would_be_refused(cast, get):
    job = make.job(cast.ada, gpu="1/4", pool="dev")
    Job.objects.filter(pk=job.pk).update(kind=JobKind.INTERACTIVE)
    assert "Run again exactly" not in get(cast.ada, f"/j/{job.public_id}/?tab=spec")


def test_a_parent_that_nobody_may_see_is_none(cast, post):
    job = make.job(cast.ada, pool="dev")
    make.quota(make.team("others"), cast.dev)
    post(cast.eve, "/jobs/new", touched="", yaml="run: ls\n", parent=job.public_id)
    assert Job.objects.filter(user=cast.eve).get().parent is None


def test_the_page_costs_few_queries(cast, template, client, django_assert_max_num_queries):
    client.force_login(cast.ada)
    with django_assert_max_num_queries(14):
        client.get("/templates/")
    with django_assert_max_num_queries(22):
        client.get(f"/templates/{template.public_id}/")
