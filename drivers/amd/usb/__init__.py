"""An AMD GPU behind a USB cable: the boot and the device of PCI over a bus of packets."""
