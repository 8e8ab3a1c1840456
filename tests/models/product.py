#!/usr/bin/env python3
"""Copies the engine's sources for the models: product.py SOURCE_DIR OUTPUT_DIR

Large numbers become small ones, so that few steps reach what takes many in the product; nothing else changes, and no
line moves. Fails when a number to replace is not there any more.
"""

import re
import sys
from pathlib import Path

# file: [(pattern, replacement)]; each pattern must match exactly once
SMALLER = {
    "threaded.cc": [(r"kTick = 16\b", "kTick = 2")],
    "worker.h": [(r"kFairness = 64\b", "kFairness = 4"), (r"kEnterBatch = 64\b", "kEnterBatch = 2")],
    "threaded_search.cc": [
        (r"kSearchLooks = 50\b", "kSearchLooks = 2"),
        (r"kMostPauses = 32\b", "kMostPauses = 1"),
        (r"kMostLookInterval = 64\b", "kMostLookInterval = 2"),
        (r"kFailedLooks = 8\b", "kFailedLooks = 2"),
        (r"kIdleRounds = 20\b", "kIdleRounds = 2"),
    ],
    "threaded_wait.cc": [
        (r"kWaitSpins = 100\b", "kWaitSpins = 2"),
        (r"kSpinsBetweenLooks = 25\b", "kSpinsBetweenLooks = 1"),
        (r"kFirstSteps = 64, kMostSteps = 8192\b", "kFirstSteps = 1, kMostSteps = 2"),
    ],
    "spin_lock.h": [(r"spins < 100\b", "spins < 0")],
    "budget.cc": [(r"kSpins = 200\b", "kSpins = 1")],
    # Thread-local variables become arrays, see relacy_threads.h.
    "fence.cc": [
        (
            r"thread_local std::deque<std::function<void\(\)>>\* line = nullptr;",
            "auto*& line = line_of_thread<std::deque<std::function<void()>>>();",
        )
    ],
    "thread_state.cc": [(r"this_thread_blocked = 0;", "this_thread_blocked{};")],
    # Every schedule has a separate reserve.
    "op_memory.cc": [
        (r"static Reserve& immortal = \*new Reserve;", "Reserve& immortal = *reserve_of_schedule();"),
        (r"kMostReturns = 4\b", "kMostReturns = 1"),
    ],
    "parallel_loop.cc": [(r"spins < 2000\b", "spins < 2")],
    "trace_buffer.h": [
        (r"std::size_t\{64\} << 10", "256"),
        (r"\(kChunkBytes - 64\) / sizeof\(Record\)", "2"),
    ],
    "stream.cc": [
        (r"constinit thread_local bool working = false;", "bool in_work[model::kMostThreads] = {};"),
        (r"exchange\(working, true\)", "exchange(in_work[model::thread_index()], true)"),
        (r"working = outer_", "in_work[model::thread_index()] = outer_"),
        (r"return working;", "return in_work[model::thread_index()];"),
    ],
    # The size of an op is checked for speed only; Relacy's atomics are larger than the machine's.
    "op_node.h": [(r"static_assert\(sizeof\(OpNode\) == 64 && ", "static_assert(")],
}

# engine_sources.inc includes all sources of the engine except these. Traces are off.
LEFT_OUT = """arena_tbb budget_wait check cores default_engine fork fuzz fuzz_ops log naive op_memory trace trace_arrows trace_buffer trace_clock trace_file
    trace_recorder usable_cores""".split()


def write(file, text):
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def main():
    source, output = Path(sys.argv[1]), Path(sys.argv[2])
    output.mkdir(parents=True, exist_ok=True)
    files = [file for file in sorted(source.rglob("*")) if file.suffix in {".h", ".cc"} and file.parent.name not in {"c", "cuda"}]
    if gone := sorted({*SMALLER} - {file.name for file in files}):
        sys.exit(f"{source} has no {', '.join(gone)}: mend {Path(__file__).name}")
    for file in files:
        text = file.read_text(encoding="utf-8")
        for pattern, replacement in SMALLER.get(file.name, []):
            text, count = re.subn(pattern, replacement, text)
            if count != 1:
                sys.exit(f"{file}: {pattern!r} is there {count} times, not once: mend {Path(__file__).name}")
        copy = output / file.relative_to(source)
        copy.parent.mkdir(exist_ok=True)
        write(copy, text)
    sources = [file.relative_to(source) for file in files if file.suffix == ".cc" and file.stem not in LEFT_OUT]
    write(output / "engine_sources.inc", "".join(f"#include <product/{name}>\n" for name in sources))


if __name__ == "__main__":
    main()
