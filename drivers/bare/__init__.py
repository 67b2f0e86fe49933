"""What drivers of bare GPUs share: register bus, boot steps, traces, page allocators."""
