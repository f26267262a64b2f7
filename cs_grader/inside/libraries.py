"""Where kernels are registered with PyTorch, for good.

    libraries = Libraries()
    libraries.get("aten").impl(overload, key, kernel, False)

A registry takes its kernels along when it is reset or collected. It is therefore none of
torch.library, which keeps a list of its own, but what lies below; and this object is to be
forgotten once all is registered, so that nobody comes by a registry through module or frame.
"""

import ctypes
from typing import Any


class Libraries:
    """A registry for each namespace of operators, made when it is asked for."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def get(self, namespace: str) -> Any:  # noqa: ANN401  # No type has a public name.
        """The registry of a namespace, which nobody can have collected any more."""
        import torch

        if namespace not in self.known:
            library = torch._C._dispatch_library("IMPL", namespace, "")  # pyright: ignore
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
            self.known[namespace] = library
        return self.known[namespace]
