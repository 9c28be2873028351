"""The kubelet's end of device plugins, over real gRPC, with protobuf's own library: it shares no code with ours.

The fields are those of k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

STRING, INT64, BOOL, MESSAGE = 9, 3, 8, 11
MESSAGES: dict[str, dict[str, tuple[int, Any]]] = {
    "Empty": {},
    "DevicePluginOptions": {"pre_start_required": (1, BOOL), "get_preferred_allocation_available": (2, BOOL)},
    "RegisterRequest": {
        "version": (1, STRING),
        "endpoint": (2, STRING),
        "resource_name": (3, STRING),
        "options": (4, "DevicePluginOptions"),
    },
    "NUMANode": {"ID": (1, INT64)},
    "TopologyInfo": {"nodes": (1, ["NUMANode"])},
    "Device": {"ID": (1, STRING), "health": (2, STRING), "topology": (3, "TopologyInfo")},
    "ListAndWatchResponse": {"devices": (1, ["Device"])},
    "ContainerAllocateRequest": {"devices_ids": (1, [STRING])},
    "AllocateRequest": {"container_requests": (1, ["ContainerAllocateRequest"])},
    "CDIDevice": {"name": (1, STRING)},
    "ContainerAllocateResponse": {"cdi_devices": (5, ["CDIDevice"])},
    "AllocateResponse": {"container_responses": (1, ["ContainerAllocateResponse"])},
}


def build_messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="deviceplugin.proto", package="v1beta1", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            many = isinstance(kind, list)
            kind = kind[0] if many else kind
            added = message.field.add(name=field, number=number, label=3 if many else 1)
            added.type = MESSAGE if isinstance(kind, str) else kind
            if isinstance(kind, str):
                added.type_name = f".v1beta1.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1beta1.{name}")) for name in MESSAGES}


PROTO = build_messages()


class FakeKubelet:
    """folder: of the sockets. lists: {resource: its devices, as they were told last}."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.lists: dict[str, list] = {}
        self.registered: list[str] = []
        self.changed = threading.Condition()
        self.channels: dict[str, grpc.Channel] = {}
        self.server: Any = None

    def start(self) -> None:
        """As the kubelet does: every socket of before is removed, and nobody is registered."""
        for path in self.folder.iterdir():
            path.unlink()
        self.lists = {}
        handler = grpc.unary_unary_rpc_method_handler(
            self._register,
            request_deserializer=PROTO["RegisterRequest"].FromString,
            response_serializer=PROTO["Empty"].SerializeToString,
        )
        self.server = grpc.server(ThreadPoolExecutor(4))
        service = grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler})
        self.server.add_generic_rpc_handlers([service])
        self.server.add_insecure_port(f"unix:{self.folder}/kubelet.sock")
        self.server.start()

    def stop(self) -> None:
        for channel in list(self.channels.values()):  # one may register at this very moment
            channel.close()
        self.channels = {}
        self.server.stop(None).wait()

    def wait_for(self, condition, seconds: float = 20) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, seconds), (self.lists.keys(), self.registered)

    def health(self, resource: str) -> set[str]:
        return {device.health for device in self.lists.get(resource, [])}

    def allocate(self, resource: str, *containers: list[str]) -> list[list[str]]:
        asked = PROTO["AllocateRequest"]()
        for ids in containers:
            asked.container_requests.add(devices_ids=ids)
        answer = self._call(resource, "Allocate", asked, PROTO["AllocateResponse"])
        return [[device.name for device in one.cdi_devices] for one in answer.container_responses]

    def _register(self, request, context):
        assert request.version == "v1beta1" and (self.folder / request.endpoint).is_socket()
        self.channels[request.resource_name] = grpc.insecure_channel(f"unix:{self.folder / request.endpoint}")
        self.registered.append(request.resource_name)
        threading.Thread(target=self._watch, args=[request.resource_name], daemon=True).start()
        return PROTO["Empty"]()

    def _watch(self, resource: str) -> None:
        follow = self.channels[resource].unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=PROTO["Empty"].SerializeToString,
            response_deserializer=PROTO["ListAndWatchResponse"].FromString,
        )
        try:
            options = self._call(resource, "GetDevicePluginOptions", PROTO["Empty"](), PROTO["DevicePluginOptions"])
            assert not options.pre_start_required and not options.get_preferred_allocation_available
            for answer in follow(PROTO["Empty"](), wait_for_ready=True):
                with self.changed:
                    self.lists[resource] = list(answer.devices)
                    self.changed.notify_all()
        except (grpc.RpcError, ValueError):
            pass  # one of the two ends has gone

    def _call(self, resource: str, method: str, request: Any, answer: Any):
        call = self.channels[resource].unary_unary(
            f"/v1beta1.DevicePlugin/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=10, wait_for_ready=True)
