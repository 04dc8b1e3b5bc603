"""Fused operations on a GPU: Triton kernels, imported only where there is one."""
