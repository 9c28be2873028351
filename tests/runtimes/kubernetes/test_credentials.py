"""Whom a kubeconfig names, what is refused in words, and when credentials are renewed."""

import asyncio
import base64
import json
import os
import ssl
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runtimes.contract.errors import Unavailable
from runtimes.kubernetes.api import credentials
from runtimes.kubernetes.api.async_client import open_client
from runtimes.kubernetes.api.client import ApiServer
from runtimes.kubernetes.api.credentials import EARLY_S, READ_AGAIN_S, RETRY_S, BadKubeconfig, CredentialSource
from tests.runtimes.kubernetes.scripted import ScriptedServer

SERVER = "https://10.0.0.1:6443"


def config(path: Path, cluster=(), user: dict | None = None, **rest) -> Path:
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"{SERVER}/", **dict(cluster)}}],
        "users": [{"name": "u", "user": user or {"token": "secret"}}],
    }
    path.write_text(json.dumps(document | rest))
    return path


def token_of(source: CredentialSource) -> str:
    return source.current().configuration.get_api_key_with_prefix("BearerToken")


@pytest.fixture
def now(monkeypatch) -> list[float]:
    """What the clock says, to be moved."""
    now = [time.time()]
    monkeypatch.setattr(credentials, "time", SimpleNamespace(time=lambda: now[0]))
    return now


class Plugin:
    """A program of a kubeconfig. answer: what it prints; runs: how often it was started."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.said, self.count = folder / "answer", folder / "runs"
        text = "import sys\nopen(sys.argv[2], 'a').write('x')\nsys.stdout.write(open(sys.argv[1]).read())"
        args = ["-c", text, str(self.said), str(self.count)]
        version = "client.authentication.k8s.io/v1"
        self.user = {"exec": {"apiVersion": version, "command": sys.executable, "args": args}}

    def answer(self, lives_s: float | None = None, **status: str) -> None:
        if lives_s is not None:
            status["expirationTimestamp"] = f"{datetime.now(UTC) + timedelta(seconds=lives_s):%Y-%m-%dT%H:%M:%SZ}"
        kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        self.said.write_text(json.dumps({**kind, "status": status}))

    def fail(self) -> None:
        self.said.unlink()

    @property
    def runs(self) -> int:
        return self.count.stat().st_size

    def source(self, **cluster: str) -> CredentialSource:
        return CredentialSource(config(self.folder / "config", cluster, self.user))


@pytest.fixture
def plugin(tmp_path) -> Plugin:
    return Plugin(tmp_path)


def test_a_server_and_a_token(tmp_path):
    source = CredentialSource(config(tmp_path / "config"))
    assert (source.current().configuration.host, token_of(source)) == (SERVER, "Bearer secret")


def test_a_token_in_a_file_is_read_again(tmp_path, now):
    (tmp_path / "token").write_text("one\n")
    source = CredentialSource(config(tmp_path / "config", user={"tokenFile": "token"}))
    (tmp_path / "token").write_text("two\n")
    assert token_of(source) == "Bearer one"
    now[0] += READ_AGAIN_S
    assert token_of(source) == "Bearer two"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cluster": {"server": "http://10.0.0.1"}}, "only https"),
        ({"cluster": {"certificate-authority": "missing.crt"}}, "cannot be used"),
        ({"cluster": {"certificate-authority-data": "***"}}, "cannot be used"),
        ({"current-context": "elsewhere"}, "cannot be understood: .* name elsewhere$"),
        ({"contexts": None}, "cannot be understood"),
        ({"clusters": "none"}, "cannot be understood"),
        ({"user": {"token": None, "client-key-data": "QUJD"}}, "cannot be used: Invalid.* Expected key token$"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path, change, words):
    with pytest.raises(BadKubeconfig, match=words):
        CredentialSource(config(tmp_path / "config", **change))


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(BadKubeconfig, match="cannot be read: No such file"):
        CredentialSource(tmp_path / "config")


def test_outside_a_cluster_a_kubeconfig_is_needed(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadKubeconfig, match="set KUBECONFIG"):
        CredentialSource()


def test_several_kubeconfigs_are_one(tmp_path):
    users = [{"name": "u", "user": {"token": "of the second"}}]
    first = config(tmp_path / "first", users=[])
    second = config(tmp_path / "second", contexts=[], users=users)
    source = CredentialSource(f"{tmp_path / 'missing'}{os.pathsep}{first}{os.pathsep}{second}")
    assert token_of(source) == "Bearer of the second"


def test_a_server_is_trusted_unseen_only_where_the_kubeconfig_says_so(tmp_path):
    strict = CredentialSource(config(tmp_path / "config")).current().tls
    lax = CredentialSource(config(tmp_path / "config", {"insecure-skip-tls-verify": True})).current().tls
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (lax.verify_mode, lax.check_hostname) == (ssl.CERT_NONE, False)


def test_a_proxy_and_a_name_for_tls_are_taken_from_the_kubeconfig(tmp_path, monkeypatch):
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    cluster = {"proxy-url": "http://10.0.0.9:3128", "tls-server-name": "kubernetes"}
    found = CredentialSource(config(tmp_path / "config", cluster)).current()
    assert (found.proxy, found.configuration.tls_server_name) == ("http://10.0.0.9:3128", "kubernetes")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
    assert CredentialSource(config(tmp_path / "config", cluster)).current().proxy is None


def test_a_programs_token_is_renewed_before_it_expires(plugin, now):
    plugin.answer(30, token="one")
    source = plugin.source()
    plugin.answer(60, token="two")
    now[0] += 30 - EARLY_S - 2
    assert (token_of(source), plugin.runs) == ("Bearer one", 1)
    now[0] += 3
    assert [token_of(source) for _ in range(3)] == ["Bearer two"] * 3 and plugin.runs == 2


def test_a_token_that_the_server_refuses_is_renewed_once_in_a_while(plugin, now):
    plugin.answer(3600, token="one")
    source = plugin.source()
    now[0] += RETRY_S
    plugin.answer(3600, token="two")
    first = source.current()
    source.report_status(first, 401)
    assert token_of(source) == "Bearer two"
    source.report_status(first, 401)  # a late answer, of one that is replaced already
    source.report_status(source.current(), 401)
    assert (token_of(source), plugin.runs) == ("Bearer two", 2)
    now[0] += RETRY_S
    assert (token_of(source), plugin.runs) == ("Bearer two", 3)
    now[0] += RETRY_S
    source.report_status(source.current(), 403)
    source.report_status(source.current(), 0)  # the network, where no certificate is shown
    assert (token_of(source), plugin.runs) == ("Bearer two", 3)


def test_a_program_that_fails_is_asked_again_and_meanwhile_the_old_token_serves(plugin, now, caplog):
    plugin.answer(30, token="one")
    source = plugin.source()
    plugin.fail()
    now[0] += 25
    assert (token_of(source), token_of(source), plugin.runs) == ("Bearer one", "Bearer one", 2)
    assert "cannot be renewed" in caplog.text and "FileNotFoundError" in caplog.text
    plugin.answer(60, token="two")
    now[0] += RETRY_S
    assert token_of(source) == "Bearer two"


def test_a_program_that_fails_from_the_first_is_said(plugin):
    with pytest.raises(Unavailable, match="gave no credentials"):
        plugin.source()


def test_a_program_runs_once_however_many_wait_for_it(plugin, now):
    plugin.answer(30, token="one")
    source = plugin.source()
    plugin.answer(60, token="two")
    now[0] += 25
    threads = [threading.Thread(target=source.current) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (token_of(source), plugin.runs) == ("Bearer two", 2)


def certificate(name: str) -> tuple[str, str]:
    """A certificate signed by itself, and its key, as text."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    kind = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, *kind)
    return made.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


def test_a_programs_certificate_is_renewed_and_its_key_lies_in_no_file(plugin, now, monkeypatch):
    folder = plugin.folder / "tmp"
    folder.mkdir()
    monkeypatch.setattr(credentials.tempfile, "tempdir", str(folder))
    for lives_s, name in ((30, "one"), (60, "two"), (90, "one")):
        text, key = certificate(name)
        plugin.answer(lives_s, clientCertificateData=text, clientKeyData=key)
        if lives_s == 30:
            source = plugin.source()
        before = source.current()
        now[0] += 25
        after = source.current()
        assert after.tls is not before.tls and list(folder.iterdir()) == []
    assert plugin.runs == 4


class DoorKeeper:
    """A server that ends the handshake of whoever does not show one certificate, as a proxy with TLS does."""

    def __init__(self, known: str, folder: Path):
        self.certificate, key = certificate("server")
        (folder / "server.pem").write_text(self.certificate + key)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "server.pem")
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(cadata=known)
        self.server = ScriptedServer((200, {"items": []}), tls=tls)


async def ask_aside(source: CredentialSource) -> int:
    client = await open_client(source)
    try:
        return len((await client.get("/api/v1/pods"))["items"])
    finally:
        await client.close()


def ask(source: CredentialSource) -> int:
    return len(ApiServer(source).call("GET", "/api/v1/pods")[1]["items"])


@pytest.mark.parametrize("way", [ask, lambda source: asyncio.run(ask_aside(source))], ids=["threads", "event loop"])
def test_a_certificate_that_is_refused_in_the_handshake_is_renewed(plugin, now, way):
    (old, old_key), (new, new_key) = certificate("old"), certificate("new")
    keeper = DoorKeeper(new, plugin.folder)
    plugin.answer(3600, clientCertificateData=old, clientKeyData=old_key)
    authority = base64.b64encode(keeper.certificate.encode()).decode()
    source = plugin.source(server=keeper.server.url, **{"certificate-authority-data": authority})
    plugin.answer(3600, clientCertificateData=new, clientKeyData=new_key)
    with pytest.raises(Unavailable):
        way(source)
    assert plugin.runs == 1
    now[0] += RETRY_S
    assert (way(source), plugin.runs) == (0, 2)
    source.close()
    keeper.server.close()


def test_a_certificate_of_the_kubeconfig_itself_lies_in_no_file(tmp_path, monkeypatch):
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(credentials.tempfile, "tempdir", str(folder))
    text, key = (base64.b64encode(each.encode()).decode() for each in certificate("me"))
    user = {"client-certificate-data": text, "client-key-data": key}
    for _ in range(2):
        CredentialSource(config(tmp_path / "config", {"certificate-authority-data": text}, user))
        assert list(folder.iterdir()) == []


def test_another_context_or_server_is_not_followed(tmp_path, now, caplog):
    path = config(tmp_path / "config")
    source = CredentialSource(path)
    there = {"name": "there", "context": {"cluster": "c2", "user": "u"}}
    here = {"name": "here", "context": {"cluster": "c", "user": "u"}}
    both = [{"name": name, "cluster": {"server": server}} for name, server in (("c", SERVER), ("c2", "https://x"))]
    config(path, contexts=[here, there], clusters=both, **{"current-context": "there"})
    now[0] += READ_AGAIN_S
    assert source.current().configuration.host == SERVER and not caplog.text
    config(path, {"server": "https://10.0.0.2:6443"}, {"token": "of another"})
    now[0] += READ_AGAIN_S
    assert (source.current().configuration.host, token_of(source)) == (SERVER, "Bearer secret")
    assert "another cluster" in caplog.text
