"""VFIO and iommufd of a made-up Linux: containers, groups, devices, mappings."""
