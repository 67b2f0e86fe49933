"""Which firmware each GPU needs: names, sizes, digests, origins; a TOML file for each vendor."""
