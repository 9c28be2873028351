"""A minimal API server client for starting and stopping."""

import http.client
import json
import ssl
from contextlib import closing

from dev.cluster.paths import ADDRESS, API_PORT, ClusterPaths

TIMEOUT_S = 10
GONE = 404
THERE_ALREADY = 409
MERGE_PATCH = "application/merge-patch+json"


class Api:
    """An admin connection, not thread-safe."""

    def __init__(self, paths: ClusterPaths):
        home = paths.certificates
        context = ssl.create_default_context(cafile=str(home / "ca.crt"))
        context.load_cert_chain(home / "admin.crt", home / "admin.key")
        self.connection = http.client.HTTPSConnection(ADDRESS, API_PORT, timeout=TIMEOUT_S, context=context)

    def close(self) -> None:
        self.connection.close()

    def ask(
        self, method: str, path: str, body: dict | None = None, *, content: str = "application/json"
    ) -> tuple[int, dict]:
        """Return status and answer. Raise OSError, HTTPException."""
        sent = json.dumps(body) if body is not None else None
        try:
            self.connection.request(method, path, sent, {"Content-Type": content})
            response = self.connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            raise
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        return response.status, json.loads(answer) if is_json else {"text": answer.decode(errors="replace")}


def answers(paths: ClusterPaths, path: str) -> bool:
    """Return whether GET succeeds."""
    try:
        with closing(Api(paths)) as api:
            return api.ask("GET", path)[0] == http.client.OK
    except (OSError, http.client.HTTPException):
        return False


def list_nodes(paths: ClusterPaths) -> list[dict]:
    """List all nodes. Raise OSError, HTTPException."""
    with closing(Api(paths)) as api:
        return api.ask("GET", "/api/v1/nodes?resourceVersion=0")[1]["items"]


def is_ready(node: dict) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
