"""The ASGI application: Django, Channels' websockets and the gateway to people's apps."""

import asyncio
import os
from contextlib import aclosing

import django
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.urls import re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup(set_prefix=False)  # the imports below need loaded apps

from common.errors import NotFound  # noqa: E402
from config.lifespan import Lifespan, lasting_objects, presence, ssh_gateway  # noqa: E402
from jobs.task_access import get_access  # noqa: E402
from portal.api.http.body_limit import BodyLimit, Message, Receive, Send, send_problem  # noqa: E402
from portal.gateway.http.gateway import Gateway  # noqa: E402
from portal.gateway.http.services.door import ServiceDoor  # noqa: E402
from portal.gateway.http.services.programs import ProgramDoor  # noqa: E402
from portal.gateway.websocket_urls import websocket_urls as terminal_urls  # noqa: E402
from portal.lanes import LanedHandler  # noqa: E402
from portal.live.websocket_urls import websocket_urls as live_urls  # noqa: E402
from portal.request_metrics import CountedSockets  # noqa: E402

FORM_BYTES = 1024 * 1024
"""What a form sends besides an uploaded code pack."""


async def answer_unknown_socket(scope: Message, receive: Receive, send: Send) -> None:
    """Answer 404 where there is no websocket; Channels would fail with a trace."""
    await receive()  # "websocket.connect"
    await send_problem(scope, send, NotFound(), "websocket.http.response")
    await asyncio.sleep(0)  # uvicorn logs a handshake without an end, unless its connection was closed by then


unknown_socket = re_path("", answer_unknown_socket)  # type: ignore[arg-type]
portal_application = ProtocolTypeRouter(
    {
        "http": BodyLimit(LanedHandler(), settings.CODE_MAX_BYTES + FORM_BYTES),
        "websocket": CountedSockets(AuthMiddlewareStack(URLRouter([*live_urls, *terminal_urls, unknown_socket]))),
    }
)
service_door = ServiceDoor(get_access)
programs = ProgramDoor(portal_application, service_door)  # type: ignore[arg-type]
gateway = Gateway(programs, get_access, service_door)  # requests to apps' hosts never reach Django
application = ProtocolTypeRouter(
    {
        "http": gateway,
        "websocket": gateway,
        "lifespan": Lifespan(
            lasting_objects,
            presence,
            ssh_gateway,
            service_door.running,
            programs.running,
            lambda: aclosing(gateway),
        ),
    }
)
