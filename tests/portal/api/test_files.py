"""Files by the API: whose they are, how they come in pieces and leave as downloads, and where they end."""

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from datetime import timedelta
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient
from django.utils import timezone

from accounts.models import TeamRole
from files import uploads, usage
from files.file_areas import find_file_area
from files.models import PlaceUsage, Upload
from runtimes.storage.areas import get_area_path
from runtimes.storage.file_child import PART
from tests import make
from tests.api_client import Api

pytestmark = pytest.mark.django_db
PIECE = "application/offset+octet-stream"


@pytest.fixture(autouse=True)
def store(tmp_path, settings):
    settings.TESSERA_FILES = tmp_path / "files"
    settings.TESSERA_FILES.mkdir()
    return settings.TESSERA_FILES


@pytest.fixture
def home(cast, store):
    """Where ada's home lies."""
    area = find_file_area(cast.ada, "home")
    area.store.list_folder()
    return get_area_path(store, area.area_id)


@pytest.fixture
async def committed(transactional_db, store):
    """ada and her home, for answers by way of ASGI, which read in other threads."""

    def build():
        ada = make.cast().ada
        area = find_file_area(ada, "home")
        area.store.list_folder()
        return Api(make.token(ada)), get_area_path(store, area.area_id)

    yield await sync_to_async(build)()
    await sync_to_async(connections.close_all)()


def begin(api, path, size, **more):
    return api.post("files/uploads", {"path": path, "size": size, **more})


def piece(api, id, offset, data, **headers):
    headers = {**api.headers, "Content-Type": PIECE, "Upload-Offset": str(offset), **headers}  # also without a body
    return api.client.patch(f"/api/v1/files/uploads/{id}", data, content_type=PIECE, headers=headers)


def send(api, path, data, **more):
    made = begin(api, path, len(data), **more).json()
    return piece(api, made["id"], 0, data) if data else made


def listed(api, path="", place="home"):
    answer = api.get("files", {"place": place, "path": path})
    assert answer.status_code == 200, answer.json()
    return [entry["name"] for entry in answer.json()["results"]]


def code_of(answer, status):
    assert answer.status_code == status, answer.content
    return answer.json()["code"]


async def read(api, path, place="home", at="content", **headers):
    """As in life, by way of ASGI."""
    response = await _asgi(api, {"place": place, "path": path}, headers, at)
    return response, b"".join([piece async for piece in response.streaming_content])


async def _asgi(api, query, headers, at="content"):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await AsyncClient().get(f"/api/v1/files/{at}", query, headers={**api.headers, **named})


def test_a_file_is_sent_listed_moved_and_deleted(ada, home):
    assert ada.post("files:mkdir", {"path": "data"}).status_code == 201
    done = send(ada, "data/a.bin", b"hello").json()
    assert (done["done"], done["offset"], done["path"]) == (True, 5, "data/a.bin")
    shown = ada.get("files", {"path": "data"}).json()
    assert [(e["name"], e["kind"], e["size"]) for e in shown["results"]] == [("a.bin", "file", 5)]
    assert ada.post("files:move", {"path": "data/a.bin", "to": "b.bin"}).status_code == 204
    assert ada.client.delete("/api/v1/files/content?path=data", headers=ada.headers).status_code == 204
    assert listed(ada) == ["b.bin"] and (home / "b.bin").read_bytes() == b"hello"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other accounts")
def test_what_is_sent_belongs_to_the_person_and_the_team(ada, cast, home, store):
    send(ada, "mine", b"1")
    send(ada, "ours", b"1", place="team:nlp")
    mine, ours = (home / "mine").stat(), (store / f"team/{cast.nlp.gid}/ours").stat()
    assert (mine.st_uid, mine.st_gid, home.stat().st_mode & 0o777) == (cast.ada.uid, cast.nlp.gid, 0o700)
    assert (ours.st_uid, ours.st_gid, ours.st_mode & 0o777) == (cast.ada.uid, cast.nlp.gid, 0o660)


def test_after_a_break_it_goes_on_where_it_ended(ada, home):
    id = begin(ada, "model.bin", 10).json()["id"]
    assert piece(ada, id, 0, b"01234").json()["offset"] == 5
    assert listed(ada) == [] and not (home / "model.bin").exists()
    asked = ada.get(f"files/uploads/{id}")
    assert (asked.json()["offset"], asked["Upload-Offset"], asked.json()["done"]) == (5, "5", False)
    assert piece(ada, id, 5, b"56789").json()["done"] is True
    assert (home / "model.bin").read_bytes() == b"0123456789"
    assert not [name for name in os.listdir(home) if name.startswith(PART)]


@pytest.mark.parametrize("offset", [0, 4, 6, 10**17])
def test_a_piece_for_another_place_is_refused_with_the_right_one(ada, offset):
    id = begin(ada, "a", 10).json()["id"]
    piece(ada, id, 0, b"01234")
    refused = piece(ada, id, offset, b"x")
    assert code_of(refused, 409) == "wrong_offset" and refused.json()["params"]["offset"] == 5


@pytest.mark.parametrize("said", ["", "-1", "x", "1e3", "9" * 30, "٣"])
def test_an_offset_that_is_none_is_told_so(ada, said):
    id = begin(ada, "a", 10).json()["id"]
    headers = {**ada.headers, "Upload-Offset": said.encode().decode("latin-1")}
    answer = ada.client.patch(f"/api/v1/files/uploads/{id}", b"x", content_type=PIECE, headers=headers)
    assert code_of(answer, 400) == "invalid_input"


def test_more_than_was_said_leaves_nothing_of_the_piece(ada, home):
    id = begin(ada, "a", 4).json()["id"]
    piece(ada, id, 0, b"12")
    assert code_of(piece(ada, id, 2, b"345"), 409) == "upload_too_long"
    assert ada.get(f"files/uploads/{id}").json()["offset"] == 2
    assert piece(ada, id, 2, b"34").json()["done"] and (home / "a").read_bytes() == b"1234"


def test_a_piece_above_the_limit_is_refused_whole(ada, monkeypatch):
    monkeypatch.setattr("portal.api.files.uploads.CHUNK_BYTES", 1000)
    id = begin(ada, "a", 5000).json()["id"]
    assert code_of(piece(ada, id, 0, b"x" * 1001), 413) == "too_large"
    lying = piece(ada, id, 0, b"x" * 2000, **{"Content-Length": "10"})
    assert lying.status_code in {200, 413}  # a server hands over no more than was said: 10 bytes, or refused
    assert ada.get(f"files/uploads/{id}").json()["offset"] in {0, 10}


def test_an_empty_file_is_there_at_once(ada, home):
    made = begin(ada, "empty", 0)
    assert made.status_code == 201 and made.json()["done"] and (home / "empty").read_bytes() == b""


def test_only_one_piece_of_an_upload_is_written_at_a_time(ada, cast, home):
    id = begin(ada, "a", 10).json()["id"]
    part = next(home.glob(f"{PART}*"))
    with open(part, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert code_of(piece(ada, id, 0, b"x"), 409) == "upload_busy"
    assert piece(ada, id, 0, b"x").status_code == 200


def test_a_name_that_is_taken_is_told_before_and_at_the_end(ada, home):
    send(ada, "a", b"old")
    assert code_of(begin(ada, "a", 3), 409) == "name_taken"
    id = begin(ada, "b", 3).json()["id"]
    send(ada, "b", b"other")
    assert code_of(piece(ada, id, 0, b"new"), 409) == "name_taken"
    ada.post("files:move", {"path": "b", "to": "c"})
    assert piece(ada, id, 3, b"").json()["done"] and (home / "b").read_bytes() == b"new"
    assert send(ada, "a", b"new", replace=True).json()["done"] and (home / "a").read_bytes() == b"new"


def test_what_does_not_fit_is_refused_at_the_start(ada, settings):
    settings.TESSERA_HOME_BYTES = 1_000_000
    refused = begin(ada, "a", 2_000_000)
    assert code_of(refused, 409) == "no_room" and "1 MB" in refused.json()["detail"]
    assert begin(ada, "a", 600_000).status_code == 201
    assert code_of(begin(ada, "b", 600_000), 409) == "no_room"  # the first is promised its room
    settings.TESSERA_HOME_BYTES = 0
    assert begin(ada, "b", 600_000).status_code == 201


def test_a_place_that_filled_up_meanwhile_refuses_the_next_piece(ada, home, settings):
    settings.TESSERA_HOME_BYTES = 1_000_000
    id = begin(ada, "a", 100_000).json()["id"]
    assert piece(ada, id, 0, b"x" * 50_000).status_code == 200
    (home / "by-a-job").write_bytes(os.urandom(2_000_000))
    PlaceUsage.objects.update(bytes=2_000_000, measured_at=timezone.now())
    refused = piece(ada, id, 50_000, b"x" * 50_000)
    assert code_of(refused, 409) == "no_room" and "Delete something first" in refused.json()["detail"]
    (home / "by-a-job").unlink()
    PlaceUsage.objects.update(measured_at=timezone.now() - timedelta(minutes=1))  # so that it looks again
    assert piece(ada, id, 50_000, b"x" * 50_000).json()["done"]


def test_what_a_measurement_saw_is_not_counted_twice(ada, cast, settings):
    settings.TESSERA_HOME_BYTES = 1_000_000
    id = begin(ada, "a", 600_000).json()["id"]
    piece(ada, id, 0, os.urandom(400_000))
    area = find_file_area(cast.ada, "home")
    usage.measure_usage(area.area_id, within_s=5)
    used = usage.load_used(area)
    assert 400_000 <= used.bytes < 450_000 and 600_000 <= used.promised < 650_000
    assert piece(ada, id, 400_000, os.urandom(200_000)).json()["done"]
    assert 600_000 <= usage.load_used(area).bytes < 650_000


def test_what_is_deleted_is_free_at_once_and_nothing_is_walked_for_it(ada, cast, home, settings, monkeypatch):
    settings.TESSERA_HOME_BYTES = 1_000_000
    send(ada, "measured", os.urandom(300_000))
    area = find_file_area(cast.ada, "home")
    usage.measure_usage(area.area_id, within_s=5)
    send(ada, "sent-since", os.urandom(300_000))
    monkeypatch.setattr(usage, "measure_area", None)
    for name, left in (("sent-since", 300_000), ("measured", 0)):
        ada.client.delete(f"/api/v1/files/content?path={name}", headers=ada.headers)
        assert left <= usage.load_used(area).bytes < left + 20_000
    assert begin(ada, "more", 950_000).status_code == 201
    PlaceUsage.objects.update(bytes=10)
    usage.record_removal(area=area, freed_bytes=10_000)  # more than anybody counted
    assert usage.load_used(area).bytes == 0


def test_looking_and_sending_measure_nothing_twice(ada, home, monkeypatch):
    assert ada.get("files/places").status_code == 200
    monkeypatch.setattr(usage, "measure_area", None)
    assert ada.get("files/places").status_code == 200
    assert send(ada, "a", b"x").json()["done"]


def test_more_than_the_disk_has_is_refused(ada, settings):
    settings.TESSERA_HOME_BYTES = 0
    assert code_of(begin(ada, "a", 2**49), 409) == "disk_full"


def test_a_full_disk_leaves_the_upload_where_it_was(ada, monkeypatch):
    id = begin(ada, "a", 10).json()["id"]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    assert code_of(piece(ada, id, 0, b"12345"), 409) == "disk_full"
    monkeypatch.undo()
    assert ada.get(f"files/uploads/{id}").json()["offset"] == 0


def test_uploads_that_nobody_went_on_with_are_swept(ada, home):
    old, fresh = (begin(ada, name, 10).json()["id"] for name in ("old", "fresh"))
    Upload.objects.filter(uuid=old).update(touched_at=timezone.now() - timedelta(hours=25))
    assert uploads.sweep_uploads() == 1
    assert ada.get(f"files/uploads/{old}").status_code == 404 and ada.get(f"files/uploads/{fresh}").status_code == 200
    assert len(list(home.glob(f"{PART}*"))) == 1


def test_what_was_sent_and_has_no_row_is_thrown_away_by_the_beat(ada, home):
    for name in ("old", "fresh"):
        begin(ada, name, 10)
        Upload.objects.all().delete()
    parts = sorted(home.glob(f"{PART}*"))
    os.utime(parts[0], (0, 0))
    PlaceUsage.objects.update(measured_at=timezone.now() - timedelta(hours=1))
    assert usage.measure_stale() == 1
    assert list(home.glob(f"{PART}*")) == parts[1:]


KILLED = """
import os, sys, uuid
import django
django.setup()
from accounts.models import User
from files.uploads import append_upload

def pieces():
    yield b"567"
    os.kill(os.getpid(), 9)

append_upload(user=User.objects.get(username="ada"), uuid=uuid.UUID(sys.argv[1]), offset=5, pieces=pieces())
"""


@pytest.mark.django_db(transaction=True)
def test_an_upload_goes_on_after_the_web_process_was_killed_in_a_piece(ada, home, settings):
    id = begin(ada, "model.bin", 10).json()["id"]
    piece(ada, id, 0, b"01234")
    environment = {"PGDATABASE": settings.DATABASES["default"]["NAME"], "TESSERA_FILES": str(settings.TESSERA_FILES)}
    web = subprocess.run([sys.executable, "-c", KILLED, id], env=os.environ | environment, check=False)
    assert web.returncode == -signal.SIGKILL and not (home / "model.bin").exists()
    refused = piece(ada, id, 5, b"56789")
    offset = ada.get(f"files/uploads/{id}").json()["offset"]  # what had come of the piece is there and in its place
    assert code_of(refused, 409) == "wrong_offset" and refused.json()["params"]["offset"] == offset == 8
    assert piece(ada, id, 8, b"89").json()["done"] and (home / "model.bin").read_bytes() == b"0123456789"


def test_an_upload_is_given_up_and_leaves_nothing(ada, home):
    id = begin(ada, "a", 10).json()["id"]
    assert ada.delete(f"files/uploads/{id}").status_code == 204
    assert os.listdir(home) == [] and ada.get(f"files/uploads/{id}").status_code == 404
    id = begin(ada, "b", 10).json()["id"]
    next(home.glob(f"{PART}*")).unlink()  # by a job
    assert piece(ada, id, 0, b"x").status_code == 404 and ada.delete(f"files/uploads/{id}").status_code == 204


def test_a_person_has_so_many_uploads_at_once(ada, monkeypatch):
    monkeypatch.setattr(uploads, "OPEN_MOST", 2)
    assert [begin(ada, str(n), 1).status_code for n in range(3)] == [201, 201, 409]


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a/../../x", "..", "x\0y", "n" * 256, "a//b", f"{PART}x", "\ud800"]
)
def test_a_path_that_is_none_is_refused_at_every_door(ada, path):
    if "\ud800" not in path:
        assert code_of(ada.get("files", {"path": path}), 400) == "invalid_input"
        assert code_of(ada.get("files/content", {"path": path}), 400) == "invalid_input"
    assert code_of(begin(ada, path, 1), 400) == "invalid_input"
    assert code_of(ada.post("files:mkdir", {"path": path}), 400) == "invalid_input"
    assert code_of(ada.post("files:move", {"path": path, "to": "x"}), 400) == "invalid_input"


@pytest.mark.parametrize("raw", ["..%2f..%2fetc%2fpasswd", "%2e%2e/x", "%2Fetc%2Fpasswd", "a/%2e%2e/%2e%2e/x"])
def test_an_encoded_climb_is_refused_after_the_one_decoding(ada, raw):
    assert ada.client.get(f"/api/v1/files?path={raw}", headers=ada.headers).status_code == 400


@pytest.mark.parametrize("raw", ["..%252f..%252fetc%252fpasswd", "%252e%252e", "..;/x", "..%5c..%5cx", "%ff"])
def test_what_is_encoded_twice_is_only_an_odd_name(ada, raw):
    assert ada.client.get(f"/api/v1/files?path={raw}", headers=ada.headers).status_code == 404


def test_a_link_to_passwd_is_never_read(ada, home):
    (home / "passwd").symlink_to("/etc/passwd")
    (home / "up").symlink_to("../..")
    assert code_of(ada.get("files/content", {"path": "passwd"}), 403) == "leads_outside"
    assert code_of(ada.get("files", {"path": "up"}), 403) == "leads_outside"
    assert code_of(begin(ada, "up/x", 1), 403) == "leads_outside"


def test_eve_finds_nothing_of_the_team(ada, eve):
    send(ada, "plan", b"secret", place="team:nlp")
    id = begin(ada, "more", 5, place="team:nlp").json()["id"]
    for place in ("team:nlp", "team:none", "team:", "ada", "home:ada", ""):
        status = 400 if place == "" else 404
        assert eve.get("files", {"place": place}).status_code == status
        assert eve.get("files/content", {"place": place, "path": "plan"}).status_code == status
        assert begin(eve, "x", 1, place=place).status_code == status
        assert eve.post("files:move", {"place": place, "path": "plan", "to": "x"}).status_code == status
        assert eve.post("files:mkdir", {"place": place, "path": "x"}).status_code == status
        gone = eve.client.delete(f"/api/v1/files/content?place={place}&path=plan", headers=eve.headers)
        assert gone.status_code == status
    assert listed(eve) == [] and eve.get("files/content", {"path": "plan"}).status_code == 404
    assert eve.get(f"files/uploads/{id}").status_code == piece(eve, id, 0, b"x").status_code == 404
    assert eve.delete(f"files/uploads/{id}").status_code == 404
    assert listed(ada, place="team:nlp") == ["plan"]


def test_an_admin_has_no_way_into_a_team_of_others(cast):
    root = make.user("rita", platform_role="admin")
    api = Api(make.token(root))
    assert api.get("files", {"place": "team:nlp"}).status_code == 404


def test_a_viewer_reads_and_does_not_write(ada, cast):
    send(ada, "plan", b"text", place="team:nlp")
    viewer = Api(make.token(make.user("vic", cast.nlp, role=TeamRole.VIEWER)))
    assert listed(viewer, place="team:nlp") == ["plan"]
    assert begin(viewer, "x", 1, place="team:nlp").status_code == 403
    assert viewer.post("files:mkdir", {"place": "team:nlp", "path": "x"}).status_code == 403
    assert viewer.post("files:move", {"place": "team:nlp", "path": "plan", "to": "x"}).status_code == 403
    gone = viewer.client.delete("/api/v1/files/content?place=team:nlp&path=plan", headers=viewer.headers)
    assert gone.status_code == 403 and begin(viewer, "x", 1).status_code == 201


def test_who_leaves_the_team_cannot_go_on_sending(ada, cast):
    id = begin(ada, "a", 5, place="team:nlp").json()["id"]
    cast.ada.memberships.all().delete()
    assert piece(ada, id, 0, b"x").status_code == 404


def test_a_token_needs_the_scope(cast):
    reader = Api(make.token(cast.ada, "files:read"))
    assert listed(reader) == [] and begin(reader, "a", 1).status_code == 403
    other = Api(make.token(cast.ada, "jobs:read"))
    assert other.get("files").status_code == 403


def test_how_full_each_place_is(ada, settings):
    settings.TESSERA_TEAM_BYTES = 0
    send(ada, "a", b"x" * 5000)
    home, team = ada.get("files/places").json()["results"]
    assert (home["place"], home["limit_bytes"], home["may_write"]) == ("home", settings.TESSERA_HOME_BYTES, True)
    assert home["bytes"] >= 5000 and (team["place"], team["limit_bytes"]) == ("team:nlp", None)


def test_an_unknown_upload_is_not_found(ada):
    assert piece(ada, uuid4(), 0, b"x").status_code == 404


@pytest.mark.django_db(transaction=True)
async def test_everything_leaves_as_a_download(committed, settings):
    ada, home = committed
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    for name in ("evil.svg", "evil.html", "gif.gif", 'quo"te.txt', "new\nline\u202e.txt", "ü.txt"):
        (home / name).write_bytes(b"GIF89a/*" + svg if name == "gif.gif" else svg)
        (home / name).chmod(0o644)
        response, body = await read(ada, name)
        assert response.status_code == 200 and svg in body
        assert response["Content-Type"] == "application/octet-stream"
        assert response["Content-Disposition"].startswith("attachment; filename")
        assert response["X-Content-Type-Options"] == "nosniff"
        assert (
            "sandbox" in response["Content-Security-Policy"] and "script-src" not in response["Content-Security-Policy"]
        )
        assert response["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.django_db(transaction=True)
async def test_a_folder_leaves_as_one_archive(committed, settings):
    ada, home = committed
    (home / "runs/deep").mkdir(parents=True)
    (home / "runs/deep/large").write_bytes(b"x" * 300_000)
    (home / f"runs/{PART}half").write_bytes(b"half")
    response, body = await read(ada, "runs", at="archive")
    assert response["Content-Disposition"] == 'attachment; filename="runs.tar"' and "sandbox" in str(response.headers)
    assert (response["Content-Type"], response["X-Content-Type-Options"]) == ("application/octet-stream", "nosniff")
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        assert archive.getnames() == ["runs", "runs/deep", "runs/deep/large"]
        assert archive.extractfile("runs/deep/large").read() == b"x" * 300_000
    whole, body = await read(ada, "", at="archive")
    assert 'filename="ada.tar"' in whole["Content-Disposition"] and b"ada/runs/deep/large" in body


@pytest.mark.django_db(transaction=True)
async def test_an_archive_is_only_for_those_who_may_and_of_folders(committed):
    ada, home = committed
    (home / "file").touch()
    (home / "out").symlink_to("/etc")
    for place, path, status in (
        ("home", "file", 404),
        ("home", "none", 404),
        ("home", "out", 403),
        ("team:x", "", 404),
    ):
        assert (await _asgi(ada, {"place": place, "path": path}, {}, at="archive")).status_code == status


@pytest.mark.django_db(transaction=True)
async def test_ranges(committed):
    ada, home = committed
    (home / "a").write_bytes(bytes(range(100)))
    (home / "a").chmod(0o644)
    whole, body = await read(ada, "a")
    tag = whole["ETag"]
    assert body == bytes(range(100)) and whole["Accept-Ranges"] == "bytes" and whole["Content-Length"] == "100"
    for asked, start, end in (
        ("bytes=10-19", 10, 20),
        ("bytes=90-", 90, 100),
        ("bytes=-5", 95, 100),
        ("bytes=0-999", 0, 100),
    ):
        part, body = await read(ada, "a", Range=asked, If_Range=tag)
        assert (part.status_code, body) == (206, bytes(range(start, end)))
        assert part["Content-Range"] == f"bytes {start}-{end - 1}/100" and part["Content-Length"] == str(end - start)
    for asked in ("bytes=5-1", "bytes=1-2,4-5", "lines=1-2", "bytes=-", "bytes=x"):
        assert (await read(ada, "a", Range=asked))[0].status_code == 200
    assert (await read(ada, "a", Range="bytes=1-2", If_Range='"other"'))[0].status_code == 200
    outside = await _asgi(ada, {"path": "a"}, {"Range": "bytes=100-"})
    assert (outside.status_code, outside["Content-Range"]) == (416, "bytes */100")
    assert (outside["Content-Type"], json.loads(outside.content)["code"]) == (
        "application/problem+json",
        "range_outside",
    )


@pytest.mark.django_db(transaction=True)
async def test_a_large_file_leaves_piece_by_piece(committed):
    ada, home = committed
    (home / "large").touch(mode=0o644)
    os.truncate(home / "large", 40 * 2**20)
    response = await _asgi(ada, {"path": "large"}, {})
    sizes = [len(piece) async for piece in response.streaming_content]
    assert sum(sizes) == 40 * 2**20 and max(sizes) <= 256 * 1024
