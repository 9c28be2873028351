from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_source_root_never_shadows_the_standard_library():
    import_roots = [ROOT / "platform", ROOT / "tests"]
    assert [root for root in import_roots if (root / "__init__.py").exists()] == []


def test_no_test_folder_is_a_package():
    assert list((ROOT / "tests").rglob("__init__.py")) == []
