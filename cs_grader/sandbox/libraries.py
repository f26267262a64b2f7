"""Registers kernels with PyTorch, until they are reset.

    libraries = Libraries()
    libraries.get("aten").impl(overload, key, kernel, False)

A registry that is reset or garbage-collected takes its kernels along. So the registries used here
are not those of torch.library, which keeps a list of them, but those of the layer below. Drop the
Libraries object once everything is registered: then no module or frame leads to a registry.
"""

import ctypes
from typing import Any


class Libraries:
    """A registry for each namespace of operators, made when it is asked for."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def get(self, namespace: str) -> Any:  # noqa: ANN401  # No type has a public name.
        """The registry of a namespace, kept from ever being garbage-collected."""
        import torch

        if namespace not in self.known:
            library = torch._C._dispatch_library("IMPL", namespace, "")  # pyright: ignore
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
            self.known[namespace] = library
        return self.known[namespace]

    def reset(self) -> None:
        """Take all kernels back."""
        for library in self.known.values():
            library.reset()
