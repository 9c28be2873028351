"""The address of the live pages' websocket."""

from django.urls import path

from portal.live.consumer import LiveConsumer

websocket_urls = [path("live", LiveConsumer.as_asgi(), name="live")]
