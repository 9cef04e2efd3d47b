#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the tools themselves: each rule must be able to fail."""
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def load(name):
    loader = importlib.machinery.SourceFileLoader("slip_" + name, os.path.join(ROOT, "tools", name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


check = load("check")
suite = load("suite")
doc_blocks = load("doc_blocks")
model = load("model")


class Includes(unittest.TestCase):
    def refused(self, path, quoted, header):
        self.assertIsNotNone(check.include_problem(path, quoted, header), "%s may include %s" % (path, header))

    def allowed(self, path, quoted, header):
        self.assertIsNone(check.include_problem(path, quoted, header))

    def test_rooms(self):
        self.allowed("src/contract/x.c", True, "base/allocator.h")
        self.refused("src/base/x.c", True, "contract/call_frame.h")
        self.refused("src/contract/x.c", True, "os/file.h")
        self.refused("src/graph/x.c", True, "compiler/diagnostics.h")
        self.refused("src/attic/x.c", True, "base/allocator.h")

    def test_system_headers(self):
        self.allowed("src/os/x.c", False, "unistd.h")
        self.refused("src/base/x.c", False, "unistd.h")
        self.allowed("src/base/x.c", False, "stdatomic.h")
        self.refused("src/image/x.c", False, "jansson.h")

    def test_public_headers(self):
        self.refused("include/slipstream/x.h", True, "base/allocator.h")
        self.refused("include/slipstream/x.h", True, "slipstream/platform/platform.h")
        self.refused("include/slipstream/x.h", False, "unistd.h")
        self.refused("include/slipstream/kernel/x.h", True, "slipstream/status.h")
        self.allowed("include/slipstream/x.h", True, "slipstream/status.h")

    def test_users(self):
        self.allowed("cli/x.c", True, "slipstream/slipstream.h")
        self.refused("cli/x.c", True, "base/allocator.h")
        self.refused("bench/launch/x.c", True, "slipstream/platform/platform.h")

    def test_tests_are_free(self):
        self.allowed("src/base/x_test.c", True, "contract/call_frame.h")


class Sources(unittest.TestCase):
    def test_comments_and_strings_are_no_code(self):
        text = check.strip_comments('a(); // strcpy(b)\n/* system(\n) */ "popen(" b();\n')
        self.assertNotIn("strcpy", text)
        self.assertNotIn("system", text)
        self.assertNotIn("popen", text)
        self.assertEqual(text.count("\n"), 3)

    def test_function_lengths(self):
        text = "static int slip_a(int x) {\n  return x;\n}\nvoid slip_b(int a,\n            int b) {\n  a();\n  b();\n}\n"
        self.assertEqual([(name, length) for name, _, length in check.functions_of(text)], [("slip_a", 3), ("slip_b", 5)])

    def test_every_public_function_is_found(self):
        found = check.declared_symbols()
        self.assertIn("slip_status_make", found["slipstream"])  # with attributes behind it
        self.assertIn("slip_context_launch", found["slipstream"])  # over two lines
        self.assertIn("slip_compile_manifest", found["slipc"])
        self.assertNotIn("slip_ok_status", found["slipstream"])  # inline
        self.assertGreater(len(found["slipstream"]), 100)


class Packages(unittest.TestCase):
    def test_a_package_without_a_row_is_found(self):
        pins = {"tools/packages.txt": "# group package version why\nrun g++ 4:12 tests\nrun gcc 4:12 builds\n", "x/requirements.txt": "# pins\nonnx==1.0\n"}
        self.assertEqual(check.missing_packages(pins, "| g++ 12, gcc 12 | tests |\n| onnx | peer |\n"), [])
        self.assertEqual(check.missing_packages(pins, "gcc and g++ in prose\n| onnxruntime | peer |\n"),
                         [("tools/packages.txt", "g++"), ("tools/packages.txt", "gcc"), ("x/requirements.txt", "onnx")])


class Suite(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="slip-suite-")
        self.root, suite.ROOT = suite.ROOT, self.folder
        self.build = os.path.join(self.folder, "build", "dev")
        os.makedirs(self.build)
        os.makedirs(os.path.join(self.folder, "src", "room"))

    def tearDown(self):
        suite.ROOT = self.root
        shutil.rmtree(self.folder)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def run_suite(self, marked, program):
        """Runs a suite of one program, whose source holds |marked| tests, through ctest."""
        source = self.write("src/room/a_test.c", "".join("SLIP_TEST(t%d) {\n}\n" % i for i in range(marked)))
        path = self.write("program", "#!/bin/sh\n" + program, 0o755)
        self.write("build/dev/CTestTestfile.cmake", 'add_test(test_room "%s")\nset_tests_properties(test_room PROPERTIES LABELS unit SKIP_RETURN_CODE 77)\n' % path)
        self.write("build/dev/slip_tests.txt", "test_room|%s\n" % source)
        out = subprocess.run([sys.executable, "-c", "import sys; sys.dont_write_bytecode = True\nimport importlib.machinery, importlib.util\n"
                              "l = importlib.machinery.SourceFileLoader('s', %r); m = importlib.util.module_from_spec(importlib.util.spec_from_loader('s', l)); l.exec_module(m)\n"
                              "m.ROOT = %r; m.main(['unit', '--no-build'])" % (os.path.join(self.root, "tools", "suite"), self.folder)],
                             capture_output=True, text=True, check=False)
        return out.returncode, out.stdout

    def test_green(self):
        code, text = self.run_suite(2, '[ "$1" = --list ] && { echo t0; echo t1; exit; }\necho "RESULT faults=3"\necho "RESULT faults=4"\necho "2 passed, 0 failed, 0 skipped"')
        self.assertEqual(code, 0, text)
        self.assertIn("\n2 passed, 0 failed, 0 skipped\n", text)
        self.assertRegex(text, r"\nRESULT passed=2 failed=0 skipped=0 faults=7 wall_s=")

    def test_deselected_tests_fail(self):
        code, text = self.run_suite(3, '[ "$1" = --list ] && { echo t0; echo t1; exit; }\necho "2 passed, 0 failed, 0 skipped"')
        self.assertEqual(code, 1)
        self.assertIn("ran 2 tests of 3", text)

    def test_failing_program(self):
        code, text = self.run_suite(2, 'echo "# why"\necho "1 passed, 1 failed, 0 skipped"\nexit 1')
        self.assertEqual(code, 1)
        self.assertIn("1 passed, 1 failed", text)
        self.assertIn("# why", text)

    def test_crash_after_a_green_closing_line(self):
        code, _ = self.run_suite(1, '[ "$1" = --list ] && { echo t0; exit; }\necho "1 passed, 0 failed, 0 skipped"\nkill -9 $$')
        self.assertEqual(code, 1)

    def test_silent_program_that_fails(self):
        code, text = self.run_suite(0, "exit 1")
        self.assertEqual(code, 1)
        self.assertIn("0 passed, 1 failed", text)

    def test_the_last_closing_line_counts(self):
        code, text = self.run_suite(1, '[ "$1" = --list ] && { echo t0; exit; }\necho "5 passed, 4 failed, 0 skipped"\necho "1 passed, 0 failed, 0 skipped"')
        self.assertEqual(code, 0, text)

    def test_sources_without_a_program(self):
        self.write("src/room/lost_test.c", "SLIP_TEST(lost) {\n}\n")
        self.assertEqual(suite.orphan_sources({}), ["src/room/lost_test.c"])


class DocBlocks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="slip-blocks-")
        self.runner = doc_blocks.Runner(self.folder)
        self.runner.folder_for = lambda page, content: self.folder
        self.root, doc_blocks.ROOT = doc_blocks.ROOT, self.folder
        self.runner.report = self.record
        self.outcomes = []

    def tearDown(self):
        doc_blocks.ROOT = self.root
        shutil.rmtree(self.folder)
        shutil.rmtree(self.runner.store)

    def record(self, ok, name, text=""):
        self.outcomes.append(ok)

    def outcome(self, page):
        with open(os.path.join(self.folder, "page.md"), "w", encoding="utf-8") as file:
            file.write(page)
        self.outcomes = []
        self.runner.page("page.md")
        return self.outcomes

    def test_shell(self):
        self.assertEqual(self.outcome("```sh run\ntrue\n```\n"), [True])
        self.assertEqual(self.outcome("```sh run\nfalse\ntrue\n```\n"), [False])
        self.assertEqual(self.outcome("```sh\ntrue\n```\n"), [False])
        self.assertEqual(self.outcome("```sh norun=needs a tree\nfalse\n```\n"), [])
        self.assertEqual(self.outcome("```bash run\ntrue\n```\n"), [False])

    def test_c(self):
        self.assertEqual(self.outcome("```c\nint x;\n```\n"), [True])
        self.assertEqual(self.outcome("```c\nint x\n```\n"), [False])
        self.assertEqual(self.outcome("```c run\nint x;\n```\n"), [False])
        self.assertEqual(self.outcome("```c wobbly\nint x;\n```\n"), [False])

    def test_dead_links(self):
        with open(os.path.join(self.folder, "page.md"), "w", encoding="utf-8") as file:
            file.write("[a](page.md) [b](nowhere.md)\n")
        self.outcomes = []
        self.runner.links("page.md")
        self.assertEqual(self.outcomes, [False])


MODEL = """// SPDX-License-Identifier: Apache-2.0
// check: safety
// mutant: BREAK_ONE   a remark
// mutant: BREAK_TWO
byte x, over;
active [2] proctype P() {
#ifdef BREAK_ONE
  byte y = x;
  x = y + 1;
#else
  x++;
#endif
  over++
}
active proctype Q() {
#ifdef BREAK_TWO
  x == 3;
#endif
  over == 2;
  assert(x == 2)
}
"""


@unittest.skipUnless(shutil.which("spin"), "spin is not installed")
class Models(unittest.TestCase):
    def judge(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.pml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            checks = model.load(path)
            for check in checks:
                model.run(check, os.path.join(folder, "work"))
            model.judge_reach(checks)
            return [check.verdict for check in checks]

    def test_a_good_model_passes(self):
        self.assertEqual(self.judge(MODEL), ["", "", ""])

    def test_a_violation_is_told(self):
        self.assertIn("VIOLATED", self.judge(MODEL.replace("assert(x == 2)", "assert(x == 1)"))[0])

    def test_a_deadlock_is_told(self):
        self.assertIn("VIOLATED", self.judge(MODEL.replace("#ifdef BREAK_TWO", "#ifndef BREAK_TWO"))[0])

    def test_a_mutant_that_survives_is_told(self):
        self.assertIn("SURVIVED", self.judge(MODEL.replace("#ifdef BREAK_ONE", "#ifdef BREAK_NONE"))[1])

    def test_a_mutant_that_does_not_compile_is_no_success(self):
        self.assertNotEqual(self.judge(MODEL.replace("byte y = x;", "byte y = "))[1], "")

    def test_statements_never_reached_are_told(self):
        self.assertIn("never reached", self.judge(MODEL.replace("  over == 2;", "  over == 2;\n  if\n  :: x == 9 -> x = 0\n  :: else\n  fi;"))[0])

    def test_a_model_without_mutants_is_refused(self):
        with self.assertRaises(SystemExit):
            self.judge(MODEL.replace("// mutant: BREAK_TWO\n", ""))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=0).result
    bad = len(result.failures) + len(result.errors)
    print("%d passed, %d failed, %d skipped" % (result.testsRun - bad - len(result.skipped), bad, len(result.skipped)))
    sys.exit(1 if bad else 0)
