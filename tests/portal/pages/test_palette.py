"""The palette's options: what a person is offered for what they type, and in which language."""

import re

import pytest
from django.test import Client

from accounts.models import User
from notebooks.services import create_notebook
from portal.pages.palette.views import MOST_PAGES
from portal.search.search import MOST
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def job(cast):
    return make.job(cast.ada, name="llama-sft", pool="dev")


def ask(person: User, text: str, language: str = "en") -> str:
    client = Client()
    client.force_login(person)
    answer = client.get("/search", {"q": text}, headers={"Accept-Language": language})
    assert answer.status_code == 200 and "no-store" in answer["Cache-Control"]
    return answer.content.decode()


def leads(shown: str) -> list[str]:
    """Where its options lead, or which button of the page they press."""
    return re.findall(r'role="option"[^>]* (?:href|data-presses)="([^"]*)"', shown)


def headings(shown: str) -> list[str]:
    return re.findall(r'role="group" aria-label="([^"]*)"', shown)


def test_without_a_text_it_offers_the_actions(cast):
    shown = ask(cast.ada, "")
    assert headings(shown) == ["Actions"]
    assert leads(shown)[:2] == ["/jobs/new", "/notebooks/new"] and leads(shown)[-1] == "sign-out"
    assert f'data-says="{len(leads(shown))} results"' in shown


def test_each_button_that_an_action_presses_stands_on_every_page(cast, client):
    client.force_login(cast.ada)
    page = client.get("/quota/").content.decode()
    pressed = [one for one in leads(ask(cast.ada, ">")) if not one.startswith("/")]
    assert len(pressed) == 6
    assert [one for one in pressed if f'id="{one}"' not in page] == []


def test_a_job_is_found_with_what_its_owner_may_do_with_it(cast, job):
    shown = ask(cast.ada, "LLAMA")
    assert headings(shown) == ["Jobs", "Do"]
    assert leads(shown) == [
        f"/j/{job.public_id}/",
        f"/jobs/new?from={job.public_id}",
        f"/j/{job.public_id}/#stop-{job.public_id}",
    ]
    assert (
        "Stop llama-sft (" in shown and "asks before it stops" in shown and f"{job.public_id} · Queued · ada" in shown
    )


def test_a_member_of_the_team_who_may_not_stop_a_job_is_not_offered_it(cast, job):
    mate = make.user("mia", cast.nlp)
    assert leads(ask(mate, "llama")) == [f"/j/{job.public_id}/", f"/jobs/new?from={job.public_id}"]


def test_a_verb_before_the_name_finds_only_what_may_be_done(cast, job):
    other = make.job(cast.ada, name="llama-dpo", pool="dev")
    stops = [f"/j/{one.public_id}/#stop-{one.public_id}" for one in (other, job)]
    assert leads(ask(cast.ada, "stop llama")) == leads(ask(cast.ada, "停止 llama", "zh-hans")) == stops
    assert leads(ask(cast.ada, f"stop {job.public_id}")) == stops[1:]
    assert leads(ask(cast.ada, "open llama")) == []


def test_a_notebook_leads_its_owner_to_it_and_can_be_opened_once_started(cast):
    notebook = create_notebook(user=cast.ada, name="explore", gpu="1/4")
    assert leads(ask(cast.ada, "explo")) == [f"/n/{notebook.public_id}/"]
    assert "notebook" not in ask(cast.bob, "explo").partition("palette-none")[0]


def test_a_stranger_finds_neither_the_job_nor_its_owner(cast, job):
    for text in ("llama", job.public_id, "@ada", "ada", "stop llama"):
        assert leads(ask(cast.eve, text)) == [] and "Nothing found" in ask(cast.eve, text)


def test_nothing_found_says_what_can_be_searched(cast):
    shown = ask(cast.ada, "no-such-thing")
    assert "listbox" not in shown and 'data-says="Nothing found. Search jobs by id' in shown


def test_a_person_leads_to_their_jobs_and_for_an_admin_to_the_console(cast):
    assert leads(ask(cast.ada, "@bob")) == ["/jobs/?whose=team&amp;q=bob"]
    assert leads(ask(make.admin(), "@bob")) == ["/console/people/bob/"]


def test_machines_and_pages(cast):
    assert leads(ask(cast.ada, "#n1")) == ["/nodes/n1/"]
    assert leads(ask(cast.ada, "> queue")) == leads(ask(cast.ada, ">QUEUE", "zh-hans")) == ["/queue/"]
    assert "/reports/waits/" in leads(ask(cast.ada, ">reports"))


def test_only_who_may_see_the_console_is_offered_its_pages(cast):
    def console(person: User) -> list[str]:
        return [one for one in leads(ask(person, ">console")) if one.startswith(("/console/", "/admin/"))]

    assert console(cast.ada) == []
    assert {"/console/quotas/", "/console/audit/", "/admin/"} <= set(console(make.admin()))


def test_only_so_many_of_each_are_shown(cast):
    for number in range(MOST + 1):
        make.job(cast.ada, name=f"s {number}", pool="dev")
    rita = make.admin()
    shown = ask(rita, "s")
    assert shown.count('href="/j/job-') == MOST + 1  # and the stop of the first
    pages = shown.partition('aria-label="Pages"')[2]
    assert len(leads(pages)) == MOST_PAGES < len(leads(ask(rita, ">s").partition('aria-label="Pages"')[2]))


def test_words_are_chinese_for_who_reads_chinese(cast, job):
    shown = ask(cast.ada, "llama", "zh-hans")
    assert headings(shown) == ["作业", "可执行"] and "停止 llama-sft" in shown
    assert 'data-says="3 个结果"' in shown


def test_what_people_wrote_is_escaped(cast):
    make.job(cast.ada, name="<b>bold</b>", pool="dev")
    shown = ask(cast.ada, "bold")
    assert "<b>bold" not in shown and "&lt;b&gt;bold&lt;/b&gt;" in shown


@pytest.mark.parametrize("text", ["\0", "x" * 5000, "%", "'\"<", ">", "@", "#", "stop ", "  "])
def test_any_text_is_answered(cast, text):
    assert ask(cast.ada, text)


def test_it_costs_few_queries(cast, job, client, django_assert_max_num_queries):
    client.force_login(cast.ada)
    with django_assert_max_num_queries(9):  # session, person, one for each kind, roles, the job's tasks
        client.get("/search", {"q": "llama"})
