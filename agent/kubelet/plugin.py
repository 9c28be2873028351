"""Device plugin of one card index: a gRPC server on a socket of its own, as the protocol has one per resource.

Source: k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1.
"""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from agent.cards import Card
from agent.kubelet.cdi import names_of
from agent.kubelet.messages import (
    HEALTHY,
    UNHEALTHY,
    Device,
    Malformed,
    allocate_response,
    list_response,
    read_allocate_request,
    register_request,
)
from agent.kubelet.units import resource_of, unit_ids

log = logging.getLogger("tessera.agent")

SERVICE, REGISTER = "v1beta1.DevicePlugin", "/v1beta1.Registration/Register"
KUBELET = "kubelet.sock"
THREADS = 4
"""One of them serves the kubelet's ListAndWatch."""
WITHIN_S = 5.0


class CardPlugin:
    """Serves one index. folder: the kubelet's sockets. real: NVIDIA's toolkit knows the card."""

    def __init__(self, folder: Path, card: Card, real: bool):
        self.folder, self.card, self.real = folder, card, real
        self.resource = resource_of(card.index)
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
            channel.unary_unary(REGISTER)(register_request(self.socket.name, self.resource), timeout=WITHIN_S)
        log.info("the kubelet knows %s", self.resource)

    def show(self, card: Card) -> None:
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

    def devices(self) -> list[Device]:
        health = UNHEALTHY if self.card.fault else HEALTHY
        return [Device(id, health, self.card.numa) for id in unit_ids(self.card)]

    def allocate(self, request: bytes, context: Any) -> bytes:
        """Return each container's CDI names; the slice's too unless it gets all units."""
        try:
            asked = read_allocate_request(request)
        except Malformed as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"This is no AllocateRequest: {error}.")
        card, known = self.card, set(unit_ids(self.card))
        for ids in asked:
            if not ids or not known.issuperset(ids):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{self.resource} has no such units.")
        if card.fault:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, card.fault)
        return allocate_response(names_of(card, whole=set(ids) == known, real=self.real) for ids in asked)

    def watch(self, request: bytes, context: Any) -> Iterator[bytes]:
        context.add_callback(self._wake)
        mine, told = self._round, None
        while (fresh := self._next(mine, told, context)) is not None:
            told = fresh
            yield list_response(fresh)

    def _next(self, mine: int, told: list[Device] | None, context: Any) -> list[Device] | None:
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
