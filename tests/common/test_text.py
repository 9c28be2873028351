import pytest

from common.text import bad_character, did_you_mean, kind_of, name_problem, shorten_text


@pytest.mark.parametrize(
    "name, code",
    [
        ("llama-sft", None),
        ("训练 实验 🚀", None),
        ("<script>", None),
        ("x" * 64, None),
        ("", "required"),
        ("x" * 65, "too_long"),
        (" a", "outer_space"),
        ("a\u3000", "outer_space"),
        ("a\nb", "bad_characters"),
        ("a\x00", "bad_characters"),
        ("a\x1b[31m", "bad_characters"),
        ("a\u202eb", "bad_characters"),
        ("a\u2066b", "bad_characters"),
        ("a\u200bb", "bad_characters"),
        ("\ufeffa", "bad_characters"),
        ("a\u2028b", "bad_characters"),
        ("a\ud800", "bad_characters"),
    ],
)
def test_a_name_shows_all_its_characters(name, code):
    assert (name_problem(name) or (None,))[0] == code


def test_the_bad_character_is_named():
    assert bad_character("ab\u202ec") == "U+202E"


def test_a_near_word_is_offered_and_a_far_one_not():
    assert did_you_mean("gpus", ["gpu", "cpu"]) == "gpu"
    assert did_you_mean("zzz", ["gpu", "cpu"]) is None


def test_what_is_quoted_is_short_and_seen():
    assert shorten_text("a\x1b\u202eb") == "a\ufffd\ufffdb"
    assert len(shorten_text("x" * 1000)) == 40


def test_kinds_have_words():
    assert [kind_of(v) for v in (None, True, 1, 0.5, "a", [], {}, b"")] == [
        "nothing", "true_or_false", "number", "number", "text", "list", "map", "something_else",
    ]  # fmt: skip
