"""A service while replicas and platform are stopped around it: a tenth of what `bin/bench serve_faults` does."""

import pytest

from bench.faults import ONE_IS_MANY
from bench.serve_faults import serve_through_faults
from bench.stack import running_stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_rollouts_a_preemption_and_kills_lose_and_double_no_request():
    with running_stack(gpus="1xV100-32GB", notebooks=False, variables=ONE_IS_MANY) as stack:
        told, counted = serve_through_faults(stack, requests=200, seconds=45)
    assert (dict(told.answers), told.lost) == ({"200": 200}, [])
    assert counted == {f"n{number}": 1 for number in range(1, 200, 2)}
