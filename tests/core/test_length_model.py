"""How long jobs are predicted to run, where the answer can be worked out by hand."""

import json
from math import inf
from random import Random

import pytest

from scheduler.core.prediction.job_traits import WITNESSES, JobTraits, PastJob, cut_name, list_keys
from scheduler.core.prediction.length_model import LengthModel, PredictedLength, learn_lengths, load_model

ADA, BOB = 1, 2


def job(person=ADA, name="", *, said_s=None, team=1, pool=1, size="1", **more) -> JobTraits:
    return JobTraits(person, team, pool, name, size=size, said_s=said_s, **more)


def ran(seconds, person=ADA, name="", **more) -> PastJob:
    return PastJob(job(person, name, **more), seconds)


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("resnet", "resnet"),
        ("resnet-50", "resnet"),
        ("resnet-50-3f9c2e", "resnet"),
        ("train_v2.1", "train"),
        ("sweep/lr#0.01", "sweep/lr"),
        ("facade", "facade"),
        ("gpt2-large", "gpt2-large"),
        ("2024", "2024"),
        ("", ""),
    ],
)
def test_a_name_is_told_without_the_numbers_and_hashes_that_end_it(name, stem):
    assert cut_name(name) == stem


def test_each_witness_has_a_key_of_its_own():
    keys = list_keys(job(ADA, "a", said_s=9.0, command="c", program="p", image="i"))
    assert [key[0] for key in keys] == list(range(len(WITNESSES)))
    assert list_keys(JobTraits(1, 2, 3)).count(None) == 8


def test_where_nothing_is_known_it_is_what_was_said_or_nothing():
    assert LengthModel().predict(job()) == PredictedLength(inf, inf, "", 0)
    assert LengthModel().predict(job(), limit_s=60.0) == PredictedLength(60.0, inf, "", 0)
    assert LengthModel().predict(job(said_s=600.0)) == PredictedLength(600.0, inf, "said", 0)


@pytest.mark.parametrize(("past", "expected_s"), [(19, inf), (20, 300.0)])
def test_a_pool_tells_of_strangers_once_enough_jobs_ended_there(past, expected_s):
    model = learn_lengths([ran(300.0, person=10 + n, team=10 + n) for n in range(past)])
    assert model.predict(job(size="8")).expected_s == expected_s
    assert model.predict(job(size="8", pool=2)).expected_s == inf


def test_the_newest_jobs_of_a_name_tell_of_the_next_one():
    usual = {"a": 100.0, "b": 7000.0, "c": 30.0}
    past = [ran(usual[name] * part, name=name) for part in (0.9, 1.0, 1.1) * 6 for name in usual]
    found = learn_lengths(past).predict(job(name="a"))
    assert (found.expected_s, found.basis, found.count) == (100.0, "name", 18)
    assert 105 < found.latest_s < 120
    slower = learn_lengths([*[ran(100.0, name="a")] * 20, *[ran(1000.0, name="a")] * 11])
    assert slower.predict(job(name="a")).expected_s == 1000.0


def test_names_are_told_apart_by_person_and_what_they_run():
    model = learn_lengths([one for _ in range(9) for one in (ran(60.0, ADA, "a"), ran(6000.0, BOB, "a", team=2))])
    assert model.predict(job(ADA, "a")).expected_s == 60.0
    assert model.predict(job(BOB, "a", team=2)).expected_s == 6000.0
    commands = [one for _ in range(9) for one in (ran(60.0, name="a", command="x"), ran(600.0, name="a", command="y"))]
    assert [learn_lengths(commands).predict(job(name="a", command=c)).expected_s for c in "xy"] == [60.0, 600.0]


@pytest.mark.parametrize(("team", "expected_s"), [(2, 60.0), (1, inf)])
def test_a_name_is_known_to_colleagues_and_to_nobody_else(team, expected_s):
    model = learn_lengths([ran(60.0, person=10 + n, name="a", team=2) for n in range(9)])
    assert model.predict(job(name="a", team=team)).expected_s == expected_s


def test_who_says_ten_times_as_long_is_corrected_by_this_record():
    dice = Random(1)
    true_s = [dice.choice((60.0, 600.0, 6000.0)) for _ in range(40)]
    model = learn_lengths([ran(seconds, name=f"x{n}x", said_s=10 * seconds) for n, seconds in enumerate(true_s)])
    found = model.predict(job(name="new", said_s=36_000.0))
    assert (found.expected_s, found.latest_s, found.basis) == (3600.0, 3600.0, "said_by_person")
    assert model.predict(job(BOB, "new", said_s=36_000.0)).basis == "said_in_pool"


def test_who_is_right_is_believed():
    past = [ran(seconds, name="x", said_s=seconds) for seconds in (60.0, 5000.0, 400.0, 20_000.0) * 5]
    found = learn_lengths(past).predict(job(name="x", said_s=777.0))
    assert (found.expected_s, found.latest_s) == (777.0, 777.0) and found.basis.startswith("said")


def test_the_word_of_who_says_anything_counts_less_than_what_the_jobs_of_this_name_took():
    dice = Random(2)
    past = [ran(300.0, name="x", said_s=dice.choice((10.0, 1e4, 1e5))) for _ in range(30)]
    assert learn_lengths(past).predict(job(name="x", said_s=1e5)) == PredictedLength(300.0, 300.0, "name", 20)


def test_nine_in_ten_do_not_exceed_the_latest():
    dice = Random(3)
    past = [ran(dice.lognormvariate(8, 1), name="x") for _ in range(4000)]
    tested = learn_lengths(past).tested
    assert len(tested) == 1000  # the newest
    assert sum(one.seconds <= one.latest_s for one in tested) / len(tested) == pytest.approx(0.9, abs=0.03)
    assert sum(one.seconds <= one.expected_s for one in tested) / len(tested) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(("elapsed_s", "expected_s"), [(0, 100), (99, 100), (100, 1000), (999, 1000), (1000, 2000)])
def test_who_outlives_the_expected_is_like_those_who_did(elapsed_s, expected_s):
    model = learn_lengths([*[ran(seconds, name="x") for seconds in (100.0, 100.0, 1000.0)] * 20])
    assert model.predict(job(name="x"), elapsed_s=elapsed_s).expected_s == expected_s


def test_who_outlives_the_expected_is_expected_to_last_as_half_of_those_did():
    model = learn_lengths([ran(s, name="x") for s in (100.0, 100.0, 100.0, 100.0, 1000.0, 2000.0, 4000.0) * 20])
    assert [model.predict(job(name="x"), elapsed_s=s).expected_s for s in (0, 150, 1500)] == [100, 2000, 4000]


def test_a_witness_is_judged_by_its_errors_of_this_very_group():
    """Names tell nothing of Ada's jobs but of one, of which her word is worth little."""
    dice = Random(6)
    past = []
    for _ in range(30):
        wild_s, said_s = dice.lognormvariate(7, 3), 300 * dice.choice((0.2, 5.0))
        past += [ran(wild_s, name="wild", said_s=wild_s), ran(300.0, name="steady", said_s=said_s)]
    model = learn_lengths(past)
    assert model.predict(job(name="steady", said_s=1500.0)) == PredictedLength(300.0, 300.0, "name", 20)
    assert model.predict(job(name="wild", said_s=1500.0)).basis.startswith("said")


def test_no_end_is_in_the_past_or_beyond_the_limit():
    dice = Random(4)
    model = learn_lengths([ran(dice.lognormvariate(5, 2), name="x", said_s=100.0) for _ in range(50)])
    for _ in range(200):
        elapsed_s, limit_s = dice.lognormvariate(5, 3), dice.choice((inf, dice.lognormvariate(5, 3)))
        found = model.predict(job(name="x", said_s=dice.choice((None, 50.0))), limit_s=limit_s, elapsed_s=elapsed_s)
        assert elapsed_s < found.expected_s <= found.latest_s <= max(limit_s, elapsed_s + 1)


def test_a_stored_model_predicts_alike():
    dice = Random(5)
    model = learn_lengths(
        [ran(dice.lognormvariate(8, 1), dice.randrange(5), dice.choice("abc"), said_s=60.0) for _ in range(300)]
    )
    stored = load_model(json.loads(json.dumps(model.dump())))
    for person in range(6):
        found, told = stored.predict(job(person, "a")), model.predict(job(person, "a"))
        assert (found.basis, found.count) == (told.basis, told.count)
        assert (found.expected_s, found.latest_s) == pytest.approx((told.expected_s, told.latest_s), rel=0.01)
    assert len(stored.tested) == 300
    assert load_model({"witnesses": ["another"]}).predict(job()) == PredictedLength()
