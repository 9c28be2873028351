"""The pages of services: the list, one in each of its states, its form and its keys."""

import pytest
from django.utils.html import escape

from common.locks import database_now
from common.steady_clock import steady_now
from jobs.states import TaskState
from portal.access.app_links import link_to_service
from services.controlling import control_service
from services.in_flight import Loads
from services.models import CallCount, Replica, Revision, Service
from services.usage import Calls, add_usage
from tests import make
from tests.portal.pages.test_schedules import sign_in, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def cast():
    return make.cast()


@pytest.fixture
def ada(cast, client, settings, tmp_path):
    settings.TESSERA_LOGS = tmp_path
    return sign_in(client, cast.ada, settings)


def look(service: Service) -> None:
    control_service(service.pk, Loads({service.pk: 1}), check=lambda draft: None, containers=False)


def file_of(**said: str) -> str:
    return make.SERVICE_FILE.format(**make.USUAL_SERVICE | said)


def test_one_is_made_by_form_and_listed(ada):
    assert "No services yet" in text(ada.get("/services/"))
    wrong = ada.post("/services/new", {"job_file": "kind: service\nrun: serve\n"})
    assert wrong.status_code == 400 and "job_file.serve is missing" in text(wrong)
    page = text(ada.post("/services/new", {"job_file": file_of()}, follow=True))
    assert "The service “chat” is created" in page and "/-/nlp/chat" in page and "No replicas" in page
    assert "0 of 4" in text(ada.get("/services/"))


def test_each_state_is_said_and_has_its_action(ada, cast, settings):
    settings.TESSERA_APPS_URL = "http://*.localhost"
    service = make.service(cast.ada)
    page = f"/services/{service.public_id}/"
    assert f'href="{link_to_service(service)}"' in text(ada.get(page))
    assert "No start yet" in text(ada.get(page))
    assert "the next request wakes it" in text(ada.get(page)) and "Wake now" in text(ada.get(page))
    look(service)
    assert "Its replica waits in the queue." in text(ada.get(page))
    [task] = make.start(Replica.objects.get().job)
    Replica.objects.update(ready_task=task.uuid, ready_at=database_now())
    assert "1 of 4 replicas answers." in text(ada.get(page)) and "Put to sleep" in text(ada.get(page))
    ada.post(page, {"job_file": file_of(access="key")})
    assert "Revision 2 comes up" in text(ada.get(page))
    ada.post(f"{page}rollback/1")
    assert Service.objects.get().rollout is None
    Revision.objects.update(spec=Revision.objects.get(number=2).spec)  # opened by its keys alone
    assert link_to_service(service) not in text(ada.get(page))
    ada.post(f"{page}stop")
    assert "Requests are refused" in text(ada.get(page))
    ada.post(f"{page}delete")
    assert ada.get(page).status_code == 404


def test_a_canary_is_shown_with_its_rule_and_ended_either_way(ada, cast):
    service = make.service(cast.ada)
    page = f"/services/{service.public_id}/"
    assert "no requests" not in text(ada.get(page)) and "Requests per second" in text(ada.get(page))
    make.replica(service)
    assert "Median of 1 start" in text(ada.get(page))
    make.canary(service, file_of().replace("access: team", "canary: {back_if: {p95: 1.5x}}"))
    shown = text(ada.get(page))
    assert "Revision 2 gets 10% of the requests, and takes over at" in shown and "3.3<small>%" in shown
    assert "Canary, 10%" in shown and "1.5× = 3 ms" in shown and "too few to tell yet" not in shown
    ada.post(f"{page}promote")
    assert "gets 10% of the requests" not in text(ada.get(page)) and Service.objects.get().rollout.number == 2
    make.User.objects.update(language="zh-hans")
    assert "灰度" in text(ada.get(page))
    why = {"code": "went_back", "job": "", "kind": "errors", "got": 20.0, "limit": 2.0, "requests": 30}
    Revision.objects.filter(number=2).update(failed_at=database_now(), why=why)
    Service.objects.update(rollout=None)
    make.User.objects.update(language="en")
    shown = text(ada.get(page))
    assert "Went back" in shown and "20% of its 30 requests failed, more than 2%." in shown


def test_its_replicas_are_set_without_a_new_revision(ada, cast):
    service = make.service(cast.ada)
    page = f"/services/{service.public_id}/"
    assert "There may be 1..2 replicas now." in text(ada.post(f"{page}scale", {"replicas": " 1..2 "}, follow=True))
    assert "is not a valid range" in text(ada.post(f"{page}scale", {"replicas": "4..2"}, follow=True))
    ada.post(f"{page}scale", {"replicas": ""})
    service.refresh_from_db()
    assert service.serving.replicas == (0, 4) and service.revisions.count() == 1


def test_a_failing_one_shows_the_last_lines_of_its_log(ada, cast, settings):
    service = make.service(cast.ada)
    look(service)
    [task] = make.start(Replica.objects.get().job)
    log = settings.TESSERA_LOGS / task.uuid.hex[:2] / f"{task.uuid.hex}.log"
    log.parent.mkdir()
    log.write_text("".join(f"line {n}\n" for n in range(100)) + "<b>no such model</b>\n")
    Revision.objects.update(crashes=3)
    make.move(task, TaskState.FAILED, "exit_nonzero", exit_code=1)
    look(service)
    page = text(ada.get(f"/services/{service.public_id}/"))
    assert escape("<b>no such model</b>") in page and "line 99" in page and "line 80" not in page
    assert "so none is started any more" in page and "The program ended with an error." in page


def test_a_key_is_shown_once(ada, cast):
    service = make.service(cast.ada)
    page = f"/services/{service.public_id}/keys"
    made = text(ada.post(page, {"name": "bot", "days": "ended"}))
    assert "tsk_" in made and "The key “bot” is ready" in made
    key = service.keys.get()
    assert key.prefix in text(ada.get(page)) and "Copy it now" not in text(ada.get(page))
    assert "No requests yet" in text(ada.get(page))
    browsers = Calls(service.pk, CallCount.BY_BROWSER)
    add_usage(steady_now().date(), {Calls(service.pk, key.pk, "bot"): (12, 3), browsers: (5, 0)})
    ada.post(f"{page}/{key.pk}/limits", {"per_minute": "60", "in_flight": ""})
    assert (
        "Browsers" in text(ada.get(page))
        and "60 a minute</div>" in text(ada.get(page))
        and '<td class="num">12</td>' in text(ada.get(page))
    )
    assert "A limit is a whole number" in text(ada.post(f"{page}/{key.pk}/limits", {"in_flight": "0"}, follow=True))
    ada.post(f"{page}/{key.pk}/end")
    assert not service.keys.exists()


def test_a_colleague_sees_it_and_changes_nothing(cast, client, settings):
    service = make.service(cast.bob)
    ada = sign_in(client, cast.ada, settings)
    page = text(ada.get(f"/services/{service.public_id}/"))
    assert "python serve.py" in page and "Roll out" not in page and "Delete" not in page
    assert ada.post(f"/services/{service.public_id}/", {"job_file": file_of()}).status_code == 403
    eve = sign_in(client, cast.eve, settings)
    assert "chat" not in text(eve.get("/services/")) and eve.get(f"/services/{service.public_id}/").status_code == 404
