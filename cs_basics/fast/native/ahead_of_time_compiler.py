"""The process that compiles the libraries which `ahead_of_time.py` loads.

    python -m cs_basics.fast.native.ahead_of_time_compiler FOLDER < job.json

torch.compile traces the loss and splits it into a forward and a backward graph as usual, but both
graphs are compiled by AOTInductor to shared libraries. plans.json lists their arguments.
"""

import json
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from cs_basics.fast import accelerate
from cs_basics.fast.adamw import update_in_place
from cs_basics.fast.loss import is_chunked, loss_function
from cs_basics.fast.native.attention_kernel import use_kernel
from cs_basics.settings.model import ModelConfig
from cs_basics.variants.dropout import Dropout
from cs_basics.variants.model import Transformer


class Tracer:
    """A backend of torch.compile that records the forward and backward graphs."""

    def __init__(self) -> None:
        self.arguments: tuple[Tensor, ...] = ()
        self.graphs: dict[str, tuple[fx.GraphModule, Sequence[Any]]] = {}

    def __call__(self, graph: fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        """Compile like Inductor, up to the point where it would generate code."""
        from torch._inductor.compile_fx import compile_fx

        traced: Any = compile_fx(graph, list(examples), inner_compile=self.keep)

        def run(*arguments: Tensor) -> Any:  # noqa: ANN401  what the graph returns
            self.arguments = arguments
            return traced(*arguments)

        return run

    def keep(self, graph: fx.GraphModule, examples: Sequence[Any], **settings: Any) -> Any:  # noqa: ANN401
        """Record a graph, and return a function that runs it uncompiled."""
        from functorch.compile import make_boxed_func

        self.graphs["backward" if settings.get("is_backward") else "forward"] = (graph, examples)
        return make_boxed_func(graph.forward)


def trace(job: dict[str, Any], *, is_training: bool) -> dict[str, Any]:
    """Trace the loss, and its backward for training; return the graphs and their plan."""
    config, num_rows = ModelConfig(**job["config"]), job["num_rows"]
    model = accelerate(Transformer)(config)
    if job["drops"]:
        Dropout(model, 0.5, (num_rows, config.context_length, config.d_model))
    use_kernel(model)
    num_positions = num_rows * config.context_length
    loss_of = loss_function(model, getattr(torch, job["dtype"]), num_positions)
    ids = torch.zeros(2, num_rows, config.context_length, dtype=torch.int64)
    inputs, targets = ids[0].clone(), ids[1].clone()
    tracer = Tracer()
    with torch.set_grad_enabled(is_training):
        loss = torch.compile(loss_of, fullgraph=True, dynamic=False, backend=tracer)(
            inputs, targets
        )
        if is_training:
            loss.backward()
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names = {id(tensor): name for name, tensor in named.items()}
    names |= {id(inputs): "inputs", id(targets): "targets"}
    return {
        "plan": plan_and_trim(tracer, names),
        "is_chunked": is_chunked(model, num_positions),
        **tracer.graphs,
    }


def outputs(graph: fx.GraphModule) -> list[Any]:
    """Return the outputs of a graph: its nodes, or None."""
    return list(next(iter(graph.graph.find_nodes(op="output"))).args[0])


def return_only(graph: fx.GraphModule, nodes: list[fx.Node]) -> None:
    """Replace the outputs of a graph by these nodes."""
    output = next(iter(graph.graph.find_nodes(op="output")))
    output.args = (tuple(nodes),)
    output.meta.pop("desc", None)  # It describes the former outputs.
    graph.recompile()


def plan_and_trim(tracer: Tracer, names: dict[int, str]) -> dict[str, Any]:
    """Drop outputs that are inputs or None from the graphs; return the plan of their arguments."""
    forward, _ = tracer.graphs["forward"]
    arguments = [node.name for node in forward.graph.find_nodes(op="placeholder")]
    plan: dict[str, Any] = {
        "arguments": [names[id(tensor)] for tensor in tracer.arguments],
        "saved": [],
        "with_gradient": [],
    }
    if len(arguments) != len(tracer.arguments):
        raise ValueError("the traced forward has other arguments than the loss")
    # The first result is the loss. The forward also returns arguments which the backward needs;
    # those are dropped here, since the caller has them.
    results = list(dict.fromkeys(n for n in outputs(forward) if n.op != "placeholder"))
    return_only(forward, results)
    if "backward" not in tracer.graphs:
        return plan
    backward, _ = tracer.graphs["backward"]
    places = {name: ("argument", i) for i, name in enumerate(arguments)}
    places |= {node.name: ("result", i) for i, node in enumerate(results)}
    for node in backward.graph.find_nodes(op="placeholder"):
        plan["saved"].append(places.get(node.name, ("gradient", 0)))
    if sum(kind == "gradient" for kind, _ in plan["saved"]) != 1:
        raise ValueError("the traced backward reads more than the loss's gradient")
    gradients = outputs(backward)
    plan["with_gradient"] = [i for i, node in enumerate(gradients) if node is not None]
    return_only(backward, [node for node in gradients if node is not None])
    return plan


class Update(nn.Module):
    """The update rule of AdamW on flat tensors of any length."""

    def forward(self, p: Tensor, grad: Tensor, m: Tensor, v: Tensor, *numbers: Tensor) -> None:
        """Change p, m and v."""
        update_in_place(p, grad, m, v, *numbers)


def make_update(path: Path) -> None:
    """Compile the update rule of AdamW to a library."""
    from torch._inductor import aoti_compile_and_package

    rows = [torch.zeros(4096) for _ in range(4)]
    numbers = [torch.zeros((), dtype=torch.float64) for _ in range(5)]
    length = {0: torch.export.Dim("length", min=1, max=2**40)}
    shapes = {"p": length, "grad": length, "m": length, "v": length, "numbers": (None,) * 5}
    program = torch.export.export(Update(), (*rows, *numbers), dynamic_shapes=shapes)
    aoti_compile_and_package(program, package_path=str(path))


def make_library(graph: fx.GraphModule, examples: Sequence[Any], path: Path) -> None:
    """Compile a graph to a library."""
    from torch._inductor import aot_compile
    from torch._inductor.package import package_aoti  # pyright: ignore[reportPrivateImportUsage]

    files: Any = aot_compile(graph, tuple(examples), options={"aot_inductor.package": True})
    package_aoti(str(path), files)


class Fork:
    """A call that a forked copy of this process makes while this one goes on."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401
        self.copy = None
        if "fork" in multiprocessing.get_all_start_methods():
            context = multiprocessing.get_context("fork")
            self.copy = context.Process(target=function, args=arguments)
            self.copy.start()
        else:
            function(*arguments)

    def join(self) -> None:
        """Wait for the end of the call.

        Raises:
            RuntimeError: It failed; the standard error of the copy says why.
        """
        if self.copy is None:
            return
        self.copy.join()
        if self.copy.exitcode:
            raise RuntimeError("the copy of the compiler's process failed")


def main() -> None:
    """Compile the job that the standard input describes."""
    import torch._functorch.config
    import torch._inductor.config
    from torch._inductor.cpp_builder import get_cpp_compiler

    job, folder = json.loads(sys.stdin.read()), Path(sys.argv[1])
    get_cpp_compiler()  # Raises before anything is traced if there is none.
    # The code is made for the threads of the training; this process itself must have only one,
    # since a fork does not copy threads.
    torch.set_num_threads(1)
    torch._inductor.config.cpp.threads = job["num_threads"]
    # A cache hit would skip the tracing that records the graphs.
    torch._functorch.config.enable_autograd_cache = False
    torch._inductor.config.fx_graph_cache = False
    # Whether the compiler knows the processor's instructions is tried by compiling otherwise, for
    # seven seconds on a slow machine. If it does not, compiling fails and the caller says so.
    torch._inductor.config.cpp.vec_isa_ok = True

    forks = [Fork(make_update, folder / "update.pt2")]
    made = trace(job, is_training=True)
    plans = {"training": made["plan"]}
    forks += [
        Fork(make_library, *made[name], folder / f"{name}.pt2") for name in ("backward", "forward")
    ]
    if made["is_chunked"]:
        # The chunked loss computes gradients in its forward; a library without them is faster.
        made = trace(job, is_training=False)
        plans["evaluation"] = made["plan"]
        forks.append(Fork(make_library, *made["forward"], folder / "evaluation.pt2"))
    for fork in forks:
        fork.join()
    (folder / "plans.json").write_text(json.dumps(plans))


if __name__ == "__main__":
    main()
