"""Code below PyTorch's public interface: the one folder that the from-scratch policy exempts.

lookup.py                   the gradient of the embedding, summed in a fixed order
attention_kernel.py, .cpp   RoPE and attention as one C++ kernel, for compiled models on a CPU
ahead_of_time.py            loads a training step that another process compiled (AOTInductor)
ahead_of_time_compiler.py   that other process
"""
