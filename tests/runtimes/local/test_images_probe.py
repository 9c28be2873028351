"""What a machine says of images: each thing that is missing has a sentence with what to do about it."""

import pytest

from runtimes.local.images.images_probe import judge
from runtimes.local.images.podman import shorten_error

ALL = {"version": "4.3.1", "is_root": True, "namespaces": True, "overlay": True, "folder": "/data"}


def test_a_machine_that_has_all_runs_images():
    assert judge(**ALL).works and judge(**ALL).version == "4.3.1"


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [
        ({"version": ""}, "apt install podman"),
        ({"version": "3.4.4"}, "4.0 or newer, and here is 3.4.4"),
        ({"is_root": False, "namespaces": False}, "start it with sudo"),
        ({"namespaces": False}, "not in a container"),
        ({"overlay": False}, "do not work in /data: put TESSERA_DATA on a disk"),
    ],
)
def test_what_is_missing_is_said_with_its_remedy(missing, remedy):
    support = judge(**ALL | missing)
    assert not support.works and remedy in support.words


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (
            "Trying to pull r/x:1...\nError: initializing source docker://r/x: manifest unknown\n",
            "manifest unknown",
        ),
        ("Error: localhost/x:1: image not known\n", "localhost/x:1: image not known"),
        ("something else\n", "something else"),
        ("", ""),
    ],
)
def test_of_podmans_words_the_registrys_are_kept(printed, words):
    assert shorten_error(printed) == words
