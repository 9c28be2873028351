"""What a tile says comes true: in random worlds each is clicked, and the next cycle does what was said."""

import re
from random import Random

import pytest
from django.db import transaction
from django.utils import timezone

from jobs.states import JOB_ACTIVE
from notebooks.environment import READY, environment_path
from notebooks.models import Notebook
from notebooks.services import create_notebook, start_notebook
from scheduler import tasks
from scheduler.models import Lease
from scheduler.preview.preview import check_possible
from tests import make

pytestmark = pytest.mark.django_db(transaction=True)

TILE = re.compile(r'name="gpu" value="([^"]+)">.*?preset-mark[^>]*></span>([^<]*)</span>', re.S)
SAID = {"starts now", "waiting", "at your limit", "started"}


class Undone(Exception):
    """Takes back what a click has done."""


@pytest.fixture
def ada(client, settings, tmp_path):
    settings.TESSERA_DATA = tmp_path
    environment = environment_path(tmp_path)
    environment.mkdir(parents=True)
    (environment / READY).touch()
    client.defaults["HTTP_ORIGIN"] = settings.TESSERA_PUBLIC_URL
    return client


@pytest.mark.parametrize("seed", range(8))
def test_a_click_does_what_its_tile_says(ada, seed):
    dice = Random(seed)
    cast = make_random_world(dice)
    ada.force_login(cast.ada)
    tiles = TILE.findall(ada.get("/").content.decode())
    assert tiles and {words for _, words in tiles} <= SAID
    for gpu, words in tiles:
        with pytest.raises(Undone), transaction.atomic():
            check_click(ada, cast, gpu, words)
            raise Undone


def make_random_world(dice: Random) -> make.Cast:
    """Limits of ada, a limit of her team, and what others and she hold already: each in a third of the worlds."""
    cast = make.cast()
    Lease.objects.create(name="cycle", epoch=1, last_ok_at=timezone.now())
    limits = {"notebooks_running": 1, "jobs_running": 1, "jobs_waiting": 1, "gpu_milli": 500}
    make.limit(cast.ada, **{name: most for name, most in limits.items() if not dice.randrange(3)})
    if not dice.randrange(3):
        cast.nlp.quotas.update(gpu_milli_limit=500)
    for pool, gpu in (("dev", "1/2"), ("dev", "1/4"), ("train", "1")):
        if not dice.randrange(3):
            make.start(make.job(cast.eve, gpu=gpu, pool=pool))
    if not dice.randrange(3):
        made = create_notebook(user=cast.ada, name="explore", gpu="1/8")
        start_notebook(actor=cast.ada, notebook=made, check=check_possible, containers=False)
        tasks.cycle()
    if not dice.randrange(3):
        make.job(cast.ada, gpu="1/4", pool="dev", hold=True)
    return cast


def check_click(ada, cast, gpu: str, words: str) -> None:
    before = set(Notebook.objects.values_list("pk", flat=True))
    ada.post("/notebooks/preset", {"gpu": gpu})
    made = Notebook.objects.exclude(pk__in=before)
    if words == "at your limit":
        assert not made.exists(), (gpu, words)
        return
    tasks.cycle()
    starts = made.get().job.state in JOB_ACTIVE
    assert starts == (words == "starts now"), (gpu, words, made.get().job.wait_reasons)
