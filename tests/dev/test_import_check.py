"""A name of ours that is not there is found in imports and in strings."""

import pytest

from dev import import_check


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("from dev.version import {}", "dev.version.{}"),
        ("from dev.{} import check", "dev.{}.check"),
        ("from common import {}", "common.{}"),
        ("patch('dev.version.{}')", "dev.version.{}"),
        ("patch('dev.{}.check')", "dev.{}"),
        ("patch('dev.version.check.{}')", ""),
        ("patch('somewhere.else.{}')", ""),
        ("import dev.version", ""),
        ("from dev import version", ""),
        ("from somewhere_else import {}", ""),
    ],
)
def test_what_is_not_there_is_named_with_its_line(tmp_path, monkeypatch, line, missing):
    (tmp_path / "module.py").write_text(f"\n{line}\n".format("no_such_name"))
    monkeypatch.setattr(import_check, "ROOT", tmp_path)
    found = import_check._find_broken(tmp_path / "module.py")
    assert found == ([f"module.py:2: {missing.format('no_such_name')} is not there"] if missing else [])
