"""At most three failing tests get a second try, alone; who passes it is named with its reason."""

import json
from pathlib import Path

import pytest

from dev import flaky

ONE, TWO = "tests/a/test_a.py::test_one", "tests/b/test_b.py::test_two[x]"

RESULTS = """<testsuites><testsuite>
<testcase classname="tests.a" name="good"/>
<testcase classname="tests.a" name="bad"><failure message="assert 1 == 2&#10; + where"/></testcase>
</testsuite></testsuites>
"""
WRONG = "FAILED tests.a.bad: assert 1 == 2 + where\n"


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Plays `bin/test`: each run has the next exit status, and the first one these failures."""
    monkeypatch.setenv("TESSERA_FLAKY", str(tmp_path / "flaky"))

    def play(failed, *statuses):
        done = []

        def run(*arguments):
            if not done:
                _, marks, _, cache_dir, results, *options = arguments
                cache = Path(cache_dir.removeprefix("cache_dir=")) / "v/cache"
                cache.mkdir(parents=True)
                Path(results.removeprefix("--junitxml=")).write_text(RESULTS)
                (cache / "lastfailed").write_text(json.dumps(dict.fromkeys(failed, True)))
                arguments = (marks, *options)
            done.append(arguments)
            return statuses[len(done) - 1]

        monkeypatch.setattr(flaky, "run_tests", run)
        return done

    return play


def test_who_passes_alone_is_flaky_and_named_at_the_end(runs, capsys):
    done = runs([ONE], 1, 0)
    assert flaky.main(["slow", "-n", "2"]) == 0
    assert done == [("slow", "-n", "2"), ("-m", "slow", "-n", "0", ONE)]
    capsys.readouterr()
    assert flaky.main(["--report"]) == 0
    assert capsys.readouterr().out == f"FLAKY {ONE}: give the reason in tests/flaky.md\n{WRONG}"


def test_who_fails_alone_fails_the_check(runs):
    runs([ONE], 1, 1)
    assert flaky.main(["slow"]) == 1


def test_what_all_runs_together_forgive_is_three(runs):
    runs([ONE, TWO], 1, 0)
    assert flaky.main(["quick"]) == 0
    done = runs([ONE, TWO], 1, 0)
    assert flaky.main(["slow"]) == 1 and len(done) == 1


@pytest.mark.parametrize(
    ("failed", "status"),
    [([], 1), (["tests/a/test_a.py"], 1), ([ONE, "tests/a/test_a.py"], 1), ([ONE], 2), ([ONE], 3)],
    ids=["nobody knows which", "not collected", "one not collected", "interrupted", "pytest broke"],
)
def test_what_is_no_failing_test_has_no_second_try(runs, failed, status):
    done = runs(failed, status, 0)
    assert flaky.main(["slow"]) == status and len(done) == 1


def test_a_part_of_a_test_has_its_file_run(runs):
    done = runs([TWO], 1, flaky.NOT_FOUND, 0)
    assert flaky.main(["slow"]) == 0
    assert done[-1] == ("-m", "slow", "-n", "0", "tests/b/test_b.py")


def test_reasons_are_read_and_a_test_that_is_there_twice_is_told(tmp_path, monkeypatch):
    row = f"| `{ONE}` | a race | 2026-11-26 |\n"
    assert flaky.report([ONE], flaky.read_reasons(row)) == f"FLAKY {ONE}: a race\n"
    monkeypatch.setattr(flaky, "REASONS", tmp_path / "flaky.md")
    for text, told in ((row, False), (row + row, True)):
        (tmp_path / "flaky.md").write_text(text)
        assert (ONE in flaky.check()) == told
