"""From lazy graphs to machine code: scheduling, the kernel IR, renderers, toolchains, the cache."""

from unbound import terminal

terminal.begin(__name__)
