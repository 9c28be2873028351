"""The terminal's websocket address, on the portal's host."""

from django.urls import path

from portal.gateway.terminal.terminal import TerminalConsumer

websocket_urls = [path("terminal/<str:name>", TerminalConsumer.as_asgi(), name="terminal")]
