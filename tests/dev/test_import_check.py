"""An import of ours that would fail is found, in whatever form it is written."""

import pytest

from dev import import_check


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("from dev.version import nothing_of_the_kind", "dev.version.nothing_of_the_kind"),
        ("from dev.no_such_room import check", "dev.no_such_room.check"),
        ("from common import no_such_module", "common.no_such_module"),
        ("import dev.version", ""),
        ("from dev import version", ""),
        ("from somewhere_else import anything", ""),
    ],
)
def test_what_is_not_there_is_named_with_its_line(tmp_path, monkeypatch, line, missing):
    (tmp_path / "module.py").write_text(f"\n{line}\n")
    monkeypatch.setattr(import_check, "ROOT", tmp_path)
    found = import_check._find_broken(tmp_path / "module.py")
    assert found == ([f"module.py:2: {missing} is not there"] if missing else [])
