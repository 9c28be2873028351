"""Slices of the library that is built once for all its tests."""

import pytest

from tests.agent_slice import LIMIT, Built, Slice, build_once


@pytest.fixture(scope="session")
def lingering(built) -> Built:
    """Shims that stay in the locked section for a while, so that a kill is likely to hit it."""
    return build_once("lingering", "-DSLICE_LINGER=20000")


@pytest.fixture
def make_slice(tmp_path):
    made = []

    def make(built: Built, *limits: int) -> Slice:
        made.append(Slice(built, tmp_path / f"slice{len(made)}", list(limits) or [LIMIT, LIMIT // 2]))
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture
def a_slice(built, make_slice) -> Slice:
    return make_slice(built)


@pytest.fixture
def processes() -> list:
    """What a test started, in order; the slice ends them."""
    return []
