#!/usr/bin/env python3
"""Tests of tools/tidy: a small tree that is in order, and one fault at a time put into it."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
LATER = "TO" + "DO"  # in pieces: this file is checked too


def load_tidy():
    loader = importlib.machinery.SourceFileLoader("tidy", str(HERE / "tidy"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", loader))
    loader.exec_module(module)
    return module


tidy = load_tidy()

TABLE = r"""
[tests]
headers = ["gtest/"]
[rooms.ground]
rooms = []
headers = ["tl/expected.hpp"]
sources = ["openssl/"]
[rooms.upper]
rooms = ["ground"]
files = ["emblema/side/one.h"]
[rooms.side]
rooms = ["ground"]
[bench]
rooms = ["ground"]
[apps.tool]
rooms = ["*"]
headers = ["CLI/"]
[[banned]]
pattern = '\bprintf\s*\('
instead = "return a value"
only_in = ["emblema/ground/last_words.cc"]
[[banned]]
pattern = '\bsleep\s*\('
instead = "wait for a condition"
everywhere = true
"""

GOOD = {
    "tools/rooms.toml": TABLE,
    "CMakeLists.txt": "foreach(room ground upper side)\n",
    "emblema/ground/base.h": "// What it is.\n#pragma once\n#include <tl/expected.hpp>\n",
    "emblema/ground/base.cc": '#include "emblema/ground/base.h"\n#include <openssl/sha.h>\n'
                              "#include <fmt/format.h>\n",
    "emblema/ground/last_words.cc": 'int f() { return printf("the end"); }\n',
    "emblema/side/one.h": "// One.\n#pragma once\n#include <vector>\n",
    "emblema/upper/top.cc": '#include "emblema/ground/base.h"\n#include "emblema/side/one.h"\n'
                            '// printf( in a comment\nconst char* s = "printf(";\n'
                            "const int m = 1'000'000;\n",
    "emblema/upper/top_test.cc": '#include <gtest/gtest.h>\nvoid f() { printf("fine here"); }\n',
    "apps/tool/main.cc": '#include <CLI/CLI.hpp>\n#include "emblema/upper/top.h"\n',
    "docs/architecture.md": "# House\n\n| `ground/` | base | – |\n| `upper/` | top | `ground` |\n"
                            "| `side/` | side | `ground` |\n\n[here](#house) [there](other.md)\n"
                            "```\n# no heading\n```\n",
    "docs/other.md": "# Other\n\n## A `b` c\n\n[up](../CMakeLists.txt) [in](#a-b-c) <b>\n",
}


class TidyTest(unittest.TestCase):
    def check(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (GOOD | changes).items():
                if text is None:
                    continue
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            count, problems = tidy.check_tree(root)
            self.assertGreater(count, 0)
            return problems

    def expect(self, changes, rule, fragment, line=None):
        problems = self.check(changes)
        self.assertEqual(len(problems), 1, problems)
        self.assertEqual(problems[0][2], rule)
        self.assertIn(fragment, problems[0][3])
        if line is not None:
            self.assertEqual(problems[0][1], line)

    def test_a_tree_in_order_has_no_problem(self):
        self.assertEqual(self.check({}), [])

    def test_include_against_the_direction(self):
        self.expect({"emblema/ground/up.cc": '\n#include "emblema/upper/top.h"\n'}, "include",
                    "ground/ may not include upper/", 2)

    def test_benchmarks_are_seen_by_benchmarks_only(self):
        bench = {"bench/rounds.h": "// X.\n#pragma once\n",
                 "emblema/side/x_bench.h": "// X.\n#pragma once\n"}
        self.assertEqual(self.check(bench | {
            "emblema/side/x_bench.cc": '#include "emblema/side/x_bench.h"\n'
                                       '#include "bench/rounds.h"\n'}), [])
        self.expect(bench | {"emblema/side/x.cc": '#include "emblema/side/x_bench.h"\n'},
                    "include", "is for benchmarks")
        self.expect(bench | {"emblema/side/x.cc": '#include "bench/rounds.h"\n'}, "include",
                    "is not a path")
        self.expect(bench | {"bench/x.cc": '#include "emblema/upper/top.h"\n'}, "include",
                    "bench/ may not include upper/")

    def test_include_of_a_file_beside_the_allowed_one(self):
        self.expect({"emblema/upper/x.cc": '#include "emblema/side/two.h"\n'}, "include", "side/")

    def test_library_that_only_sources_may_include(self):
        self.expect({"emblema/ground/x.h": "// X.\n#pragma once\n#include <openssl/sha.h>\n"},
                    "include", "stays out of headers", 3)
        self.expect({"emblema/ground/x.h": "// X.\n#pragma once\n#include <fmt/format.h>\n"},
                    "include", "stays out of headers")

    def test_library_of_another_room(self):
        self.expect({"emblema/upper/x.cc": "#include <openssl/sha.h>\n"}, "include", "openssl")

    def test_test_libraries_stay_in_tests(self):
        self.expect({"emblema/upper/x.cc": "#include <gtest/gtest.h>\n"}, "include", "gtest")

    def test_what_tests_share_stays_in_tests(self):
        shared = {"emblema/side/x_testing.h": "// X.\n#pragma once\n#include <gtest/gtest.h>\n"}
        self.assertEqual(self.check(shared | {
            "emblema/side/x_test.cc": '#include "emblema/side/x_testing.h"\n'
                                      '#include "test/samples.h"\n'}), [])
        self.expect(shared | {"emblema/side/x.cc": '#include "emblema/side/x_testing.h"\n'},
                    "include", "is for tests")
        self.expect({"emblema/side/x.cc": '#include "test/samples.h"\n'}, "include", "for tests")

    def test_system_headers_are_no_part_of_the_standard_library(self):
        self.expect({"emblema/upper/x.cc": "#include <sys/mman.h>\n"}, "include", "sys/mman.h")

    def test_include_relative_to_the_file(self):
        self.expect({"emblema/upper/x.cc": '#include "top.h"\n'}, "include", "not a path")

    def test_an_application_stays_out_of_others(self):
        self.expect({"apps/tool/x.cc": '#include "apps/agents/x.h"\n'}, "include", "apps/agents")

    def test_file_outside_the_rooms(self):
        self.expect({"emblema/attic/x.cc": "\n"}, "room", "no room")
        self.expect({"src/x.cc": "\n"}, "room", "no room")

    def test_cmake_builds_what_the_table_has(self):
        self.expect({"CMakeLists.txt": "foreach(room ground upper)\n"}, "room", "'side'")

    def test_rooms_in_a_circle(self):
        table = TABLE.replace("[rooms.ground]\nrooms = []", "[rooms.ground]\nrooms = ['upper']")
        problems = self.check({"tools/rooms.toml": table, "docs/architecture.md": None})
        self.assertIn("circle", problems[0][3])

    def test_header_without_comment_or_guard(self):
        self.expect({"emblema/side/x.h": "#pragma once\n"}, "header", "comment")
        self.expect({"emblema/side/x.h": "// X.\n"}, "header", "#pragma once")

    def test_banned_call_names_the_replacement(self):
        self.expect({"emblema/side/x.cc": "\n\nint x = printf(1);\n"}, "banned",
                    "return a value", 3)

    def test_banned_everywhere_means_tests_too(self):
        self.expect({"emblema/side/x_test.cc": "void f() { sleep(1); }\n"}, "banned", "condition")

    def test_digit_separators_do_not_open_a_literal(self):
        self.expect({"emblema/side/x.cc": "int a = 1'000; int b = printf(0); int c = 2'000;\n"},
                    "banned", "printf")

    def test_raw_strings_are_strings(self):
        self.assertEqual(self.check({"emblema/side/x.cc": 'auto s = R"(a " printf( )";\n'}), [])

    def test_long_lines_count_characters_not_bytes(self):
        self.assertEqual(self.check({"emblema/side/x.cc": "// " + "é" * 97 + "\n"}), [])
        self.expect({"emblema/side/x.cc": "// " + "é" * 98 + "\n"}, "length", "101 columns")

    def test_rows_of_tables_may_be_long_and_other_lines_of_documents_not(self):
        self.assertEqual(self.check({"docs/x.md": "# X\n\n| " + "a" * 200 + " |\n"}), [])
        self.expect({"docs/x.md": "# X\n\n" + "a " * 51 + "\n"}, "length", "102 columns", 3)
        block = "\n" + "a " * 51 + "\n```\n"
        self.expect({"docs/x.md": "# X\n\n```" + block}, "length", "102 columns", 4)
        self.assertEqual(self.check({"docs/x.md": "# X\n\n```console" + block}), [])

    def test_long_files(self):
        self.assertEqual(self.check({"emblema/side/x.cc": "\n" * 500}), [])
        self.expect({"emblema/side/x.cc": "\n" * 501}, "length", "501 lines")

    def test_leftover(self):
        self.expect({"emblema/side/x.cc": f"// {LATER}: later\n"}, "leftover", LATER, 1)
        self.expect({"docs/x.md": f"# X\n\n{LATER}\n"}, "leftover", LATER, 3)

    def test_machine_path(self):
        self.expect({"docs/x.md": "# X\n\nSee `/ho" + "me/ann/x`.\n"}, "machine", "...")

    def test_folder_named_after_nothing(self):
        self.expect({"emblema/upper/common/x.cc": "\n"}, "name", "after a concept")
        self.expect({"emblema/upper/CamelCase.cc": "\n"}, "name", "snake_case")

    def test_headline(self):
        self.expect({"docs/x.md": "## X\n"}, "headline", "0 first-level")
        self.expect({"docs/x.md": "# X\n\n# Y\n"}, "headline", "2 first-level")

    def test_links(self):
        self.expect({"docs/x.md": "# X\n\n[y](y.md)\n"}, "link", "'y.md' is not there", 3)
        self.expect({"docs/x.md": "# X\n\n[y](other.md#none)\n"}, "link", "no such heading")
        self.assertEqual(self.check({"docs/x.md": "# X\n\n[y](https://a.example/b)\n"}), [])

    def test_documented_table(self):
        document = GOOD["docs/architecture.md"].replace("| top | `ground`", "| top | `side`")
        problems = self.check({"docs/architecture.md": document})
        self.assertEqual([p[2] for p in problems], ["table"])

    def test_the_command_says_what_it_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "tools").mkdir()
            (root / "tools/rooms.toml").write_text(TABLE, encoding="utf-8")
            (root / "x.md").write_text("no heading\n", encoding="utf-8")
            run = subprocess.run([sys.executable, "-B", HERE / "tidy", "--root", root],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("x.md:1: headline:", run.stdout)


if __name__ == "__main__":
    unittest.main()
