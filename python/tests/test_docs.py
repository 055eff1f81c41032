"""docs/python.md: every ```python block runs, in order, in one namespace, and prints what the
```console block behind it shows. A line `...` there stands for lines left out.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import pathlib
import re
from dataclasses import dataclass

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"
TORCH_IS_THERE = importlib.util.find_spec("torch") is not None

# A block, and the output that stands behind it with nothing but empty lines between.
_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n*^```console\n(.*?)^```\n)?", re.M | re.S)


@dataclass
class Block:
    """One piece of code of the page."""

    line: int  # of its first line of code
    code: str
    shown: str | None
    needs_torch: bool


def blocks_of(page: str) -> list[Block]:
    """From the first that imports torch on, all blocks need it: they go on from one another."""
    blocks: list[Block] = []
    for match in _BLOCK.finditer(page):
        code = match.group(1)
        needs = re.search(r"^import torch$", code, re.M) is not None
        needs = needs or bool(blocks and blocks[-1].needs_torch)
        line = page.count("\n", 0, match.start(1)) + 1
        blocks.append(Block(line, code, match.group(2), needs))
    return blocks


BLOCKS = blocks_of(PAGE.read_text(encoding="utf-8"))


def assert_shown(shown: str, printed: str) -> None:
    """Holds the output of the page against what was printed; the lines of `...` may be any."""
    pattern = r"(?:.*\n)*".join(
        re.escape(part) for part in re.split(r"^\.\.\.\n", shown, flags=re.M)
    )
    if re.fullmatch(pattern, printed) is None:
        assert printed == shown  # pytest shows both


class Page:
    """The page as far as it was run."""

    def __init__(self) -> None:
        self.namespace: dict[str, object] = {"__name__": "docs"}
        self.printed: list[str] = []
        self.failed: int | None = None  # line of the block that raised

    def run_to(self, index: int) -> str:
        """What block `index` prints; those before it are run first where they were not yet."""
        while len(self.printed) <= index:
            if self.failed is not None:
                pytest.fail(f"the block at line {self.failed} failed", pytrace=False)
            block = BLOCKS[len(self.printed)]
            self.failed = block.line
            # Empty lines in front, so that a traceback names the page's own line.
            code = compile("\n" * (block.line - 1) + block.code, str(PAGE), "exec")
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(code, self.namespace)
            self.printed.append(output.getvalue())
            self.failed = None
        return self.printed[index]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory):
    """The page, run in an empty folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        yield Page()


@pytest.mark.parametrize("index", range(len(BLOCKS)), ids=lambda i: f"line_{BLOCKS[i].line}")
def test_block(page, index):
    block = BLOCKS[index]
    if block.needs_torch and not TORCH_IS_THERE:
        pytest.skip("torch is not installed")
    printed = page.run_to(index)
    assert_shown(block.shown or "", printed)


def test_the_page_has_both_kinds():
    assert any(block.needs_torch for block in BLOCKS)
    assert any(not block.needs_torch and block.shown for block in BLOCKS)


@pytest.mark.parametrize(
    "shown, printed, is_alike",
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\nc\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nb\nc\n", False),
        ("a\n...\n", "a\n", True),
        ("", "a\n", False),  # a block that prints shows what
        ("a.b\n", "axb\n", False),
    ],
)
def test_outputs_are_compared_by_line(shown, printed, is_alike):
    if is_alike:
        assert_shown(shown, printed)
    else:
        with pytest.raises(AssertionError):
            assert_shown(shown, printed)


def test_blocks_are_found_with_their_output_and_line():
    text = "# T\n\n```python\nx = 1\n```\n\n```python\nimport torch\n```\n\n```console\n1\n```\n"
    first, second = blocks_of(text)
    assert (first.line, first.shown, first.needs_torch) == (4, None, False)
    assert (second.line, second.shown, second.needs_torch) == (8, "1\n", True)
