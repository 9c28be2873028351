"""Notebooks: the list, the one-click presets, the page of one, and the way into it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.models import Gpu
from events.models import Event
from notebooks.environment import READY, environment_path
from notebooks.models import Notebook
from notebooks.services import create_notebook, start_notebook, stop_notebook
from scheduler.models import Lease
from scheduler.preview.preview import check_possible
from schedules.models import Schedule
from secret_store.services import set_secret
from tests import make
from tests.portal.pages.rail import PROMISES, RAIL

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast(settings, tmp_path):
    settings.TESSERA_DATA = tmp_path
    environment = environment_path(tmp_path)
    environment.mkdir(parents=True)
    (environment / READY).touch()
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    return make.cast()


@pytest.fixture
def ada(cast, client, settings):
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL
    client.force_login(cast.ada)
    return client


def made(person, name="explore", gpu="1/4"):
    return create_notebook(user=person, name=name, gpu=gpu)


def started(notebook, **also):
    """Its start is in the queue."""
    start_notebook(actor=notebook.user, notebook=notebook, check=check_possible, containers=False, **also)
    return again(notebook)


def running(notebook, *, ready=True, **fields):
    job = started(notebook).job
    make.start(job)
    if ready:
        fields["ready_at"] = timezone.now()
    Notebook.objects.filter(pk=notebook.pk).update(**fields)
    return again(notebook)


def again(notebook):
    return Notebook.objects.with_names().get(pk=notebook.pk)


def page(client, path, **headers):
    return client.get(path, headers=headers).content.decode()


def test_without_notebooks_the_list_offers_the_presets_with_a_live_promise(ada):
    text = page(ada, "/notebooks/")
    assert "You have no notebook yet" in text and "starts now" in text and 'value="1/4"' in text


def test_a_size_that_does_not_fit_now_says_that_it_waits(cast, ada):
    make.start(make.job(cast.bob, gpu="1", pool="dev"))
    make.start(make.job(cast.bob, gpu="1", pool="train"))
    assert "a new notebook" in (text := page(ada, "/", **RAIL)) and ">waiting" in text


def test_one_click_makes_a_notebook_starts_it_and_leads_to_the_starting_page(cast, ada):
    answer = ada.post("/notebooks/preset", {"gpu": "1/4"})
    notebook = Notebook.objects.get()
    assert (notebook.name, notebook.state) == ("quarter", "QUEUED")
    assert answer["Location"] == f"/n/{notebook.public_id}/open?watch=1"
    assert "opens automatically" in page(ada, answer["Location"])


def test_the_first_line_tells_apart_what_waits_starts_runs_and_stops(cast, ada):
    """One that was stopping was called starting."""
    make.limit(cast.ada, notebooks_running=3)
    one, two = running(made(cast.ada, "one")), running(made(cast.ada, "two"))
    assert "2 running." in page(ada, "/notebooks/")
    stop_notebook(actor=cast.ada, notebook=again(one))
    assert "1 running, 1 stopping." in page(ada, "/notebooks/")
    stop_notebook(actor=cast.ada, notebook=again(two))
    started(made(cast.ada, "three"))
    assert "1 waiting, 2 stopping." in page(ada, "/notebooks/")


def test_a_second_click_goes_on_with_the_same_notebook(cast, ada):
    made(cast.ada, gpu="1/2")
    assert "continues in explore" in page(ada, "/", **RAIL)
    ada.post("/notebooks/preset", {"gpu": "1/2"})
    ada.post("/notebooks/preset", {"gpu": "1/2"})
    assert Notebook.objects.count() == 1 and cast.ada.jobs.count() == 1


def test_a_size_that_can_never_run_here_is_not_offered(cast, ada):
    Gpu.objects.all().delete()
    text = page(ada, "/notebooks/")
    assert 'name="gpu" value="0"' in text and 'name="gpu" value="1/4"' not in text


def test_a_size_that_is_no_preset_makes_nothing(ada):
    assert ada.post("/notebooks/preset", {"gpu": "512"}).status_code == 302
    assert not Notebook.objects.exists()


def test_a_ready_notebook_is_opened_on_an_origin_of_its_own(cast, ada):
    notebook = running(made(cast.ada))
    answer = ada.get(f"/n/{notebook.public_id}/open")
    assert answer.status_code == 302 and ".localhost" in answer["Location"]
    assert again(notebook).opened_at is not None


def test_who_comes_again_finds_their_tabs(cast, ada):
    notebook = running(made(cast.ada))
    first, again = (ada.get(f"/n/{notebook.public_id}/open")["Location"] for _ in range(2))
    assert again == f"{first}lab"


def test_after_a_form_the_page_itself_goes_on(cast, ada):
    notebook = running(made(cast.ada))
    answer = ada.get(f"/n/{notebook.public_id}/open?watch=1")
    assert answer.status_code == 200
    assert f'data-ready="/n/{notebook.public_id}/open"' in answer.content.decode()


def test_to_be_told_that_it_is_ready_is_not_yet_to_have_opened_it(cast, ada):
    """Or an answer that the page drops for a newer one would take the first page of a new notebook with it."""
    notebook = running(made(cast.ada))
    for headers in ({}, {"HX-Request": "true"}):
        ada.get(f"/n/{notebook.public_id}/open?watch=1", headers=headers)
    assert again(notebook).opened_at is None
    assert ada.get(f"/n/{notebook.public_id}/open")["Location"].endswith(".localhost:8470/")


def test_one_that_is_not_ready_shows_its_steps_and_a_way_out(cast, ada):
    notebook = running(made(cast.ada), ready=False)
    text = page(ada, f"/n/{notebook.public_id}/open")
    assert "is-now" in text and "Cancel the start" in text and "data-ready" not in text


def test_a_visit_never_starts_anything(cast, ada):
    notebook = made(cast.ada)
    text = page(ada, f"/n/{notebook.public_id}/open?autostart=1")
    assert again(notebook).job is None and "autofocus" in text and f"/n/{notebook.public_id}/start" in text


def test_a_stopped_one_says_who_stopped_it(cast, ada):
    notebook = started(made(cast.ada))
    ada.post(f"/n/{notebook.public_id}/stop")
    assert "Stopped by ada." in page(ada, f"/n/{notebook.public_id}/open")


def test_the_form_asks_behind_itself_what_each_size_promises(ada, monkeypatch):
    """Trial cycles over a long queue take a second or two."""
    with monkeypatch.context() as patch:
        patch.setattr("portal.pages.notebooks.sizes.preview_starts", None)
        form = ada.get("/notebooks/new?gpu=1/4").content.decode()
    assert 'hx-get="/notebooks/new?gpu=1/4" hx-trigger="load"' in form and 'id="promise-1-4">…</span>' in form
    promises = ada.get("/notebooks/new?gpu=1/4", headers=PROMISES).content.decode()
    assert 'id="promise-1-4" hx-swap-oob="true">starts now</span>' in promises and "<html" not in promises


def test_why_the_chosen_size_would_wait_is_said(ada, cast):
    for gpu in cast.gpus:
        make.start(make.job(cast.bob, gpu="1", pool=gpu.pool.name), gpu)
    promises = ada.get("/notebooks/new?gpu=1/4", headers=PROMISES).content.decode()
    assert "waiting</span>" in promises and " waits: " in promises.partition('id="promise-why"')[2]


def test_waiting_offers_only_sizes_that_start_now(cast, ada):
    make.start(make.job(cast.bob, gpu="1/2", pool="dev"))
    make.start(make.job(cast.bob, gpu="1", pool="train"))
    notebook = started(made(cast.ada, gpu="1"))
    text = page(ada, f"/n/{notebook.public_id}/open")
    smaller = text[text.index("Start a smaller one now") : text.index("starting-buttons")]
    assert 'value="1/2"' not in smaller or "1/4" in smaller
    assert 'value="1"' not in smaller


def test_while_the_environment_is_prepared_nothing_starts_and_the_page_says_so(cast, ada, settings, tmp_path):
    settings.TESSERA_DATA = tmp_path / "fresh"
    answer = ada.post("/notebooks/preset", {"gpu": "1/4"}, follow=True)
    assert "JupyterLab is being installed" in (text := answer.content.decode())
    assert Notebook.objects.get().job is None and "data-waits" in text
    assert "data-waits" not in page(ada, f"/n/{Notebook.objects.get().public_id}/open")


def test_a_new_one_with_a_bad_name_keeps_what_was_typed(cast, ada):
    answer = ada.post("/notebooks/new", {"name": "No Good!", "gpu": "1/4", "cpu": "2"})
    text = answer.content.decode()
    assert answer.status_code == 400 and 'value="2"' in text and "field-error" in text


def test_all_that_is_wrong_with_a_new_one_is_told_at_once(ada):
    fields = {"name": "No Good!", "gpu": "other", "gpu_text": "1/x", "cpu": "many", "memory": "12", "hours": "0"}
    text = ada.post("/notebooks/new", fields).content.decode()
    assert text.count('class="field-error"') == 4 and "banner-fault" in text


def test_settings_that_are_wrong_are_refused_in_words(cast, ada):
    notebook = made(cast.ada)
    fields = {"gpu": "1/2", "cpu": "many", "memory": "", "hours": ""}
    assert "many" in ada.post(f"/n/{notebook.public_id}/change", fields, follow=True).content.decode()
    assert again(notebook).spec["gpu"] == "1/4"


def test_a_typed_size_is_asked(cast, ada):
    ada.post("/notebooks/new", {"name": "mine", "gpu": "other", "gpu_text": "4GB", "hours": "3"})
    spec = Notebook.objects.get().spec
    assert spec["gpu"] == "4GB" and spec["max_time"] == "3h"


def test_it_warns_before_it_ends_and_may_be_extended(cast, ada):
    notebook = running(made(cast.ada), stops_at=timezone.now() + timedelta(minutes=10))
    assert "variables in memory are lost" in page(ada, f"/n/{notebook.public_id}/")
    ada.post(f"/n/{notebook.public_id}/extend")
    assert again(notebook).stops_at > timezone.now() + timedelta(hours=2)


def test_secrets_are_settings_that_are_shown_by_name(cast, ada):
    set_secret(actor=cast.ada, name="HUB", value="c4nary-f00d-1234")
    notebook = made(cast.ada)
    fields = {"gpu": "1/4", "cpu": "", "memory": "", "hours": ""}
    ada.post(f"/n/{notebook.public_id}/change", {**fields, "secrets": "HUB: file"})
    page = ada.get(f"/n/{notebook.public_id}/").content.decode()
    assert 'value="HUB: file"' in page and "c4nary" not in page
    refused = ada.post(f"/n/{notebook.public_id}/change", {**fields, "secrets": "NONE"}, follow=True)
    assert "secret NONE" in refused.content.decode()
    assert again(notebook).spec["secrets"] == {"HUB": "file"}


def test_its_schedules_stand_beside_the_button_for_another(cast, ada):
    notebook = made(cast.ada)
    schedule = make.schedule(cast.ada, job_file="", notebook=notebook.name, cron="45 8 * * 1-5")
    text = page(ada, f"/n/{notebook.public_id}/")
    assert f'/schedules/{schedule.public_id}/">nightly</a> <code>45 8 * * 1-5</code>' in text and "next " in text
    Schedule.objects.update(suspended_at=timezone.now(), next_at=None)
    assert '<span class="muted">suspended</span>' in page(ada, f"/n/{notebook.public_id}/")


def test_settings_are_for_the_next_start(cast, ada):
    notebook = running(made(cast.ada))
    ada.post(f"/n/{notebook.public_id}/change", {"gpu": "1/2", "cpu": "", "memory": "", "hours": ""})
    text = page(ada, f"/n/{notebook.public_id}/")
    assert again(notebook).spec["gpu"] == "1/2" and "next start: ½ GPU" in text


def test_it_is_renamed_and_its_folder_stays(cast, ada):
    notebook, _other = running(made(cast.ada)), made(cast.ada, "taken")
    text = ada.post(f"/n/{notebook.public_id}/rename", {"name": " lab "}, follow=True).content.decode()
    assert "The notebook is now called lab." in text and "~/notebooks/explore" in text
    for wrong in ("No Good!", "taken", ""):
        refused = ada.post(f"/n/{notebook.public_id}/rename", {"name": wrong}, follow=True).content.decode()
        assert "is now called" not in refused and "note-error" in refused
    assert (again(notebook).name, again(notebook).folder) == ("lab", "notebooks/explore")


def test_a_clone_with_a_name_that_is_taken_is_refused_in_words(cast, ada):
    notebook = made(cast.ada)
    ada.post(f"/n/{notebook.public_id}/clone", {"name": "explore"})
    ada.post(f"/n/{notebook.public_id}/clone", {"name": "other"})
    assert set(Notebook.objects.values_list("name", flat=True)) == {"explore", "other"}


def test_a_deletion_needs_the_name(cast, ada):
    notebook = made(cast.ada)
    ada.post(f"/n/{notebook.public_id}/delete", {"confirm": "explor"})
    assert Notebook.objects.live().exists()
    ada.post(f"/n/{notebook.public_id}/delete", {"confirm": "explore"})
    assert not Notebook.objects.live().exists()
    assert Event.objects.filter(kind="notebook", verb="deleted").exists()


@pytest.mark.parametrize("path", ["", "open"])
@pytest.mark.parametrize("who", ["eve", "bob"])
def test_nobody_else_finds_it(cast, client, who, path):
    notebook = running(made(cast.ada))
    client.force_login(getattr(cast, who))
    assert client.get(f"/n/{notebook.public_id}/{path}").status_code == 404


def test_an_admin_sees_that_it_exists_and_never_gets_in(cast, client):
    notebook = running(made(cast.ada))
    client.force_login(make.admin())
    text = page(client, f"/n/{notebook.public_id}/")
    assert "explore" in text and "JupyterLab</b>" not in text and "Settings for the next start" not in text
    assert client.get(f"/n/{notebook.public_id}/open").status_code == 404


def test_the_list_of_jobs_shows_its_starts_only_where_that_is_asked(cast, ada):
    job = running(made(cast.ada)).job.public_id
    other = make.job(cast.ada).public_id
    for path, shown in (("", other), ("?kind=interactive", job), (f"?q={job}", job)):
        text = page(ada, f"/jobs/{path}")
        assert [f'id="row-{one}"' in text for one in (job, other)] == [shown == job, shown == other], path


def test_home_shows_a_notebook_as_one_and_not_as_a_job(cast, ada):
    notebook = running(made(cast.ada))
    text = page(ada, "/")
    assert f'id="home-{notebook.public_id}"' in text and f'id="home-{notebook.job.public_id}"' not in text


@pytest.mark.parametrize("target", ["notebook", "row"])
def test_each_shape_renders_alone(cast, ada, target):
    notebook = running(made(cast.ada))
    name = target if target == "notebook" else f"{target}-{notebook.public_id}"
    text = page(ada, f"/n/{notebook.public_id}/", **{"HX-Request": "true", "HX-Target": name})
    assert f'id="{name}"' in text and "<html" not in text


def test_a_running_notebook_shows_the_curves_of_its_start(cast, ada):
    notebook = running(made(cast.ada))
    text = page(ada, f"/n/{notebook.public_id}/")
    assert f'data-urls="/api/v1/jobs/{notebook.job.public_id}/metrics"' in text
    assert f'data-watch="{notebook.job.public_id}"' in text and 'data-chart="gpu_busy_percent"' in text


def test_a_stopped_or_waiting_notebook_shows_no_curves(cast, ada):
    notebook = made(cast.ada)
    assert "<live-charts" not in page(ada, f"/n/{notebook.public_id}/")
    assert "<live-charts" not in page(ada, f"/n/{started(notebook).public_id}/")
    make.end(running(made(cast.ada, "other")).job)
    assert "<live-charts" not in page(ada, f"/n/{Notebook.objects.get(name='other').public_id}/")
