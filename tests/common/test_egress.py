"""A chosen address never leads inside: every spelling, every redirect, every late change of a name's address."""

import ipaddress
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from common import safe_http
from common.errors import InvalidInput
from common.safe_http import check_url, is_public, post_body, read_url

LOOPBACK = ["127.0.0.0/8"]

INSIDE = [
    "http://127.0.0.1/", "http://localhost/", "http://app.localhost/", "http://2130706433/", "http://0x7f000001/",
    "http://0177.0.0.1/", "http://127.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://10.0.0.1/",
    "http://172.16.3.4/", "http://192.168.1.1/", "http://169.254.169.254/latest/meta-data/", "http://100.64.0.1/",
    "http://[fd00::1]/", "http://[fe80::1]/", "http://0.0.0.0/", "http://[::]/", "http://224.0.0.1/",
    "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://[::127.0.0.1]/", "http://255.255.255.255/",
    "http://192.0.2.1/", "https://8.8.8.8:22/",
]  # fmt: skip
NO_URL = [
    "", "example.com", "ftp://example.com/", "file:///etc/passwd", "http://", "http:///x", "http://user@example.com/",
    "http://a:b@example.com/", "http://example.com/#x", "http://example.com/\r\nX: y", "http://exa mple.com/",
    "http://example.com:99999/", "http://example.com\\@127.0.0.1/", "http://ex%61mple.com/", "http://é.com/",
    "http://example.com/" + "x" * 500, "gopher://example.com/", "http://[::1", "javascript:alert(1)",
]  # fmt: skip


@pytest.mark.parametrize("url", INSIDE)
def test_an_address_inside_is_refused_when_it_is_written_and_when_it_is_called(url):
    with pytest.raises(InvalidInput) as refused:
        check_url(url, [])
    assert refused.value.errors[0].code == "forbidden_address"
    assert post_body(url, b"{}", {}, []).error in {"forbidden_address", "unresolved"}


@pytest.mark.parametrize("url", NO_URL)
def test_what_is_no_plain_web_address_is_refused(url):
    with pytest.raises(InvalidInput) as refused:
        check_url(url, LOOPBACK)
    assert refused.value.errors[0].code == "bad_url"


def test_a_public_address_passes_and_a_name_is_judged_later():
    for url in ("https://example.com/hook?a=1", "http://8.8.8.8/", "https://[2606:4700::1111]/"):
        assert check_url(url, []) == url
    assert read_url("https://example.com:8443/a?b=c").header == "example.com:8443"


def test_what_the_settings_allow_may_be_called_at_any_port_and_nothing_beside_it():
    assert check_url("http://10.1.2.3:9000/", ["10.1.0.0/16"])
    for url in ("http://10.2.0.1:9000/", "http://127.0.0.1/"):
        with pytest.raises(InvalidInput):
            check_url(url, ["10.1.0.0/16"])


def test_public_means_public_in_every_wrapping():
    assert is_public(ipaddress.ip_address("2002:808:808::")) and is_public(ipaddress.ip_address("::ffff:8.8.8.8"))


def test_one_inner_address_among_a_names_is_enough_to_refuse_it(monkeypatch):
    found = [(2, 1, 6, "", (address, 80)) for address in ("93.184.215.14", "10.0.0.7")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert post_body("http://mixed.example/", b"", {}, []).error == "forbidden_address"


def test_a_name_is_resolved_once_so_that_its_second_answer_does_not_count(monkeypatch):
    """DNS rebinding: the first answer is judged and used; whoever asked again would be led inside."""
    answers = iter(["127.0.0.2"])
    real = socket.getaddrinfo

    def resolve(host, port, *args, **named):
        return [(2, 1, 6, "", (next(answers), port))] if host == "rebind.example" else real(host, port, *args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with server(200) as (port, seen):
        assert post_body(f"http://rebind.example:{port}/x", b"{}", {}, LOOPBACK).error == "unreachable"
    assert not seen  # it went to 127.0.0.2, where nobody listens, and nowhere else


def test_the_body_the_headers_and_the_host_arrive_and_the_status_returns():
    with server(202) as (port, seen):
        answer = post_body(f"http://127.0.0.1:{port}/hook?a=1", b'{"a": 1}', {"X-Mark": "7"}, LOOPBACK)
    assert (answer.status, answer.error) == (202, "")
    path, headers, body = seen[0]
    assert (path, headers["Host"], headers["X-Mark"], body) == ("/hook?a=1", f"127.0.0.1:{port}", "7", b'{"a": 1}')


def test_a_redirect_is_an_answer_and_is_not_followed():
    with server(302, location="http://127.0.0.1:1/") as (port, seen):
        assert post_body(f"http://127.0.0.1:{port}/", b"", {}, LOOPBACK).status == 302
    assert len(seen) == 1


@pytest.mark.parametrize("begins", [b"", b"HTTP/1.0 200 OK\r\n\r\n"], ids=["headers", "body"])
def test_a_server_that_trickles_is_cut_off(begins, monkeypatch):
    monkeypatch.setattr(safe_http, "WITHIN_S", 0.3)
    with server(200, trickle=True, begins=begins) as (port, _):
        answer = post_body(f"http://127.0.0.1:{port}/", b"", {}, LOOPBACK)
    assert answer.status is None and answer.error == "timeout" and answer.took_ms < 2000


def test_nobody_there_is_no_error_of_ours():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert post_body(f"http://127.0.0.1:{free.getsockname()[1]}/", b"", {}, LOOPBACK).error == "unreachable"


def test_a_certificate_that_is_none_is_refused():
    with server(200) as (port, seen):
        assert post_body(f"https://127.0.0.1:{port}/", b"", {}, LOOPBACK).error == "tls"
    assert not seen


def test_a_certificate_is_judged_by_the_name_and_the_connection_goes_to_the_judged_address(monkeypatch, tmp_path):
    """The name reaches the server (SNI), so that it shows the right certificate, though the address was dialled."""
    certificate = write_certificate(tmp_path, "hook.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    real = socket.getaddrinfo
    told = [(2, 1, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *args, **named: told if host.endswith(".example") else real(host, *args)
    )
    names = []
    with server(200, certificate=certificate, names=names) as (port, seen):
        assert post_body(f"https://hook.example:{port}/", b"{}", {}, LOOPBACK).status == 200
        assert post_body(f"https://other.example:{port}/", b"{}", {}, LOOPBACK).error == "tls"
    assert names == ["hook.example", "other.example"] and len(seen) == 1


def test_of_a_long_answer_no_more_is_read_than_allowed():
    with server(200, endless=True) as (port, seen):
        began = time.monotonic()
        assert post_body(f"http://127.0.0.1:{port}/", b"", {}, LOOPBACK).status == 200
    assert time.monotonic() - began < safe_http.WITHIN_S and seen[0][0] == "/"
    assert seen[1] < 32 * 1024 * 1024  # 64 KiB and what the sockets hold between the two


def write_certificate(folder, name):
    """Key and self-signed certificate of a host name, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    forms = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(key.private_bytes(*forms) + made.public_bytes(Encoding.PEM))
    return file


@contextmanager
def server(status, location="", trickle=False, begins=b"", endless=False, certificate=None, names=None):
    """(port, what it was asked: [(path, headers, body)]). endless: then how much was written until it was cut off.

    begins: what comes at once of an answer that trickles. certificate: by HTTPS with it; names: gets the names that
    clients ask for.
    """
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, dict(self.headers), body))
            if trickle:
                self._trickle()
                return
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.end_headers()
            if endless:
                self._write_on()

        def _write_on(self):
            written = 0
            with suppress(OSError):
                while written < 1024**3:
                    written += self.wfile.write(b"x" * 65536)
            seen.append(written)

        def _trickle(self):
            try:
                self.wfile.write(begins)
                for byte in b"HTTP/1.1 200 OK\r\n" * 3:
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.05)
            except OSError:
                pass

        def log_message(self, *_):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.sni_callback = lambda _socket, name, _context: names.append(name)
        http.socket = context.wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield http.server_address[1], seen
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
