"""Fused operations on the CPU: Numba kernels on our own threads."""
