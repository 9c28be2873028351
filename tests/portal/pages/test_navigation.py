"""The side navigation in its groups, the phone's bar, and the line of the page that is shown."""

import re

import pytest

from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def look(client):
    def look(person, path: str = "/quota/") -> str:
        client.force_login(person)
        return client.get(path).content.decode()

    return look


def test_the_lines_stand_in_groups(look):
    side = look(make.cast().ada).partition('id="side"')[2].partition("</nav>")[0]
    assert re.findall(r'side-head">([^<]+)', side) == ["Work", "Cluster", "Teams"]
    lines = re.findall(r'class="side-link" href="([^"]+)"', side)
    work = ["/jobs/", "/templates/", "/notebooks/", "/services/", "/schedules/", "/files/", "/data/", "/environments/"]
    assert lines[:9] == ["/", *work]
    assert lines[-2:] == ["/settings/profile/", "/help/"]


def test_a_phone_has_four_pages_and_all_of_them(look):
    bar = look(make.cast().ada).partition('class="bottom-bar"')[2].partition("</nav>")[0]
    assert re.findall(r'class="bottom-link" href="([^"]+)"', bar) == ["/", "/jobs/", "/queue/", "/cluster/"]
    assert 'popovertarget="side"' in bar


@pytest.mark.parametrize(
    ("path", "line"),
    [("/", "/"), ("/jobs/new", "/jobs/"), ("/cluster/gpus/", "/cluster/"), ("/nodes/n1/", "/cluster/"),
     ("/settings/password/", "/settings/profile/"), ("/notices/", None)],
)  # fmt: skip
def test_the_line_of_the_page_is_marked_in_the_navigation_alone(look, path, line):
    marked = re.findall(r'class="side-link" href="([^"]+)" aria-current="page"', look(make.cast().ada, path))
    assert marked == ([line] if line else [])
