"""A GPU's view of memory: page tables, cached translations, caches."""
