"""The sentences of errors: in people's units, with the remedy, and never failing."""

import importlib
from pathlib import Path

import pytest
from django.utils import translation

from common.errors import FieldError, QuotaExceeded
from portal.wording import errors
from portal.wording.errors import FIELD_MESSAGES, describe_error, describe_field_error

PLATFORM = Path(errors.__file__).parents[2] / "platform"


@pytest.fixture(autouse=True)
def english():
    with translation.override("en"):
        yield


def words_of(code, pointer="/gpu", **params):
    return describe_field_error(FieldError(pointer, code, params))


def tables_of(name):
    """The table of this name of each app, by the app's path."""
    paths = sorted(PLATFORM.rglob("error_messages.py"))
    modules = {
        path: importlib.import_module(".".join(path.relative_to(PLATFORM).with_suffix("").parts)) for path in paths
    }
    return {path: getattr(module, name) for path, module in modules.items() if hasattr(module, name)}


@pytest.mark.parametrize("name", ["FIELD_MESSAGES", "ERROR_MESSAGES"])
def test_every_app_s_table_is_sorted_and_read_and_no_code_stands_in_two(name):
    merged, seen = getattr(errors, name), set()
    for path, table in tables_of(name).items():
        assert list(table) == sorted(table, key=lambda code: code.split(".")), path
        assert table.items() <= merged.items(), path
        assert not seen & set(table), path
        seen |= set(table)
    own = [code for code in merged if code not in seen]
    assert own == sorted(own) and len(own) > 4


@pytest.mark.parametrize("code", sorted(FIELD_MESSAGES))
def test_every_sentence_can_be_made_without_any_number(code):
    assert words_of(code)


def test_an_impossible_amount_of_memory_is_said_in_gigabytes():
    sentence = words_of("impossible_memory_mib", "/memory", field="memory_mib", asked=95368, largest=16383, pool="dev")
    assert "100 GB of memory" in sentence
    assert "Ask for at most 17.2 GB" in sentence


def test_an_impossible_part_of_a_card_is_said_as_a_part():
    sentence = words_of("impossible_gpu_sharing", field="gpu_sharing", asked=250, largest=1000, pool="train")
    assert "(¼)" in sentence


def test_a_pool_without_a_gpu_says_so_instead_of_naming_zero():
    assert "has no GPU" in words_of("impossible_gpus", field="gpus", asked=2, largest=0, pool="cpu")


def test_a_limit_of_a_team_is_said_in_cards():
    params = {"resource": "gpu_milli", "used": 0, "limit": 1500, "ask": 2000, "asked": 2000, "largest": 1500}
    assert "at most 1.5 GPUs in pool dev" in words_of("team_limit", team="nlp", pool="dev", **params)


def test_a_limit_of_memory_reads_as_a_sentence():
    params = {"resource": "memory_mib", "limit": 16384, "asked": 32768}
    assert "at most 17.2 GB of memory" in words_of("user_limit", "/memory", **params)


def test_the_field_of_a_quota_names_its_unit():
    sentence = words_of("guarantee_above_limit", "/gpu_milli_guarantee", guarantee=2500, limit=1000)
    assert "(2.5)" in sentence and "(1)" in sentence


def test_a_team_without_any_pool_is_not_offered_a_choice():
    assert "()" not in words_of("no_quota", "/pool", team="nlp", pool="dev", known="")


def test_an_unknown_code_still_makes_a_sentence():
    assert words_of("never_heard_of", "/env/A").startswith("env.A")


def test_a_limit_of_counts_names_used_and_limit():
    assert "5 of 5" in describe_error(QuotaExceeded("user_limit", used=5, limit=5))
