"""People at the console: an admin, an auditor, and whoever else is signed in."""

import pytest
from django.test import Client

from tests import make


@pytest.fixture
def cast(db):
    return make.cast()


@pytest.fixture(autouse=True)
def same_origin(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"


@pytest.fixture
def browser():
    """person -> a browser in which they are signed in."""

    def open_for(person) -> Client:
        client = Client(headers={"Origin": "http://testserver"})
        client.force_login(person)
        return client

    return open_for


@pytest.fixture
def root(browser, db):
    return browser(make.admin())


@pytest.fixture
def auditor(browser, db):
    return browser(make.user("audrey", platform_role="auditor"))
