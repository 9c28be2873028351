"""Curves in a real browser: they grow by the live socket, are read by keys, and need no exception of the CSP."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from jobs.models import Job, Task
from monitoring.samples.ingest import take_samples
from tests import make
from tests.web_process import browsing, elsewhere, running_web

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]
PAINTED = """(box) => {
    const canvas = box.querySelector("canvas"), { width, height } = canvas;
    const seen = new Set(new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer));
    return seen.size;
}"""


@pytest.fixture
def portal(transactional_db):
    with running_web() as web:
        yield web.url


@pytest.fixture
def cast(portal):
    return elsewhere(make_running_job)


def make_running_job() -> make.Cast:
    cast = make.cast()
    cast.job = make.job(cast.ada, gpu="1/4", pool="dev", name="llama")
    cast.task = make.start(cast.job, cast.gpus[0])[0]
    began = timezone.now() - timedelta(minutes=5)
    Job.objects.filter(pk=cast.job.pk).update(started_at=began)
    Task.objects.filter(pk=cast.task.pk).update(started_at=began)
    cast.seq = 0
    for age_s in range(280, 0, -10):
        if not 100 <= age_s < 180:  # a gap
            sample(cast, age_s, busy_ms=2000)
    return cast


def sample(cast, age_s: int, busy_ms: int) -> None:
    """Tell of ten seconds of the card, `age_s` ago."""
    cast.seq += 1
    cast.busy = getattr(cast, "busy", 0) + busy_ms
    shares = [{"uuid": cast.gpus[0].uuid, "source": "simulated", "busy_ms": cast.busy, "used_mib": 4000}]
    told = {"task": cast.task.uuid.hex, "age_ms": 1000 * age_s, "cpu_ms": 900 * cast.seq, "memory_mib": 700}
    tick = {"seq": cast.seq, "age_ms": 1000 * age_s, "up_ms": 10_000 * cast.seq, "cards": []}
    take_samples(cast.node, {"run": "r", "ticks": [tick | {"tasks": [told | {"shares": shares}]}]})


def test_a_curve_grows_and_is_read_by_keys(chromium, portal, cast):
    with browsing(chromium, portal, elsewhere(make.session, cast.ada), viewport={"width": 390, "height": 844}) as page:
        page.goto(f"/j/{cast.job.public_id}/?tab=metrics")
        figure = page.locator('[data-chart="gpu_busy_percent"]')
        expect(figure.locator(".chart-says")).to_contain_text("Mean 80")
        assert page.locator('[role="img"][aria-label^="GPU memory. Peak 4.19"]').count() == 1
        expect(page.locator('[data-part="gaps"] li')).to_have_count(1)
        assert figure.locator(".chart-box").evaluate(PAINTED) > 3
        elsewhere(sample, cast, 0, busy_ms=1000)  # of its quarter, 40 %
        expect(figure.locator(".chart-now")).to_have_text("now 40\u00a0%")
        figure.locator(".chart-box").press("Home")
        for _ in range(7):
            figure.locator(".chart-box").press("ArrowRight")
        expect(figure.locator(".chart-now")).to_contain_text("80\u00a0%")
        expect(page.locator('[data-chart="gpu_memory_mib"] .chart-now')).to_contain_text("4.19")  # in step
        page.locator(".chart-twin summary").click()
        expect(page.locator(".chart-twin tbody tr").nth(20)).to_be_attached()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
