"""Training on a GPU: Triton kernels, recorded updates and documents that stay on it."""
