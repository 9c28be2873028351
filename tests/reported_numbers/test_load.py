"""Many tasks that report a number a second: none is lost, and the worker stays free (bin/bench numbers)."""

import pytest

from bench.numbers import CORE, measure
from tests.whole import part_of

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


def test_many_tasks_that_report_lose_nothing_and_leave_the_worker_free(tmp_path):
    tasks, seconds = part_of(1000, 100), part_of(60, 9)
    found = measure(tmp_path, tasks, seconds)
    assert (found.numbers, found.wrong) == (tasks * seconds, 0)
    assert found.core < CORE
