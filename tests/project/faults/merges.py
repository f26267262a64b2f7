"""Training byte-pair encoding."""

import unicodedata
from collections import Counter, OrderedDict
from itertools import pairwise
from pathlib import Path

import regex

from faults.bank import fault, variant
from faults.tokenizers import GPT2


class PlainTraining:
    """Right training that counts everything anew for each merge; a fault overrides one step."""

    def __call__(self, input_path, vocab_size, special_tokens, **_):
        text = self.read(Path(input_path))
        words = self.counted(self.pieces(text, special_tokens))
        parts = [([bytes([b]) for b in self.to_bytes(word)], n) for word, n in words.items()]
        merges = []
        for _ in range(self.num_merges(vocab_size, special_tokens)):
            counts = self.pair_counts(parts, merges)
            if not self.go_on(counts):
                break
            best = max(counts, key=lambda pair: self.rank(pair, counts[pair]))
            merges.append(best)
            parts = [(self.merged(word, best), n) for word, n in parts]
        specials = [special.encode() for special in special_tokens]
        return self.vocab(specials, [left + right for left, right in merges]), merges

    def read(self, path):
        return path.read_bytes().decode("utf-8", "surrogateescape")

    def to_bytes(self, word):
        return word.encode("utf-8", "surrogateescape")

    def ordered_specials(self, special_tokens):
        return sorted(special_tokens, key=len, reverse=True)

    def escape(self, special):
        return regex.escape(special)

    def pieces(self, text, special_tokens):
        if not special_tokens:
            return [text]
        pattern = "|".join(map(self.escape, self.ordered_specials(special_tokens)))
        return regex.split(pattern, text)

    def words(self, piece):
        return GPT2.findall(piece)

    def counted(self, pieces):
        return Counter(word for piece in pieces for word in self.words(piece))

    def num_merges(self, vocab_size, special_tokens):
        return vocab_size - 256 - len(special_tokens)

    def pair_counts(self, parts, _):
        counts = Counter()
        for word, n in parts:
            for pair in pairwise(word):
                counts[pair] += n
        return counts

    def go_on(self, counts):
        return bool(counts)

    def rank(self, pair, count):
        return count, pair

    def merged(self, word, pair):
        result, place = [], 0
        while place < len(word):
            size = 2 if tuple(word[place : place + 2]) == pair else 1
            result.append(b"".join(word[place : place + size]))
            place += size
        return result

    def vocab(self, specials, merged):
        return dict(enumerate([*self.single_bytes(), *specials, *merged]))

    def single_bytes(self):
        return [bytes([byte]) for byte in range(256)]


def declare_with(declare):
    """Decorate a class: an instance of it stands in for run_train_bpe."""

    def decorate(training):
        declare(training())
        return training

    return decorate


def training_fault(name, diagnosis=()):
    return declare_with(fault("train_bpe", name, diagnosis))


def training_variant(name):
    return declare_with(variant("train_bpe", name))


@training_fault("line ends are translated", "line ends")
class TranslatesLineEnds(PlainTraining):
    def read(self, path):
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            return file.read()


@training_fault("invalid bytes become U+FFFD", "replaced by U+FFFD")
class ReplacesBytes(PlainTraining):
    def read(self, path):
        return path.read_bytes().decode("utf-8", "replace")


@training_fault("invalid bytes are dropped", "are dropped")
class DropsBytes(PlainTraining):
    def read(self, path):
        return path.read_bytes().decode("utf-8", "ignore")


@training_fault("invalid bytes are an error", "without bytes that are not UTF-8")
class RefusesBytes(PlainTraining):
    def read(self, path):
        return path.read_bytes().decode("utf-8")


@training_fault("text is normalised to NFC", "normalised (NFC)")
class Normalises(PlainTraining):
    def read(self, path):
        return unicodedata.normalize("NFC", super().read(path))


@training_fault("text is lowered", "text is lowered")
class Lowers(PlainTraining):
    def read(self, path):
        return super().read(path).lower()


@training_fault("the text's ends are stripped", "at the ends of the text is dropped")
class Strips(PlainTraining):
    def pieces(self, text, special_tokens):
        return [piece.strip() for piece in super().pieces(text, special_tokens)]


@training_fault("the caller's list of special tokens is sorted", "changed special_tokens")
class SortsSpecials(PlainTraining):
    def ordered_specials(self, special_tokens):
        special_tokens.sort(key=len, reverse=True)
        return special_tokens


@training_fault("the shortest special token wins", "a shorter special token wins")
class ShortestFirst(PlainTraining):
    def ordered_specials(self, special_tokens):
        return sorted(special_tokens, key=len)


@training_fault("the special token listed first wins", "listed first wins")
class ListedFirst(PlainTraining):
    def ordered_specials(self, special_tokens):
        return special_tokens


@training_fault(
    "special tokens are not escaped in the pattern",
    ("not escaped in the regular expression", "with special tokens of letters only"),
)
class NotEscaped(PlainTraining):
    def escape(self, special):
        return special


@training_fault("special tokens are counted", "counted as ordinary")
class CountsSpecials(PlainTraining):
    def pieces(self, text, _):
        return [text]


@training_fault("the text around a special token is joined", "text around them is joined")
class JoinsAround(PlainTraining):
    def pieces(self, text, special_tokens):
        return ["".join(super().pieces(text, special_tokens))]


@training_fault(
    "only the first special token is a boundary", "only the first special token is a boundary"
)
class OneSpecial(PlainTraining):
    def pieces(self, text, special_tokens):
        return super().pieces(text, special_tokens[:1])


@training_fault("text is split at white space", "white space only")
class SplitsAtSpaces(PlainTraining):
    def words(self, piece):
        return regex.findall(r"\S+|\s+", piece)


@training_fault("text is not split", "not split into pre-tokens")
class NotSplit(PlainTraining):
    def words(self, piece):
        return [piece]


@training_fault("text is read line by line", "line by line")
class LineByLine(PlainTraining):
    def words(self, piece):
        return [word for line in piece.splitlines(keepends=True) for word in GPT2.findall(line)]


@training_fault(
    "the file is cut in half without regard to what is there",
    "some inside pre-tokens or specials",
)
class CutsInHalf(PlainTraining):
    def pieces(self, text, special_tokens):
        middle, pieces = len(text) // 2, super().pieces
        halves = text[:middle], text[middle:]
        return [piece for half in halves for piece in pieces(half, special_tokens)]


@training_fault("the file is decoded in blocks of 4096 bytes", "inside a character")
class DecodesBlocks(PlainTraining):
    def read(self, path):
        content = path.read_bytes()
        blocks = (content[start : start + 4096] for start in range(0, len(content), 4096))
        return "".join(block.decode("utf-8", "surrogateescape") for block in blocks)


@training_fault("contractions are split in capitals, too", "the pattern is case-sensitive")
class SplitsInAnyCase(PlainTraining):
    def words(self, piece):
        return regex.findall(GPT2.pattern, piece, regex.IGNORECASE)


@training_fault("runs of spaces keep their last one", "the pattern lacks")
class SplitsWithoutLookahead(PlainTraining):
    def words(self, piece):
        return regex.findall(GPT2.pattern.replace(r"|\s+(?!\S)", ""), piece)


@training_fault("each pair counts once in a pre-token", "counts once in a pre-token")
class CountsOnce(PlainTraining):
    def pair_counts(self, parts, _):
        counts = Counter()
        for word, n in parts:
            for pair in set(pairwise(word)):
                counts[pair] += n
        return counts


@training_fault("merges are lists", "a merge of type list")
class ListsOfLists(PlainTraining):
    def __call__(self, *arguments, **options):
        vocab, merges = super().__call__(*arguments, **options)
        return vocab, [list(merge) for merge in merges]


@training_fault("merges are text", "part of a merge of type str")
class Text(PlainTraining):
    def __call__(self, *arguments, **options):
        vocab, merges = super().__call__(*arguments, **options)
        return vocab, [tuple(part.decode("latin-1") for part in merge) for merge in merges]


@training_fault("each distinct pre-token counts once", "counted once, however")
class Unweighted(PlainTraining):
    def counted(self, pieces):
        return Counter(set(super().counted(pieces)))


@training_fault("special tokens do not count in vocab_size", "past vocab_size")
class GoesPast(PlainTraining):
    def num_merges(self, vocab_size, _):
        return vocab_size - 256


@training_fault("one merge too few", "one merge early")
class OneLess(PlainTraining):
    def num_merges(self, vocab_size, special_tokens):
        return super().num_merges(vocab_size, special_tokens) - 1


@training_fault("pairs that occur once are not merged", "occur only once are not merged")
class StopsAtTwo(PlainTraining):
    def go_on(self, counts):
        return max(counts.values(), default=0) > 1


@training_fault("a text without pairs is an error", "with as many merges as there are pairs")
class NeedsPairs(PlainTraining):
    def go_on(self, counts):
        return max(counts.values()) > 0


@training_fault("overlapping pairs count once", "overlapping")
class WithoutOverlap(PlainTraining):
    def pair_counts(self, parts, _):
        counts = Counter()
        for word, n in parts:
            last = None
            for pair in pairwise(word):
                if pair == last and pair[0] == pair[1]:
                    last = None
                else:
                    counts[pair] += n
                    last = pair
        return counts


@training_fault("counts of neighbours are not lowered", "not lowered")
class StaleCounts(PlainTraining):
    def pair_counts(self, parts, merges):
        if not merges:
            self.known = Counter()
        for pair, count in super().pair_counts(parts, merges).items():
            self.known[pair] = max(self.known[pair], count)
        for pair in merges:
            self.known.pop(pair, None)
        return self.known


@training_fault("ties go to the smaller pair", "smaller pair")
class SmallerPair(PlainTraining):
    def rank(self, pair, count):
        inverted = tuple((*(255 - byte for byte in part), 256) for part in pair)
        return count, inverted


@training_fault("ties go to the pair seen first", "seen first")
class SeenFirst(PlainTraining):
    def rank(self, _, count):
        return count


@training_fault("ties are broken by decoded text", "decoded text")
class ByDecodedText(PlainTraining):
    def rank(self, pair, count):
        return count, tuple(part.decode("utf-8", "replace") for part in pair)


@training_fault("ties are broken by the joined bytes", "joined bytes")
class ByJoinedBytes(PlainTraining):
    def rank(self, pair, count):
        return count, pair[0] + pair[1]


@training_fault("ties go to the longer pair", "ties go to the longer pair")
class LongerPair(PlainTraining):
    def rank(self, pair, count):
        return count, len(pair[0] + pair[1]), pair


@training_fault("repeated pairs are merged from the right", "merged from the right")
class FromTheRight(PlainTraining):
    def merged(self, word, pair):
        backwards = super().merged(
            [part[::-1] for part in word[::-1]], (pair[1][::-1], pair[0][::-1])
        )
        return [part[::-1] for part in backwards[::-1]]


@training_fault("only the first occurrence in a pre-token is merged", "first occurrence in")
class MergesOnce(PlainTraining):
    def merged(self, word, pair):
        for i, candidate in enumerate(pairwise(word)):
            if candidate == pair:
                return [*word[:i], pair[0] + pair[1], *word[i + 2 :]]
        return word


@training_fault("special tokens are not in the vocabulary", "lacks")
class WithoutSpecials(PlainTraining):
    def vocab(self, _, merged):
        return super().vocab([], merged)


@training_fault("the vocabulary lacks bytes above 127", "lacks")
class AsciiOnly(PlainTraining):
    def single_bytes(self):
        return super().single_bytes()[:128]


@training_fault("bytes above 127 are their UTF-8 in the vocabulary", "lacks")
class EncodedBytes(PlainTraining):
    def single_bytes(self):
        return [chr(byte).encode() for byte in range(256)]


@training_fault("ids count from 1", "expected 0 to")
class FromOne(PlainTraining):
    def vocab(self, specials, merged):
        return {number + 1: token for number, token in super().vocab(specials, merged).items()}


training_variant("written out")(PlainTraining)


@training_variant("it prints, takes no other keyword and returns an ordered dict")
class Printing(PlainTraining):
    def __call__(self, input_path, vocab_size, special_tokens):
        print(f"learning from {input_path}")
        vocab, merges = super().__call__(input_path, vocab_size, special_tokens)
        return OrderedDict(vocab), merges


@training_variant("it refuses a text without any pair")
class RefusesNothing(PlainTraining):
    def __call__(self, input_path, vocab_size, special_tokens):
        vocab, merges = super().__call__(input_path, vocab_size, special_tokens)
        if not merges and vocab_size > 256 + len(special_tokens):
            raise ValueError("the text has no pair to merge")
        return vocab, merges


@training_variant("special tokens come first in the vocabulary")
class SpecialsFirst(PlainTraining):
    def vocab(self, specials, merged):
        return dict(enumerate([*specials, *self.single_bytes(), *merged]))


@training_variant("special tokens come last in the vocabulary")
class SpecialsLast(PlainTraining):
    def vocab(self, specials, merged):
        return dict(enumerate([*self.single_bytes(), *merged, *specials]))


@training_variant("ties are compared as Latin-1 text")
class ByLatin(PlainTraining):
    def rank(self, pair, count):
        return count, pair[0].decode("latin-1"), pair[1].decode("latin-1")
