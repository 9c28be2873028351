"""Values of secrets are masked in logs, however they were written and however the output was cut."""

import base64
import hashlib
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtimes.log_masking import BLOCK, LogMask, MaskedStream

TOKEN = "hf_Zq8wVt/2+é=="
letters = st.sampled_from("abé/+ \n")
values = st.lists(st.text(letters, min_size=8, max_size=14), min_size=1, max_size=3)


def feed(mask: LogMask, pieces: list[bytes]) -> bytes:
    stream = MaskedStream(mask)
    return b"".join([*map(stream.feed, pieces), stream.finish()])


@given(values, st.data())
def test_however_a_stream_is_cut_the_log_is_the_same_and_as_long(secrets, data):
    words = st.one_of(st.sampled_from(secrets), st.text(letters, max_size=3))
    whole = "".join(data.draw(st.lists(words, max_size=6))).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    mask = LogMask(secrets)
    masked = mask.cover(whole, is_last=True)
    assert feed(mask, pieces) == masked and len(masked) == len(whole)
    assert not any(value.strip().encode() in masked for value in secrets if len(value.strip()) >= 8)


@given(st.text(max_size=200), st.binary(max_size=7), st.binary(max_size=7))
def test_a_value_is_found_in_base64_wherever_it_stands(text, before, after):
    value = f"key-1234{text}".strip()
    encoded = base64.b64encode(before + value.encode() + after)
    masked = LogMask([value]).cover(encoded, is_last=True)
    left = base64.b64decode(masked.replace(b"*", b"A") + b"==")
    assert b"key-1234"[1:7] not in left and len(masked) == len(encoded)


@pytest.mark.parametrize("safe", ["", "/"])
def test_a_value_is_found_as_urls_quote_it(safe):
    line = f"GET /?token={quote(TOKEN, safe=safe)}&x=1\n".encode()
    masked = LogMask([TOKEN]).cover(line, is_last=True)
    assert masked == b"GET /?token=" + b"*" * (len(line) - 17) + b"&x=1\n"


def test_a_value_that_comes_in_three_writes_is_masked():
    stream = MaskedStream(LogMask([TOKEN]))
    raw = TOKEN.encode()
    first = stream.feed(b"token: " + raw[:3])
    assert first == b"token: "  # what may be its begin waits
    assert stream.feed(raw[3:9]) == b""
    assert stream.feed(raw[9:] + b" ok\n") == b"*" * len(raw) + b" ok\n"
    assert stream.finish() == b""


def test_the_begin_of_a_value_is_told_once_it_is_not_one():
    stream = MaskedStream(LogMask(["abcdefgh"]))
    assert stream.feed(b"abcdefg") == b""
    assert stream.feed(b"x") == b"abcdefgx"
    assert stream.feed(b"abc") + stream.finish() == b"abc"


def test_the_longer_of_two_values_that_begin_alike_is_masked_whole():
    mask = LogMask(["abcdefgh", "abcdefghijkl"])
    assert feed(mask, [b"abcdefgh", b"ijkl."]) == b"************."
    assert feed(mask, [b"abcdefgh", b"ijk."]) == b"********ijk."


def test_short_values_are_words_and_stay():
    assert LogMask(["seven77", " 7 \n"]).cover(b"seven77 7", is_last=True) == b"seven77 7"


def test_the_space_around_a_value_is_not_of_it():
    assert LogMask(["abcdefgh\n"]).cover(b"it is abcdefgh!", is_last=True) == b"it is ********!"


def test_little_is_held_back_of_a_long_value():
    value = hashlib.shake_128(b"long").hexdigest(30_000)
    mask = LogMask([value])
    assert mask.cover(value.encode(), is_last=True) == b"*" * 60_000
    assert len(mask.cover(value.encode()[:30_000])) > 30_000 - 2 * BLOCK


def test_many_matches_that_overlap_take_no_time():
    assert LogMask(["a" * 65_536]).cover(b"a" * (1 << 20), is_last=True) == b"*" * (1 << 20)
