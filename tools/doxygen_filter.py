#!/usr/bin/env python3
"""Doxygen's input filter: prints a public header or a page of this project as Doxygen reads it (tools/docs).

  tools/doxygen_filter.py FILE
  tools/doxygen_filter.py --headings DIR    adds the pages' headings to the search of the site in DIR
  tools/doxygen_filter.py --self-test

A header: the comment at its top describes a group named after the header, which holds all that it declares. A comment
above a declaration, and one behind it, become its documentation. A comment above functions that follow one another
without a blank line or a comment between them is the documentation of each. Lines that are indented by two more blanks
are code. Bodies of functions stay as they are.

A page: headings get labels, links to pages and headings lead to them, links to other files lead out of build/docs.
"""
import html
import importlib.machinery
import json
import os
import re
import sys

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODULES = {"engine": "Engine", "ndarray": "Arrays", "operators": "Operators", "nn": "Layers and optimizers",
           "comm": "Communication", "net": "Keys and errors of communication", "kvstore": "Stores, trainer, servers", "c": "C ABI"}
SCOPE = re.compile(r'(template\s*<.*>\s*)?(typedef\s+)?(namespace\b|class\b|struct\b|union\b|enum\b|extern "C")[^()]*$', re.S)
SEVERAL = re.compile(r"(\s+[A-Za-z_:0-9]+ )([a-z_]+(?: = [^,;{}()]+)?(?:, [a-z_]+(?: = [^,;{}()]+)?)+);$")
MARKUP = re.compile(r"(`[^`]*`)|(!?)\[((?:`[^`]*`|[^\]`])*)\]\(([^)\s]+)\)|(?<=\w)@(?=\w)|\\(?!\|)|<(?=[a-z/])")
LABEL = re.compile(r"(public|protected|private):$")


def escaped(text):
    """The text with what Doxygen takes for markup masked."""
    return re.sub(r"[\\@<>&%*]|(?<!\w)#|--|::(?=\s|$)", r"\\\g<0>", text)


def escaped_prose(text):
    """The same but for inline code and what stands in quotation marks, which Doxygen leaves alone."""
    return "".join(part if part[:1] in ("`", '"') else escaped(part) for part in re.split(r"(`[^`]*`|\"[^\"]*\")", text))


def documented(lines, indent=""):
    """The `///` lines of a comment's lines, which begin behind their slashes."""
    out, code = [], False
    for line in lines:
        if code != (line.startswith("   ") or (code and not line.strip())):
            out.append("@endcode" if code else "@code{.cpp}")
            code = not code
        out.append(line[3:] if code else escaped_prose(line.strip()))
    return [f"{indent}/// {line}".rstrip() for line in out + ["@endcode"] * code]


def without_comment(line):
    """A line's code with strings blanked out and without comments, and the text of the comment behind it."""
    blanked = re.sub(r'"(?!C")(\\.|[^"\\])*"|\'(\\.|[^\'\\])\'', lambda match: "s" * len(match[0]), line)
    code, slashes, _ = blanked.partition("//")
    comment = line[len(code) + 2:] if slashes else ""
    return re.sub(r"/\*.*?\*/", lambda match: " " * len(match[0]), code).rstrip(), comment


class Header:
    def __init__(self, path):
        module = "c" if "/heddle/c/" in path else path.split("/")[0]
        self.name = path.split("/include/")[-1]
        self.group = re.sub(r"\W", "_", module + "/" + os.path.basename(path)[:-2])
        self.module = module
        self.out, self.scopes, self.above, self.shared = [], [], [], []

    def text(self, content):
        lines = content.split("\n")
        top = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
        self.out = [f"/// @addtogroup {self.module} {MODULES[self.module]}", "", f"/// @defgroup {self.group} {self.name}",
                    f"/// @ingroup {self.module}", "///"] + documented([line[2:] for line in lines[:top]]) + [""]
        i = top
        while i < len(lines):
            i = self.next(lines, i)
        return "\n".join(self.out)

    def next(self, lines, i):
        """Takes one comment, directive or declaration, which begins at line i; returns the line behind it."""
        line = lines[i].strip()
        if line.startswith("//"):
            self.above.append(line[2:])
            self.shared = []
            return i + 1
        if not line:
            self.above, self.shared = [], []
            self.out.append("")
            return i + 1
        end = self.directive_end(lines, i) if line[0] == "#" else self.declaration_end(lines, i)
        self.emit(lines[i:end])
        return end

    @staticmethod
    def directive_end(lines, i):
        while lines[i].endswith("\\"):
            i += 1
        return i + 1

    def declaration_end(self, lines, i):
        """The line behind the declaration, the opening of a scope or the closing of one that begins at line i."""
        in_enum = bool(self.scopes) and self.scopes[-1] == "enum"
        code, parentheses, braces = "", 0, 0
        for number in range(i, len(lines)):
            text, _ = without_comment(lines[number])
            code += "\n" + text
            for character in text:
                parentheses += (character == "(") - (character == ")")
                braces += (character == "{") - (character == "}")
            stripped = code.strip()
            if LABEL.match(stripped) or braces < 0 or (in_enum and parentheses == 0):
                return number + 1
            if braces == 1 and text.endswith("{") and SCOPE.match(stripped[:-1]):
                return number + 1
            if parentheses == 0 and braces == 0 and re.search(r"[;}]$", stripped):
                return number + 1
        return len(lines)

    def emit(self, lines):
        """Puts out a directive, a declaration, or a line that opens or closes a scope, with its documentation."""
        code = "\n".join(without_comment(line)[0] for line in lines).strip()
        opens = SCOPE.match(code[:-1]) if code.endswith("{") else None
        function = "(" in code and not code.startswith("#") and not opens
        documentation = [] if code.startswith("}") or LABEL.match(code) else self.documentation(lines, code, function)
        if code.startswith("}") and self.scopes and self.scopes.pop() == "group":
            self.out.append("/// @}")
        if not (function and code.endswith("}")):
            lines = [self.plain(line) for line in lines]
        several = SEVERAL.match(lines[0]) if documentation and len(lines) == 1 else None
        for line in [f"{several[1]}{name};" for name in several[2].split(", ")] if several else ["\n".join(lines)]:
            self.out += documentation + [line]
        if opens:
            self.open(opens[3])
        self.shared = (self.above or self.shared) if function and "~" not in code else []
        self.above = []

    def open(self, kind):
        outermost = kind in ("namespace", 'extern "C"') and not self.scopes
        self.scopes.append("group" if outermost else kind)
        if outermost:
            self.out += [f"/// @addtogroup {self.group}", "/// @{", ""]

    def documentation(self, lines, code, function):
        """The comment behind the declaration, then the one above it."""
        whole = not (function and code.endswith("}"))  # else the comment behind its first or its only line
        comments = [without_comment(line) for line in (lines if whole else lines[:1])]
        behind = [comment.strip() for text, comment in comments if text and comment]
        above = self.above or (self.shared if function and self.shares(code, behind) else [])
        both = ([" " + " ".join(behind)] if behind else []) + ([""] if behind and above else []) + above
        return documented(both, re.match(r"\s*", lines[0])[0]) if both else []

    def shares(self, code, behind):
        """Whether the comment above an earlier function describes this one too."""
        several = re.search(r"\bdown to\b", self.shared[0]) if self.shared else None
        return bool(self.shared) and not re.search(r"= delete;|std::ostream|what\(\)|_destroy\(", code) and (not behind or bool(several))

    @staticmethod
    def plain(line):
        """The line without the comment behind its code."""
        comment = without_comment(line)[1]
        return line[:len(line) - len(comment) - 2].rstrip() if comment else line


def label(page, anchor=""):
    return "page_" + re.sub(r"\W", "_", os.path.splitext(page)[0]) + (f"_{anchor}" if anchor else "")


class Page:
    def __init__(self, path):
        self.path = path
        self.check_docs = importlib.machinery.SourceFileLoader("check_docs", f"{ROOT}/tools/check_docs").load_module()

    def text(self, content):
        anchors = iter(self.check_docs.anchors(content))
        prose = {number for number, _ in self.check_docs.prose(content)}
        out = []
        for number, line in enumerate(content.split("\n"), 1):
            if number in prose and not line.startswith("```"):
                line = re.sub(r"\*\*(<code>|`)([^*]*)\*\*", r"<b>\1\2</b>", MARKUP.sub(self.masked, line))
                if re.match(r"#+ ", line):
                    anchor = next(anchors)
                    line += f" {{#{label(self.path, '' if line.startswith('# ') else anchor)}}}"
            out.append(line)
        return "\n".join(out + (self.sections(out) if self.path == "docs/README.md" else []))

    @staticmethod
    def sections(lines):
        """The front page's sections once more, as pages: in the tree of all pages those that a list names are below its section."""
        out = []
        for line in lines:
            section = re.match(r"## (.*) \{#(.*)\}", line)
            if section:
                out += ["", f"@page in_{section[2]} {section[1]}", ""]
            elif out:
                out.append(re.sub(r"\[([^\]]*)\]\(@ref (page_\w*)\)", r'@subpage \2 "\1"', line) if line.startswith("- ") else line)
        return out

    def masked(self, match):
        """Inline code, in which Doxygen 1.9.4 reads backslashes and quotation marks; a link; or a character that is none of Doxygen's."""
        code, image, text, target = match.groups()
        if code:
            text = escaped(code[1:-1].replace("\\|", "|")).replace('"', "&quot;").replace("|", "\\|")
            return f"<code>{text}</code>" if re.search(r'[\\"\'*&]', code) else code
        return self.link(match[0], image, text, target) if target else "\\" + match[0]

    def link(self, whole, image, text, target):
        path, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(self.path), path)) if path else self.path
        if re.match(r"[a-z]+:", target):
            return whole
        if image:
            return f"![{text}]({os.path.basename(path)})"
        if not file.endswith(".md"):
            return f'<a href="../../{file}">{text}</a>'
        return f"[{text.replace('`', '')}](@ref {label(file, anchor)})"


def add_headings(folder):
    """Adds each word that a heading has to the search, which Doxygen 1.9.4 makes of names and titles; it finds what begins with an input."""
    with open(f"{folder}/search/searchdata.js", encoding="utf-8") as file:
        letters = re.search(r'0: "(.*)"', file.read())[1]
    entries = {}
    for path in Page("").check_docs.pages(ROOT):
        with open(path, encoding="utf-8") as file:
            headings = re.findall(r"^(#+) +(.*) \{#(.*)\}$", Page(path).text(file.read()), re.M)
        for level, heading, anchor in headings if path != "docs/README.md" else []:
            title = html.escape(re.sub(r"\[([^\]]*)\]\(.*?\)|[`*]|</?code>", r"\1", heading))
            target = f"../{label(path)}.html" + (f"#{anchor}" if level != "#" else "")
            for word in re.findall(r"[A-Za-z]\w{2,}", title)[level == "#":]:  # a page's title itself is there
                rest = re.sub(r"[^a-z0-9]", lambda match: f"_{ord(match[0]):02x}", title[title.index(word):].lower())
                entries.setdefault(rest[0], []).append(f"  {json.dumps([f'{rest}_h', [title, [target, 1, headings[0][1]]]])}")
    for letter in set(letters) & set(entries):
        lines, name = entries[letter], f"{folder}/search/all_{letters.index(letter):x}.js"
        with open(name, encoding="utf-8") as file:
            content = file.read().rstrip()
        with open(name, "w", encoding="utf-8") as file:
            file.write(content.removesuffix("];").rstrip() + ",\n" + ",\n".join(lines) + "\n];\n")


def self_test():
    header = """// The top.
#pragma once
namespace heddle {
// A class: `a<b>` and <x>.
class C {
 public:
  // Both
  // lines.
  void f(int x = {});  // behind
  void g() const { h(); }  // "g"
  void h();

  void i();
  int j = 0, k = 1;  // of j and k
  bool operator==(const C&) const {
    // Inside.
    return true;
  }
};
}  // namespace heddle
"""
    text = Header("engine/include/heddle/c.h").text(header)
    wanted = ["/// @defgroup engine_c heddle/c.h\n/// @ingroup engine\n///\n/// The top.", "/// A class: `a<b>` and \\<x\\>.\nclass C {",
              "  /// behind\n  ///\n  /// Both\n  /// lines.\n  void f(int x = {});", '  /// "g"\n  void g()', "  /// Both\n  /// lines.\n  void h();",
              "\n\n  void i();", "  /// of j and k\n  int j = 0;\n  /// of j and k\n  int k = 1;", "    // Inside.", "};\n/// @}\n}"]
    page = "# A\n[b](comm.md#back-ends) [c](../LICENSE) `[d](e)`\n## B c\n"
    text += Page("docs/page.md").text(page)
    wanted += ["# A {#page_docs_page}", "[b](@ref page_docs_comm_back-ends)", '<a href="../../LICENSE">c</a>', "`[d](e)`", "## B c {#page_docs_page_b-c}"]
    for part in wanted:
        if part not in text:
            sys.exit(f"self-test: {part!r} is not in\n{text}")
    print(f"{len(wanted)} parts of a header and a page are as they should be")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:2] == ["--headings"]:
        return add_headings(sys.argv[2])
    path = os.path.relpath(os.path.abspath(sys.argv[1]), ROOT)
    with open(path, encoding="utf-8") as file:
        content = file.read()
    print((Page(path) if path.endswith(".md") else Header(path)).text(content))
    return None


if __name__ == "__main__":
    main()
