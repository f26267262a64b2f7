"""Models and tokenizers in the formats of other libraries.

tokenizer_files.py   tokenizer.json of Hugging Face, and the ranks of tiktoken
llama_config.py      config.json of a Llama folder, and which models have one
llama_weights.py     the weights of a Llama folder: names, shapes, order of rows
llama.py             a run to a Llama folder (export) and back (import)
"""
