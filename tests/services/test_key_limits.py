"""Places of a key: as many as its limit, at all gateways together, and none that a dead gateway keeps for long."""

from services.key_limits import LASTS_S, leave_place, renew_places, take_place


def test_places_are_left_renewed_and_end_with_their_gateway(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("services.key_limits.time", lambda: now)
    assert [take_place(7, place, 2) for place in "abc"] == [True, True, False]
    assert take_place(8, "a", 1)
    leave_place(7, "a")
    assert take_place(7, "d", 2) and not take_place(7, "e", 2)
    now += LASTS_S - 1
    renew_places({"d": 7})
    now += 2
    assert [take_place(7, place, 2) for place in "fg"] == [True, False]  # b has ended by itself
