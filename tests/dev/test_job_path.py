"""The tool that traces a job through the files."""

import pytest

from dev.code_metrics import ROOT
from dev.job_path import count_returns, run_in


def test_a_way_back_counts_once_however_often_it_is_taken():
    assert (
        count_returns({"files": [], "commit": ["a", "b", "a", "b", "a", "c", "a", "a"]}) == 3
    )  # b to a, a to b, c to a


def test_a_stretch_that_never_comes_back_has_no_returns():
    assert count_returns({"files": [], "commit": ["a", "a", "b", "b", "c"]}) == 0


@pytest.mark.slow
def test_a_job_is_traced_from_its_post_to_its_process():
    traced = run_in(ROOT)
    assert traced["files"][-1].startswith(("platform/runtimes/local/shim/", "agent/usage/"))  # by which the shim counts
    assert {"portal/middleware.py", "scheduler/tasks.py", "scheduler/core/cycle.py"} <= {*traced["files"]}
    assert "platform/jobs/lifecycle.py" in traced["commit"]
