"""The checker behind jaxtyping's hook: beartype, for which an int may stand where a float may."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
