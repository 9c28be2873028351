"""The ways from a job's page into its tasks: terminal, ports and TensorBoard, each for whom it opens."""

import pytest
from django.test import Client

from portal.access.app_links import link_to_port, link_to_tensorboard
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    cast = make.cast()
    cast.job = make.job(cast.ada, gpu="1/4", pool="dev", ports=[6006, 7860], tensorboard="runs")
    cast.task = make.start(cast.job)[0]
    return cast


def page_for(person, job) -> str:
    client = Client()
    client.force_login(person)
    return client.get(f"/j/{job.public_id}/").content.decode()


def test_the_owner_finds_terminal_ports_and_tensorboard(world):
    shown = page_for(world.ada, world.job)
    assert f'href="/terminal/{world.job.public_id}/"' in shown
    for address in (*(link_to_port(world.task, port) for port in (6006, 7860)), link_to_tensorboard(world.job)):
        assert f'href="{address}"' in shown
    assert "Port 7860" in shown and "TensorBoard" in shown


def test_they_are_buttons_in_the_head_of_each_tab_while_the_job_runs(world):
    client = Client()
    client.force_login(world.ada)

    def head() -> str:
        page = client.get(f"/j/{world.job.public_id}/?tab=spec").content.decode()
        return page.partition('<header class="job-head">')[2].partition("</header>")[0]

    shown = head()
    assert [shown.count(words) for words in ("TensorBoard", "Port 6006", "Port 7860")] == [1, 1, 1]
    make.end(world.job)
    assert "TensorBoard" not in head() and "Port" not in head()


def test_a_colleague_finds_the_ports_and_no_terminal(world):
    shown = page_for(world.bob, world.job)
    assert "/terminal/" not in shown and link_to_port(world.task, 7860) in shown


def test_an_admin_of_no_team_finds_neither(world):
    shown = page_for(make.admin(), world.job)
    assert "/terminal/" not in shown and "Port 7860" not in shown


def test_an_ended_job_has_no_doors(world):
    make.end(world.job)
    shown = page_for(world.ada, world.job)
    assert "/terminal/" not in shown and "Port 7860" not in shown


def test_each_task_of_a_gang_has_its_terminal(world):
    job = make.job(world.ada, gpu=0, nodes=2, pool="dev")
    make.start(job)
    shown = page_for(world.ada, job)
    assert f'href="/terminal/{job.public_id}.main.1/"' in shown


def test_the_terminals_page_names_its_socket_and_needs_no_exception_from_the_policy(world):
    client = Client()
    client.force_login(world.ada)
    answer = client.get(f"/terminal/{world.job.public_id}/")
    assert f'data-socket="/terminal/{world.job.public_id}"' in answer.content.decode()
    assert "style-src 'self';" in answer["Content-Security-Policy"]


def test_a_waiting_job_has_a_page_that_says_why_there_is_no_terminal(world):
    job = make.job(world.ada, pool="dev")
    client = Client()
    client.force_login(world.ada)
    answer = client.get(f"/terminal/{job.public_id}/")
    assert answer.status_code == 409
    assert "is waiting in the queue. You can connect to it as soon as it is running." in answer.content.decode()
