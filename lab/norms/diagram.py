"""The data flow of a block, plain and with fused add + norm: python -m lab.norms.diagram.

It is traced with torch.fx from the forward of the block, so that a block that is written in another
way has another flow.
"""

import operator
from typing import NamedTuple

from torch import Tensor, fx, nn

from cs_basics.norms import RMSNorm
from cs_basics.transformer import TransformerBlock
from lab.norms.add_rms_norm import add_rms_norm


class Step(NamedTuple):
    """One step of a data flow."""

    name: str
    does: str
    """The part that is called, or the function."""
    reads: list[str]
    """The steps whose results it reads, and the parts that a function is given."""
    passes: int
    """How often it reads or writes a tensor of the size of the stream, if it is an addition or a
    norm: what is counted in "add + norm: four passes against five" (docs/norms.md)."""


class FusedBlock(nn.Module):
    """A pre-norm block as inference engines write it: each addition belongs to the norm after it.

    The stream comes in as two tensors, what the part before made and what was there already; the
    addition of the last part is left to the next block. Same parts as TransformerBlock.

    Args:
        block: The block whose parts are used.
    """

    def __init__(self, block: TransformerBlock) -> None:
        super().__init__()
        self.ln1, self.attn, self.ln2, self.ffn = block.ln1, block.attn, block.ln2, block.ffn

    def forward(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the feed-forward part made, and the stream before it."""
        x, residual = add_rms_norm(self.ln1, x, residual)
        x, residual = add_rms_norm(self.ln2, self.attn(x), residual)
        return self.ffn(x), residual


class _Parts(fx.Tracer):
    """Traces a block with its parts as single steps, and the fused norm as one."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002
        return True


def flow_of(module: nn.Module) -> list[Step]:
    """Trace the forward of a module."""
    passes = {operator.add: 3, add_rms_norm: 4}
    steps: list[Step] = []
    for node in _Parts(autowrap_functions=(add_rms_norm,)).trace(module).nodes:
        does = str(getattr(node.target, "__name__", node.target))
        is_norm = node.op == "call_module" and isinstance(module.get_submodule(does), RMSNorm)
        counted = 2 if is_norm else passes.get(node.target, 0)
        steps.append(Step(node.name, does, [n.name for n in node.all_input_nodes], counted))
    return steps


def main() -> None:
    """Print both flows, and the passes of their additions and norms."""
    block = TransformerBlock(d_model=64, num_heads=4, d_ff=128)
    for title, module in (("plain", block), ("fused add + norm", FusedBlock(block))):
        steps = flow_of(module)
        print(f"\n{title}: {sum(step.passes for step in steps)} passes for additions and norms")
        for step in steps:
            reads = f" of {', '.join(step.reads)}" if step.reads else ""
            print(
                f"    {step.name} = {step.does}{reads}" + f"  ({step.passes})" * bool(step.passes)
            )


if __name__ == "__main__":
    main()
