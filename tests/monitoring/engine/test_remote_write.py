"""What is written for an engine is read back by the specifications, whatever the labels and values are."""

from hypothesis import given
from hypothesis import strategies as st

from monitoring.engine.remote_write import NAME, Series, encode_body
from tests.monitoring.engine.wire import read_body

NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,20}", fullmatch=True)
LABELS = st.dictionaries(NAMES, st.text(st.characters(codec="utf-8"), max_size=200), max_size=5)
POINTS = st.lists(st.tuples(st.integers(0, 2**62), st.floats(allow_nan=False)), max_size=5)


@given(st.lists(st.builds(Series, LABELS, POINTS), max_size=4))
def test_what_was_encoded_is_what_is_read(series):
    assert read_body(encode_body(series)) == [(sorted(one.labels.items()), one.points) for one in series]


def test_the_name_stands_first_as_receivers_ask():
    (read,) = read_body(encode_body([Series({"gpu": "GPU-1", "Zone": "b", NAME: "x"}, [(1, 2.5)])]))
    assert [name for name, _ in read[0]] == ["Zone", NAME, "gpu"] == sorted(["gpu", NAME, "Zone"])


def test_many_series_that_are_alike_take_few_bytes():
    many = [Series({NAME: "tessera_gpu_busy_percent", "gpu": f"GPU-{i:032x}"}, [(10**12, 97.0)]) for i in range(5000)]
    body = encode_body(many)
    assert len(read_body(body)) == 5000 and len(body) < 5000 * 40
