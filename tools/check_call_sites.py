#!/usr/bin/env python3
"""Every public function that computes with arrays is told the place of its call, and a test checks that its ops name it.

    tools/check_call_sites.py [ROOT]       prints header: function: what is missing; fails if anything is
    tools/check_call_sites.py --self-test  breaks each rule in a tree of its own and looks whether it is found

A function is told its place by a parameter of the type Where, or by what an argument is converted to: Operand, Index,
ArrayArgument, AxisKey, RangeIndex or Assigned. The test is a check_site("NAME", ...) in tests/MODULE/call_site_test.cc,
or, for arrays on a GPU alone, in tests/gpu_arrays/call_site_test.cc; a member is called
CLASS::NAME there. Operators that docs/operators.md names, and what the samples of tests/operators call, have a test in common.
"""

import re
import sys
import tempfile
from pathlib import Path

MACRO = re.compile(r"^#define.*(?:(?<=\\)\n.*)*", re.M)  # a macro's definition

MODULES = ["ndarray", "operators", "nn", "comm", "kvstore"]
# Classes whose non-const methods push ops or record calls, although their declarations contain no array.
CLASSES = {"Communicator", "CompressedReduce", "KVStore", "Trainer", "Optimizer"}

# Functions without a call site parameter, which push and record nothing; with the reason.
NOT_TOLD = {
    "array": "writes the values at the call",
    "array_access": "makes a list",
    "Batches::next": "a loader was told when it was made",
    "Loader::next": "was told when it was made",
    "Dataset::gather": "runs in an op",
    "ArrayDataset::gather": "runs in an op",
    "Subset::gather": "runs in an op",
    "SequenceDataset::gather": "runs in an op",
    "SequenceDataset::used_arrays": "handles",
    "decode_image": "decodes at the call",
    "Dataset::used_arrays": "handles",
    "ArrayDataset::used_arrays": "handles",
    "Subset::used_arrays": "handles",
    "ConcatDataset::used_arrays": "handles",
    "MapDataset::used_arrays": "handles",
    "map_npy": "maps at the call",
    "map_safetensors": "maps at the call",
    "load_npz": "reads at the call",
    "NDArray::NDArray": "takes no memory yet",
    "NDArray::detach": "a handle",
    "NDArray::grad": "a handle",
    "operator!": "an operator that fits better than that of bools has no place; logical_not has",
    "operator&&": "with a number, as operator!; with an array it has a place, which is tested",
    "operator||": "with a number, as operator!; with an array it has a place, which is tested",
    "ModuleCall::add": "keeps a handle",
    "LossScaler::current": "a copy of one number",
    "LossScaler::skipped": "a copy of one number",
    "LossScaler::state": "handles",
    "Autocast::Autocast": "computes nothing",
    "ModuleCall::done": "was told when the call began",
    "ArrayUse::changed": "handles",
    "ArrayUse::differentiated": "handles",
    "ArrayUse::changes": "keeps a handle",
    "ArrayUse::differentiates": "keeps a handle",
    "dlpack_device": "looks at a handle",
    "NDArray::grad_meta": "a handle",
    "Storage::data": "memory",
    "Storage::device_data": "memory",
    "Index::Index": "is told itself",
    "ArrayArgument::ArrayArgument": "is told itself",
    "AxisKey::AxisKey": "is told itself",
    "RangeIndex::RangeIndex": "is told itself",
    "Assigned::Assigned": "is told itself",
    "Chosen::Chosen": "is told itself",
    "IndexKey::IndexKey": "is told itself",
    "Chosen::NDArray": "was told when x[...] was called",
    "Chosen::copy": "was told when x[...] was called",
    "Chosen::operator-": "was told when x[...] was called",
    "Chosen::operator!": "was told when x[...] was called",
    "Chosen::operator~": "was told when x[...] was called",
    "Operand::Operand": "is told itself",
    "set_requires_grad": "marks a handle",
    "requires_grad": "looks at a handle",
    "Batches::next": "is called by loops, whose line counts",
    "ArrayBatches::ArrayBatches": "keeps handles; errors name its line",
    "ArrayBatches::next": "as Batches::next",
    "FitData::FitData": "keeps handles",
    "FitLoss::FitLoss": "keeps a function",
    "FitRun::value": "is called within fit(), whose line counts",
    "Trainer::set_schedule": "keeps a function",
    "is_leaf": "looks at a handle",
    "grad": "a handle",
    "row_sparse_grad": "a handle",
    "RowSparse::rows": "a handle",
    "RowSparse::values": "a handle",
    "RowSparse::count": "a handle",
    "clear_grad": "lets a handle go",
    "lend_gradient_memory": "keeps a handle",
    "save_for_backward": "keeps a handle",
    "on_gradient": "keeps a function",
    "make_gradient": "for operators, which have a place",
    "recording": "looks at handles",
    "Optimizer::check": "pushes nothing",
    "Optimizer::state": "handles",
    "AverageWeights::state": "handles",
    "Trainer::state": "handles",
    "KVStore::optimizer_state": "handles",
    "KVStore::gradient_memory": "memory that no op has seen yet",
    "Communicator::shared_array": "memory that no op has seen yet",
    "Communicator::create": "makes no call",
    "Communicator::create_local": "makes no call",
    "NoGrad::NoGrad": "sets a mode",
    "GradMeta::record_elements": "for members of NDArray, which have a place",
    "GradMeta::record_permuted": "for members of NDArray, which have a place",
    "GradMeta::record_broadcast": "for members of NDArray, which have a place",
    "GradMeta::record_slice": "for members of NDArray, which have a place",
    "GradMeta::record_view": "for members of NDArray, which have a place",
}
# Functions with a call site for the tape, for other ranks or for errors, which push no op that a trace would show.
NOT_TRACED = {
    "NDArray::view", "NDArray::operator[]", "NDArray::operator()", "NDArray::keyed", "NDArray::slice", "NDArray::view_as", "NDArray::permuted",
    "split", "chunk", "unstack", "swapaxes", "moveaxis", "flip", "rot90", "diagonal", "atleast_1d", "atleast_2d", "atleast_3d",
    "broadcast_arrays", "meshgrid", "empty_like",
    "NDArray::broadcast_view", "transpose", "broadcast_to", "expand_dims", "squeeze", "slice", "record", "record_part", "record_rows",
    "RowSparse::RowSparse", "load_safetensors_metadata", "checkpoint_notes",
    "ModuleCall::ModuleCall", "Communicator::abort", "Communicator::shrink", "Communicator::grow", "Communicator::split",
    "CapturedStep::CapturedStep", "Trainer::capture", "Recomputed::Recomputed", "recompute", "memory_report",
    "SummaryWriter::SummaryWriter",
    "read_audio", "read_image", "load_idx", "CsvDataset::CsvDataset",
}

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|^\s*#[^\n]*", re.S | re.M)
TOLD = re.compile(r"\b(Where|Operand|Index|ArrayArgument|AxisKey|RangeIndex|Assigned)\b")
ARRAYS = re.compile(r"\b(NDArray|RowSparse|Operand|ArrayArgument|Safetensors|Checkpoint)\b")
NAME = re.compile(r"(operator\s*(?:\(\)|\[\]|[^\w\s(]+)|~?\w+)\s*\(")
SCOPE = re.compile(r"^(?:template\s*<.*?>\s*)?(namespace|class|struct|enum)\b(?:\s+class)?\s*(?:\[\[\w+\]\]\s*)?([\w:]*)")
ACCESS = re.compile(r"^\s*(public|private|protected)\s*:")


def declarations(text):
    """(class or "", function's name, declaration) of each public function in a header's text."""
    text = COMMENT.sub("", text)
    scopes = []  # tuples (kind, name, access)
    at = begin = 0
    depth = 0  # nesting depth of parentheses
    while at < len(text):
        letter = text[at]
        depth += (letter == "(") - (letter == ")")
        if letter == ":" and depth == 0 and (match := ACCESS.match(text[begin:at + 1])):
            scopes[-1] = (*scopes[-1][:2], match[1])
            begin = at + 1
        elif letter in ";{" and depth == 0:
            words = " ".join(text[begin:at].split())
            scope = SCOPE.match(words)
            if letter == "{" and scope and "(" not in words:
                access = "private" if scope[1] == "class" else "public"
                scopes.append((scope[1], scope[2], access))
                begin = at + 1
            else:
                if letter == "{":  # a body or an initialiser: skip to its closing brace
                    at = closing(text, at)
                if "(" in words or letter == ";" or text[at] == "}":
                    yield from named(scopes, words)
                    begin = at + 1
        elif letter == "}" and depth == 0:
            scopes.pop()
            begin = at + 1
        at += 1


def closing(text, at):
    depth = 0
    while True:
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
        at += 1


def named(scopes, words):
    if any(kind == "namespace" and "detail" in name or access != "public" for kind, name, access in scopes):
        return
    words = re.sub(r"\brequires\s*(\((?:[^()]|\([^()]*\))*\)|[\w:]+<\w+>)", "", words)
    words = re.sub(r"^template\s*<(?:[^<>]|<[^<>]*>)*>\s*", "", words)
    if re.match(r"(using|typedef|friend|static_assert|return)\b", words) or not (match := NAME.search(words)):
        return
    if words[:match.start()].endswith("::"):  # a member's definition: its declaration is in the class
        return
    classes = [name for kind, name, _ in scopes if kind in ("class", "struct")]
    name = match[1].replace(" ", "")
    if not name.startswith("~") and not re.search(r"=\s*(delete|default)$", words):
        yield classes[-1] if classes else "", name, words


def sampled(root):
    """The functions that every_operator_test.cc calls."""
    page = root / "docs/operators.md"
    names = set(re.findall(r"^### (\w+)$", page.read_text(encoding="utf-8"), re.M)) if page.exists() else set()
    for file in (root / "tests/support/samples").glob("*_samples.cc"):
        names |= set(re.findall(r"\b(\w+)(?=\(|\})", file.read_text(encoding="utf-8")))
    return names


def members(root):
    """The members of arrays that operators defines and its tests call."""
    tests = root / "tests/operators"
    sites, table = (tests / name for name in ("call_site_test.cc", "array_members_test.cc"))
    found = re.findall(r'check_site\(\s*"(\w+::[^"]+)"', sites.read_text(encoding="utf-8")) if sites.exists() else []
    called = re.findall(r"\bMEMBER(?:_AS)?\((\w+)", table.read_text(encoding="utf-8")) if table.exists() else []
    return {*found, *(f"ArrayMembers::{name}" for name in called)}


def check(root):
    problems, seen = [], set()
    for module in MODULES:
        test = root / "tests" / module / "call_site_test.cc"
        checked = set(re.findall(r'check_site\(\s*"([^"]+)"', test.read_text())) if test.exists() else set()
        if module == "operators":
            checked |= sampled(root)
        if module == "ndarray":
            checked |= members(root)
            on_gpus = root / "tests/gpu_arrays/call_site_test.cc"
            checked |= set(re.findall(r'check_site\(\s*"([^"]+)"', on_gpus.read_text())) if on_gpus.exists() else set()
        for header in sorted((root / module / "include").rglob("*.h")):
            for owner, name, words in declarations(MACRO.sub("", header.read_text(encoding="utf-8"))):
                full = f"{owner}::{name}" if owner else name
                seen.add(full)
                place = f"{header.relative_to(root).as_posix()}: {full}"
                if full in NOT_TOLD:
                    continue
                changes = owner in CLASSES and not re.search(r"\)\s*const\b", words)
                if TOLD.search(words):
                    base = "Module::operator()" if name == "operator()" and module == "nn" else full
                    if base not in checked and full not in NOT_TRACED:
                        problems.append(f'{place}: no check_site("{base}", ...) in {test.relative_to(root).as_posix()}')
                elif ARRAYS.search(words) or changes:
                    problems.append(f"{place}: no last parameter `Where where = Where::current()`")
    if seen > {"NDArray::copy", "Communicator::split"}:  # not in the self-test's tree
        gone = sorted((set(NOT_TOLD) | NOT_TRACED) - seen)
        problems += [f"tools/check_call_sites.py: {name}: is excused, but no public header has it" for name in gone]
    return problems


def self_test():
    header = """namespace heddle { class NDArray { public: int size() const; NDArray copy(Where where = Where::current()) const;
    private: NDArray hidden(); }; template <class T> NDArray made(T value) { return NDArray({value}); }
    NDArray told(Shape shape = {}, Where where = Where::current()); struct Options { int n = 0; std::map<int, NDArray> all{}; };
    class Trainer { public: void step(double scale = 1); double rate() const; }; }"""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "ndarray/include/heddle").mkdir(parents=True)
        (root / "tests/ndarray").mkdir(parents=True)
        (root / "ndarray/include/heddle/a.h").write_text(header)
        (root / "tests/ndarray/call_site_test.cc").write_text('check_site("NDArray::copy", f);')
        found = [line.split(": ")[1] for line in check(root)]
    assert found == ["made", "told", "Trainer::step"], found


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        print("each rule finds what breaks it")
        return 0
    problems = check(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    for problem in problems:
        print(problem)
    if not problems:
        print("every public function that computes with arrays names the line of its call, and is tested")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
