"""Which names the from-scratch rule applies to, and what it says of them."""

from collections.abc import Iterable

from cs_grader.sandbox.forbidden import FUNCTIONS, KERNELS, PACKAGES

# Names in torch.nn and torch.optim that nobody has to write: what holds parameters and modules.
ALLOWED = frozenset(
    {
        *(
            "torch.nn",
            "torch.nn.functional",
            "torch.nn.Parameter",
            "torch.nn.Module",
            "torch.nn.ModuleList",
        ),
        *("torch.nn.ModuleDict", "torch.nn.Sequential", "torch.nn.ParameterList"),
        *("torch.nn.ParameterDict", "torch.nn.Buffer", "torch.nn.parameter.Parameter"),
        *("torch.nn.init", "torch.nn.init.trunc_normal_", "torch.nn.parallel"),
        *("torch.optim", "torch.optim.Optimizer", "torch.optim.optimizer.Optimizer"),
    }
)

# Ways to reach what blocks an operator, or to run code that cannot be read here, each with the
# words that say what it is.
REVIEWED = {
    **dict.fromkeys(
        ("gc.get_objects", "gc.get_referrers", "gc.get_referents", "gc.callbacks"),
        "finds any object of the process",
    ),
    **dict.fromkeys(("ctypes", "_ctypes", "cffi"), "reaches into memory"),
    **dict.fromkeys(
        (
            *("torch.library", "torch._C", "torch._ops", "torch.overrides"),
            *("torch.utils._python_dispatch", "torch._library"),
        ),
        "changes how operators are found",
    ),
    **dict.fromkeys(
        ("torch._refs", "torch._decomp", "torch._prims", "torch._prims_common", "torch._inductor"),
        "holds other forms of the operators",
    ),
    **dict.fromkeys(
        (
            *("torch.utils.cpp_extension", "torch.ops.load_library", "torch.classes"),
            *("subprocess", "os.system", "os.popen", "os.posix_spawn", "pty", "numba", "cython"),
            *(f"os.exec{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
            *(f"os.spawn{kind}" for kind in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
        ),
        "builds or runs other programs",
    ),
    **dict.fromkeys(("cs_grader",), "reaches for the grader"),
    **dict.fromkeys(
        (
            *("dill", "cloudpickle", "zipimport"),
            *("pkgutil.resolve_name", "pkgutil.get_importer", "importlib.machinery"),
            *("importlib.util.spec_from_file_location", "importlib.util.spec_from_loader"),
            *("importlib.util.module_from_spec", "multiprocessing.set_executable"),
            *("_posixsubprocess", "multiprocessing.spawn", "multiprocessing.util"),
            *("_imp", "_frozen_importlib", "_frozen_importlib_external"),
        ),
        "brings in code that cannot be read here",
    ),
    **dict.fromkeys(
        (
            *("builtins.exec", "builtins.eval", "builtins.compile", "builtins.__import__"),
            *("marshal", "code", "codeop", "runpy", "types.CodeType", "types.FunctionType"),
            *("importlib.import_module.*", "importlib.__import__", "importlib._bootstrap"),
            *("importlib._bootstrap_external", "_xxsubinterpreters", "_interpreters"),
            *("interpreters", "concurrent.interpreters"),
            *("numpy.testing.runstring", "numpy.testing.rundocs"),
        ),
        "runs code that cannot be read here",
    ),
    **dict.fromkeys(
        (
            *("sys._getframe", "sys._current_frames", "sys.settrace", "sys.setprofile"),
            "sys.monitoring",
            *("sys.meta_path", "sys.path_hooks", "sys.path_importer_cache", "importlib.reload"),
            *("inspect.getmodule", "logging.currentframe"),
            *("sys.modules", "inspect.currentframe", "inspect.stack", "inspect.trace"),
            *("inspect.getouterframes", "inspect.getinnerframes", "inspect.getframeinfo"),
            *("unittest.mock", "_pytest"),
        ),
        "reaches into other code",
    ),
}
REVIEWED_ATTRIBUTES = frozenset(
    {
        *("__code__", "__globals__", "__closure__", "__builtins__", "__subclasses__"),
        *("__kwdefaults__", "f_back", "f_locals", "f_globals", "f_builtins", "tb_frame"),
        *("gi_frame", "cr_frame", "_destroy", "redispatch", "decompose", "__wrapped__"),
    }
)
# Modules that a person has to look into if the source does not say which attribute is taken.
DANGEROUS = frozenset(
    {
        *("torch", "builtins", "sys", "os", "gc", "ctypes", "inspect", "importlib", "pickle"),
        *("marshal", "types", "pkgutil", "subprocess", "multiprocessing"),
    }
)
# Parts of PyTorch that hold what students are to write, or other forms of it.
SOLUTIONS = (
    *("torch.nn", "torch.optim", "torch.distributions", "torch.onnx", "torch.masked"),
    *("torch.ao", "torch.quantization", "torch.export", "torch.fx", "torch.testing._internal"),
    *("torch.distributed.optim", "torch.package"),
)
# Parts of other packages that a submission may assign to: their switches.
SETTINGS = ("torch.backends", "torch._dynamo.config", "torch._inductor.config", "os.environ")
PATCHED = ("torch", "numpy", "builtins", "math", "pytest", "unittest", "operator", "einops")

NAMES = {name: group for group in KERNELS for name in (*KERNELS[group].values(), *FUNCTIONS[group])}
# Any namespace of PyTorch may hold an operator (torch.special, torch.ops.aten, torch._C._nn).
OPERATORS = {name.rpartition("::")[2]: group for group in KERNELS for name in KERNELS[group]}
# Whatever inner module it is named by (torch.nn.modules.linear.Linear).
INNER_NAMES = {
    name.rpartition(".")[2]: group
    for name, group in NAMES.items()
    if name.startswith(("torch.nn.", "torch.optim."))
}
TENSOR_METHODS = frozenset({"softmax", "log_softmax", "logsumexp", "logcumsumexp"})


def group_of(name: str) -> str | None:
    """The group of operators that a dotted name belongs to; None if it is free to use."""
    if name in NAMES:
        return NAMES[name]
    first, *rest = name.split(".")
    if first != "torch" or not rest:
        return PACKAGES.get(first)
    if rest[0] == "Tensor":
        return OPERATORS.get(rest[-1]) if rest[-1] in TENSOR_METHODS else None
    # torch.ops.aten.silu.default: the operator stands before its overload.
    last = rest[2] if rest[0] == "ops" and len(rest) > 2 else rest[-1]
    inner = INNER_NAMES.get(last) if rest[0] in ("nn", "optim") else None
    return OPERATORS.get(last, inner)


def is_unlisted(name: str) -> bool:
    """Whether a name is where solutions are, and neither allowed nor known as forbidden."""
    is_inside = is_within(name, SOLUTIONS) or _is_in_a_private_module(name)
    return is_inside and name not in ALLOWED and group_of(name) is None


def _is_in_a_private_module(name: str) -> bool:
    """Whether a name is in a private module of PyTorch (torch._refs) and is not a switch."""
    parts = name.split(".")
    is_private = parts[0] == "torch" and len(parts) > 2 and parts[1].startswith("_")
    return is_private and not is_within(name, ("torch._dynamo", *REVIEWED, *SETTINGS))


def is_within(name: str, packages: Iterable[str]) -> bool:
    """Whether a dotted name is one of these packages or in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def suspicion(name: str, is_assigned: bool) -> str | None:
    """What a teacher should be told of the use of a name; None: nothing.

    Args:
        name: Dotted; "torch.*" is an attribute of torch that is chosen when the code runs.
        is_assigned: Something is stored under the name.
    """
    plain = name.removesuffix(".*").removesuffix(".__dict__")
    if is_within(plain, SETTINGS):
        return None
    if is_assigned:
        is_shared = is_within(plain, PATCHED)
        return f"{plain} is replaced for everyone in the process" if is_shared else None
    if name != plain and is_within(plain, DANGEROUS):
        return f"what is taken from {plain} is decided when the code runs"
    if group_of(name):
        return None
    origin = last_dangerous(name) or name
    found = (words for known, words in REVIEWED.items() if is_within(origin, (known,)))
    return next((f"{plain} {words}" for words in found), None)


def last_dangerous(name: str) -> str | None:
    """The name from its last dangerous module on: logging.sys.modules becomes sys.modules.

    None if there is no such module in it.
    """
    parts = name.split(".")
    places = [place for place, part in enumerate(parts) if part in DANGEROUS]
    return ".".join(parts[places[-1] :]) if places else None
