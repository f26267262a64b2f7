"""What a model is (config.py), your model built from it (model.py), and dropout for it."""
