"""Jobs and notebooks that an owner opens to a colleague: who comes in, how far, and when it ends."""

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import Membership, User
from common.errors import Conflict, InvalidInput, NotFound, NotPermitted
from events.models import Event, Notice
from jobs.control import stop_job
from jobs.models import Job
from jobs.states import TaskState
from notebooks.models import Notebook
from notebooks.services import delete_notebook, stop_notebook
from portal.access.app_links import link_to_notebook, link_to_port
from portal.access.app_sessions import find_app, issue_code, load_visit, redeem_code
from portal.access.task_access import find_refusal, find_task_access
from sharing.models import Share
from sharing.shares import end_share, share_job
from sharing.tokens import create_notebook_token
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    cast = make.cast()
    cast.cleo = make.user("cleo", cast.nlp)
    cast.job = make.job(cast.ada, gpu="1/4", pool="dev")
    cast.task = make.start(cast.job)[0]
    return cast


@pytest.fixture
def notebook(world):
    Job.objects.filter(pk=world.job.pk).update(kind="interactive")
    return Notebook.objects.create(user=world.ada, team=world.nlp, name="lab", spec={}, job=world.job)


def shared(world, person="cleo"):
    return share_job(actor=world.ada, job=world.job, person=person)


def told(job):
    return list(Event.objects.filter(kind="job", object_id=job.pk).order_by("seq").values_list("verb", "actor"))


def visit(person, notebook):
    """What a person's browser gets at the notebook's host."""
    app = find_app(person, link_to_notebook(notebook).partition("//")[2].partition(".")[0])
    code = issue_code(app=app, user=person, session_key=make.session(person), state="s", path="/")
    secret, _path = redeem_code(label=app.label, code=code, state="s")
    return app.label, secret


def test_a_colleague_comes_in_and_is_told(world):
    with pytest.raises(NotFound):
        find_task_access(world.cleo, world.job.public_id)
    shared(world)
    assert find_task_access(world.cleo, world.job.public_id).task == world.task.uuid.hex
    assert not find_refusal(world.cleo.pk, world.task.uuid.hex)
    notice = Notice.objects.get(user_id=world.cleo.pk)
    assert notice.kind == "shared" and notice.params["person"] == "ada"
    assert ("shared", "ada") in told(world.job)
    with pytest.raises(NotFound):  # nobody else
        find_task_access(world.bob, world.job.public_id)


def test_it_is_the_door_and_nothing_else(world, notebook):
    shared(world)
    for refused in (
        lambda: stop_job(actor=world.cleo, job=world.job),
        lambda: stop_notebook(actor=world.cleo, notebook=notebook),
        lambda: delete_notebook(actor=world.cleo, notebook=notebook, confirm="lab", with_files=True),
        lambda: share_job(actor=world.cleo, job=world.job, person="bob"),
        lambda: end_share(actor=world.cleo, job=world.job, person="cleo"),
        lambda: create_notebook_token(actor=world.cleo, notebook=notebook, name="mine"),
    ):
        with pytest.raises(NotPermitted):
            refused()
    assert not Notebook.objects.visible_to(world.cleo).exists()


@pytest.mark.parametrize("person", ["eve", "ada", "nobody", "vic", "gone", "rita", ""])
def test_only_an_active_member_or_lead_of_the_team_can_be_let_in(world, person):
    make.user("vic", world.nlp, role="viewer")
    make.user("gone", world.nlp)
    User.objects.filter(username="gone").update(suspended_at=timezone.now())
    make.admin()
    with pytest.raises(InvalidInput) as bad:
        shared(world, person)
    assert bad.value.errors[0].code == "not_a_colleague"


@pytest.mark.parametrize("who", ["bob", "eve", "rita", "cleo"])
def test_only_its_owner_lets_people_in(world, who):
    person = make.admin() if who == "rita" else getattr(world, who)
    with pytest.raises(NotPermitted):
        share_job(actor=person, job=world.job, person="cleo")


@pytest.mark.parametrize("end", ["owner", "lead", "admin", "left", "suspended", "viewer", "owner_left", "job"])
def test_it_ends_for_whoever_ends_it_and_by_itself(world, end):
    shared(world)
    if end in ("owner", "lead", "admin"):
        by = {"owner": world.ada, "lead": world.bob, "admin": make.admin()}[end]
        end_share(actor=by, job=world.job, person="cleo")
        assert told(world.job)[-1] == ("share_ended", by.username)
    elif end == "left":
        Membership.objects.filter(user=world.cleo).delete()
    elif end == "suspended":
        User.objects.filter(pk=world.cleo.pk).update(suspended_at=timezone.now())
    elif end == "viewer":
        Membership.objects.filter(user=world.cleo).update(role="viewer")
    elif end == "owner_left":
        Membership.objects.filter(user=world.ada).delete()
    else:
        make.move(world.task, TaskState.SUCCEEDED, "completed", exit_code=0)
    assert find_refusal(world.cleo.pk, world.task.uuid.hex)
    with pytest.raises((NotFound, Conflict)):
        find_task_access(User.objects.get(pk=world.cleo.pk), world.job.public_id)


def test_an_ended_job_cannot_be_opened(world):
    make.move(world.task, TaskState.SUCCEEDED, "completed", exit_code=0)
    with pytest.raises(Conflict):
        shared(world)


def test_a_notebook_opens_in_the_browser_and_each_visit_is_told_once_in_a_while(world, notebook):
    label = link_to_notebook(notebook).partition("//")[2].partition(".")[0]
    with pytest.raises(NotFound):
        find_app(world.cleo, label)
    shared(world)
    where = visit(world.cleo, notebook)
    grant = load_visit(*where)
    assert grant.task == world.task.uuid.hex and grant.user_id == world.cleo.pk
    for _ in range(3):
        load_visit(*where)
    assert told(world.job).count(("visited", "cleo")) == 1
    Share.objects.update(visited_at=timezone.now() - timedelta(minutes=11))
    load_visit(*where)
    assert told(world.job).count(("visited", "cleo")) == 2
    assert find_task_access(world.cleo, notebook.public_id).notebook_id == notebook.pk
    end_share(actor=world.ada, job=world.job, person="cleo")
    assert load_visit(*where) is None
    with pytest.raises(NotFound):
        find_app(world.cleo, label)


def test_the_next_start_of_a_notebook_is_not_open(world, notebook):
    shared(world)
    where = visit(world.cleo, notebook)
    again = make.job(world.ada, gpu="1/4", pool="dev")
    make.start(again)
    Notebook.objects.update(job=again)
    assert load_visit(*where) is None
    with pytest.raises(NotFound):
        find_task_access(world.cleo, notebook.public_id)


def test_the_notebooks_name_stays_its_owners(world, notebook):
    """Two people may each have a `lab`: a name means one's own."""
    shared(world)
    with pytest.raises(NotFound):
        find_task_access(world.cleo, "lab")


def test_the_port_of_a_jupyterlab_is_no_way_around(world, notebook):
    """Who was let in may have kept the secret of the task; another port of the team's is open as ever."""
    jupyter, other = (link_to_port(world.task, port).partition("//")[2].partition(".")[0] for port in (8888, 7860))
    with pytest.raises(NotPermitted):
        find_app(world.cleo, jupyter)
    assert find_app(world.cleo, other) and find_app(world.ada, jupyter)


def test_the_page_lets_in_and_ends(world, client, settings):
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL
    client.force_login(world.ada)
    page = f"/j/{world.job.public_id}/sharing"
    assert client.get(page).status_code == 200
    assert client.post(page, {"person": "eve"}).status_code == 400
    assert client.post(page, {"person": "cleo"}).status_code == 302
    assert 'id="share-cleo"' in client.get(page).content.decode()
    client.force_login(world.cleo)
    assert client.get(page).status_code == 403
    listed = client.get("/notebooks/").content.decode()
    assert world.job.public_id in listed and f"/terminal/{world.job.public_id}" in listed
    assert f"/terminal/{world.job.public_id}" in client.get(f"/j/{world.job.public_id}/").content.decode()
    client.force_login(world.ada)
    assert client.post(f"{page}/end", {"person": "cleo"}).status_code == 302
    client.force_login(world.cleo)
    assert world.job.public_id not in client.get("/notebooks/").content.decode()
    assert f"/terminal/{world.job.public_id}" not in client.get(f"/j/{world.job.public_id}/").content.decode()
