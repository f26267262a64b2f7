"""What reaches below PyTorch's public interface; the from-scratch policy exempts this folder only.

lookup.py                   the embedding's gradient, added up in a fixed order
attention_kernel.py, .cpp   rotation and attention as one C++ kernel, for compiled models on a CPU
ahead_of_time.py            a compiled step in a process that holds no compiler
ahead_of_time_compiler.py   the process that compiles it
"""
