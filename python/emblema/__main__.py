"""The command line: ``emblema COMMAND ...`` and ``python -m emblema COMMAND ...``."""

import signal
import sys

from emblema._core import run_command_line


def main() -> int:
    """Runs the command that sys.argv names and gives its exit code."""
    # A command runs outside the interpreter, which could not interrupt it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command_line(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
