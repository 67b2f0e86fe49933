"""What `bench.py` measures: each row beside a reference taken in the same run."""

from unbound import terminal

terminal.begin(__name__)
