"""What the platform itself did, exported and played again: waits are those that really were."""

import time
from datetime import timedelta
from pathlib import Path

import pytest

from monitoring.history.export import export_history
from monitoring.history.file_format import compress_lines, read_history
from scheduler.whatif.comparison import compare
from scheduler.whatif.measures import ALL
from scheduler.whatif.scenarios import read_scenario
from tests.whatif.platform_run import BEGINS, DAY, plan_month, platform_run
from tests.whole import part_of

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
SCENARIOS = ("nodes+1", "quota.nlp=18, jobs.preemptible=true")
REPORT_S = 60.0


def drive(path: Path, settings, monkeypatch, *, jobs: int, days: int) -> None:
    settings.TESSERA_CLOCK_STEADY_S = 0
    with platform_run(3, 8, monkeypatch) as run:
        plan_month(run, jobs, days)
        run.go_on_until(days * DAY)
        lines = export_history(BEGINS + timedelta(days=days), days, anonymous=True)
        path.write_bytes(b"".join(compress_lines(lines)))


@pytest.mark.timeout(7200)
def test_a_month_of_the_platform_is_played_as_it_was(settings, tmp_path, monkeypatch):
    """With stops, held jobs, two changes of quota, a maintenance and a machine that fails."""
    jobs, days = part_of(1000, 100), part_of(30, 3)
    drive(tmp_path / "history.jsonl.gz", settings, monkeypatch, jobs=jobs, days=days)
    history = read_history(tmp_path / "history.jsonl.gz")
    began = time.monotonic()
    scenarios = [read_scenario(words.replace("nlp", history.teams[0].name)) for words in SCENARIOS]
    comparison = compare(history, scenarios, 1)
    took_s = time.monotonic() - began
    truth, played = comparison.recorded.figures.of[ALL], comparison.outcomes[0].results[0].figures.of[ALL]
    assert truth.jobs > 0.9 * jobs and truth.stops and truth.mean_wait_s > 600
    assert played.mean_wait_s == pytest.approx(truth.mean_wait_s, rel=0.05)
    assert played.p95_wait_s == pytest.approx(truth.p95_wait_s, rel=0.1)
    assert took_s < REPORT_S
