"""`UNBOUND_TRACE=out.json`: kernels and copies of every device as trace events for Perfetto."""
