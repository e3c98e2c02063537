"""The losses of the field compared by the protocols that published such comparisons, and by smaller ones of ours."""
