"""A notebook's token in a request: in Authorization, or as `token` in the query, as Jupyter's clients send it.

Pure functions.
"""

import re

from portal.gateway.http.cross_origin import Headers, value_of
from sharing.tokens import PREFIX

AUTHORIZATION = re.compile(rf"(?:token|bearer)\s+({PREFIX}\S+)", re.IGNORECASE)
IN_QUERY = f"token={PREFIX}"


def find_token(headers: Headers, query: str) -> str:
    """Return the token that a program sends, or "".

    A link with a token that somebody opens in a browser is a visit like any other: they sign in as themselves, so that
    nobody is led into another's notebook without noticing.
    """
    if said := read_authorization(value_of(headers, b"authorization")):
        return said
    if value_of(headers, b"sec-fetch-mode") == "navigate":
        return ""
    return next((part.removeprefix("token=") for part in query.split("&") if part.startswith(IN_QUERY)), "")


def read_authorization(value: str) -> str:
    """Return the notebook's token in an Authorization header, or ""."""
    found = AUTHORIZATION.fullmatch(value.strip())
    return found[1] if found else ""


def without_token(query: str) -> str:
    """Return the query without a notebook's token: no app and no address of the portal gets it."""
    if IN_QUERY not in query:
        return query
    return "&".join(part for part in query.split("&") if not part.startswith(IN_QUERY))
