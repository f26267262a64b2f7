"""What a model is (config.py), and your model built from it (model.py)."""
