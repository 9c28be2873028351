"""The terminal's websocket, on the portal's own host. People's apps have hosts of their own: see gateway.py."""

from django.urls import path

from portal.gateway.terminal import TerminalConsumer

websocket_urls = [path("terminal/<str:name>", TerminalConsumer.as_asgi(), name="terminal")]
