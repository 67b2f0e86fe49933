"""Metal Shading Language from kernel IR, compiled by the device's own driver."""
