#!/usr/bin/env python3
"""Draws one step of a job from the traces of its ranks, as an SVG: what each rank computes, and what it communicates meanwhile.

  tools/trace_picture.py TRACE... [--out FILE] [--first OP] [--step N] [--title TEXT]
  tools/trace_picture.py --self-test

A step begins with an op called OP and ends with the next one; each rank has its own. Without --step it is the one of
median length. The picture in README.md:

  HEDDLE_TRACE=%r.json heddle launch -n 2 -- train_fashion_mnist --kvstore allreduce --epochs 1 --limit 20000
  tools/trace_picture.py 0.json 1.json --out docs/pictures/overlap.svg --step 34
"""
import argparse
import json
import sys
from html import escape
from typing import NamedTuple

WIDTH, LEFT, RIGHT = 960, 128, 20          # pixels
COMPUTE, ROW, HEADING, GAP = 86, 18, 74, 22  # heights of a lane of ops, a row of collectives, the title, the space between ranks
LETTER = 6.0                                # width of a letter of the small font
COLORS = {"forward": "#4f86c6", "backward": "#2a9d8f", "update": "#8367c7", "hidden": "#f4b860", "exposed": "#e06c75"}
COLLECTIVES = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "send", "recv", "barrier"}
LEGEND = [("forward", "forward"), ("backward", "backward"), ("update", "update"),
          ("hidden", "communication, hidden"), ("exposed", "not hidden")]


class Op(NamedTuple):
    name: str
    start: float  # microseconds since the first trace began
    end: float
    number: int
    by: int  # number of the op that made this op ready; -1: none
    collective: bool


class Rank(NamedTuple):
    name: str
    ops: list


def communicates(name):
    """As `heddle trace` has it; a name may have its bytes behind it."""
    kind = name.split(" ")[0]
    return kind.startswith("kvstore_") or kind in COLLECTIVES


def is_shown(event):
    """An asynchronous op that does not communicate holds no worker: it is neither computation nor communication."""
    return event.get("cat") == "op" or (event.get("cat") == "async" and communicates(event["name"]))


def read(paths):
    """The ops of each trace, on one time axis."""
    traces = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            events = json.load(file)
        header = next(event for event in events if event["name"] == "heddle_trace")["args"]
        traces.append((header["unix_ns"], header.get("rank", len(traces)), events))
    begin = min(trace[0] for trace in traces)
    ranks = []
    for unix_ns, rank, events in traces:
        shift = (unix_ns - begin) / 1000
        ops = [Op(event["name"], event["ts"] + shift, event["ts"] + shift + event["dur"], event["args"]["seq"],
                  event["args"].get("by", -1), communicates(event["name"]))
               for event in events if event["ph"] in "Xb" and is_shown(event)]
        ranks.append(Rank(f"rank {rank}", sorted(ops, key=lambda op: op.start)))
    return ranks


def steps(ranks, first):
    """(start, end) of each step: from its first start on any rank to the first start of the next."""
    starts = [[op.start for op in rank.ops if op.name == first] for rank in ranks]
    begins = [min(of_ranks) for of_ranks in zip(*starts)]
    if len(begins) < 2:
        sys.exit(f"there are no two ops called '{first}' in each trace")
    return list(zip(begins, begins[1:]))


def kind(op):
    if "_backward" in op.name:
        return "backward"
    return "update" if op.name.endswith("_update") or op.name == "assign" else "forward"


def pieces(op, others):
    """(start, end, hidden) of the parts of a collective: hidden while one of the other ops, sorted by start, runs."""
    at = op.start
    for other in others:
        start, end = max(other.start, at), min(other.end, op.end)
        if start >= end:
            continue
        if start > at:
            yield at, start, False
        yield start, end, True
        at = end
    if at < op.end:
        yield at, op.end, False


def readable(name):
    """A collective's name with its bytes rounded: all_reduce 1.6 MB."""
    words = name.split()
    if len(words) == 3 and words[1].isdigit() and words[2] == "B":
        size = int(words[1])
        for unit, bytes_of_unit in (("MB", 1e6), ("kB", 1e3)):
            if size >= bytes_of_unit:
                value = size / bytes_of_unit
                return f"{words[0]} {value:.1f} {unit}" if value < 10 else f"{words[0]} {value:.0f} {unit}"
    return name


class Picture:
    def __init__(self, window):
        self.start, self.end = window
        self.body = []

    def x(self, time):
        return LEFT + (time - self.start) / (self.end - self.start) * (WIDTH - LEFT - RIGHT)

    def clipped(self, start, end):
        """Left edge and width in pixels, or None outside of the window."""
        if end <= self.start or start >= self.end:
            return None
        left = self.x(max(start, self.start))
        return left, max(self.x(min(end, self.end)) - left, 0.5)

    def rectangle(self, left, top, width, height, color, title=""):
        title = f"<title>{escape(title)}</title>" if title else ""
        self.body.append(f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{height}" fill="{color}">{title}</rect>')

    def text(self, x, y, words, style="", rotated=False):
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if rotated else ""
        self.body.append(f'<text x="{x:.1f}" y="{y:.1f}"{turn} {style}>{escape(words)}</text>')

    def arrow(self, x, y, down):
        """From a collective's edge to the lane of ops: down to the collective that an op made ready, or up from it."""
        tip, tail = (y, y - 9) if down else (y - 9, y)
        head = tip - 4 if down else tip + 4
        self.body.append(f'<path d="M{x:.1f} {tail}V{head}M{x - 2.5:.1f} {head}h5l-2.5 {tip - head}z" stroke="#555" fill="#555"/>')


def draw_ops(picture, ops, top):
    for op in ops:
        box = picture.clipped(op.start, op.end)
        if not box:
            continue
        left, width = box
        length = f"{op.name}: {(op.end - op.start) / 1000:.2f} ms" if width > 2 else ""
        picture.rectangle(left, top, max(width - 0.7, 0.5), COMPUTE, COLORS[kind(op)], length)
        short = op.name.replace("_backward", "")
        style = 'fill="#fff" text-anchor="middle"'
        if width > 11 and len(short) * LETTER > width - 6:
            picture.text(left + width / 2 + 3.5, top + COMPUTE / 2, short[:14], style + ' font-size="10"', rotated=True)
        elif width > 11:
            fits = op.name if len(op.name) * LETTER < width - 6 else short
            picture.text(left + width / 2, top + COMPUTE / 2 + 4, fits, style)


def rows(picture, collectives):
    """Collectives in rows, so that neither they nor their names overlap."""
    filled = []
    for op in collectives:
        box = picture.clipped(op.start, op.end)
        if not box:
            continue
        name = len(readable(op.name)) * LETTER + 8
        right = box[0] + box[1] + (0 if name < box[1] else name + 5)
        row = next((index for index, end in enumerate(filled) if end < box[0]), len(filled))
        filled[row:row + 1] = [right]
        yield op, row, box


def draw_collectives(picture, rank, top):
    """Draws them below the lane of ops, and returns how many rows there are, and which part of them is hidden."""
    computing = [op for op in rank.ops if not op.collective and op.end > picture.start and op.start < picture.end]
    numbers = {op.number for op in computing}
    used, total, hidden = 0, 0, 0
    collectives = [op for op in rank.ops if op.collective]
    for op, row, (left, width) in list(rows(picture, collectives)):
        y = top + 12 + row * ROW
        for start, end, is_hidden in pieces(op, computing):
            box = picture.clipped(start, end)
            if box:
                picture.rectangle(box[0], y, box[1], ROW - 4, COLORS["hidden" if is_hidden else "exposed"],
                                  f"{op.name}: {(op.end - op.start) / 1000:.2f} ms")
                inside = min(end, picture.end) - max(start, picture.start)
                total, hidden = total + inside, hidden + inside * is_hidden
        name, after = readable(op.name), left + width + 5
        if len(name) * LETTER + 8 < width:
            picture.text(left + width / 2, y + 10.5, name, 'fill="#333" text-anchor="middle"')
        elif after + len(name) * LETTER < WIDTH - RIGHT:
            picture.text(after, y + 10.5, name, 'fill="#555"')
        if row == 0 and op.by in numbers and op.start > picture.start:
            picture.arrow(left, y, down=True)
        if row == 0 and op.end < picture.end and any(other.by == op.number for other in computing):
            picture.arrow(left + width, y, down=False)
        used = max(used, row + 1)
    return used, hidden / total if total else None


def draw_axis(picture, top, bottom):
    length, unit = (picture.end - picture.start) / 1000, "ms"
    if length < 2:
        length, unit = length * 1000, "µs"
    scale = (picture.end - picture.start) / length
    distance = next(d for d in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1e9) if length / d <= 12)
    marks = []
    for index in range(int(length / distance) + 1):
        x = picture.x(picture.start + index * distance * scale)
        marks.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="#e3e6ea"/>')
        picture.text(x, bottom + 16, f"{index * distance:g}" + f" {unit}", 'fill="#666" text-anchor="middle"')
    picture.body[:0] = marks


def draw(ranks, window, title):
    picture = Picture(window)
    top = HEADING
    for rank in ranks:
        picture.body.append(f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{COMPUTE}" fill="#eef1f4"/>')
        draw_ops(picture, [op for op in rank.ops if not op.collective], top)
        used, hidden = draw_collectives(picture, rank, top + COMPUTE)
        middle = top + COMPUTE / 2
        picture.text(20, middle - 2, rank.name, 'font-size="14" font-weight="bold" fill="#222"')
        picture.text(20, middle + 14, "computation", 'fill="#666"')
        if hidden is not None:
            picture.text(20, top + COMPUTE + 23, "communication,", 'fill="#666"')
            picture.text(20, top + COMPUTE + 37, f"{100 * hidden:.0f} % hidden", 'fill="#666"')
        top += COMPUTE + 12 + max(used, 2) * ROW + GAP
    bottom = top - GAP + 6
    draw_axis(picture, HEADING - 6, bottom)
    picture.text(20, 28, title, 'font-size="15" font-weight="bold" fill="#222"')
    x = 20
    for name, words in LEGEND:
        picture.rectangle(x, 44, 12, 12, COLORS[name])
        picture.text(x + 17, 54, words, 'fill="#444"')
        x += len(words) * 6.4 + 42
    height = bottom + 30
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="Helvetica, Arial, \'DejaVu Sans\', sans-serif" font-size="11.5">',
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6" fill="#fff" stroke="#d8dce1"/>',
        *picture.body, "</svg>"]) + "\n"


def self_test():
    ops = [Op("loss", 0, 10, 0, -1, False), Op("conv2d_backward", 10, 60, 1, 0, False),
           Op("all_reduce 1605632 B", 20, 80, 2, 0, True), Op("sgd_update", 80, 90, 3, 2, False), Op("loss", 100, 110, 4, -1, False)]
    found = list(pieces(ops[2], [op for op in ops if not op.collective]))
    assert found == [(20, 60, True), (60, 80, False)], found
    assert steps([Rank("rank 0", ops), Rank("rank 1", ops)], "loss") == [(0, 100)]
    assert [kind(op) for op in ops if not op.collective] == ["forward", "backward", "update", "forward"]
    assert [readable(f"send {size} B") for size in (7, 80936, 1605632)] == ["send 7 B", "send 81 kB", "send 1.6 MB"]
    assert communicates("kvstore_push 64 B") and communicates("all_reduce 64 B") and not communicates("all_reduce_error")
    shown = [is_shown({"name": name, "cat": cat}) for name, cat in (("read", "async"), ("recv 8 B", "async"), ("read", "op"), ("", "wait"))]
    assert shown == [False, True, True, False], shown
    picture = draw([Rank("rank 0", ops)], (0, 100), "a < b")
    assert "67 % hidden" in picture and "a &lt; b" in picture and "all_reduce 1.6 MB" in picture, picture
    assert ">100 µs<" in picture and ">1 ms<" in draw([Rank("rank 0", ops)], (0, 3000), ""), picture
    print("a trace of five ops is drawn as it should be")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", metavar="TRACE")
    parser.add_argument("--out", default="step.svg")
    parser.add_argument("--first", default="cross_entropy_backward", metavar="OP")
    parser.add_argument("--step", type=int, metavar="N")
    parser.add_argument("--title", default="")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if not arguments.traces:
        parser.error("which traces?")
    ranks = read(arguments.traces)
    found = steps(ranks, arguments.first)
    by_length = sorted(range(len(found)), key=lambda step: found[step][1] - found[step][0])
    step = by_length[len(by_length) // 2] if arguments.step is None else arguments.step
    title = arguments.title or f"One step on {len(ranks)} ranks"
    with open(arguments.out, "w", encoding="utf-8") as file:
        file.write(draw(ranks, found[step], title))
    print(f"{arguments.out}: step {step} of {len(found)}, {(found[step][1] - found[step][0]) / 1000:.1f} ms")
    return None


if __name__ == "__main__":
    main()
