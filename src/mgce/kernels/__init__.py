"""The operations of `numerics` that matter for speed, fused: loss and gradient in one pass over the logits."""
