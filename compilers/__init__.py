"""From lazy graphs to machine code: scheduling, the kernel IR, renderers, toolchains, the cache."""
