"""Tensors in, tensors out: the normalizer, its solvers and the links."""
