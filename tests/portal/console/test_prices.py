"""Prices in the console: added and deleted by admins, read by auditors."""

import pytest

from monitoring.models import Price
from tests import make

pytestmark = pytest.mark.django_db
LIST = "/admin/monitoring/price/"


def test_an_admin_adds_and_deletes_a_price_and_is_told_what_is_wrong(cast, root, auditor, settings):
    settings.TESSERA_CURRENCY = "EUR"
    asked = {"pool": make.pool("dev").pk, "model": "V100-32GB", "begins": "2026-11-01", "milli": "1.2345"}
    assert "is not a valid amount" in root.post(f"{LIST}add/", asked).content.decode()
    assert root.post(f"{LIST}add/", {**asked, "milli": "1.25"}).status_code == 302
    price = Price.objects.get()
    assert (price.milli, price.pool.name) == (1250, "dev")
    assert "already exists" in root.post(f"{LIST}add/", {**asked, "milli": "2"}).content.decode()
    assert "1.25 EUR" in auditor.get(LIST).content.decode()
    assert auditor.get(f"{LIST}{price.pk}/change/").status_code == 200
    assert auditor.get(f"{LIST}add/").status_code == 403
    assert root.post(f"{LIST}{price.pk}/change/", {**asked, "milli": "9"}).status_code == 403
    assert root.post(f"{LIST}{price.pk}/delete/", {"post": "yes"}).status_code == 302 and not Price.objects.exists()
