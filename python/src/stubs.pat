# For nanobind.stubgen: exceptions call themselves emblema.InvalidError, as users do, so it takes
# them for somebody else's. python/tests/core/test_stub.py has the command.
^emblema\._core\.EmblemaError$:
    class EmblemaError(Exception):
        \doc

^emblema\._core\.NotFoundError$:
    class NotFoundError(EmblemaError, LookupError):
        \doc

^emblema\._core\.CorruptError$:
    class CorruptError(EmblemaError):
        \doc

^emblema\._core\.OutOfBlocksError$:
    class OutOfBlocksError(EmblemaError, MemoryError):
        \doc

^emblema\._core\.IoError$:
    class IoError(EmblemaError, OSError):
        \doc

^emblema\._core\.InvalidError$:
    class InvalidError(EmblemaError, ValueError):
        \doc

^emblema\._core\.UnsupportedError$:
    class UnsupportedError(EmblemaError, NotImplementedError):
        \doc
