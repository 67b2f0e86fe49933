"""What `bench.py` measures: each row beside a reference taken in the same run."""
