"""Changes of a history: what they make of it, what they come to, and how they are reported."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from monitoring.history.file_format import ChangeLine, QuotaLine, compress_lines
from scheduler.whatif.comparison import POINTS, average, compare
from scheduler.whatif.measures import ALL
from scheduler.whatif.report import build_report, write_text
from scheduler.whatif.scenarios import read_scenario
from tests.whatif.small_history import DAY, history, job, machine


def busy():
    """Six jobs of a whole machine at once, of two teams."""
    return history(*(job(n, 100.0 * n, 3600, waited_s=3600 * n, team=("nlp", "vision")[n % 2]) for n in range(6)))


def apply(words: str, of=None, seed: int = 1):
    return read_scenario(words).apply(of or busy(), seed)


def test_machines_more_or_fewer_are_like_most_of_the_pool():
    more = apply("nodes+2")
    assert [one.name for one in more.machines] == ["n1", "new-1", "new-2"] and len(more.machines[2].cards) == 4
    two = replace(busy(), machines=(machine("n1"), machine("n2")), changes=(ChangeLine(5, "machine", ["n2"], {}),))
    fewer = apply("nodes.train-1", two)
    assert [one.name for one in fewer.machines] == ["n1"] and not fewer.changes


def test_a_quota_holds_all_the_time_and_raises_its_limit():
    limited = QuotaLine("nlp", "train", {"gpu_milli_limit": 8000})
    later = ChangeLine(9, "quota", ["nlp", "train"], {"gpu_milli_guarantee": 0, "gpu_milli_limit": 4000})
    of = replace(busy(), quotas=(limited,), changes=(later,))
    made = apply("quota.nlp=24", of)
    assert made.quotas[0].values == {"gpu_milli_limit": 24_000, "gpu_milli_guarantee": 24_000}
    assert made.changes[0].values == {"gpu_milli_limit": 24_000}
    assert apply("quota.nlp.train.limit=none", of).quotas[0].values == {"gpu_milli_limit": None}
    assert apply("quota.nlp.weight=3", of).quotas[0].values["weight"] == 3


def test_a_policy_is_any_setting_of_a_pool():
    made = apply("pool.train.short_first=true, pool.train.ageing_s=3600")
    assert (made.pools[0].policy["short_first"], made.pools[0].policy["ageing_s"]) == (True, 3600)


def test_more_jobs_are_drawn_from_those_that_came():
    made = apply("jobs+20/day")
    assert len(made.jobs) == 26 and all(0 <= one.submitted_at < DAY for one in made.jobs)
    assert apply("jobs+20/day").jobs == made.jobs != apply("jobs+20/day", seed=2).jobs
    assert len(apply("jobs-100%").jobs) == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("nodes", "is no change. Known are nodes"),
        ("nodes.dev+1", "the history has no pool dev. It has train"),
        ("nodes-3", "pool train has only 1 machines"),
        ("quota.speech=4", "the history has no team speech. It has nlp, vision"),
        ("quota.nlp.train=none", "only a limit can be none"),
        ("quota.nlp.weight=0", "a weight is 1 to 1000"),
        ("pool.train.colour=red", "a pool has no setting colour. Known are shared"),
        ("pool.train.ageing_s=1", "greater than or equal to 60"),
        ("pool.train.stop_longer=4", "short_first"),
        ("jobs-120%", "0 to 100 % of the jobs"),
        ("jobs.preemptible=maybe", "it is true or false"),
    ],
)
def test_what_cannot_be_names_itself_and_the_remedy(words, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        apply(words)


def test_a_file_names_a_scenario_of_several_changes(tmp_path):
    path = tmp_path / "more.yaml"
    path.write_text("name: Twice\nwhat: [nodes+1, jobs+6/day]\n")
    found = read_scenario(str(path))
    assert (found.name, found.chance, len(found.changes)) == ("Twice", True, 2)
    path.write_text("nodes: 4\n")
    with pytest.raises(ValueError, match="unknown: nodes; known: name, what"):
        read_scenario(str(path))


def test_another_machine_halves_the_queue_and_the_report_says_so():
    comparison = compare(busy(), [read_scenario("nodes+1"), read_scenario("jobs+6/day")], 2)
    was, more, drawn = comparison.outcomes
    before, after = (one.results[0].figures.of[ALL] for one in (was, more))
    assert before.mean_wait_s == comparison.recorded.figures.of[ALL].mean_wait_s - 100 * 2.5 > 2 * after.mean_wait_s
    assert len(drawn.results) == 2 and drawn.spread(lambda figures: figures.of[ALL].jobs) == (12, 12, 12)
    lines = list(write_text(comparison))
    assert [line.split("  ")[0] for line in lines if line.startswith("nodes+1")] == ["nodes+1"] * 2
    html = build_report(comparison, "abc")
    assert "nodes+1" in html and "jobs ahead" in html and html == build_report(comparison, "abc")
    assert html.count("<details") == 4 and "<script" not in html


def test_use_is_averaged_over_equal_spans():
    found = average([(0.0, 50.0, 4.0), (25.0, 100.0, 1.0)], 0.0, 100.0)
    assert len(found) == POINTS and found.mean() == pytest.approx(2.75)
    assert found[0] == pytest.approx(4) and found[-1] == pytest.approx(1)


@pytest.fixture
def exported(tmp_path):
    of = busy()
    lists = (of.pools, of.teams, of.machines, of.quotas, of.jobs)
    path = tmp_path / "history.jsonl.gz"
    path.write_bytes(b"".join(compress_lines([of.header, *(line for lines in lists for line in lines)])))
    return path


def test_the_command_prints_and_writes_it(exported, tmp_path, capsys):
    out = tmp_path / "r.html"
    call_command("tessera_sim", history=exported, what=["nodes+1"], html=out)
    told = capsys.readouterr()
    assert "replayed" in told.out and "nodes+1" in told.out and "2 of 2 played" in told.err
    assert "What would have happened" in out.read_text()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"what": ["nodes+1"]}, "name one file"),
        ({"history": Path("none.gz")}, "none.gz cannot be opened"),
        ({"history": "HERE", "nodes": 4}, "--nodes is of scenarios and traces"),
        ({"history": "HERE", "seeds": 0}, "--seeds is 1 or more"),
        ({"history": "HERE", "what": ["nodes"]}, "is no change"),
        ({"history": "HERE", "week": 2, "html": "r.html"}, "--week: the history has 1 of them"),
    ],
)
def test_the_command_refuses_what_it_cannot_do(exported, options, why):
    given = {name: exported if value == "HERE" else value for name, value in options.items()}
    with pytest.raises(CommandError, match=why):
        call_command("tessera_sim", **given)
