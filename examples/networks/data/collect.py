#!/usr/bin/env python3
"""Collects data for the networks of the examples from Debian packages.

    collect.py packages OUT.tsv [--limit BYTES]      packages of the index: title, body, tags; section, priority
    collect.py dependencies OUT.tsv [--limit BYTES]  pairs: a package, and one that it depends on
    collect.py text OUT.txt [--limit BYTES]          English text for models of characters
    collect.py words OUT-FOLDER [--limit BYTES]      recordings of spoken words, named by the word
    collect.py fashion OUT-FOLDER [--limit BYTES]    Fashion-MNIST: pictures of clothes

packages and dependencies read apt's lists; the long descriptions are there after
    apt-get -o Acquire::Languages=en update
text needs the Debian packages fortunes and fortunes-min, words asterisk-core-sounds-en-wav, fashion
dataset-fashion-mnist. The files beside this program
were made by it with --limit 190000; the examples use them where they are given no others.
"""

import argparse
import gzip
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

LISTS = Path("/var/lib/apt/lists")
FORTUNES = Path("/usr/share/games/fortunes")
FASHION = Path("/usr/share/datasets/fashion-mnist")
SOUNDS = Path("/usr/share/asterisk/sounds/en_US_f_Allison")


def paragraphs(pattern: str):
    """Yields each paragraph of the lists whose names fit, as a dict of its fields."""
    files = sorted(LISTS.glob(pattern))
    if not files:
        sys.exit(f"collect.py: {LISTS}/{pattern}: no such file; run apt-get -o Acquire::Languages=en update")
    for file in files:
        text = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", str(file)], capture_output=True, text=True, check=True).stdout
        for paragraph in text.split("\n\n"):
            fields, name = {}, ""
            for line in paragraph.split("\n"):
                if line[:1] in (" ", "\t"):
                    fields[name] += "\n" + line.strip()
                elif ": " in line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
            if "Package" in fields:
                yield fields


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def packages():
    """Rows of the index whose priority is rare come first, so that a small part of it has some of each."""
    bodies = {fields.get("Description-md5", ""): fields.get("Description-en", "") for fields in paragraphs("*Translation-en*")}
    rows, seen = [], set()
    for fields in paragraphs("*_Packages*"):
        title, _, body = bodies.get(fields.get("Description-md5", ""), fields.get("Description", "")).partition("\n")
        tags = re.split(r",\s*", fields.get("Tag", "")) if "Tag" in fields else []
        section = fields.get("Section", "").split("/")[-1]
        if not title or not section or fields["Package"] in seen:
            continue
        seen.add(fields["Package"])
        rows.append((fields["Package"], one_line(title), one_line(body)[:300], " ".join(tags), section, fields.get("Priority", "optional")))
    rows.sort(key=lambda row: hash_of(row[0]))
    rare = [row for row in rows if row[5] != "optional"]
    return [("package", "title", "body", "tags", "section", "priority")] + (rare[:60] + [row for row in rows if row not in set(rare[:60])])


def hash_of(name: str) -> int:
    """An order that is the same in each run, and unlike that of the names (FNV-1a)."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def dependencies():
    pairs = []
    for fields in paragraphs("*_Packages*"):
        for needed in re.split(r"[,|]\s*", fields.get("Depends", "")):
            name = re.split(r"[ (:]", needed.strip())[0]
            if name:
                pairs.append((fields["Package"], name))
    pairs = list(dict.fromkeys(pairs))
    counts = Counter(name for _, name in pairs)
    common = [pair for pair in pairs if counts[pair[1]] >= 20]
    common.sort(key=lambda pair: hash_of(pair[0]))
    return [("package", "needs")] + common


def write_rows(out: Path, rows, limit: int) -> None:
    size = 0
    with out.open("w", encoding="utf-8") as file:
        for row in rows:
            line = "\t".join(field.replace("\t", " ") for field in row) + "\n"
            size += len(line.encode())
            if limit and size > limit:
                break
            file.write(line)


def write_text(out: Path, limit: int) -> None:
    names = ["literature", "wisdom", "science", "people", "work", "education", "computers", "cookie", "fortunes", "platitudes"]
    texts = []
    for name in names:
        if (FORTUNES / name).is_file():
            texts.append((FORTUNES / name).read_text(encoding="utf-8"))
    if not texts:
        sys.exit(f"collect.py: {FORTUNES} has no texts; install the packages fortunes and fortunes-min")
    text = "".join(c for c in "".join(texts).replace("\t", " ") if c == "\n" or " " <= c <= "~")
    out.write_text(text[:limit] if limit else text, encoding="utf-8")


def write_words(out: Path, limit: int) -> None:
    if not SOUNDS.is_dir():
        sys.exit(f"collect.py: {SOUNDS}: no such folder; install the package asterisk-core-sounds-en-wav")
    out.mkdir(parents=True, exist_ok=True)
    files = [SOUNDS / "digits" / f"{digit}.wav" for digit in range(21)]
    files += sorted((SOUNDS / "letters").glob("?.wav")) + sorted((SOUNDS / "phonetic").glob("?_p.wav"))
    size = 0
    for file in files:
        size += file.stat().st_size
        if limit and size > limit:
            break
        shutil.copyfile(file, out / file.name)


def write_fashion(out: Path, limit: int) -> None:
    """A limit takes the first pictures, three for training to one for tests; a picture has about 420 bytes."""
    if not FASHION.is_dir():
        sys.exit(f"collect.py: {FASHION}: no such folder; install the package dataset-fashion-mnist")
    out.mkdir(parents=True, exist_ok=True)
    for part, share in (("train", 3), ("t10k", 1)):
        for kind, header, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
            name = f"{part}-{kind}-ubyte.gz"
            data = gzip.decompress((FASHION / name).read_bytes())
            count = min(int.from_bytes(data[4:8], "big"), limit * share // 4 // 420 if limit else 1 << 30)
            data = data[:4] + count.to_bytes(4, "big") + data[8 : header + count * size]
            (out / name).write_bytes(gzip.compress(data, mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["packages", "dependencies", "text", "words", "fashion"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--limit", type=int, default=0, help="at most so many bytes; 0: all")
    args = parser.parse_args()
    if args.what == "text":
        write_text(args.out, args.limit)
    elif args.what == "words":
        write_words(args.out, args.limit)
    elif args.what == "fashion":
        write_fashion(args.out, args.limit)
    else:
        write_rows(args.out, packages() if args.what == "packages" else dependencies(), args.limit)


if __name__ == "__main__":
    main()
