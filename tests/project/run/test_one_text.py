"""One text is cut in two where a story ends, or a line, and nothing of it is lost."""

import pytest
from run_files import folder_of

from cs_basics.run.corpus import cut_text
from cs_basics.run.run import train_run

END = "<|endoftext|>\n"
STORY = f"{'The cat sat on the mat. ' * 9}\n{END}"


@pytest.mark.parametrize(
    ("content", "place", "name"),
    [
        (STORY * 100, 90 * len(STORY), "an end of text"),
        (STORY + "A line.\n" * 2000, len(STORY) + 1797 * 8, "a line end"),
        (f"{'a' * 900}\n{'b' * 40}{END}{'c' * 60}", 901 + 40 + len(END), "an end of text"),
        (f"{'a' * 880}{END[:-1]}{'b' * 100}", 880 + len(END) - 1, "an end of text within a line"),
    ],
)
def test_a_text_is_cut_at_the_mark_nearest_to_nine_tenths(tmp_path, caplog, content, place, name):
    caplog.set_level("INFO")
    text, train, valid = (tmp_path / name for name in ("text", "run/train", "run/valid"))
    text.write_text(content)
    cut_text(text, train, valid)
    assert (train.read_text(), valid.read_text()) == (content[:place], content[place:])
    assert f"cut at {name}: " in caplog.text


def test_a_text_without_a_line_end_there_is_refused(tmp_path):
    (tmp_path / "text").write_text("line\n" + "a" * 999)
    with pytest.raises(ValueError, match=r"no line end and no .* where it could be cut in two"):
        cut_text(tmp_path / "text", tmp_path / "train", tmp_path / "valid")
    assert len(list(tmp_path.iterdir())) == 1


def test_a_run_of_one_text_trains_on_its_parts_and_resumes_without_it(
    tiny_config, tmp_path, caplog
):
    text = tmp_path / "my text.txt"
    text.write_text(tiny_config.data.train_text.read_text()[:6_000])
    config = tiny_config.replace(
        text=text, train_text=None, valid_text=None, max_steps=2, batch_size=128
    )
    train_run(config)
    assert "tokens, but one batch has 4,096, and repeats what it holds" in caplog.text
    assert "tokens: a loss on so few says little" in caplog.text
    assert caplog.text.count("valid.txt: ") == 1, "of a part nothing is said that was said of all"
    parts = [folder_of(config).corpus / name for name in ("train.txt", "valid.txt")]
    assert "".join(path.read_text() for path in parts) == text.read_text()
    text.unlink()
    train_run(config.replace(max_steps=3), resume=True)
