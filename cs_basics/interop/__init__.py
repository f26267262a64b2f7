"""Models and tokenizers in the formats of other libraries.

tokenizer_files.py   tokenizer.json of Hugging Face, and the ranks of tiktoken
conventions.py       whether code computes what the book does: else export and page are refused
llama_config.py      config.json of a Llama folder, and which models have one
llama_weights.py     the weights of a Llama folder: names, shapes, order of rows
llama.py             a run to a Llama folder (export) and back (import)
gguf_file.py         a run to one GGUF file, which llama.cpp runs
page_data.py         what a page knows of a run: weights in int8, tokenizer, validation text
page_book.py         the lines of the book, or of a student, that a page shows
page_script.py       the JavaScript modules of page/, joined to one script
page_file.py         a run to one HTML file, in which it writes and can be inspected
page/                that file's own sources; tensor.js, model.js and tokenizer.js come first
"""
