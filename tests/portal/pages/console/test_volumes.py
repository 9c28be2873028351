"""The console's volumes: added, changed, and kept while a job uses them."""

import pytest

from files.models import Volume
from tests import make
from tests.browser import browser

pytestmark = pytest.mark.django_db
VOLUMES = "/console/volumes/"


def test_a_volume_is_added_changed_and_removed(settings):
    settings.TESSERA_PUBLIC_URL = "http://testserver"
    cast = make.cast()
    root = browser(make.admin())
    assert "No volumes yet" in root.get(VOLUMES).content.decode()
    wrong = root.post(VOLUMES, {"name": "imagenet", "source": "/etc"})
    assert wrong.status_code == 400 and "no folder of the system" in wrong.content.decode()
    root.post(VOLUMES, {"name": "imagenet", "source": "/data/imagenet", "read_only": "on"})
    volume = Volume.objects.get()
    assert volume.read_only and "volume:imagenet" in browser(cast.ada).get("/data/").content.decode()
    at = f"{VOLUMES}{volume.pk}/"
    root.post(at, {"source": "/data/other"})
    volume.refresh_from_db()
    assert (volume.source, volume.read_only) == ("/data/other", False)
    job = make.job(cast.ada, data={"in": "volume:imagenet"}, pool="dev")
    assert job.public_id in root.get(at).content.decode()
    refused = root.post(f"{at}delete", follow=True)
    assert "that have yet to end use imagenet" in refused.content.decode() and Volume.objects.exists()
    make.start(job)
    make.end(job)
    root.post(f"{at}delete")
    assert not Volume.objects.exists()
