"""The reference pages say what the code says: nothing of it is left out, and each code has its anchor."""

import json
import re
from pathlib import Path

import pytest

from dev.docs.commands import describe_commands
from dev.docs.messages import describe_errors, describe_reasons, find_statuses
from dev.docs.operations import describe_operations
from dev.docs.settings_table import find_settings
from jobs.reason_messages import WAIT_REASONS
from jobs.states import REASONS
from portal.wording.errors import ERROR_MESSAGES, FIELD_MESSAGES

ROOT = Path(__file__).parents[2]
SOURCE = """
# Where it is. It
# has two lines.
PLACE = Path(env_text("X_PLACE", str(ROOT / "data")))
BYTES = env_int("X_BYTES", 20 * 10**9)  # 0 = no limit

OPTIONS = {
    "a": env_bool("X_A"),  # an option
    "key": env_secret("X_KEY"),
}
"""


def anchors(page):
    return re.findall(r"\{ #([\w-]+) \}$", page, re.MULTILINE)


def test_every_error_and_reason_has_one_anchor():
    errors, reasons = anchors(describe_errors()), anchors(describe_reasons())
    assert len(errors) == len(set(errors)) and len(reasons) == len(set(reasons))
    wanted = {key.split(".")[0] for key in ERROR_MESSAGES} | {f"field-{key.split('.')[0]}" for key in FIELD_MESSAGES}
    assert set(errors) == wanted
    assert set(reasons) == {f"wait-{key.split('.')[0]}" for key in WAIT_REASONS} | set(REASONS)


def test_an_error_tells_its_status_and_what_is_filled_in():
    page = describe_errors()
    section = page.split("{ #missing_scope }")[1].split("###")[0]
    assert "HTTP 403" in section and "the scope ‹scope›" in section and "%(" not in page


@pytest.mark.parametrize(("code", "status"), [("not_found", 404), ("missing_scope", 403), ("platform_disk_full", 507)])
def test_statuses_are_those_of_the_classes_and_of_where_they_are_raised(code, status):
    assert find_statuses()[code] == {status}


def test_settings_are_read_with_their_defaults_and_comments():
    place, size, option, key = find_settings(SOURCE)
    assert (place.name, place.default, place.about) == ("X_PLACE", "ROOT/data", "Where it is. It has two lines.")
    assert (size.default, size.words, size.about) == ("20000000000", "0 = no limit", place.about)
    assert (option.name, option.default, option.words) == ("X_A", "0", "An option")
    assert (key.name, key.reader, key.about) == ("X_KEY", "env_secret", "")


def test_every_operation_of_the_api_is_on_one_page():
    openapi = json.loads((ROOT / "docs/openapi.json").read_text())
    operations = [each["operationId"] for path in openapi["paths"].values() for each in path.values() if "tags" in each]
    pages = describe_operations(openapi)
    assert sorted(each for page in pages.values() for each in anchors(page)) == sorted(operations)
    assert "| `id` | string" in pages["reference/api/jobs.md"]


def test_a_command_shows_its_arguments_and_options():
    run = describe_commands().split("{ #run }")[1].split("\n## ")[0]
    assert "tessera run [COMMAND...]" in run and "| `--gpu GPU`, `-g GPU` |" in run and "--server" not in run
