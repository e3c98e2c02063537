"""Read and write files of features, which name the encoder that made the features."""
