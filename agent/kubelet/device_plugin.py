"""Device plugin of one resource: a gRPC server on a socket of its own, as the protocol has one per resource.

Source: k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1.
"""

import logging
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError

from agent.kubelet import deviceplugin_pb2 as messages
from agent.kubelet.units import DOMAIN

log = logging.getLogger("tessera.agent")

VERSION = "v1beta1"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
SERVICE, REGISTER = "v1beta1.DevicePlugin", "/v1beta1.Registration/Register"
KUBELET = "kubelet.sock"
THREADS = 4
"""One of them serves the kubelet's ListAndWatch."""
WITHIN_S = 5.0


class Offer(Protocol):
    """What the kubelet may give of one resource. fault: why nothing now, or "". numa: None where none is known."""

    @property
    def resource(self) -> str: ...
    @property
    def fault(self) -> str: ...
    @property
    def numa(self) -> int | None: ...

    def list_ids(self) -> list[str]: ...

    def list_cdi_names(self, ids: list[str]) -> list[str]:
        """Return the CDI devices of a container that got these."""
        ...

    def gone(self) -> "Offer":
        """Return it without anything to give, as it is not there any more."""
        ...


class DevicePlugin:
    """Serves one resource. folder: the kubelet's sockets."""

    def __init__(self, folder: Path, offer: Offer):
        self.folder, self.offer, self.resource = folder, offer, offer.resource
        self._changed = threading.Condition()
        self._server: Any = None
        self._round = 0  # ends older streams; their sockets may go late

    @property
    def socket(self) -> Path:
        return self.folder / f"{self._stem}.{self._round}.sock"

    @property
    def _stem(self) -> str:
        """tessera-g-0"""
        return self.resource.replace(f"{DOMAIN}/", "tessera-")

    def serve(self) -> None:
        """Open the socket and register. Raises OSError, grpc.RpcError."""
        self.stop()
        for old in self.folder.glob(f"{self._stem}.*.sock"):
            old.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(THREADS, thread_name_prefix=self.resource))
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, self._handlers())])
        if not server.add_insecure_port(f"unix:{self.socket}"):
            raise OSError(f"{self.socket} cannot be opened.")
        server.start()
        self._server = server
        with grpc.insecure_channel(f"unix:{self.folder / KUBELET}") as channel:
            request = messages.RegisterRequest(version=VERSION, endpoint=self.socket.name, resource_name=self.resource)
            channel.unary_unary(REGISTER)(request.SerializeToString(), timeout=WITHIN_S)
        log.info("the kubelet knows %s", self.resource)

    def update(self, offer: Offer) -> None:
        with self._changed:
            if offer != self.offer:
                self.offer = offer
                self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._round += 1
            self._changed.notify_all()
        if self._server is not None:
            self._server.stop(grace=None).wait()
            self._server = None

    def devices(self) -> messages.ListAndWatchResponse:
        """List what may be given; without a NUMA node where none is known."""
        offer = self.offer
        health = UNHEALTHY if offer.fault else HEALTHY
        nodes = [] if offer.numa is None else [messages.NUMANode(ID=offer.numa)]
        topology = messages.TopologyInfo(nodes=nodes) if nodes else None
        units = [messages.Device(ID=id, health=health, topology=topology) for id in offer.list_ids()]
        return messages.ListAndWatchResponse(devices=units)

    def allocate(self, request: bytes, context: Any) -> bytes:
        """Return each container's CDI names."""
        try:
            asked = read_allocate_request(request)
        except DecodeError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"This is no AllocateRequest: {error}.")
        offer = self.offer
        known = set(offer.list_ids())
        for ids in asked:
            if not ids or not known.issuperset(ids):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{self.resource} has no such units.")
        if offer.fault:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, offer.fault)
        return build_allocate_response(offer.list_cdi_names(ids) for ids in asked).SerializeToString()

    def watch(self, request: bytes, context: Any) -> Iterator[bytes]:
        context.add_callback(self._wake)
        mine, told = self._round, None
        while (fresh := self._next(mine, told, context)) is not None:
            told = fresh
            yield fresh.SerializeToString()

    def _next(
        self, mine: int, told: messages.ListAndWatchResponse | None, context: Any
    ) -> messages.ListAndWatchResponse | None:
        """Wait for and return another list; None once cancelled or stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._round != mine or not context.is_active() or self.devices() != told)
            return self.devices() if self._round == mine and context.is_active() else None

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _handlers(self) -> dict[str, Any]:
        def nothing(request: bytes, context: Any) -> bytes:
            return b""  # all defaults

        return {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(nothing),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self.watch),
            "GetPreferredAllocation": grpc.unary_unary_rpc_method_handler(nothing),
            "Allocate": grpc.unary_unary_rpc_method_handler(self.allocate),
            "PreStartContainer": grpc.unary_unary_rpc_method_handler(nothing),
        }


def read_allocate_request(data: bytes) -> list[list[str]]:
    """Return each container's chosen device ids. Raises DecodeError."""
    return [list(container.devices_ids) for container in messages.AllocateRequest.FromString(data).container_requests]


def build_allocate_response(containers: Iterable[Iterable[str]]) -> messages.AllocateResponse:
    """Build the answer with each container's CDI names."""
    return messages.AllocateResponse(
        container_responses=[
            messages.ContainerAllocateResponse(cdi_devices=[messages.CDIDevice(name=name) for name in names])
            for names in containers
        ]
    )
