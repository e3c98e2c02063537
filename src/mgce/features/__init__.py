"""Files of features, which name the encoder that made them."""
