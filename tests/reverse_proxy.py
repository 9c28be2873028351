"""A reverse proxy before a real API server, on the loopback by TLS: for what networks and gateways do in between."""

import asyncio
import json
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import ClientResponse, ClientSession, ClientTimeout, TCPConnector, web

from dev.cluster.parts.certificates import openssl
from runtimes.kubernetes.api.credentials import CredentialSource

KEPT = ("Accept", "Content-Type", "Authorization")


class ReverseProxy:
    """A context manager: in it `kubeconfig` leads through the proxy, in a thread with a loop of its own.

    user: whom that kubeconfig names. shown: headers of a request that go on to the server.
    """

    def __init__(self, behind: CredentialSource, user: dict, shown: tuple[str, ...] = KEPT):
        self.behind, self.user, self.shown = behind.current(), user, shown
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=type(self).__name__, daemon=True)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError

    def __enter__(self):
        self._home = tempfile.TemporaryDirectory(prefix="reverse-proxy-")
        self._thread.start()
        self._await(self._open(Path(self._home.name)))
        return self

    def __exit__(self, *_: object) -> None:
        self._await(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self._home.cleanup()

    @asynccontextmanager
    async def sent_on(self, request: web.Request, body: bytes = b"") -> AsyncIterator[ClientResponse]:
        headers = {name: request.headers[name] for name in self.shown if name in request.headers}
        url = self.behind.configuration.host + request.path_qs
        headers |= {"Accept-Encoding": "identity"}
        async with self.session.request(request.method, url, data=body or None, headers=headers) as answer:
            yield answer

    def _await(self, work) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _open(self, home: Path) -> None:
        connector = TCPConnector(ssl=self.behind.tls, limit=0)
        self.session = ClientSession(connector=connector, timeout=ClientTimeout(total=None))
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self.answer)
        self._runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=1)
        await self._runner.setup()
        key, certificate = home / "key.pem", home / "certificate.pem"
        names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1")
        openssl("req", "-x509", *curve, *names, "-keyout", key, "-out", certificate)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls).start()
        server = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        cluster = {"server": server, "certificate-authority": str(certificate)}
        self.kubeconfig = home / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(kubeconfig_of(cluster, self.user)))

    async def _close(self) -> None:
        for connection in self._runner.server.connections if self._runner.server else ():
            if connection.transport is not None:  # of who still watches
                connection.transport.abort()
        await self._runner.cleanup()
        await self.session.close()
        await asyncio.sleep(0.3)  # TLS says goodbye


def kubeconfig_of(cluster: dict, user: dict) -> dict:
    return {
        "clusters": [{"name": "there", "cluster": cluster}],
        "users": [{"name": "somebody", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "there", "user": "somebody"}}],
        "current-context": "here",
    }


def hang_up(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def status_answer(code: int, reason: str, message: str, **headers: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}
    return web.json_response(body, status=code, headers=headers)
