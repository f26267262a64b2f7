"""What a model is (config.py), yours built from it (model.py), dropout for it (dropout.py).

ensemble.py trains several of yours side by side; the mean of their probabilities predicts.
"""
