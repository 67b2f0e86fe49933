"""Makes the SASS tables of boards/nv/isa from nvdisasm's answers: see docs/nv-sass.md."""
