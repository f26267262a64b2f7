"""What a model is (config.py), yours built from it (model.py), dropout for it (dropout.py)."""
