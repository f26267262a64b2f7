"""The server: its texts are those of generate, its places become free, bad input is one line."""

import contextlib
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import pytest
import torch
from models import FORMS, small_model
from page_cases import make_run, save
from processes import ROOT
from serve_cases import Served, needed
from waiting import until

from cs_basics.fast.decoding import Decoder, generate
from cs_basics.generate import GREEDY, Sampling
from cs_basics.interop.serve.inside import next_logits, operated, parts
from cs_basics.run.folder import RunFolder
from cs_basics.settings.run import END_OF_TEXT
from cs_basics.tokenizer import Tokenizer

JSON = {"Content-Type": "application/json"}
TEXT = {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 60}


@pytest.fixture(scope="module")
def run(bpe, tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("serve") / "run", Tokenizer(*bpe, [END_OF_TEXT]))


@pytest.fixture(scope="module")
def served(run):
    with Served(run, num_places=4) as server:
        yield server


def written_by_generate(run, prompt, max_tokens, sampling=GREEDY, seed=None):
    tokenizer = run.load_tokenizer()
    ids = tokenizer.encode(f"{END_OF_TEXT}\n{prompt}")
    stop_ids = tokenizer.encode(END_OF_TEXT)
    return tokenizer.decode(
        list(generate(run.load_model(), ids, max_tokens, sampling, stop_ids, seed))
    )


def texts_of(answer):
    return [choice["text"] for choice in answer["choices"]]


def long_text(**changes):
    """Ask for a text that takes seconds."""
    settings = {"temperature": 1.0, "top_k": None, "top_p": None}
    return {
        "text": [1, 2, 3], "maxTokens": 5000, "sampling": settings, "seed": 1, "numDrawn": 0,
        "stopId": -1, **changes,
    }  # fmt: skip


def test_two_readers_at_once_get_what_each_would_get_alone(served, run, monkeypatch):
    prompts = ["Once upon a time", "The cat", "Once upon a time"]
    sampling = Sampling(temperature=0.8, top_k=30, top_p=0.9)
    bodies = [{**TEXT, "prompt": prompt, "max_tokens": 200} for prompt in prompts]
    bodies[2] |= {"temperature": 0.8, "top_k": 30, "top_p": 0.9, "seed": 7}
    together, seated, logits = [None] * len(bodies), [], Decoder.logits

    def watched(*arguments):
        seated.append(sum(text is not None for text in served.batch.places))
        return logits(*arguments)

    monkeypatch.setattr(Decoder, "logits", watched)

    def read(index):
        together[index] = texts_of(served.ask("/v1/completions", bodies[index])[1])

    readers = [threading.Thread(target=read, args=(i,)) for i in range(len(bodies))]
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join()
    assert max(seated) >= 2
    expected = [written_by_generate(run, prompt, 200) for prompt in prompts[:2]]
    expected.append(written_by_generate(run, prompts[2], 200, sampling, seed=7))
    assert [text for [text] in together] == expected


def test_streamed_pieces_are_the_text(served):
    body = {
        **TEXT,
        "prompt": ["Once", "The cat"],
        "n": 2,
        "temperature": 1,
        "seed": 3,
        "echo": True,
    }
    whole = served.ask("/v1/completions", body)[1]
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, usage, done = served.events("/v1/completions", body | options)
    pieces, reasons = {}, {}
    for chunk in chunks:
        [choice] = chunk["choices"]
        assert choice["index"] not in reasons, "something came after the end"
        pieces.setdefault(choice["index"], []).append(choice["text"])
        if choice["finish_reason"]:
            reasons[choice["index"]] = choice["finish_reason"]
    assert ["".join(pieces[index]) for index in range(4)] == texts_of(whole)
    assert reasons == {one["index"]: one["finish_reason"] for one in whole["choices"]}
    for text, prompt in zip(texts_of(whole), ["Once", "Once", "The cat", "The cat"], strict=True):
        assert text.startswith(prompt)
    assert len(set(texts_of(whole))) == 4
    assert usage["usage"] == whole["usage"]
    assert done == "[DONE]"
    assert max(map(len, pieces.values())) > 10


def test_a_text_ends_before_a_stop_string_and_its_probabilities_are_counted(served, run):
    free = texts_of(served.ask("/v1/completions", TEXT)[1])[0]
    stop = free[30:33]
    body = {**TEXT, "stop": [stop, "never"], "logprobs": 2}
    _, answer = served.ask("/v1/completions", body)
    [choice] = answer["choices"]
    assert choice["text"] == free[: free.index(stop)]
    assert choice["finish_reason"] == "stop"
    found, tokenizer = choice["logprobs"], run.load_tokenizer()
    assert answer["usage"]["completion_tokens"] == len(found["tokens"])
    ids = tokenizer.encode(f"{END_OF_TEXT}\nOnce upon a time")
    assert answer["usage"]["prompt_tokens"] == len(ids)
    logits = run.load_model()(torch.tensor([ids]))[0, -1].log_softmax(-1)
    expected = logits.topk(2)
    assert found["tokens"][0] == tokenizer.decode(expected.indices[:1].tolist())
    assert found["token_logprobs"][0] == pytest.approx(expected.values[0].item(), rel=1e-4)
    assert list(found["top_logprobs"][0].values()) == pytest.approx(
        expected.values.tolist(), rel=1e-4
    )


def test_a_prompt_that_generate_would_remark_on_is_answered_with_the_same_hint(served):
    hints = [
        served.ask("/v1/completions", {**TEXT, "prompt": prompt})[1]["hints"]
        for prompt in ("Once", ["Once", "Once upon "])
    ]
    remark = "'Once upon ' ends in a blank, which belongs to the next word: leave it out"
    assert hints == [[], [remark]]


def test_token_ids_are_prompts_too(served, run):
    ids = run.load_tokenizer().encode(f"{END_OF_TEXT}\nOnce upon a time")
    found = [
        text
        for prompt in (ids, [ids], [ids, "Once upon a time"])
        for text in texts_of(served.ask("/v1/completions", {**TEXT, "prompt": prompt})[1])
    ]
    assert found == [written_by_generate(run, "Once upon a time", 60)] * 4


BAD = {
    "no prompt": ({}, "prompt: Field required"),
    "nothing": ({"prompt": [[]]}, "prompt must be a text, token ids, or a list of either that is"),
    "an unknown token": ({"prompt": [1, 5000]}, "token id 5000 is not in [0, "),
    "too long": ({"prompt": "a b " * 60}, "this model reads at most 47"),
    "a megabyte": ({"prompt": "a" * 900_000}, "it has 900000 characters, 47 tokens hold"),
    "5001 tokens": ({"prompt": "a", "max_tokens": 5001}, "less than or equal to 5000, not 5001"),
    "a string": ({"prompt": "a", "seed": "1"}, "seed: Input should be a valid integer, not '1'"),
    "top_p": ({"prompt": "a", "top_p": 0}, "top_p: Input should be greater than 0, not 0"),
    "stop": (
        {"prompt": "a", "stop": [""]},
        "stop must be a text or up to 16, each of 1 to 256 characters",
    ),
    "n": ({"prompt": ["a", "b"], "n": 3}, "n: 6 texts are asked for, at most 4 grow at once"),
    "echo": ({"prompt": "a", "echo": True, "logprobs": 1}, "logprobs: the tokens of an echoed"),
    "penalty": ({"prompt": "a", "presence_penalty": 1}, "presence_penalty is not supported here"),
    "field": ({"prompt": "a", "colour": 1}, "colour is not a field of this request"),
    "deep": (b"[" * 100_000, "the request: Invalid JSON: recursion limit exceeded"),
    "bytes": (b"\xff", "the request: Invalid JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_one_line_in_the_form_of_openai(served, name):
    body, line = BAD[name]
    status, answer = served.ask("/v1/completions", body)
    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error"
    message = answer["error"]["message"]
    assert line in message
    assert "\n" not in message
    assert len(message) < 200


def test_requests_that_are_refused_for_what_they_come_with(served):
    cases = (
        (404, "/v1/completions", {**TEXT, "model": "other"}, {}, "there is no 'other', only 'run'"),
        (404, "/glass/open", long_text(), {}, "there is no request 'open'"),
        (400, "/glass/look", {"text": [1] * 49}, {}, "look reads at most 48 tokens, not 49"),
        (400, "/glass/look", {"text": [1], "position": 1}, {}, "position: 1 is not in the text"),
        (400, "/glass/loss", {"text": [1]}, {}, "loss reads"),
        (400, "/glass/rivals", {"text": [1], "operations": {"off": ["layers.2.ffn"]}}, {},
         "the model has no part 'layers.2.ffn' that can be off"),
        (400, "/glass/rivals", {"text": [1], "operations": {"scale": {"ln_final": 2}}}, {},
         "the model has no layer 'ln_final' to scale"),
        (413, "/v1/completions", b" " * 1_000_001, {}, "more than 1,000,000 bytes"),
        (415, "/v1/completions", b"{}", {"Content-Type": "text/plain"}, "application/json"),
        (405, "/v1/completions", None, {}, "Method Not Allowed"),
    )  # fmt: skip
    for status, path, body, headers, words in cases:
        found, answer = served.ask(path, body, **headers)
        assert (found, words in answer["error"]["message"]) == (status, True), (path, answer)
    with served.asked("/", Host="rebound.example") as response:
        assert response.status == 400


@pytest.mark.parametrize("path", ["/glass/write", "/v1/completions", "/v1/completions streamed"])
def test_a_reader_who_leaves_frees_the_place(served, path):
    path, _, streamed = path.partition(" ")
    asked = {"prompt": "Once", "max_tokens": 5000, "temperature": 0, "stream": bool(streamed)}
    body = json.dumps(long_text() if path == "/glass/write" else asked)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        until(lambda: any(served.batch.places))
        [text] = filter(None, served.batch.places)
    until(served.is_idle)
    assert text.end == "gone"
    assert text.num_left > 0


def test_a_text_ends_at_the_time_limit_and_others_wait_for_its_place(run):
    with Served(run, num_places=1, max_seconds=0.4) as served:
        waiting = []
        second = threading.Thread(
            target=lambda: waiting.extend(served.events("/glass/write", long_text(maxTokens=2)))
        )
        news = served.events("/glass/write", long_text())
        next(news)
        second.start()
        *_, last = news
        second.join()
        assert last == {"result": "time"}
        # It waited for as long as it may wait, or had its turn just before.
        assert waiting[-1]["result"] in ("time", "length")
        status, answer = served.ask("/v1/completions", {**TEXT, "max_tokens": 5000})
        assert status == 200
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["completion_tokens"] < 5000


def test_scores_that_are_no_numbers_are_told_to_their_reader_alone(run, monkeypatch):
    scores = Decoder.logits

    def first_row_diverges(*arguments):
        logits = scores(*arguments)
        logits[0] = torch.nan
        return logits

    with Served(run) as served:
        first, second = (served.events("/glass/write", long_text()) for _ in range(2))
        next(first)
        next(second)
        monkeypatch.setattr(Decoder, "logits", first_row_diverges)
        *_, last = first
        assert last["error"]["type"] == "server_error"
        assert "the model failed: its scores are not finite" in last["error"]["message"]
        assert "news" in next(second)
        monkeypatch.undo()
        # The place that became free is taken, and the second text goes on growing.
        assert served.ask("/v1/completions", TEXT)[0] == 200
        assert served.batch.places[1].end is None
        second.close()


def test_a_server_that_stops_ends_its_texts(run):
    with Served(run) as served:
        news = served.events("/glass/write", long_text())
        next(news)
        served.server.should_exit = True
        *_, last = news
    assert last == {"result": "closed"}


def test_too_many_who_wait_are_turned_away_and_who_finds_a_place_does_not_wait(run, monkeypatch):
    monkeypatch.setattr("cs_basics.interop.serve.batch.MAX_WAITING", 1)
    with Served(run, num_places=2) as served:
        assert served.ask("/v1/completions", {**TEXT, "n": 2})[0] == 200
        *places, late = (served.events("/glass/write", long_text()) for _ in range(3))
        for news in places:
            next(news)
        threading.Thread(target=lambda: list(late), daemon=True).start()
        until(lambda: served.batch.waiting)
        status, answer = served.ask("/v1/completions", TEXT)
        assert (status, answer["error"]["type"]) == (503, "server_error")
        places[0].close()
        until(lambda: not served.batch.waiting)
        places[1].close()


def test_the_best_checkpoint_is_served_if_it_is_asked_for(run, tmp_path):
    copied = RunFolder(shutil.copytree(run.path, tmp_path / "run"))
    copied.best.write_text('{"checkpoint": "step-00000000.pt", "validation_loss": 1.0}')
    # A later one, which expects the contrary.
    model = copied.load_model()
    model.lm_head.weight.detach().neg_()
    save(copied, model, 1)
    expected = written_by_generate(run, TEXT["prompt"], TEXT["max_tokens"])
    for which in ("latest", "best"):
        with Served(copied, which=which) as served:
            [written] = texts_of(served.ask("/v1/completions", TEXT)[1])
            assert (written == expected) == (which == "best")


def without(model, name):
    """Take a part out by hand."""
    place, _, part = name.rpartition(".")
    block = model.get_submodule(place.removesuffix(".attn.heads"))
    with torch.no_grad():
        if ".heads" in place:
            width = block.attn.d_head
            block.attn.output_proj.weight[:, int(part) * width : (int(part) + 1) * width] = 0
        elif part == "ffn":
            block.ffn.w2.weight.zero_()
        elif part == "rope":
            block.rope = None
        else:
            setattr(block, part, torch.nn.Sequential())


@pytest.mark.parametrize("form", ["grouped, tied", "sandwich", "value residual"])
def test_parts_are_off_as_where_they_were_taken_out_by_hand(form):
    model = small_model(**FORMS[form])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    text = [7, 30, 41, 9, 12, 25, 3]
    found = [name for name in parts(model) if not name.startswith("layers.0.") or "0" in name[-1:]]
    assert any(".heads." in name for name in found)
    for name in found:
        without(by_hand := small_model(**FORMS[form]), name)
        logits = next_logits(operated(model, [name], {}), text)
        torch.testing.assert_close(logits, next_logits(by_hand, text))
        assert (logits - next_logits(model, text)).abs().max() > 1e-3, name
    scaled = next_logits(operated(model, [], {"layers.1": 0.0}), text)
    off = [f"layers.1.attn.heads.{head}" for head in range(4)] + ["layers.1.ffn"]
    torch.testing.assert_close(scaled, next_logits(operated(model, off, {}), text))
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())


def test_the_openai_package_is_a_client(served, run):
    openai = pytest.importorskip("openai", reason=needed)
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["run"]
        asked = {"model": "run", "prompt": "Once upon a time", "temperature": 0, "max_tokens": 60}
        expected = written_by_generate(run, "Once upon a time", 60)
        whole = client.completions.create(**asked)
        assert whole.choices[0].text == expected
        with client.completions.create(**asked, stream=True) as stream:
            assert "".join(chunk.choices[0].text for chunk in stream) == expected
        with pytest.raises(openai.BadRequestError, match="n: 99 texts are asked for"):
            client.completions.create(**asked, n=99)


def test_the_script_serves_until_it_is_interrupted(run):
    command = [sys.executable, ROOT / "scripts" / "serve.py", run.path, "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as server:
        try:
            url = urlsplit(server.stdout.readline().split()[0])
            connection = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
            connection.request("POST", "/glass/write", json.dumps(long_text()), JSON)
            with contextlib.closing(connection), connection.getresponse() as response:
                assert url.hostname == "127.0.0.1"
                assert b'"news"' in response.readline()
                server.send_signal(signal.SIGINT)
                assert b'data: {"result": "closed"}\n' in list(response)
            assert server.wait(20) == 130
            assert server.stderr.read().strip() == "interrupted"
        finally:
            server.kill()


def test_the_script_lets_a_limited_number_connect(script, run, monkeypatch):
    asked = {}

    def config(_app, **settings):
        asked.update(settings)
        raise ValueError("not served")

    monkeypatch.setattr("uvicorn.Config", config)
    assert "not served" in script("serve", run.path, "--port", 0).err
    assert asked["limit_concurrency"] == 64


def test_without_its_packages_serve_says_how_to_get_them(refused, run, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("cs_basics.interop.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    assert "is not installed: pip install -e '.[serve]'" in refused("serve", run.path, "--port", 0)
