"""A hundred files of twenty types, which differ, and are the same in each run."""

import csv
import gzip
import io
import json
import lzma
import random
import sqlite3
import struct
import tarfile
import wave
import zipfile
import zlib
from collections.abc import Callable

OF_EACH = 5
NOUNS = ("queue", "card", "batch", "model", "token", "layer", "image", "reader", "writer", "weight", "tensor", "cache")

TEXTS = {
    "python": '''"""Work with each {0}."""

import os
from collections import defaultdict


class {1:}Store:
    def __init__(self, path: str, limit: int = {2}):
        self.path, self.limit = path, limit
        self.found = defaultdict(list)

    def read(self) -> list[str]:
        with open(os.path.join(self.path, "{0}.txt")) as file:
            return [line.strip() for line in file if not line.startswith("#")]


if __name__ == "__main__":
    for number, line in enumerate({1:}Store(".").read()):
        print(f"{{number}}: {{line}}")
''',
    "javascript": """const fs = require("fs");

/** Count each {0}. */
async function count{1}(path, limit = {2}) {{
  const text = await fs.promises.readFile(path, "utf8");
  const lines = text.split("\\n").filter((line) => line.length > limit);
  return lines.reduce((all, line) => ({{ ...all, [line]: (all[line] ?? 0) + 1 }}), {{}});
}}

module.exports = {{ count{1} }};
document.querySelector("#{0}").addEventListener("click", () => console.log(count{1}("{0}.txt")));
""",
    "c": """#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct {0} {{ int id; char name[{2}]; struct {0} *next; }};

static struct {0} *make_{0}(int id, const char *name) {{
    struct {0} *one = malloc(sizeof *one);
    if (one == NULL) return NULL;
    one->id = id;
    strncpy(one->name, name, sizeof one->name - 1);
    one->next = NULL;
    return one;
}}

int main(int argc, char **argv) {{
    for (int i = 1; i < argc; i++) printf("%d %s\\n", i, make_{0}(i, argv[i])->name);
    return 0;
}}
""",
    "java": """package org.example.{0};

import java.util.ArrayList;
import java.util.List;

public class {1}Service {{
    private final List<String> names = new ArrayList<>();
    private static final int LIMIT = {2};

    public void add(String name) throws IllegalStateException {{
        if (names.size() >= LIMIT) {{
            throw new IllegalStateException("too many: " + names.size());
        }}
        names.add(name);
    }}

    public static void main(String[] args) {{
        {1}Service service = new {1}Service();
        for (String arg : args) service.add(arg);
        System.out.println(service.names);
    }}
}}
""",
    "go": """package main

import (
	"bufio"
	"fmt"
	"os"
)

type {1} struct {{
	Name  string
	Count int
}}

func read{1}(path string) ([]{1}, error) {{
	file, err := os.Open(path)
	if err != nil {{
		return nil, fmt.Errorf("open %s: %w", path, err)
	}}
	defer file.Close()
	var found []{1}
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {{
		found = append(found, {1}{{Name: scanner.Text(), Count: {2}}})
	}}
	return found, scanner.Err()
}}

func main() {{
	found, err := read{1}("{0}.txt")
	fmt.Println(found, err)
}}
""",
    "rust": """use std::collections::HashMap;
use std::fs;

#[derive(Debug, Clone)]
pub struct {1} {{
    name: String,
    size: usize,
}}

impl {1} {{
    pub fn new(name: &str) -> Self {{
        {1} {{ name: name.to_string(), size: {2} }}
    }}
}}

fn main() -> Result<(), std::io::Error> {{
    let text = fs::read_to_string("{0}.txt")?;
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for line in text.lines() {{
        *counts.entry(line).or_insert(0) += 1;
    }}
    println!("{{:?}} {{:?}}", counts, {1}::new("{0}"));
    Ok(())
}}
""",
    "shell": """#!/bin/bash
set -euo pipefail

# Copy each {0} that is new.
target="${{1:-/var/tmp/{0}}}"
mkdir -p "$target"
for file in ./*.{0}; do
  if [[ ! -e "$target/$(basename "$file")" ]]; then
    cp -- "$file" "$target/" && echo "copied $file"
  fi
done
find "$target" -mtime +{2} -delete
exit 0
""",
    "html": """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>The {0}</title><link rel="stylesheet" href="/{0}.css"></head>
<body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/{0}">{1}</a></li></ul></nav>
<main><h1>{1}</h1><p>There are <b>{2}</b> of them.</p>
<table><thead><tr><th>Name</th><th>Count</th></tr></thead><tbody><tr><td>{0}</td><td>{2}</td></tr></tbody></table></main>
</body>
</html>
""",
    "css": """:root {{ --{0}: #2270b5; --space: {2}px; }}
.{0} {{ display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: var(--space); color: var(--{0}); }}
.{0} > li:first-child {{ border-top: 0; padding: 4px 8px; }}
.{0}:hover a {{ text-decoration: underline; }}
@media (max-width: 860px) {{ .{0} {{ grid-template-columns: 1fr; font-size: 0.875rem; }} }}
""",
    "sql": """CREATE TABLE {0} (
    id BIGSERIAL PRIMARY KEY,
    name VARCHAR({2}) NOT NULL,
    created_at TIMESTAMP DEFAULT now()
);
CREATE INDEX {0}_by_name ON {0} (name);
INSERT INTO {0} (name) VALUES ('first'), ('second');
SELECT name, count(*) FROM {0} WHERE created_at > '2026-01-01' GROUP BY name ORDER BY 2 DESC LIMIT {2};
UPDATE {0} SET name = 'third' WHERE id = 1;
""",
    "xml": """<?xml version="1.0" encoding="UTF-8"?>
<{0}s count="{2}">
  <{0} id="1"><name>first</name><size unit="mm">{2}</size></{0}>
  <{0} id="2"><name>second</name><size unit="mm">12</size></{0}>
  <note>There is no third {0}.</note>
</{0}s>
""",
}


def make_known_files() -> list[tuple[str, bytes]]:
    """Return (type as Magika names it, content) of each."""
    makers: dict[str, Callable[[random.Random], bytes]] = {
        **{label: lambda rng, text=text: _write(text, rng) for label, text in TEXTS.items()},
        **{name.removeprefix("_make_"): make for name, make in globals().items() if name.startswith("_make_")},
    }
    return [(label, make(random.Random(f"{label}{n}"))) for label, make in makers.items() for n in range(OF_EACH)]


def _write(text: str, rng: random.Random) -> bytes:
    noun = rng.choice(NOUNS)
    return text.format(noun, noun.capitalize(), rng.randint(10, 99)).encode()


def _make_json(rng: random.Random) -> bytes:
    return json.dumps(
        [{"name": noun, "count": rng.random(), "tags": None} for noun in _nouns(rng, 30)], indent=1
    ).encode()


def _make_csv(rng: random.Random) -> bytes:
    text = io.StringIO()
    rows = ((n, noun, rng.randint(0, 999), f"{rng.random():.3f}") for n, noun in enumerate(_nouns(rng, 40)))
    csv.writer(text).writerows([("id", "name", "count", "share"), *rows])
    return text.getvalue().encode()


def _make_zip(rng: random.Random) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for noun in set(_nouns(rng, 4)):
            archive.writestr(f"{noun}.txt", rng.randbytes(400))
    return packed.getvalue()


def _make_tar(rng: random.Random) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for noun in set(_nouns(rng, 4)):
            told = tarfile.TarInfo(f"{noun}.bin")
            told.size = 400
            archive.addfile(told, io.BytesIO(rng.randbytes(400)))
    return packed.getvalue()


def _make_gzip(rng: random.Random) -> bytes:
    return gzip.compress(" ".join(_nouns(rng, 500)).encode())


def _make_xz(rng: random.Random) -> bytes:
    return lzma.compress(" ".join(_nouns(rng, 500)).encode())


def _make_png(rng: random.Random) -> bytes:
    side = rng.randint(16, 64)
    rows = b"".join(b"\0" + rng.randbytes(3 * side) for _ in range(side))
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def _make_wav(rng: random.Random) -> bytes:
    told = io.BytesIO()
    with wave.open(told, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(rng.randbytes(4000))
    return told.getvalue()


def _make_sqlite(rng: random.Random) -> bytes:
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE found (name TEXT, count INT)")
        base.executemany("INSERT INTO found VALUES (?, ?)", [(noun, rng.randint(0, 99)) for noun in _nouns(rng, 60)])
        base.commit()
        return base.serialize()


def _nouns(rng: random.Random, count: int) -> list[str]:
    return [rng.choice(NOUNS) for _ in range(count)]
