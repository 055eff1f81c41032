"""Which releases of transformers the tests ran with."""

import warnings

import transformers

import emblema

OLDEST, NEWEST = (5, 19), (5, 24)


def _in_words(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def check(installed: str = transformers.__version__) -> None:
    """UnsupportedError where transformers is too old: its models keep expanded keys and values, or
    pass other arguments. A warning where it is newer than what was tested."""
    found = tuple(int(part) for part in installed.split(".")[:2])
    tested = f"tested: {_in_words(OLDEST)} to {_in_words(NEWEST)}"
    if found < OLDEST:
        raise emblema.UnsupportedError(f"transformers {installed} is too old; {tested}")
    if found > NEWEST:
        warnings.warn(
            f"transformers {installed} is newer than what emblema.transformers was tested with; "
            f"{tested}",
            stacklevel=3,
        )
