"""Benchmarks of the package: `python -m emblema.bench SUBJECT`."""
