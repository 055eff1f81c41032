#!/usr/bin/env python3
"""Tests of tools/python_setup: real files in a temporary tree, and a pip that only takes notes."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent


def load_setup():
    loader = importlib.machinery.SourceFileLoader("python_setup", str(HERE / "python_setup"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


setup = load_setup()


def requirements(name):
    lines = (HERE.parent / "python" / "requirements" / name).read_text(encoding="utf-8").split("\n")
    return [line for line in lines if line and not line.startswith("#")]


class Machine:
    """What stands for venv and pip: makes the folder, notes each installation, refuses some."""

    def __init__(self, refuses=()):
        self.refuses = refuses  # (file name, an option that must be absent for the refusal)
        self.made = 0
        self.installed = []  # [file name, option...]

    def run(self, command, **_):
        if command[1:3] == ["-m", "venv"]:
            self.made += 1
            python = pathlib.Path(command[3]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.touch()
            return subprocess.CompletedProcess(command, 0)
        assert command[1:4] == ["-m", "pip", "install"], command
        name = pathlib.Path(command[-1]).name
        self.installed.append([name, *command[7:-2]])
        refused = any(name == file and (without is None or without not in command)
                      for file, without in self.refuses)
        return subprocess.CompletedProcess(
            command, int(refused), stderr="a warning\nERROR: first\nERROR: Nothing matches\n")

    def files(self):
        return [entry[0] for entry in self.installed]


class PythonSetupTest(unittest.TestCase):
    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        self.lists = self.top / "requirements"
        shutil.copytree(HERE.parent / "python" / "requirements", self.lists)

    def run_setup(self, machine, *arguments, torch=None, **patches):
        """(exit code, what was printed, what was complained)."""
        printed, complained = io.StringIO(), io.StringIO()
        environment = {} if torch is None else {"TORCH": torch}
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.redirect_stdout(printed))
            stack.enter_context(contextlib.redirect_stderr(complained))
            stack.enter_context(mock.patch.object(setup, "TOP", self.top))
            stack.enter_context(mock.patch.object(setup, "REQUIREMENTS", self.lists))
            stack.enter_context(mock.patch.object(setup.subprocess, "run", machine.run))
            stack.enter_context(mock.patch.object(sys, "argv", ["python_setup", *arguments]))
            stack.enter_context(mock.patch.dict(setup.os.environ, environment, clear=True))
            for name, value in patches.items():
                stack.enter_context(mock.patch.object(setup, name, value))
            code = setup.main()
        return code, printed.getvalue(), complained.getvalue()

    def test_first_run_installs_everything_and_the_second_nothing(self):
        machine = Machine()
        self.assertEqual(self.run_setup(machine)[0], 0)
        self.assertEqual(machine.made, 1)
        self.assertEqual(machine.files(),
                         ["build.txt", "test.txt", "torch.txt", "transformers.txt"])
        self.assertEqual(self.run_setup(machine), (0, "", ""))
        self.assertEqual(len(machine.installed), 4)

    def test_linters_on_request(self):
        machine = Machine()
        self.run_setup(machine)
        self.run_setup(machine, "--lint")
        self.assertEqual(machine.files()[4:], ["lint.txt"])

    def test_a_changed_list_is_installed_again_and_no_other(self):
        machine = Machine()
        self.run_setup(machine)
        with (self.lists / "test.txt").open("a", encoding="utf-8") as file:
            file.write("pytest-cov\n")
        self.run_setup(machine)
        self.assertEqual(machine.files()[4:], ["test.txt"])

    def test_another_python_makes_the_environment_anew(self):
        machine = Machine()
        self.run_setup(machine)
        with mock.patch.object(sys, "base_prefix", "/opt/python3.99"):
            self.run_setup(machine)
        self.assertEqual(machine.made, 2)
        self.assertEqual(len(machine.installed), 8)

    def test_a_failed_installation_is_one_line_and_is_tried_again(self):
        machine = Machine(refuses=[("test.txt", None)])
        code, _, complained = self.run_setup(machine)
        self.assertEqual(code, 2)
        self.assertEqual(complained.count("\n"), 1)
        self.assertIn("python/requirements/test.txt: Nothing matches", complained)
        machine.refuses = ()
        self.assertEqual(self.run_setup(machine)[0], 0)
        self.assertEqual(machine.files(), ["build.txt", "test.txt", "test.txt", "torch.txt",
                                           "transformers.txt"])

    def test_torch_comes_from_its_own_index_where_the_configured_one_has_no_cpu_build(self):
        machine = Machine(refuses=[("torch.txt", "--extra-index-url")])
        self.assertEqual(self.run_setup(machine)[0], 0)
        self.assertEqual(machine.files()[2:], ["torch.txt", "torch.txt", "transformers.txt"])
        self.assertEqual(machine.installed[2][1:], ["--only-binary=torch"])
        self.assertEqual(machine.installed[3][1:4], ["--only-binary=torch", "--extra-index-url",
                                                     "https://download.pytorch.org/whl/cpu"])

    def test_no_cpu_build_is_one_line_and_no_failure(self):
        machine = Machine(refuses=[("torch.txt", None)])
        code, printed, complained = self.run_setup(machine)
        self.assertEqual((code, complained), (0, ""))
        last = printed.rstrip("\n").split("\n")[-1]
        self.assertIn("no CPU build of torch", last)
        self.assertIn("skipped: Nothing matches", last)
        self.assertEqual(machine.files(), ["build.txt", "test.txt", "torch.txt", "torch.txt"])

    def test_torch_can_be_left_out(self):
        machine = Machine()
        code, printed, _ = self.run_setup(machine, torch="none")
        self.assertEqual(code, 0)
        self.assertEqual(machine.files(), ["build.txt", "test.txt"])
        self.assertIn("TORCH=none", printed)

    def test_an_unknown_wish_is_refused_before_anything_is_made(self):
        machine = Machine()
        code, printed, complained = self.run_setup(machine, torch="cuda")
        self.assertEqual((code, printed, machine.made), (2, "", 0))
        self.assertEqual(complained,
                         "tools/python_setup: TORCH is 'cuda'; allowed: none, or not set\n")

    def test_a_python_that_cannot_do_it_is_told_what_it_lacks(self):
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        lacks = mock.Mock()
        lacks.util.find_spec.return_value = None
        faults = {
            "needed: 3.10 or newer": {"OLDEST": (4, 0)},
            f"install python{version}-venv": {"importlib": lacks},
            f"install python{version}-dev": {
                "sysconfig": mock.Mock(get_path=lambda _: str(self.top))},
        }
        for expected, patch in faults.items():
            with self.subTest(expected):
                machine = Machine()
                code, _, complained = self.run_setup(machine, **patch)
                self.assertEqual((code, machine.made), (2, 0))
                self.assertIn(expected, complained)
                self.assertEqual(complained.count("\n"), 1)


class RequirementsTest(unittest.TestCase):
    def test_torch_can_only_be_a_build_for_cpus(self):
        self.assertEqual(len(requirements("torch.txt")), 1)
        self.assertRegex(requirements("torch.txt")[0], r"^torch==[0-9.]+\+cpu$")
        for path in (HERE.parent / "python" / "requirements").glob("*.txt"):
            names = [re.split(r"[^\w-]", line)[0] for line in requirements(path.name)]
            self.assertEqual("torch" in names, path.name == "torch.txt", path.name)

    def test_a_build_in_isolation_gets_what_the_environment_has(self):
        project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
        self.assertEqual(
            sorted(project["build-system"]["requires"] + project["project"]["dependencies"]),
            sorted(requirements("build.txt")))

    def test_the_package_asks_for_the_tested_transformers(self):
        project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
        extra = project["project"]["optional-dependencies"]["transformers"]
        self.assertIn(requirements("transformers.txt")[0], extra)


if __name__ == "__main__":
    unittest.main()
