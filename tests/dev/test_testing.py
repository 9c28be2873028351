import os

import pytest

from dev.testing import examples, pytest_command


def test_the_quick_tests_run_on_two_workers_for_each_core_by_default():
    workers = str(min(2 * os.cpu_count(), 16))
    assert pytest_command([])[3:] == [
        *("-n", workers, "--dist", "loadfile", "--no-loadscope-reorder"),
        *("-m", "not slow and not kubernetes"),
    ]


@pytest.mark.parametrize(
    ("arguments", "fewer"), [([], True), (["-x", "tests/core"], True), (["-m", "slow"], False), (["--all"], False)]
)
def test_who_does_not_say_which_tests_gets_fewer_random_worlds(arguments, fewer):
    assert bool(examples(arguments)) == fewer


def test_arguments_win_over_the_defaults():
    assert pytest_command(["--all", "-n", "0"])[3:] == ["-n", "0"]
