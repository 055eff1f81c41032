"""The command line of `python -m emblema.bench`."""

import argparse
import json
import sys
from collections.abc import Sequence

import emblema

_EXAMPLES = """examples:
  python -m emblema.bench transformers
  python -m emblema.bench transformers --lengths 4096 --rounds 9 --json
  python -m emblema.bench transformers --layers 1 --heads 16 --lengths 512 --first-token 512
"""


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1 << 20:
        raise argparse.ArgumentTypeError(f"is {text!r}; allowed: 1 to {1 << 20}")
    return int(text)


def _counts(text: str) -> list[int]:
    return [_count(one) for one in text.split(",")]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> "NoReturn":  # type: ignore[name-defined]  # noqa: F821
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m emblema.bench",
        description="Compares models that run from an Emblema cache with stock transformers, on "
        "the CPU, in one process: random weights, the published widths.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("subject", choices=["transformers"])
    parser.add_argument("--json", action="store_true", help="figures for programs")
    parser.add_argument("--rounds", type=_count, default=5, help="timed runs of each (5)")
    parser.add_argument("--threads", type=_count, help="of torch and of the engine (torch's own)")
    parser.add_argument("--layers", type=_count, default=2, help="layers of each model (2)")
    parser.add_argument("--heads", type=_count, default=128, help="of the MLA model (128)")
    parser.add_argument(
        "--lengths", type=_counts, default=[4096, 16384], help="cached tokens (4096,16384)"
    )
    parser.add_argument(
        "--first-token", type=_count, default=4096, help="prompt of the second request (4096)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; gives back the exit code."""
    options = _parser().parse_args(arguments)
    try:
        from emblema.bench import transformers_bench
    except ModuleNotFoundError as missing:
        print(
            f"python -m emblema.bench: {missing.name} is not installed; needed: torch (a CPU build "
            "will do) and transformers",
            file=sys.stderr,
        )
        return 1
    try:
        results = transformers_bench.run(options)
    except emblema.EmblemaError as error:
        print(f"python -m emblema.bench: {error}", file=sys.stderr)
        return 2 if isinstance(error, emblema.InvalidError) else 1
    print(json.dumps(results, indent=1) if options.json else transformers_bench.in_words(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
