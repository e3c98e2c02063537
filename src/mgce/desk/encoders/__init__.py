"""Turn pictures and texts into features by pretrained encoders, in files that say how they were made."""
