"""Encoding and decoding: the class whose instances get_tokenizer returns."""

import re
import unicodedata
from itertools import pairwise

import numpy as np
import regex

from faults.bank import REFERENCE, fault, variant

GPT2 = regex.compile(r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
GPT2_IN_ASCII = re.compile(
    r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
)
GPT4 = regex.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)| ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)


class PlainTokenizer:
    """A right tokenizer in small steps; a fault overrides one."""

    pattern = GPT2

    def __init__(self, vocab, merges, special_tokens=None):
        self.vocab = dict(vocab)
        self.merges = merges
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.specials = list(special_tokens or [])
        for special in self.specials:
            if special.encode() not in self.vocab.values():
                self.vocab[self.new_id(vocab)] = special.encode()
        self.ids = {token: number for number, token in self.vocab.items()}

    def new_id(self, _):
        return max(self.vocab) + 1

    def ordered_specials(self):
        return sorted(self.specials, key=len, reverse=True)

    def escape(self, special):
        return regex.escape(special)

    def pieces(self, text):
        specials = self.ordered_specials()
        if not specials:
            return [text]
        return regex.split(f"({'|'.join(map(self.escape, specials))})", text)

    def words(self, piece):
        return self.pattern.findall(piece)

    def bytes_of(self, word):
        return [bytes([byte]) for byte in word.encode()]

    def next_merge(self, parts):
        """The place of the pair to merge next, or None."""
        ranked = [
            (self.ranks[pair], place)
            for place, pair in enumerate(pairwise(parts))
            if pair in self.ranks
        ]
        return min(ranked)[1] if ranked else None

    def tokens(self, word):
        parts = self.bytes_of(word)
        while (place := self.next_merge(parts)) is not None:
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        return parts

    def encode(self, text):
        ids = []
        for piece in self.pieces(text):
            if piece in self.specials:
                ids.append(self.ids[piece.encode()])
            else:
                words = self.words(piece)
                ids += [self.ids[token] for word in words for token in self.tokens(word)]
        return ids

    def encode_iterable(self, iterable):
        right = REFERENCE.get_tokenizer(self.vocab, self.merges, self.specials or None)
        yield from right.encode_iterable(iterable)

    def decode(self, ids):
        return b"".join(self.vocab[number] for number in ids).decode("utf-8", "replace")


def tokenizer_fault(name, diagnosis=()):
    return fault("tokenizer", name, diagnosis)


@tokenizer_fault("the longest token wins, merges are not looked at", "longest token in the vocab")
class Greedy(PlainTokenizer):
    def tokens(self, word):
        rest, tokens = word.encode(), []
        while rest:
            size = next(size for size in range(len(rest), 0, -1) if rest[:size] in self.ids)
            tokens.append(rest[:size])
            rest = rest[size:]
        return tokens


@tokenizer_fault("the merges are not applied", "merges are not applied")
class BytesOnly(PlainTokenizer):
    def tokens(self, word):
        return self.bytes_of(word)


@tokenizer_fault(
    "the leftmost pair is merged first, whatever its rank", "leftmost pair is merged first"
)
class LeftFirst(PlainTokenizer):
    def next_merge(self, parts):
        return next((i for i, pair in enumerate(pairwise(parts)) if pair in self.ranks), None)


@tokenizer_fault(
    "the rank of a merge is the id of its token, any pair may make it",
    "any pair whose bytes make a token",
)
class RankedById(PlainTokenizer):
    def next_merge(self, parts):
        joined = [left + right for left, right in pairwise(parts)]
        known = [(self.ids[token], i) for i, token in enumerate(joined) if token in self.ids]
        return min(known)[1] if known else None


@tokenizer_fault("repeated pairs are merged from the right", "merged from the right")
class FromTheRight(PlainTokenizer):
    def next_merge(self, parts):
        pairs = enumerate(pairwise(parts))
        ranked = [(self.ranks[pair], -place) for place, pair in pairs if pair in self.ranks]
        return -min(ranked)[1] if ranked else None


@tokenizer_fault("only the first place of a merge is merged", "applied to the first place only")
class MergesOnce(PlainTokenizer):
    def tokens(self, word):
        parts = self.bytes_of(word)
        for left, right in self.merges:
            for i, pair in enumerate(pairwise(parts)):
                if pair == (left, right):
                    parts[i : i + 2] = [left + right]
                    break
        return parts


@tokenizer_fault("text is split at white space", "white space only")
class SplitAtSpaces(PlainTokenizer):
    pattern = re.compile(r"\S+|\s+")


@tokenizer_fault("text is split like GPT-4's", "GPT-4's pattern")
class SplitLikeGPT4(PlainTokenizer):
    pattern = GPT4


@tokenizer_fault("only ASCII letters and digits are known", "only ASCII letters")
class SplitInAscii(PlainTokenizer):
    pattern = GPT2_IN_ASCII


@tokenizer_fault("contractions are split in capitals, too", "the pattern is case-sensitive")
class SplitInAnyCase(PlainTokenizer):
    pattern = regex.compile(GPT2.pattern, regex.IGNORECASE)


@tokenizer_fault("runs of spaces keep their last one", "lacks")
class SplitWithoutLookahead(PlainTokenizer):
    pattern = regex.compile(GPT2.pattern.replace(r"|\s+(?!\S)", ""))


@tokenizer_fault("the merges are sorted", "merges are sorted")
class SortsMerges(PlainTokenizer):
    def __init__(self, vocab, merges, special_tokens=None):
        super().__init__(vocab, sorted(merges), special_tokens)


@tokenizer_fault("words are remembered for all tokenizers at once", "shared by all tokenizers")
class SharedMemory(PlainTokenizer):
    known = {}  # noqa: RUF012  that is the fault

    def tokens(self, word):
        if word not in self.known:
            self.known[word] = super().tokens(word)
        return [token for token in self.known[word] if token in self.ids]


@tokenizer_fault("encoding copies all ids for each word", "from the start for each token")
class CopiesAllIds(PlainTokenizer):
    def encode(self, text):
        ids = []
        for piece in self.pieces(text):
            if piece in self.specials:
                ids = [*ids, self.ids[piece.encode()]]
                continue
            while match := self.pattern.match(piece):
                # What is left of the text is searched anew for special tokens, as at the start.
                piece = piece[match.end() :]
                any(piece.find(chr(letter)) >= 0 for letter in range(0xE000, 0xE010))
                ids = [*ids, *(self.ids[token] for token in self.tokens(match.group()))]
        return ids


@tokenizer_fault("encode_iterable yields lists", "gave a list in place of an id")
class YieldsLists(PlainTokenizer):
    def encode_iterable(self, iterable):
        for number in super().encode_iterable(iterable):
            yield [number]


@tokenizer_fault("decoding leaves out special tokens", "special tokens are left out")
class DecodesWithoutSpecials(PlainTokenizer):
    def decode(self, ids):
        specials = {self.ids[special.encode()] for special in self.specials}
        return super().decode([number for number in ids if number not in specials])


@tokenizer_fault("text is not split", "whole text")
class NotSplit(PlainTokenizer):
    def words(self, piece):
        return [piece]


@tokenizer_fault("the special token listed first wins", "listed first")
class ListedFirst(PlainTokenizer):
    def ordered_specials(self):
        return self.specials


@tokenizer_fault("the shortest special token wins", "shorter special")
class ShortestFirst(PlainTokenizer):
    def ordered_specials(self):
        return sorted(self.specials, key=len)


@tokenizer_fault("special tokens are ordinary text", "ordinary text")
class WithoutSpecials(PlainTokenizer):
    def ordered_specials(self):
        return []


@tokenizer_fault(
    "special tokens are not escaped in the pattern",
    ("not escaped in the regular expression", "with special tokens of letters only"),
)
class NotEscaped(PlainTokenizer):
    def escape(self, special):
        return special


@tokenizer_fault(
    "special tokens that the vocabulary lacks are not added", "if the vocabulary holds"
)
class NotAdded(PlainTokenizer):
    def __init__(self, vocab, merges, special_tokens=None):
        super().__init__(vocab, merges, special_tokens)
        self.vocab = dict(vocab)
        self.ids = {token: number for number, token in self.vocab.items()}


@tokenizer_fault("special tokens that the vocabulary lacks share one id", "one id of its own")
class OneIdForAll(PlainTokenizer):
    def new_id(self, vocab):
        return len(vocab)


@tokenizer_fault(
    "the special tokens' ids follow the vocabulary's size, not its greatest id", "one id of its own"
)
class IdBySize(PlainTokenizer):
    def new_id(self, _):
        return len(self.vocab)


@tokenizer_fault("the caller's list of special tokens is sorted", "changed its argument special")
class SortsSpecials(PlainTokenizer):
    def __init__(self, vocab, merges, special_tokens=None):
        if special_tokens:
            special_tokens.sort(key=len, reverse=True)
        super().__init__(vocab, merges, special_tokens)


@tokenizer_fault("the caller's merges are used up", "changed its argument merges")
class UsesUpMerges(PlainTokenizer):
    def __init__(self, vocab, merges, special_tokens=None):
        own = [merges.pop(0) for _ in range(len(merges))]
        super().__init__(vocab, own, special_tokens)


@tokenizer_fault("words of more than 60 bytes are not merged", "long pre-tokens are not merged")
class ShortWordsOnly(PlainTokenizer):
    def tokens(self, word):
        return super().tokens(word) if len(word.encode()) <= 60 else self.bytes_of(word)


@tokenizer_fault("white space at the ends is dropped", "white space at the ends is dropped")
class Strips(PlainTokenizer):
    def pieces(self, text):
        return super().pieces(text.strip())


@tokenizer_fault("text is normalised to NFC", "normalised (NFC)")
class Normalises(PlainTokenizer):
    def pieces(self, text):
        return super().pieces(unicodedata.normalize("NFC", text))


@tokenizer_fault("line ends are translated", "becomes \\n")
class TranslatesLineEnds(PlainTokenizer):
    def pieces(self, text):
        return super().pieces(text.replace("\r\n", "\n"))


@tokenizer_fault("text is lowered", "text is lowered")
class Lowers(PlainTokenizer):
    def words(self, piece):
        return super().words(piece.lower())


@tokenizer_fault("encode returns a tuple", "tuple")
class Tuples(PlainTokenizer):
    def encode(self, text):
        return tuple(super().encode(text))


@tokenizer_fault("ids are NumPy integers", "int64")
class NumpyIds(PlainTokenizer):
    def encode(self, text):
        return [np.int64(number) for number in super().encode(text)]


@tokenizer_fault("each chunk is encoded on its own", "each chunk is encoded")
class ChunkByChunk(PlainTokenizer):
    def encode_iterable(self, iterable):
        for chunk in iterable:
            yield from self.encode(chunk)


@tokenizer_fault("the text is encoded line by line", "line by line")
class LineByLine(PlainTokenizer):
    def encode_iterable(self, iterable):
        kept = ""
        for chunk in iterable:
            *lines, kept = (kept + chunk).split("\n")
            for line in lines:
                yield from self.encode(line + "\n")
        yield from self.encode(kept)


@tokenizer_fault("encode_iterable joins all chunks first", "constant memory")
class JoinsFirst(PlainTokenizer):
    def encode_iterable(self, iterable):
        yield from self.encode("".join(iterable))


@tokenizer_fault("encode_iterable keeps all text that it has encoded", "more memory than")
class KeepsEverything(PlainTokenizer):
    def encode_iterable(self, iterable):
        kept = []

        def noted():
            for chunk in iterable:
                kept.append(chunk)
                yield chunk

        yield from super().encode_iterable(noted())


@tokenizer_fault("encode_iterable reads everything before the first id", "constant memory")
class ReadsFirst(PlainTokenizer):
    def encode_iterable(self, iterable):
        yield from super().encode_iterable(iter(list(iterable)))


@tokenizer_fault("two streams of one tokenizer share their rest", "while others")
class SharedRest(PlainTokenizer):
    rest = ""

    def encode_iterable(self, iterable):
        for chunk in iterable:
            self.rest += chunk
            if " " in self.rest.strip():
                place = self.rest.rindex(" ")
                whole, self.rest = self.rest[:place], self.rest[place:]
                yield from self.encode(whole)
        yield from self.encode(self.rest)
        self.rest = ""


@tokenizer_fault(
    "encode_iterable flushes at the last line end of a chunk", "last line end of a chunk"
)
class FlushesAtLineEnds(PlainTokenizer):
    def encode_iterable(self, iterable):
        kept = ""
        for chunk in iterable:
            kept += chunk
            if "\n" in kept:
                whole, kept = kept.rsplit("\n", 1)
                yield from self.encode(whole + "\n")
        yield from self.encode(kept)


@tokenizer_fault("encode_iterable drops the end of the text", "the end is missing")
class DropsTheEnd(PlainTokenizer):
    def encode_iterable(self, iterable):
        yield from list(super().encode_iterable(iterable))[:-1]


@tokenizer_fault("encode_iterable returns a list", "no iterator")
class ListNotIterator(PlainTokenizer):
    def encode_iterable(self, iterable):
        return self.encode("".join(iterable))


@tokenizer_fault("each token is decoded on its own", "decoded on its own")
class DecodesEach(PlainTokenizer):
    def decode(self, ids):
        return "".join(self.vocab[number].decode("utf-8", "replace") for number in ids)


@tokenizer_fault("malformed bytes are dropped in decoding", "malformed bytes are dropped")
class DecodesIgnoring(PlainTokenizer):
    def decode(self, ids):
        return b"".join(self.vocab[number] for number in ids).decode("utf-8", "ignore")


@tokenizer_fault("malformed bytes are an error in decoding", "with ids of whole characters")
class DecodesStrictly(PlainTokenizer):
    def decode(self, ids):
        return b"".join(self.vocab[number] for number in ids).decode("utf-8")


@tokenizer_fault("bytes are decoded as Latin-1", "Latin-1")
class DecodesLatin(PlainTokenizer):
    def decode(self, ids):
        return b"".join(self.vocab[number] for number in ids).decode("latin-1")


variant("tokenizer", "written out")(PlainTokenizer)


@variant("tokenizer", "it prints, and keeps nothing but copies")
class Printing(PlainTokenizer):
    def __init__(self, vocab, merges, special_tokens=None):
        print(f"a tokenizer of {len(vocab)} tokens")
        super().__init__(dict(vocab), [tuple(merge) for merge in merges], special_tokens)
        self.byte_of = {number: token for token, number in self.ids.items()}

    def decode(self, ids):
        return bytes(byte for i in ids for byte in self.byte_of[i]).decode(errors="replace")


@variant("tokenizer", "merge after merge over the whole word")
class MergeAfterMerge(PlainTokenizer):
    def tokens(self, word):
        parts = self.bytes_of(word)
        for left, right in self.merges:
            if len(parts) == 1:
                break
            merged, rest = [], iter(range(len(parts)))
            for i in rest:
                if parts[i : i + 2] == [left, right]:
                    merged.append(left + right)
                    next(rest)
                else:
                    merged.append(parts[i])
            parts = merged
        return parts


@variant("tokenizer", "words are remembered, specials are found by a search")
class Remembering(PlainTokenizer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.known = {}

    def tokens(self, word):
        if word not in self.known:
            self.known[word] = super().tokens(word)
        return self.known[word]

    def pieces(self, text):
        found, start, specials = [], 0, self.ordered_specials()
        pattern = regex.compile("|".join(map(regex.escape, specials)) or r"(?!)")
        for match in pattern.finditer(text):
            found += [text[start : match.start()], match.group()]
            start = match.end()
        return [*found, text[start:]]
