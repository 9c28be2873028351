"""Names of secrets, and how a job file says what it wants of them."""

from common.errors import FieldError, InvalidInput
from common.text import check_env_name

WORDS = ("variable", "file", "own:variable", "own:file", "team:variable", "team:file")
"""What a job may want of a secret, the usual first; with whose it is once the job is accepted."""
MOST_OF_A_TASK = 16
"""Of the largest values, a Secret of Kubernetes and a program's environment hold no more."""
MOST_NAME = 128
"""Letters of a name, which is the name of a file as well."""
OF_THE_SHELL = frozenset({"BASH_ENV", "ENV", "HOME", "IFS", "PATH", "PWD", "SHELL", "TMPDIR"})
"""With one of these a task's shell would not start as it should."""


def check_secret_name(name: str, pointer: str) -> str:
    """Return `name` if a secret may have it. Raises InvalidInput."""
    if name in OF_THE_SHELL:
        raise InvalidInput([FieldError(pointer, "secret_of_the_shell", {"name": name})])
    if len(name) > MOST_NAME:
        raise InvalidInput([FieldError(pointer, "too_long", {"max": MOST_NAME, "got": len(name)})])
    return check_env_name(name, pointer)
