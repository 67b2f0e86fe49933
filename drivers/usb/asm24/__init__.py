"""The ASM2464PD, a bridge from USB to PCI Express, with firmware that lets the host drive it."""
