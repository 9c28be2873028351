"""Code is sent once, looked through and never unpacked here, and belongs to who sent it."""

import gzip
import hashlib
import io
import tarfile

import pytest

from jobs.models import CodePack
from portal.api.http import bodies

pytestmark = pytest.mark.django_db
GZIP = "application/gzip"


@pytest.fixture(autouse=True)
def store(tmp_path, settings):
    settings.TESSERA_CODE = tmp_path / "code"
    return settings.TESSERA_CODE


def pack(*members: tuple[str, bytes], link: str = "") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        if link:
            info = tarfile.TarInfo("link")
            info.type, info.linkname = tarfile.SYMTYPE, link
            tar.addfile(info)
    return made.getvalue()


def test_an_upload_is_kept_under_its_hash_and_a_job_may_name_it(ada, store):
    sent = pack(("train.py", b"print(1)\n"))
    made = ada.post("code", sent, type=GZIP)
    digest = "sha256:" + hashlib.sha256(sent).hexdigest()
    assert (made.status_code, made.json()) == (201, {"digest": digest, "files": 1, "bytes": 9})
    assert (store / f"{digest[7:]}.tar.gz").read_bytes() == sent
    assert ada.get(f"code/{digest}").json() == made.json()
    assert ada.post("jobs", {"run": "python train.py", "code": digest}).status_code == 201


def test_the_same_upload_is_kept_once(ada, bob, store):
    sent = pack(("a", b"1"))
    assert [api.post("code", sent, type=GZIP).status_code for api in (ada, ada, bob)] == [201] * 3
    assert len(list(store.iterdir())) == 1 and CodePack.objects.count() == 2


def test_the_strangers_upload_is_as_unknown_as_none(ada, eve):
    digest = ada.post("code", pack(("a", b"1")), type=GZIP).json()["digest"]
    assert eve.get(f"code/{digest}").status_code == 404
    assert eve.client.head(f"/api/v1/code/{digest}", headers=eve.headers).status_code == 404
    assert ada.client.head(f"/api/v1/code/{digest}", headers=ada.headers).status_code == 200
    refused = eve.post("jobs", {"run": "true", "code": digest})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (400, "/code")


@pytest.mark.parametrize(
    "sent",
    [
        b"", b"no gzip at all", gzip.compress(b"no tar"), pack(("../../etc/passwd", b"x")), pack(("/etc/passwd", b"x")),
        pack(("a", b"1"), link="/etc/passwd"), pack(("a", b"1"), ("a", b"2")), pack(("zeros", bytes(4_000_000))),
    ],
    ids=["empty", "text", "no tar", "climbs", "absolute", "link out", "twice", "bomb"],
)  # fmt: skip
def test_a_pack_that_may_not_be_is_refused_in_words_and_not_kept(ada, store, sent):
    refused = ada.post("code", sent, type=GZIP)
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["pointer"] == "/code" and refused.json()["detail"].endswith(".")
    assert list(store.iterdir()) == [] and not CodePack.objects.exists()


def test_too_much_is_refused_while_it_comes_and_nothing_stays(ada, store, settings, monkeypatch):
    settings.CODE_MAX_BYTES = 1000
    assert ada.post("code", bytes(1001), type=GZIP).status_code == 413
    monkeypatch.setattr(bodies, "says_length", lambda request: 0)  # as if the client had not said how much it sends
    assert ada.post("code", bytes(100_000), type=GZIP).status_code == 413
    assert not store.exists() or list(store.iterdir()) == []


@pytest.mark.parametrize("digest", ["sha256:xyz", "..%2f..%2fetc", "sha256:" + "A" * 64])
def test_another_shape_of_digest_is_no_address(ada, digest):
    assert ada.get(f"code/{digest}").status_code == 404
