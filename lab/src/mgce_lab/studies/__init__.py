"""Programs that measure times and accuracies, print them and save them; none of them asserts a time.

*Ours* is the loss of this package. Margins N(0, s^2) are logits drawn independently from the normal distribution with
standard deviation s, the *scale*: near 0 all classes get probabilities above zero (*dense* rows), while large margins
leave few classes with any (*sparse* rows), for which less is to be computed.
"""
