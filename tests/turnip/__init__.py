"""Mesa's Vulkan driver for Adreno, Turnip, in front of the boards: `make witness-turnip`."""
