"""The documents under /help/: files of the built site and nothing else, or a page that says how to build it."""

import pytest
from django.utils import timezone

from jobs.models import Job
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def site(settings, tmp_path):
    settings.HELP_SITE = tmp_path / "site"
    (settings.HELP_SITE / "using").mkdir(parents=True)
    (settings.HELP_SITE / "index.html").write_text("<h1>All of it</h1>")
    (settings.HELP_SITE / "using/index.html").write_text("<h1>Using it</h1>")
    (settings.HELP_SITE / "site.js").write_text("1")
    (tmp_path / "secret").write_text("of this machine")
    return settings.HELP_SITE


def test_anybody_reads_a_page_under_the_content_policy_of_the_portal(client, site):
    page = client.get("/help/using/")
    assert (page.status_code, page.content) == (200, b"<h1>Using it</h1>")
    assert page["Content-Type"] == "text/html; charset=utf-8"
    assert "script-src 'self';" in page["Content-Security-Policy"]
    assert client.get("/help/").content == b"<h1>All of it</h1>"
    assert client.get("/help/site.js")["Content-Type"].startswith("text/javascript")


def test_a_folder_without_its_slash_leads_to_its_page(client, site):
    assert client.get("/help/using")["Location"] == "/help/using/"


def test_what_the_browser_has_is_not_sent_again(client, site):
    tag = client.get("/help/using/")["ETag"]
    again = client.get("/help/using/", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["nothing/", "../secret", "%2e%2e/secret", "using/../../secret", "/etc/passwd", "a%00b"]
)
def test_nothing_beside_the_site_is_served(client, site, path):
    page = client.get(f"/help/{path}")
    assert page.status_code == 404 and b"of this machine" not in page.content


def test_where_nothing_was_built_a_page_says_what_builds_it(client, settings, tmp_path):
    settings.HELP_SITE = tmp_path / "none"
    page = client.get("/help/using/")
    assert page.status_code == 200 and "bin/docs" in page.content.decode()


def test_every_page_of_the_portal_links_to_it(client):
    client.force_login(make.cast().ada)
    assert 'href="/help/"' in client.get("/").content.decode()


def test_who_reads_chinese_begins_with_the_chinese_pages(client):
    client.force_login(make.cast().ada)
    assert 'href="/help/zh/"' in client.get("/", headers={"Accept-Language": "zh-CN"}).content.decode()


def test_an_error_leads_to_its_entry(client):
    client.force_login(make.cast().ada)
    page = client.get("/j/job-99/").content.decode()
    assert 'href="/help/reference/errors/#not_found"' in page
    note = client.post("/j/job-99/stop", headers={"HX-Request": "true", "Origin": "http://localhost:8470"})
    assert 'href="/help/reference/errors/#not_found"' in note.content.decode()


def test_a_reason_leads_to_its_entry(client):
    cast = make.cast()
    client.force_login(cast.ada)
    waiting, failed = make.job(cast.ada, gpu="1/4", pool="dev"), make.job(cast.ada, gpu="1/4", pool="dev")
    Job.objects.filter(pk=waiting.pk).update(wait_reasons=[{"code": "fragmented", "params": {}}])
    Job.objects.filter(pk=failed.pk).update(state="FAILED", reason="image_pull", ended_at=timezone.now())
    assert 'href="/help/reference/reasons/#wait-fragmented"' in client.get(f"/j/{waiting.public_id}/").content.decode()
    assert 'href="/help/reference/reasons/#image_pull"' in client.get(f"/j/{failed.public_id}/").content.decode()
