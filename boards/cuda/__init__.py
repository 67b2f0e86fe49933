"""A made-up libcuda: CUDA's driver API in Python, strict, over the executor of the NVIDIA boards.

It is ours, written from the public cuda.h and the CUDA Driver API's documentation. Nothing of
NVIDIA's library is in it or was looked into.
"""
