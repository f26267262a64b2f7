"""Training runs: from text to a run folder.

run.py                             the story of a run: read it first
corpus.py                          texts -> tokenizer -> token files (token_file.py, encoding.py),
                                   after a look at the texts (look.py)
model.py                           the model, and the fast twins, of the folders that are there
optimizer.py                       the optimizer: its groups of weights, and their rates
batches.py                         the batches, drawn from the text
layout.py, distributed.py          model and batches shared out over the processes, as --parallel
                                   says
trainer.py, updates.py             the updates, with all that is due after one; the book's loop,
                                   resumed, in parts and over processes
schedules.py, speed.py             learning rates by name; time per update
evaluation.py                      the loss to train with; loss and bits per byte of a text
saving.py, random_state.py         when a checkpoint is written, and how a run goes on from one
clock.py, stopping.py              the end of a run: by steps, by time, by Ctrl-C
folder.py, checkpoint_file.py      the files of a run folder; checkpoints with their checksum
metrics.py                         metrics.jsonl, and its sinks
report.py, wandb_sink.py           the sinks: report.html and report.md; wandb
pages.py                           pages from templates in one style (layout.html, page.css)
samples.py, writing.py             samples; generation for several prompts
hardware.py, progress.py           device, fastest dtype, memory; progress callbacks
atomic.py, json_file.py, tokenizer_folder.py   files and folders
"""
