"""The package as a whole: it is the compiled one, of this version, and its command answers."""

import pathlib
import re
import subprocess
import sys

import emblema
import emblema._core

TOP = pathlib.Path(__file__).resolve().parents[2]


def text_between(name: str, pattern: str) -> str:
    """The only match of `pattern` in the file `name` of the tree."""
    (found,) = re.findall(pattern, (TOP / name).read_text(encoding="utf-8"), re.MULTILINE)
    return str(found)


def run_console_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What pip's script `emblema` does: calls the function that pyproject.toml names."""
    module, function = text_between("pyproject.toml", r'^emblema = "([\w.:]+)"$').split(":")
    program = f"import sys; from {module} import {function}; sys.exit({function}())"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True,
                          text=True, check=False)


def test_it_is_a_package_with_its_extension_beside_it():
    folder = pathlib.Path(emblema.__file__).parent
    assert folder != TOP / "python" / "emblema"
    assert pathlib.Path(emblema._core.__file__).parent == folder
    assert (folder / "py.typed").exists()


def test_every_public_name_is_there():
    assert emblema.__all__
    missing = [name for name in emblema.__all__ if not hasattr(emblema, name)]
    assert missing == []


def test_the_version_is_the_same_everywhere():
    version = text_between("CMakeLists.txt", r"^project\(emblema VERSION ([\d.]+) ")
    assert text_between("pyproject.toml", r'^version = "([\d.]+)"$') == version
    printed = run_console_script("--version").stdout
    assert printed.split("\n")[0] == f"emblema {version}"


def test_the_command_answers():
    result = run_console_script("plan", "deepseek-v3")
    assert (result.returncode, result.stderr) == (0, "")
    # 61 layers of 512 + 64 numbers of 2 bytes.
    assert f"{61 * (512 + 64) * 2:,}" in result.stdout


def test_a_refused_command_is_one_line_and_an_exit_code():
    result = run_console_script("plan", "no-such-model")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "no-such-model" in result.stderr
