"""What an interpreter is left with: no leaks, no imports that nobody asked for."""

import subprocess
import sys

USE_EVERYTHING = """
import sys
sys.path.insert(0, {folder!r})
import gc
import numpy as np
import emblema
from core_models import prompted, run, tiny

engine = emblema.Engine(tiny(), "1MiB", threads=2)
sequence = prompted(engine, list(range(40)), tenant="a")
child = sequence.fork()
child.reserve(3)
rows = child.rows(0)
array, tensor = rows[0], rows.tensor()
consumer = np.from_dlpack(tensor)
child.commit([1, 2, 3])
assert not array.flags.writeable
builder = engine.segment([7, 8, 9], tenant="a")
run(engine, builder.sequence, [7, 8, 9])
segment = builder.seal()
sequence.attach(segment)
out, lse = emblema.decode_attention([sequence, child], 0, np.ones((2, 4, 16), np.float32))
report, pin = engine.why(range(40), tenant="a"), engine.pin(range(40), tenant="a")
for wrong in (lambda: sequence.reserve(-1), lambda: emblema.Engine(tiny(), 1),
              lambda: rows[0], lambda: emblema.plan("no such model"),
              lambda: emblema.decode_attention(sequence, 0, np.ones(3)),
              lambda: rows.write(np.ones(3))):
    try:
        wrong()
    except emblema.EmblemaError:
        pass
plan = emblema.plan("deepseek-v3")
layers = emblema.ModelConfig.load("qwen3-32b").layers
stats, counts, spans = engine.stats(), engine.counts(), sequence.spans()
print(str(plan)[:9], str(report)[:8], len(layers), counts.capacity)
{end}
"""

GIVE_BACK = """
for one in (sequence, child, builder, segment, pin):
    one.release()
del array, tensor, consumer, rows
gc.collect()
engine.evict_idle()
counts = engine.counts()
assert (counts.free, counts.holds) == (counts.capacity, 0), counts
engine.check_invariants()
"""


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=False)


def everything(folder, end):
    return USE_EVERYTHING.format(folder=str(folder), end=end)


def test_nothing_leaks_and_every_block_comes_back(request):
    ended = python(everything(request.path.parent, GIVE_BACK))
    assert (ended.returncode, ended.stderr) == (0, "")  # nanobind says what leaked there
    assert ended.stdout == "61 x MLA: 40 of 40 64 128\n".replace("40 of 40", "32 of 40")


def test_nothing_leaks_where_the_interpreter_ends_first(request):
    ended = python(everything(request.path.parent, ""))
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_leak_would_be_seen(request):
    """One more reference than anybody has: that nanobind's words come through."""
    leak = "import ctypes; ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))"
    ended = python(everything(request.path.parent, leak))
    assert "leaked" in ended.stderr


def test_only_numpy_is_imported():
    code = ("import sys; before = set(sys.modules); import emblema; "
            "print(sorted({name.split('.')[0] for name in set(sys.modules) - before}))")
    ended = python(code)
    assert ended.returncode == 0
    names = set(eval(ended.stdout))
    foreign = {name for name in names if name not in sys.stdlib_module_names}
    assert foreign <= {"emblema", "numpy"}


def test_numpy_is_not_needed_before_an_array_is():
    code = ("import sys; sys.modules['torch'] = None; import emblema; "
            "print(emblema.plan('deepseek-v3').growing_bytes_per_token)")
    ended = python(code)
    assert (ended.stdout, ended.stderr) == ("70272\n", "")
