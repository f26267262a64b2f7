"""Training runs: from text to a run folder.

model.py                           the model, and the fast twins, of the folders that are there
folder.py, checkpoint_file.py      the files of a run folder; checkpoints with their checksum
corpus.py                          texts -> tokenizer -> token files (token_file.py, encoding.py),
                                   after a look at the texts (look.py)
training_run.py, trainer.py        a whole run; its updates with logging, evaluation, checkpoints
                                   and a clock (random_state.py: the generators)
updates.py                         the book's loop, resumed, in parts and over processes
optimizer.py                       the optimizer: its groups of weights, and their rates
batches.py, epochs.py              the batches, drawn from the text
schedules.py                       learning rates by name
evaluation.py                      the loss to train with; loss and bits per byte of a text
layout.py, distributed.py          model and batches shared out over the processes, as --parallel
                                   says
metrics.py                         metrics.jsonl, its sinks, and the plot of the losses
report.py, wandb_sink.py           the sinks: report.html; wandb
pages.py                           pages from templates in one style (layout.html, page.css)
samples.py, writing.py             samples; generation for several prompts (text_stream.py: tokens
                                   -> text)
hardware.py                        device, fastest dtype, memory
clock.py, spikes.py, stopping.py   time, spikes of the loss, Ctrl-C
atomic.py, json_file.py, tokenizer_folder.py, download.py   files and folders
progress.py                        progress callbacks
"""
