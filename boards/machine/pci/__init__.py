"""PCI as a made-up Linux has it: functions, drivers, config space, sysfs, procfs."""
