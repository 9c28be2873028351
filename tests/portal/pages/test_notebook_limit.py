"""The person's limit of notebooks: said before the click, with what holds it and a button to stop that."""

import pytest
from django.utils import timezone

from jobs.models import Job
from notebooks.environment import READY, environment_path
from notebooks.models import Notebook
from notebooks.services import create_notebook, find_start_refusal, start_notebook
from scheduler.models import Lease
from scheduler.preview.preview import check_possible
from tests import make
from tests.portal.pages.rail import PROMISES, RAIL

pytestmark = pytest.mark.django_db
PARTS = {"/": RAIL, "/notebooks/new": PROMISES}
SENTENCE = "You are at your limit of notebooks that run at once, 1 of 1: explore ("


@pytest.fixture
def cast(settings, tmp_path):
    settings.TESSERA_DATA = tmp_path
    environment = environment_path(tmp_path)
    environment.mkdir(parents=True)
    (environment / READY).touch()
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    cast = make.cast()
    make.limit(cast.ada, notebooks_running=1)
    return cast


@pytest.fixture
def ada(cast, client, settings):
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL
    client.force_login(cast.ada)
    return client


@pytest.fixture
def explore(cast) -> Notebook:
    """A started notebook of ada's, of an eighth: none of the tiles."""
    made = create_notebook(user=cast.ada, name="explore", gpu="1/8")
    return start_notebook(actor=cast.ada, notebook=made, check=check_possible, containers=False)


def look(client, path) -> str:
    return client.get(path, headers=PARTS.get(path, {})).content.decode()


def test_below_the_limit_a_tile_says_that_it_starts(ada):
    page = look(ada, "/")
    assert "starts now" in page and "at your limit" not in page


def test_a_tile_counts_the_hours_of_a_notebook(ada, cast):
    """They reach into a maintenance tomorrow, which what a job without a time is taken to last does not."""
    make.maintenance(cast.node, begins_in_s=25 * 3600)
    assert "starts now" in look(ada, "/")
    make.limit(cast.ada, notebooks_running=1, notebook_hours=48)
    assert "starts now" not in look(ada, "/")


@pytest.mark.parametrize("path", PARTS)
def test_at_the_limit_no_tile_says_that_it_starts(ada, explore, path):
    page = look(ada, path)
    assert "at your limit" in page and "starts now" not in page


@pytest.mark.parametrize("path", ["/", "/notebooks/", "/notebooks/new", "/quota/"])
def test_the_page_says_which_limit_and_stops_what_holds_it(ada, explore, path):
    page = look(ada, path) if path == "/" else ada.get(path).content.decode()
    assert f"{SENTENCE}{explore.public_id})" in page
    assert f'data-opens="free-{explore.public_id}"' in page and f'action="/n/{explore.public_id}/stop"' in page


def test_what_is_stopping_has_no_button_to_stop_it(ada, explore):
    Job.objects.filter(pk=explore.job_id).update(stop_requested_at=timezone.now())
    page = look(ada, "/quota/")
    assert "explore is stopping" in page and "free-" not in page


def test_a_tile_that_is_clicked_all_the_same_makes_nothing_and_says_why(ada, explore):
    answer = ada.post("/notebooks/preset", {"gpu": "1/2"}, follow=True)
    assert SENTENCE in answer.content.decode() and Notebook.objects.get() == explore


def test_the_form_makes_nothing_either_and_keeps_what_was_typed(ada, explore):
    answer = ada.post("/notebooks/new", {"name": "second", "gpu": "1/2"})
    page = answer.content.decode()
    assert answer.status_code == 400 and page.count(f"<p>{SENTENCE}") == 1 and 'value="second"' in page
    assert Notebook.objects.get() == explore


def test_a_stopped_notebook_of_before_says_it_on_its_page(cast, ada, explore):
    other = create_notebook(user=cast.ada, name="other", gpu="1/4")
    answer = ada.post(f"/n/{other.public_id}/start", follow=True)
    assert SENTENCE in answer.content.decode() and Notebook.objects.get(pk=other.pk).job is None


def test_the_one_that_holds_the_limit_is_not_refused_by_itself(ada, explore):
    assert SENTENCE not in look(ada, f"/n/{explore.public_id}/open")


def test_a_limit_of_none_names_no_holder(cast, ada):
    make.limit(cast.ada, notebooks_running=0)
    assert "Your limit of notebooks that run at once is 0." in look(ada, "/")


def test_the_limit_of_waiting_jobs_forbids_a_start_too(cast, ada):
    waiting = make.job(cast.ada, name="sweep", gpu="1/4", pool="dev")
    make.limit(cast.ada, notebooks_running=None, jobs_waiting=1)
    page = look(ada, "/")
    assert "at your limit" in page and "starts now" not in page
    assert f"limit of waiting jobs, 1 of 1: sweep ({waiting.public_id})" in page
    ada.post("/notebooks/preset", {"gpu": "1/4"})
    assert not Notebook.objects.exists()


def test_a_start_that_waits_itself_may_be_replaced_at_the_limit(cast, explore):
    make.limit(cast.ada, notebooks_running=1, jobs_waiting=1)
    assert find_start_refusal(cast.ada, explore) is None


@pytest.mark.parametrize(
    "reason",
    [
        {"code": "user_limit", "params": {"resource": "gpu_milli", "used": 250, "limit": 250, "ask": 250}},
        {"code": "rate_policy", "params": {"used": 1, "limit": 1}},
    ],
)
def test_a_job_that_waits_for_ones_own_limit_shows_what_holds_it(cast, ada, client, reason):
    running = make.job(cast.ada, name="long", gpu="1/4", pool="dev")
    make.start(running)
    waiting = make.job(cast.ada, gpu="1/4", pool="dev")
    Job.objects.filter(pk=waiting.pk).update(wait_reasons=[reason], wait_position=1, wait_of=1)
    page = look(ada, f"/j/{waiting.public_id}/")
    assert "What holds your limit:" in page and f'action="/j/{running.public_id}/stop"' in page
    client.force_login(cast.bob)
    assert "What holds your limit:" not in look(client, f"/j/{waiting.public_id}/")


def test_the_quota_page_and_the_api_count_notebooks(cast, ada, explore):
    assert "Notebooks running" in look(ada, "/quota/")
    assert ada.get("/api/v1/quotas").json()["me"]["notebooks_running"]["used"]["value"] == 1
