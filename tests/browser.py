"""A person's browser, which sends Origin as browsers do: TESSERA_PUBLIC_URL has to be http://testserver."""

from django.test import Client


def browser(person=None, **defaults) -> Client:
    """Return a browser of its own. Without a person nobody is signed in."""
    client = Client(headers={"Origin": "http://testserver"}, **defaults)
    if person:
        client.force_login(person)
    return client
