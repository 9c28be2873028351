"""What an image is called, whichever way it is written."""

import pytest

from runtimes.images import image_key


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
    assert image_key(written) == f"image:{whole}" == image_key(whole)
