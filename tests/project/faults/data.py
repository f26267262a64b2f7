"""Batches and checkpoints."""

import copy
import pickle
import random
from pathlib import Path

import numpy as np
import torch

from faults.bank import REFERENCE, fault, variant


def draw(*shape, below, first=0):
    """Random integers from torch, which the examination seeds before each item."""
    return torch.randint(first, below, shape).numpy()


def every_start(room, batch_size, _):
    return draw(batch_size, below=room)


def batches(starts=every_start, shift=1, dtype=torch.int64):
    """Make an adapter that cuts windows at `starts(room, batch_size, context_length)`.

    `room` is the number of starts that leave room for a window and its last target.
    """

    def run_get_batch(dataset, batch_size, context_length, device):
        chosen = starts(len(dataset) - context_length, batch_size, context_length)
        windows = chosen[:, None] + np.arange(context_length)
        both = (dataset[windows], dataset[windows + shift])
        return tuple(torch.tensor(np.asarray(ids, np.int64)).to(device, dtype) for ids in both)

    return run_get_batch


def data_fault(name, diagnosis=()):
    return fault("data_loading", name, diagnosis)


data_fault("the last start is left out", ("last start is left out", "leave room for a window"))(
    batches(lambda room, batch, _: draw(batch, below=room - 1))
)
data_fault(
    "the first start is left out", ("the first start is left out", "leave room for a window")
)(batches(lambda room, batch, _: draw(batch, below=room, first=1)))


@data_fault("the whole memory-mapped file is read", "of a memory-mapped file for")
def reads_everything(dataset, **given):
    return REFERENCE.run_get_batch(dataset=dataset.astype(np.int64), **given)


data_fault("one start too many", "leave room for a window")(
    batches(lambda room, batch, _: draw(batch, below=room + 1))
)
data_fault("the targets are not shifted", "not shifted")(batches(shift=0))
data_fault("the targets are two tokens later", ("two tokens later", "leave room for a window"))(
    batches(lambda room, batch, _: draw(batch, below=room - 1), shift=2)
)
data_fault("the ids are int32", "int64")(batches(dtype=torch.int32))
data_fault("the ids are floats", "int64")(batches(dtype=torch.float32))
data_fault("the windows lie side by side", "side by side")(
    batches(lambda room, batch, length: (np.arange(batch) * length + draw(below=room)) % room)
)
data_fault("starts are multiples of the context length", "multiples of context_length")(
    batches(lambda room, batch, length: draw(batch, below=max(1, room // length)) * length)
)
data_fault("all rows start at one place", "all rows")(
    batches(lambda room, batch, _: np.full(batch, draw(below=room)))
)
data_fault("every call draws the same batch", "same batch")(
    batches(lambda room, batch, _: np.random.default_rng(0).integers(0, room, batch))
)
data_fault("early starts are likelier", "expected about 200 each")(
    batches(lambda room, batch, _: draw(2, batch, below=room).min(0))
)
data_fault("a dataset that is too short is read in a circle", "without an error")(
    batches(lambda room, batch, _: draw(batch, below=max(room, 1)) - (room <= 0))
)


@data_fault("only x goes to the device", "both go to the device")
def half_on_the_device(device, **given):
    x, y = REFERENCE.run_get_batch(device="cpu", **given)
    return x.to(device), y


@data_fault("the generator is seeded at every call", "same batch")
def seeded_anew(dataset, batch_size, context_length, device):
    starts = np.random.RandomState(1).randint(0, len(dataset) - context_length, batch_size)
    return windows_one_by_one(dataset, starts, context_length, device)


@data_fault("ids pass through int16", "pass through int16")
def through_int16(dataset, **given):
    return REFERENCE.run_get_batch(dataset=dataset.astype(np.int16), **given)


@data_fault("a dataset that is too short is padded", "without an error")
def padded_at_the_end(dataset, batch_size, context_length, **_):
    starts = draw(batch_size, below=max(1, len(dataset) - context_length))
    places = np.minimum(starts[:, None] + np.arange(context_length + 1), len(dataset) - 1)
    ids = torch.tensor(np.asarray(dataset[places], np.int64))
    return ids[:, :-1], ids[:, 1:]


@data_fault("the dataset is sorted in place", "the dataset is sorted")
def dataset_changed(dataset, **given):
    if dataset.flags.writeable:
        dataset.sort()
    return REFERENCE.run_get_batch(dataset=dataset, **given)


@data_fault("x and y come in the wrong order", "x and y are swapped")
def swapped(**given):
    x, y = REFERENCE.run_get_batch(**given)
    return y, x


def windows_one_by_one(dataset, starts, context_length, device):
    def cut(i):
        return torch.from_numpy(np.asarray(dataset[i : i + context_length], np.int64))

    x, y = torch.stack([cut(i) for i in starts]), torch.stack([cut(i + 1) for i in starts])
    return x.to(device), y.to(device)


variant("data_loading", "windows cut at once")(batches())


@variant("data_loading", "starts drawn by torch, windows cut one by one")
def starts_by_torch(dataset, batch_size, context_length, device):
    starts = torch.randint(len(dataset) - context_length, (batch_size,)).tolist()
    return windows_one_by_one(dataset, starts, context_length, device)


@variant("data_loading", "starts drawn by NumPy's old functions")
def starts_by_old_numpy(dataset, batch_size, context_length, device):
    starts = np.random.randint(0, len(dataset) - context_length, size=batch_size)  # noqa: NPY002
    return windows_one_by_one(dataset, starts, context_length, device)


@variant("data_loading", "starts drawn by Python's random")
def starts_by_random(dataset, batch_size, context_length, device):
    last = len(dataset) - context_length - 1
    starts = [random.randint(0, last) for _ in range(batch_size)]
    rows = torch.tensor(
        np.stack([dataset[i : i + context_length + 1] for i in starts]).astype(np.int64)
    )
    return rows[:, :-1].to(device), rows[:, 1:].to(device)


@variant("data_loading", "starts drawn by a generator of its own")
def starts_by_own_generator(dataset, batch_size, context_length, device):
    generator = np.random.default_rng(int(draw(below=2**31)))
    starts = generator.integers(0, len(dataset) - context_length, batch_size)
    return windows_one_by_one(dataset, starts, context_length, device)


def checkpoint_fault(name, diagnosis=()):
    return fault("checkpointing", name, diagnosis)


def save(model, optimizer, iteration, out):
    content = {"m": model.state_dict(), "o": optimizer.state_dict(), "i": iteration}
    torch.save(content, out)


def load(src, model, optimizer):
    content = torch.load(src)
    model.load_state_dict(content["m"])
    optimizer.load_state_dict(content["o"])
    return content["i"]


class Saving:
    """Saves and loads rightly, without anything of the library; a fault overrides one method."""

    run_save_checkpoint = staticmethod(save)
    run_load_checkpoint = staticmethod(load)


def saving(change):
    """Stand in for run_save_checkpoint alone, in a file layout that `load` understands."""
    return type("Saving", (), {"run_save_checkpoint": change, "run_load_checkpoint": load})


def loading(change):
    return type("Loading", (), {"run_save_checkpoint": save, "run_load_checkpoint": change})


@checkpoint_fault("the optimizer is not restored", "moments start again")
@loading
def no_optimizer(src, model, optimizer):
    return load(src, model, copy.deepcopy(optimizer))


@checkpoint_fault("parameters that are not trained are not saved", "not trained are not saved")
class OnlyTrained(Saving):
    @staticmethod
    def run_save_checkpoint(model, optimizer, iteration, out):
        frozen = {name for name, weight in model.named_parameters() if not weight.requires_grad}
        kept = {name: value for name, value in model.state_dict().items() if name not in frozen}
        torch.save({"m": kept, "o": optimizer.state_dict(), "i": iteration}, out)

    @staticmethod
    def run_load_checkpoint(src, model, optimizer):
        content = torch.load(src)
        model.load_state_dict(content["m"], strict=False)
        optimizer.load_state_dict(content["o"])
        return content["i"]


@checkpoint_fault("saving switches the model to evaluation", "set model.training to False")
@saving
def saves_in_evaluation(model, **given):
    save(model.eval(), **given)


@checkpoint_fault("loading switches the model to evaluation", "set model.training to False")
@loading
def loads_for_evaluation(src, model, optimizer):
    iteration = load(src, model, optimizer)
    model.eval()
    return iteration


@checkpoint_fault("loading replaces the parameters", "still steps the old ones")
@loading
def replaces_parameters(src, model, optimizer):
    content = torch.load(src)
    model.load_state_dict(content["m"], assign=True)
    optimizer.load_state_dict(content["o"])
    return content["i"]


@checkpoint_fault("the model is not restored", "not restored")
@loading
def no_model(src, model, optimizer):
    return load(src, copy.deepcopy(model), optimizer)


@checkpoint_fault("the next iteration is returned", "returned iteration")
@loading
def next_iteration(**given):
    return load(**given) + 1


@checkpoint_fault("the iteration is not returned", "returned iteration")
@loading
def no_iteration(**given):
    load(**given)


@checkpoint_fault("the iteration is returned as a tensor of float32", "returned iteration")
@loading
def float_iteration(**given):
    return torch.tensor(load(**given), dtype=torch.float32)


@checkpoint_fault("buffers are not restored", "buffer")
@loading
def no_buffers(src, model, optimizer):
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    iteration = load(src, model, optimizer)
    model.load_state_dict(buffers, strict=False)
    return iteration


@checkpoint_fault("the learning rate is not restored", "lr")
@loading
def own_rate(src, model, optimizer):
    rate = optimizer.param_groups[0]["lr"]
    iteration = load(src, model, optimizer)
    optimizer.param_groups[0]["lr"] = rate
    return iteration


@checkpoint_fault("of the optimizer only the learning rate is restored", "moments start again")
@loading
def only_rate(src, model, optimizer):
    other = copy.deepcopy(optimizer)
    iteration = load(src, model, other)
    optimizer.param_groups[0]["lr"] = other.param_groups[0]["lr"]
    return iteration


@checkpoint_fault("of the optimizer all but the weight decay is restored")
@loading
def own_decay(src, model, optimizer):
    decay = optimizer.param_groups[0]["weight_decay"]
    iteration = load(src, model, optimizer)
    optimizer.param_groups[0]["weight_decay"] = decay
    return iteration


@checkpoint_fault("a bytes buffer is not read", "binary file object may be given")
@loading
def from_paths_only(src, model, optimizer):
    with Path(src).open("rb") as file:
        return load(file, model, optimizer)


@checkpoint_fault("a file object is not written", "binary file object may be given")
@saving
def to_paths_only(out, **given):
    with Path(out).open("wb") as file:
        save(out=file, **given)


@checkpoint_fault("paths must be strings", "with the path as a string")
@saving
def to_strings_only(out, **given):
    save(out=out + "" if not hasattr(out, "write") else out, **given)


@checkpoint_fault("the file object is closed", "closed the file object")
@saving
def closes_its_file(out, **given):
    save(out=out, **given)
    if hasattr(out, "close"):
        out.close()


@checkpoint_fault("weights are saved in float16", "saved in float16")
@saving
def halved(model, **given):
    save(model=copy.deepcopy(model).half(), **given)


@checkpoint_fault("saving clears the optimizer", "saving clears the optimizer's state")
@saving
def clears_on_saving(model, optimizer, iteration, out):
    save(model, optimizer, iteration, out)
    optimizer.state.clear()


@checkpoint_fault("saving moves the model to float64", "weights float64, they were float32")
@saving
def widens_on_saving(model, optimizer, iteration, out):
    save(model.double(), optimizer, iteration, out)


@checkpoint_fault("the live tensors are remembered, not written", "live tensors are kept")
class Remembered:
    content = None

    @staticmethod
    def run_save_checkpoint(model, optimizer, iteration, out):
        torch.save({}, out)
        Remembered.content = (model.state_dict(), optimizer.state_dict(), iteration)

    @staticmethod
    def run_load_checkpoint(src, model, optimizer):
        torch.load(src)
        weights, moments, iteration = Remembered.content
        model.load_state_dict(weights)
        optimizer.load_state_dict(moments)
        return iteration


variant("checkpointing", "torch.save and torch.load")(Saving)


@variant("checkpointing", "a pickle of NumPy arrays in a layout of its own")
class Pickled:
    @staticmethod
    def run_save_checkpoint(model, optimizer, iteration, out):
        weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
        content = pickle.dumps([weights, optimizer.state_dict(), {"step": iteration}])
        if hasattr(out, "write"):
            out.write(content)
        else:
            Path(out).write_bytes(content)

    @staticmethod
    def run_load_checkpoint(src, model, optimizer):
        content = src.read() if hasattr(src, "read") else Path(src).read_bytes()
        weights, moments, rest = pickle.loads(content)
        own = model.state_dict()
        for name in own:
            own[name].copy_(torch.from_numpy(weights[name]))
        optimizer.load_state_dict(moments)
        return rest["step"]


@variant("checkpointing", "the objects' states in a tuple, copied to the CPU")
class Tuple:
    @staticmethod
    def run_save_checkpoint(model, optimizer, iteration, out):
        weights = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
        torch.save((iteration, weights, optimizer.state_dict()), out)

    @staticmethod
    def run_load_checkpoint(src, model, optimizer):
        iteration, weights, moments = torch.load(src, map_location="cpu", weights_only=False)
        model.load_state_dict(weights)
        optimizer.load_state_dict(moments)
        return iteration
