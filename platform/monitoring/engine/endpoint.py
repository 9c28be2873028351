"""Requests to the series engine that whoever runs the platform has named in its settings.

Its address may be anywhere, unlike those that people choose: it stands where the passwords of the platform stand.
Nothing is redirected, nothing waits for more than some seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from common.safe_http import MAX_ANSWER, Reply, authorize_basic, send_request

ANYWHERE = ("0.0.0.0/0", "::/0")


@dataclass(frozen=True)
class Endpoint:
    """token: for Bearer. user, password: for Basic. authority: a file of further CA certificates."""

    url: str
    token: str = ""
    user: str = ""
    password: str = ""
    authority: str = ""

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        most: int = MAX_ANSWER,
        within_s: float | None = None,
    ) -> Reply:
        """Raises Unreached."""
        sent = {**self._authorize(), **headers}
        return send_request(
            method, url, sent, ANYWHERE, body=body, most=most, authority=self.authority, within_s=within_s
        )

    def _authorize(self) -> dict[str, str]:
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        if self.user:
            return authorize_basic(f"{self.user}:{self.password}")
        return {}
