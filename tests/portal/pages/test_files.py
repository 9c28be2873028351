"""The pages of people's files: what they show, what they never show, and whose they are."""

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from accounts.models import TeamRole
from files.file_areas import find_file_area
from files.models import PlaceUsage
from runtimes.storage.areas import get_area_path
from tests import make

pytestmark = pytest.mark.django_db
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


@pytest.fixture(autouse=True)
def store(tmp_path, settings):
    settings.TESSERA_FILES = tmp_path / "files"
    return settings.TESSERA_FILES


@pytest.fixture
def cast(db):
    return make.cast()


@pytest.fixture
def ada(cast, settings):
    client = Client(headers={"Origin": settings.TESSERA_PUBLIC_URL})
    client.force_login(cast.ada)
    return client


@pytest.fixture
def home(cast, store):
    return folder_of(cast.ada, "home", store)


def folder_of(person, place, store):
    area = find_file_area(person, place)
    area.store.list_folder()
    return get_area_path(store, area.area_id)


def write(folder, name, data):
    (folder / name).write_bytes(data)
    (folder / name).chmod(0o666)


def body_of(answer):
    async def read():
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(read)()


def test_an_empty_home_says_how_to_begin(ada):
    page = ada.get("/files/").content.decode()
    assert "This folder is empty" in page and "tessera files put FILE" in page and "0 B of 20 GB used" in page


def test_a_folder_shows_names_sizes_and_the_way_to_it(ada, home):
    (home / "data").mkdir(mode=0o777)
    write(home / "data", "a<b>.txt", b"x" * 1500)
    page = ada.get("/files/", {"path": "data"}).content.decode()
    assert "a&lt;b&gt;.txt" in page and "1.5 kB" in page and '<a href="/files/"><bdi>My home</bdi></a>' in page
    assert ada.get("/files/", {"path": "none"}).status_code == 404


def test_a_name_that_hides_something_is_written_out(ada, home):
    write(home, "evil\u202etxt.exe", b"")
    page = ada.get("/files/").content.decode()
    assert "evil\\u202etxt.exe" in page and "<bdi>evil\u202e" not in page


def test_text_is_shown_as_text(ada, home):
    write(home, "page.html", b"<script>alert('x')</script>\n\x1b[31mred \xe2\x80\xaeover")
    page = ada.get("/files/view", {"path": "page.html"}).content.decode()
    assert "&lt;script&gt;alert(&#x27;x&#x27;)" in page and "<script>alert" not in page
    assert "\\x1b[31mred \\u202eover" in page


def test_only_the_beginning_of_a_long_text_is_shown(ada, home):
    write(home, "log", b"a" * 300_000)
    page = ada.get("/files/view", {"path": "log"}).content.decode()
    assert page.count("a" * 262_144) == 1 and "a" * 262_145 not in page and "Download the file for the rest" in page


def test_a_raster_image_is_a_picture_and_nothing_else(ada, home):
    write(home, "a.svg", PNG)  # its bytes say what it is, not its name
    assert (
        '<img src="/files/image?place=home&amp;path=a.svg"'
        in ada.get("/files/view", {"path": "a.svg"}).content.decode()
    )
    answer = ada.get("/files/image", {"path": "a.svg"})
    assert (answer.status_code, answer["Content-Type"]) == (200, "image/png")
    assert answer["X-Content-Type-Options"] == "nosniff" and "sandbox" in answer["Content-Security-Policy"]
    assert answer["Cross-Origin-Resource-Policy"] == "same-origin"
    assert body_of(answer)
    visit = ada.get("/files/image", {"path": "a.svg"}, headers={"Sec-Fetch-Dest": "document"})
    assert visit.status_code == 302 and visit["Location"].startswith("/files/view?")


@pytest.mark.parametrize("data", [SVG, b"<html><script>alert(1)</script>", b"", b"%PDF-1.7", b"BM" + b"\0" * 30])
def test_nothing_else_is_ever_a_picture(ada, home, data):
    write(home, "picture.png", data)
    assert ada.get("/files/image", {"path": "picture.png"}).status_code == 409
    assert '<img src="/files/image' not in ada.get("/files/view", {"path": "picture.png"}).content.decode()


def test_what_is_neither_text_nor_picture_is_offered_as_a_download(ada, home):
    write(home, "model.bin", bytes(range(256)) * 10)
    page = ada.get("/files/view", {"path": "model.bin"}).content.decode()
    assert "This is neither text nor an image" in page and "/files/content?place=home&amp;path=model.bin" in page


ACTIVE = "html htm xhtml shtml mht mhtml svg svgz xml xsl rss js mjs wasm css json pdf swf jar zip hta url ics vcf gif"


@pytest.mark.parametrize("ending", [*ACTIVE.split(), ""])
def test_a_download_is_closed(ada, home, ending):
    """Whatever it is called, and although it is a document and a picture and a script at once."""
    name = f"evil.{ending}" if ending else "evil"
    write(home, name, b"GIF89a=1/*" + SVG + b"<html><script>alert(1)</script>*/")
    answer = ada.get("/files/content", {"path": name})
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"] == f'attachment; filename="{name}"'
    assert answer["Content-Security-Policy"] == "default-src 'none'; sandbox; frame-ancestors 'none'"
    assert answer["X-Content-Type-Options"] == "nosniff" and "private" in answer["Cache-Control"]
    assert answer["Cross-Origin-Resource-Policy"] == "same-origin" and b"<script>" in body_of(answer)


def test_a_folder_is_downloaded_as_an_archive_and_as_closed(ada, home):
    (home / "evil.html").mkdir()
    write(home / "evil.html", "index.html", SVG)
    assert "/files/archive?place=home&amp;path=evil.html" in ada.get("/files/").content.decode()
    answer = ada.get("/files/archive", {"path": "evil.html"})
    assert answer["Content-Type"] == "application/octet-stream" and answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Disposition"] == 'attachment; filename="evil.html.tar"'
    assert answer["Content-Security-Policy"] == "default-src 'none'; sandbox; frame-ancestors 'none'"
    assert SVG in body_of(answer)
    answer.close()


def test_folders_are_made_renamed_and_deleted(ada, home):
    assert ada.post("/files/mkdir", {"name": "runs"}).status_code == 302
    assert ada.post("/files/move", {"name": "runs", "to": "old"}).status_code == 302
    assert [path.name for path in home.iterdir()] == ["old"]
    page = ada.post("/files/delete", {"name": "old"}, follow=True).content.decode()
    assert "“old” is deleted." in page and list(home.iterdir()) == []


@pytest.mark.parametrize("name", ["..", "../x", "", "a\0b", "n" * 300])
def test_a_name_that_is_none_is_told_and_does_nothing(ada, home, name):
    write(home, "kept", b"")
    for address, fields in (
        ("mkdir", {"name": name}),
        ("move", {"name": "kept", "to": name}),
        ("delete", {"name": name}),
    ):
        page = ada.post(f"/files/{address}", fields, follow=True)
        assert page.status_code == 200 and b"This name is not valid" in page.content
    assert [path.name for path in home.iterdir()] == ["kept"]


def test_a_team_folder_is_the_teams(ada, cast, store, settings):
    ours = folder_of(cast.ada, "team:nlp", store)
    write(ours, "plan.txt", b"secret-plan")
    assert b"plan.txt" in ada.get("/files/team/nlp/").content
    eve = Client(headers={"Origin": settings.TESSERA_PUBLIC_URL})
    eve.force_login(cast.eve)
    assert eve.get("/files/team/nlp/").status_code == 404
    for address in ("view", "content", "image"):
        assert eve.get(f"/files/{address}", {"place": "team:nlp", "path": "plan.txt"}).status_code == 404
    for address in ("mkdir", "move", "delete"):
        fields = {"place": "team:nlp", "name": "plan.txt", "to": "x"}
        assert eve.post(f"/files/{address}", fields).status_code == 404
    assert b"nlp" not in eve.get("/files/").content
    viewer = Client(headers={"Origin": settings.TESSERA_PUBLIC_URL})
    viewer.force_login(make.user("vic", cast.nlp, role=TeamRole.VIEWER))
    page = viewer.get("/files/team/nlp/").content.decode()
    assert "plan.txt" in page and 'data-opens="delete"' not in page and "files-input" not in page
    assert viewer.post("/files/delete", {"place": "team:nlp", "name": "plan.txt"}).status_code == 403


def test_a_place_that_is_nearly_full_says_so(ada, cast, home, settings):
    settings.TESSERA_HOME_BYTES = 1000
    PlaceUsage.objects.create(kind="home", number=cast.ada.uid, bytes=840)
    assert "nearly full" not in ada.get("/files/").content.decode()
    PlaceUsage.objects.update(bytes=850)
    page = ada.get("/files/").content.decode()
    assert "nearly full" in page and "850 B of 1 kB used" in page


def test_a_folder_of_many_files_comes_in_pages(ada, home, monkeypatch):
    monkeypatch.setattr("portal.pages.files.views.PAGE_ROWS", 2)
    for name in ("a", "b", "c"):
        write(home, name, b"")
    assert b"<bdi>c</bdi>" not in ada.get("/files/").content
    assert b"<bdi>c</bdi>" in ada.get("/files/", {"page": "2"}).content


def test_a_link_to_a_folder_opens_the_folder(ada, home):
    (home / "data").mkdir(mode=0o777)
    (home / "latest").symlink_to("data")
    assert ada.get("/files/view", {"path": "latest"})["Location"] == "/files/?path=latest"
    assert ada.get("/files/", {"path": "latest"}).status_code == 200
