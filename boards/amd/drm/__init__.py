"""The render node of a board, as libdrm_amdgpu asks it."""
