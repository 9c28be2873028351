"""Device plugin of one card index: a gRPC server on a socket of its own, as the protocol has one per resource.

Source: k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1.
"""

import logging
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from agent.gpu.cards import Card
from agent.kubelet import deviceplugin_pb2 as messages
from agent.kubelet.cdi import list_device_names
from agent.kubelet.units import list_unit_ids, resource_name

log = logging.getLogger("tessera.agent")

VERSION = "v1beta1"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
SERVICE, REGISTER = "v1beta1.DevicePlugin", "/v1beta1.Registration/Register"
KUBELET = "kubelet.sock"
THREADS = 4
"""One of them serves the kubelet's ListAndWatch."""
WITHIN_S = 5.0


class DevicePlugin:
    """Serves one index. folder: the kubelet's sockets. real: NVIDIA's toolkit knows the card."""

    def __init__(self, folder: Path, card: Card, real: bool):
        self.folder, self.card, self.real = folder, card, real
        self.resource = resource_name(card.index)
        self._changed = threading.Condition()
        self._server: Any = None
        self._round = 0  # ends older streams; their sockets may go late

    @property
    def socket(self) -> Path:
        return self.folder / f"tessera-g-{self.card.index}.{self._round}.sock"

    def serve(self) -> None:
        """Open the socket and register. Raises OSError, grpc.RpcError."""
        self.stop()
        for old in self.folder.glob(f"tessera-g-{self.card.index}.*.sock"):
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

    def update(self, card: Card) -> None:
        with self._changed:
            if card != self.card:
                self.card = card
                self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._round += 1
            self._changed.notify_all()
        if self._server is not None:
            self._server.stop(grace=None).wait()
            self._server = None

    def devices(self) -> messages.ListAndWatchResponse:
        """List the card's units; without a NUMA node where none is known."""
        health = UNHEALTHY if self.card.fault else HEALTHY
        nodes = [] if self.card.numa is None else [messages.NUMANode(ID=self.card.numa)]
        topology = messages.TopologyInfo(nodes=nodes) if nodes else None
        units = [messages.Device(ID=id, health=health, topology=topology) for id in list_unit_ids(self.card)]
        return messages.ListAndWatchResponse(devices=units)

    def allocate(self, request: bytes, context: Any) -> bytes:
        """Return each container's CDI names; the slice's too unless it gets all units."""
        try:
            asked = read_allocate_request(request)
        except DecodeError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"This is no AllocateRequest: {error}.")
        card, known = self.card, set(list_unit_ids(self.card))
        for ids in asked:
            if not ids or not known.issuperset(ids):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{self.resource} has no such units.")
        if card.fault:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, card.fault)
        names = (list_device_names(card, whole=set(ids) == known, real=self.real) for ids in asked)
        return build_allocate_response(names).SerializeToString()

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
