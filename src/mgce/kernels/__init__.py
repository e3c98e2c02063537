"""Fused kernels: compute the MGCE loss and its gradient in one pass over the logits, on CPUs and GPUs."""
