"""What an image is called, whichever way it is written."""

import pytest

from runtimes.images.names import is_bad_image, make_image_key, read_image


@pytest.mark.parametrize(
    ("written", "whole"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("busybox:1.36", "docker.io/library/busybox:1.36"),
        ("pytorch/pytorch", "docker.io/pytorch/pytorch:latest"),
        ("docker.io/busybox", "docker.io/library/busybox:latest"),
        ("registry.corp/nlp/train:3", "registry.corp/nlp/train:3"),
        ("localhost/x", "localhost/x:latest"),
        ("host:5000/x", "host:5000/x:latest"),
        ("busybox@sha256:0a", "docker.io/library/busybox@sha256:0a"),
    ],
)
def test_all_names_of_one_image_are_one(written, whole):
    assert make_image_key(written) == f"image:{whole}" == make_image_key(whole)


PINNED = "docker.io/library/busybox:1.36@sha256:" + "a" * 64


def test_what_is_pinned_is_known_by_its_digest_alone():
    assert make_image_key(PINNED) == "image:docker.io/library/busybox@sha256:" + "a" * 64
    assert read_image("busybox:1.36").at("sha256:" + "a" * 64) == PINNED


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("busybox", False),
        (PINNED, False),
        ("registry.corp:5000/a/b__c:V1.0", False),
        ("Busybox", True),
        ("a//b", True),
        ("busybox:", False),
        ("busybox:-x", True),
        ("busybox@sha256:0a", True),
        ("registry.corp/", True),
        ("re gistry/x:1", True),
        ("", True),
    ],
)
def test_what_can_be_no_name_of_an_image_is_told(text, bad):
    assert is_bad_image(text) is bad
