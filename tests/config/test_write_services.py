"""Every function that people's requests change rows with is told who asks."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = ("accounts", "cluster", "files", "images", "jobs", "monitoring", "notebooks", "quotas")
WRITES = (
    "approve_", "change_", "clone_", "delete_", "end_", "extend_", "hold_", "invite_", "release_", "remove_", "resize_",
    "retry_", "revoke_", "save_", "start_", "stop_", "submit_",
)  # fmt: skip
WHO = {"actor", "by", "user"}


def find_writes() -> dict[str, set[str]]:
    """{"module.function": its arguments} of public functions which open a transaction and are named as a write."""
    found = {}
    for app in APPS:
        for path in (ROOT / "platform" / app).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef) and node.name.startswith(WRITES) and opens_transaction(node):
                    arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                    found[f"{path.stem}.{node.name}"] = {argument.arg for argument in arguments}
    return found


def opens_transaction(node: ast.FunctionDef) -> bool:
    return "transaction.atomic" in ast.unparse(node)


def test_each_is_told_who_asks():
    found = find_writes()
    assert len(found) > 25
    assert [name for name, arguments in sorted(found.items()) if not arguments & WHO] == []
