"""Tables as CSV: a spreadsheet calculates nothing of what people have named."""

import csv
import io

import pytest

from portal.csv_text import write_csv


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_what_begins_like_a_formula_is_text(text):
    (row,) = list(csv.reader(io.StringIO(write_csv(["name"], [[text]]), newline="")))[1:]
    assert row == [f"'{text}"]


def test_numbers_and_other_text_stay_as_they_are():
    said = write_csv(["a", "b"], [[-1.5, "a=b"], [None, 'say "hi", she said']])
    assert said == 'a,b\r\n-1.5,a=b\r\n,"say ""hi"", she said"\r\n'
