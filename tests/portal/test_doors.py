"""Every door of the portal, knocked at by a visitor, by eve the stranger, and by a token that may do nothing.

DOORS is the whole truth about who gets in: a route of the URL resolver, a method of the API or a websocket without a
line here fails. The world behind the doors is ada's: her running job, its task, her token; eve is in another team.
"""

import json
from importlib import import_module
from urllib.parse import urlsplit
from uuid import uuid4

import make
import pytest
from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.testing import WebsocketCommunicator
from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.db import connections
from django.test import Client
from django.urls import get_resolver, reverse

from accounts.models import ApiToken
from accounts.ssh_keys import add_ssh_key
from files.models import Upload
from jobs.models import Job
from notebooks.services import create_notebook
from portal.gateway.routing import websocket_urls as terminal_urls
from portal.live.routing import websocket_urls as live_urls

SIGN_IN = 302  # to the sign-in page, and back afterwards
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

# {(route, method): (an anonymous visitor, eve, ada's token without any scope)}
API = {
    ("api-me", "GET"): (401, 200, 200),
    ("api-tokens", "GET"): (401, 200, 403),
    ("api-tokens", "POST"): (401, 400, 403),
    ("api-token", "DELETE"): (401, 404, 403),
    ("api-ssh-keys", "GET"): (401, 200, 403),
    ("api-ssh-keys", "POST"): (401, 400, 403),
    ("api-ssh-key", "DELETE"): (401, 404, 403),
    ("api-notebooks", "GET"): (401, 200, 403),
    ("api-notebooks", "POST"): (401, 400, 403),
    ("api-notebook", "GET"): (401, 404, 403),
    ("api-notebook", "PATCH"): (401, 404, 403),
    ("api-notebook", "DELETE"): (401, 404, 403),
    ("api-notebook-start", "POST"): (401, 404, 403),
    ("api-notebook-stop", "POST"): (401, 404, 403),
    ("api-notebook-clone", "POST"): (401, 404, 403),
    ("api-notebook-extend", "POST"): (401, 404, 403),
    ("api-jobs", "GET"): (401, 200, 403),
    ("api-jobs", "POST"): (401, 400, 403),
    ("api-job", "GET"): (401, 404, 403),
    ("api-job-stop", "POST"): (401, 404, 403),
    ("api-job-retry", "POST"): (401, 404, 403),
    ("api-job-hold", "POST"): (401, 404, 403),
    ("api-job-release", "POST"): (401, 404, 403),
    ("api-job-logs", "GET"): (401, 404, 403),
    ("api-job-events", "GET"): (401, 404, 403),
    ("api-job-tasks", "GET"): (401, 404, 403),
    ("api-job-wait", "GET"): (401, 404, 403),
    ("api-jobs-stop", "POST"): (401, 400, 403),
    ("api-jobs-retry", "POST"): (401, 400, 403),
    ("api-events", "GET"): (401, 200, 403),
    ("api-notices", "GET"): (401, 200, 403),
    ("api-notices-read", "POST"): (401, 200, 403),
    ("api-webhooks", "GET"): (401, 200, 403),
    ("api-webhooks", "POST"): (401, 400, 403),
    ("api-webhook", "GET"): (401, 404, 403),
    ("api-webhook", "PATCH"): (401, 404, 403),
    ("api-webhook", "DELETE"): (401, 404, 403),
    ("api-webhook-secret", "POST"): (401, 404, 403),
    ("api-webhook-test", "POST"): (401, 404, 403),
    ("api-deliveries", "GET"): (401, 404, 403),
    ("api-redeliver", "POST"): (401, 404, 403),
    ("api-codes", "POST"): (401, 415, 403),
    ("api-code", "GET"): (401, 404, 403),
    ("api-files", "GET"): (401, 200, 403),
    ("api-file-places", "GET"): (401, 200, 403),
    ("api-file-content", "GET"): (401, 400, 403),
    ("api-file-content", "DELETE"): (401, 400, 403),
    ("api-file-move", "POST"): (401, 400, 403),
    ("api-file-mkdir", "POST"): (401, 400, 403),
    ("api-uploads", "POST"): (401, 400, 403),
    ("api-upload", "GET"): (401, 404, 403),
    ("api-upload", "PATCH"): (401, 415, 403),
    ("api-upload", "DELETE"): (401, 404, 403),
    ("api-pools", "GET"): (401, 200, 403),
    ("api-pool", "GET"): (401, 200, 403),
    ("api-nodes", "GET"): (401, 200, 403),
    ("api-node", "GET"): (401, 200, 403),
    ("api-gpus", "GET"): (401, 200, 403),
    ("api-quotas", "GET"): (401, 200, 403),
    ("api-queue", "GET"): (401, 200, 403),
    ("api-capacity", "GET"): (401, 200, 403),
    ("api-version", "GET"): (200, 200, 200),
    ("api-openapi", "GET"): (200, 200, 200),
    **{("api-nowhere", method): (404, 404, 404) for method in METHODS},
}
# Pages know sessions only: a token is nobody to them.
PAGES = {
    **{(name, method): (200, 200, 200) for name in ("livez", "readyz") for method in METHODS},
    ("home", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("jobs", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("job_new", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("job_new", "POST"): (SIGN_IN, 400, SIGN_IN),
    ("job_sync", "POST"): (SIGN_IN, 200, SIGN_IN),
    ("job", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("job_stop", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_retry", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_hold", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_release", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("job_log", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("app_authorize", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("app_authorize", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("terminal", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("notebooks", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("notebook_new", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("notebook_new", "POST"): (SIGN_IN, 400, SIGN_IN),
    ("notebook_preset", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("notebook", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_open", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_start", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_stop", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_change", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_clone", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_extend", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notebook_delete", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("queue", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("cluster", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("gpu_map", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("node", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("quota", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("files", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("files_team", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("file_view", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("file_content", "GET"): (SIGN_IN, 409, SIGN_IN),
    ("file_image", "GET"): (SIGN_IN, 409, SIGN_IN),
    ("file_mkdir", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("file_move", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("file_delete", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("sign_in", "GET"): (200, 302, 200),
    ("sign_in", "POST"): (400, 400, 400),
    ("sign_in_by_link", "GET"): (404, 404, 404),
    ("sign_in_by_link", "POST"): (404, 404, 404),
    ("join", "GET"): (404, 404, 404),
    ("join", "POST"): (404, 404, 404),
    ("sign_out", "POST"): (302, 302, 302),
    ("set_look", "POST"): (302, 302, 302),
    ("password", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("password", "POST"): (SIGN_IN, 200, SIGN_IN),
    ("tokens", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("tokens", "POST"): (SIGN_IN, 200, SIGN_IN),
    ("token_revoke", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("ssh_keys", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("ssh_keys", "POST"): (SIGN_IN, 200, SIGN_IN),
    ("ssh_key_remove", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("notices", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("bell", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("notices_read", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("notifications", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("notifications", "POST"): (SIGN_IN, 302, SIGN_IN),
    ("webhooks", "GET"): (SIGN_IN, 200, SIGN_IN),
    ("webhooks", "POST"): (SIGN_IN, 400, SIGN_IN),
    ("webhook", "GET"): (SIGN_IN, 404, SIGN_IN),
    ("webhook", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("webhook_test", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("webhook_switch", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("webhook_secret", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("webhook_delete", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("webhook_again", "POST"): (SIGN_IN, 404, SIGN_IN),
    ("invite", "GET"): (SIGN_IN, 403, SIGN_IN),
    ("invite", "POST"): (SIGN_IN, 403, SIGN_IN),
}
DOORS = API | PAGES
# The whole console is for admins and auditors: everybody else is sent away at every address of it.
CONSOLE = "admin:"
CONSOLE_WAYS = {"/sign-in/", "/", "/console/", "/console/login/", "/settings/password/"}  # each asks again
SOCKETS = {"live": (4401, "open", 4401), "terminal": (4401, 4404, 4401)}

KNOCKERS = ("anonymous", "stranger", "token without scope")


def routes():
    """(name with namespace, pattern) of every route of the resolver."""

    def walk(patterns, space=""):
        for pattern in patterns:
            if hasattr(pattern, "url_patterns"):
                yield from walk(pattern.url_patterns, f"{space}{pattern.namespace}:" if pattern.namespace else space)
            else:
                yield f"{space}{pattern.name}", pattern

    return list(walk(get_resolver().url_patterns))


PLAIN = [name for name, _ in routes() if not name.startswith(CONSOLE)]


@pytest.fixture
def world(db):
    return build_world()


@pytest.fixture
async def committed_world(transactional_db):
    """For the socket, which reads in another thread; its connection would keep the test database from going."""
    yield await sync_to_async(build_world)()
    await sync_to_async(connections.close_all)()


def build_world():
    cast = make.cast()
    job = make.job(cast.ada, name="secret-plan", gpu="1/4", pool="dev")
    cast.webhook = make.webhook(cast.ada, name="secret-plan")
    cast.task = make.start(job)[0]
    cast.job = Job.objects.get(pk=job.pk)
    cast.notebook = create_notebook(user=cast.ada, name="secret-plan", gpu="1/4")
    cast.secret = make.token(cast.ada)
    cast.upload = Upload.objects.create(uuid=uuid4(), user=cast.ada, name="secret-plan", size=1)
    cast.token = ApiToken.objects.get()
    ApiToken.objects.update(scopes=[])
    cast.key = add_ssh_key(user=cast.ada, key=make.ssh_key(), name="secret-plan")
    return cast


def address(name, world):
    parts = {
        "job_id": world.job.public_id,
        "notebook_id": world.notebook.public_id,
        "task_uuid": world.task.uuid,
        "token_id": world.token.pk,
        "key_id": world.key.pk,
        "name": {"api-pool": "dev", "terminal": world.job.public_id}.get(name, "n1"),
        "webhook_id": world.webhook.pk,
        "delivery_id": world.webhook.deliveries.first().pk,
        "secret": "no-such-secret",
        "digest": "sha256:" + "0" * 64,
        "path": "nothing",
        "upload_id": world.upload.uuid,
    }
    return reverse(name, kwargs={part: parts[part] for part in parts_of(dict(routes())[name])})


def parts_of(pattern):
    """The names in its address."""
    return list(pattern.pattern.regex.groupindex)


def knock(who, world, method, path):
    client, headers = Client(), {"Origin": django_settings.TESSERA_PUBLIC_URL}
    if who == "stranger":
        client.force_login(world.eve)
    elif who == "token without scope":
        headers["Authorization"] = f"Bearer {world.secret}"
    body = "{}" if path.startswith("/api/") else ""
    kind = "application/json" if path.startswith("/api/") else "application/x-www-form-urlencoded"
    if path.startswith("/api/") and who == "stranger":  # csrf is another test's subject: eve comes with her own token
        client, headers = Client(), {"Authorization": f"Bearer {make.token(world.eve)}"}
    return client.generic(method, path, body, content_type=kind, headers=headers)


def test_every_route_has_a_line():
    assert {name for name, _ in DOORS} == set(PLAIN)


def test_every_method_of_the_api_has_a_line():
    for name, pattern in routes():
        if name.startswith("api-") and name != "api-nowhere":
            for method in pattern.callback.view_class.scopes:
                assert (name, method) in API, f"{method} {name}"


def test_every_route_has_a_name_of_its_own():
    assert len(PLAIN) == len(set(PLAIN))


@pytest.mark.parametrize("name", PLAIN)
def test_a_door_opens_for_whom_the_table_says(world, name):
    for (route, method), expected in DOORS.items():
        if route == name:
            path = address(name, world)
            for who, status in zip(KNOCKERS, expected, strict=True):
                answer = knock(who, world, method, path)
                assert answer.status_code == status, f"{who}: {method} {path}"
                assert_nothing_of_adas(answer, who, world, path)
    world.job.refresh_from_db()
    assert (world.job.state, world.job.stop_requested_at, world.job.held_at) == ("RUNNING", None, None)
    assert ApiToken.objects.get(pk=world.token.pk).revoked_at is None


@pytest.mark.parametrize("name", PLAIN)
def test_a_method_without_a_line_is_refused(world, name):
    for method in METHODS:
        if (name, method) not in DOORS:
            answer = knock("stranger", world, method, address(name, world))
            assert answer.status_code in {404, 405}, f"{method} {name}"


def assert_nothing_of_adas(answer, who, world, path):
    """To sign in is a way back to this address; and no answer at all holds what is ada's alone."""
    if answer.status_code == SIGN_IN and who != "stranger":
        assert urlsplit(answer["Location"]).path in {"/sign-in/", "/"}
    elif who != "token without scope":
        shown = "" if answer.streaming else answer.content.decode().replace(path, "")  # an address may be echoed
        assert "secret-plan" not in shown and str(world.task.uuid) not in shown


def test_the_console_lets_nobody_in_but_auditors_and_admins(world):
    plain = [name for name, _ in routes() if name.startswith(CONSOLE) and not name.endswith(":None")]
    assert plain
    for name in plain:
        path = console_address(name)
        for who in KNOCKERS:
            for method in ("GET", "POST"):
                answer = knock(who, world, method, path)
                assert answer.status_code in {302, 403, 404, 405}, f"{who}: {method} {path}"
                if answer.status_code == 302:
                    assert urlsplit(answer["Location"]).path in CONSOLE_WAYS, path


def console_address(name):
    pattern = dict(routes())[name]
    parts = parts_of(pattern)
    known = {"object_id": "1", "content_type_id": "1", "app_label": name, "url": "x"}
    if "app_label" in parts:
        known["app_label"] = next(iter(_labels(pattern)))
    return reverse(name, kwargs={part: known[part] for part in parts})


def _labels(pattern):
    """The app labels that the console's index route takes, out of its regular expression."""
    return pattern.pattern.regex.pattern.split("(?P<app_label>")[1].split(")")[0].split("|")


async def test_every_socket_has_a_line_and_opens_for_whom_it_says(committed_world):
    websocket_urls = [*live_urls, *terminal_urls]
    world, application = committed_world, AuthMiddlewareStack(URLRouter(websocket_urls))
    assert {pattern.name for pattern in websocket_urls} == set(SOCKETS)
    for pattern in websocket_urls:
        for who, expected in zip(KNOCKERS, SOCKETS[pattern.name], strict=True):
            headers = await sync_to_async(socket_headers)(who, world)
            path = str(pattern.pattern).replace("<str:name>", world.job.public_id)
            assert await dial(application, f"/{path}", headers) == expected, who
    foreign = [(b"origin", b"https://evil.example")]
    for path in ("/live", f"/terminal/{world.job.public_id}"):
        assert await dial(application, path, foreign) == "refused"


def socket_headers(who, world):
    headers = [(b"origin", django_settings.TESSERA_PUBLIC_URL.encode())]
    if who == "token without scope":
        headers.append((b"authorization", f"Bearer {world.secret}".encode()))
    if who == "stranger":
        headers.append((b"cookie", f"{django_settings.SESSION_COOKIE_NAME}={session_of(world.eve)}".encode()))
    return headers


def session_of(person):
    store = import_module(django_settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY], store[BACKEND_SESSION_KEY] = str(person.pk), django_settings.AUTHENTICATION_BACKENDS[0]
    store[HASH_SESSION_KEY] = person.get_session_auth_hash()
    store.create()
    return store.session_key


async def dial(application, path, headers):
    """ "open", "refused" before it was accepted, or the code with which it was closed."""
    socket = WebsocketCommunicator(application, path, headers=headers)
    accepted, _ = await socket.connect()
    if not accepted:
        return "refused"
    while True:
        said = await socket.receive_output()
        if said["type"] == "websocket.close":
            return said["code"]
        if "now" in json.loads(said["text"]):
            await socket.disconnect()
            return "open"
