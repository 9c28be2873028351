"""Views of the list of jobs that a person gave a name."""

import re

import pytest

from portal.models import SavedView
from portal.saved_views.store import MOST_VIEWS
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def ada(cast, client, settings):
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL
    client.force_login(cast.ada)
    return client


def save(client, name, query):
    return client.post("/jobs/views", {"name": name, "query": query}, follow=True).content.decode()


def test_a_filtered_list_is_saved_found_again_and_deleted(cast, ada):
    assert "Save this view" not in ada.get("/jobs/").content.decode()
    assert "Save this view" in ada.get("/jobs/?state=failed&pool=dev").content.decode()
    page = save(ada, "broken in dev", "?state=failed&pool=dev&sort=-ran")
    assert "The view “broken in dev” is saved." in page and "Save this view" not in page
    (href,) = re.findall(r'<a href="([^"]+)" aria-current="true">broken in dev<', page)
    assert href == "/jobs/?state=failed&amp;pool=dev&amp;sort=-ran"
    (end,) = re.findall(r'action="(/jobs/views/\d+/delete)"', page)
    assert "is deleted" in ada.post(end, follow=True).content.decode() and not SavedView.objects.exists()


def test_a_view_of_the_same_name_is_replaced(ada):
    save(ada, "mine", "?state=failed")
    save(ada, "mine", "?state=waiting")
    assert list(SavedView.objects.values_list("name", "query")) == [("mine", "?state=waiting")]


def test_what_is_not_possible_is_not_kept(ada):
    save(ada, "odd", "?state=nonsense&pool=nowhere&page=7&q=llama&next=//evil.example")
    assert SavedView.objects.get().query == "?q=llama"


@pytest.mark.parametrize("name", ["", "   ", "x" * 41, "a\x07b"])
def test_a_bad_name_is_refused_in_words(ada, name):
    assert "Use 1 to 40 visible characters." in save(ada, name, "?state=failed")
    assert not SavedView.objects.exists()


def test_there_is_a_most(cast, ada):
    SavedView.objects.bulk_create(SavedView(user=cast.ada, name=f"v{n}", query="?q=a") for n in range(MOST_VIEWS))
    assert "delete one first" in save(ada, "one more", "?state=failed")
    assert "is saved" in save(ada, "v0", "?state=failed")


def test_nobody_sees_or_deletes_those_of_others(cast, ada):
    view = SavedView.objects.create(user=cast.bob, name="bobs view", query="?q=bob")
    assert "bobs view" not in ada.get("/jobs/").content.decode()
    assert ada.post(f"/jobs/views/{view.pk}/delete").status_code == 404
    assert SavedView.objects.filter(pk=view.pk).exists()
