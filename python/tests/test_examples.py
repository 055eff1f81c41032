"""examples/transformers_agents.py: what its table says, what it refuses, when it fails."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
# A part of it: a folder of tests is called transformers, too.
pytest.importorskip("transformers.utils", reason="transformers is not installed")

import transformers  # noqa: E402

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "examples" / "transformers_agents.py"

# What one token takes in the random model: 3 layers of 128 latent and 16 rotary float32 numbers.
TOKEN_BYTES = 3 * (128 + 16) * 4
BLOCK_TOKENS = 64


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("transformers_agents", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def table_of(output: str) -> dict[str, list[str]]:
    """The table's rows by their first cell."""
    rows = [re.split(r"\s{2,}", line) for line in output.splitlines()]
    return {row[0]: row[1:] for row in rows if len(row) == 4}


def numbers(cells: list[str]) -> list[int]:
    return [int(cell.replace(",", "")) for cell in cells]


def test_table_of_three_agents(program, capsys):
    # The document is two whole blocks, so that what is computed is the same in both shared ways.
    agents, document, question, decode = 3, 2 * BLOCK_TOKENS, 32, 4
    code = program.main(["--agents", "3", "--document", "128", "--decode", "4", "--threads", "2"])
    out, err = capsys.readouterr()
    table = table_of(out)
    assert (code, err) == (0, "")
    assert table["equal answers"] == ["3 of 3"] * 3
    assert numbers(table["tokens served"]) == [agents * (document + question + decode)] * 3
    shared = document + agents * question
    assert numbers(table["prompt tokens computed"]) == [
        agents * (document + question), shared, shared,
    ]
    assert numbers(table["copies of the document"]) == [agents, agents + 1, 1]
    # The last token of an answer is nobody's past yet. Emblema: the document once, and a block for
    # each agent's own tokens.
    held = document + question + decode - 1
    assert numbers(table["bytes of cache at the end"]) == [
        TOKEN_BYTES * agents * held,
        TOKEN_BYTES * (agents * held + document),
        TOKEN_BYTES * BLOCK_TOKENS * (document // BLOCK_TOKENS + agents),
    ]


@pytest.mark.parametrize(
    "arguments, named",
    [
        (["--agents", "0"], "--agents"),
        (["--document", "many"], "--document"),
        (["--decode", "-3"], "--decode"),
        (["--threads", "1.5"], "--threads"),
        (["--dtype", "int8"], "--dtype"),
        (["--text", "README.md"], "--text"),
        (["--model", "/no/such/folder"], "/no/such/folder"),
        (["--agent", "3"], "--agent"),  # not guessed to be --agents
    ],
)
def test_wrong_arguments_are_one_line(program, capsys, arguments, named):
    try:
        code = program.main(arguments)
    except SystemExit as exit_of_parser:
        code = exit_of_parser.code
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and named in err


def ways_with(program, last: list[int], close: list[bool]):
    first = program.Way("first", answers=[[1, 2, 3]], close=[close])
    return [first, program.Way("last", answers=[last], close=[[False] * 3])]


@pytest.mark.parametrize(
    "last, close, found",
    [
        ([1, 2, 3], [False, False, False], (1, 0)),
        ([1, 9, 3], [False, False, False], (0, 1)),
        ([1, 9, 9], [False, True, False], (0, 0)),  # a tie; what follows is another text
        ([9, 2, 3], [False, True, True], (0, 1)),
    ],
)
def test_answers_are_compared_up_to_the_first_tie(program, last, close, found):
    assert program.compare(ways_with(program, last, close)) == [(1, 0), found]


def test_two_tokens_are_close_relative_to_the_largest(program):
    scores = torch.tensor([10.0, -20.0, 9.999, -float("inf")])
    assert program.is_close(scores, 1e-4)
    assert not program.is_close(scores, 1e-5)


def test_other_answers_in_float32_fail(program, capsys, monkeypatch):
    honest = program.run_emblema

    def lying(model, task, progress):
        way = honest(model, task, progress)
        way.answers[0][0] += 1
        return way

    monkeypatch.setattr(program, "run_emblema", lying)
    code = program.main(["--agents", "1", "--document", "16", "--decode", "2", "--threads", "2"])
    out, err = capsys.readouterr()
    assert code == 1
    assert table_of(out)["equal answers"] == ["1 of 1", "1 of 1", "0 of 1"]
    assert err == "error: 1 answers differ where float32 leaves no choice\n"


def save_tokenizer(folder: pathlib.Path, text: str) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = sorted({*text.split(), *"Question what does the text say about Answer".split()})
    vocabulary = {"[UNK]": 0, **{word: i + 1 for i, word in enumerate(words)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


TEXT = "every cache holds what attention must remember and nothing besides " * 10
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 64}


def save_model(folder: pathlib.Path, config) -> list[str]:
    """A model's folder and a text; gives the arguments that name them."""
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    save_tokenizer(folder, TEXT)
    text = folder / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    return ["--model", str(folder), "--text", str(text), "--agents", "2", "--decode", "3"]


def test_a_model_of_ones_own(program, capsys, tmp_path):
    config = transformers.Qwen3Config(
        **TINY, num_attention_heads=4, num_key_value_heads=2, head_dim=16
    )
    arguments = save_model(tmp_path, config)
    capsys.readouterr()  # what saving says
    code = program.main([*arguments, "--document", "90"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    assert "Qwen3ForCausalLM, float32" in out
    assert table_of(out)["equal answers"] == ["2 of 2"] * 3
    assert table_of(out)["copies of the document"] == ["2", "3", "1"]

    assert program.main([*arguments, "--document", "1000"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: --document is 1000; allowed: up to 100, ")


def test_a_model_that_is_not_served_is_named_before_any_work(program, capsys, tmp_path):
    config = transformers.GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=64)
    arguments = save_model(tmp_path, config)
    capsys.readouterr()  # what saving says
    code = program.main([*arguments, "--document", "90"])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("error: GPT2LMHeadModel (gpt2): ") and err.count("\n") == 1


def test_help_is_a_program_s():
    shown = subprocess.run(
        [sys.executable, PROGRAM, "--help"], capture_output=True, text=True, timeout=300
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "examples:" in shown.stdout and "exit code:" in shown.stdout
