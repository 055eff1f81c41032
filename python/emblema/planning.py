"""Capacity before memory: what ``emblema plan`` answers, as values.

The command itself runs, in this process, so options, checks, messages and figures are its own:
docs/command-line.md lists them.
"""

from __future__ import annotations

import html as _html
import json as _json
import os
import pathlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, overload

from emblema._core import InvalidError, ModelConfig, command_output

Model = str | os.PathLike[str] | Mapping[str, Any] | ModelConfig
"""A preset, a path, the content of a config.json, or a ModelConfig."""

_FLAGS = frozenset({"per_layer", "explain"})
"""Options that are there or not; all others have a value."""


class Plan:
    """One model's plan. ``print(plan)`` shows the command's table.

    Attributes are exact: integers, or Fraction where strides make a figure fractional. Those of a
    rank are of the first one in ``ranks``; ranks differ under pipeline parallelism only.
    """

    json: dict[str, Any]
    """The command's JSON document, schema 1."""

    def __init__(self, document: str, model: Model, options: list[str]) -> None:
        """Made by plan(): ``document`` is the JSON, ``options`` those it was asked with."""
        self.json = _json.loads(document)
        self._exact = _json.loads(document, parse_float=_exact)
        self._model = model
        self._options = options

    def __getitem__(self, key: str) -> Any:
        """A value of the JSON document: ``plan["ranks"]``."""
        return self.json[key]

    @property
    def model(self) -> str:
        """The model's name."""
        return str(self.json["model"])

    @property
    def attention(self) -> str:
        """The layers in words: ``61 x MLA``."""
        return str(self.json["attention"])

    @property
    def growing_bytes_per_token(self) -> int | Fraction:
        """Payload of one more token on a rank; windows do not grow."""
        value: int | Fraction = self._rank("growing_bytes_per_token")
        return value

    @property
    def bytes_per_sequence(self) -> dict[int, int | Fraction]:
        """Payload of a sequence on a rank, by its length in tokens."""
        return _by_length(self._rank("bytes_per_sequence"))

    @property
    def allocated_bytes_per_sequence(self) -> dict[int, int | Fraction]:
        """The same as a pool gives it: whole blocks, padding, arena slots."""
        return _by_length(self._rank("allocated_bytes_per_sequence"))

    @property
    def tokens(self) -> int | None:
        """Tokens that fit a rank's pool as one long sequence; None without a pool."""
        value: int | None = self._exact["ranks"][0].get("tokens")
        return value

    @property
    def concurrency(self) -> int | None:
        """Sequences of ``context_tokens`` that fit all GPUs at once; None without a pool."""
        value: int | None = self._exact.get("concurrency_total")
        return value

    @property
    def engine_options(self) -> dict[str, int]:
        """Keyword arguments of an Engine whose pool is divided like a rank's. {} without a pool."""
        return dict(self._exact["ranks"][0].get("engine_options", {}))

    def html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The page with tables and charts, self-contained; also written to ``path`` if given."""
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "plan.html" if path is None else pathlib.Path(path)
            self._run([f"--html={page}"])
            return page.read_text(encoding="utf-8")

    def __str__(self) -> str:
        return self._run([]).removesuffix("\n")

    def __repr__(self) -> str:
        return f"Plan({self.model}, {self.attention})"

    def _repr_html_(self) -> str:
        return f"<pre>{_html.escape(str(self))}</pre>"

    def _rank(self, key: str) -> Any:
        return self._exact["ranks"][0][key]

    def _run(self, more: list[str]) -> str:
        with _sources([self._model]) as sources:
            return _plan_command(sources + self._options + more)


Lengths = int | str | Sequence[int | str]
"""Tokens: ``8192``, ``"8k"``, or several."""


@overload
def plan(
    model: Model,
    /,
    *,
    at: Lengths | None = None,
    context: int | str | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    tp: int | None = None,
    **options: Any,
) -> Plan: ...


@overload
def plan(
    *models: Model,
    at: Lengths | None = None,
    context: int | str | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    tp: int | None = None,
    **options: Any,
) -> list[Plan]: ...


def plan(
    *models: Model,
    at: Lengths | None = None,
    context: int | str | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    tp: int | None = None,
    **options: Any,
) -> Plan | list[Plan]:
    """What a model's cache takes and how much of it fits: a Plan; of several models a list.

    Options are those of ``emblema plan`` with ``_`` for ``-``: ``pool="40GiB"``,
    ``kv_dtype="fp8"``, ``per_layer=True``; a list is joined by commas (``at=[1, "8k"]``), None and
    False are as good as not given. Lengths are tokens, sizes bytes or ``"40GiB"``.

    Errors have the command's own line: InvalidError for options, NotFoundError for a model that
    is not there, UnsupportedError, IoError ...
    """
    if not models:
        raise TypeError("plan() missing 1 required argument: a model")
    for name in ("json", "model", "reproduce", "help"):
        if name in options:
            raise TypeError(f"plan() got an unexpected keyword argument '{name}'")
    options |= {"at": at, "context": context, "gpu": gpu, "gpus": gpus, "tp": tp}
    arguments = _arguments(options)
    with _sources(list(models)) as sources:
        text = _plan_command([*sources, *arguments, "--json"])
    # Files are written once, not again whenever a table is asked for.
    again = [one for one in arguments if not one.startswith(("--html=", "--svg="))]
    if len(models) == 1:
        return Plan(text, models[0], again)
    return [
        Plan(document, model, again)
        for document, model in zip(_documents(text), models, strict=True)
    ]


def _documents(text: str) -> Iterator[str]:
    """The elements of a JSON array as they are written: no number passes through a float."""
    decoder = _json.JSONDecoder()
    at = text.index("[") + 1
    while (begin := _skip(text, at)) < len(text) and text[begin] != "]":
        _, at = decoder.raw_decode(text, begin)
        yield text[begin:at]


def _skip(text: str, at: int) -> int:
    """Past spaces and the comma between two elements."""
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def _exact(number: str) -> int | Fraction:
    value = Fraction(number)
    return value.numerator if value.denominator == 1 else value


def _by_length(figures: Mapping[str, int | Fraction]) -> dict[int, int | Fraction]:
    return {int(tokens): value for tokens, value in figures.items()}


def _arguments(options: Mapping[str, Any]) -> list[str]:
    arguments = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True and name in _FLAGS:
            arguments.append(option)
        elif value is True:
            raise InvalidError(f"{name} is True; allowed: a value, as {option} takes one")
        elif isinstance(value, Iterable) and not isinstance(value, str):
            arguments.append(f"{option}={','.join(str(one) for one in value)}")
        else:
            arguments.append(f"{option}={value}")
    return arguments


def _plan_command(arguments: list[str]) -> str:
    return command_output(["plan", *arguments])


@contextmanager
def _sources(models: list[Model]) -> Iterator[list[str]]:
    """Each model as the command's argument: what is no file lies in one for the time being."""
    with tempfile.TemporaryDirectory() as folder:
        yield [
            f"--model={_source(model, pathlib.Path(folder) / str(index))}"
            for index, model in enumerate(models)
        ]


def _source(model: Model, folder: pathlib.Path) -> str:
    if isinstance(model, ModelConfig):
        if model.source:
            return model.source
        return _written(model.json, folder / _file_name(model.name))
    if isinstance(model, Mapping):
        return _written(_json.dumps(dict(model)), folder / "config")
    source = os.fspath(model)
    if source == "-":
        raise InvalidError("model is -; allowed: a preset's name, a path, a dict, a ModelConfig")
    return source


def _file_name(name: str) -> str:
    """A name that the command shows again: a folder's, which may hold no slash."""
    return name.replace("/", "_").replace("\0", "_").strip(". ") or "config"


def _written(text: str, folder: pathlib.Path) -> str:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(text, encoding="utf-8")
    return str(folder)
