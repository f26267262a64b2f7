"""What an item asks beyond the plain call, in the words that whoever fails there alone is told.

Each difficulty is a claim of its own (rubric.toml). Its items ask in the plain way first, and then
with the difficulty, in `compare.noting`.
"""

TWO_AXES = "with two leading axes; there may be any number, also none"
ONE_BATCH_AXIS = "with exactly one batch axis; there may be any number, also none"
CONTIGUOUS = "on contiguous tensors; view() needs those, reshape() and rearrange() take any"
NOT_EMPTY = "with rows in the batch; there may be none"
OTHER_SIZES = (
    "with 2 rows of 5 positions; there may be more or fewer, also one of each (does squeeze() drop"
    " an axis, or is a mask of an earlier call kept?)"
)
D_FF_OF_64 = "with d_ff=64; it is not to be rounded up, nor worked out from d_model"
OTHER_SETTINGS = (
    "with theta=100, heads of size 4 and max_seq_len=16; another module may be made with others"
    " (is a table kept in the class, or in a cache that does not look at all of these?)"
)
ROWS_OF_POSITIONS = "with one row of positions for all; each batch row may have its own"
OTHER_TABLE = "If a call alone is right: is a table of another theta, d_k or length kept?"
"""Said of what goes wrong in the course of several calls."""
