"""Access to a running task's pod: programs by exec, ports by the pod's address or port-forward.

The pod is read by name each time: an address alone may belong to another pod by now.
"""

import asyncio
import os
import re
import socket
import time
from collections.abc import Mapping, Sequence

from runtimes.contract.access import PtySize
from runtimes.contract.errors import Rejected, Unavailable
from runtimes.gpu_sharing import is_forbidden_env
from runtimes.kubernetes.access.port_forward import open_port_forward
from runtimes.kubernetes.access.sessions import PodSession, start_session
from runtimes.kubernetes.api.async_client import AsyncClient, open_client
from runtimes.kubernetes.api.client import Gone
from runtimes.kubernetes.api.credentials import CredentialSource
from runtimes.kubernetes.pods import names
from runtimes.kubernetes.pods.causes import Pod
from runtimes.kubernetes.pods.views import build_pod_path, has_ended, is_running

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ADDRESS_S = 1.0
"""Seconds to connect to a pod's address; a reachable pod answers sooner."""
DOUBT_S = 0.2
"""Seconds to wait for the engine to report a refused port that was not known to be open."""
KNOWN_S = 30.0
MOST_KNOWN = 10_000
NO_TASK = "There is no such task in the cluster."


class KubernetesAccess:
    def __init__(
        self,
        *,
        install: str,
        kubeconfig: str | os.PathLike | None = None,
        context: str = "",
        by_address: bool | None = None,
        **_others: object,
    ):
        """Take KubernetesRuntime's options. by_address: pods are reachable (default: in the cluster only)."""
        self.install = names.check_install(install)
        self.source = CredentialSource(kubeconfig, context)
        self.by_address = kubeconfig is None if by_address is None else by_address
        self._namespaces: dict[str, str] = {}
        self._open_ports: dict[tuple[str, int], float] = {}  # {(task, port): when it last accepted}

    async def exec(
        self,
        uuid: str,
        argv: Sequence[str],
        *,
        pty: PtySize | None = None,
        env: Mapping[str, str] = {},
        cwd: str | None = None,
    ) -> PodSession:
        """Start a program in the task's container, without variables that would change its GPU slice.

        cwd: may start with ~. Raises Rejected, Unavailable.
        """
        own = {name: value for name, value in env.items() if NAME.fullmatch(name) and not is_forbidden_env(name)}
        if any("\0" in text for text in (*argv, *own.values(), cwd or "")):
            raise Rejected("A command and its environment cannot hold the character NUL.")
        client = await open_client(self.source)
        try:
            path = build_pod_path(await self._running_pod(client, uuid))
            return await start_session(client, f"{path}/exec", argv, pty=pty, env=own, cwd=cwd)
        except BaseException:
            await client.close()
            raise

    async def dial(self, uuid: str, port: int) -> socket.socket:
        """Connect to a port of the pod. Raises ConnectionRefusedError, Rejected, Unavailable."""
        if not 0 < port < 65536:
            raise ConnectionRefusedError(f"There is no port {port}.")
        client = await open_client(self.source)
        try:
            pod = await self._running_pod(client, uuid)
            if self.by_address and (connected := await self._by_address(client, uuid, pod, port)):
                await client.close()
                return connected
            return await self._by_server(client, uuid, pod, port)
        except BaseException:
            await client.close()
            raise

    async def _by_address(self, client: AsyncClient, uuid: str, pod: Pod, port: int) -> socket.socket | None:
        """Connect to the pod's address; None if nothing listens there.

        The pod is read again once connected, because addresses are reused.
        """
        address = pod["status"].get("podIP", "")
        connected = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        connected.setblocking(False)
        try:
            async with asyncio.timeout(ADDRESS_S):
                await asyncio.get_running_loop().sock_connect(connected, (address, port))
            again = await self._running_pod(client, uuid)
            if again["status"].get("podIP") == address:
                return connected
        except (OSError, TimeoutError):
            pass
        except BaseException:
            connected.close()
            raise
        connected.close()
        return None

    async def _by_server(self, client: AsyncClient, uuid: str, pod: Pod, port: int) -> socket.socket:
        forward = await open_port_forward(client, f"{build_pod_path(pod)}/portforward", port)
        key, now = (uuid, port), time.monotonic()
        if now - self._open_ports.get(key, float("-inf")) > KNOWN_S:
            if len(self._open_ports) >= MOST_KNOWN:
                self._open_ports.clear()
            await forward.check_port(DOUBT_S)
            self._open_ports[key] = now
        return forward.open_socket()

    async def _running_pod(self, client: AsyncClient, uuid: str) -> Pod:
        """Return the pod. Raises Rejected if it is missing or ended, Unavailable if not running."""
        name = names.name_pod(uuid)  # no other text may stand in a label selector
        if namespace := self._namespaces.get(uuid):
            try:
                pod: Pod = await client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
            except Gone:
                raise Rejected(NO_TASK) from None
        else:
            pod = await self._find_pod(client, uuid)
        if has_ended(pod):
            raise Rejected("This task has ended.")
        if not is_running(pod):
            raise Unavailable("This task is just starting or ending.")
        return pod

    async def _find_pod(self, client: AsyncClient, uuid: str) -> Pod:
        labels = f"{names.LABEL_INSTALL}={self.install},{names.LABEL_TASK}={uuid}"
        found = await client.get("/api/v1/pods", {"labelSelector": labels})
        pods = sorted(found["items"], key=has_ended)  # prefer the pod over a tombstone
        if not pods:
            raise Rejected(NO_TASK)
        if not has_ended(pods[0]):
            if len(self._namespaces) >= MOST_KNOWN:
                self._namespaces.clear()
            self._namespaces[uuid] = pods[0]["metadata"]["namespace"]
        return pods[0]
