"""The data flow of a block, plain and with fused add + norm, drawn from what its forward computes.

python -m lab.norms.diagram runs/stories --out block.png

`flow_of` traces the forward of a module with torch.fx, in which its parts are single steps; a block
that is written in another way is drawn in another way.
"""

import operator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from cli import run
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, fx, nn

from cs_basics.norms import RMSNorm
from cs_basics.run.atomic import write_atomically
from cs_basics.run.document import to_png
from cs_basics.run.folder import RunFolder
from cs_basics.transformer import TransformerBlock
from lab.norms.add_rms_norm import add_rms_norm


@dataclass(frozen=True)
class Step:
    """One step of a data flow."""

    name: str
    label: str
    """What it computes, such as "ln1: RMSNorm"."""
    inputs: tuple[tuple[str, str], ...]
    """The steps whose results it reads, each with what it takes of a result of two parts."""
    passes: int = 0
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
    """Trace the forward of a module: its inputs, its parts, additions, and its result."""
    steps: list[Step] = []
    parts: dict[str, str] = {}
    halves: dict[str, tuple[str, str]] = {}
    for node in _Parts(autowrap_functions=(add_rms_norm,)).trace(module).nodes:
        sources = [str(parent) for parent in node.all_input_nodes]
        if node.op == "get_attr":  # A part that is given to a function.
            parts[node.name] = str(node.target)
        elif node.op == "call_function" and node.target is operator.getitem:
            halves[node.name] = (sources[0], ("normalised", "sum")[int(str(node.args[1]))])
        else:
            inputs = tuple(halves.get(name, (name, "")) for name in sources if name not in parts)
            used = [parts[name] for name in sources if name in parts]
            steps.append(Step(node.name, *_label(node, module, used, inputs)))
    return steps


def _label(
    node: fx.Node, module: nn.Module, used: list[str], inputs: tuple[tuple[str, str], ...]
) -> tuple[str, tuple[tuple[str, str], ...], int]:
    if node.op == "call_module":
        part = module.get_submodule(str(node.target))
        kind = type(part).__name__
        return f"{node.target}: {kind}", inputs, 2 if isinstance(part, RMSNorm) else 0
    if node.target is add_rms_norm:
        return f"+ and {', '.join(used)}, fused", inputs, 4
    if node.target is operator.add:
        return "+", inputs, 3
    return {"placeholder": node.name, "output": "result"}.get(node.op, str(node.target)), inputs, 0


def draw_blocks(block: TransformerBlock) -> bytes:
    """Draw the data flow of a block and of its fused form side by side; return a PNG."""
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, module, name in (
        (panels[0], block, "plain"),
        (panels[1], FusedBlock(block), "fused add + norm"),
    ):
        steps = flow_of(module)
        passes = sum(step.passes for step in steps)
        panel.set_title(f"{name}: {passes} passes for its additions and norms", fontsize=10)
        _draw(panel, steps)
    return to_png(figure)


def _draw(panel: Axes, steps: list[Step]) -> None:
    """The stream runs down on the left, what reads it stands on the right."""
    num_inputs = sum(not step.inputs for step in steps)
    where: dict[str, tuple[float, float]] = {}
    for row, step in enumerate(steps):
        reads_stream = step.label.startswith("+") or step.name == "output"
        is_stream = reads_stream or row == num_inputs - 1
        where[step.name] = (0.0 if is_stream else 1.0, -float(row))
    for step in steps:
        for source, what in step.inputs:
            panel.annotate(
                "", where[step.name], where[source],
                arrowprops={"arrowstyle": "-|>", "color": "0.4", "shrinkA": 14, "shrinkB": 14},
            )  # fmt: skip
            if what:
                (x0, y0), (x1, y1) = where[source], where[step.name]
                place = (x0 + x1) / 2 + 0.03, (y0 + y1) / 2
                panel.text(*place, what, fontsize=7, color="0.3")
        color = "#ffe3b3" if step.passes else "#dbe9f6"
        is_end = not step.inputs or step.name == "output"
        style = {"boxstyle": "round,pad=0.4", "facecolor": "white" if is_end else color}
        panel.text(*where[step.name], step.label, ha="center", va="center", fontsize=8, bbox=style)
    panel.set_xlim(-0.7, 1.7)
    panel.set_ylim(-len(steps) + 0.4, 0.6)
    panel.set_axis_off()


def main(run_dir: Annotated[Path, tyro.conf.Positional], out: Path = Path("block.png")) -> None:
    """Draw the first block of a run's model, plain and fused.

    Args:
        run_dir: The run folder; its model has the book's block and norm.
        out: The picture (PNG).
    """
    block = RunFolder(run_dir).load_model().layers[0]
    if type(block) is not TransformerBlock or type(block.ln1) is not RMSNorm:
        raise ValueError(f"{run_dir}: only the book's block with RMSNorm is drawn")
    write_atomically(out, draw_blocks(block))
    print(out)


if __name__ == "__main__":
    run(main)
