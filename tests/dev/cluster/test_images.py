import gzip
import hashlib
import json
import tarfile
from io import BytesIO

from dev.cluster.images import Image, add, add_file, write_layout
from dev.cluster.paths import ClusterPaths


def pack(place, layer):
    add_file(layer, "bin/greet", b"#!/bin/sh\necho hello\n", 0o755)
    add(layer, "bin/hello", tarfile.SYMTYPE, 0o777, "greet")


def read(folder, blob):
    content = (folder / "blobs" / blob["digest"].replace(":", "/")).read_bytes()
    assert blob["digest"] == "sha256:" + hashlib.sha256(content).hexdigest()
    assert blob["size"] == len(content)
    return content


def test_an_image_is_what_its_digests_say_from_index_to_layer(tmp_path):
    write_layout(ClusterPaths(tmp_path, tmp_path), Image("greet", "1", ["/bin/hello"], pack), tmp_path)
    manifest = json.loads(read(tmp_path, json.loads((tmp_path / "index.json").read_text())["manifests"][0]))
    config = json.loads(read(tmp_path, manifest["config"]))
    layer = gzip.decompress(read(tmp_path, manifest["layers"][0]))
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    assert config["config"]["Cmd"] == ["/bin/hello"]
    with tarfile.open(fileobj=BytesIO(layer)) as packed:
        assert packed.getmember("bin/greet").mode == 0o755
        assert packed.getmember("bin/hello").linkname == "greet"


def test_the_same_image_twice_has_the_same_digest(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_layout(ClusterPaths(tmp_path, tmp_path), Image("greet", "1", ["/bin/hello"], pack), tmp_path / name)
    assert (tmp_path / "one" / "index.json").read_text() == (tmp_path / "two" / "index.json").read_text()
