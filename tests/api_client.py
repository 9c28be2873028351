"""The API as a program sees it: by token, in JSON."""

import json

from django.test import AsyncClient, Client

BASE = "/api/v1/"


class Api:
    """Calls as one person. `api.post("jobs", {...})` sends JSON, `api.post("jobs", text, type=...)` sends text."""

    def __init__(self, token: str = ""):
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.client = Client(raise_request_exception=True)

    def get(self, path: str, query: dict | None = None, **headers: str):
        return self.client.get(BASE + path, query or {}, headers={**self.headers, **headers})

    def patch(self, path: str, body: object):
        return self.client.patch(BASE + path, json.dumps(body), content_type="application/json", headers=self.headers)

    def post(self, path: str, body: object = b"", type: str = "application/json", **headers: str):
        sent = body if isinstance(body, str | bytes) else json.dumps(body)
        # Django's client sends no Content-Type with an empty body, unless it is told to.
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(
            BASE + path, sent, content_type=type, headers={"Content-Type": type, **self.headers, **named}
        )

    def delete(self, path: str):
        return self.client.delete(BASE + path, headers=self.headers)

    async def read(self, path: str, query: dict | None = None):
        """(the response, its whole body), by way of ASGI as in life."""
        response = await AsyncClient().get(BASE + path, query or {}, headers=self.headers)
        if not response.streaming:
            return response, response.content
        return response, b"".join([piece async for piece in response.streaming_content])  # type: ignore[attr-defined]
