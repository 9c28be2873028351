"""Where a piece of a log may be cut."""

import pytest

from portal.live.log_tail import leading_rest, open_tail


@pytest.mark.parametrize("character", ["é", "第", "🧩"])
def test_a_character_is_never_cut(character):
    data = character.encode()
    for n in range(1, len(data)):
        assert open_tail(b"a" + data[:n]) == n
        assert leading_rest(data[n:] + b"a") == len(data) - n
    assert open_tail(data) == open_tail(b"") == open_tail(b"\xff") == 0
