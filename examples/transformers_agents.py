#!/usr/bin/env python3
"""Sixteen agents read one document: stock transformers beside emblema.transformers.

Each agent has a prompt of its own, the document and then a question, and writes an answer. All
agents stay alive until the end, as in a server, so that the memory of all of them is seen.

  stock, each alone     every agent computes the document and keeps a copy of it
  stock, cache copied   the document is computed once; each agent goes on from copy.deepcopy of its
                        cache, as transformers' documentation has it
  emblema               each agent has an EmblemaCache; nobody says that anything is shared

A greedy answer must be the same in all three. Without --model it is a small model of DeepSeek-V3's
kind with random weights, whose attention has a quarter of DeepSeek-V2-Lite's widths.
"""

from __future__ import annotations

import argparse
import copy
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

try:
    import torch
    import transformers

    from emblema.transformers import EmblemaCache
except ImportError as missing:
    sys.exit(f"error: {missing}; 'make python' installs what this example needs")

import emblema

EXAMPLES = """examples:
  python examples/transformers_agents.py
  python examples/transformers_agents.py --agents 4 --document 512 --decode 8
  python examples/transformers_agents.py --dtype bfloat16
  python examples/transformers_agents.py --model ~/models/Qwen3-0.6B --text README.md

exit code: 0 done; 1 it failed, or answers differ that float32 must give alike; 2 an argument is
wrong, or the model is one that emblema.transformers refuses"""

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
QUESTION_TOKENS = 32
SEED = 1
VOCABULARY = 2048  # of the random model
README = pathlib.Path(__file__).resolve().parent.parent / "README.md"

# generate() takes a cache by this name; before 5.24 by the other.
_RELEASE = tuple(int(part) for part in transformers.__version__.split(".")[:2])
CACHE = "cache" if _RELEASE >= (5, 24) else "past_key_values"

# Two ways to add up the same numbers end so far apart, relative to the largest logit. A choice
# between two tokens that are closer may fall either way.
CLOSE = {torch.float32: 1e-5, torch.bfloat16: 2**-5, torch.float16: 2**-8}


class WrongInput(Exception):
    """One line: what, its value, what is allowed."""


@dataclass
class Task:
    """What the agents are asked: token ids [1][n]."""

    document: torch.Tensor
    questions: list[torch.Tensor]
    decode: int

    def prompt(self, agent: int) -> torch.Tensor:
        return torch.cat((self.document, self.questions[agent]), dim=1)


@dataclass
class Way:
    """How one way went."""

    name: str
    answers: list[list[int]] = field(default_factory=list)
    close: list[list[bool]] = field(default_factory=list)  # whether a second token was as good
    seconds: float = 0.0
    computed: int = 0  # tokens of prompts
    cache_bytes: int = 0
    copies: int = 0  # of the document


# ---- what is asked -------------------------------------------------------------------------------


def random_model(dtype: torch.dtype, positions: int) -> Any:
    """Multi-head latent attention over 3 layers; every call gives the same weights."""
    config = transformers.DeepseekV3Config(
        vocab_size=VOCABULARY,
        hidden_size=512,
        intermediate_size=2736,
        num_hidden_layers=3,
        first_k_dense_replace=3,  # no experts
        num_attention_heads=16,
        num_key_value_heads=16,
        kv_lora_rank=128,
        q_lora_rank=None,
        qk_nope_head_dim=32,
        qk_rope_head_dim=16,
        v_head_dim=32,
        initializer_range=0.05,
        max_position_embeddings=max(positions, 4096),
    )
    torch.manual_seed(SEED)
    return transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)


def random_task(agents: int, document: int, decode: int) -> Task:
    """Token ids by chance; every call gives the same."""
    source = torch.Generator().manual_seed(SEED)

    def tokens(count: int) -> torch.Tensor:
        return torch.randint(0, VOCABULARY, (1, count), generator=source)

    return Task(tokens(document), [tokens(QUESTION_TOKENS) for _ in range(agents)], decode)


def load_model(folder: pathlib.Path, dtype: torch.dtype) -> tuple[Any, Any]:
    """The model and the tokenizer of a folder. WrongInput: it holds none."""
    if not (folder / "config.json").is_file():
        raise WrongInput(f"--model {folder} has no config.json; allowed: a model's folder")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, dtype=dtype
        )
    except (OSError, ValueError, KeyError) as error:
        raise WrongInput(f"--model {folder}: {one_line(error)}") from error
    return model, tokenizer


def text_task(tokenizer: Any, text: pathlib.Path, agents: int, document: int, decode: int) -> Task:
    """The first tokens of a text, and for each agent a question about one of its words."""
    try:
        content = text.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongInput(f"--text {text}: {one_line(error)}") from error
    ids = tokenizer(content, return_tensors="pt").input_ids
    if ids.shape[1] < document:
        raise WrongInput(
            f"--document is {document}; allowed: up to {ids.shape[1]}, the tokens of {text}"
        )
    words = sorted({word for word in content.split() if word.isalpha() and len(word) > 3})
    if not words:
        raise WrongInput(f"--text {text} has no words; allowed: a text to ask about")
    questions = [
        tokenizer(
            f"\n\nQuestion {agent + 1}: what does the text say about "
            f"'{words[agent * len(words) // agents]}'? Answer:",
            return_tensors="pt",
            add_special_tokens=False,
        ).input_ids
        for agent in range(agents)
    ]
    return Task(ids[:, :document], questions, decode)


# ---- the three ways ------------------------------------------------------------------------------


def answer(model: Any, prompt: torch.Tensor, cache: Any, decode: int, way: Way) -> None:
    """Runs one agent to its end and notes what it said."""
    result = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=decode,
        min_new_tokens=decode,  # no agent ends early: all ways do the same work
        do_sample=False,
        num_beams=1,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
        **{CACHE: cache},
    )
    way.answers.append(result.sequences[0, prompt.shape[1] :].tolist())
    way.close.append([is_close(scores[0], CLOSE[model.dtype]) for scores in result.scores])


def is_close(scores: torch.Tensor, relative: float) -> bool:
    first, second = torch.topk(scores.float(), 2).values.tolist()
    largest = float(scores[scores.isfinite()].abs().max())
    return bool(first - second <= relative * largest)


def tensor_bytes(cache: Any) -> int:
    """Of all keys and values that a stock cache holds."""
    return sum(
        tensor.numel() * tensor.element_size()
        for layer in cache.layers
        for tensor in (layer.keys, layer.values)
    )


Progress = Callable[[Way, int], None]


def run_alone(model: Any, task: Task, progress: Progress) -> Way:
    way = Way("stock, each alone")
    caches = []
    for agent in range(len(task.questions)):
        progress(way, agent)
        prompt = task.prompt(agent)
        caches.append(transformers.DynamicCache(config=model.config))
        answer(model, prompt, caches[-1], task.decode, way)
        way.computed += prompt.shape[1]
    way.cache_bytes = sum(tensor_bytes(cache) for cache in caches)
    way.copies = len(caches)
    return way


def run_copied(model: Any, task: Task, progress: Progress) -> Way:
    way = Way("stock, cache copied")
    read = transformers.DynamicCache(config=model.config)
    model(task.document, use_cache=True, logits_to_keep=1, **{CACHE: read})
    way.computed = task.document.shape[1]
    caches = [read]
    for agent in range(len(task.questions)):
        progress(way, agent)
        caches.append(copy.deepcopy(read))
        answer(model, task.prompt(agent), caches[-1], task.decode, way)
        way.computed += task.questions[agent].shape[1]
    way.cache_bytes = sum(tensor_bytes(cache) for cache in caches)
    way.copies = len(caches)
    return way


def run_emblema(model: Any, task: Task, progress: Progress) -> Way:
    way = Way("emblema")
    caches = []
    for agent in range(len(task.questions)):
        progress(way, agent)
        prompt = task.prompt(agent)
        caches.append(EmblemaCache(model))
        answer(model, prompt, caches[-1], task.decode, way)
        way.computed += prompt.shape[1] - caches[-1].hit_tokens[0]
    way.cache_bytes = caches[0].engine.stats().totals.physical_bytes
    # The document's first block, as each agent holds it: an index and a generation.
    way.copies = len({cache.sequences[0].held_blocks()[0] for cache in caches})
    return way


def run(model: Any, task: Task) -> list[Way]:
    """All three, one after the other."""
    model(task.document[:, :64], use_cache=False)  # torch's threads start here, in no one's time
    ways = []
    for start in (run_alone, run_copied, run_emblema):
        if start is run_emblema:
            model.set_attn_implementation("emblema")
        begin = time.perf_counter()
        way = start(model, task, show_progress(len(task.questions)))
        way.seconds = time.perf_counter() - begin
        ways.append(way)
    return ways


def show_progress(agents: int) -> Progress:
    """Says which agent runs, where somebody looks at standard error."""
    if not sys.stderr.isatty():
        return lambda way, agent: None

    def show(way: Way, agent: int) -> None:
        line = f"{way.name}: agent {agent + 1} of {agents}"
        end = "\r" if agent + 1 < agents else f"\r{' ' * len(line)}\r"
        print(f"\r{line:<48}", end=end, file=sys.stderr, flush=True)

    return show


# ---- what came out -------------------------------------------------------------------------------


def compare(ways: list[Way]) -> list[tuple[int, int]]:
    """For each way: answers equal to the first way's, and answers that differ without excuse.

    Where a second token was as good, the choice may differ; what follows cannot be compared.
    """
    found = []
    for way in ways:
        equal = wrong = 0
        for agent, said in enumerate(way.answers):
            expected = ways[0].answers[agent]
            if said == expected:
                equal += 1
                continue
            at = next(i for i, token in enumerate(said) if token != expected[i])
            wrong += not ways[0].close[agent][at]
        found.append((equal, wrong))
    return found


def lines_of(ways: list[Way], task: Task) -> Iterator[str]:
    """The table."""
    agents = len(task.questions)
    served = sum(task.prompt(agent).shape[1] + task.decode for agent in range(agents))
    rows = [["", *(way.name for way in ways)]]
    rows.append(["seconds", *(f"{way.seconds:.1f}" for way in ways)])
    rows.append(["tokens served", *(f"{served:,}" for _ in ways)])
    rows.append(["served per second", *(f"{served / way.seconds:,.0f}" for way in ways)])
    rows.append(["prompt tokens computed", *(f"{way.computed:,}" for way in ways)])
    rows.append(["bytes of cache at the end", *(f"{way.cache_bytes:,}" for way in ways)])
    rows.append(["copies of the document", *(f"{way.copies:,}" for way in ways)])
    rows.append(["equal answers", *(f"{equal} of {agents}" for equal, _ in compare(ways))])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rows.insert(1, ["─" * width for width in widths])
    for row in rows:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join((first, *rest)).rstrip()


def report(model: Any, ways: list[Way], task: Task) -> bool:
    """Prints the table. Gives whether all is well."""
    sizes = {question.shape[1] for question in task.questions}
    asked = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
    dtype = str(model.dtype).removeprefix("torch.")
    print(
        f"{len(task.questions)} agents, one document of {task.document.shape[1]:,} tokens, "
        f"questions of {asked}, answers of {task.decode}"
    )
    print(f"{type(model).__name__}, {dtype}, {torch.get_num_threads()} threads\n")
    print("\n".join(lines_of(ways, task)))
    time_ratio = ways[0].seconds / ways[-1].seconds
    byte_ratio = ways[0].cache_bytes / ways[-1].cache_bytes
    print(f"\nemblema against each alone: {time_ratio:.1f} x faster, {byte_ratio:.1f} x smaller")
    wrong = sum(wrong for _, wrong in compare(ways))
    if wrong and model.dtype == torch.float32:
        print(f"error: {wrong} answers differ where float32 leaves no choice", file=sys.stderr)
        return False
    return True


# ---- the command line ----------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong."""

    def error(self, message: str) -> Any:
        self.exit(2, f"error: {message}\n")


def count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no count; allowed: 1 and more")
    return value


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--model", type=pathlib.Path, metavar="DIR",
        help="folder of a transformers model with its tokenizer; default: a random one",
    )
    parser.add_argument(
        "--text", type=pathlib.Path, metavar="FILE",
        help="with --model: the document; default: README.md of this repository",
    )
    parser.add_argument("--agents", type=count, default=16, metavar="N", help="default: 16")
    parser.add_argument(
        "--document", type=count, metavar="N",
        help="tokens of the document; default: 2048",
    )
    parser.add_argument(
        "--decode", type=count, default=16, metavar="N", help="tokens of an answer; default: 16"
    )
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="default: float32")
    parser.add_argument(
        "--threads", type=count, default=os.cpu_count() or 1, metavar="N",
        help="for torch and Emblema; default: all cores",
    )
    options = parser.parse_args(arguments)
    if options.text and not options.model:
        parser.error("--text without --model; allowed: with a model that can read it")
    return options


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def prepare(options: argparse.Namespace) -> tuple[Any, Task]:
    """The model and what it is asked. WrongInput, EmblemaError: this model or text will not do."""
    dtype = DTYPES[options.dtype]
    document = options.document or 2048
    if options.model:
        model, tokenizer = load_model(options.model.expanduser(), dtype)
        text = options.text or README
        task = text_task(tokenizer, text, options.agents, document, options.decode)
    else:
        model = random_model(dtype, document + QUESTION_TOKENS + options.decode)
        task = random_task(options.agents, document, options.decode)
    model.eval()
    stock = model.config._attn_implementation
    model.set_attn_implementation("emblema")
    EmblemaCache(model)  # refuses now, before the others have run, what it does not serve
    model.set_attn_implementation(stock)
    return model, task


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    transformers.utils.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(options.threads)
    try:
        model, task = prepare(options)
    except (WrongInput, emblema.EmblemaError) as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 2
    try:
        with torch.no_grad():
            ways = run(model, task)
    except emblema.EmblemaError as error:  # no room for all of them, say
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 1
    return 0 if report(model, ways, task) else 1


if __name__ == "__main__":
    sys.exit(main())
